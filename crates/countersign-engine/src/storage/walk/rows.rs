//! Judging batches that come from elsewhere than segment files, such as rows of a table. Each row is whole or not there, so nothing can be
//! torn: whatever is not right is damage.

use countersign_ledger::Frontier;

use super::{Fold, Place, WalkEnd, WalkOptions, Walker, Wrong};
use crate::storage::{OwnedBatch, StorageError, anchor};

/// Judges batches from a trusted tree to their end and hands each verified one to `visit`. `note` is the latest checkpoint as it was kept
/// with the position of the log: a log that ends before it has lost something.
///
/// # Errors
/// If a batch is missing or not as it was signed, the log is shorter than its note or disagrees with it, or `visit` refuses a batch.
pub fn walk_batches(
    options: WalkOptions<'_>,
    start: Frontier,
    note: Option<&str>,
    batches: impl Iterator<Item = Result<OwnedBatch, StorageError>>,
    visit: &mut Fold<'_>,
) -> Result<WalkEnd, StorageError> {
    let start_size = start.size();
    let anchor = note.map(anchor::parse).transpose()?;
    let mut walker = Walker::new(options, start, anchor, 0)?;
    for owned in batches {
        let owned = owned?;
        let (batch, size) = (owned.batch()?, walker.end.frontier.size());
        let place = Place { segment: owned.segment.clone(), offset: owned.offset, index: size };
        let after = if batch.header().end_index() <= size {
            // Before the trusted start: the snapshot vouches for it.
            batch.header().end_index()
        } else {
            let wrong = |Wrong { reason, .. }| (reason, batch.header().end_index());
            match walker.verify(&batch).map_err(wrong) {
                Ok(verified) => walker.hand_on(batch, &verified, place.clone(), visit)?,
                Err((reason, end)) => return Err(walker.corrupt(place, reason, Some(end))),
            }
        };
        walker.end.end = Some(Place { index: after, ..place });
    }
    walker.finish(start_size)
}
