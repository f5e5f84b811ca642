//! The log on a disk that fails: whatever happens, nothing acknowledged is lost and nothing half done is visible (I2).

use std::sync::Arc;

use countersign_engine::storage::{Fill, Leaves as _, StorageError};
use countersign_engine::storage::{Log as _, ReadLog as _};
use countersign_testing::disk::{FailedSync, Faults, FaultyDisk, SplitMix};
use countersign_testing::log_workload::{Memory, Session, WorkloadLeaves, judge, written};

const SEGMENT_BYTES: u64 = 6 << 10;

/// One scripted life of a log: appends, anchors, erasures, a clean close in the middle. Stops at the first error.
fn live(disk: &FaultyDisk, memory: &mut Memory, seed: u64) -> Result<(), StorageError> {
    let mut rng = SplitMix::new(seed);
    let mut session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES)?;
    for step in 0..12u64 {
        let entries = (0..=rng.below(4)).map(|_| written(&mut rng, 900)).collect();
        session.append(memory, entries)?;
        match rng.below(6) {
            0 => {
                session.writer.log().anchor_tick(step * 1000)?;
            }
            1 => {
                // Never an erasure itself: those are kept.
                let index = rng.below(memory.acknowledged.len() as u64);
                if WorkloadLeaves.check_erasable(&memory.acknowledged[index as usize].leaf).is_ok() {
                    session.erase(memory, index)?;
                }
            }
            2 if session.writer.wants_next() => session.writer.log().prepare_next(Fill::Reserved)?,
            3 if step > 5 => {
                session.writer.close()?;
                session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens what a crash left, judges it, appends once more, and judges that after a restart too.
fn survive(disk: &FaultyDisk, memory: &mut Memory, seed: u64) -> Result<(), String> {
    let mut session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).map_err(|error| error.to_string())?;
    judge(&session, memory)?;
    let entries = vec![written(&mut SplitMix::new(seed ^ 0xabcd), 700)];
    session.append(memory, entries).map_err(|error| error.to_string())?;
    drop(session);
    // Whatever was trusted after the first crash must survive a second one.
    let disk = disk.crash(seed.wrapping_mul(31));
    let session = Session::open(Arc::new(disk), SEGMENT_BYTES).map_err(|error| format!("second: {error}"))?;
    judge(&session, memory).map_err(|error| format!("second: {error}"))
}

fn steps_of(seed: u64) -> u64 {
    let disk = FaultyDisk::new(seed, Faults { short_writes: 4, ..Faults::default() });
    live(&disk, &mut Memory::default(), seed).unwrap();
    disk.steps()
}

#[test]
fn a_crash_at_every_step_loses_nothing_acknowledged() {
    let mut runs = 0;
    for seed in 0..40u64 {
        for crash_at in 1..=steps_of(seed) {
            let faults = Faults { crash_at: Some(crash_at), short_writes: 4, ..Faults::default() };
            let disk = FaultyDisk::new(seed, faults);
            let mut memory = Memory::default();
            let error = live(&disk, &mut memory, seed);
            assert!(error.is_err() && disk.is_down(), "seed {seed} step {crash_at} did not crash");
            let survived = disk.crash(seed ^ crash_at << 20);
            survive(&survived, &mut memory, seed ^ crash_at)
                .unwrap_or_else(|error| panic!("seed {seed}, crash at step {crash_at}: {error}"));
            runs += 1;
        }
    }
    assert!(runs > 1000, "only {runs} runs");
}

#[test]
fn a_crash_while_recovering_loses_nothing_either() {
    let mut runs = 0;
    for seed in 0..150u64 {
        let steps = steps_of(seed);
        let crash_at = 1 + SplitMix::new(seed).below(steps);
        let faults = Faults { crash_at: Some(crash_at), short_writes: 4, ..Faults::default() };
        let disk = FaultyDisk::new(seed, faults);
        let mut memory = Memory::default();
        let _ = live(&disk, &mut memory, seed);
        for again in 1.. {
            let mut memory = memory.clone();
            let survived = disk.crash(seed);
            survived.set_faults(Faults { crash_at: Some(again), ..Faults::default() });
            let opened = Session::open(Arc::new(survived.clone()), SEGMENT_BYTES);
            let finished = opened.is_ok();
            drop(opened);
            let survived = survived.crash(seed ^ again);
            survive(&survived, &mut memory, seed)
                .unwrap_or_else(|error| panic!("seed {seed}, step {crash_at}, then step {again}: {error}"));
            runs += 1;
            if finished {
                break;
            }
        }
    }
    assert!(runs > 500, "only {runs} runs");
}

#[test]
fn a_failed_sync_poisons_and_what_it_left_is_not_trusted_unless_copied() {
    let mut poisoned = 0;
    for seed in 0..120u64 {
        for how in [FailedSync::Dropped, FailedSync::KeptClean] {
            let at = 1 + SplitMix::new(seed).below(30);
            let faults = Faults { fail_sync: Some((at, how)), short_writes: 4, ..Faults::default() };
            let disk = FaultyDisk::new(seed, faults);
            let mut memory = Memory::default();
            if live(&disk, &mut memory, seed).is_ok() {
                continue;
            }
            poisoned += 1;
            // The process dies, the machine stays up: pages that look clean are still readable.
            let disk = disk.restart();
            survive(&disk, &mut memory, seed)
                .unwrap_or_else(|error| panic!("seed {seed}, {how:?} at sync {at}: {error}"));
        }
    }
    assert!(poisoned > 100, "only {poisoned} runs met the failed sync");
}

#[test]
fn a_poisoned_writer_refuses_and_says_why() {
    let disk = FaultyDisk::new(1, Faults::default());
    let mut memory = Memory::default();
    let mut session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).unwrap();
    let mut rng = SplitMix::new(1);
    session.append(&mut memory, vec![written(&mut rng, 100)]).unwrap();
    disk.set_faults(Faults { fail_sync: Some((1, FailedSync::KeptClean)), ..Faults::default() });
    let failed = session.append(&mut memory, vec![written(&mut rng, 100)]).unwrap_err();
    assert!(matches!(failed, StorageError::Io { action: "sync", .. }), "{failed}");
    let refused = session.append(&mut memory, vec![written(&mut rng, 100)]).unwrap_err().to_string();
    assert!(refused.contains("the log refuses writes") && refused.contains("sync"), "{refused}");
    assert_eq!(session.writer.log().size(), 1, "what was not acknowledged is not readable");
    assert!(matches!(session.writer.log().read_entry(1), Err(StorageError::NoEntry { .. })));
    assert!(session.writer.close().is_err(), "a poisoned log gets no clean mark");
    assert!(disk.contents("clean").is_none());
}

#[test]
fn a_folder_is_held_by_one() {
    let disk = FaultyDisk::new(1, Faults::default());
    let first = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).unwrap();
    let second = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES);
    assert!(matches!(second, Err(StorageError::Locked { .. })));
    drop(first);
    assert!(Session::open(Arc::new(disk), SEGMENT_BYTES).is_ok());
}
