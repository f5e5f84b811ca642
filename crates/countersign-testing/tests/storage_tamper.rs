//! Tampering with a log at rest: every change is detected, and located (I7).

use std::sync::Arc;

use countersign_engine::storage::disk::Disk;
use countersign_engine::storage::{Log as _, ReadLog as _};
use countersign_engine::storage::{StorageError, WalkOptions, segment_name, walk};
use countersign_ledger::Frontier;
use countersign_ledger::segment::{BatchEncoder, SEGMENT_HEADER_LEN, parse_batch};
use countersign_testing::disk::{Faults, FaultyDisk, SplitMix};
use countersign_testing::log_workload::{Memory, Session, WorkloadLeaves, encode, judge, log_key, written};
use ed25519_dalek::SigningKey;

const SEGMENT_BYTES: u64 = 8 << 10;

/// A log of several segments, closed cleanly.
fn closed_log() -> (FaultyDisk, Memory) {
    let disk = FaultyDisk::new(3, Faults::default());
    let mut memory = Memory::default();
    let mut rng = SplitMix::new(3);
    let mut session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).unwrap();
    for _ in 0..16 {
        let entries = (0..3).map(|_| written(&mut rng, 800)).collect();
        session.append(&mut memory, entries).unwrap();
    }
    session.writer.close().unwrap();
    (disk, memory)
}

/// Every batch: segment, offset, length, first entry.
fn batches(disk: &FaultyDisk) -> Vec<(String, usize, usize, u64)> {
    let mut found = Vec::new();
    let key = log_key();
    let options = WalkOptions { key: &key, next: None, leaves: &WorkloadLeaves };
    walk(disk, options, Frontier::new(), &mut |placed| {
        let header = placed.batch.header();
        let (offset, len) = (placed.offset as usize, header.total_len as usize);
        found.push((placed.segment.to_owned(), offset, len, header.first_index));
        Ok(())
    })
    .unwrap();
    found
}

/// Opening must fail, and so must the read-only walk, with the same words. Gives them.
fn refused(disk: &FaultyDisk) -> String {
    let key = log_key();
    let options = WalkOptions { key: &key, next: None, leaves: &WorkloadLeaves };
    let walked = walk(disk, options, Frontier::new(), &mut |_| Ok(())).err().map(|error| error.to_string());
    let opened = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).err().map(|error| error.to_string());
    let opened = opened.expect("the tampered log was opened");
    assert_eq!(walked.as_deref(), Some(opened.as_str()));
    opened
}

#[test]
fn a_flipped_byte_in_any_region_is_located() {
    let (disk, _) = closed_log();
    let all = batches(&disk);
    assert!(all.iter().map(|batch| &batch.0).collect::<std::collections::BTreeSet<_>>().len() > 3);
    for (segment, offset, len, first_index) in [&all[0], &all[7], &all[15]] {
        let bytes = disk.contents(segment).unwrap();
        let batch = parse_batch(&bytes[*offset..offset + len]).unwrap().unwrap();
        let frame = batch.frames().nth(1).unwrap();
        let note_at = batch.header().note_offset() as usize;
        let regions = [
            ("magic", 3),
            ("length", 9),
            ("count", 12),
            ("first index", 17),
            ("frames length", 25),
            ("header checksum", 30),
            ("leaf length", frame.salt_offset - frame.leaf.len() - 8),
            ("payload length", frame.salt_offset - frame.leaf.len() - 4),
            ("leaf", frame.salt_offset - 40),
            ("salt", frame.salt_offset + 5),
            ("payload", frame.payload_offset + frame.payload.len() / 2),
            ("note length", note_at - 4),
            ("signed text", note_at + 16),
            ("signature", len - 20),
        ];
        for (region, at) in regions {
            let mut changed = bytes.clone();
            changed[offset + at] ^= 0x04;
            disk.tamper(segment, changed);
            let said = refused(&disk);
            let place = format!("{segment} at byte {offset} (entry {first_index})");
            assert!(said.contains(&place), "{region} of {place}: {said}");
        }
        disk.tamper(segment, bytes);
    }
    assert!(Session::open(Arc::new(disk), SEGMENT_BYTES).is_ok(), "put back as it was, the log opens");
}

#[test]
fn every_flipped_byte_of_a_log_is_detected() {
    let (disk, _) = closed_log();
    for (segment, offset, len, _) in batches(&disk).into_iter().skip(6).take(2) {
        let bytes = disk.contents(&segment).unwrap();
        for at in (0..len).step_by(7) {
            let mut changed = bytes.clone();
            changed[offset + at] ^= 0x80;
            disk.tamper(&segment, changed);
            let said = refused(&disk);
            assert!(said.contains(&segment), "byte {at}: {said}");
        }
        disk.tamper(&segment, bytes);
    }
}

#[test]
fn a_damaged_segment_header_names_the_file() {
    let (disk, _) = closed_log();
    let segment = batches(&disk)[7].0.clone();
    let bytes = disk.contents(&segment).unwrap();
    for at in [0, 9, 17, 25, 40, SEGMENT_HEADER_LEN - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        disk.tamper(&segment, changed);
        assert!(refused(&disk).contains(&segment), "byte {at}");
    }
}

