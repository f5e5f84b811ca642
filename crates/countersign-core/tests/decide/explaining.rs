//! What a rejection says to an agent that must repair its plan: it must never be sent to look again at what it has seen.

use crate::decide::world::World;
use countersign_core::ids::FactId;
use countersign_core::reason::{Reason, Why};
use countersign_core::record::Event;
use serde_json::{Value as Json, json};

const A: &str = "Account::\"a\"";

/// One account, and an action whose preconditions are these.
fn world(require: &str) -> World {
    let source = format!(
        r#"
pact = "told"
version = 1
[facts.Account]
attributes = {{ status = "String", balance = "Long" }}
[action.act]
resource = 'Account::"{{account}}"'
allow = 'true'
set = {{ balance = "resource.balance - context.amount" }}
[action.act.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = {{ type = "string", maxLength = 3, pattern = "^[a-z]+$" }}
properties.amount = {{ type = "integer", minimum = 1, maximum = 50 }}
properties.way = {{ enum = ["fast", "slow"] }}
{require}"#
    );
    let mut world = World::new(&source, "act", json!({"account": "a", "amount": 10})).with_agent(&[]);
    world.feed(A, Some(account("frozen", 100)));
    world
}

const ACTIVE: &str = "[[action.act.require]]\nid = \"active\"\nthat = 'resource.status == \"active\"'\n";

fn account(status: &str, balance: i64) -> Json {
    json!({"status": status, "balance": balance})
}

fn blocked(world: &World) -> Reason {
    world.decide().blocked().expect("it is blocked").clone()
}

#[test]
fn what_was_already_so_when_it_was_observed_is_not_to_be_observed_again() {
    let mut world = world(ACTIVE);
    world.observe(&[A]);
    world.now_ms += 5;
    let told = blocked(&world);
    assert_eq!(told.message(), "active does not hold: it was already so when you observed");
    assert!(told.failed()[0].as_observed);
    assert!(
        !told.hint().contains("observe ") && told.hint().contains("observing again will not help"),
        "{}",
        told.hint()
    );
    // Something else about the account has changed since: that is no reason to look again either.
    world.feed(A, Some(account("frozen", 90)));
    assert!(blocked(&world).failed()[0].as_observed);
    // But what it reads has changed: then it is.
    world.feed(A, Some(account("closed", 90)));
    let told = blocked(&world);
    assert_eq!(told.message(), "active no longer holds");
    assert!(!told.failed()[0].as_observed && told.hint().starts_with("observe "), "{}", told.hint());
}

#[test]
fn what_was_never_observed_is_not_said_to_have_held_once() {
    let told = blocked(&world(ACTIVE));
    assert_eq!(told.message(), "active does not hold");
    let mut fresh = world(&format!("{ACTIVE}stale_after = \"2s\"\n"));
    fresh.feed(A, Some(account("active", 100)));
    let told = blocked(&fresh);
    assert_eq!(
        (told.message().as_str(), &told.failed()[0].why),
        ("active needs an observation, and none was sent", &Why::Unobserved)
    );
    assert!(told.hint().starts_with(&format!("observe {A} before acting")), "{}", told.hint());
    fresh.observe(&[A]);
    fresh.now_ms += 2_001;
    assert_eq!(blocked(&fresh).message(), "active was checked too long ago");
}

#[test]
fn nothing_is_to_be_observed_where_nothing_could_be_shown() {
    let told = blocked(&world(ACTIVE));
    let mut failed = told.failed()[0].clone();
    assert!(failed.hint().starts_with("observe "), "{}", failed.hint());
    failed.reads.iter_mut().for_each(|read| read.withheld = true);
    assert!(failed.hint().starts_with("this agent may not observe"), "{}", failed.hint());
    failed.facts.clear();
    assert!(failed.hint().starts_with("it reads no fact that can be observed"), "{}", failed.hint());
}

#[test]
fn a_condition_on_time_is_not_said_to_have_failed_before() {
    let early = "[[action.act.require]]\nid = \"early\"\nthat = 'resource.balance == 100 && context.now < 1000010'\n";
    let mut world = world(early);
    world.observe(&[A]);
    world.now_ms += 20;
    let told = blocked(&world);
    assert_eq!((told.message().as_str(), told.failed()[0].as_observed), ("early does not hold", false));
}

#[test]
fn a_condition_on_the_agent_alone_sends_it_to_an_operator() {
    let own = "[[action.act.require]]\nid = \"own\"\nthat = 'principal.trust > 900'\n";
    let mut world = world(own);
    world.observe(&[A]);
    let told = blocked(&world);
    assert!(told.hint().contains("ask an operator") && !told.hint().contains("observe A"), "{}", told.hint());
}

#[test]
fn parameters_that_break_a_limit_are_told_the_limit() {
    let rows = [
        (json!({"account": "a", "amount": 0}), "/amount: it must be at least 1"),
        (json!({"account": "a", "amount": 51}), "/amount: it must be at most 50"),
        (json!({"account": "abcd", "amount": 1}), "/account: it must have at most 3 characters"),
        (json!({"account": "A", "amount": 1}), "/account: it must match ^[a-z]+$"),
        (json!({"account": "a", "amount": 1, "way": "odd"}), r#"/way: it must be one of ["fast","slow"]"#),
    ];
    let mut world = world(ACTIVE);
    for (params, expected) in rows {
        world.params = params;
        let told = blocked(&world);
        assert!(told.message().ends_with(expected), "{}", told.message());
    }
}

/// A fact type that its source must confirm every ten seconds.
fn confirmed_world(require: &str) -> World {
    let source = format!(
        r#"
pact = "fresh"
version = 1
[facts.Price]
attributes = {{ price = "Long" }}
{}
[action.act]
resource = 'Price::"{{item}}"'
allow = 'true'
set = {{ price = "resource.price + 1" }}
[action.act.params]
type = "object"
additionalProperties = false
required = ["item"]
properties.item = {{ type = "string" }}
[[action.act.require]]
id = "cheap"
that = 'resource.price < 100'
{require}"#,
        if require.is_empty() { "max_staleness = \"10s\"" } else { "" }
    );
    let mut world = World::new(&source, "act", json!({"item": "tea"})).with_agent(&[]);
    world.feed(TEA, Some(json!({"price": 10})));
    world
}

const TEA: &str = "Price::\"tea\"";

fn confirm(world: &mut World, entry: u64) {
    let fact: FactId = TEA.parse().unwrap();
    let version = world.state.facts.get(&fact).unwrap().version();
    let tag = world.state.confirmable(&fact, version).unwrap();
    let event = Event::Confirm { fact, tag, version };
    world.next_entry = entry;
    world.enter("feeder", event);
}

#[test]
fn a_fact_counts_for_as_long_as_its_source_has_confirmed_it() {
    for (require, id) in [("", "resource-confirmed"), ("max_staleness = \"10s\"", "cheap")] {
        let mut world = confirmed_world(require);
        world.now_ms += 10_000;
        assert_eq!(world.verdict(), "committed");
        world.now_ms += 1;
        assert_eq!(world.verdict(), format!("precondition_failed: {id} unconfirmed"));
        // A fresh observation says nothing about the source.
        world.observe(&[TEA]);
        let told = blocked(&world);
        assert_eq!((told.failed()[0].limit_ms, told.failed()[0].as_observed), (Some(10_000), false));
        let last = told.failed()[0].reads[0].confirmed.as_ref().unwrap();
        assert_eq!((last.by.as_str(), last.at_ms), ("operator", world.now_ms - 10_001));
        assert!(told.hint().contains("last confirmed 10 s ago, by operator"), "{}", told.hint());
        // Confirmed, it is good again, at the version that it had.
        confirm(&mut world, 900);
        assert_eq!(world.verdict(), "committed");
        let fact = world.state.facts.get(&TEA.parse().unwrap()).unwrap();
        assert_eq!((fact.version(), fact.confirmed.as_ref().unwrap().by.as_str()), (1, "feeder"));
        // Folding an earlier confirmation over a later one changes nothing.
        world.now_ms += 1;
        confirm(&mut world, 899);
        let fact = world.state.facts.get(&TEA.parse().unwrap()).unwrap();
        assert_eq!(fact.confirmed.as_ref().unwrap().entry, 900);
    }
}

#[test]
fn what_an_action_writes_is_not_what_its_source_has_said() {
    let mut world = confirmed_world("");
    world.now_ms += 9_000;
    world.act();
    assert_eq!(world.state.facts.get(&TEA.parse().unwrap()).unwrap().version(), 2);
    world.now_ms += 1_001;
    assert_eq!(world.verdict(), "precondition_failed: resource-confirmed unconfirmed");
}

#[test]
fn an_explanation_has_a_bound_whatever_it_is_about() {
    let names: Vec<String> = (0..20).map(|number| format!("attribute_{number}")).collect();
    let attributes: Vec<String> = names.iter().map(|name| format!("{name} = \"Long\"")).collect();
    let that: Vec<String> = names.iter().map(|name| format!("resource.{name} == 1")).collect();
    let require = |number: u32| {
        format!("[[action.act.require]]\nid = \"all-are-one-{number}\"\nthat = '({})'\n", that.join(" && "))
    };
    let source = format!(
        "pact = \"p\"\nversion = 1\n[facts.Thing]\nattributes = {{ {} }}\n[action.act]\nresource = 'Thing::\"{{thing}}\"'\n\
         allow = 'true'\nset = {{ attribute_0 = \"2\" }}\n[action.act.params]\ntype = \"object\"\nadditionalProperties = false\n\
         required = [\"thing\"]\nproperties.thing = {{ type = \"string\", maxLength = 300 }}\n{}",
        attributes.join(", "),
        (0..40).map(require).collect::<String>()
    );
    let id = "\"".repeat(250);
    let mut world = World::new(&source, "act", json!({ "thing": id })).with_agent(&[]);
    let value = names.iter().map(|name| (name.clone(), json!(0))).collect();
    let fact = FactId::new("Thing".parse().unwrap(), id.as_str()).unwrap();
    world.feed(&fact.to_string(), Some(Json::Object(value)));
    let decision = world.decide();
    let blocked = decision.blocked().unwrap();
    assert_eq!(blocked.failed().len(), 40, "every precondition is told");
    let left_out: usize = blocked.failed().iter().map(|failed| failed.left_out).sum();
    let told: usize = blocked.failed().iter().map(|failed| failed.reads.len()).sum();
    assert_eq!((told + left_out, told > 20), (800, true));
    let bytes = serde_json::to_string(blocked).unwrap().len();
    assert!(bytes < 160_000, "{bytes}");
}
