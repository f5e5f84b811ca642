//! Tools that a pact maps: the gate decides, and its own worker calls.

use crate::client::Stdio;
use crate::sandbox::Sandbox;
use serde_json::{Value, json};

const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { status = "String" }
source = { mcp = "bank", tool = "get_account", arguments = { id = "{id}" }, at = "/structuredContent" }

[action.transfer]
resource = 'Account::"{account}"'
allow = 'principal.standing == "active"'
call = { mcp = "bank", tool = "transfer" }

[action.transfer.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 64 }

[[action.transfer.require]]
id = "account-is-active"
that = 'resource.status == "active"'
"#;

/// A gate that runs with a bank of its own, and a client through the gateway to another.
fn world(mood: &str) -> (Sandbox, crate::http::Http, Stdio) {
    let sandbox = Sandbox::approved();
    let shell = crate::server::shell(mood);
    std::fs::write(
        sandbox.path().join("countersign.toml"),
        format!("[mcp.upstream.bank]\ncommand = ['sh', '-c', '''{shell}''']\n"),
    )
    .unwrap();
    std::fs::write(sandbox.path().join("bank.toml"), PACT).unwrap();
    sandbox.must(&["pact", "publish", "bank.toml", "--data", "data"]);
    let gate = crate::http::Http::start(sandbox.command(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]));
    let client = Stdio::start(sandbox.command(&["mcp", "--agent", "coder-1", "--server", gate.url()]));
    (sandbox, gate, client)
}

#[test]
fn a_mapped_call_is_made_by_the_gate_after_everything_held() {
    let (_sandbox, gate, mut client) = world("usual");
    client.initialize();
    assert!(client.tools().contains(&"countersign_continue".to_owned()));
    let done = client.call("transfer", &json!({"account": "42"}));
    assert!(done.get("isError").is_none(), "{done}");
    let said = &done["_meta"]["countersign"];
    assert_eq!((&said["verdict"], &said["atomicity"]), (&json!("settled"), &json!("serialised")), "{done}");
    let sent: Value = serde_json::from_str(done["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(sent["params"]["arguments"], json!({"account": "42"}));
    // The same key never acts twice.
    let key = json!({"countersign": {"idempotency_key": "a-key-of-twenty-two-chars"}});
    let call = json!({"name": "transfer", "arguments": {"account": "42"}, "_meta": key});
    let (one, other) = (client.request("tools/call", &call), client.request("tools/call", &call));
    assert_eq!(one["result"]["_meta"]["countersign"]["entry"], other["result"]["_meta"]["countersign"]["entry"]);
    client.end();
    gate.end();
}

#[test]
fn a_mapped_call_on_a_false_precondition_is_rejected_with_what_to_call_again() {
    let (_sandbox, gate, mut client) = world("frozen");
    client.initialize();
    let refused = client.call("transfer", &json!({"account": "42"}));
    let said = &refused["structuredContent"]["countersign"];
    assert_eq!(
        (&refused["isError"], &said["failed"][0]["precondition"]),
        (&json!(true), &json!("account-is-active")),
        "{refused}"
    );
    assert_eq!(said["retry"], json!({"how": "call", "calls": [{"tool": "get_account", "arguments": {"id": "42"}}]}));
    client.end();
    gate.end();
}