#[test]
fn a_dropped_segment_is_named_with_its_entries() {
    let (disk, memory) = closed_log();
    let mut firsts: Vec<u64> = batches(&disk).iter().map(|batch| batch.0[..20].parse().unwrap()).collect();
    firsts.dedup();
    for (at, first) in firsts.iter().enumerate() {
        let name = segment_name(*first);
        let bytes = disk.contents(&name).unwrap();
        disk.remove(&name).unwrap();
        let said = refused(&disk);
        let end = firsts.get(at + 1).map_or(memory.acknowledged.len() as u64, |next| *next);
        assert!(said.contains(&format!("entries {first} to {}", end - 1)), "{name}: {said}");
        disk.tamper(&name, bytes);
    }
}

#[test]
fn swapped_batches_are_located_at_the_first() {
    let (disk, _) = closed_log();
    let all = batches(&disk);
    let at = (1..all.len()).find(|at| all[*at].0 == all[at - 1].0).unwrap();
    let (first, second) = (&all[at - 1], &all[at]);
    let mut bytes = disk.contents(&first.0).unwrap();
    let mut swapped = bytes[second.1..second.1 + second.2].to_vec();
    swapped.extend_from_slice(&bytes[first.1..first.1 + first.2]);
    bytes[first.1..first.1 + swapped.len()].copy_from_slice(&swapped);
    disk.tamper(&first.0, bytes);
    let said = refused(&disk);
    assert!(said.contains(&format!("{} at byte {} (entry {})", first.0, first.1, first.3)), "{said}");
}

#[test]
fn a_truncation_anywhere_is_detected_and_says_what_is_missing() {
    let (disk, memory) = closed_log();
    let (segment, offset, len, first_index) = batches(&disk).pop().unwrap();
    let bytes = disk.contents(&segment).unwrap();
    for keep in [offset, offset + 10, offset + len / 2, offset + len - 1] {
        disk.tamper(&segment, bytes[..keep].to_vec());
        let said = refused(&disk);
        let missing = format!("entries {first_index} to {} are missing", memory.acknowledged.len() - 1);
        assert!(said.contains(&missing) && said.contains(&segment), "cut to {keep}: {said}");
    }
}

#[test]
fn a_batch_signed_with_another_key_is_refused() {
    let (disk, memory) = closed_log();
    let mut session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).unwrap();
    let mut frontier = session.frontier.clone();
    let mut encoder = BatchEncoder::new();
    let entries = [written(&mut SplitMix::new(9), 200)];
    let bytes = encode(&mut encoder, &mut frontier, &entries, &SigningKey::from_bytes(&[8; 32])).unwrap();
    session.writer.append(&bytes).unwrap();
    session.writer.log().anchor_tick(0).unwrap();
    drop(session);
    // The anchor carries the other key's signature as well, and says so first.
    assert!(refused(&disk).contains("anchor"));
    disk.remove("anchor").unwrap();
    let session = Session::open(Arc::new(disk), SEGMENT_BYTES).unwrap();
    let cut = session.report.cut.clone().expect("the foreign batch is not adopted");
    assert_eq!(cut.place.index, memory.acknowledged.len() as u64);
}

#[test]
fn a_torn_tail_is_cut_and_the_report_says_exactly_what() {
    let (disk, mut memory) = closed_log();
    let mut session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).unwrap();
    let whole = memory.clone();
    session.append(&mut memory, vec![written(&mut SplitMix::new(5), 300)]).unwrap();
    drop(session);
    let (segment, offset, len, first_index) = batches(&disk).pop().unwrap();
    let mut bytes = disk.contents(&segment).unwrap();
    bytes[offset + len - 100..].fill(0);
    disk.tamper(&segment, bytes);
    let mut memory = whole;
    let session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).unwrap();
    let cut = session.report.cut.clone().unwrap();
    assert_eq!((cut.place.segment.as_str(), cut.place.offset), (segment.as_str(), offset as u64));
    assert_eq!((cut.place.index, cut.bytes <= len as u64 - 100), (first_index, true));
    assert!(!session.report.was_clean);
    judge(&session, &mut memory).unwrap();
    drop(session);
    assert!(Session::open(Arc::new(disk), SEGMENT_BYTES).unwrap().report.cut.is_none(), "cut once, clean after");
}

#[test]
fn an_erased_entry_reads_as_none_and_the_log_still_verifies() {
    let (disk, mut memory) = closed_log();
    let mut session = Session::open(Arc::new(disk.clone()), SEGMENT_BYTES).unwrap();
    for index in [0, 17, 47] {
        session.erase(&mut memory, index).unwrap();
        assert_eq!(session.writer.log().erase(&[index]).unwrap(), 0, "erasing again finds nothing");
        let entry = session.writer.log().read_entry(index).unwrap();
        assert_eq!((entry.content, entry.leaf), (None, memory.acknowledged[index as usize].leaf.clone()));
    }
    assert!(matches!(session.writer.log().erase(&[51]), Err(StorageError::NoEntry { index: 51, size: 51 })));
    drop(session);
    for name in disk.list().unwrap() {
        let bytes = disk.contents(&name).unwrap();
        let payload = &memory.acknowledged[17].payload;
        assert!(!bytes.windows(payload.len()).any(|window| window == payload), "{name} still holds the payload");
    }
    let session = Session::open(Arc::new(disk), SEGMENT_BYTES).unwrap();
    judge(&session, &mut memory).unwrap();
}
