//! Approvals and revocations that must hold at the very attempt, not only at the decision before it. What counts is what the
//! service received.

use super::service::{Received, Reply, Service};
use super::world::{Caller, World, wait_until};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Pays without conditions, once (`pay`), or again under its key where nobody knows (`retry`).
pub const PAYOUTS: &str = r#"
pact = "payouts"
version = 1

[facts.Account]
attributes = { status = "String" }

[action.pay]
resource = 'Account::"{account}"'
allow = 'true'
call.http = "payments"
call.path = "/payouts"
call.body = { account = "context.account" }

[action.pay.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 64 }

[[action.pay.require]]
id = "active"
that = 'resource.status == "active"'

[action.retry]
resource = 'Account::"{account}"'
allow = 'true'
call.http = "payments"
call.path = "/payouts"
call.body = { account = "context.account" }
call.idempotent = true
call.retries = 5

[action.retry.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 64 }

[[action.retry.require]]
id = "active"
that = 'resource.status == "active"'
"#;

/// Keeps whoever comes waiting until it is opened.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// A gate with one worker for a service that keeps its first caller waiting at the door.
fn behind(door: &Door, status: u16) -> (World, Service) {
    let at = door.clone();
    let service = Service::start(move |_: &Received| {
        at.wait();
        Reply::json(status, "{}")
    });
    let world = World::serving(&format!(
        "[adapters.payments]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\nconcurrency = 1\n\
         breaker = {{ failures = 1000000 }}\n",
        service.url
    ));
    world.publish(PAYOUTS);
    (world, service)
}

/// Asks for a payout from an account of the agent's own; its effect.
fn pay(world: &World, caller: &Caller, action: &str, account: &str, delegation: Option<&str>) -> String {
    let answer = ask(world, caller, action, account, delegation);
    assert_eq!(answer["verdict"], "in_flight", "{answer}");
    answer["effect"].as_str().unwrap().to_owned()
}

