//! Where batches are: a sparse table a segment, so that memory stays bounded however small the batches are.

use std::sync::Arc;

use countersign_ledger::segment::{BatchHeader, SEGMENT_HEADER_LEN};

use super::disk::DiskFile;
use super::error::IoContext;
use super::walk::BatchCursor;
use super::{Place, StorageError};

/// One row for at least this many bytes of a segment: at most 8,192 rows, 128 KiB, for 64 MiB. A reader steps over the batches in
/// between, one small read each; whoever acts and waits for the outcome reads several entries, so there must be few.
const SPACING_BYTES: u64 = 8 << 10;

/// Some batches of one segment: the index of their first entry and their offset, both ascending.
#[derive(Clone, Debug, Default)]
pub struct SparseIndex {
    rows: Vec<(u64, u64)>,
}

impl SparseIndex {
    /// Notes a batch, if the last one noted is far enough away.
    pub fn add(&mut self, first_index: u64, offset: u64) {
        if self.rows.last().is_none_or(|(_, last)| offset - last >= SPACING_BYTES) {
            self.rows.push((first_index, offset));
        }
    }

    /// The offset of the last noted batch at or before an entry.
    pub fn before(&self, index: u64) -> u64 {
        let at = self.rows.partition_point(|(first, _)| *first <= index);
        let row = at.checked_sub(1).and_then(|at| self.rows.get(at));
        row.map_or(SEGMENT_HEADER_LEN as u64, |(_, offset)| *offset)
    }

    /// Room for a whole segment, so that appending never allocates.
    pub fn with_room(segment_bytes: u64) -> Self {
        let rows = usize::try_from(segment_bytes / SPACING_BYTES + 1).unwrap_or(0);
        Self { rows: Vec::with_capacity(rows.min(1 << 16)) }
    }

    /// Reads the headers of all batches of a file up to `end` (or to where they end).
    pub fn build(&mut self, file: Arc<dyn DiskFile>, name: &str, end: Option<u64>) -> Result<(), StorageError> {
        let mut cursor = BatchCursor::new(file, SEGMENT_HEADER_LEN as u64).on("read", name)?;
        while end.is_none_or(|end| cursor.offset() < end) {
            let offset = cursor.offset();
            match cursor.step_header().on("read", name)? {
                Ok(Some(header)) => self.add(header.first_index, offset),
                Ok(None) => break,
                Err(torn) => {
                    let index = self.rows.last().map_or(0, |(first, _)| *first);
                    return Err(damaged(name, offset, index, torn.to_string()));
                }
            }
        }
        Ok(())
    }
}

/// Steps from a noted batch to the one that holds an entry.
pub fn find(file: Arc<dyn DiskFile>, name: &str, from: u64, index: u64) -> Result<(u64, BatchHeader), StorageError> {
    let mut cursor = BatchCursor::new(file, from).on("read", name)?;
    loop {
        let offset = cursor.offset();
        match cursor.step_header().on("read", name)? {
            Ok(Some(header)) if header.first_index > index => {
                return Err(damaged(name, offset, index, "the batch that holds the entry is not there".to_owned()));
            }
            Ok(Some(header)) if header.end_index() > index => return Ok((offset, header)),
            Ok(Some(_)) => {}
            Ok(None) => {
                return Err(damaged(name, offset, index, "the segment ends before the entry".to_owned()));
            }
            Err(torn) => return Err(damaged(name, offset, index, torn.to_string())),
        }
    }
}

pub fn damaged(name: &str, offset: u64, index: u64, reason: String) -> StorageError {
    let place = Place { segment: name.to_owned(), offset, index };
    StorageError::Corrupt { place, reason, lost: format!("entry {index} cannot be read") }
}
