//! A disk that fails at every step while keys are moved to files, merged, and named by snapshots.

use super::world::{Told, World, furniture, options, submission};
use countersign_engine::gate::Parts;
use countersign_engine::sequence::Batch;
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::gate::environment;
use countersign_testing::hands::Hands;
use std::collections::BTreeMap;
use std::sync::Arc;

const KEYS: u64 = 22;

/// Acts until the disk fails, tending the keys all the while. Gives what was told.
fn live(disk: &FaultyDisk, clock: &Arc<Hands>) -> BTreeMap<u64, u64> {
    let mut told = BTreeMap::new();
    let opened = Parts::open(environment(Arc::new(disk.clone()), Arc::clone(clock) as _), options());
    let Ok(parts) = opened else { return told };
    let mut world = World { disk: disk.clone(), clock: Arc::clone(clock), parts };
    if world.enter(furniture()).is_err() {
        return told;
    }
    for key in 0..KEYS {
        match world.enter(vec![act(key)]).as_deref() {
            Ok([Told::Entered(entry)]) => drop(told.insert(key, *entry)),
            Ok(other) => panic!("{other:?}"),
            Err(_) => return told,
        }
        // What fails here fails nothing else.
        let _ = world.parts.tend_keys();
        if key % 9 == 8 {
            let _ = world.parts.snapshot();
        }
    }
    told
}

fn act(key: u64) -> countersign_engine::request::Request {
    countersign_engine::request::Request::Act(Box::new(super::world::action("1", key)))
}

#[test]
fn a_crash_at_every_step_lets_no_key_act_twice_and_forgets_none_that_was_told() {
    let clock = Hands::at(1_800_000_000_000);
    let whole = FaultyDisk::new(1, Faults::default());
    assert_eq!(live(&whole, &clock).len(), KEYS as usize);
    let steps = whole.steps();
    let (mut runs_left, mut crashes) = (0, 0);
    for crash_at in 1..=steps {
        let faults = Faults { crash_at: Some(crash_at), short_writes: crash_at % 4, ..Faults::default() };
        let disk = FaultyDisk::new(crash_at, faults);
        let told = live(&disk, &clock);
        if !disk.is_down() {
            // Short writes are more steps, so this run ended before.
            continue;
        }
        crashes += 1;
        let survived = disk.crash(crash_at << 7);
        let mut world = match World::on(survived, &clock) {
            Ok(world) => world,
            Err(error) => panic!("step {crash_at}: {error}"),
        };
        runs_left += world.run_names().len();
        if world.parts.view().whole_state().pacts.is_empty() {
            assert!(told.is_empty(), "step {crash_at}");
            continue;
        }
        if world.parts.view().position < 6 {
            world.enter(furniture()).unwrap();
        }
        for key in 0..KEYS {
            let now = world.act(key);
            match told.get(&key) {
                Some(entry) => assert_eq!(now, Told::Repeated(*entry), "step {crash_at}, key {key}"),
                None => assert!(matches!(now, Told::Entered(_) | Told::Repeated(_)), "step {crash_at}: {now:?}"),
            }
            world.parts.tend_keys().unwrap();
        }
        world.parts.snapshot().unwrap();
        world.reopen();
        (0..KEYS).for_each(|key| assert!(matches!(world.act(key), Told::Repeated(_)), "step {crash_at}, key {key}"));
        let uses = world.uses();
        assert_eq!((uses.len(), uses.values().copied().max()), (KEYS as usize, Some(1)), "step {crash_at}");
    }
    assert!(crashes > 100 && runs_left > 100, "{crashes} crashes, which left {runs_left} runs");
}

#[test]
fn a_snapshot_names_no_key_of_an_entry_that_is_not_durable() {
    let mut world = World::new();
    let entries: Vec<u64> = (0..6).map(|key| world.act(key).entered()).collect();
    // Decided, and lost before anybody was told: a key that was seen here was never used.
    let (mut batch, answers) = (Batch::default(), Arc::default());
    for key in 6..30 {
        world.parts.sequence(&mut batch, [submission(act(key), &answers)]);
        world.parts.tend_keys().unwrap();
    }
    let position = world.parts.snapshot().unwrap();
    world.parts.tend_keys().unwrap();
    assert!(batch.entries.iter().all(|sequenced| sequenced.entry.index >= position));
    drop(batch);
    world.disk = world.disk.crash(5);
    world.disk = world.disk.restart();
    world = World::on(world.disk, &world.clock).unwrap();
    assert_eq!(world.parts.report.snapshot, Some(position));
    for (key, entry) in (0..).zip(entries) {
        assert_eq!(world.act(key), Told::Repeated(entry));
    }
    world.act_all(6..30);
}

#[test]
fn a_disk_that_fails_for_a_while_delays_only_the_files() {
    let mut world = World::new();
    let entries: Vec<u64> = (0..20).map(|key| world.act(key).entered()).collect();
    world.disk.set_faults(Faults {
        fail_sync: Some((1, countersign_testing::disk::FailedSync::Dropped)),
        ..Faults::default()
    });
    assert!(world.parts.tend_keys().is_err());
    assert_eq!(world.parts.keys().in_runs(), (0, 0));
    (0..20).for_each(|key| assert!(matches!(world.act(key), Told::Repeated(_))));
    world.parts.tend_keys().unwrap();
    assert!(world.parts.keys().in_runs().1 >= 16);
    for (key, entry) in (0..).zip(entries) {
        assert_eq!(world.act(key), Told::Repeated(entry));
    }
}
