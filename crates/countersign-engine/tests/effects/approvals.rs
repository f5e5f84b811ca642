//! Calls that a person approved: they go where the person was shown that they go, or nowhere.

use crate::effects::world::{World, done, entry, operator};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::review::{ReviewId, ReviewRefusal};
use countersign_engine::request::{Refusal, Request};
use serde_json::{Value as Json, json};

const PAYEE: &str = "Payee::\"jane\"";
const HOLD: &str = "Hold::\"jane\"";

fn vera() -> AgentId {
    AgentId::new("vera").unwrap()
}

/// A gate with a payee, and a transfer to it that waits for a person.
fn parked(action: &str) -> (World, ReviewId) {
    let mut world = World::new();
    world.feed(PAYEE, payee("GOOD", "a"));
    world.feed(HOLD, json!({"until": 7}));
    let (word, review) = world.act("payer-1", action, json!({"payee": "jane"}));
    assert_eq!(word, "precondition_failed");
    (world, ReviewId(review))
}

fn payee(iban: &str, note: &str) -> Json {
    json!({"iban": iban, "note": note})
}

fn approve(world: &World, token: &str) -> Result<u64, Refusal> {
    let shown = world.gate().open_shown(token, &vera()).unwrap();
    let until_ms = shown.at_ms + 600_000;
    let request = Request::Approve { by: vera(), auth: Auth::None, shown: Box::new(shown), until_ms };
    world.call(request).map(|answer| entry(answer).index)
}

fn delete(world: &World, fact: &str) {
    let (by, fact) = (operator(), fact.parse().unwrap());
    world.call(Request::Feed { by, auth: Auth::None, fact, value: None, if_match: None }).unwrap();
}

/// The code that a call was cancelled with.
fn cancelled_with(world: &World) -> Json {
    let last = world.gate().view().position - 1;
    let entries = (0..=last).rev().map(|index| world.gate().read_log(index).unwrap());
    let json = |text: &str| serde_json::from_str::<Json>(text).unwrap();
    let mut dispatches =
        entries.map(|entry| entry.show().unwrap()).filter(|shown| json(&shown.leaf)["kind"] == "dispatch");
    json(&dispatches.next().unwrap().payload.unwrap())["decision"]["blocked"]["code"].clone()
}

#[test]
fn attack_an_approved_call_is_sent_to_another_address_than_was_shown() {
    // The address is changed between showing and approving.
    let (world, review) = parked("transfer");
    let token = world.gate().show_review(review, &vera()).unwrap().token;
    world.feed(PAYEE, payee("EVIL", "a"));
    let refused = approve(&world, &token).unwrap_err();
    assert!(matches!(refused, Refusal::Review(ReviewRefusal::Void(..))), "{refused}");
    assert_eq!(world.asked(), 0);
    // Shown again, it is approved as it is now.
    world.outside.answer(done());
    let token = world.gate().show_review(review, &vera()).unwrap().token;
    let effect = approve(&world, &token).unwrap();
    world.until(effect, "settled");
    let sent = world.outside.asked.lock()[0].2.to_string();
    assert!(sent.contains("/transfer/EVIL/"), "{sent}");
    world.audited();
    // It is changed while the approved call cools.
    let (world, review) = parked("transfer-later");
    let token = world.gate().show_review(review, &vera()).unwrap().token;
    let effect = approve(&world, &token).unwrap();
    world.feed(PAYEE, payee("EVIL", "a"));
    world.outside.answer(done());
    world.pass(2_001);
    world.until(effect, "failed");
    assert_eq!((world.asked(), cancelled_with(&world)), (0, "approval_outdated".into()));
    world.audited();
}

/// How the gate goes on while an approved call cools.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Restart {
    None,
    FromLog,
    SnapshotBefore,
    SnapshotAfter,
    SnapshotWhileParked,
}

#[test]
fn attack_a_restart_lets_an_approved_call_leave_that_a_change_had_voided() {
    type Step = (fn(&World), bool);
    let steps: [Step; 4] = [
        (|world| delete(world, HOLD), false),
        (|world| drop(world.feed(PAYEE, payee("GOOD", "b"))), true),
        (|world| drop(world.feed(PAYEE, payee("EVIL", "a"))), false),
        (|_| (), true),
    ];
    let restarts = [
        Restart::None,
        Restart::FromLog,
        Restart::SnapshotBefore,
        Restart::SnapshotAfter,
        Restart::SnapshotWhileParked,
    ];
    for (at, (step, leaves)) in steps.iter().enumerate() {
        for restart in restarts {
            let (mut world, review) = parked("transfer-later");
            if restart == Restart::SnapshotWhileParked {
                world.gate().snapshot().unwrap();
            }
            let token = world.gate().show_review(review, &vera()).unwrap().token;
            let effect = approve(&world, &token).unwrap();
            if restart == Restart::SnapshotBefore {
                world.gate().snapshot().unwrap();
            }
            step(&world);
            if restart == Restart::SnapshotAfter {
                world.gate().snapshot().unwrap();
            }
            if restart != Restart::None {
                world.restart();
            }
            world.outside.answer(done());
            world.pass(2_001);
            world.wait(|world| world.phase(effect) != "cooling", "it never was due");
            world.until(effect, if *leaves { "settled" } else { "failed" });
            assert_eq!(world.asked(), usize::from(*leaves), "step {at}, {restart:?}");
            world.audited();
        }
    }
}
