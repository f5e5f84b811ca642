//! Finding batches and frames in bytes that no one vouches for.

use thiserror::Error;

use super::{
    BATCH_BYTES_MAX, BATCH_HEADER_LEN, BATCH_MAGIC, FRAME_HEADER_LEN, LEAF_BYTES_MAX, NOTE_BYTES_MAX,
    PAYLOAD_BYTES_MAX, SALT_LEN, array_at, crc32c, u32_at, u64_at,
};

/// Why bytes at a place are not a whole batch, with the offset from the batch's start where that showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{reason}, {offset} bytes into the batch")]
pub struct Torn {
    /// What is wrong.
    pub reason: &'static str,
    /// Where, counted from the first byte of the batch.
    pub offset: usize,
}

/// The fixed-width start of a batch, with its checksum already verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Bytes of the whole batch, this header and the trailer included.
    pub total_len: u32,
    /// Number of entries, at least one.
    pub count: u32,
    /// Index of the first entry.
    pub first_index: u64,
    /// Bytes of all frames together; the trailer starts right after them.
    pub frames_len: u32,
}

impl BatchHeader {
    /// Index after the last entry: the size of the log with this batch.
    #[must_use]
    pub fn end_index(&self) -> u64 {
        // Checked when the header was parsed.
        self.first_index.saturating_add(u64::from(self.count))
    }

    /// Where the checkpoint note starts, counted from the batch's start.
    #[must_use]
    pub fn note_offset(&self) -> u64 {
        BATCH_HEADER_LEN as u64 + u64::from(self.frames_len) + 4
    }

    /// Length of the checkpoint note.
    #[must_use]
    pub fn note_len(&self) -> usize {
        (u64::from(self.total_len).saturating_sub(self.note_offset())) as usize
    }
}

/// Reads a batch header. `None` means that the log ends here: nothing left, or only zeros where a header would be.
pub fn parse_batch_header(bytes: &[u8]) -> Result<Option<BatchHeader>, Torn> {
    let torn = |reason, offset| Err(Torn { reason, offset });
    let Some(header) = bytes.first_chunk::<BATCH_HEADER_LEN>() else {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        return torn("the file ends inside a batch header", bytes.len());
    };
    if header.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if array_at(header, 0) != Some(BATCH_MAGIC) {
        return torn("the bytes do not start as a batch does", 0);
    }
    let (covered, checksum) = header.split_at(BATCH_HEADER_LEN - 4);
    if checksum != crc32c(covered).to_le_bytes() {
        return torn("the batch header's checksum does not match", BATCH_HEADER_LEN - 4);
    }
    let fields = (u32_at(header, 8), u32_at(header, 12), u64_at(header, 16), u32_at(header, 24));
    let (Some(total_len), Some(count), Some(first_index), Some(frames_len)) = fields else {
        return torn("the batch header is too short", 0);
    };
    let parsed = BatchHeader { total_len, count, first_index, frames_len };
    if total_len as usize > BATCH_BYTES_MAX {
        return torn("the batch is longer than the format allows", 8);
    }
    let frames_least = u64::from(count) * (FRAME_HEADER_LEN + SALT_LEN) as u64;
    if count == 0 || frames_least > u64::from(frames_len) {
        return torn("the number of entries does not fit the length of the frames", 12);
    }
    if first_index.checked_add(u64::from(count)).is_none() {
        return torn("the entry indexes overflow", 16);
    }
    if parsed.note_offset() > u64::from(total_len) || parsed.note_len() > NOTE_BYTES_MAX {
        return torn("the length of the frames does not fit the length of the batch", 24);
    }
    Ok(Some(parsed))
}

/// A whole batch, structurally: every length fits. Its hashes and signature have not been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    header: BatchHeader,
    frames: &'a [u8],
    note: &'a [u8],
}

impl<'a> Batch<'a> {
    /// The fixed-width header.
    #[must_use]
    pub fn header(&self) -> BatchHeader {
        self.header
    }

