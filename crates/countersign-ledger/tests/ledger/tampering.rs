//! Flip, drop, swap, truncate, sign again: each is noticed, and said where.

use countersign_ledger::{Broken, CheckpointError, Evidence, LogKey, LogVerifier, Receipt, Summary};
use ed25519_dalek::SigningKey;

use crate::{ORIGIN, SmallLog, leaf, log_key};

const SIZE: u64 = 300;
const BATCH: usize = 7;

/// What stands in a log's files: entries with their claimed index, and notes after each batch.
#[derive(Clone)]
enum Item {
    Entry(u64, Vec<u8>),
    Note(String),
}

fn items(leaves: &[Vec<u8>], key: &SigningKey) -> Vec<Item> {
    let mut items = Vec::new();
    for (batch, entries) in leaves.chunks(BATCH).enumerate() {
        let start = batch * BATCH;
        items.extend(entries.iter().zip(start as u64..).map(|(leaf, index)| Item::Entry(index, leaf.clone())));
        items.push(Item::Note(SmallLog::of(leaves[..start + entries.len()].to_vec(), key.clone()).checkpoint()));
    }
    items
}

fn honest() -> Vec<Item> {
    items(&SmallLog::new(SIZE).leaves, &crate::signing_key())
}

fn verify(items: &[Item], key: LogKey, evidence: Vec<Evidence>) -> Result<Summary, Broken> {
    let mut verifier = LogVerifier::new(key);
    verifier.expect(evidence)?;
    for (at, item) in items.iter().enumerate() {
        verifier.at_offset(at as u64 * 100);
        match item {
            Item::Entry(index, leaf) => verifier.entry(*index, leaf)?,
            Item::Note(note) => verifier.checkpoint(note)?,
        }
    }
    verifier.finish()
}

fn check(items: &[Item]) -> Result<Summary, Broken> {
    verify(items, log_key(), Vec::new())
}

/// Where entry `index` stands among the items.
fn position(index: usize) -> usize {
    index + index / BATCH
}

#[test]
fn an_honest_log_passes_with_all_its_evidence() {
    let log = SmallLog::new(SIZE);
    let mut evidence = vec![Evidence::checkpoint("empty", &SmallLog::new(0).checkpoint(), &log_key().into()).unwrap()];
    for size in [1, 7, 8, 14, 256, 299, 300] {
        evidence.push(Evidence::checkpoint("held", &SmallLog::new(size).checkpoint(), &log_key().into()).unwrap());
        evidence.push(Evidence::receipt("receipt", &SmallLog::new(size).receipt(size / 2), &log_key().into()).unwrap());
    }
    let summary = verify(&honest(), log_key(), evidence).unwrap();
    let (root, checkpoints) = (log.tree.root(), SIZE.div_ceil(BATCH as u64));
    let origin = ORIGIN.to_owned();
    assert_eq!(summary, Summary { origin, size: SIZE, root, checkpoints, evidence: 15, keys: log_key().into() });
    assert_eq!(check(&[]).unwrap().size, 0);
}

#[test]
fn every_flipped_entry_is_found_in_its_batch() {
    for index in 0..SIZE as usize {
        let mut items = honest();
        let Item::Entry(_, leaf) = &mut items[position(index)] else { panic!("not an entry") };
        leaf[3] ^= 0x10;
        let batch_start = (index / BATCH * BATCH) as u64;
        let broken = check(&items).unwrap_err();
        assert!(
            matches!(broken, Broken::Root { since, place, .. } if since == batch_start && place.entry > index as u64),
            "{broken}"
        );
    }
}

#[test]
fn dropped_repeated_and_swapped_items_are_found() {
    let honest = honest();
    for at in 0..honest.len() {
        let mut dropped = honest.clone();
        dropped.remove(at);
        let was_entry = matches!(honest[at], Item::Entry(..));
        // A checkpoint in the middle may be missing: the next one covers its entries. The last one may not.
        assert_eq!(check(&dropped).is_ok(), !was_entry && at + 1 < honest.len(), "dropped {at}");
        let mut repeated = honest.clone();
        repeated.insert(at, honest[at].clone());
        assert_eq!(check(&repeated).is_ok(), !was_entry, "repeated {at}");
    }
    for index in 0..SIZE as usize - 1 {
        let mut swapped = honest.clone();
        swapped.swap(position(index), position(index + 1));
        assert!(
            matches!(check(&swapped), Err(Broken::Position { place, found }) if (place.entry, found) == (index as u64, index as u64 + 1))
        );
        // Numbered again after the swap, so that only the hashes can tell.
        let renumber = |item: &Item, to: usize| match item {
            Item::Entry(_, leaf) => Item::Entry(to as u64, leaf.clone()),
            Item::Note(_) => panic!("not an entry"),
        };
        swapped[position(index)] = renumber(&swapped[position(index)], index);
        swapped[position(index + 1)] = renumber(&swapped[position(index + 1)], index + 1);
        assert!(matches!(check(&swapped), Err(Broken::Root { .. })));
    }
}

#[test]
fn the_place_has_entry_and_offset() {
    let mut items = honest();
    items.remove(position(18));
    let broken = check(&items).unwrap_err();
    let Broken::Position { place, found: 19 } = broken else { panic!("{broken}") };
    assert_eq!((place.entry, place.offset), (18, Some(2000)));
    assert!(broken.to_string().contains("entry 18 (byte 2000)"), "{broken}");
}

