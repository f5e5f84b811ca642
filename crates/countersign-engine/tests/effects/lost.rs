//! A gate that has lost its log: what was dispatched before does not leave any more, by the word of the outside.

use crate::effects::world::{World, account_id, operator};
use countersign_core::identity::Auth;
use countersign_core::value::Attributes;
use countersign_engine::request::{Refusal, Request};
use countersign_testing::disk::{Fail, Faults, FaultyDisk, StepKind};
use serde_json::json;
use std::sync::mpsc::channel;

/// How the log is lost.
type Lose = fn(&World);

/// The disk fails, and the gate learns of it by an entry that it cannot write.
fn fail_the_disk(world: &World) {
    let fail = Fail { kind: StepKind::Sync, nth: 1, lasts: true, errno: 5 };
    world.faulty.as_ref().unwrap().set_faults(Faults { fail: Some(fail), ..Faults::default() });
    let value = Attributes::from_untyped_json(json!({"status": "active", "balance": 1}).as_object().unwrap()).unwrap();
    let (fact, value) = (account_id("b").parse().unwrap(), Some(value));
    let fed = world.call(Request::Feed { by: operator(), auth: Auth::None, fact, value, if_match: None });
    assert!(matches!(fed, Err(Refusal::Poisoned(_))), "{fed:?}");
}

#[test]
fn attack_calls_that_were_dispatched_leave_after_the_log_is_lost() {
    let on_faulty = || World::on(FaultyDisk::new(5, Faults::default()));
    let ways: [(fn() -> World, Lose); 2] = [(on_faulty, fail_the_disk), (World::new, World::take_lock_away)];
    for (begin, lose) in ways {
        let mut world = begin();
        let (opened, opens) = channel();
        let (goes_on, go_on) = channel();
        let wait = move || {
            opened.send(()).unwrap();
            go_on.recv().unwrap();
        };
        *world.outside.opening.lock() = Some(Box::new(wait));
        let (verdict, _) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
        assert_eq!(verdict, "in_flight");
        // Dispatched and synced, and the line to the outside is just being opened.
        opens.recv().unwrap();
        let (_, cooling) = world.act("payer-1", "cooled", json!({"account": "b", "amount": 100}));
        lose(&world);
        assert!(world.gate().not_ready().is_some(), "it still says that it is ready");
        goes_on.send(()).unwrap();
        // Nor does anything that is due later, or is tried again.
        world.pass(10_000);
        world.stop_outbox();
        assert_eq!(world.asked(), 0, "a call left");
        assert_eq!(world.phase(cooling), "cooling");
    }
}