    /// The signed checkpoint note of the trailer, as bytes that no one has verified yet.
    #[must_use]
    pub fn note(&self) -> &'a [u8] {
        self.note
    }

    /// The entries in order.
    #[must_use]
    pub fn frames(&self) -> Frames<'a> {
        Frames { rest: self.frames, index: self.header.first_index, offset: BATCH_HEADER_LEN }
    }
}

/// One entry as it lies in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Index of the entry in the log.
    pub index: u64,
    /// The leaf: what the tree hashes.
    pub leaf: &'a [u8],
    /// The salt of the payload's commitment; zeros once erased.
    pub salt: &'a [u8; SALT_LEN],
    /// The payload; zeros once erased.
    pub payload: &'a [u8],
    /// Where the salt starts, counted from the batch's first byte. The payload follows it directly.
    pub salt_offset: usize,
    /// Where the payload starts, counted from the batch's first byte.
    pub payload_offset: usize,
}

impl Frame<'_> {
    /// Whether salt and payload were overwritten with zeros. A salt is random, so all zeros means erased.
    #[must_use]
    pub fn is_erased(&self) -> bool {
        self.salt.iter().all(|byte| *byte == 0)
    }
}

/// Iterator over the entries of a batch.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
    index: u64,
    offset: usize,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        // `parse_batch` has walked these frames once, so an error cannot occur; ending the iteration is the safe answer.
        let (frame, rest) = split_frame(self.rest, self.index, self.offset).ok()?;
        self.offset += self.rest.len() - rest.len();
        self.index += 1;
        self.rest = rest;
        Some(frame)
    }
}

/// Reads the batch at the start of `bytes`. `None` means that the log ends here, [`Torn`] that what is here is not whole.
pub fn parse_batch(bytes: &[u8]) -> Result<Option<Batch<'_>>, Torn> {
    let Some(header) = parse_batch_header(bytes)? else {
        return Ok(None);
    };
    let short = Torn { reason: "the file ends inside the batch", offset: bytes.len() };
    let whole = bytes.get(..header.total_len as usize).ok_or(short)?;
    let frames_end = BATCH_HEADER_LEN + header.frames_len as usize;
    let frames = whole.get(BATCH_HEADER_LEN..frames_end).ok_or(short)?;
    let note = whole.get(frames_end + 4..).ok_or(short)?;
    if u32_at(whole, frames_end).map(|len| len as usize) != Some(note.len()) {
        return Err(Torn { reason: "the checkpoint's length does not match the batch header", offset: frames_end });
    }
    let mut rest = frames;
    let mut offset = BATCH_HEADER_LEN;
    for step in 0..u64::from(header.count) {
        let (_, after) = split_frame(rest, header.first_index + step, offset)?;
        offset += rest.len() - after.len();
        rest = after;
    }
    if !rest.is_empty() {
        return Err(Torn { reason: "bytes are left after the last entry of the batch", offset });
    }
    Ok(Some(Batch { header, frames, note }))
}

