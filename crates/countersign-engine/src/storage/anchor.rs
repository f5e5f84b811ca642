//! The anchor: the latest checkpoint in a second file, so that a log that lost its end is noticed when it is opened.
//!
//! The log alone cannot tell a torn tail from an acknowledged batch whose bytes went bad; the anchor can, up to the moment
//! it was last written. It is only ever replaced by a checkpoint of a larger log.

use std::sync::Arc;

use countersign_ledger::Checkpoint;

use super::StorageError;
use super::disk::{Disk, read_small, replace_small};
use super::error::IoContext;

/// Name of the anchor file.
pub(super) const ANCHOR_FILE: &str = "anchor";
/// How long a published checkpoint waits at most before the next call writes it. Half of the second that is promised, so that
/// a caller who calls every few hundred milliseconds keeps the promise.
pub const ANCHOR_INTERVAL_MS: u64 = 500;

const ANCHOR_BYTES_MAX: usize = 64 << 10;

/// Writes the anchor file, at most twice a second.
pub struct Anchor {
    disk: Arc<dyn Disk>,
    size: u64,
    written_ms: Option<u64>,
}

impl Anchor {
    /// An anchor that is known to hold a checkpoint of `size` entries (zero: none).
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, size: u64) -> Self {
        Self { disk, size, written_ms: None }
    }

    /// Size of the log in the anchor file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes the note if it is of a larger log and the last write is long enough ago. Says whether it wrote.
    pub fn maybe_write(&mut self, now_mono_ms: u64, note: &str) -> Result<bool, StorageError> {
        let waited = self.written_ms.is_none_or(|written| now_mono_ms.saturating_sub(written) >= ANCHOR_INTERVAL_MS);
        if !waited {
            return Ok(false);
        }
        let wrote = self.write(note)?;
        if wrote {
            self.written_ms = Some(now_mono_ms);
        }
        Ok(wrote)
    }

    /// Writes the note now if it is of a larger log than the one in the file. Says whether it wrote.
    pub fn write(&mut self, note: &str) -> Result<bool, StorageError> {
        let bad = |error: countersign_ledger::CheckpointError| StorageError::BadAnchor { reason: error.to_string() };
        // Only the size is of interest here; the note is one that this process has just signed or verified.
        let size = Checkpoint::parse_unverified(note).map_err(bad)?.size;
        if size <= self.size {
            return Ok(false);
        }
        replace_small(&*self.disk, ANCHOR_FILE, note.as_bytes()).on("write", ANCHOR_FILE)?;
        self.size = size;
        Ok(true)
    }
}

/// An anchor as it was read. Which key must have signed it depends on the log, so its signature is checked by the walk.
#[derive(Clone, Debug)]
pub(super) struct Unproved {
    /// The whole note.
    pub note: String,
    /// The checkpoint in it.
    pub checkpoint: Checkpoint,
}

/// Reads the anchor file.
pub(super) fn read(disk: &dyn Disk) -> Result<Option<Unproved>, StorageError> {
    let Some(bytes) = read_small(disk, ANCHOR_FILE, ANCHOR_BYTES_MAX).on("read", ANCHOR_FILE)? else {
        return Ok(None);
    };
    let not_text = |_| StorageError::BadAnchor { reason: "it is not text".to_owned() };
    parse(&String::from_utf8(bytes).map_err(not_text)?).map(Some)
}

/// Reads a note that was kept beside a log.
pub(super) fn parse(note: &str) -> Result<Unproved, StorageError> {
    let bad = |error: countersign_ledger::CheckpointError| StorageError::BadAnchor { reason: error.to_string() };
    Ok(Unproved { note: note.to_owned(), checkpoint: Checkpoint::parse_unverified(note).map_err(bad)? })
}
