//! Looking past the last whole batch: are there bytes, and is there anything signed among them?
//!
//! The writer never has more than one batch under way, so after a crash nothing signed can follow an unwhole batch. If
//! something does, bytes in the middle were damaged, and cutting there would drop acknowledged entries.

use std::io;

use countersign_ledger::segment::{BATCH_HEADER_LEN, BATCH_MAGIC, BatchHeader, NOTE_BYTES_MAX, parse_batch_header};
use countersign_ledger::{Checkpoint, LogKey};

use super::in_pieces;
use crate::storage::disk::DiskFile;

/// What lies after an offset.
pub struct Rest {
    /// Bytes from the offset to the last one that is not zero.
    pub bytes: u64,
    /// The first signed batch after the offset: where it is and the log size that it signs.
    pub signed: Option<(u64, u64)>,
}

/// Looks at everything from `offset` to the end of the file, for anything that one of the log's keys signed.
pub fn scan(file: &dyn DiskFile, offset: u64, size: u64, keys: &[&LogKey]) -> io::Result<Rest> {
    let end = file.len()?;
    let mut rest = Rest { bytes: 0, signed: None };
    let mut matched = 0usize;
    in_pieces(file, offset, end, |at, piece| {
        // Almost all of what is scanned is reserved room, so zeros are passed over quickly. The magic has no zero byte: no match
        // can run through a piece of zeros.
        if piece.chunks(256).all(|zeros| zeros.iter().fold(0, |any, byte| any | byte) == 0) {
            matched = 0;
            return Ok(());
        }
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            rest.bytes = at + last as u64 + 1 - offset;
        }
        for (step, byte) in piece.iter().enumerate() {
            // The first byte of the magic occurs only once in it, so a failed match can restart only at this byte.
            matched = match (BATCH_MAGIC.get(matched), BATCH_MAGIC.first()) {
                (Some(wanted), _) if wanted == byte => matched + 1,
                (_, Some(first)) if first == byte => 1,
                _ => 0,
            };
            if matched < BATCH_MAGIC.len() {
                continue;
            }
            matched = 0;
            let start = at + step as u64 + 1 - BATCH_MAGIC.len() as u64;
            // The batch at the offset itself is the one that was found unwhole.
            if start > offset && rest.signed.is_none() {
                rest.signed = signed_at(file, start, size, keys)?.map(|signed| (start, signed));
            }
        }
        Ok(())
    })?;
    Ok(rest)
}

/// The size that a batch at this place signs, if it is signed by the log for a larger size than what was read so far.
/// An agent can place bytes in a payload, but not a signature on a size that was not yet reached.
fn signed_at(file: &dyn DiskFile, start: u64, size: u64, keys: &[&LogKey]) -> io::Result<Option<u64>> {
    let mut bytes = [0u8; BATCH_HEADER_LEN];
    let read = file.read_up_to(&mut bytes, start)?;
    let Ok(Some(header)) = parse_batch_header(bytes.get(..read).unwrap_or_default()) else {
        return Ok(None);
    };
    let Some(note) = read_note(file, start, &header)? else {
        return Ok(None);
    };
    let signed = keys.iter().find_map(|key| Checkpoint::open(&note, key).ok()).map(|checkpoint| checkpoint.size);
    Ok(signed.filter(|signed| *signed == header.end_index() && *signed > size))
}

fn read_note(file: &dyn DiskFile, start: u64, header: &BatchHeader) -> io::Result<Option<String>> {
    let mut note = vec![0u8; header.note_len().min(NOTE_BYTES_MAX)];
    let read = file.read_up_to(&mut note, start + header.note_offset())?;
    Ok(String::from_utf8(note).ok().filter(|note| note.len() == read))
}
