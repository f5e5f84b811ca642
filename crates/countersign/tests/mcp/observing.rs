//! What an agent reads through the gateway is an observation, and what it does afterwards is decided on it.

use crate::mcp::client::Stdio;
use crate::mcp::http::Http;
use crate::mcp::sandbox::Sandbox;
use crate::mcp::server::shell;
use serde_json::{Value, json};

const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { status = "String" }
source = { mcp = "bank", tool = "get_account", arguments = { id = "{id}" } }

[observe.Account]
who = 'true'
attributes = "*"

[action.transfer]
resource = 'Account::"{account}"'
allow = 'principal.standing == "active"'
require_observation = true
call = { mcp = "bank", tool = "transfer" }

[action.transfer.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 64 }

[[action.transfer.require]]
id = "account-is-not-frozen"
that = 'resource.status != "frozen"'
stale_after = "10m"
on_fail = "review"

[[action.transfer.require]]
id = "account-is-as-it-was-seen"
that = 'resource.status == context.observed.resource.status'
"#;

fn world(pact: &str) -> (Sandbox, Http) {
    let sandbox = Sandbox::new();
    sandbox.approve(&[("bank", "file")]);
    let settings = format!("[mcp.upstream.bank]\ncommand = ['sh', '-c', '''{}''']\n", shell("file"));
    std::fs::write(sandbox.path().join("countersign.toml"), settings).unwrap();
    publish(&sandbox, pact);
    let gate = Http::start(sandbox.command(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]));
    (sandbox, gate)
}

fn publish(sandbox: &Sandbox, pact: &str) {
    std::fs::write(sandbox.path().join("bank.toml"), pact).unwrap();
    sandbox.run_ok(&["pact", "publish", "bank.toml", "--data", "data"]);
}

fn gateway(sandbox: &Sandbox, gate: &Http) -> Stdio {
    let mut client = Stdio::start(sandbox.command(&["mcp", "serve", "--agent", "coder-1", "--server", gate.url()]));
    client.initialize();
    client
}

fn said(result: &Value) -> &Value {
    &result["_meta"]["countersign"]
}

fn transfer(client: &mut Stdio) -> Value {
    client.call("transfer", &json!({"account": "42"}))
}

fn read(client: &mut Stdio) -> Value {
    client.call("get_account", &json!({"id": "42"}))
}

#[test]
fn an_agent_acts_on_what_it_was_shown_and_nobody_acts_on_what_another_saw() {
    let (sandbox, gate) = world(PACT);
    let (mut one, mut other) = (gateway(&sandbox, &gate), gateway(&sandbox, &gate));
    let blind = transfer(&mut one);
    assert_eq!(said(&blind)["code"], "observation_required", "{blind}");
    let calls = json!([{"tool": "get_account", "arguments": {"id": "42"}}]);
    assert_eq!(said(&blind)["retry"], json!({"how": "call", "calls": calls}), "{blind}");
    let shown = read(&mut one);
    assert_eq!(shown["structuredContent"], json!({"status": "active"}), "{shown}");
    assert_eq!(shown["_meta"]["rate"], json!(1.5), "what the tool said stays: {shown}");
    assert_eq!(said(&shown)["observed"], json!(["Account::\"42\""]));
    let done = transfer(&mut one);
    assert_eq!(said(&done)["verdict"], "settled", "{done}");
    // The same agent in another session has seen nothing.
    let blind = transfer(&mut other);
    assert_eq!(said(&blind)["code"], "observation_required", "{blind}");
    one.end();
    other.end();
    gate.end();
    // Reading leaves an entry as every call does.
    assert_eq!(sandbox.calls().len(), 1);
}

#[test]
fn a_repeated_key_gets_the_one_answer_although_more_was_seen_since() {
    let (sandbox, gate) = world(PACT);
    let mut client = gateway(&sandbox, &gate);
    read(&mut client);
    let key = json!({"countersign": {"idempotency_key": "a-key-of-twenty-two-chars"}});
    let call = |account: &str| json!({"name": "transfer", "arguments": {"account": account}, "_meta": key});
    let first = client.request("tools/call", &call("42"));
    assert_eq!(said(&first["result"])["verdict"], "settled", "{first}");
    read(&mut client);
    let again = client.request("tools/call", &call("42"));
    assert_eq!(said(&again["result"])["entry"], said(&first["result"])["entry"], "{again}");
    // Another call under the same key is refused, not answered with this one's outcome.
    let other = client.request("tools/call", &call("43"));
    assert_eq!(said(&other["result"])["error"]["code"], "outcome_unknown", "{other}");
    assert_eq!(other["result"]["isError"], true, "{other}");
    client.end();
    gate.end();
}

