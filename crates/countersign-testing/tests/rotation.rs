//! The log's key changes: what holds before, after and in the middle of it, on a disk that crashes and against somebody who
//! has a replaced key (I2, I7).

use countersign_core::identity::Auth;
use countersign_engine::audit::audit;
use countersign_engine::gate::{OpenError, Parts};
use countersign_engine::request::Request;
use countersign_engine::storage::ReadLog as _;
use countersign_engine::storage::{StorageError, segment_name};
use countersign_ledger::receipt::Receipt;
use countersign_ledger::{Checkpoint, LogKey, leaf_hash};
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::folder::{keys, verify};
use countersign_testing::rotating::{
    ORIGIN, call, call_all, clock, feed, forge, key_in, make, open_parts, operator, private, public, publish, rotate,
    rotate_unsettled, rotation,
};
use std::sync::Arc;

fn folder() -> FaultyDisk {
    let disk = FaultyDisk::new(1, Faults::default());
    make(&disk).unwrap();
    disk
}

fn key(number: u8) -> LogKey {
    public(&private(number))
}

/// Closes the log cleanly.
fn close(parts: Parts) {
    parts.committer.close().unwrap();
}

/// A receipt of the last entry, under the checkpoint that readers see.
fn receipt(parts: &Parts) -> Receipt {
    let view = parts.view();
    let index = view.position - 1;
    let leaf = parts.committer.log().read_entry(index).unwrap().leaf;
    let proof = countersign_ledger::inclusion_proof(index, view.position, &view.tree).unwrap();
    Receipt { index, leaf, proof, checkpoint: view.checkpoint.to_string() }
}

/// A log that was rotated to key 2 and then to key 3, closed, with receipts from each time.
fn rotated() -> (FaultyDisk, Vec<Receipt>) {
    let disk = folder();
    let mut parts = open_parts(&disk).unwrap();
    let mut receipts = Vec::new();
    for next in [2, 3, 4] {
        call(&mut parts, if next == 2 { publish() } else { feed() }).unwrap();
        receipts.push(receipt(&parts));
        call(&mut parts, feed()).unwrap();
        if next < 4 {
            rotate(&mut parts, next).unwrap();
            receipts.push(receipt(&parts));
        }
    }
    close(parts);
    (disk, receipts)
}

#[test]
fn it_is_verified_from_outside_with_any_of_its_keys_and_with_no_other() {
    let (disk, receipts) = rotated();
    assert_eq!(receipts.len(), 5);
    for trusted in [1, 2, 3] {
        let summary = verify(&disk, &key(trusted), &receipts).unwrap();
        assert_eq!((summary.keys.rotations(), summary.keys.current()), (2, &key(3)));
        let report = audit(&disk, &key(trusted), &mut |_| ()).unwrap();
        assert_eq!((report.verified, report.differing_count), (summary.size, 0), "{report:?}");
    }
    let refused = verify(&disk, &key(4), &[]).unwrap_err();
    assert!(refused.contains("never had the key rotating.test/log+"), "{refused}");
    // Who holds only one key can check what it vouches for, and nothing else.
    for (at, holders) in [(0, [1].as_slice()), (1, &[1, 2]), (2, &[2]), (3, &[2, 3]), (4, &[3])] {
        for holder in 1..=4 {
            assert_eq!(receipts[at].verify(&key(holder)).is_ok(), holders.contains(&holder), "{at} {holder}");
        }
    }
}

#[test]
fn a_replaced_key_cannot_make_evidence_against_the_log() {
    let (disk, receipts) = rotated();
    let size = verify(&disk, &key(1), &[]).unwrap().size;
    let leaf = b"something else".to_vec();
    let (origin, root) = (ORIGIN.to_owned(), leaf_hash(&leaf));
    // A checkpoint that hides a rotation, and one of a log that goes on otherwise.
    for size in [receipts[4].index + 1, size, size + 7] {
        let note = Checkpoint { origin: origin.clone(), size, root }.sign(&private(1));
        let refused = keys(&disk, &key(1)).unwrap().open(&note).unwrap_err().to_string();
        assert!(refused.contains("was not the log's key at that size"), "{refused}");
    }
}

