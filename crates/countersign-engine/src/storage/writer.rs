//! The one writer: appends batches, each durable when `append` returns (I2).
//!
//! A write or sync that fails poisons the log: nobody knows what reached the disk, and a second sync may report success for
//! pages that the first one lost. So every later append is refused, and the next open copies what is whole to a new file.
//!
//! A segment that cannot be created, or room that cannot be reserved, is another matter: nothing was written, so nothing is in
//! doubt. The current segment grows instead, which takes no descriptor. Where the disk is full, the writer waits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use countersign_ledger::segment::{
    BatchHeader, FIRST_SEGMENT, FORMAT_VERSION, SEGMENT_HEADER_LEN, SegmentHeader, parse_batch_header,
};

use rustix::io::Errno;

use super::disk::{DiskFile, replace_small};
use super::error::IoContext;
use super::index::SparseIndex;
use super::log::Segment;
use super::recover::clean_mark;
use super::{Append, Log as _, SegmentLog, StorageError, segment_name};

/// The file in which the next segment is made ready.
pub(super) const NEXT_FILE: &str = "next.tmp";
/// How much room is reserved at a time in a segment that grows because the next one could not be made. Each time, the next one
/// is tried again first.
const GROWS_BY: u64 = 1 << 20;
/// The first wait for room; each further one is twice as long.
const WAIT_FIRST: Duration = Duration::from_millis(10);
/// The longest wait for room: soon after space was freed, the gate goes on.
const WAIT_LONGEST: Duration = Duration::from_millis(500);
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
    /// Up to where room is reserved in the current segment.
    pub(super) room: u64,
    pub(super) size: u64,
}

impl Drop for LogWriter {
    /// Readers may stay; the folder is free for the next writer.
    fn drop(&mut self) {
        drop(self.log.lock.lock().take());
    }
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

    /// Appends one finished batch. When this returns `Ok`, it is durable and readable; when a write or sync fails, the log is
    /// poisoned. Waits while there is no room, until it is told to give up. Gives the new size.
    pub fn append(&mut self, batch: &[u8]) -> Result<u64, StorageError> {
        self.log.refuse_if_poisoned()?;
        if let Err(moved) = self.log.check_held() {
            self.log.poison(moved.to_string());
            return Err(moved);
        }
        let (header, note) = check_next(batch, self.size)?;
        self.make_room(batch.len() as u64)?;
        if let Err(error) = self.write(batch) {
            self.log.poison(error.to_string());
            return Err(error);
        }
        self.publish(header.first_index, header.end_index(), batch.len() as u64, note);
        if self.wants_next() {
            self.log.wants_next.store(true, Ordering::Relaxed);
        }
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
        Ok(())
    }

    /// Sees to it that the batch fits: in the current segment, in the next one, or in the current one made longer.
    fn make_room(&mut self, len: u64) -> Result<(), StorageError> {
        if self.offset.saturating_add(len) <= self.room {
            return Ok(());
        }
        let mut wait = WAIT_FIRST;
        while self.offset.saturating_add(len) > self.room {
            let not_made = if self.offset > SEGMENT_HEADER_LEN as u64 { self.roll()? } else { None };
            if not_made.is_none() && self.offset.saturating_add(len) <= self.room {
                break;
            }
            let until = self.offset.saturating_add(len).saturating_add(GROWS_BY.min(self.log.segment_bytes));
            match self.file.allocate(until) {
                Ok(()) => {
                    if let Some(cause) = not_made {
                        tracing::warn!(%cause, "the next segment cannot be made; the current one grows instead");
                    }
                    self.room = until;
                }
                // Space and descriptors come back. A disk that is broken does not.
                Err(source) if !is_exhausted(&source) => {
                    let error = self.failed("reserve room for", source);
                    self.log.poison(error.to_string());
                    return Err(error);
                }
                Err(source) => {
                    let cause = not_made.unwrap_or_else(|| self.failed("reserve room for", source)).to_string();
                    self.log.wait_for_room(&cause, wait)?;
                    wait = wait.saturating_mul(2).min(WAIT_LONGEST);
                }
            }
        }
        self.log.goes_on();
        Ok(())
    }