#[test]
fn a_key_repeated_through_a_restarted_gateway_is_told_what_became_of_the_one_call() {
    let (sandbox, gate) = world(PACT);
    let mut client = gateway(&sandbox, &gate);
    read(&mut client);
    let key = json!({"countersign": {"idempotency_key": "a-key-of-twenty-two-chars"}});
    let call = json!({"name": "transfer", "arguments": {"account": "42"}, "_meta": key});
    let first = client.request("tools/call", &call)["result"].clone();
    assert_eq!(said(&first)["verdict"], "settled", "{first}");
    client.end();
    // This one does not know what the agent had seen, so the body is another.
    let mut client = gateway(&sandbox, &gate);
    let again = client.request("tools/call", &call)["result"].clone();
    let text = again["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("It is not known whether this was done") && text.contains("settled"), "{text}");
    let object = said(&again);
    assert_eq!((&object["error"]["code"], &object["retry"]["how"]), (&json!("outcome_unknown"), &json!("continue")));
    assert_eq!(object["earlier"]["verdict"], "settled", "{again}");
    let asked = client.call("countersign_continue", &json!({"continuation": object["continuation"]}));
    assert_eq!(asked["content"], first["content"], "{asked}");
    // A key that the gate would not take is not kept either.
    let short =
        json!({"name": "transfer", "arguments": {"account": "42"}, "_meta": {"countersign": {"idempotency_key": "k"}}});
    let refused = client.request("tools/call", &short)["result"].clone();
    assert_eq!(said(&refused)["error"]["code"], "invalid_arguments", "{refused}");
    client.end();
    gate.end();
    let text = sandbox.run_ok(&["ledger", "list", "--json", "--from", "0", "--limit", "500", "--data", "data"]);
    let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let actions = entries.filter(|entry| entry["leaf"]["kind"] == "action" && entry["leaf"]["pact"]["name"] == "bank");
    assert_eq!(actions.count(), 1, "it was asked for once");
}

#[test]
fn what_changed_behind_the_gateway_is_found_when_the_call_is_made() {
    let (sandbox, gate) = world(PACT);
    let mut client = gateway(&sandbox, &gate);
    read(&mut client);
    std::fs::write(sandbox.path().join("account"), "dormant").unwrap();
    let refused = transfer(&mut client);
    let failed = &said(&refused)["failed"][0];
    assert_eq!(failed["precondition"], "account-is-as-it-was-seen", "{refused}");
    assert_eq!(said(&refused)["retry"]["calls"], json!([{"tool": "get_account", "arguments": {"id": "42"}}]));
    let shown = read(&mut client);
    assert_eq!(shown["structuredContent"]["status"], "dormant");
    let done = transfer(&mut client);
    assert_eq!(said(&done)["verdict"], "settled", "{done}");
    client.end();
    gate.end();
}

#[test]
fn the_gate_may_be_in_the_gateway_itself() {
    let sandbox = Sandbox::new();
    sandbox.approve(&[("bank", "file")]);
    publish(&sandbox, PACT);
    let mut client = sandbox.client(&[("bank", "file")], &[]);
    client.initialize();
    read(&mut client);
    let done = transfer(&mut client);
    assert_eq!(said(&done)["verdict"], "settled", "{done}");
    let (code, errors) = client.end();
    assert_eq!(code, 0, "{errors}");
    let audited = sandbox.run_ok(&["audit", "--data", "data"]);
    assert!(audited.contains(" 0 differing"), "{audited}");
}

#[test]
fn an_answer_is_withheld_from_whom_no_pact_shows_all_of_it() {
    let partly = PACT
        .replace("attributes = { status = \"String\" }", "attributes = { status = \"String\", owner = \"String?\" }");
    let partly = partly.replace("attributes = \"*\"", "attributes = [\"status\"]");
    let (sandbox, gate) = world(&partly);
    let mut client = gateway(&sandbox, &gate);
    let refused = read(&mut client);
    let error = &said(&refused)["error"];
    assert_eq!((&refused["isError"], &error["code"]), (&json!(true), &json!("withheld")), "{refused}");
    assert!(error["message"].as_str().unwrap().contains("owner"), "{refused}");
    client.end();
    gate.end();
    let (sandbox, gate) = world(&PACT.replace("who = 'true'", "who = 'false'"));
    let mut client = gateway(&sandbox, &gate);
    let refused = read(&mut client);
    assert_eq!(said(&refused)["error"]["code"], "not_read", "{refused}");
    let refused_in = |refused: &Value| said(refused)["error"]["message"].as_str().unwrap().replace("gone", "42");
    let before = refused_in(&refused);
    // Whoever may not see a fact does not find out by the tool's error whether there is one.
    let gone = client.call("get_account", &json!({"id": "gone"}));
    assert_eq!(refused_in(&gone), before, "{gone}");
    client.end();
    gate.end();
}

#[test]
fn a_gateway_signs_for_its_agent_and_says_so() {
    let sandbox = Sandbox::bare();
    sandbox.run_ok(&["init", "--data", "data"]);
    let own = ["--data", "data", "--key", "admin.key"];
    let admin = |words: &[&str]| sandbox.run_ok(&[words, &own].concat());
    admin(&["agent", "new", "coder-1", "--org", "acme", "--held-by-gateway"]);
    admin(&["mcp", "approve", "--upstream", &format!("bank={}", crate::mcp::server::command("usual"))]);
    assert!(admin(&["agent", "list"]).contains("key held by a gateway"));
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    let shown = client.call("get_account", &json!({"id": "42"}));
    assert!(shown.get("isError").is_none(), "{shown}");
    let (code, errors) = client.end();
    assert_eq!(code, 0, "{errors}");
    let entries = admin(&["ledger", "list", "--json", "--from", "0", "--limit", "500"]);
    let last = entries.lines().last().unwrap();
    let call: Value = serde_json::from_str(last).unwrap();
    assert_eq!((&call["leaf"]["by"], &call["leaf"]["auth"]), (&json!("coder-1"), &json!("gateway")), "{call}");
    let verified = sandbox.run_ok(&["verify", "--data", "data", "--log-key", "data/log.vkey"]);
    assert!(verified.contains("1 signature of gateways verified, which prove nothing"), "{verified}");
}

#[test]
fn a_call_that_waits_for_a_person_is_asked_for_by_whichever_gateway() {
    let asks = PACT.replace("resource.status != \"frozen\"'\nstale_after = \"10m\"", "context.account != \"42\"'");
    let (sandbox, gate) = world(&asks);
    let mut client = gateway(&sandbox, &gate);
    read(&mut client);
    let parked = transfer(&mut client);
    assert_eq!(said(&parked)["verdict"], "review", "{parked}");
    let word = said(&parked)["continuation"].clone();
    let ask = json!({"continuation": word});
    assert_eq!(said(&client.call("countersign_continue", &ask))["verdict"], "review");
    client.end();

    let review = said(&parked)["review"].as_str().unwrap().to_owned();
    let approve = ["review", "approve", &review, "--as", "jo", "--yes", "--server", gate.url()];
    assert_eq!(sandbox.run(&approve).status.code(), Some(6), "approved, and its call not over yet");
    let mut later = gateway(&sandbox, &gate);
    let ask = json!({"continuation": word, "wait_ms": 5000});
    let done = later.call("countersign_continue", &ask);
    assert_eq!(said(&done)["verdict"], "settled", "{done}");
    let again = later.call("countersign_continue", &ask);
    assert_eq!(said(&again)["entry"], said(&done)["entry"], "asking acts no second time");
    // Another agent is told nothing.
    let agent = r#"{"roles":[],"standing":"active","org":"acme","trust":700}"#;
    sandbox.run_ok(&["fact", "put", "Agent", "mallory", agent, "--server", gate.url()]);
    let mut thief = Stdio::start(sandbox.command(&["mcp", "serve", "--agent", "mallory", "--server", gate.url()]));
    thief.initialize();
    let refused = thief.call("countersign_continue", &ask);
    assert_eq!(said(&refused)["error"]["code"], "outcome_unknown", "{refused}");
    thief.end();
    later.end();
    gate.end();
}
