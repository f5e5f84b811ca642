//! The idempotency key that a service is given: one for each effect, and the same for every attempt of it.

use super::audit;
use crate::attacks::service::{Received, Reply, Service};
use crate::attacks::world::World;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const DEBTS: &str = r#"
pact = "debts"
version = 1

[facts.Debt]
attributes = { open = "Long" }

[action.pay_off]
resource = 'Debt::"{debt}"'
allow = 'principal.roles.contains("payer")'
set = { open = "resource.open - context.amount" }
call = { http = "shop", path = "/payouts/{call.key}", idempotent = true }

[action.pay_off.params]
type = "object"
additionalProperties = false
required = ["debt", "amount"]
properties.debt = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 1000000 }

[[action.pay_off.require]]
id = "is-owed"
that = 'resource.open >= context.amount'
"#;

/// How often each key was paid, and how often it came again.
type Book = Arc<Mutex<BTreeMap<String, u32>>>;

fn key(request: &Received) -> String {
    request.headers.iter().find(|(name, _)| name == "idempotency-key").map(|(_, key)| key.clone()).unwrap()
}

/// Pays once for each key, as such services do. What is the first of its key is paid, and its answer lost.
fn payments(book: &Book) -> Service {
    let book = Arc::clone(book);
    Service::start(move |request| {
        let mut book = book.lock().unwrap();
        let seen = book.entry(key(request)).or_default();
        *seen += 1;
        Reply::json(if *seen == 1 { 500 } else { 200 }, "{}")
    })
}

#[test]
fn three_agents_send_the_same_body_so_that_the_service_pays_one_of_them_and_all_are_told_settled() {
    let book = Book::default();
    let service = payments(&book);
    let mut world = World::serving(&super::settings(&service));
    world.publish(DEBTS);
    world.run_ok(&["fact", "put", "Debt", "d", r#"{"open": 300}"#]);
    let body = json!({
        "pact": "debts", "action": "pay_off", "idempotency_key": "the-same-words-of-three-agents-0001",
        "params": {"debt": "d", "amount": 100}, "observations": [],
    });
    let mut told = Vec::new();
    for name in ["payer-1", "payer-2", "payer-3"] {
        let agent = world.agent(name, "payer");
        let verdict = agent.ask("POST", "/v1/actions?wait_ms=30000", &body.to_string()).json;
        assert_eq!(verdict["verdict"], "settled", "{verdict}");
        let effect = verdict["effect"].as_str().unwrap_or_else(|| panic!("{verdict}"));
        let shown: Json = serde_json::from_str(&world.run_ok(&["effect", "show", effect, "--json"])).unwrap();
        told.push(shown["idempotency_key"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned());
    }
    let paid = book.lock().unwrap().clone();
    assert_eq!(paid.len(), 3, "the service paid one for each that was told so: {paid:?}");
    // The second attempt came under the key of the first, so nothing was paid twice.
    assert!(paid.values().all(|attempts| *attempts == 2), "{paid:?}");
    let mut keys: Vec<String> = paid.into_keys().collect();
    keys.sort();
    told.sort();
    assert_eq!(told, keys, "what operators are told is what was sent");
    for request in service.received() {
        assert_eq!(request.line, format!("POST /payouts/{}", key(&request)), "the template has the same key");
    }
    audit(&mut world);
}
