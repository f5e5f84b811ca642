//! External facts: what is decided without them, and what when they are read.

use crate::decide::world::{World, in_words};
use countersign_core::call::{EffectId, ExternalHow, Send, external_key};
use countersign_core::decide::{ReadyToSend, judge};
use countersign_core::decision::Verdict;
use countersign_core::effect::Effect;
use countersign_core::fact::Version;
use countersign_core::ids::FactId;
use countersign_core::reason::Expected;
use countersign_core::record::{Decided, Event};
use countersign_core::value::{Attributes, Value};
use serde_json::{Value as Json, json};

const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long", note = "String?" }
source = { postgres = "bank", query = "select status, balance, note from accounts where id = $1" }

[facts.Limit]
attributes = { most = "Long" }

[action.debit]
resource = 'Account::"{account}"'
reads.other = { fact = 'Account::"{second}"', optional = true, unchanged = true }
reads.limit = 'Limit::"daily"'
allow = 'principal.roles.contains("payer") && resource.status != "closed"'
call = { postgres = "bank", run = [
  { sql = "update accounts set balance = $1 where id = $2", params = ["resource.balance - context.amount", "context.account"] },
] }

[action.debit.params]
type = "object"
additionalProperties = false
required = ["account", "second", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.second = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 5000 }

[[action.debit.require]]
id = "covered"
that = 'resource.balance >= context.amount'

[[action.debit.require]]
id = "within-limit"
that = 'context.amount <= context.limit.most'
"#;

fn world() -> World {
    let params = json!({"account": "a", "second": "b", "amount": 100});
    let mut world = World::new(PACT, "debit", params).with_agent(&["payer"]);
    world.feed("Limit::\"daily\"", Some(json!({"most": 200})));
    world
}

/// Decides, and puts what was decided under way.
fn dispatched(world: &mut World) -> Effect {
    let (action, decision) = (world.request(), world.decide());
    assert_eq!(in_words(&decision), "in_flight");
    let event = Event::Action(Box::new(Decided { action: Box::new(action), decision }));
    world.next_entry = 70;
    world.enter("agent-1", event);
    world.state.effects.find(EffectId(70)).unwrap().clone()
}

fn row(value: Option<Json>) -> Option<Attributes> {
    value.map(|value| Attributes::from_untyped_json(value.as_object().unwrap()).unwrap())
}

fn read(a: Option<Json>, b: Option<Json>) -> Vec<(FactId, Option<Attributes>)> {
    let id = |id: &str| id.parse().unwrap();
    vec![(id("Account::\"a\""), row(a)), (id("Account::\"b\""), row(b))]
}

fn observe_external(world: &mut World, fact: &str, value: Json) {
    let value = row(Some(value)).unwrap();
    world.observed.push(countersign_core::action::Observed {
        fact: fact.parse().unwrap(),
        version: Version::Content(value.content_digest()),
        at_ms: world.now_ms,
        value: Some(value),
    });
}

#[test]
fn what_can_be_decided_without_them_is_decided_first() {
    let mut world = world();
    world.params["amount"] = json!(201);
    assert_eq!(world.verdict(), "precondition_failed: within-limit false");
    world.params["amount"] = json!(200);
    let effect = dispatched(&mut world);
    let dispatched = &effect.flight().unwrap().dispatched;
    assert_eq!(dispatched.call.send, None, "nothing is rendered before they are read");
    let reads: Vec<_> = dispatched.call.outside.iter().map(|read| read.fact.to_string()).collect();
    assert_eq!(reads, ["Account::\"a\"", "Account::\"b\""]);
    assert!(matches!(&dispatched.call.outside[0].how, ExternalHow::Query(query) if query.starts_with("select")));
    // Rows are locked where they live; the gate fences what it keeps itself.
    let fenced: Vec<_> = dispatched.fenced.iter().map(|fenced| fenced.fact.to_string()).collect();
    assert_eq!(fenced, ["Limit::\"daily\""]);
}

#[test]
fn the_whole_action_is_judged_on_what_was_read() {
    let mut world = world();
    observe_external(&mut world, "Account::\"b\"", json!({"status": "active", "balance": 3}));
    let effect = dispatched(&mut world);
    let b = || Some(json!({"status": "active", "balance": 3}));
    let judged = |a: Json, b| judge(&effect, &read(Some(a), b), world.now_ms + 5);
    let send = judged(json!({"status": "active", "balance": 500, "note": "x"}), b()).unwrap().send;
    let Send::Sql { statements } = send else { panic!("{send:?}") };
    assert_eq!(statements[0].params, [Value::Long(400), Value::String("a".into())]);
    let code = |result: Result<ReadyToSend, countersign_core::reason::Reason>| {
        let blocked = result.unwrap_err();
        let failed: Vec<_> = blocked.failed().iter().map(|failed| failed.id.to_string()).collect();
        format!("{} {}", blocked.code(), failed.join(" "))
    };
    assert_eq!(code(judged(json!({"status": "active", "balance": 99}), b())), "precondition_failed covered");
    assert_eq!(code(judged(json!({"status": "closed", "balance": 500}), b())), "not_allowed ");
    assert_eq!(code(judge(&effect, &read(None, b()), world.now_ms)), "fact_missing ");
    // Unchanged compares content, and a row that is gone is another content.
    let good = || json!({"status": "active", "balance": 500});
    let moved = Some(json!({"status": "active", "balance": 4}));
    assert_eq!(code(judged(good(), moved)), "precondition_failed other-unchanged");
    assert_eq!(code(judged(good(), None)), "precondition_failed other-unchanged");
    // Other facts than were asked for, or in another order, judge nothing.
    let mut swapped = read(Some(good()), b());
    swapped.reverse();
    assert_eq!(code(judge(&effect, &swapped, world.now_ms)), "effect_invalid ");
    assert_eq!(code(judge(&effect, &swapped[..1], world.now_ms)), "effect_invalid ");
}

