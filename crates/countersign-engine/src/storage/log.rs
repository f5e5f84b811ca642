//! The log as readers see it: every synced entry, from any thread, while the writer appends.
//!
//! A reader never sees past the size that the writer published after its sync. What is read here was verified when the log was
//! opened or written by this process; a reader who wants proof checks the leaf against a checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_core::state::EntrySet;
use countersign_ledger::segment::{Batch, BatchHeader, SALT_LEN, parse_batch, parse_batch_header};
use parking_lot::{Mutex, RwLock};

use super::disk::{Disk, DiskFile, DiskLock};
use super::error::IoContext;
use super::index::{self, SparseIndex};
use super::walk::BatchCursor;
use super::writer::Prepared;
use super::{Anchor, Entry, Fill, Log, StorageError, VisitBatch, segment_name};

/// One batch, copied out of the log.
#[derive(Clone, Debug)]
pub struct OwnedBatch {
    bytes: Vec<u8>,
    /// Name of the segment file.
    pub segment: String,
    /// Byte offset in the file.
    pub offset: u64,
    header: BatchHeader,
}

impl OwnedBatch {
    /// A batch that was read: its bytes, and where they were found.
    ///
    /// # Errors
    /// If there is no batch in them.
    pub fn new(bytes: Vec<u8>, segment: String, offset: u64) -> Result<Self, StorageError> {
        let damaged = |reason: String| index::damaged(&segment, offset, 0, reason);
        let header = parse_batch_header(&bytes).map_err(|torn| damaged(torn.to_string()))?;
        let header = header.ok_or_else(|| damaged("there is no batch".to_owned()))?;
        Ok(Self { bytes, segment, offset, header })
    }

    /// The parsed batch.
    pub fn batch(&self) -> Result<Batch<'_>, StorageError> {
        let damaged = |reason: String| index::damaged(&self.segment, self.offset, self.header.first_index, reason);
        match parse_batch(&self.bytes) {
            Ok(Some(batch)) => Ok(batch),
            Ok(None) => Err(damaged("there is no batch".to_owned())),
            Err(torn) => Err(damaged(torn.to_string())),
        }
    }

    #[must_use]
    pub fn header(&self) -> BatchHeader {
        self.header
    }

    /// Overwrites salts and payloads of these entries, here in memory: whatever was put back on disk, they are erased.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn withhold(&mut self, erased: &EntrySet) -> Result<(), StorageError> {
        if erased.is_empty() {
            return Ok(());
        }
        let withheld = self.batch()?.frames().filter(|frame| erased.contains(frame.index));
        let places = withheld.map(|frame| (frame.salt_offset, SALT_LEN.saturating_add(frame.payload.len())));
        for (from, len) in places.collect::<Vec<_>>() {
            let place = self.bytes.get_mut(from..).and_then(|rest| rest.get_mut(..len));
            place.into_iter().for_each(|place| place.fill(0));
        }
        Ok(())
    }

    /// Its entries from an index on.
    pub(super) fn entries_from(&self, index: u64) -> Result<impl Iterator<Item = Entry> + '_, StorageError> {
        Ok(self.batch()?.frames().filter(move |frame| frame.index >= index).map(|frame| Entry {
            index: frame.index,
            leaf: frame.leaf.to_vec(),
            content: (!frame.is_erased()).then(|| (*frame.salt, frame.payload.to_vec())),
        }))
    }
}

/// The readable side of the log; share it with `Arc`.
pub struct SegmentLog {
    pub(super) disk: Arc<dyn Disk>,
    /// Length at which a new segment is started.
    pub(super) segment_bytes: u64,
    pub(super) state: RwLock<State>,
    /// The entries whose payloads an erasure names: none of them is handed out, also where an old copy of a file was put back. Held for
    /// writing while payloads are overwritten.
    pub(super) erased: RwLock<EntrySet>,
    pub(super) anchor: Mutex<Anchor>,
    pub(super) prepared: Mutex<Option<Prepared>>,
    /// The lock on the folder, until the writer has ended.
    pub(super) lock: Mutex<Option<Box<dyn DiskLock>>>,
    pub(super) poisoned: AtomicBool,
    pub(super) poison_cause: Mutex<String>,
    /// Why the writer waits for room, while it does.
    pub(super) stalled: Mutex<Option<String>>,
    pub(super) is_given_up: AtomicBool,
    /// Whether the current segment is half full and no next one is ready.
    pub(super) wants_next: AtomicBool,
}

/// What the writer has published.
pub(super) struct State {
    pub size: u64,
    pub segments: Vec<Segment>,
    /// The checkpoint note of the last batch; empty while there is none.
    pub note: String,
}

pub(super) struct Segment {
    pub first_index: u64,
    /// Offset after the last published batch; `None` for a segment that nobody has read since opening.
    pub end: Option<u64>,
    pub index: Option<SparseIndex>,
}

/// A batch that was found.
pub(super) struct Located {
    /// First entry of its segment.
    pub first_index: u64,
    pub offset: u64,
    pub header: BatchHeader,
    pub file: Arc<dyn DiskFile>,
}

impl SegmentLog {
    fn batch_at(&self, found: &Located) -> Result<OwnedBatch, StorageError> {
        let segment = segment_name(found.first_index);
        let erased = self.erased.read();
        let mut bytes = vec![0u8; found.header.total_len as usize];
        found.file.read_exact_at(&mut bytes, found.offset).on("read", &segment)?;
        let mut owned = OwnedBatch { bytes, segment, offset: found.offset, header: found.header };
        owned.withhold(&erased)?;
        Ok(owned)
    }

