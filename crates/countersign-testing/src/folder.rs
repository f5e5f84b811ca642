//! Verifying a data folder from outside: the read-only walk and the offline verifier, as `countersign verify` runs them.

use countersign_core::record::Leaf;
use countersign_engine::fold::{named_key, walk_options};
use countersign_engine::identity::stored;
use countersign_engine::storage::disk::Disk;
use countersign_engine::storage::{PlacedBatch, StorageError, walk};
use countersign_ledger::receipt::Receipt;
use countersign_ledger::verify::{Evidence, LogVerifier, Summary};
use countersign_ledger::{Frontier, KeyChain, LogKey};

/// Verifies a folder against the log's public key and receipts that were given out.
///
/// # Errors
/// Says what is broken, and where.
pub fn verify(disk: &dyn Disk, key: &LogKey, receipts: &[Receipt]) -> Result<Summary, String> {
    let mut verifier = LogVerifier::new(key.clone());
    // Which key vouches for a receipt depends on its size, so the keys come first.
    let keys = if receipts.is_empty() { KeyChain::new(key.clone()) } else { keys(disk, key)? };
    let evidence: Result<Vec<_>, _> =
        receipts.iter().map(|receipt| Evidence::receipt("a receipt", receipt, &keys)).collect();
    verifier.expect(evidence.map_err(|error| error.to_string())?).map_err(|broken| broken.to_string())?;
    let mut signatures = stored::Signatures::default();
    let walked = walk(disk, walk_options(key), Frontier::new(), &mut |placed: PlacedBatch<'_>| {
        verifier.at_offset(placed.offset);
        for entry in placed.entries() {
            verifier.entry(entry.index, entry.leaf)?;
            named_key(entry.leaf)?.into_iter().for_each(|key| verifier.names_key(key));
            let checked = signatures.check(&Leaf::decode(entry.leaf)?, entry.payload, key.origin());
            checked.map_err(|source| format!("entry {}: {source}", entry.index))?;
        }
        verifier.checkpoint(std::str::from_utf8(placed.batch.note())?)?;
        Ok(())
    });
    walked.map_err(|error| with_source(&error))?;
    verifier.finish().map_err(|broken| broken.to_string())
}

/// The keys that the log in a folder has had.
///
/// # Errors
/// Says what is broken, and where.
pub fn keys(disk: &dyn Disk, key: &LogKey) -> Result<KeyChain, String> {
    let walked = walk(disk, walk_options(key), Frontier::new(), &mut |_| Ok(()));
    walked.map(|end| end.keys).map_err(|error| with_source(&error))
}

fn with_source(error: &StorageError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