fn split_frame(bytes: &[u8], index: u64, offset: usize) -> Result<(Frame<'_>, &[u8]), Torn> {
    let torn = |reason| Torn { reason, offset };
    let (Some(leaf_len), Some(payload_len)) = (u32_at(bytes, 0), u32_at(bytes, 4)) else {
        return Err(torn("the frames end inside an entry's lengths"));
    };
    let (leaf_len, payload_len) = (leaf_len as usize, payload_len as usize);
    if leaf_len > LEAF_BYTES_MAX || payload_len > PAYLOAD_BYTES_MAX {
        return Err(torn("an entry is longer than the format allows"));
    }
    let inside = torn("the frames end inside an entry");
    let (leaf, rest) = bytes.get(FRAME_HEADER_LEN..).and_then(|rest| rest.split_at_checked(leaf_len)).ok_or(inside)?;
    let (salt, rest) = rest.split_first_chunk::<SALT_LEN>().ok_or(inside)?;
    let (payload, rest) = rest.split_at_checked(payload_len).ok_or(inside)?;
    let salt_offset = offset + FRAME_HEADER_LEN + leaf_len;
    let frame = Frame { index, leaf, salt, payload, salt_offset, payload_offset: salt_offset + SALT_LEN };
    Ok((frame, rest))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may panic")]
mod tests {
    use proptest::prelude::*;

    use super::super::BatchEncoder;
    use super::*;

    fn sample() -> Vec<u8> {
        let mut encoder = BatchEncoder::new();
        encoder.begin(40);
        encoder.push_frame(b"leaf-a", &[1; 32], b"payload-a").unwrap();
        encoder.push_frame(b"", &[2; 32], b"").unwrap();
        encoder.push_frame(b"leaf-c", &[3; 32], b"c").unwrap();
        encoder.finish(b"signed note\n").unwrap()
    }

    #[test]
    fn a_batch_round_trips_and_its_offsets_point_at_salt_and_payload() {
        let bytes = sample();
        let batch = parse_batch(&bytes).unwrap().unwrap();
        assert_eq!(batch.header().end_index(), 43);
        assert_eq!(batch.note(), b"signed note\n");
        let frames: Vec<_> = batch.frames().collect();
        assert_eq!(frames.iter().map(|frame| frame.index).collect::<Vec<_>>(), [40, 41, 42]);
        for frame in &frames {
            assert_eq!(&bytes[frame.salt_offset..][..32], frame.salt);
            assert_eq!(&bytes[frame.payload_offset..][..frame.payload.len()], frame.payload);
            assert!(!frame.is_erased());
        }
        assert_eq!((frames[0].leaf, frames[2].payload), (b"leaf-a".as_slice(), b"c".as_slice()));
        let note_at = batch.header().note_offset() as usize;
        assert_eq!(&bytes[note_at..][..batch.header().note_len()], b"signed note\n");
    }

    #[test]
    fn zeros_and_nothing_are_the_end_and_every_cut_is_torn() {
        assert!(parse_batch(&[]).unwrap().is_none());
        assert!(parse_batch(&[0; 7]).unwrap().is_none());
        assert!(parse_batch(&[0; 4096]).unwrap().is_none());
        let bytes = sample();
        for len in 1..bytes.len() {
            assert!(parse_batch(&bytes[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn erasing_in_place_leaves_the_structure_whole() {
        let mut bytes = sample();
        let frame_at = parse_batch(&bytes).unwrap().unwrap().frames().next().unwrap().salt_offset;
        bytes[frame_at..frame_at + 32 + 9].fill(0);
        let batch = parse_batch(&bytes).unwrap().unwrap();
        let erased: Vec<_> = batch.frames().map(|frame| frame.is_erased()).collect();
        assert_eq!(erased, [true, false, false]);
        assert_eq!(batch.frames().next().unwrap().leaf, b"leaf-a");
    }

    #[test]
    fn a_flipped_length_never_passes_as_a_whole_batch() {
        let bytes = sample();
        for at in 0..BATCH_HEADER_LEN {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(parse_batch(&changed).is_err(), "header byte {at}");
        }
        for at in BATCH_HEADER_LEN..BATCH_HEADER_LEN + 8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(parse_batch(&changed).is_err(), "length byte {at}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(Some(batch)) = parse_batch(&bytes) {
                prop_assert_eq!(batch.frames().count(), batch.header().count as usize);
            }
        }

        #[test]
        fn parsing_is_total_near_real_batches(at in 0usize..200, value: u8, cut in 0usize..200) {
            let mut bytes = sample();
            let len = bytes.len();
            bytes[at % len] = value;
            bytes.truncate(len - cut % len);
            if let Ok(Some(batch)) = parse_batch(&bytes) {
                prop_assert_eq!(batch.frames().count(), batch.header().count as usize);
            }
        }
    }
}
