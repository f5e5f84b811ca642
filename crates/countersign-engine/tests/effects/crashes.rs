//! What a restart finds: nothing is guessed, nothing is sent twice, and snapshots make no difference.

use crate::effects::world::{World, account_id, done, unknown};
use countersign_core::call::{Evidence, FoundCode, Outcome};
use countersign_engine::outbox::{Attempt, Probed};
use serde_json::json;

#[test]
fn a_dispatched_call_is_in_doubt_after_a_restart_and_not_sent_again() {
    for snapshot in [false, true] {
        let mut world = World::new();
        let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
        world.wait(|world| world.asked() == 1, "it never left");
        if snapshot {
            world.gate().snapshot().unwrap();
        }
        // The gate ends before the answer is there; the worker's word comes too late.
        world.crash();
        world.until(effect, "in_doubt");
        assert_eq!(world.act("payer-2", "payout", json!({"account": "a", "amount": 1})).0, "fact_fenced");
        assert_eq!(world.asked(), 1, "it must not be sent again");
        world.outside.answer_probe(Probed::There(Evidence::of(FoundCode::Resolved.said("there it is"))));
        world.until(effect, "settled");
        assert_eq!(world.balance("a"), 400);
        world.audited();
    }
}

#[test]
fn what_cooled_goes_on_cooling_and_is_decided_as_if_nothing_had_been() {
    for snapshot in [false, true] {
        let mut world = World::new();
        let (_, effect) = world.act("payer-1", "cooled", json!({"account": "a", "amount": 100}));
        let (_, frozen) = world.act("payer-1", "cooled", json!({"account": "b", "amount": 100}));
        if snapshot {
            world.gate().snapshot().unwrap();
        }
        assert_eq!(world.act("fraud-1", "freeze", json!({"account": "b"})).0, "committed");
        world.restart();
        assert_eq!((world.phase(effect).as_str(), world.asked()), ("cooling", 0));
        world.outside.answer(done());
        world.pass(2_000);
        world.until(effect, "settled");
        world.until(frozen, "failed");
        assert_eq!((world.balance("a"), world.balance("b")), (400, 500));
        world.audited();
    }
}

#[test]
fn doubts_claims_and_held_feeds_outlast_a_restart() {
    for (snapshot, after) in [(false, false), (true, false), (true, true)] {
        let mut world = World::new();
        let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
        if snapshot && after {
            world.gate().snapshot().unwrap();
        }
        world.outside.answer(unknown());
        world.until(effect, "in_doubt");
        world.feed(&account_id("a"), json!({"status": "active", "balance": 7}));
        let claim = world.claim("fraud-1", &[&account_id("b")], 5_000).unwrap();
        if snapshot && !after {
            world.gate().snapshot().unwrap();
        }
        world.restart();
        assert_eq!(world.phase(effect), "in_doubt");
        assert_eq!(world.act("payer-2", "payout", json!({"account": "b", "amount": 1})).0, "fact_claimed");
        assert_eq!(world.act("payer-2", "payout", json!({"account": "a", "amount": 1})).0, "fact_fenced");
        world.resolve(effect, Outcome::Failed).unwrap();
        assert_eq!(world.balance("a"), 7, "the feed was kept");
        let freeze = world.request("fraud-1", "freeze", json!({"account": "b"}), Some(claim));
        assert_eq!(crate::effects::world::verdict(world.call(freeze)).0, "committed");
        world.audited();
    }
}

#[test]
fn a_repeated_call_after_a_restart_goes_by_its_key_where_the_pact_allows_it() {
    let mut world = World::new();
    let (_, effect) = world.act("payer-1", "cooled", json!({"account": "a", "amount": 100}));
    world.pass(2_000);
    world.wait(|world| world.asked() == 1, "it never left");
    world.crash();
    // The first attempt of the new gate is the second of the call, under the same key.
    world.wait(|world| world.asked() == 2, "it was not repeated");
    let asked = world.outside.asked.lock().clone();
    assert_eq!((&asked[0].1, &asked[0].2), (&asked[1].1, &asked[1].2));
    world.outside.answer(Attempt::Done(Evidence::of(FoundCode::Resolved.said("done before"))));
    world.until(effect, "settled");
    assert_eq!(world.balance("a"), 400);
    world.audited();
}