fn ask(world: &World, caller: &Caller, action: &str, account: &str, delegation: Option<&str>) -> Json {
    world.run_ok(&["fact", "put", "Account", account, r#"{"status":"active"}"#]);
    let mut body = json!({
        "pact": "payouts", "action": action, "params": {"account": account},
        "idempotency_key": format!("payout-of-{account}-0123456789abcdef"),
    });
    if let Some(delegation) = delegation {
        body["delegation"] = json!(delegation);
    }
    caller.ask("POST", "/v1/actions", &body.to_string()).json
}

fn effect(world: &World, effect: &str) -> Json {
    serde_json::from_str(&world.run_ok(&["effects", "show", effect, "--json"])).unwrap()
}

/// The accounts that money was paid to, by the service's own book.
fn paid(service: &Service) -> Vec<String> {
    let account = |received: &Received| serde_json::from_str::<Json>(&received.body).unwrap()["account"].clone();
    service.received().iter().map(|received| account(received).as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_agent_revoked_after_its_dispatch_is_still_paid() {
    let door = Door::default();
    let (world, service) = behind(&door, 200);
    let first = world.agent("first", "payer");
    // Each of these was dispatched while all was well, and waits for the worker.
    pay(&world, &first, "pay", "first", None);
    wait_until("the first call is at the service", || service.received().len() == 1);
    let queued = |name: &str| (name.to_owned(), pay(&world, &world.agent(name, "payer"), "pay", name, None));
    let mut stopped =
        vec![queued("revoked"), queued("quarantined"), queued("rekeyed"), queued("removed"), queued("halted")];
    world.agent("lead", "payer");
    let helper = world.agent("helper", "payer");
    let did = world.run_ok(&["key", "show", "helper.key"]);
    let delegated = |expires: &str| {
        let words = ["delegate", "--key", "lead.key", "--as", "lead", "--to", "helper", "--to-key", did.trim()];
        let token = world.run_ok(&[&words[..], &["--any-action", "--expires", expires]].concat());
        token.trim().to_owned()
    };
    stopped.push(("delegated".into(), pay(&world, &helper, "pay", "delegated", Some(&delegated("1h")))));
    // As short as this machine allows: it must last until the payout is dispatched, and be over before it is sent.
    let mut spans = [2, 8, 32].into_iter();
    let over = loop {
        let span = spans.next().expect("a payout takes half a minute");
        let account = format!("expired-{span}");
        let answer = ask(&world, &helper, "pay", &account, Some(&delegated(&format!("{span}s"))));
        if answer["verdict"] == "in_flight" {
            stopped.push((account, answer["effect"].as_str().unwrap().to_owned()));
            break Instant::now() + Duration::from_secs(span + 1);
        }
    };
    let last = world.agent("last", "payer");
    let lasting = pay(&world, &last, "pay", "last", None);

    world.run_ok(&["agent", "revoke", "revoked"]);
    world.run_ok(&["agent", "quarantine", "quarantined"]);
    world.run_ok(&["agent", "rotate", "rekeyed", "--key-file", "rekeyed-2.key", "--overlap", "0"]);
    world.run_ok(&["fact", "delete", "Agent", "removed"]);
    world.run_ok(&["halt", "--agent", "halted", "--reason", "looks wrong"]);
    // An expired hop needs nobody to say so.
    wait_until("the delegation is over", || Instant::now() > over);
    world.run_ok(&["agent", "quarantine", "lead"]);
    door.open();

    wait_until("the last call is settled", || effect(&world, &lasting)["state"] == "settled");
    assert_eq!(paid(&service), ["first", "last"], "{stopped:?}");
    let codes = [
        "agent_not_active",
        "agent_not_active",
        "key_not_current",
        "unknown_agent",
        "halted",
        "delegation_member_not_active",
        "delegation_expired",
    ];
    for ((name, id), code) in stopped.iter().zip(codes) {
        let ended = effect(&world, id);
        assert_eq!((&ended["state"], &ended["code"]), (&json!("failed"), &json!(code)), "{name}: {ended}");
    }
    // And the entries say so to whoever decides them again.
    world.run_ok(&["audit", "--data", "data"]);
}

#[test]
fn an_agent_revoked_between_two_attempts_is_paid_by_the_second() {
    let door = Door::default();
    // 503 leaves open whether it was paid, and the pact lets it be asked again.
    let (world, service) = behind(&door, 503);
    let agent = world.agent("agent", "payer");
    let id = pay(&world, &agent, "retry", "agent", None);
    wait_until("the first attempt is at the service", || service.received().len() == 1);
    world.run_ok(&["agent", "revoke", "agent"]);
    door.open();
    wait_until("nobody knows", || effect(&world, &id)["state"] == "in_doubt");
    assert_eq!(service.received().len(), 1, "a second attempt arrived after the revocation");
    assert_eq!(effect(&world, &id)["code"], "agent_not_active", "{}", effect(&world, &id));
    // What is in doubt can still be resolved, by a person, although its agent is revoked.
    world.run_ok(&["effects", "resolve", &id, "failed", "--reason", "the service's book has no such payout"]);
    world.run_ok(&["audit", "--data", "data"]);
}

#[test]
fn an_agent_revoked_while_the_gate_is_down_is_paid_after_the_restart() {
    let door = Door::default();
    let (mut world, service) = behind(&door, 200);
    let agent = world.agent("agent", "payer");
    let id = pay(&world, &agent, "retry", "agent", None);
    wait_until("the first attempt is at the service", || service.received().len() == 1);
    world.kill();
    world.run_ok(&["agent", "revoke", "agent", "--data", "data", "--key", "admin.key"]);
    door.open();
    world.serve();
    wait_until("nobody knows", || effect(&world, &id)["state"] == "in_doubt");
    assert_eq!(service.received().len(), 1, "the call was repeated for a revoked agent");
    assert_eq!(effect(&world, &id)["code"], "agent_not_active", "{}", effect(&world, &id));
}