#[test]
fn what_a_key_signs_out_of_turn_is_found_and_located() {
    let (one, two, three, four) = (private(1), private(2), private(3), private(4));
    // What is appended to a log whose key is 3, signed by whom, and what is said of it.
    let new = || rotation(&public(&four));
    let cases = [
        (vec![clock()], vec![&two], "no signature by key"),
        (vec![clock()], vec![&one], "no signature by key"),
        (vec![new()], vec![&three], "no signature by key"),
        (vec![new()], vec![&one, &four], "no signature by key"),
        (vec![new(), clock()], vec![&three, &four], "follows the one that names the log's next key"),
        (vec![new(), new()], vec![&three, &four], "follows the one that names the log's next key"),
        (vec![rotation(&public(&one))], vec![&three, &one], "which it had before"),
    ];
    for (at, (events, signers, expected)) in cases.into_iter().enumerate() {
        let (disk, _) = rotated();
        let size = verify(&disk, &key(3), &[]).unwrap().size;
        forge(&disk, &key(3), events, &signers).unwrap();
        for trusted in [1, 2, 3] {
            let found = verify(&disk, &key(trusted), &[]).unwrap_err();
            assert!(found.contains(expected), "case {at}: {found}");
            assert!(
                found.contains(&format!("(entry {size})")) && found.contains(&segment_name(0)),
                "case {at}: {found}"
            );
        }
        let refused = open_parts(&disk).err().unwrap();
        assert!(matches!(refused, OpenError::Storage(StorageError::Corrupt { .. })), "case {at}: {refused}");
    }
    // Both keys, last in its batch: that is what a rotation is, whoever made it. The gate whose key it is not stands still.
    let (disk, _) = rotated();
    forge(&disk, &key(3), vec![clock(), new()], &[&three, &four]).unwrap();
    assert_eq!(verify(&disk, &key(1), &[]).unwrap().keys.current(), &key(4));
    let refused = open_parts(&disk).err().unwrap();
    assert!(matches!(refused, OpenError::Storage(StorageError::KeyNotCurrent { .. })), "{refused}");
}

#[test]
fn a_rotation_ends_its_batch_and_what_follows_is_signed_by_the_new_key_only() {
    let disk = folder();
    let mut parts = open_parts(&disk).unwrap();
    call(&mut parts, publish()).unwrap();
    let next = parts.log_keys().prepare([2; 32]).unwrap();
    let refused = parts.log_keys().prepare([3; 32]).unwrap_err().to_string();
    assert!(refused.contains("under way"), "{refused}");
    let rotate = Request::RotateLogKey { by: operator(), auth: Auth::None, next, reason: "all at once".to_owned() };
    let answers = call_all(&mut parts, vec![feed(), rotate, feed(), feed()]);
    assert_eq!(answers, [Ok(2), Ok(3), Ok(4), Ok(5)]);
    let log = Arc::clone(parts.committer.log());
    let signed = |index, by| Checkpoint::open(&log.checkpoint_covering(index).unwrap(), &key(by)).is_ok();
    assert_eq!([signed(3, 1), signed(3, 2)], [true, true]);
    assert_eq!([signed(4, 1), signed(4, 2)], [false, true]);
    assert_eq!(Checkpoint::open(&log.checkpoint_covering(2).unwrap(), &key(1)).unwrap().size, 4);
    parts.log_keys().settle().unwrap();
    close(parts);
    assert_eq!(verify(&disk, &key(1), &[]).unwrap().keys.rotations(), 1);
}

