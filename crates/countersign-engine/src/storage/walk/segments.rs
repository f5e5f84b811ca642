//! Which segment files there are, and whether they are one unbroken row.

use countersign_ledger::segment::{FIRST_SEGMENT, SEGMENT_HEADER_LEN, SegmentHeader};

use crate::storage::disk::Disk;
use crate::storage::error::IoContext;
use crate::storage::{StorageError, index_of_name};

/// One segment file, with its header read and found right.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Name of the file.
    pub name: String,
    /// Index of its first entry.
    pub first_index: u64,
}

/// All segments in order. Each header names the segment before it, so that a missing one shows without reading any batch.
pub fn list_segments(disk: &dyn Disk, origin: &str) -> Result<Vec<SegmentFile>, StorageError> {
    let names = disk.list().on("list", "the data folder")?;
    let mut segments: Vec<SegmentFile> = names
        .into_iter()
        .filter_map(|name| index_of_name(&name, ".seg").map(|first_index| SegmentFile { name, first_index }))
        .collect();
    segments.sort_by_key(|segment| segment.first_index);
    let mut previous = FIRST_SEGMENT;
    for segment in &segments {
        let header = read_header(disk, &segment.name)?;
        let foreign =
            |found: String, expected: String| StorageError::Foreign { segment: segment.name.clone(), found, expected };
        if header.origin != origin {
            return Err(foreign(format!("origin {}", header.origin), format!("origin {origin}")));
        }
        if header.first_index != segment.first_index {
            let found = format!("first entry {}", header.first_index);
            return Err(foreign(found, format!("first entry {}", segment.first_index)));
        }
        if header.previous_first_index != previous {
            let from = if header.previous_first_index == FIRST_SEGMENT { 0 } else { header.previous_first_index };
            let to = segment.first_index.saturating_sub(1);
            return Err(StorageError::MissingSegment { before: segment.name.clone(), from, to });
        }
        previous = segment.first_index;
    }
    if let Some(first) = segments.first().filter(|first| first.first_index != 0) {
        let to = first.first_index - 1;
        return Err(StorageError::MissingSegment { before: first.name.clone(), from: 0, to });
    }
    Ok(segments)
}

fn read_header(disk: &dyn Disk, name: &str) -> Result<SegmentHeader, StorageError> {
    let mut bytes = [0u8; SEGMENT_HEADER_LEN];
    let file = disk.open_read(name).on("open", name)?;
    let read = file.read_up_to(&mut bytes, 0).on("read", name)?;
    SegmentHeader::parse(bytes.get(..read).unwrap_or_default())
        .map_err(|source| StorageError::Header { segment: name.to_owned(), source })
}
