//! Erasing salts and payloads in place.
//!
//! Leaf and signature stay, so every proof still holds. What is to be erased is first written down durably in a small
//! file, so that a crash in the middle can neither leave half a payload nor look like damage: the next open finishes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_ledger::segment::{SALT_LEN, SEGMENT_HEADER_LEN};

use super::disk::{Disk, read_small, replace_small};
use super::error::IoContext;
use super::walk::{BatchCursor, Step};
use super::{Place, SegmentLog, StorageError, index_of_name, segment_name};

const ERASING_FILE: &str = "erasing";
/// The name under which the small file is first written, so that one that a crash left behind is written over.
const ROOM_FILE: &str = "erasing.tmp";
const ERASING_BYTES_MAX: usize = 16 << 20;

impl SegmentLog {
    /// Overwrites salt and payload of these entries with zeros and makes that durable. Says how many were not erased before.
    /// When this returns, no file of the log holds them; snapshots are the caller's to remove.
    pub fn erase(&self, indexes: &[u64]) -> Result<u64, StorageError> {
        let Some(last) = indexes.iter().max().copied() else {
            return Ok(0);
        };
        let size = self.size();
        if last >= size {
            return Err(StorageError::NoEntry { index: last, size });
        }
        self.refuse_if_poisoned()?;
        // One erasure at a time, and no reader sees half of one.
        let _alone = self.erasing.write();
        // Beyond the anchor, zeros would be taken for a torn write at the next open.
        self.anchor_past(last)?;
        let erased = self.erase_listed(indexes);
        if let Err(error) = &erased {
            // A sync that failed here may be one that the writer would have had to hear of.
            self.poison(format!("erasing failed: {error}"));
        }
        erased
    }

    /// Tries whether an erasure could be written down. Asked before it is entered: from then on it must be done, and a disk
    /// without room for its little file would stop the gate.
    ///
    /// # Errors
    /// There is no room, or the disk fails. Nothing has happened, and the log goes on.
    pub fn check_room_to_erase(&self, indexes: &[u64]) -> Result<(), StorageError> {
        let _alone = self.erasing.write();
        let tried = self.disk.create(ROOM_FILE).and_then(|file| {
            file.write_all_at(listed(indexes).as_bytes(), 0)?;
            file.sync_all()
        });
        let removed = self.disk.remove(ROOM_FILE);
        tried.on("write", ROOM_FILE)?;
        removed.on("remove", ROOM_FILE)
    }

    fn erase_listed(&self, indexes: &[u64]) -> Result<u64, StorageError> {
        replace_small(&*self.disk, ERASING_FILE, listed(indexes).as_bytes()).on("write", ERASING_FILE)?;
        let mut erased = 0;
        for index in indexes {
            let found = self.locate(*index)?;
            erased += u64::from(overwrite(&*self.disk, &segment_name(found.first_index), found.offset, *index)?);
        }
        forget(&*self.disk)?;
        Ok(erased)
    }
}

fn listed(indexes: &[u64]) -> String {
    indexes.iter().map(|index| format!("{index}\n")).collect()
}

/// The entries whose erasure was begun and not finished.
pub(super) fn intended(disk: &dyn Disk) -> Result<BTreeSet<u64>, StorageError> {
    let bytes = read_small(disk, ERASING_FILE, ERASING_BYTES_MAX).on("read", ERASING_FILE)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines()
        .map(|line| {
            line.parse().map_err(|_| StorageError::Io {
                action: "read",
                name: ERASING_FILE.to_owned(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, format!("{line:?} is not an entry index")),
            })
        })
        .collect()
}

/// Finishes what a crash interrupted, before the log is read.
pub(super) fn finish_intended(disk: &dyn Disk) -> Result<u64, StorageError> {
    let indexes = intended(disk)?;
    if indexes.is_empty() {
        return Ok(0);
    }
    let names = disk.list().on("list", "the data folder")?;
    let firsts: BTreeSet<u64> = names.iter().filter_map(|name| index_of_name(name, ".seg")).collect();
    for index in &indexes {
        let no_segment = StorageError::NoEntry { index: *index, size: 0 };
        let first = firsts.range(..=*index).next_back().ok_or(no_segment)?;
        overwrite(disk, &segment_name(*first), SEGMENT_HEADER_LEN as u64, *index)?;
    }
    forget(disk)?;
    Ok(indexes.len() as u64)
}

fn forget(disk: &dyn Disk) -> Result<(), StorageError> {
    disk.remove(ERASING_FILE).on("remove", ERASING_FILE)?;
    disk.sync_dir().on("sync", "the data folder")
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