#[test]
fn a_missing_last_entry_of_a_batch_is_found_at_its_checkpoint() {
    let mut items = honest();
    items.remove(position(6));
    assert!(matches!(check(&items), Err(Broken::Size { place, claimed: 7 }) if place.entry == 6));
}

#[test]
fn truncation_is_found_by_whoever_holds_something_newer() {
    let honest = honest();
    let log = SmallLog::new(SIZE);
    let cut = &honest[..position(140)];
    assert_eq!(check(cut).unwrap().size, 140);
    for evidence in [
        Evidence::checkpoint("held.txt", &log.checkpoint(), &log_key().into()).unwrap(),
        Evidence::receipt("held.txt", &log.receipt(3), &log_key().into()).unwrap(),
    ] {
        let broken = verify(cut, log_key(), vec![evidence]).unwrap_err();
        assert!(
            matches!(&broken, Broken::Truncated { place, name, size: 300 } if place.entry == 140 && name == "held.txt"),
            "{broken}"
        );
    }
    let uncovered = check(&honest[..position(140) + 2]).unwrap_err();
    assert!(matches!(uncovered, Broken::Uncovered { since: 140, place } if place.entry == 142), "{uncovered}");
}

#[test]
fn a_log_signed_again_passes_alone_and_fails_against_evidence() {
    let mut leaves = SmallLog::new(SIZE).leaves;
    leaves[77] = b"another story".to_vec();
    let forged = items(&leaves, &crate::signing_key());
    assert!(check(&forged).is_ok());
    let truth = SmallLog::new(200);
    let held = Evidence::checkpoint("held", &truth.checkpoint(), &log_key().into()).unwrap();
    let earlier = Evidence::checkpoint("earlier", &SmallLog::new(50).checkpoint(), &log_key().into()).unwrap();
    let broken = verify(&forged, log_key(), vec![held, earlier]).unwrap_err();
    assert!(
        matches!(&broken, Broken::ConflictingRoot { place, name, since: 196, .. } if place.entry == 200 && name == "held"),
        "{broken}"
    );
    let receipt = Evidence::receipt("r", &truth.receipt(77), &log_key().into()).unwrap();
    let broken = verify(&forged, log_key(), vec![receipt]).unwrap_err();
    assert!(matches!(&broken, Broken::ConflictingEntry { place, .. } if place.entry == 77), "{broken}");
    let elsewhere = Evidence::receipt("r", &truth.receipt(12), &log_key().into()).unwrap();
    assert!(matches!(verify(&forged, log_key(), vec![elsewhere]), Err(Broken::ConflictingRoot { .. })));
}

#[test]
fn another_key_is_noticed_at_the_first_checkpoint() {
    let forged = items(&SmallLog::new(SIZE).leaves, &SigningKey::from_bytes(&[9; 32]));
    let broken = check(&forged).unwrap_err();
    assert!(
        matches!(&broken, Broken::Checkpoint { place, source: CheckpointError::Unsigned { .. } } if place.entry == 7),
        "{broken}"
    );
}

#[test]
fn what_is_broken_stays_broken() {
    let mut verifier = LogVerifier::new(log_key());
    let first = verifier.entry(5, b"x").unwrap_err();
    assert_eq!(verifier.entry(0, &leaf(0)), Err(first.clone()));
    assert_eq!(verifier.checkpoint(&SmallLog::new(1).checkpoint()), Err(first.clone()));
    assert_eq!(verifier.finish(), Err(first));
    let mut verifier = LogVerifier::new(log_key());
    assert!(matches!(verifier.entry(0, &[0; 65_536]), Err(Broken::EntryTooLarge { bytes: 65_536, .. })));
}

#[test]
fn evidence_must_come_before_its_place() {
    let mut verifier = LogVerifier::new(log_key());
    for index in 0..10 {
        verifier.entry(index, &leaf(index)).unwrap();
    }
    let later = Evidence::checkpoint("later", &SmallLog::new(11).checkpoint(), &log_key().into()).unwrap();
    verifier.expect(vec![later]).unwrap();
    let late = Evidence::checkpoint("late", &SmallLog::new(10).checkpoint(), &log_key().into()).unwrap();
    assert!(matches!(verifier.expect(vec![late]), Err(Broken::EvidenceTooLate { .. })));
}

#[test]
fn every_part_of_a_receipt_counts() {
    let log = SmallLog::new(SIZE);
    for index in [0, 1, 255, 256, 299] {
        let receipt = log.receipt(index);
        let text = receipt.encode();
        assert_eq!(Receipt::decode(&text), Ok(receipt.clone()));
        assert_eq!(Receipt::from_tlog_proof(&receipt.to_tlog_proof()), Ok(receipt.clone()));
        assert_eq!(receipt.verify(&log_key()).unwrap().size, SIZE);
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            let accepted = Receipt::decode(&changed).is_ok_and(|receipt| receipt.verify(&log_key()).is_ok());
            assert!(!accepted, "character {at}");
            let cut = Receipt::decode(&text[..at]).is_ok_and(|receipt| receipt.verify(&log_key()).is_ok());
            assert!(!cut, "cut at {at}");
        }
    }
    let empty = Receipt { leaf: Vec::new(), ..log.receipt(0) };
    assert_eq!(Receipt::from_tlog_proof(&empty.to_tlog_proof()), Ok(empty.clone()));
    assert_eq!(Receipt::decode(&empty.encode()), Ok(empty.clone()));
    assert!(empty.verify(&log_key()).is_err());
}
