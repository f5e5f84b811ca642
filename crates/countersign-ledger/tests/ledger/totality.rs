//! Every decoder takes arbitrary input without panicking, and what it accepts it would have written itself.

use countersign_ledger::{
    Checkpoint, Hash, LogKey, LogVerifier, Receipt, decode_bundle, decode_tile, encode_bundle, encode_tile, parse_path,
    verify_consistency, verify_inclusion,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{SmallLog, log_key};

fn hashes() -> impl Strategy<Value = Vec<Hash>> {
    vec(any::<[u8; 32]>().prop_map(Hash), 0..70)
}

/// Sizes with few and with many bits, at both ends of the range.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..20_u64, any::<u64>(), (0..64_u32).prop_map(|bit| 1 << bit), (0..5_u64).prop_map(|n| u64::MAX - n)]
}

/// A text that is nearly right: a valid one with some characters replaced.
fn nearly(valid: String) -> impl Strategy<Value = String> {
    vec((any::<prop::sample::Index>(), "[ -~\n—]"), 0..4).prop_map(move |changes| {
        let mut chars: Vec<char> = valid.chars().collect();
        for (at, to) in changes {
            let at = at.index(chars.len());
            chars.splice(at..=at, to.chars());
        }
        chars.into_iter().collect()
    })
}

fn text(valid: String) -> impl Strategy<Value = String> {
    prop_oneof![nearly(valid), any::<String>(), "[ -~\n—]{0,200}"]
}

proptest! {
    #[test]
    fn bundles(bytes in vec(prop_oneof![Just(0_u8), any::<u8>()], 0..2000)) {
        if let Ok(entries) = decode_bundle(&bytes) {
            prop_assert_eq!(encode_bundle(&entries).unwrap(), bytes);
        }
    }

    #[test]
    fn tiles(bytes in vec(any::<u8>(), 0..9000)) {
        if let Ok(hashes) = decode_tile(&bytes) {
            prop_assert_eq!(encode_tile(&hashes), bytes);
        }
    }

    #[test]
    fn paths(path in prop_oneof![text("tile/0/x001/x234/067.p/8".to_owned()), "(tile/)?[0-9x/.pentris]{0,30}"]) {
        if let Ok(tile) = parse_path(&path) {
            prop_assert_eq!(tile.to_string(), path);
        }
    }

    #[test]
    fn notes(note in text(SmallLog::new(3).checkpoint())) {
        let _ = Checkpoint::parse_unverified(&note);
        if let Ok(checkpoint) = Checkpoint::open(&note, &log_key()) {
            prop_assert!(note.starts_with(&checkpoint.text()));
            prop_assert_eq!(checkpoint.size, 3);
        }
        let mut verifier = LogVerifier::new(log_key());
        prop_assert!(verifier.checkpoint(&note).is_err());
    }

    #[test]
    fn keys(key in text(log_key().to_string())) {
        if let Ok(parsed) = key.parse::<LogKey>() {
            prop_assert_eq!(parsed.to_string(), key);
        }
    }

    #[test]
    fn receipts(receipt in text(SmallLog::new(3).receipt(1).encode())) {
        if let Ok(parsed) = Receipt::decode(&receipt) {
            let _ = parsed.verify(&log_key());
            prop_assert_eq!(parsed.encode(), receipt);
        }
    }

    #[test]
    fn tlog_proofs(proof in text(SmallLog::new(3).receipt(1).to_tlog_proof())) {
        if let Ok(parsed) = Receipt::from_tlog_proof(&proof) {
            let _ = parsed.verify(&log_key());
        }
    }

    #[test]
    fn hash_texts(hash in prop_oneof!["[0-9a-fA-F]{60,70}", any::<String>()]) {
        if let Ok(parsed) = hash.parse::<Hash>() {
            prop_assert_eq!(parsed.to_string(), hash);
        }
    }

    #[test]
    fn proofs(index in number(), old in number(), new in number(), proof in hashes(), hash in any::<[u8; 32]>()) {
        let hash = Hash(hash);
        let right_by_chance = proof.is_empty() && (new == 1 || old == new);
        prop_assert!(verify_inclusion(&hash, index, new, &proof, &hash).is_err() || right_by_chance);
        prop_assert!(verify_consistency(old, &hash, new, &hash, &proof).is_err() || right_by_chance);
    }
}
