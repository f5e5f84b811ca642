//! An adapter that panics: what it was doing counts as unknown, and the outbox goes on. A thread of the outbox that dies is noticed.

use crate::effects::world::{World, done};
use countersign_core::call::{Evidence, FoundCode};
use countersign_engine::outbox::Probed;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn panic_once(world: &World) {
    *world.outside.opening.lock() = Some(Box::new(|| panic!("for the test")));
}

#[test]
fn a_call_whose_adapter_panics_is_in_doubt_and_the_next_one_settles() {
    let mut world = World::new();
    panic_once(&world);
    let (_, first) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    world.until(first, "in_doubt");
    assert_eq!(world.asked(), 0, "it panicked before it sent anything, which no one can know");
    world.outside.answer(done());
    let (_, second) = world.act("payer-1", "payout", json!({"account": "b", "amount": 100}));
    world.until(second, "settled");
    // The doubt is probed as any other.
    world.pass(6_000);
    let absent = Probed::Absent(Evidence::of(FoundCode::ProbeAbsent.alone()));
    world.outside.answer_probe(absent);
    world.until(first, "failed");
    assert_eq!((world.balance("a"), world.balance("b")), (500, 400));
    assert_eq!(world.gate().not_ready(), None);
    // No attempt counts as being made any more: the outbox would wait half a minute for it.
    let began = Instant::now();
    world.stop_outbox();
    assert!(began.elapsed() < Duration::from_secs(20), "the attempt that panicked is waited for");
    world.audited();
}

#[test]
fn an_idempotent_call_whose_adapter_panics_is_repeated() {
    let mut world = World::new();
    panic_once(&world);
    let (_, effect) = world.act("payer-1", "cooled", json!({"account": "a", "amount": 100}));
    world.outside.answer(done());
    world.pass(2_001);
    world.until(effect, "settled");
    assert_eq!((world.asked(), world.balance("a")), (1, 400));
    world.audited();
}

#[test]
fn a_scheduler_that_dies_turns_the_gate_red() {
    let mut world = World::new();
    world.outside.panics_about_receipts.store(true, Ordering::SeqCst);
    panic_once(&world);
    // Its call has no probe, so the scheduler asks the adapter for receipts once it is in doubt, and dies of the answer.
    world.act("payer-1", "notify", json!({"account": "a"}));
    world.wait(|world| world.gate().not_ready().is_some(), "a gate without a scheduler says that it is ready");
    let why = world.gate().not_ready().unwrap().reason;
    assert!(why.contains("`outbox` panicked"), "{why}");
    // Nothing is taken that would never be carried out.
    let request = world.request("payer-1", "notify", json!({"account": "b"}), None);
    assert!(world.call(request).is_err(), "it takes a call that nothing carries out");
}