#[test]
fn a_judgement_rests_on_the_dispatch_and_not_on_what_is_current() {
    let mut world = world();
    observe_external(&mut world, "Account::\"b\"", json!({"status": "active", "balance": 3}));
    let effect = dispatched(&mut world);
    // Whoever is revoked meanwhile could no longer be dispatched; what is in flight is judged as it left.
    world.register(&[], "revoked", 0);
    world.feed("Limit::\"daily\"", Some(json!({"most": 1})));
    let values =
        read(Some(json!({"status": "active", "balance": 500})), Some(json!({"status": "active", "balance": 3})));
    assert!(judge(&effect, &values, world.now_ms + 1).is_ok());
    assert!(matches!(world.decide().verdict, Verdict::Rejected(_)));
}

#[test]
fn what_reads_otherwise_than_it_was_observed_is_said_to_and_nobody_is_named_for_it() {
    let mut world = world();
    observe_external(&mut world, "Account::\"a\"", json!({"status": "active", "balance": 500}));
    observe_external(&mut world, "Account::\"b\"", json!({"status": "active", "balance": 3}));
    let effect = dispatched(&mut world);
    let values = read(Some(json!({"status": "active", "balance": 5})), Some(json!({"status": "active", "balance": 3})));
    let blocked = judge(&effect, &values, world.now_ms + 1).unwrap_err();
    let place = &effect.flight().unwrap().dispatched.call.adapter;
    let said = format!("Account::\"a\" has changed in {place} since it was observed");
    assert!(blocked.hint().contains(&said) && !blocked.hint().contains("entry"), "{}", blocked.hint());
    let read = &blocked.failed()[0].reads[0];
    assert_eq!(read.changed_here(), None);
    // Which content was seen and which is there now, by their whole digests.
    let digest = |balance: i64| {
        Version::Content(row(Some(json!({"status": "active", "balance": balance}))).unwrap().content_digest())
    };
    assert_eq!((read.observed_version, read.version), (Some(digest(500)), Some(digest(5))));
    assert_eq!(read.read_external().map(|read| read.at_ms), Some(world.now_ms + 1));
}

#[test]
fn the_key_of_an_external_call_is_the_effects_own() {
    let world = world();
    let (one, same) = (world.request(), world.request());
    let mut other = world.clone();
    other.params["amount"] = json!(101);
    let key = external_key("a.example/gate", EffectId(7), &one.id);
    assert_eq!(key, external_key("a.example/gate", EffectId(7), &same.id));
    assert_ne!(key, external_key("a.example/gate", EffectId(7), &other.request().id), "another action");
    assert_ne!(key, external_key("a.example/gate", EffectId(8), &one.id), "another effect of the same action");
    assert_ne!(key, external_key("b.example/gate", EffectId(7), &one.id), "another gate");
    assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
}

/// Two rows whose digests have the same last 53 bits of their first 56.
#[test]
fn content_that_collides_in_53_bits_is_other_content() {
    let pact = PACT.replace(
        "status = \"String\", balance = \"Long\", note = \"String?\"",
        "price = \"Long\", revision = \"Long\"",
    );
    let pact =
        pact.replace("status, balance, note", "price, revision").replace(" && resource.status != \"closed\"", "");
    let pact = pact
        .replace("resource.balance - context.amount", "resource.price")
        .replace("resource.balance >= context.amount", "resource.price >= 0");
    let params = json!({"account": "a", "second": "b", "amount": 100});
    let mut world = World::new(&pact, "debit", params).with_agent(&["payer"]);
    world.feed("Limit::\"daily\"", Some(json!({"most": 200})));
    let cheap = json!({"price": 10, "revision": 3_447_329_462_336_258_i64});
    let dear = json!({"price": 1_000_000, "revision": 4_496_382_320_294_837_i64});
    observe_external(&mut world, "Account::\"b\"", cheap.clone());
    let effect = dispatched(&mut world);
    let judged = |second: &Json| judge(&effect, &read(Some(cheap.clone()), Some(second.clone())), world.now_ms + 5);
    assert!(judged(&cheap).is_ok());
    let blocked = judged(&dear).unwrap_err();
    let price = blocked.failed()[0].reads.iter().find(|read| read.attribute.as_deref() == Some("price")).unwrap();
    assert_eq!(price.expected, Expected::Value(Value::Long(10)), "what was observed is what was observed");
    assert_eq!(price.actual, Some(Value::Long(1_000_000)));
}
