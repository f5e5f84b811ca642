//! Tools as real servers have them: without ids, with several arguments, with lists, texts, fractions and nulls.

use crate::mcp::client::Stdio;
use crate::mcp::http::Http;
use crate::mcp::sandbox::Sandbox;
use crate::mcp::server::shell;
use serde_json::{Value, json};

const PACT: &str = r##"
pact = "bank"
version = 1

[facts.Balance]
attributes = { amount = "Money<2>" }
source = { mcp = "bank", tool = "get_balance", at = "/content/0/text" }

[facts.Event]
attributes = { title = "String", seats = "Long" }
source = { mcp = "bank", tool = "list_events", at = "/content/0/text/events", key = "id" }

[facts.Issue]
attributes = { state = "String" }

[facts.Issue.source]
mcp = "bank"
tool = "get_issue"
id = "{owner}/{repo}#{number:integer}"
arguments = { owner = "{owner}", repo = "{repo}", issue = "{number}", deep = false }

[observe.Balance]
who = 'true'
attributes = "*"

[observe.Event]
who = 'true'
attributes = "*"

[observe.Issue]
who = 'true'
attributes = "*"

[action.pay]
resource = 'Balance::"only"'
allow = 'principal.standing == "active"'
require_observation = true
call = { mcp = "bank", tool = "pay" }

[action.pay.params]
type = "object"
additionalProperties = false
required = ["amount", "memo", "to"]
"$defs".Payee.type = "object"
"$defs".Payee.additionalProperties = false
"$defs".Payee.required = ["iban"]
"$defs".Payee.properties = { iban = { type = "string" }, name = { type = ["string", "null"] } }
properties.amount = { type = "money", scale = 2, minimum = 0.01 }
properties.memo = { type = ["string", "null"], maxLength = 20000 }
properties.to = { type = "array", maxItems = 3, items = { "$ref" = "#/$defs/Payee" } }
properties.extra = { type = "object", additionalProperties = true, maxProperties = 9 }

[[action.pay.require]]
id = "covered"
that = 'resource.amount >= context.amount'

[[action.pay.require]]
id = "as-it-was-seen"
that = 'resource.amount == context.observed.resource.amount'

[action.cancel]
resource = 'Event::"{event}"'
allow = 'principal.standing == "active"'
call = { mcp = "bank", tool = "cancel" }

[action.cancel.params]
type = "object"
additionalProperties = false
required = ["event"]
properties.event = { type = "string" }

[[action.cancel.require]]
id = "few-seats"
that = 'resource.seats < 10'

[action.close]
resource = 'Issue::"{owner}/{repo}#{issue}"'
allow = 'principal.standing == "active"'
call = { mcp = "bank", tool = "close" }

[action.close.params]
type = "object"
additionalProperties = false
required = ["owner", "repo", "issue"]
properties.owner = { type = "string" }
properties.repo = { type = "string" }
properties.issue = { type = "integer" }

[[action.close.require]]
id = "open"
that = 'resource.state == "open"'
"##;

fn said(result: &Value) -> &Value {
    &result["_meta"]["countersign"]
}

#[test]
fn tools_without_ids_with_lists_fractions_and_nulls_are_guarded_as_they_are() {
    let sandbox = Sandbox::new();
    sandbox.approve(&[("bank", "real")]);
    let settings = format!("[mcp.upstream.bank]\ncommand = ['sh', '-c', '''{}''']\n", shell("real"));
    std::fs::write(sandbox.path().join("countersign.toml"), settings).unwrap();
    std::fs::write(sandbox.path().join("balance"), "1810.05").unwrap();
    std::fs::write(sandbox.path().join("bank.toml"), PACT).unwrap();
    sandbox.run_ok(&["pact", "publish", "bank.toml", "--data", "data"]);
    let gate = Http::start(sandbox.command(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]));
    let mut client = Stdio::start(sandbox.command(&["mcp", "serve", "--agent", "coder-1", "--server", gate.url()]));
    client.initialize();

    // A singleton, read with an argument that is null.
    let shown = client.call("get_balance", &json!({"currency": null}));
    assert_eq!(said(&shown)["observed"], json!(["Balance::\"only\""]), "{shown}");
    let pay = |amount: Value| json!({"amount": amount, "memo": null, "to": [{"iban": "x", "name": null}], "extra": {"a": [0.5]}});
    let exact: Value = serde_json::from_str("1810.05").unwrap();
    let paid = client.call("pay", &pay(exact));
    assert_eq!(said(&paid)["verdict"], "settled", "{paid}");
    // The server has seen what the agent sent, digit by digit, null and all.
    let line = paid["content"][0]["text"].as_str().unwrap();
    let sent: Value = serde_json::from_str(line).unwrap();
    assert!(line.contains("\"amount\":1810.05") && line.contains("\"a\":[0.5]"), "{line}");
    assert_eq!(sent["params"]["arguments"]["memo"], Value::Null);
    assert_eq!(sent["params"]["arguments"]["to"], json!([{"iban": "x", "name": null}]));
    // A cent more is not covered, half a cent is no amount, and what changed behind the gateway is found.
    let over = client.call("pay", &pay(json!("1810.06")));
    assert_eq!(
        (&said(&over)["code"], over["isError"].as_bool()),
        (&json!("precondition_failed"), Some(true)),
        "{over}"
    );
    let half = client.call("pay", &pay(json!("0.005")));
    assert_eq!(said(&half)["code"], "invalid_params", "{half}");
    std::fs::write(sandbox.path().join("balance"), "1810.06").unwrap();
    let stale = client.call("pay", &pay(json!(1)));
    assert_eq!(said(&stale)["code"], "precondition_failed", "{stale}");

    // One element of a list of more than 16 KiB, which still reaches the agent whole.
    let list = client.call("list_events", &json!({}));
    assert!(list["content"][0]["text"].as_str().unwrap().len() > 40_000, "{list}");
    assert_eq!(said(&client.call("cancel", &json!({"event": "ev-7"})))["verdict"], "settled");
    assert_eq!(said(&client.call("cancel", &json!({"event": "ev-17"})))["code"], "precondition_failed");
    std::fs::write(sandbox.path().join("gone"), "ev-7").unwrap();
    let gone = client.call("cancel", &json!({"event": "ev-7"}));
    assert_eq!(said(&gone)["code"], "fact_missing", "{gone}");

    // Several arguments, one of them a number; and an id that could be split in two ways.
    let seen = client.call("get_issue", &json!({"owner": "acme", "repo": "web", "issue": 7, "deep": false}));
    assert_eq!(said(&seen)["observed"], json!(["Issue::\"acme/web#7\""]), "{seen}");
    let closed = client.call("close", &json!({"owner": "acme", "repo": "web", "issue": 7.0}));
    assert_eq!(said(&closed)["verdict"], "settled", "{closed}");
    let split = client.call("close", &json!({"owner": "acme/web", "repo": "x", "issue": 7}));
    assert_eq!(said(&split)["code"], "invalid_fact_id", "{split}");
    client.end();
    gate.end();
}