#[test]
fn a_gate_opens_with_its_current_key_only_from_a_snapshot_and_without_one() {
    let disk = folder();
    let mut parts = open_parts(&disk).unwrap();
    call(&mut parts, publish()).unwrap();
    parts.snapshot().unwrap();
    call(&mut parts, feed()).unwrap();
    rotate(&mut parts, 2).unwrap();
    call(&mut parts, feed()).unwrap();
    close(parts);
    // The snapshot is signed by the key before: it is passed over, and said so.
    let parts = open_parts(&disk).unwrap();
    assert_eq!((parts.report.snapshot, parts.report.ignored.len(), parts.report.replayed), (None, 1, 5));
    assert!(parts.report.ignored[0].reason.contains("not signed by the log's key"), "{:?}", parts.report.ignored);
    parts.snapshot().unwrap();
    close(parts);
    let mut parts = open_parts(&disk).unwrap();
    assert_eq!((parts.report.snapshot, parts.report.replayed), (Some(5), 0));
    // From a snapshot on, and over another rotation.
    rotate(&mut parts, 3).unwrap();
    call(&mut parts, feed()).unwrap();
    close(parts);
    let parts = open_parts(&disk).unwrap();
    assert_eq!((parts.log_keys().public(), parts.report.replayed), (key(3), 7));
    close(parts);
    // A backup of the key from before is refused, and says which one is missing.
    let backup = disk.contents("log.old-".to_owned().as_str()).is_none();
    assert!(backup, "old keys are kept under their ids");
    let old = format!("log.old-{:08x}", key(2).id());
    assert_eq!(key_in(&disk, &old).unwrap().map(|key| public(&key)), Some(key(2)));
    disk.tamper("log", disk.contents(&old).unwrap());
    let refused = open_parts(&disk).err().unwrap();
    let OpenError::Storage(why @ StorageError::KeyNotCurrent { .. }) = &refused else { panic!("{refused}") };
    assert!(why.hint().is_some_and(|hint| hint.contains("put back the newest")), "{refused}");
}

#[test]
fn an_anchor_may_be_by_any_key_of_its_time_and_by_no_other() {
    let (disk, receipts) = rotated();
    for receipt in &receipts {
        disk.tamper("anchor", receipt.checkpoint.clone().into_bytes());
        close(open_parts(&disk).unwrap());
    }
    let open = Checkpoint::parse_unverified(&receipts[4].checkpoint).unwrap();
    // By a key of another time, by no key of the log's, and by a replaced key for a log that never was.
    let longer = Checkpoint { size: open.size + 9, ..open.clone() };
    for (note, expected) in [
        (open.sign(&private(1)), "not a checkpoint of this log"),
        (open.sign(&private(9)), "not a checkpoint of this log"),
        (longer.sign(&private(9)), "not a checkpoint of this log"),
        (longer.sign(&private(3)), "the anchor says"),
    ] {
        disk.tamper("anchor", note.into_bytes());
        let refused = open_parts(&disk).err().unwrap().to_string();
        assert!(refused.contains(expected) || expected == "the anchor says", "{refused}");
        assert!(verify(&disk, &key(3), &[]).is_err());
    }
}

/// One life: two rotations among other entries. Gives how many entries were acknowledged, and which keys; stops at a crash.
fn live(disk: &FaultyDisk, told: &mut Vec<u64>, rotated: &mut Vec<u8>) -> Result<(), String> {
    let mut parts = open_parts(disk).map_err(|error| error.to_string())?;
    let mut tell = |parts: &mut Parts, request| {
        told.push(call(parts, request).map_err(|error| error.to_string())?);
        Ok::<_, String>(())
    };
    tell(&mut parts, publish())?;
    parts.snapshot().map_err(|error| error.to_string())?;
    for next in [2, 3] {
        tell(&mut parts, feed())?;
        rotate_unsettled(&mut parts, next)?;
        rotated.push(next);
        // What comes before the files are in line must not be lost either.
        tell(&mut parts, feed())?;
        parts.log_keys().settle().map_err(|error| error.to_string())?;
        parts.snapshot().map_err(|error| error.to_string())?;
        tell(&mut parts, feed())?;
    }
    parts.committer.close().map_err(|error| error.to_string())
}

