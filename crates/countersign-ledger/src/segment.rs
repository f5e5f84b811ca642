//! The bytes of a segment file: one header, then batches, then zeros.
//!
//! This module is pure: it turns entries into bytes and bytes into entries, and never touches a disk. It does not judge
//! signatures or hashes either; it only finds where things are. Integrity comes from the signed checkpoint in each
//! batch's trailer (I7), which covers every leaf, and from the commitment in each leaf, which covers salt and payload.
//! That is why a frame has no checksum of its own: salt and payload can be overwritten with zeros later without
//! touching anything that is signed. Only the batch header has a checksum, so that a length is never trusted blindly.
//!
//! Every parser here is total: any bytes give an answer, and nothing is allocated in proportion to a length that was read.
//! The layout is described in `docs/formats/segment.md`.

mod crc;
mod encode;
mod header;
mod parse;

pub use crc::crc32c;
pub use encode::{BatchEncoder, EncodeError};
pub use header::{FIRST_SEGMENT, HeaderError, SEGMENT_HEADER_LEN, SegmentHeader};
pub use parse::{Batch, BatchHeader, Frame, Frames, Torn, parse_batch, parse_batch_header};

/// The version of the segment format that this build writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 2;
/// Bytes of a batch header.
pub const BATCH_HEADER_LEN: usize = 32;
/// Bytes of the two lengths that start a frame.
pub const FRAME_HEADER_LEN: usize = 8;
/// Bytes of a salt: as many as nobody can guess.
pub const SALT_LEN: usize = 16;
/// Largest leaf: an entry bundle of the public log writes an entry's length in 16 bits.
pub const LEAF_BYTES_MAX: usize = 65_535;
/// Largest payload: a published pact is the largest thing that an entry holds, and is far below this.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// Largest batch: bounds the buffer that reading one batch back needs.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Largest checkpoint note: one signature and some cosignatures fit many times over.
pub const NOTE_BYTES_MAX: usize = 64 << 10;
/// Longest origin that fits the fixed header.
pub const ORIGIN_BYTES_MAX: usize = 255;

/// First bytes of a segment file.
pub const SEGMENT_MAGIC: [u8; 8] = *b"CSGNSEG\n";
/// First bytes of a batch.
pub const BATCH_MAGIC: [u8; 8] = *b"CSGNBAT\n";

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(array_at(bytes, at)?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(array_at(bytes, at)?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(array_at(bytes, at)?))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}
