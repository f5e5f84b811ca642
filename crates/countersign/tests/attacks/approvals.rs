//! Approvals and revocations that must hold at the very attempt, not only at the decision before it. What counts is what the
//! service received.

use super::service::{Received, Reply, Service};
use super::world::{Caller, ORIGIN, World, wait_until};
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
    serde_json::from_str(&world.run_ok(&["effect", "show", effect, "--json"])).unwrap()
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
        let words = [
            "delegation",
            "new",
            "--key",
            "lead.key",
            "--as",
            "lead",
            "--gate",
            ORIGIN,
            "--to",
            "helper",
            "--to-key",
            did.trim(),
        ];
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
    world.run_ok(&["halt", "add", "--agent", "halted", "--reason", "looks wrong"]);
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
    world.run_ok(&["effect", "resolve", &id, "failed", "--reason", "the service's book has no such payout"]);
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

/// Cools for a few seconds, and needs a person above 100.
const COOLING: &str = r#"
pact = "cooling"
version = VERSION

[facts.Account]
attributes = { status = "String" }

[action.pay]
resource = 'Account::"{account}"'
allow = 'true'
call.http = "payments"
call.path = "/payouts"
call.body = { account = "context.account" }
call.after = "5s"

[action.pay.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 5000 }

[[action.pay.require]]
id = "small"
that = 'SMALL'
on_fail = "review"
"#;

fn cooling(version: u64, small: &str) -> String {
    COOLING.replace("VERSION", &version.to_string()).replace("SMALL", small)
}

