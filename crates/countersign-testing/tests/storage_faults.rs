//! A gate that serves while its disk runs out of space or descriptors, or breaks: at every kind of step, one position after the
//! other. It goes on, waits, or stops; it never acknowledges what is not there afterwards (I2).

use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_engine::clock::SystemClock;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Refusal};
use countersign_testing::disk::{EIO, EMFILE, ENOSPC, Fail, Failed, Faults, FaultyDisk, StepKind};
use countersign_testing::gate::{ORIGIN, environment, feed, publish};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PACT: &str = r#"
pact = "tally"
version = 1

[facts.Counter]
attributes = { count = "Long", note = "String" }

[action.bump]
resource = 'Counter::"{counter}"'
allow = 'principal.standing == "active"'
set = { count = "resource.count + 1" }

[[action.bump.require]]
id = "not-full"
that = 'resource.count < 9000000'
"#;

const PATIENCE: Duration = Duration::from_secs(60);

/// An entry that was acknowledged: its index and its leaf.
type Acknowledged = (u64, Vec<u8>);

fn open(disk: &FaultyDisk) -> Gate {
    let options = Options { segment_bytes: 8 << 10, snapshot_every: 0, ..Options::new(ORIGIN) };
    let environment = environment(Arc::new(disk.clone()), Arc::new(SystemClock::default()));
    Gate::open(environment, options).unwrap().0
}

/// A gate with its pact, on a disk that has not failed yet.
fn furnished(seed: u64) -> (FaultyDisk, Gate) {
    let disk = FaultyDisk::new(seed, Faults::default());
    let gate = open(&disk);
    gate.call(publish(PACT)).unwrap();
    (disk, gate)
}

fn write(gate: &Gate, count: u64) -> Result<Acknowledged, Refusal> {
    let value = format!(r#"{{"count":{count},"note":"{}"}}"#, "n".repeat(700));
    let Answer::Entered(entered) = gate.call(feed(r#"Counter::"c""#, &value))? else { panic!("a feed is new") };
    Ok((entered.entry.index, entered.proof.receipt(&entered.entry).unwrap().leaf))
}

/// Serves while a step fails: writes that fill several segments, reads, snapshots. Gives what was acknowledged, and whether the gate
/// has stopped.
fn serve(disk: &FaultyDisk, gate: &Gate) -> (Vec<Acknowledged>, bool) {
    let mut acknowledged = Vec::new();
    for count in 0..40 {
        match write(gate, count) {
            Ok(entry) => acknowledged.push(entry),
            Err(Refusal::Poisoned(_)) => return (acknowledged, true),
            Err(refusal) => panic!("{refusal}"),
        }
        // Reading and taking a snapshot may fail; that must not touch the log.
        if count % 8 == 3 {
            let _ = gate.read_log(count / 2);
        }
        if count % 12 == 5 {
            let _ = gate.snapshot();
        }
        if count == 20 {
            // The housekeeper's own steps: the anchor, and the next segment ahead of time.
            let until = Instant::now() + Duration::from_millis(120);
            while disk.failed().is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    (acknowledged, gate.not_ready().is_some())
}

/// Whether the gate must stop: what reached the log is in doubt. `None` where it depends on what the folder was synced for.
fn must_stop(failed: &Failed) -> Option<bool> {
    let is_log = failed.name.ends_with(".seg") || failed.name == "next.tmp";
    match failed.kind {
        StepKind::Write | StepKind::Sync | StepKind::Rename => Some(is_log),
        StepKind::SyncDir => None,
        _ => Some(false),
    }
}

/// After a power cut, everything that was acknowledged is there, byte for byte, and the gate goes on.
fn judge(disk: &FaultyDisk, acknowledged: &[Acknowledged], what: &str) {
    let after = disk.crash(7);
    let gate = open(&after);
    for (index, leaf) in acknowledged {
        let entry = gate.read_log(*index).unwrap_or_else(|error| panic!("{what}: entry {index} is lost: {error}"));
        assert_eq!(&entry.leaf, leaf, "{what}: entry {index} is another one");
    }
    write(&gate, 99).unwrap_or_else(|error| panic!("{what}: nothing can be written after reopening: {error}"));
}

fn run(kind: StepKind, nth: u64, errno: i32) -> Option<Failed> {
    let what = format!("{kind:?} number {nth} fails with {errno}");
    let (disk, gate) = furnished(nth << 8 | u64::try_from(errno).unwrap());
    disk.set_faults(Faults { fail: Some(Fail { kind, nth, lasts: false, errno }), ..Faults::default() });
    let (acknowledged, has_stopped) = serve(&disk, &gate);
    let failed = disk.failed();
    drop(gate);
    match failed.as_ref().map(must_stop) {
        Some(Some(must)) => assert_eq!(has_stopped, must, "{what}, on {failed:?}"),
        Some(None) => {}
        None => assert!(!has_stopped, "{what}: nothing failed"),
    }
    judge(&disk, &acknowledged, &what);
    failed
}

#[test]
fn no_errno_at_any_step_makes_the_gate_acknowledge_what_is_not_there() {
    let mut plan = Vec::new();
    for kind in StepKind::ALL {
        let positions = if matches!(kind, StepKind::Write | StepKind::Sync) { 14 } else { 6 };
        plan.extend((1..=positions).flat_map(|nth| [ENOSPC, EMFILE, EIO].map(|errno| (kind, nth, errno))));
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let met = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while let Some((kind, nth, errno)) = plan.get(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst)) {
                    if let Some(failed) = run(*kind, *nth, *errno) {
                        let file = failed.name.rsplit('.').next().unwrap_or_default().to_owned();
                        met.lock().unwrap().insert((failed.kind, file));
                    }
                }
            });
        }
    });
    let met = met.into_inner().unwrap();
    for kind in StepKind::ALL {
        assert!(met.iter().any(|(failed, _)| *failed == kind), "no {kind:?} ever failed: {met:?}");
    }
}

