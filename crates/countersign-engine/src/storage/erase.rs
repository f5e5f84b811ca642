//! Erasing salts and payloads in place.
//!
//! Leaf and signature stay, so every proof still holds. The log itself says what is erased: an erasure is an entry, durable before
//! the first zero is written. So a crash in the middle needs no note of its own. Whoever opens the log reads the erasure and
//! finishes it, and a missing payload that no erasure names is damage (I7).

use std::sync::Arc;

use countersign_ledger::segment::SALT_LEN;

use super::disk::Disk;
use super::error::IoContext;
use super::walk::{BatchCursor, Step};
use super::{Log as _, Place, SegmentLog, StorageError, segment_name};

impl SegmentLog {
    pub(super) fn erase_in_place(&self, indexes: &[u64]) -> Result<u64, StorageError> {
        let Some(last) = indexes.iter().max().copied() else {
            return Ok(0);
        };
        let size = self.size();
        if last >= size {
            return Err(StorageError::NoEntry { index: last, size });
        }
        self.refuse_if_poisoned()?;
        // One erasure at a time, and no reader sees half of one.
        let mut withheld = self.erased.write();
        // Beyond the anchor, zeros would be taken for a torn write at the next open.
        self.anchor_past(last)?;
        indexes.iter().for_each(|index| withheld.insert(*index));
        let erased = self.overwrite_all(indexes);
        if let Err(error) = &erased {
            // A sync that failed here may be one that the writer would have had to hear of.
            self.poison(format!("erasing failed: {error}"));
        }
        erased
    }

    fn overwrite_all(&self, indexes: &[u64]) -> Result<u64, StorageError> {
        let mut erased = 0;
        for index in indexes {
            let found = self.locate(*index)?;
            erased += u64::from(overwrite(&*self.disk, &segment_name(found.first_index), found.offset, *index)?);
        }
        Ok(erased)
    }
}

/// Finds the entry from a batch offset on and overwrites it. Says whether there was anything but zeros.
fn overwrite(disk: &dyn Disk, name: &str, from: u64, index: u64) -> Result<bool, StorageError> {
    let file = disk.open(name).on("open", name)?;
    let mut cursor = BatchCursor::new(Arc::clone(&file), from).on("read", name)?;
    loop {
        let start = cursor.offset();
        let broken = |reason: String| StorageError::Corrupt {
            place: Place { segment: name.to_owned(), offset: start, index },
            reason,
            lost: format!("entry {index} cannot be erased"),
        };
        let batch = match cursor.step().on("read", name)? {
            Step::Batch(batch) => batch,
            Step::End => return Err(broken("the segment ends before the entry".to_owned())),
            Step::Torn(torn) => return Err(broken(torn.to_string())),
        };
        let Some(frame) = batch.frames().find(|frame| frame.index == index) else {
            continue;
        };
        if frame.is_erased() && frame.payload.iter().all(|byte| *byte == 0) {
            // Zeros that were read may be zeros that a crash would lose, so they are synced all the same.
            file.sync_data().on("sync", name)?;
            return Ok(false);
        }
        let zeros = vec![0u8; SALT_LEN + frame.payload.len()];
        file.write_all_at(&zeros, start + frame.salt_offset as u64).on("erase in", name)?;
        file.sync_data().on("sync", name)?;
        return Ok(true);
    }
}
