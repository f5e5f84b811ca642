//! Stepping through the batches of one file with one buffer.

use std::io;
use std::sync::Arc;

use countersign_ledger::segment::{BATCH_HEADER_LEN, Batch, BatchHeader, Torn, parse_batch, parse_batch_header};

use crate::storage::disk::DiskFile;

/// What is at the cursor.
pub enum Step<'a> {
    /// A structurally whole batch; the cursor has moved past it.
    Batch(Batch<'a>),
    /// Nothing, or zeros where a batch header would be.
    End,
    /// Something that is not a whole batch.
    Torn(Torn),
}

/// Reads batches one after the other.
pub struct BatchCursor {
    file: Arc<dyn DiskFile>,
    file_len: u64,
    offset: u64,
    buffer: Vec<u8>,
}

impl BatchCursor {
    /// A cursor at an offset.
    pub fn new(file: Arc<dyn DiskFile>, offset: u64) -> io::Result<Self> {
        let file_len = file.len()?;
        Ok(Self { file, file_len, offset, buffer: Vec::new() })
    }

    /// Where the cursor is.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads only the header here, and moves past the batch if its bytes are all in the file.
    pub fn step_header(&mut self) -> io::Result<Result<Option<BatchHeader>, Torn>> {
        let header = self.header()?;
        if let Ok(Some(header)) = &header {
            if u64::from(header.total_len) > self.left() {
                let reason = "the file ends inside the batch";
                return Ok(Err(Torn { reason, offset: usize::try_from(self.left()).unwrap_or(usize::MAX) }));
            }
            self.offset += u64::from(header.total_len);
        }
        Ok(header)
    }

    /// Reads the batch here and moves past it if it is whole.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        let header = match self.header()? {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(Step::End),
            Err(torn) => return Ok(Step::Torn(torn)),
        };
        // The header's length is bounded by the format, and by what the file holds.
        let len = u64::from(header.total_len).min(self.left());
        self.fill(usize::try_from(len).unwrap_or_default())?;
        match parse_batch(&self.buffer) {
            Ok(Some(batch)) => {
                self.offset += u64::from(batch.header().total_len);
                Ok(Step::Batch(batch))
            }
            Ok(None) => Ok(Step::End),
            Err(torn) => Ok(Step::Torn(torn)),
        }
    }

    fn header(&mut self) -> io::Result<Result<Option<BatchHeader>, Torn>> {
        let mut bytes = [0u8; BATCH_HEADER_LEN];
        let len = usize::try_from(self.left()).unwrap_or(BATCH_HEADER_LEN).min(BATCH_HEADER_LEN);
        let bytes = bytes.get_mut(..len).unwrap_or_default();
        self.file.read_exact_at(bytes, self.offset)?;
        Ok(parse_batch_header(bytes))
    }

    fn fill(&mut self, len: usize) -> io::Result<()> {
        self.buffer.resize(len, 0);
        self.file.read_exact_at(&mut self.buffer, self.offset)
    }

    fn left(&self) -> u64 {
        self.file_len.saturating_sub(self.offset)
    }
}
