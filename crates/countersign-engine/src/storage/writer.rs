//! The one writer: appends batches, each durable when `append` returns (I2).
//!
//! A write or sync that fails poisons the log: nobody knows what reached the disk, and a second sync may report success for
//! pages that the first one lost. So every later append is refused, and the next open copies what is whole to a new file.

use std::sync::Arc;

use countersign_ledger::segment::{
    FIRST_SEGMENT, FORMAT_VERSION, SEGMENT_HEADER_LEN, SegmentHeader, parse_batch_header,
};

use super::disk::{DiskFile, DiskLock, replace_small};
use super::error::IoContext;
use super::index::SparseIndex;
use super::log::Segment;
use super::recover::clean_mark;
use super::{SegmentLog, StorageError, segment_name};

/// The file in which the next segment is made ready.
pub(super) const NEXT_FILE: &str = "next.tmp";
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A segment file without a header, long enough and already on disk.
pub(super) struct Prepared {
    pub file: Arc<dyn DiskFile>,
    pub index: SparseIndex,
}

/// The writing side of the log. There is one, and it holds the folder's lock.
pub struct LogWriter {
    pub(super) log: Arc<SegmentLog>,
    pub(super) origin: String,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) first_index: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) lock: Box<dyn DiskLock>,
}

impl LogWriter {
    /// The readable side.
    #[must_use]
    pub fn log(&self) -> &Arc<SegmentLog> {
        &self.log
    }

    /// How many entries there are, all of them durable.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends one finished batch. When this returns `Ok`, it is durable and readable; on an error of the disk the log is
    /// poisoned. Gives the new size.
    pub fn append(&mut self, batch: &[u8]) -> Result<u64, StorageError> {
        self.log.refuse_if_poisoned()?;
        let not_next = |reason: String| StorageError::NotNext { reason };
        let header = parse_batch_header(batch)
            .map_err(|torn| not_next(torn.to_string()))?
            .ok_or_else(|| not_next("it is empty".to_owned()))?;
        if header.total_len as usize != batch.len() {
            return Err(not_next(format!("its header says {} bytes, it has {}", header.total_len, batch.len())));
        }
        if header.first_index != self.size {
            return Err(not_next(format!("it starts at entry {}, the log ends at {}", header.first_index, self.size)));
        }
        let note_at = usize::try_from(header.note_offset()).unwrap_or(usize::MAX);
        let note = batch.get(note_at..).and_then(|note| std::str::from_utf8(note).ok());
        let note = note.ok_or_else(|| not_next("its checkpoint is not text".to_owned()))?;
        if let Err(error) = self.write(batch) {
            self.log.poison(error.to_string());
            return Err(error);
        }
        self.publish(header.first_index, header.end_index(), batch.len() as u64, note);
        Ok(self.size)
    }

    /// Whether the current segment is half full and no next one is ready: time to call [`SegmentLog::prepare_next`].
    #[must_use]
    pub fn wants_next(&self) -> bool {
        // Whoever holds the lock is preparing one; waiting for that here would stall the writer.
        let is_missing = || self.log.prepared.try_lock().is_some_and(|slot| slot.is_none());
        self.offset > self.log.segment_bytes / 2 && is_missing()
    }

    /// Ends cleanly: anchor, then the mark that lets the next open append where this one stopped. A poisoned log gets no mark.
    pub fn close(self) -> Result<(), StorageError> {
        self.log.refuse_if_poisoned()?;
        if let Some(note) = self.log.latest_note() {
            self.log.anchor.lock().write(&note)?;
        }
        let disk = &*self.log.disk;
        if self.log.prepared.lock().take().is_some() {
            disk.remove(NEXT_FILE).on("remove", NEXT_FILE)?;
        }
        let mark = clean_mark::text(self.size, self.first_index, self.offset);
        replace_small(disk, clean_mark::FILE, mark.as_bytes()).on("write", clean_mark::FILE)?;
        // After this, nothing may be appended by anyone who still holds the log.
        self.log.poison("the log was closed".to_owned());
        drop(self.lock);
        Ok(())
    }

    fn write(&mut self, batch: &[u8]) -> Result<(), StorageError> {
        let is_full = self.offset.saturating_add(batch.len() as u64) > self.log.segment_bytes;
        if is_full && self.offset > SEGMENT_HEADER_LEN as u64 {
            self.roll()?;
        }
        // Formatting a name allocates, so it is left to the errors.
        let written = self.file.write_all_at(batch, self.offset);
        written.map_err(|source| self.failed("write", source))?;
        self.file.sync_data().map_err(|source| self.failed("sync", source))
    }

