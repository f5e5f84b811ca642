//! Payloads that are gone, until an erasure names them: nothing else explains a missing payload.

use std::collections::BTreeMap;

use countersign_core::state::EntrySet;
use countersign_ledger::segment::Batch;

use super::Leaves;
use crate::storage::{Place, StorageError};

/// Entries without their payloads, each with the place of its batch. A crash while they were erased may have left any mixture of zeros
/// and bytes.
pub struct Gone {
    /// Where the walk began: of what is before, it knows nothing.
    from: u64,
    places: BTreeMap<u64, Place>,
    /// Those that an erasure has named.
    explained: EntrySet,
    /// Those that are there although an erasure names them, with that erasure.
    put_back: BTreeMap<u64, u64>,
}

impl Gone {
    /// Of a walk that begins at this entry.
    pub fn from(from: u64) -> Self {
        Self { from, places: BTreeMap::new(), explained: EntrySet::default(), put_back: BTreeMap::new() }
    }

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
            for named in erased.into_iter().filter(|named| (self.from..frame.index).contains(named)) {
                if self.places.remove(&named).is_some() {
                    self.explained.insert(named);
                } else if !self.explained.contains(named) {
                    self.put_back.entry(named).or_insert(frame.index);
                }
            }
        }
        Ok(())
    }

    /// Refuses if there is one left at the end of the log. Gives those that are there although an erasure names them, with that erasure.
    pub fn finish(&mut self) -> Result<Vec<(u64, u64)>, StorageError> {
        match self.places.first_key_value() {
            Some((index, place)) => Err(damaged(place, *index, "no erasure names it")),
            None => Ok(std::mem::take(&mut self.put_back).into_iter().collect()),
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
