//! Payloads that are gone, until an erasure names them: nothing else explains a missing payload.

use std::collections::BTreeMap;

use countersign_ledger::segment::Batch;

use super::Leaves;
use crate::storage::{Place, StorageError};

/// Entries without their payloads, each with the place of its batch. A crash while they were erased may have left any mixture of zeros
/// and bytes.
#[derive(Default)]
pub struct Gone {
    places: BTreeMap<u64, Place>,
}

impl Gone {
    /// Takes down which payloads of a batch are gone, and takes off those that an erasure in it names.
    pub fn note(
        &mut self,
        batch: &Batch<'_>,
        gone: &[u64],
        place: &Place,
        leaves: &dyn Leaves,
    ) -> Result<(), StorageError> {
        for frame in batch.frames() {
            if gone.contains(&frame.index) {
                let kept = |why: String| damaged(place, frame.index, &format!("it is never erased: {why}"));
                leaves.check_erasable(frame.leaf).map_err(kept)?;
                self.places.insert(frame.index, place.clone());
            }
            let erased = leaves.erases(frame.leaf).map_err(|why| damaged(place, frame.index, &why))?;
            for named in erased.iter().filter(|named| **named < frame.index) {
                self.places.remove(named);
            }
        }
        Ok(())
    }

    /// Refuses if there is one left at the end of the log.
    pub fn check(&self) -> Result<(), StorageError> {
        match self.places.first_key_value() {
            Some((index, place)) => Err(damaged(place, *index, "no erasure names it")),
            None => Ok(()),
        }
    }
}

/// What is wrong with an entry.
pub fn not_its_payload(index: u64) -> String {
    format!("the payload of entry {index} is not the one that its leaf commits to")
}

fn damaged(place: &Place, index: u64, why: &str) -> StorageError {
    StorageError::Corrupt { place: place.clone(), reason: not_its_payload(index), lost: why.to_owned() }
}
