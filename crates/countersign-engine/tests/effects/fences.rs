//! Steady fences: what a call in flight relies on does not change.

use crate::effects::world::{World, account_id, done, entry, operator, unknown, verdict};
use countersign_core::call::Outcome;
use countersign_core::identity::Auth;
use countersign_core::record::Event;
use countersign_engine::request::{Refusal, Request};
use serde_json::json;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn two_calls_that_set_one_fact_are_never_in_flight_at_once() {
    let mut world = World::new();
    let (_, first) = world.act("payer-1", "payout", json!({"account": "a", "amount": 350}));
    assert_eq!(world.act("payer-2", "payout", json!({"account": "a", "amount": 280})).0, "fact_fenced");
    // Another account is nobody's business.
    let (word, other) = world.act("payer-2", "payout", json!({"account": "b", "amount": 280}));
    assert_eq!(word, "in_flight");
    world.outside.answer(done());
    world.outside.answer(done());
    world.until(first, "settled");
    world.until(other, "settled");
    assert_eq!(world.act("payer-2", "payout", json!({"account": "a", "amount": 280})).0, "precondition_failed");
    assert_eq!((world.balance("a"), world.balance("b")), (150, 220));
    world.audited();
}

#[test]
fn calls_that_only_rely_on_a_fact_share_it_and_keep_writers_out() {
    let mut world = World::new();
    let (first, one) = world.act("payer-1", "notify", json!({"account": "a"}));
    let (second, two) = world.act("payer-2", "notify", json!({"account": "a"}));
    assert_eq!((first.as_str(), second.as_str()), ("in_flight", "in_flight"));
    assert_eq!(world.act("fraud-1", "freeze", json!({"account": "a"})).0, "fact_fenced");
    assert_eq!(world.act("payer-1", "payout", json!({"account": "a", "amount": 1})).0, "fact_fenced");
    world.outside.answer(done());
    world.outside.answer(done());
    world.until(one, "settled");
    world.until(two, "settled");
    assert_eq!(world.act("fraud-1", "freeze", json!({"account": "a"})).0, "committed");
    world.audited();
}

#[test]
fn a_writer_that_may_wait_is_answered_when_the_fence_ends() {
    let mut world = World::new();
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 400}));
    let (told, answered) = mpsc::channel();
    let debit = world.request("payer-2", "debit", json!({"account": "a", "amount": 200}), None);
    world.gate().submit(debit, Box::new(move |answer| drop(told.send(answer)))).unwrap();
    world.wait(|world| world.gate().waiting() == 1, "it never came to wait");
    assert!(answered.recv_timeout(Duration::from_millis(100)).is_err(), "it must wait");
    world.outside.answer(done());
    let (word, entry) = verdict(answered.recv_timeout(Duration::from_secs(10)).unwrap());
    // It is decided on what the settlement left: 100, which does not cover 200.
    assert_eq!(word, "precondition_failed");
    assert!(entry > effect);
    world.until(effect, "settled");
    world.audited();
}

#[test]
fn nobody_waits_longer_than_the_pact_says() {
    let mut world = World::new();
    world.act("payer-1", "payout", json!({"account": "a", "amount": 400}));
    let (told, answered) = mpsc::channel();
    let debit = world.request("payer-2", "debit", json!({"account": "a", "amount": 1}), None);
    world.gate().submit(debit, Box::new(move |answer| drop(told.send(answer)))).unwrap();
    world.wait(|world| world.gate().waiting() == 1, "it never came to wait");
    world.pass(29_999);
    assert!(answered.recv_timeout(Duration::from_millis(200)).is_err(), "its time is not up");
    world.pass(1);
    assert_eq!(verdict(answered.recv_timeout(Duration::from_secs(10)).unwrap()).0, "fact_fenced");
    world.outside.answer(done());
    world.audited();
}

