//! A log goes from one key to the next: who may vouch for what, and what a replaced key can no longer do.

use countersign_ledger::{
    Broken, Checkpoint, CheckpointError, Evidence, KeyChain, LogKey, LogVerifier, Receipt, ReceiptError, Summary,
};
use ed25519_dalek::SigningKey;
use signed_note::{Note, StandardVerifier, VerifierList};

use crate::{ORIGIN, SmallLog, leaf};

/// Sizes at which the key changes, and how long the log is.
const FIRST: u64 = 10;
const SECOND: u64 = 20;
const SIZE: u64 = 30;

fn private(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

fn public(number: u8) -> LogKey {
    LogKey::new(ORIGIN, private(number).verifying_key()).unwrap()
}

/// The checkpoint of the log at a size, signed by these keys.
fn note(size: u64, keys: &[u8]) -> String {
    let root = SmallLog::new(size).tree.root();
    let keys: Vec<_> = keys.iter().map(|key| private(*key)).collect();
    Checkpoint { origin: ORIGIN.to_owned(), size, root }.sign_by(&keys.iter().collect::<Vec<_>>())
}

/// The key that an entry names, and the keys that sign the checkpoint after it, in an honest log.
fn honest(index: u64) -> (Option<u8>, Option<Vec<u8>>) {
    match index + 1 {
        1 => (Some(1), Some(vec![1])),
        FIRST => (Some(2), Some(vec![1, 2])),
        SECOND => (Some(3), Some(vec![2, 3])),
        size if size % 5 == 0 => (None, Some(vec![1 + u8::from(size > FIRST) + u8::from(size > SECOND)])),
        _ => (None, None),
    }
}

fn verify(
    trusted: u8,
    evidence: Vec<Evidence>,
    log: impl Fn(u64) -> (Option<u8>, Option<Vec<u8>>),
) -> Result<Summary, Broken> {
    let mut verifier = LogVerifier::new(public(trusted));
    verifier.expect(evidence)?;
    for index in 0..SIZE {
        let (named, signed) = log(index);
        verifier.entry(index, &leaf(index))?;
        named.into_iter().for_each(|key| verifier.names_key(public(key)));
        signed.map_or(Ok(()), |keys| verifier.checkpoint(&note(index + 1, &keys)))?;
    }
    verifier.finish()
}

fn chain() -> KeyChain {
    verify(1, Vec::new(), honest).unwrap().keys
}

#[test]
fn it_is_verified_with_any_of_its_keys_and_with_no_other() {
    for trusted in [1, 2, 3] {
        let summary = verify(trusted, Vec::new(), honest).unwrap();
        assert_eq!((summary.size, summary.keys.rotations()), (SIZE, 2));
        assert_eq!(summary.keys.current(), &public(3));
        assert_eq!(summary.keys.keys().cloned().collect::<Vec<_>>(), [public(1), public(2), public(3)]);
    }
    let broken = verify(4, Vec::new(), honest).unwrap_err();
    assert!(matches!(&broken, Broken::AnotherLog { place, .. } if place.entry == SIZE), "{broken}");
}

#[test]
fn another_implementation_opens_the_shared_checkpoint_with_either_key() {
    let note = Note::from_bytes(note(FIRST, &[1, 2]).as_bytes()).unwrap();
    for key in [1, 2] {
        let verifier = StandardVerifier::new(&public(key).to_string()).unwrap();
        let (verified, others) = note.verify(&VerifierList::new(vec![Box::new(verifier)])).unwrap();
        assert_eq!((verified.len(), others.len()), (1, 1));
    }
}

#[test]
fn whoever_signs_out_of_turn_is_found_where_it_happens() {
    // Which checkpoint is signed by which keys instead, and what is found there.
    for (size, keys) in [
        (FIRST, vec![1]),
        (FIRST, vec![2]),
        (FIRST, vec![1, 3]),
        (FIRST + 5, vec![1]),
        (SIZE, vec![1]),
        (SIZE, vec![2]),
        (5, vec![2]),
    ] {
        let broken = verify(1, Vec::new(), |index| match honest(index) {
            (named, Some(_)) if index + 1 == size => (named, Some(keys.clone())),
            other => other,
        });
        let broken = broken.unwrap_err();
        let Broken::Checkpoint { place, source: CheckpointError::Unsigned { .. } } = &broken else {
            panic!("{broken}")
        };
        assert_eq!(place.entry, size, "{keys:?}");
    }
}

#[test]
fn a_rotation_stands_last_and_brings_a_new_key() {
    // The checkpoint between the rotation and the next entry is gone.
    let moved = verify(1, Vec::new(), |index| match honest(index) {
        (named, _) if index + 1 == FIRST => (named, None),
        other => other,
    });
    assert!(matches!(moved.unwrap_err(), Broken::RotationNotLast { place } if place.entry == FIRST));
    let back = verify(1, Vec::new(), |index| match index + 1 {
        SECOND => (Some(1), Some(vec![2, 1])),
        _ => honest(index),
    });
    assert!(matches!(back.unwrap_err(), Broken::Checkpoint { source: CheckpointError::KeyReused { .. }, .. }));
}

#[test]
fn evidence_is_vouched_for_by_the_key_of_its_time() {
    let keys = chain();
    let receipt = |index, size, key: u8| Receipt {
        checkpoint: note(size, &[key]),
        ..SmallLog::of((0..size).map(leaf).collect(), private(key)).receipt(index)
    };
    for (size, key) in [(5, 1), (FIRST, 1), (FIRST, 2), (15, 2), (SECOND, 2), (SECOND, 3), (25, 3), (SIZE, 3)] {
        let held = Evidence::checkpoint("held", &note(size, &[key]), &keys).unwrap();
        let given = Evidence::receipt("given", &receipt(2, size, key), &keys).unwrap();
        assert_eq!(verify(1, vec![held, given], honest).unwrap().evidence, 2);
    }
    // A replaced key, kept or stolen, says nothing about what came later, nor a later one about what came before.
    for (size, key) in [(FIRST + 1, 1), (SIZE + 100, 1), (SECOND + 1, 2), (FIRST - 1, 2), (5, 3)] {
        let refused = Evidence::checkpoint("held", &note(size, &[key]), &keys).unwrap_err();
        assert!(matches!(refused, CheckpointError::NotThen { size: of, .. } if of == size), "{refused}");
        let refused = Evidence::receipt("given", &receipt(2, size, key), &keys).unwrap_err();
        assert!(matches!(refused, ReceiptError::Checkpoint(CheckpointError::NotThen { .. })), "{refused}");
    }
    let unrelated = Evidence::checkpoint("held", &note(5, &[9]), &keys).unwrap_err();
    assert!(matches!(unrelated, CheckpointError::Unsigned { .. }), "{unrelated}");
}
