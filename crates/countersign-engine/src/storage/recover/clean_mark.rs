//! The mark of a clean end: where the log stopped. Without it, the last segment is copied before it is appended to.

use crate::storage::StorageError;
use crate::storage::disk::{Disk, read_small};
use crate::storage::error::IoContext;

/// Name of the file.
pub const FILE: &str = "clean";

const FIRST_LINE: &str = "countersign clean end 1";

/// The mark's text.
pub fn text(size: u64, first_index: u64, offset: u64) -> String {
    format!("{FIRST_LINE}\n{size}\n{first_index}\n{offset}\n")
}

/// Whether the mark is there and is of exactly this end. Anything else counts as an unclean end, which is always safe.
pub fn is_of(disk: &dyn Disk, size: u64, first_index: u64, offset: u64) -> Result<bool, StorageError> {
    let bytes = read_small(disk, FILE, 1 << 10).on("read", FILE)?;
    Ok(bytes.is_some_and(|bytes| bytes == text(size, first_index, offset).as_bytes()))
}

/// The size in the mark, if there is a mark that can be read.
pub fn size(disk: &dyn Disk) -> Result<Option<u64>, StorageError> {
    let bytes = read_small(disk, FILE, 1 << 10).on("read", FILE)?.unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    let mut lines = text.lines();
    Ok((lines.next() == Some(FIRST_LINE)).then(|| lines.next()?.parse().ok()).flatten())
}

/// Removes the mark durably: from now on an end is unclean until it is marked again.
pub fn remove(disk: &dyn Disk) -> Result<(), StorageError> {
    match disk.remove(FILE) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => {
            removed.on("remove", FILE)?;
            disk.sync_dir().on("sync", "the data folder")
        }
    }
}
