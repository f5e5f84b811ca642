//! Tools that a pact maps: the gate decides, and its own worker calls.

use crate::mcp::client::Stdio;
use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};

pub const PACT: &str = r#"
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
fn world(mood: &str) -> (Sandbox, crate::mcp::http::Http, Stdio) {
    world_under(PACT, mood)
}

/// The same under another pact. The bank writes what it carries out into `book`.
pub fn world_under(pact: &str, mood: &str) -> (Sandbox, crate::mcp::http::Http, Stdio) {
    let sandbox = Sandbox::approved();
    let shell =
        format!("export BANK_BOOK={}; {}", sandbox.path().join("book").display(), crate::mcp::server::shell(mood));
    std::fs::write(
        sandbox.path().join("countersign.toml"),
        format!("[mcp.upstream.bank]\ncommand = ['sh', '-c', '''{shell}''']\n"),
    )
    .unwrap();
    std::fs::write(sandbox.path().join("bank.toml"), pact).unwrap();
    sandbox.run_ok(&["pact", "publish", "bank.toml", "--data", "data"]);
    let gate = crate::mcp::http::Http::start(sandbox.command(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]));
    let client = Stdio::start(sandbox.command(&["mcp", "serve", "--agent", "coder-1", "--server", gate.url()]));
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
    assert_eq!((&said["verdict"], &said["atomicity"]), (&json!("settled"), &json!("rechecked")), "{done}");
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
fn an_agent_without_the_role_is_told_so_and_nothing_is_called() {
    let pact = PACT.replace("principal.standing == \"active\"", "principal.roles.contains(\"banker\")");
    let (sandbox, gate, mut client) = world_under(&pact, "usual");
    client.initialize();
    let refused = client.call("transfer", &json!({"account": "42"}));
    let said = &refused["_meta"]["countersign"];
    assert_eq!(
        (&refused["isError"], &said["error"]["code"], &said["retry"]["how"]),
        (&json!(true), &json!("not_allowed"), &json!("never")),
        "{refused}"
    );
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Not done: coder-1 may not do `transfer`: "), "{text}");
    client.end();
    gate.end();
    assert!(!sandbox.path().join("book").exists(), "the bank carried something out");
    let entries = sandbox.run_ok(&["ledger", "list", "--json", "--data", "data"]);
    assert!(!entries.contains("\"transfer\""), "{entries}");
}

#[test]
fn a_mapped_call_on_a_false_precondition_is_rejected_with_what_to_call_again() {
    let (_sandbox, gate, mut client) = world("frozen");
    client.initialize();
    let refused = client.call("transfer", &json!({"account": "42"}));
    let said = &refused["_meta"]["countersign"];
    assert_eq!(
        (&refused["isError"], &said["failed"][0]["precondition"]),
        (&json!(true), &json!("account-is-active")),
        "{refused}"
    );
    assert_eq!(said["retry"], json!({"how": "call", "calls": [{"tool": "get_account", "arguments": {"id": "42"}}]}));
    client.end();
    gate.end();
}