#[test]
fn without_descriptors_the_log_goes_on_in_the_segment_that_is_open() {
    let (disk, gate) = furnished(1);
    let fail = Fail { kind: StepKind::Create, nth: 1, lasts: true, errno: EMFILE };
    disk.set_faults(Faults { fail: Some(fail), ..Faults::default() });
    let acknowledged: Vec<_> = (0..40).map(|count| write(&gate, count).unwrap()).collect();
    assert_eq!(gate.not_ready(), None);
    assert!(disk.contents("00000000000000000000.seg").unwrap().len() > 4 * (8 << 10), "it did not grow");
    disk.set_faults(Faults::default());
    let more: Vec<_> = (40..60).map(|count| write(&gate, count).unwrap()).collect();
    drop(gate);
    judge(&disk, &[acknowledged, more].concat(), "no descriptors");
}

#[test]
fn a_full_disk_makes_requests_wait_and_readiness_fail_until_there_is_space() {
    let (disk, gate) = furnished(2);
    let fail = Fail { kind: StepKind::Allocate, nth: 1, lasts: true, errno: ENOSPC };
    disk.set_faults(Faults { fail: Some(fail), ..Faults::default() });
    let acknowledged = std::thread::scope(|threads| {
        let written = threads.spawn(|| (0..20).map(|count| write(&gate, count)).collect::<Result<Vec<_>, _>>());
        let until = Instant::now() + PATIENCE;
        while gate.not_ready().is_none() {
            assert!(Instant::now() < until, "the disk was never full");
            std::thread::sleep(Duration::from_millis(5));
        }
        let why = gate.not_ready().unwrap().reason;
        assert!(why.contains("no room") && why.contains("No space left"), "{why}");
        disk.set_faults(Faults::default());
        written.join().unwrap().unwrap()
    });
    assert_eq!((acknowledged.len(), gate.not_ready()), (20, None));
    gate.close().unwrap();
    judge(&disk, &acknowledged, "a disk that was full");
}

#[test]
fn an_erasure_on_a_full_disk_is_done_in_place_or_refused_and_the_gate_goes_on() {
    let (disk, gate) = furnished(4);
    let (old, _) = write(&gate, 0).unwrap();
    let mut acknowledged = vec![write(&gate, 1).unwrap()];
    let erase = || gate.erase(AgentId::new("operator").unwrap(), Auth::None, &[old], "asked for".to_owned());
    let fail = Fail { kind: StepKind::Create, nth: 1, lasts: true, errno: ENOSPC };
    disk.set_faults(Faults { fail: Some(fail), ..Faults::default() });
    // Only the anchor needs room, and it may be past the entry already: then the erasure is done in place.
    let position = gate.view().position;
    let erased = erase();
    match &erased {
        Ok(erasure) => assert_eq!(*erasure, position),
        Err(refused) => {
            assert!(refused.to_string().contains("No space left"), "{refused}");
            assert_eq!(gate.view().position, position, "what was refused left an entry");
        }
    }
    disk.set_faults(Faults::default());
    assert_eq!(gate.not_ready(), None);
    acknowledged.push(write(&gate, 2).unwrap());
    if erased.is_err() {
        assert_eq!(erase().unwrap(), acknowledged.last().unwrap().0 + 1);
    }
    assert_eq!(gate.read_log(old).unwrap().payload, None);
    gate.close().unwrap();
    judge(&disk, &acknowledged, "a disk that was full for an erasure");
}

#[test]
fn a_gate_that_waits_for_space_can_be_ended_and_is_clean() {
    let (disk, gate) = furnished(3);
    let fail = Fail { kind: StepKind::Allocate, nth: 1, lasts: true, errno: ENOSPC };
    disk.set_faults(Faults { fail: Some(fail), ..Faults::default() });
    let (answer, answered) = std::sync::mpsc::channel();
    for count in 0..20 {
        let value = format!(r#"{{"count":{count},"note":"{}"}}"#, "n".repeat(700));
        let answer = answer.clone();
        gate.submit(feed(r#"Counter::"c""#, &value), Box::new(move |result| drop(answer.send(result)))).unwrap();
    }
    let until = Instant::now() + PATIENCE;
    while gate.not_ready().is_none() {
        assert!(Instant::now() < until, "the disk was never full");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(gate);
    drop(answer);
    let answers: Vec<_> = answered.iter().collect();
    assert_eq!(answers.len(), 20, "somebody was not answered");
    let entered = answers.into_iter().filter_map(Result::ok).map(|answer| {
        let Answer::Entered(entered) = answer else { panic!("a feed is new") };
        (entered.entry.index, entered.proof.receipt(&entered.entry).unwrap().leaf)
    });
    let acknowledged: Vec<_> = entered.collect();
    assert!(acknowledged.len() < 20, "nothing waited");
    assert!(disk.contents("clean").is_some(), "nothing was in doubt, so the log was closed cleanly");
    judge(&disk, &acknowledged, "a gate that was ended while its disk was full");
}
