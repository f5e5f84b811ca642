//! A gate that has lost its log: what was dispatched before does not leave any more, by the word of the outside.

use crate::effects::world::{World, account_id, done, operator};
use countersign_core::identity::Auth;
use countersign_core::value::Attributes;
use countersign_engine::request::{Refusal, Request};
use countersign_testing::disk::{Fail, Faults, FaultyDisk, StepKind};
use countersign_testing::row_log::Fault;
use serde_json::json;
use std::sync::Arc;
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
    let ways: [(fn() -> World, Lose); 3] =
        [(on_faulty, fail_the_disk), (World::new, World::take_lock_away), (World::on_rows, take_the_table)];
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

/// Another takes the log, and its epoch has begun.
fn take_the_table(world: &World) {
    drop(world.table.as_ref().unwrap().take());
}

#[test]
fn attack_a_leader_that_was_paused_wakes_after_another_took_over() {
    let mut world = World::on_rows();
    let (_, before) = world.act("payer-1", "cooled", json!({"account": "b", "amount": 100}));
    let table = world.table.clone().unwrap();
    let paused = table.pause();
    let request = world.request("payer-1", "payout", json!({"account": "a", "amount": 100}), None);
    let (gate, (answer, answered)) = (Arc::clone(world.gate()), channel());
    let caller = std::thread::spawn(move || answer.send(gate.call(request)).unwrap());
    // The payout is decided, signed, and on its way to the table. There the leader stops, and another one takes its place.
    paused.until_reached().unwrap();
    let mut successor = world.successor();
    successor.outside.answer(done());
    let (verdict, payout) = successor.act("payer-2", "payout", json!({"account": "a", "amount": 450}));
    assert_eq!(verdict, "in_flight");
    successor.until(payout, "settled");
    let position = table.position();
    paused.resume();
    caller.join().unwrap();
    let told = answered.recv().unwrap().unwrap_err();
    assert!(matches!(&told, Refusal::Poisoned(cause) if cause.contains("another gate has taken over")), "{told:?}");
    let reason = world.gate().not_ready().expect("it still says that it is ready").reason;
    assert!(reason.contains("another gate has taken over"), "{reason}");
    // Neither what it had decided nor what cooled before is done by it, and what it is asked later is refused.
    world.pass(10_000);
    let feed = countersign_testing::gate::feed("Account::\"b\"", r#"{"status": "frozen", "balance": 0}"#);
    assert!(matches!(world.call(feed), Err(Refusal::Poisoned(_))));
    world.gate().snapshot().unwrap_err();
    world.stop_outbox();
    assert_eq!(world.asked(), 0, "a call left");
    // The successor has the log to itself: it does what cooled, once, and the balance is that of its own payout.
    successor.outside.answer(done());
    successor.until(before, "settled");
    assert_eq!((successor.asked(), successor.balance("a")), (2, 50));
    assert!(table.position() > position, "the successor goes on");
    drop(world);
    successor.audited();
}

#[test]
fn what_was_entered_before_the_connection_broke_is_found_by_the_next_leader() {
    for (fault, is_there) in [(Fault::Before, false), (Fault::After, true)] {
        let mut world = World::on_rows();
        let position = world.table.as_ref().unwrap().position();
        world.table.as_ref().unwrap().fail(fault);
        let request = world.request("payer-1", "payout", json!({"account": "a", "amount": 100}), None);
        assert!(matches!(world.call(request), Err(Refusal::Poisoned(_))), "{fault:?}");
        world.stop_outbox();
        assert_eq!(world.asked(), 0, "a call left, and no one knows whether it was entered");
        let successor = world.successor();
        assert_eq!(successor.gate().view().position, position + u64::from(is_there), "{fault:?}");
        drop(world);
        drop(successor);
    }
}