#[test]
fn a_server_that_knows_versions_refuses_what_changed_after_the_last_look() {
    let source =
        "source = { mcp = \"bank\", tool = \"get_account\", arguments = { id = \"{id}\" }, version = \"etag\" }";
    let call = "call = { mcp = \"bank\", tool = \"transfer\", if_version = { expected = \"resource\" }, on_error = \"failed\" }";
    let pact =
        PACT.replace("attributes = { status = \"String\" }", "attributes = { status = \"String\", etag = \"String\" }");
    // Its call carries the version, so only an agent that may see that is told what the server answers.
    let pact = pact.replace("call = { mcp = \"bank\", tool = \"transfer\" }", call)
        + "\n[observe.Account]\nwho = 'true'\nattributes = \"*\"\n";
    let lines: Vec<&str> = pact.lines().map(|line| if line.starts_with("source =") { source } else { line }).collect();
    let (sandbox, gate, mut client) = world_under(&lines.join("\n"), "versioned");
    client.initialize();
    let done = client.call("transfer", &json!({"account": "42"}));
    let said = &done["_meta"]["countersign"];
    assert_eq!((&said["verdict"], &said["atomicity"]), (&json!("settled"), &json!("conditional")), "{done}");
    let sent: Value = serde_json::from_str(done["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(sent, json!({"account": "42", "expected": "v-active"}));
    // Now somebody changes it after the gate has looked for the last time, and before the call arrives.
    std::fs::write(sandbox.path().join("rival"), "").unwrap();
    let refused = client.call("transfer", &json!({"account": "42"}));
    let said = &refused["_meta"]["countersign"];
    assert_eq!(said["verdict"], "failed", "{refused}");
    assert!(said["evidence"]["summary"].as_str().unwrap().contains("version conflict"), "{refused}");
    client.end();
    gate.end();
}

#[test]
fn in_shadow_mode_a_call_is_made_and_what_would_have_stopped_it_is_recorded() {
    let shadow = PACT.replace("[action.transfer]\n", "[action.transfer]\nmode = \"shadow\"\n");
    let (sandbox, gate, mut client) = world_under(&shadow, "frozen");
    client.initialize();
    let done = client.call("transfer", &json!({"account": "42"}));
    let said = &done["_meta"]["countersign"];
    assert_eq!((&said["verdict"], done.get("isError")), (&json!("settled"), None), "{done}");
    assert_eq!(said["shadowed"]["failed"][0]["precondition"], "account-is-active", "{done}");
    assert_eq!(said["shadowed"]["failed"][0]["reads"][0]["withheld"], true, "no pact shows it to this agent: {done}");
    client.end();
    gate.end();
    let audited = sandbox.run_ok(&["audit", "--data", "data"]);
    assert!(audited.contains(" 0 differing"), "{audited}");
}

#[test]
fn a_result_that_is_too_long_to_keep_is_handed_over_whole() {
    let (sandbox, gate, client) = world_under(PACT, "long");
    client.end();
    sandbox.run_ok(&["mcp", "approve", "--yes", "--server", gate.url()]);
    let mut client = Stdio::start(sandbox.command(&["mcp", "serve", "--agent", "coder-1", "--server", gate.url()]));
    client.initialize();
    let done = client.call("transfer", &json!({"account": "42"}));
    let said = &done["_meta"]["countersign"];
    // Its schema promises a structure, and here it is.
    assert_eq!((&said["verdict"], done.get("isError")), (&json!("settled"), None), "{said}");
    assert!(done["structuredContent"].to_string().len() > 16 * 1024, "{}", done["structuredContent"].to_string().len());
    client.end();
    gate.end();
}

#[test]
fn what_no_pact_maps_does_not_pass_where_calls_rest_on_what_is_there() {
    let (sandbox, gate, client) = world_under(PACT, "real");
    client.end();
    sandbox.run_ok(&["mcp", "approve", "--yes", "--server", gate.url()]);
    let words = ["mcp", "serve", "--agent", "coder-1", "--server", gate.url(), "--unmapped"];
    for rule in ["pass", "shadow"] {
        let mut client = Stdio::start(sandbox.command(&[&words[..], &[rule]].concat()));
        client.initialize();
        // It takes no turn, so it could come between the look at an account and a transfer.
        let refused = client.call("close", &json!({"account": "42"}));
        assert!(refused["content"][0]["text"].as_str().unwrap().contains("rest on what is at `bank`"), "{refused}");
        assert!(client.call("get_balance", &json!({})).get("isError").is_none(), "what only reads passes");
        client.end();
    }
    let book = std::fs::read_to_string(sandbox.path().join("book")).unwrap_or_default();
    assert!(!book.contains("close"), "the bank carried something out: {book}");
    // The same tool passes where no call rests on anything.
    let loose = PACT.replace("resource = 'Account::\"{account}\"'", "resource = 'Seen::\"{account}\"'");
    let loose = loose.replace("version = 1", "version = 2") + "\n[facts.Seen]\nattributes = { status = \"String\" }\n";
    std::fs::write(sandbox.path().join("bank.toml"), loose).unwrap();
    sandbox.run_ok(&["pact", "publish", "bank.toml", "--server", gate.url()]);
    let mut client = Stdio::start(sandbox.command(&[&words[..], &["pass"]].concat()));
    client.initialize();
    let passed = client.call("close", &json!({"account": "42"}));
    assert!(passed.get("isError").is_none(), "{passed}");
    client.end();
    gate.end();
}
