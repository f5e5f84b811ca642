//! Writing one batch into a buffer that is used again for the next.

use thiserror::Error;

use super::{
    BATCH_BYTES_MAX, BATCH_HEADER_LEN, BATCH_MAGIC, FRAME_HEADER_LEN, LEAF_BYTES_MAX, NOTE_BYTES_MAX,
    PAYLOAD_BYTES_MAX, SALT_LEN, crc32c,
};

/// Why a batch cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// One part is longer than the format allows.
    #[error("{part} of {len} bytes is longer than {max}")]
    TooLong {
        /// Which part.
        part: &'static str,
        /// Its length.
        len: usize,
        /// The most that fits.
        max: usize,
    },
    /// A batch without entries has nothing to sign.
    #[error("a batch needs at least one entry")]
    Empty,
}

impl EncodeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::TooLong { .. } => "refuse such input before it is sequenced",
            Self::Empty => "do not finish a batch before pushing to it",
        };
        Some(hint.to_owned())
    }
}

/// Builds a batch frame by frame. Memory that comes back by [`BatchEncoder::reuse`] is used again.
#[derive(Debug, Default)]
pub struct BatchEncoder {
    bytes: Vec<u8>,
    first_index: u64,
    count: u32,
}

impl BatchEncoder {
    /// An encoder with an empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a batch whose first entry has `first_index`; anything pushed before is forgotten.
    pub fn begin(&mut self, first_index: u64) {
        self.bytes.clear();
        self.bytes.resize(BATCH_HEADER_LEN, 0);
        self.first_index = first_index;
        self.count = 0;
    }

    /// How many entries the batch holds so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many bytes the batch has so far, without its trailer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no entry was pushed yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one entry. On an error the batch is as it was before.
    pub fn push_frame(&mut self, leaf: &[u8], salt: &[u8; SALT_LEN], payload: &[u8]) -> Result<(), EncodeError> {
        if self.bytes.is_empty() {
            self.begin(self.first_index);
        }
        let leaf_len = bounded("a leaf", leaf.len(), LEAF_BYTES_MAX)?;
        let payload_len = bounded("a payload", payload.len(), PAYLOAD_BYTES_MAX)?;
        let frame_len = FRAME_HEADER_LEN + leaf.len() + SALT_LEN + payload.len();
        let room_for_trailer = 4 + NOTE_BYTES_MAX;
        bounded("a batch", self.bytes.len() + frame_len + room_for_trailer, BATCH_BYTES_MAX)?;
        self.bytes.reserve(frame_len);
        self.bytes.extend_from_slice(&leaf_len.to_le_bytes());
        self.bytes.extend_from_slice(&payload_len.to_le_bytes());
        self.bytes.extend_from_slice(leaf);
        self.bytes.extend_from_slice(salt);
        self.bytes.extend_from_slice(payload);
        self.count += 1;
        Ok(())
    }

    /// Closes the batch with the signed checkpoint that covers it and gives its bytes.
    pub fn finish(&mut self, note: &[u8]) -> Result<Vec<u8>, EncodeError> {
        if self.count == 0 {
            return Err(EncodeError::Empty);
        }
        let note_len = bounded("a checkpoint", note.len(), NOTE_BYTES_MAX)?;
        let frames_len = bounded("a batch", self.bytes.len() - BATCH_HEADER_LEN, BATCH_BYTES_MAX)?;
        self.bytes.extend_from_slice(&note_len.to_le_bytes());
        self.bytes.extend_from_slice(note);
        let total_len = bounded("a batch", self.bytes.len(), BATCH_BYTES_MAX)?;
        let header = encode_header(total_len, self.count, self.first_index, frames_len);
        if let Some(slot) = self.bytes.first_chunk_mut::<BATCH_HEADER_LEN>() {
            *slot = header;
        }
        self.count = 0;
        Ok(std::mem::take(&mut self.bytes))
    }

    /// Takes memory for the next batch, if it is more than there is.
    pub fn reuse(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() > self.bytes.capacity() && self.count == 0 {
            self.bytes = bytes;
        }
    }
}

fn encode_header(total_len: u32, count: u32, first_index: u64, frames_len: u32) -> [u8; BATCH_HEADER_LEN] {
    let mut header = [0u8; BATCH_HEADER_LEN];
    let fields = [
        BATCH_MAGIC.as_slice(),
        &total_len.to_le_bytes(),
        &count.to_le_bytes(),
        &first_index.to_le_bytes(),
        &frames_len.to_le_bytes(),
    ];
    for (slot, byte) in header.iter_mut().zip(fields.into_iter().flatten()) {
        *slot = *byte;
    }
    let (covered, checksum) = header.split_at_mut(BATCH_HEADER_LEN - 4);
    checksum.copy_from_slice(&crc32c(covered).to_le_bytes());
    header
}

fn bounded(part: &'static str, len: usize, max: usize) -> Result<u32, EncodeError> {
    u32::try_from(len).ok().filter(|_| len <= max).ok_or(EncodeError::TooLong { part, len, max })
}
