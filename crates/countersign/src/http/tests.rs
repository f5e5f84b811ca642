//! The interface as its callers meet it: a real listener, raw bytes in and out, a gate on a disk that can be made to fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod access;
mod attacks;
mod batches;
mod client;
mod delegated;
mod effects;
mod errors;
mod faults;
mod keys;
mod ledger;
mod observing;
mod routes;
mod server;
mod signed;
mod stops;
mod verdicts;
mod withheld;

use client::Reply;
use serde_json::{Value, json};
use server::Server;

/// A pact with everything that a verdict can be.
const PACT: &str = r#"
pact = "billing"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long", note = "String?" }

[observe.Account]
who = 'principal.roles.contains("refunder")'
attributes = "*"

[action.refund]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.refund.require]]
id = "account-is-active"
that = 'resource.status == "active"'

[[action.refund.require]]
id = "balance-covers-amount"
that = 'resource.balance >= context.amount'

[[action.refund.require]]
id = "amount-is-small"
that = 'context.amount <= 100000'
on_fail = "review"

[action.trial]
mode = "shadow"
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
set = { balance = "resource.balance - 1" }

[action.trial.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 64 }

[[action.trial.require]]
id = "account-is-active"
that = 'resource.status == "active"'
"#;

/// A server with the pact, one agent and one account.
fn furnished() -> Server {
    let server = Server::start();
    furnish(&server);
    server
}

fn furnish(server: &Server) {
    let published = server.send("POST", "/v1/pacts", &["Content-Type: application/toml"], PACT.as_bytes());
    assert_eq!(published.status, 200, "{published:?}");
    let agent = json!({"value": {"roles": ["refunder"], "standing": "active", "org": "acme", "trust": 700}});
    assert_eq!(server.put("/v1/facts/Agent/refund-1", &agent).status, 200);
    assert_eq!(server.put("/v1/facts/Account/42", &account("active", 900_000)).status, 200);
}

fn account(status: &str, balance: i64) -> Value {
    json!({"value": {"status": status, "balance": balance}})
}

fn action(key: &str, kind: &str, params: &Value, observations: &[&str]) -> String {
    let action = json!({
        "pact": "billing", "action": kind, "idempotency_key": format!("{key:0>32}"),
        "params": params, "observations": observations,
    });
    action.to_string()
}

fn refund(key: &str, amount: i64, observations: &[&str]) -> String {
    action(key, "refund", &json!({"account": "42", "amount": amount}), observations)
}

fn observe(server: &Server) -> Value {
    let reply = server.post("/v1/observe", &json!({"facts": ["Account::\"42\""]}).to_string());
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn assert_error(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status, status, "{code}: {reply:?}");
    let body = reply.json();
    assert_eq!(keys(&body), ["error"], "{code}");
    let error = &body["error"];
    assert_eq!(error["code"], code, "{reply:?}");
    assert!(!error["message"].as_str().unwrap().is_empty() && !error["hint"].as_str().unwrap().is_empty(), "{code}");
    assert_eq!(error["request_id"].as_str(), reply.header("x-request-id"), "{code}");
    assert_eq!(reply.header("content-type"), Some("application/json"), "{code}");
}