#[test]
fn feeds_are_held_in_their_order_and_written_when_the_fence_ends() {
    let mut world = World::new();
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    let account = account_id("a");
    let held = world.feed(&account, json!({"status": "active", "balance": 900}));
    assert!(matches!(held.event, Event::Held { .. }));
    world.feed(&account, json!({"status": "frozen", "balance": 800}));
    let fact = account.parse().unwrap();
    let conditional = Request::Feed { by: operator(), auth: Auth::None, fact, value: None, if_match: Some(1) };
    assert!(matches!(world.call(conditional), Err(Refusal::Fenced { .. })));
    assert_eq!(world.balance("a"), 500);
    world.outside.answer(unknown());
    world.until(effect, "in_doubt");
    assert_eq!(world.balance("a"), 500, "a doubt keeps its fences");
    let settled = entry(world.resolve(effect, Outcome::Settled).unwrap()).index;
    assert_eq!(world.value(&account), json!({"status": "frozen", "balance": 800}));
    let view = world.gate().view();
    let fact = view.whole_state().facts.get(&account.parse().unwrap()).unwrap().clone();
    assert_eq!((view.whole_state().held.len(), fact.version(), fact.written.entry), (0, 4, settled + 2));
    drop(view);
    // The gate made the last entries; what they wrote is the work of others, before and after a restart.
    let writers = |world: &World| {
        let (versions, _) = world.gate().history(&account.parse().unwrap(), u64::MAX, 10).unwrap();
        let newest = world.gate().fact(&account.parse().unwrap()).unwrap().written.by.to_string();
        let all: Vec<_> = versions.iter().map(|version| version.written_by.to_string()).collect();
        (newest, all.join(" "))
    };
    let expected = ("operator".to_owned(), "operator operator payer-1 operator".to_owned());
    assert_eq!(writers(&world), expected);
    world.restart();
    assert_eq!(writers(&world), expected);
    world.audited();
}

#[test]
fn what_a_held_feed_will_change_is_not_relied_on() {
    let mut world = World::new();
    world.feed(&account_id("b"), json!({"status": "active", "balance": 0}));
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    let lend = |world: &mut World| world.act("payer-2", "lend", json!({"account": "b", "backer": "a", "amount": 1})).0;
    assert_eq!(lend(&mut world), "committed", "a fence alone keeps no reader out");
    world.feed(&account_id("a"), json!({"status": "frozen", "balance": 500}));
    assert_eq!(lend(&mut world), "fact_fenced", "the gate has been told that the account is frozen");
    world.outside.answer(unknown());
    world.until(effect, "in_doubt");
    world.restart();
    assert_eq!(lend(&mut world), "fact_fenced", "also after a restart");
    world.resolve(effect, Outcome::Settled).unwrap();
    assert_eq!(lend(&mut world), "precondition_failed");
    assert_eq!(world.balance("b"), 1);
    world.audited();
}

#[test]
fn a_held_feed_is_not_kept_waiting_by_ever_new_calls() {
    let mut world = World::new();
    let (_, first) = world.act("payer-1", "notify", json!({"account": "a"}));
    assert_eq!(world.act("payer-2", "notify", json!({"account": "a"})).0, "in_flight", "readers share a fact");
    world.feed(&account_id("a"), json!({"status": "active", "balance": 7}));
    assert_eq!(world.act("payer-1", "notify", json!({"account": "a"})).0, "fact_fenced", "until a feed waits for it");
    // Which of the two is answered first is chance.
    world.outside.answer(unknown());
    world.outside.answer(unknown());
    world.until(first, "in_doubt");
    world.until(first + 1, "in_doubt");
    world.restart();
    assert_eq!(world.act("payer-1", "notify", json!({"account": "a"})).0, "fact_fenced", "also after a restart");
    for effect in [first, first + 1] {
        world.resolve(effect, Outcome::Failed).unwrap();
    }
    assert_eq!(world.balance("a"), 7);
    assert_eq!(world.act("payer-1", "notify", json!({"account": "a"})).0, "in_flight");
    world.outside.answer(done());
    world.audited();
}
