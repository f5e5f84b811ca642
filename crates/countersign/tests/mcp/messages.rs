//! Messages for models: two agents, each behind a gateway of its own, write to each other by the gateway's own tools.

use crate::mcp::client::Stdio;
use crate::mcp::gated;
use crate::mcp::http::Http;
use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};

const OFFICE: &str = r#"
pact = "office"
version = 1

[action.tell]
doc = "Tells a colleague something"
resource = 'Agent::"{to}"'
allow = 'principal.org == resource.org'
deliver = { to = "{to}", body = ["text"] }

[action.tell.params]
type = "object"
additionalProperties = false
required = ["to", "text"]
properties.to = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 200 }

[[action.tell.require]]
id = "is-short"
that = 'context.text != "a long story"'
on_fail = "review"
"#;

/// A gate, and gateways for two agents.
fn office() -> (Sandbox, Http, Stdio, Stdio) {
    let (sandbox, gate, early) = gated::world_under(gated::PACT, "usual");
    // It may know the pacts of a moment ago.
    early.kill();
    std::fs::write(sandbox.path().join("office.toml"), OFFICE).unwrap();
    sandbox.run_ok(&["pact", "publish", "office.toml", "--server", gate.url()]);
    let agent = r#"{"roles":[],"standing":"active","org":"acme","trust":700}"#;
    sandbox.run_ok(&["fact", "put", "Agent", "tester-1", agent, "--server", gate.url()]);
    let [coder, tester] = ["coder-1", "tester-1"]
        .map(|agent| Stdio::start(sandbox.command(&["mcp", "serve", "--agent", agent, "--server", gate.url()])));
    (sandbox, gate, coder, tester)
}

fn inbox(client: &mut Stdio, arguments: &Value) -> Value {
    let answer = client.call("countersign_inbox", arguments);
    assert!(answer.get("isError").is_none(), "{answer}");
    let told: Value = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(told, answer["structuredContent"]);
    told
}

#[test]
fn models_write_read_and_acknowledge() {
    let (sandbox, gate, mut coder, mut tester) = office();
    coder.initialize();
    tester.initialize();
    let tools = coder.tools();
    assert!(
        tools.contains(&"countersign_inbox".to_owned()) && tools.contains(&"countersign_send".to_owned()),
        "{tools:?}"
    );
    let tell = |text: &str| json!({"message": "office.tell", "params": {"to": "tester-1", "text": text}});
    let sent = coder.call("countersign_send", &tell("the build is red"));
    assert_eq!(sent["_meta"]["countersign"]["verdict"], "committed", "{sent}");
    let name = format!("msg_{}", sent["_meta"]["countersign"]["entry"]);
    let told = inbox(&mut tester, &json!({}));
    let [message] = told["messages"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((&message["message"], &message["from"]), (&json!(name), &json!("coder-1")));
    assert_eq!(message["body"], json!({"text": "the build is red"}));
    // Read again until it is acknowledged, and never by another.
    assert_eq!(inbox(&mut tester, &json!({}))["waiting"], 1);
    assert_eq!(inbox(&mut coder, &json!({"acknowledge": [name]}))["not_waiting"], json!([name]));
    let told = inbox(&mut tester, &json!({"acknowledge": [name]}));
    assert_eq!((&told["acknowledged"], &told["messages"]), (&json!([name]), &json!([])));
    // One key sends once.
    let key = json!({"countersign": {"idempotency_key": "a-key-of-twenty-two-chars"}});
    let call = json!({"name": "countersign_send", "arguments": tell("once"), "_meta": key});
    let (one, other) = (coder.request("tools/call", &call), coder.request("tools/call", &call));
    assert_eq!(one["result"]["_meta"]["countersign"]["entry"], other["result"]["_meta"]["countersign"]["entry"]);
    assert_eq!(inbox(&mut tester, &json!({}))["waiting"], 1);
    // What a person must approve can be asked for again.
    let parked = coder.call("countersign_send", &tell("a long story"));
    let said = &parked["_meta"]["countersign"];
    assert_eq!((&said["verdict"], &said["retry"]["how"]), (&json!("review"), &json!("continue")), "{parked}");
    let review = said["review"].as_str().unwrap();
    sandbox.run_ok(&["review", "approve", review, "--yes", "--server", gate.url()]);
    let done = coder.call("countersign_continue", &json!({"continuation": said["continuation"]}));
    assert_eq!(done["_meta"]["countersign"]["verdict"], "committed", "{done}");
    let told = inbox(&mut tester, &json!({}));
    let last = told["messages"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["from"], &last["body"]["text"]), (&json!("coder-1"), &json!("a long story")));
    assert!(last["approved_by"].is_string(), "{last}");
    coder.end();
    tester.end();
    gate.end();
}

#[test]
fn the_tools_are_there_only_where_a_pact_delivers_and_refuse_what_they_do_not_know() {
    let (_sandbox, gate, mut client) = gated::world_under(gated::PACT, "usual");
    client.initialize();
    let tools = client.tools();
    assert!(!tools.iter().any(|tool| tool == "countersign_inbox" || tool == "countersign_send"), "{tools:?}");
    let refused = client.call("countersign_send", &json!({"message": "office.tell", "params": {}}));
    assert_eq!(refused["isError"], true, "{refused}");
    for arguments in [json!({"acknowledge": "msg_1"}), json!({"before": "msg_1"})] {
        let refused = client.call("countersign_inbox", &arguments);
        assert_eq!(refused["isError"], true, "{refused}");
    }
    client.end();
    gate.end();
}