    fn write(&self, batch: &[u8]) -> Result<(), StorageError> {
        // Formatting a name allocates, so it is left to the errors.
        let written = self.file.write_all_at(batch, self.offset);
        written.map_err(|source| self.failed("write", source))?;
        self.file.sync_data().map_err(|source| self.failed("sync", source))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> StorageError {
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

    /// Goes on in a new segment. Gives why none could be made, if so: then nothing has changed. Whatever fails once there is
    /// one poisons the log.
    fn roll(&mut self) -> Result<Option<StorageError>, StorageError> {
        // Held until the file has its name: two who prepare at once would prepare the same file.
        let mut slot = self.log.prepared.lock();
        let prepared = match slot.take().map_or_else(|| prepare(&self.log), Ok) {
            Ok(prepared) => prepared,
            Err(not_made) => return Ok(Some(not_made)),
        };
        if let Err(error) = start_segment(&self.log, &prepared, &self.origin, self.size, self.first_index) {
            self.log.poison(error.to_string());
            return Err(error);
        }
        drop(slot);
        // What follows the last batch is only reserved room. Keeping it does no harm.
        if let Err(error) = self.file.truncate(self.offset) {
            tracing::warn!(%error, "the room that a full segment did not use is not given back");
        }
        let index = Some(prepared.index);
        let segment = Segment { first_index: self.size, end: Some(SEGMENT_HEADER_LEN as u64), index };
        self.log.state.write().segments.push(segment);
        self.file = prepared.file;
        self.first_index = self.size;
        self.offset = SEGMENT_HEADER_LEN as u64;
        self.room = self.log.segment_bytes;
        Ok(None)
    }
}

impl Append for LogWriter {
    fn append(&mut self, batch: &[u8]) -> Result<u64, StorageError> {
        LogWriter::append(self, batch)
    }

    fn close(self: Box<Self>) -> Result<(), StorageError> {
        LogWriter::close(*self)
    }
}

/// Checks that a finished batch is the one that follows a log of this size. Gives its header and its checkpoint note.
///
/// # Errors
/// [`StorageError::NotNext`].
pub fn check_next(batch: &[u8], size: u64) -> Result<(BatchHeader, &str), StorageError> {
    let not_next = |reason: String| StorageError::NotNext { reason };
    let header = parse_batch_header(batch)
        .map_err(|torn| not_next(torn.to_string()))?
        .ok_or_else(|| not_next("it is empty".to_owned()))?;
    if header.total_len as usize != batch.len() {
        return Err(not_next(format!("its header says {} bytes, it has {}", header.total_len, batch.len())));
    }
    if header.first_index != size {
        return Err(not_next(format!("it starts at entry {}, the log ends at {size}", header.first_index)));
    }
    let note_at = usize::try_from(header.note_offset()).unwrap_or(usize::MAX);
    let note = batch.get(note_at..).and_then(|note| std::str::from_utf8(note).ok());
    let note = note.ok_or_else(|| not_next("its checkpoint is not text".to_owned()))?;
    Ok((header, note))
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
            let zeroed = if fill == Fill::Zeroed { zero_fill(&*prepared.file, self.segment_bytes) } else { Ok(()) };
            if let Err(error) = zeroed.and_then(|()| prepared.file.sync_all().on("sync", NEXT_FILE)) {
                // It is not part of the log yet, but the disk that lost these bytes would lose the next ones as well.
                self.poison(error.to_string());
                return Err(error);
            }
            *slot = Some(prepared);
        }
        Ok(())
    }

    /// Notes that there is no room and waits a while for some; an error once the gate is to end.
    fn wait_for_room(&self, cause: &str, wait: Duration) -> Result<(), StorageError> {
        // Said to those who ask before it is logged: the log may be on the same disk.
        if self.stalled.lock().replace(cause.to_owned()).is_none() {
            tracing::error!(cause, "the ledger has no room; everything waits until there is some");
        }
        if self.is_given_up.load(Ordering::Acquire) {
            return Err(StorageError::NoRoom { cause: cause.to_owned() });
        }
        std::thread::sleep(wait);
        Ok(())
    }

    fn goes_on(&self) {
        if self.stalled.lock().take().is_some() {
            tracing::info!("the ledger has room again");
        }
    }
}

/// Whether something ran out that others may give back.
fn is_exhausted(error: &io::Error) -> bool {
    use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
    let no_descriptors = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    matches!(error.kind(), OutOfMemory | QuotaExceeded | StorageFull) || no_descriptors.contains(&error.raw_os_error())
}

pub(super) fn prepare(log: &SegmentLog) -> Result<Prepared, StorageError> {
    let file = log.disk.create(NEXT_FILE).on("create", NEXT_FILE)?;
    if let Err(error) = file.allocate(log.segment_bytes).on("reserve room for", NEXT_FILE) {
        // What was reserved of it is needed elsewhere now. If it cannot be removed, the next attempt empties it.
        drop(file);
        let _ = log.disk.remove(NEXT_FILE);
        return Err(error);
    }
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
