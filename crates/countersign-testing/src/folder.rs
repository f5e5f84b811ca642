//! Verifying a data folder from outside: the read-only walk and the offline verifier, as `countersign verify` runs them.

use countersign_core::record::Leaf;
use countersign_engine::fold::payload_matches;
use countersign_engine::identity::stored;
use countersign_engine::storage::disk::Disk;
use countersign_engine::storage::{PlacedBatch, WalkOptions, walk};
use countersign_ledger::receipt::Receipt;
use countersign_ledger::verify::{Evidence, LogVerifier, Summary};
use countersign_ledger::{Frontier, LogKey};

/// Verifies a folder against the log's public key and receipts that were given out.
///
/// # Errors
/// Says what is broken, and where.
pub fn verify(disk: &dyn Disk, key: &LogKey, receipts: &[Receipt]) -> Result<Summary, String> {
    let mut verifier = LogVerifier::new(key.clone());
    let evidence: Result<Vec<_>, _> =
        receipts.iter().map(|receipt| Evidence::receipt("a receipt", receipt, key)).collect();
    verifier.expect(evidence.map_err(|error| error.to_string())?).map_err(|broken| broken.to_string())?;
    let options = WalkOptions { key, payload_matches: &payload_matches };
    let walked = walk(disk, options, Frontier::new(), &mut |placed: PlacedBatch<'_>| {
        verifier.at_offset(placed.offset);
        for frame in placed.batch.frames() {
            verifier.entry(frame.index, frame.leaf)?;
            if !frame.is_erased() {
                let checked = stored::check(&Leaf::decode(frame.leaf)?, frame.payload, key.origin());
                checked.map_err(|source| format!("entry {}: {source}", frame.index))?;
            }
        }
        verifier.checkpoint(std::str::from_utf8(placed.batch.note())?)?;
        Ok(())
    });
    let with_source = |error: countersign_engine::storage::StorageError| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    walked.map_err(with_source)?;
    verifier.finish().map_err(|broken| broken.to_string())
}