    fn failed(&self, action: &'static str, source: std::io::Error) -> StorageError {
        StorageError::Io { action, name: segment_name(self.first_index), source }
    }

    fn publish(&mut self, first_index: u64, size: u64, len: u64, note: &str) {
        let offset = self.offset;
        self.offset += len;
        self.size = size;
        let mut state = self.log.state.write();
        state.size = size;
        state.note.clear();
        state.note.push_str(note);
        if let Some(segment) = state.segments.last_mut() {
            segment.end = Some(self.offset);
            segment.index.get_or_insert_default().add(first_index, offset);
        }
    }

    fn roll(&mut self) -> Result<(), StorageError> {
        let prepared = self.log.prepared.lock().take();
        let prepared = match prepared {
            Some(prepared) => prepared,
            None => prepare(&self.log)?,
        };
        start_segment(&self.log, &prepared, &self.origin, self.size, self.first_index)?;
        // What follows the last batch is only reserved room. Losing this to a crash does no harm.
        self.file.truncate(self.offset).map_err(|source| self.failed("truncate", source))?;
        let index = Some(prepared.index);
        let segment = Segment { first_index: self.size, end: Some(SEGMENT_HEADER_LEN as u64), index };
        self.log.state.write().segments.push(segment);
        self.file = prepared.file;
        self.first_index = self.size;
        self.offset = SEGMENT_HEADER_LEN as u64;
        Ok(())
    }
}

/// How the next segment is made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Room is reserved. The default: under full load it moves the most bytes, since nothing is written twice.
    Reserved,
    /// Room is reserved and written with zeros. A batch then syncs faster, since blocks that were written before need no change
    /// of metadata, but the zeros themselves compete with the log while they are written: for a gate that is often idle.
    Zeroed,
}

impl SegmentLog {
    /// Makes the next segment ready ahead of time, from any thread; the writer takes it when the current one is full and
    /// then does not have to wait for the file system to find room.
    pub fn prepare_next(&self, fill: Fill) -> Result<(), StorageError> {
        let mut slot = self.prepared.lock();
        self.refuse_if_poisoned()?;
        if slot.is_none() {
            let prepared = prepare(self)?;
            if fill == Fill::Zeroed {
                zero_fill(&*prepared.file, self.segment_bytes)?;
            }
            prepared.file.sync_all().on("sync", NEXT_FILE)?;
            *slot = Some(prepared);
        }
        Ok(())
    }
}

pub(super) fn prepare(log: &SegmentLog) -> Result<Prepared, StorageError> {
    let file = log.disk.create(NEXT_FILE).on("create", NEXT_FILE)?;
    file.allocate(log.segment_bytes).on("reserve room for", NEXT_FILE)?;
    Ok(Prepared { file, index: SparseIndex::with_room(log.segment_bytes) })
}

fn zero_fill(file: &dyn DiskFile, len: u64) -> Result<(), StorageError> {
    let mut offset = 0;
    while offset < len {
        let piece = usize::try_from(len - offset).unwrap_or(usize::MAX).min(ZEROS.len());
        file.write_all_at(ZEROS.get(..piece).unwrap_or_default(), offset).on("write", NEXT_FILE)?;
        offset += piece as u64;
    }
    Ok(())
}

/// Gives a prepared file its header and its name. Header and length are durable before the name is, so a segment that is there
/// after a crash is one whose header can be read.
pub(super) fn start_segment(
    log: &SegmentLog,
    prepared: &Prepared,
    origin: &str,
    first_index: u64,
    previous_first_index: u64,
) -> Result<(), StorageError> {
    let name = segment_name(first_index);
    let header = SegmentHeader {
        format_version: FORMAT_VERSION,
        first_index,
        previous_first_index: if first_index == 0 { FIRST_SEGMENT } else { previous_first_index },
        origin: origin.to_owned(),
    };
    let header = header.encode().map_err(|source| StorageError::Header { segment: name.clone(), source })?;
    prepared.file.write_all_at(&header, 0).on("write", &name)?;
    prepared.file.sync_all().on("sync", &name)?;
    log.disk.rename(NEXT_FILE, &name).on("name", &name)?;
    log.disk.sync_dir().on("sync", "the data folder")
}
