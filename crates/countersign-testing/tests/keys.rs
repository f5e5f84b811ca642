//! Idempotency keys in files: the same key answers with the same entry for exactly a day, wherever the key is by then, whatever a crash
//! leaves of the files, and whoever alters them.

mod attacks;
mod crashes;
mod stale;
mod together;
mod world;

use countersign_core::limits::IDEMPOTENCY_KEPT_MS;
use countersign_engine::gate::Options;
use countersign_engine::request::Refusal;
use countersign_testing::gate::ORIGIN;
use world::{Told, World, options};

#[test]
fn a_key_is_known_for_exactly_a_day_in_memory_in_a_file_and_after_a_merge() {
    // How many other keys are entered, and how many runs there are then: none, one that holds it, and few of many.
    for (others, runs) in [(0, 0..1), (5, 1..2), (60, 2..9)] {
        for is_restarted in [false, true] {
            let mut world = World::new();
            let first = world.act(1).entered();
            for key in 0..others {
                world.act(100 + key).entered();
                world.parts.tend_keys().unwrap();
            }
            let found = world.parts.keys().in_runs().0;
            assert!(runs.contains(&found), "{others} others are in {found} runs");
            world.clock.pass(IDEMPOTENCY_KEPT_MS);
            if is_restarted {
                world.parts.snapshot().unwrap();
                world.reopen();
            }
            assert_eq!(world.act(1), Told::Repeated(first));
            assert_eq!(world.act_otherwise(1), Told::Refused(Refusal::KeyReused(first)));
            // What is merged in its last millisecond still holds it.
            for key in 1_000..1_300 {
                world.act(key).entered();
                world.parts.tend_keys().unwrap();
            }
            assert_eq!(world.act(1), Told::Repeated(first), "{others} others");
            world.clock.pass(1);
            let second = world.act(1).entered();
            assert!(second > first);
            for key in 0..others {
                world.act(200 + key).entered();
                world.parts.tend_keys().unwrap();
            }
            assert_eq!(world.act(1), Told::Repeated(second), "the latest use counts");
        }
    }
}

#[test]
fn what_is_forgotten_is_removed_from_the_files() {
    let mut world = World::new();
    world.act_all(0..40);
    world.parts.tend_keys().unwrap();
    let (_, before) = world.parts.keys().in_runs();
    assert!(before >= 30, "{before}");
    world.clock.pass(IDEMPOTENCY_KEPT_MS + 1);
    world.act_all(40..80);
    world.parts.tend_keys().unwrap();
    let (runs, keys) = world.parts.keys().in_runs();
    assert!((30..=40).contains(&keys) && runs < 8, "{keys} keys in {runs} runs");
    // Their files go once no snapshot names them.
    for key in 80..83 {
        world.act(key).entered();
        world.parts.snapshot().unwrap();
    }
    let (runs, _) = world.parts.keys().in_runs();
    assert!(world.run_names().len() <= runs + 2, "{:?}", world.run_names());
}

#[test]
fn the_files_that_an_older_snapshot_names_stay_as_long_as_it_does() {
    let mut world = World::new();
    world.act_all(0..20);
    world.parts.snapshot().unwrap();
    let named = world.parts.keys().run_names();
    let is_there = |world: &World| named.iter().filter(|name| world.run_names().contains(name)).count();
    for key in 20..100 {
        world.act(key).entered();
        world.parts.tend_keys().unwrap();
    }
    assert!(world.parts.keys().run_names().iter().all(|name| !named.contains(name)), "they were merged");
    assert_eq!(is_there(&world), named.len());
    world.parts.snapshot().unwrap();
    assert_eq!(is_there(&world), named.len(), "of two snapshots, the older names them");
    world.act_all(100..101);
    world.parts.snapshot().unwrap();
    assert_eq!(is_there(&world), 0);
}

#[test]
fn a_log_without_a_snapshot_is_read_back_with_few_keys_in_memory() {
    let mut world = World::new();
    let entries: Vec<u64> = (0..50).map(|key| world.act(key).entered()).collect();
    assert_eq!(world.parts.keys().in_runs(), (0, 0), "nobody tended them");
    world.reopen();
    assert!(world.parts.keys().in_runs().1 >= 40);
    for (key, entry) in (0..).zip(entries) {
        assert_eq!(world.act(key), Told::Repeated(entry));
    }
}

#[test]
fn the_keys_of_an_agent_are_counted_across_files_restarts_and_days() {
    let limited = || Options { keys_per_agent: 12, ..options() };
    let mut world = World::with(limited());
    for key in 0..12 {
        world.act(key).entered();
        world.parts.tend_keys().unwrap();
    }
    let too_many = |told: &Told| matches!(told, Told::Refused(Refusal::TooManyKeys(_, 12)));
    assert!(too_many(&world.act(12)));
    world.parts.snapshot().unwrap();
    world.reopen_with(limited());
    assert!(too_many(&world.act(12)));
    assert!(matches!(world.act(3), Told::Repeated(_)), "what was decided is still told");
    world.clock.pass(2 * IDEMPOTENCY_KEPT_MS);
    world.act(12).entered();
    assert_eq!(ORIGIN, world.origin());
}
