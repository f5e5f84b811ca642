//! All records of a run, in order, block by verified block.

use super::{RECORD_BYTES, Run, decode};
use crate::idempotency::Seen;
use crate::storage::StorageError;
use countersign_core::action::KeyDigest;
use std::sync::Arc;

pub(in crate::idempotency) struct RunReader {
    run: Arc<Run>,
    block: usize,
    bytes: Vec<u8>,
    at: usize,
}

impl RunReader {
    pub(in crate::idempotency) fn new(run: Arc<Run>) -> Self {
        Self { run, block: 0, bytes: Vec::new(), at: 0 }
    }

    /// The next record; nothing at the end.
    ///
    /// # Errors
    /// If a block cannot be read or is not as it was written.
    pub(in crate::idempotency) fn next(&mut self) -> Result<Option<(KeyDigest, Seen)>, StorageError> {
        if self.at >= self.bytes.len() / RECORD_BYTES {
            if self.block >= self.run.digests.len() {
                return Ok(None);
            }
            self.bytes = self.run.block(self.block)?;
            (self.block, self.at) = (self.block + 1, 0);
        }
        let record = self.bytes.as_chunks::<RECORD_BYTES>().0.get(self.at);
        self.at += 1;
        Ok(record.map(decode))
    }
}
