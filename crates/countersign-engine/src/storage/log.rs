//! The log as readers see it: every synced entry, from any thread, while the writer appends.
//!
//! A reader never sees past the size that the writer published after its sync. What is read here was verified when the log was
//! opened or written by this process; a reader who wants proof checks the leaf against a checkpoint.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_ledger::segment::{Batch, BatchHeader, SALT_LEN, parse_batch};
use parking_lot::{Mutex, RwLock};

use super::disk::{Disk, DiskFile, DiskLock};
use super::error::IoContext;
use super::index::{self, SparseIndex};
use super::walk::BatchCursor;
use super::writer::Prepared;
use super::{Anchor, StorageError, segment_name};

/// One entry, copied out of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index in the log.
    pub index: u64,
    /// The leaf.
    pub leaf: Vec<u8>,
    /// Salt and payload; `None` once erased.
    pub content: Option<([u8; SALT_LEN], Vec<u8>)>,
}

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
    /// The parsed batch.
    pub fn batch(&self) -> Result<Batch<'_>, StorageError> {
        let damaged = |reason: String| index::damaged(&self.segment, self.offset, self.header.first_index, reason);
        match parse_batch(&self.bytes) {
            Ok(Some(batch)) => Ok(batch),
            Ok(None) => Err(damaged("there is no batch".to_owned())),
            Err(torn) => Err(damaged(torn.to_string())),
        }
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> BatchHeader {
        self.header
    }
}

/// The readable side of the log; share it with `Arc`.
pub struct SegmentLog {
    pub(super) disk: Arc<dyn Disk>,
    /// Length at which a new segment is started.
    pub(super) segment_bytes: u64,
    pub(super) state: RwLock<State>,
    /// Held for writing while payloads are overwritten.
    pub(super) erasing: RwLock<()>,
    pub(super) anchor: Mutex<Anchor>,
    pub(super) prepared: Mutex<Option<Prepared>>,
    /// The lock on the folder, until the writer has ended.
    pub(super) lock: Mutex<Option<Box<dyn DiskLock>>>,
    pub(super) poisoned: AtomicBool,
    pub(super) poison_cause: Mutex<String>,
    /// Why the writer waits for room, while it does.
    pub(super) stalled: Mutex<Option<String>>,
    pub(super) is_given_up: AtomicBool,
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
    /// The disk that the log is on.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// How many entries are durable.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.state.read().size
    }

    /// The checkpoint note of the last durable batch, if there is any.
    #[must_use]
    pub fn latest_note(&self) -> Option<String> {
        let state = self.state.read();
        (!state.note.is_empty()).then(|| state.note.clone())
    }

    /// The batch that holds an entry.
    pub fn batch_of(&self, index: u64) -> Result<OwnedBatch, StorageError> {
        self.batch_at(&self.locate(index)?)
    }

    fn batch_at(&self, found: &Located) -> Result<OwnedBatch, StorageError> {
        let segment = segment_name(found.first_index);
        let _whole = self.erasing.read();
        let mut bytes = vec![0u8; found.header.total_len as usize];
        found.file.read_exact_at(&mut bytes, found.offset).on("read", &segment)?;
        Ok(OwnedBatch { bytes, segment, offset: found.offset, header: found.header })
    }

    /// One entry.
    pub fn read_entry(&self, index: u64) -> Result<Entry, StorageError> {
        let owned = self.batch_of(index)?;
        let entry = owned.batch()?.frames().find(|frame| frame.index == index).map(|frame| Entry {
            index,
            leaf: frame.leaf.to_vec(),
            content: (!frame.is_erased()).then(|| (*frame.salt, frame.payload.to_vec())),
        });
        entry.ok_or_else(|| index::damaged(&owned.segment, owned.offset, index, "the entry is not there".to_owned()))
    }

    /// Hands every entry of a range on, in order, until `visit` says stop (`false`) or the durable end is reached.
    pub fn entries(&self, range: Range<u64>, mut visit: impl FnMut(Entry) -> bool) -> Result<(), StorageError> {
        self.batches(range.start, |owned| {
            for frame in owned.batch()?.frames().filter(|frame| frame.index >= range.start) {
                let entry = Entry {
                    index: frame.index,
                    leaf: frame.leaf.to_vec(),
                    content: (!frame.is_erased()).then(|| (*frame.salt, frame.payload.to_vec())),
                };
                if frame.index >= range.end || !visit(entry) {
                    return Ok(false);
                }
            }
            Ok(owned.header().end_index() < range.end)
        })
    }

    /// Hands every batch on, from the one that holds entry `from`, until `visit` says stop or the durable end is reached.
    pub fn batches(
        &self,
        from: u64,
        mut visit: impl FnMut(&OwnedBatch) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
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

    /// The checkpoint note of the batch that holds an entry: the earliest signature that covers it.
    pub fn checkpoint_covering(&self, index: u64) -> Result<String, StorageError> {
        let owned = self.batch_of(index)?;
        let note = owned.batch()?.note().to_vec();
        String::from_utf8(note).map_err(|_| {
            index::damaged(&owned.segment, owned.offset, index, "the checkpoint of its batch is not text".to_owned())
        })
    }

    /// Writes the anchor if it is due. Call it after appends and a few times a second; `now_mono_ms` is monotonic time.
    pub fn anchor_tick(&self, now_mono_ms: u64) -> Result<bool, StorageError> {
        match self.latest_note() {
            Some(note) => self.anchor.lock().maybe_write(now_mono_ms, &note),
            None => Ok(false),
        }
    }

    /// Writes the anchor now if it does not cover an entry yet.
    pub fn anchor_past(&self, index: u64) -> Result<(), StorageError> {
        let mut anchor = self.anchor.lock();
        if anchor.size() <= index
            && let Some(note) = self.latest_note()
        {
            anchor.write(&note)?;
        }
        Ok(())
    }

    /// Why the log takes no more entries, if so.
    pub fn refuse_if_poisoned(&self) -> Result<(), StorageError> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(StorageError::Poisoned { cause: self.poison_cause.lock().clone() });
        }
        Ok(())
    }

    /// Refuses if the folder is no longer held by this process alone.
    pub fn check_held(&self) -> Result<(), StorageError> {
        if self.lock.lock().as_ref().is_none_or(|lock| lock.is_held()) {
            return Ok(());
        }
        Err(StorageError::Moved { cause: "its lock is no longer ours".to_owned() })
    }

    /// What to say of an entry whose bytes are not those that the log signed.
    pub fn altered(&self, index: u64) -> StorageError {
        let reason = "it is not the entry that the log signed".to_owned();
        match self.locate(index) {
            Ok(found) => index::damaged(&segment_name(found.first_index), found.offset, index, reason),
            Err(error) => error,
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

/// The batch right after one, if it is in the same segment and begins with this entry; whoever finds none looks it up.
fn after(located: Located, next: u64) -> Result<Option<Located>, StorageError> {
    let Located { first_index, offset, header, file } = located;
    let offset = offset.saturating_add(u64::from(header.total_len));
    let name = segment_name(first_index);
    let mut cursor = BatchCursor::new(Arc::clone(&file), offset).on("read", &name)?;
    let header = cursor.step_header().on("read", &name)?.ok().flatten();
    Ok(header.filter(|header| header.first_index == next).map(|header| Located { first_index, offset, header, file }))
}