    /// Writes the anchor if it is due. Call it after appends and a few times a second; `now_mono_ms` is monotonic time.
    pub fn anchor_tick(&self, now_mono_ms: u64) -> Result<bool, StorageError> {
        match self.latest_note() {
            Some(note) => self.anchor.lock().maybe_write(now_mono_ms, &note),
            None => Ok(false),
        }
    }

    pub(super) fn poison(&self, cause: String) {
        let mut slot = self.poison_cause.lock();
        // The first cause is the one that explains the others.
        if !self.poisoned.swap(true, Ordering::AcqRel) {
            *slot = cause;
        }
    }

    /// Where the batch that holds an entry is.
    pub(super) fn locate(&self, index: u64) -> Result<Located, StorageError> {
        let (at, first_index, from) = {
            let state = self.state.read();
            if index >= state.size {
                return Err(StorageError::NoEntry { index, size: state.size });
            }
            let at = state.segments.partition_point(|segment| segment.first_index <= index).saturating_sub(1);
            let no_entry = StorageError::NoEntry { index, size: state.size };
            let segment = state.segments.get(at).ok_or(no_entry)?;
            (at, segment.first_index, segment.index.as_ref().map(|rows| rows.before(index)))
        };
        let name = segment_name(first_index);
        let file = self.disk.open_read(&name).on("open", &name)?;
        let from = match from {
            Some(from) => from,
            None => self.index_segment(at, &name)?.before(index),
        };
        let (offset, header) = index::find(Arc::clone(&file), &name, from, index)?;
        Ok(Located { first_index, offset, header, file })
    }

    /// Builds the table of a segment that is read for the first time since opening.
    fn index_segment(&self, at: usize, name: &str) -> Result<SparseIndex, StorageError> {
        let file = self.disk.open_read(name).on("open", name)?;
        let mut rows = SparseIndex::default();
        rows.build(file, name, None)?;
        if let Some(segment) = self.state.write().segments.get_mut(at) {
            segment.index.get_or_insert_with(|| rows.clone());
        }
        Ok(rows)
    }
}

impl Log for SegmentLog {
    fn size(&self) -> u64 {
        self.state.read().size
    }

    fn latest_note(&self) -> Option<String> {
        let state = self.state.read();
        (!state.note.is_empty()).then(|| state.note.clone())
    }

    fn batches(&self, from: u64, visit: &mut VisitBatch<'_>) -> Result<(), StorageError> {
        let size = self.size();
        let (mut next, mut found) = (from, None);
        while next < size {
            let located = match found.take() {
                Some(located) => located,
                None => self.locate(next)?,
            };
            let owned = self.batch_at(&located)?;
            if !visit(&owned)? {
                break;
            }
            next = owned.header().end_index();
            found = if next < size { after(located, next)? } else { None };
        }
        Ok(())
    }

    /// Overwrites them with zeros. When this returns, no file of the log holds them; snapshots are the caller's to remove.
    fn erase(&self, indexes: &[u64]) -> Result<u64, StorageError> {
        self.erase_in_place(indexes)
    }

    fn withhold(&self, entries: &EntrySet) {
        let mut erased = self.erased.write();
        entries.ranges().for_each(|(first, end)| erased.insert_range(first, end));
    }

    /// They lie beside the segments.
    fn snapshots(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Writes the anchor now if it does not cover the entry yet.
    fn anchor_past(&self, index: u64) -> Result<(), StorageError> {
        let mut anchor = self.anchor.lock();
        if anchor.size() <= index
            && let Some(note) = self.latest_note()
        {
            anchor.write(&note)?;
        }
        Ok(())
    }

    /// Writes the anchor if it is due, and makes the next segment ready if the current one is half full.
    fn tend(&self, now_mono_ms: u64) -> Result<(), StorageError> {
        self.anchor_tick(now_mono_ms)?;
        if self.wants_next.swap(false, Ordering::Relaxed) { self.prepare_next(Fill::Reserved) } else { Ok(()) }
    }

    fn refuse_if_poisoned(&self) -> Result<(), StorageError> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(StorageError::Poisoned { cause: self.poison_cause.lock().clone() });
        }
        Ok(())
    }

    /// The folder's lock is the epoch of segment files: whoever holds it leads.
    fn check_held(&self) -> Result<(), StorageError> {
        if self.lock.lock().as_ref().is_none_or(|lock| lock.is_held()) {
            return Ok(());
        }
        Err(StorageError::Moved { cause: "its lock is no longer ours".to_owned() })
    }

    fn stalled(&self, give_up: bool) -> Option<String> {
        if give_up {
            self.is_given_up.store(true, Ordering::Release);
        }
        self.stalled.lock().clone()
    }
}

/// The batch right after one, if it is in the same segment and begins with this entry; whoever finds none looks it up.
fn after(located: Located, next: u64) -> Result<Option<Located>, StorageError> {
    let Located { first_index, offset, header, file } = located;
    let offset = offset.saturating_add(u64::from(header.total_len));
    let name = segment_name(first_index);
    let mut cursor = BatchCursor::new(Arc::clone(&file), offset).on("read", &name)?;
    let header = cursor.step_header().on("read", &name)?.ok().flatten();
    Ok(header.filter(|header| header.first_index == next).map(|header| Located { first_index, offset, header, file }))
}