/// Opens what a crash left and holds it against what was told.
fn survive(disk: &FaultyDisk, told: &[u64], rotated: &[u8], what: &str) {
    let parts = open_parts(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    let size = parts.view().position;
    assert!(told.last().is_none_or(|last| *last < size), "{what}: {told:?} were told, {size} are there");
    let current = parts.log_keys().public();
    let known: Vec<u8> = (1..=3).filter(|number| key(*number) == current).collect();
    let last = rotated.last().copied().unwrap_or(1);
    // The rotation under way may have been entered without anybody being told.
    assert!(known == [last] || known == [last + 1], "{what}: {known:?} after {rotated:?}");
    assert_eq!(key_in(disk, "log").unwrap().map(|key| public(&key)), Some(current.clone()), "{what}");
    assert!(key_in(disk, "log.next").unwrap().is_none(), "{what}");
    assert_eq!(disk.contents("log.vkey"), Some(format!("{current}\n").into_bytes()), "{what}");
    // What it opened from and what it says now must fit each other, too.
    parts.snapshot().unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(parts);
    let mut parts = open_parts(disk).unwrap_or_else(|error| panic!("{what}, from its snapshot: {error}"));
    assert_eq!((parts.report.snapshot, parts.log_keys().public()), (Some(size), current), "{what}");
    // The gate goes on, and can rotate again.
    let _ = call(&mut parts, publish());
    call(&mut parts, feed()).unwrap_or_else(|error| panic!("{what}: {error}"));
    rotate(&mut parts, 7).unwrap_or_else(|error| panic!("{what}: {error}"));
    call(&mut parts, feed()).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(parts);
    let summary = verify(disk, &key(1), &[]).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(summary.keys.current(), &key(7), "{what}");
}

#[test]
fn a_crash_at_every_step_of_a_rotation_leaves_a_key_that_fits_the_log() {
    let steps = {
        let disk = folder();
        let before = disk.steps();
        live(&disk, &mut Vec::new(), &mut Vec::new()).unwrap();
        disk.steps() - before
    };
    assert!(steps > 60, "only {steps} steps");
    for crash_at in 1..=steps {
        let disk = folder();
        disk.set_faults(Faults { crash_at: Some(crash_at), short_writes: 4, ..Faults::default() });
        let (mut told, mut rotated) = (Vec::new(), Vec::new());
        let ended = live(&disk, &mut told, &mut rotated);
        assert!(ended.is_err() || !disk.is_down(), "step {crash_at}");
        let crashed = disk.crash(crash_at);
        survive(&crashed, &told, &rotated, &format!("crash at {crash_at}"));
        // And once more while it recovers, at a few places.
        for again in [1, 2, 3, 5, 8, 13] {
            let crashed = disk.crash(crash_at);
            crashed.set_faults(Faults { crash_at: Some(again), ..Faults::default() });
            drop(open_parts(&crashed));
            let crashed = crashed.crash(again);
            survive(&crashed, &told, &rotated, &format!("crash at {crash_at}, then at {again}"));
        }
    }
}

#[test]
fn files_that_a_rotation_left_in_the_middle_are_brought_in_line() {
    // What is in the key files beside a log whose key is 2, and which of it opens.
    let at = |number: u8| private(number).as_bytes().to_vec();
    for (log, next, opens) in [
        (at(1), Some(at(2)), true),
        (at(2), None, true),
        (at(2), Some(at(5)), true),
        (at(1), None, false),
        (at(1), Some(at(5)), false),
        (at(5), Some(at(1)), false),
        (at(1), Some(at(2)[..31].to_vec()), false),
        (at(1)[..31].to_vec(), Some(at(2)), false),
    ] {
        let disk = folder();
        let mut parts = open_parts(&disk).unwrap();
        rotate(&mut parts, 2).unwrap();
        close(parts);
        disk.tamper("log", log.clone());
        if let Some(next) = &next {
            disk.tamper("log.next", next.clone());
        }
        let opened = open_parts(&disk);
        assert_eq!(opened.is_ok(), opens, "{:?}", opened.err().map(|error| error.to_string()));
        if let Ok(parts) = opened {
            assert_eq!(parts.log_keys().public(), key(2));
            assert_eq!((key_in(&disk, "log").unwrap(), key_in(&disk, "log.next").unwrap()), (Some(private(2)), None));
            close(parts);
        } else {
            // Nothing is thrown away where it is not known what holds.
            assert_eq!((disk.contents("log"), disk.contents("log.next")), (Some(log), next));
        }
    }
}

#[test]
fn a_key_that_is_in_no_file_is_not_rotated() {
    let disk = folder();
    let keys = countersign_engine::log_key::LogKeys::new(ORIGIN, private(1).into()).unwrap();
    assert!(keys.prepare([2; 32]).unwrap_err().to_string().contains("could not be kept"));
    drop(disk);
}