#[test]
fn an_approval_under_one_pact_waives_what_the_next_one_asks() {
    let door = Door::default();
    door.open();
    let (world, service) = behind(&door, 200);
    world.publish(&cooling(1, "context.amount <= 100"));
    let agent = world.agent("agent", "payer");
    world.run_ok(&["operator", "new", "vera", "--role", "reviewer"]);
    let act = |account: &str, amount: u64| {
        world.run_ok(&["fact", "put", "Account", account, r#"{"status":"active"}"#]);
        let body = json!({
            "pact": "cooling", "action": "pay", "params": {"account": account, "amount": amount},
            "idempotency_key": format!("cooling-{account}-0123456789abcdef"),
        });
        agent.ask("POST", "/v1/actions", &body.to_string()).json
    };
    let parked = act("approved", 500);
    assert_eq!(parked["verdict"], "review", "{parked}");
    let review = parked["review"].as_str().unwrap();
    let approved = world.run(&["review", "approve", review, "--yes", "--json", "--key", "vera.key"]);
    assert_eq!(approved.status.code(), Some(6), "not over yet: {approved:?}");
    let approved: Json = serde_json::from_slice(&approved.stdout).unwrap();
    assert_eq!(approved["verdict"], "in_flight", "{approved}");
    // One without an approval cools beside it.
    let plain = act("plain", 50);
    assert_eq!(plain["verdict"], "in_flight", "{plain}");
    // Under the next pact, the condition of the same name is about something else: nothing is paid any more.
    world.publish(&cooling(2, r#"resource.status == "never""#));
    let (approved, plain) = (approved["effect"].as_str().unwrap(), plain["effect"].as_str().unwrap());
    wait_until("both are cancelled", || [approved, plain].iter().all(|id| effect(&world, id)["state"] != "cooling"));
    assert_eq!(paid(&service), [""; 0], "a waiver for one pact's condition waived the next one's");
    assert_eq!(effect(&world, approved)["code"], "approval_outdated", "{}", effect(&world, approved));
    assert_eq!(effect(&world, plain)["code"], "precondition_failed", "{}", effect(&world, plain));
    world.run_ok(&["audit", "--data", "data"]);
}

/// Reads many large facts, and needs a person.
const LARGE: &str = r#"
pact = "large"
version = 1

[facts.Page]
attributes = { text = "String" }

[action.print]
resource = 'Page::"0"'
READS
allow = 'true'
set = { text = '"printed"' }

[action.print.params]
type = "object"
additionalProperties = false

[[action.print.require]]
id = "never"
that = 'resource.text == "x"'
on_fail = "review"
"#;

#[test]
fn a_review_grows_so_large_that_no_approval_of_it_can_be_sent() {
    let world = World::serving("");
    let reads: String = (1..24).map(|page| format!("reads.p{page} = 'Page::\"{page}\"'\n")).collect();
    world.publish(&LARGE.replace("READS\n", &reads));
    let text = "x".repeat(15_000);
    for page in 0..24 {
        let value = json!({ "text": text }).to_string();
        world.run_ok(&["fact", "put", "Page", &page.to_string(), &value]);
    }
    let agent = world.agent("agent", "printer");
    world.run_ok(&["operator", "new", "vera", "--role", "reviewer"]);
    let body = json!({
        "pact": "large", "action": "print", "params": {}, "idempotency_key": "large-0123456789abcdef0123456789",
    });
    let parked = agent.ask("POST", "/v1/actions", &body.to_string()).json;
    assert_eq!(parked["verdict"], "review", "{parked}");
    let review = parked["review"].as_str().unwrap();
    let approved = world.run_ok(&["review", "approve", review, "--yes", "--json", "--key", "vera.key"]);
    assert!(approved.contains("\"committed\""), "{approved}");
    let fact = world.run_ok(&["fact", "get", "Page", "0", "--json"]);
    assert!(fact.contains("printed"), "{fact}");
}

#[test]
fn a_void_approval_is_tried_and_leaves_no_trace() {
    let door = Door::default();
    door.open();
    let (world, service) = behind(&door, 200);
    world.publish(&cooling(1, "context.amount <= 100"));
    let agent = world.agent("agent", "payer");
    world.run_ok(&["operator", "new", "vera", "--role", "reviewer"]);
    world.run_ok(&["fact", "put", "Account", "a", r#"{"status":"active"}"#]);
    let body = json!({
        "pact": "cooling", "action": "pay", "params": {"account": "a", "amount": 500},
        "idempotency_key": "voided-0123456789abcdef0123456789",
    });
    let parked = agent.ask("POST", "/v1/actions", &body.to_string()).json;
    let review = parked["review"].as_str().unwrap();
    let vera = world.caller("vera");
    let shown = vera.ask("GET", &format!("/v1/reviews/{review}"), "").json;
    // Between showing and approving, the agent is quarantined.
    world.run_ok(&["agent", "quarantine", "agent"]);
    let approval = json!({ "shown": shown["shown"] }).to_string();
    let refused = vera.ask("POST", &format!("/v1/reviews/{review}/approve"), &approval);
    assert_eq!((refused.status, &refused.json["error"]["code"]), (409, &json!("approval_void")), "{refused:?}");
    let entry = world.entries().pop().unwrap();
    let (leaf, blocked) = (&entry["leaf"], &entry["payload"]["decision"]["blocked"]);
    assert_eq!(
        (&leaf["kind"], &leaf["by"], &leaf["verdict"]),
        (&json!("approval"), &json!("vera"), &json!("rejected"))
    );
    assert_eq!(format!("rev_{}", leaf["review"]), review);
    assert_eq!(blocked["code"], "agent_not_active", "{entry}");
    assert_eq!(paid(&service), [""; 0]);
    world.run_ok(&["audit", "--data", "data"]);
    world.run_ok(&["verify", "--data", "data", "--log-key", "data/log.vkey"]);
}

#[test]
fn a_delegation_made_for_staging_is_used_in_production() {
    let door = Door::default();
    door.open();
    let (world, service) = behind(&door, 200);
    world.agent("lead", "payer");
    let helper = world.agent("helper", "payer");
    let did = world.run_ok(&["key", "show", "helper.key"]);
    let delegated = |gate: &str| {
        let words =
            ["delegation", "new", "--key", "lead.key", "--as", "lead", "--gate", gate, "--to", "helper", "--to-key"];
        world.run_ok(&[&words[..], &[did.trim(), "--any-action", "--expires", "1h"]].concat()).trim().to_owned()
    };
    let entries = world.entries().len();
    let refused = ask(&world, &helper, "pay", "staged", Some(&delegated("staging.example/gate")));
    assert_eq!(refused["error"]["code"], "delegation_refused", "{refused}");
    // The account was fed, and nothing else happened.
    assert_eq!((world.entries().len(), paid(&service).len()), (entries + 1, 0));
    let id = pay(&world, &helper, "pay", "produced", Some(&delegated(ORIGIN)));
    wait_until("it is paid", || effect(&world, &id)["state"] == "settled");
    assert_eq!(paid(&service), ["produced"]);
}
