//! Opening the log: verify, adopt a whole signed tail, cut what is not whole, refuse what a crash cannot explain.
//!
//! After an end that was not clean, the last segment may hold pages that a failed sync left in memory only. Reading them
//! back proves nothing, so its whole batches are copied to a new file that is synced and takes its name before anything in it is
//! trusted. No copy of what was cut is kept: it was never acknowledged, and erasure must not have to look for it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use countersign_ledger::segment::{FIRST_SEGMENT, SEGMENT_HEADER_LEN};
use countersign_ledger::{Frontier, KeyChain, LogKey};
use parking_lot::{Mutex, RwLock};

use super::disk::{Disk, DiskFile, DiskLock};
use super::error::IoContext;
use super::index::SparseIndex;
use super::log::{Segment, State};
use super::walk::{in_pieces, list_segments};
use super::writer::{prepare, start_segment};
use super::{
    Anchor, Fold, Leaves, LogWriter, OpenedLog, Place, ReadLog as _, SEGMENT_BYTES, SegmentLog, StorageError, Store,
    TornTail, WalkEnd, WalkOptions, segment_name, walk,
};

pub(super) mod clean_mark;

/// A data folder that this process holds.
pub struct Folder {
    disk: Arc<dyn Disk>,
    lock: Box<dyn DiskLock>,
}

impl Folder {
    /// Takes the folder; refuses if another process has it.
    pub fn lock(disk: Arc<dyn Disk>) -> Result<Self, StorageError> {
        match disk.lock() {
            Ok(lock) => Ok(Self { disk, lock }),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                Err(StorageError::Locked { holder: error.to_string() })
            }
            Err(error) => Err(error).on("lock", "the data folder"),
        }
    }
}

impl Store for Folder {
    fn snapshots(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    fn open(self: Box<Self>, options: OpenOptions<'_>, fold: &mut Fold<'_>) -> Result<OpenedLog, StorageError> {
        let Opened { writer, log, frontier, keys, report } = open(*self, options, fold)?;
        Ok(OpenedLog { writer: Box::new(writer), log, frontier, keys, report })
    }
}

/// How to open a log.
pub struct OpenOptions<'a> {
    /// The public key of the gate, which must be the log's current one.
    pub key: &'a LogKey,
    /// The key that a rotation under way goes on with: then that may be the current one as well.
    pub next: Option<&'a LogKey>,
    /// What leaves mean.
    pub leaves: &'a dyn Leaves,
    /// Length at which a new segment is started, where the log is kept in segments.
    pub segment_bytes: u64,
    /// The tree of a verified snapshot, or the empty tree to read everything.
    pub start: Frontier,
}

impl<'a> OpenOptions<'a> {
    /// The usual options: read everything, segments of [`SEGMENT_BYTES`].
    #[must_use]
    pub fn new(key: &'a LogKey, leaves: &'a dyn Leaves) -> Self {
        Self { key, next: None, leaves, segment_bytes: SEGMENT_BYTES, start: Frontier::new() }
    }

    fn walk(&self) -> WalkOptions<'a> {
        let Self { key, next, leaves, .. } = *self;
        WalkOptions { key, next, leaves }
    }
}

/// What opening found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// Entries in the log.
    pub size: u64,
    /// Batches that were read and verified.
    pub batches: u64,
    /// Segment files.
    pub segments: usize,
    /// Whether the log had been closed cleanly.
    pub was_clean: bool,
    /// What was cut: bytes of a batch that was never acknowledged.
    pub cut: Option<TornTail>,
    /// Size in the anchor, zero if there was none.
    pub anchor_size: u64,
    /// Half-made files that were removed.
    pub leftovers_removed: Vec<String>,
}

/// An open log in segment files.
pub struct Opened {
    /// Appends.
    pub writer: LogWriter,
    /// Reads.
    pub log: Arc<SegmentLog>,
    /// The tree over the whole log.
    pub frontier: Frontier,
    /// The keys that the log has had, from where it was read.
    pub keys: KeyChain,
    /// What was found.
    pub report: OpenReport,
}

/// Opens the log in a folder, handing every verified batch after `start` to `fold`. Makes an empty log if there is none.
///
/// # Errors
/// Whatever [`walk`] refuses; nothing is changed then.
pub fn open(folder: Folder, options: OpenOptions<'_>, fold: &mut Fold<'_>) -> Result<Opened, StorageError> {
    let Folder { disk, lock } = folder;
    let leftovers_removed = remove_leftovers(&*disk)?;
    let end = walk(&*disk, options.walk(), options.start.clone(), fold)?;
    refuse_below_mark(&*disk, &end)?;
    let current = end.keys.current();
    if current != options.key && Some(current) != options.next {
        let held = options.key.name_and_id();
        return Err(StorageError::KeyNotCurrent { current: current.name_and_id(), held });
    }

    let size = end.frontier.size();
    let firsts = list_segments(&*disk, options.key.origin())?;
    let log = Arc::new(new_log(&disk, &end, options.segment_bytes, firsts.iter().map(|segment| segment.first_index)));
    let (was_clean, tail) = take_last(&log, &end, &options)?;
    clean_mark::remove(&*disk)?;
    if size > 0 {
        let note = log.checkpoint_covering(size - 1)?;
        log.state.write().note = note;
    }
    let report = OpenReport {
        size,
        batches: end.batches,
        segments: log.state.read().segments.len(),
        was_clean,
        cut: end.tail,
        anchor_size: end.anchor.map_or(0, |anchor| anchor.size),
        leftovers_removed,
    };
    *log.lock.lock() = Some(lock);
    let writer = LogWriter {
        log: Arc::clone(&log),
        origin: options.key.origin().to_owned(),
        file: tail.file,
        first_index: tail.first_index,
        offset: tail.offset,
        room: options.segment_bytes.max(tail.offset),
        size,
    };
    Ok(Opened { writer, log, frontier: end.frontier, keys: end.keys, report })
}

/// The segment that the writer goes on with.
struct Tail {
    file: Arc<dyn DiskFile>,
    first_index: u64,
    offset: u64,
}

/// Makes the last segment one that can be appended to. Says whether it was as its clean mark says.
fn take_last(log: &SegmentLog, end: &WalkEnd, options: &OpenOptions<'_>) -> Result<(bool, Tail), StorageError> {
    let disk = &*log.disk;
    let last = log.state.read().segments.last().map(|segment| segment.first_index);
    let (Some(first_index), Some(place)) = (last, &end.end) else {
        let prepared = prepare(log)?;
        start_segment(log, &prepared, options.key.origin(), 0, FIRST_SEGMENT)?;
        let offset = SEGMENT_HEADER_LEN as u64;
        let index = Some(prepared.index);
        log.state.write().segments.push(Segment { first_index: 0, end: Some(offset), index });
        return Ok((true, Tail { file: prepared.file, first_index: 0, offset }));
    };
    let size = end.frontier.size();
    let is_clean = end.tail.is_none() && clean_mark::is_of(disk, size, first_index, place.offset)?;
    if !is_clean {
        copy_whole(disk, place, options.segment_bytes)?;
    }
    let file = disk.open(&place.segment).on("open", &place.segment)?;
    let mut index = SparseIndex::with_room(options.segment_bytes);
    index.build(Arc::clone(&file), &place.segment, Some(place.offset))?;
    if let Some(segment) = log.state.write().segments.last_mut() {
        segment.end = Some(place.offset);
        segment.index = Some(index);
    }
    Ok((is_clean, Tail { file, first_index, offset: place.offset }))
}

/// Copies everything before `place` to a new file, makes it durable, and puts it in the old one's place.
fn copy_whole(disk: &dyn Disk, place: &Place, segment_bytes: u64) -> Result<(), StorageError> {
    let name = place.segment.as_str();
    let copy_name = format!("{name}.tmp");
    let old = disk.open_read(name).on("open", name)?;
    let copy = disk.create(&copy_name).on("create", &copy_name)?;
    copy.allocate(segment_bytes.max(place.offset)).on("reserve room for", &copy_name)?;
    in_pieces(&*old, 0, place.offset, |offset, piece| copy.write_all_at(piece, offset)).on("copy to", &copy_name)?;
    copy.sync_all().on("sync", &copy_name)?;
    disk.rename(&copy_name, name).on("name", name)?;
    disk.sync_dir().on("sync", "the data folder")
}

/// A mark of a clean end that names more entries than are there means that some were lost after it.
fn refuse_below_mark(disk: &dyn Disk, end: &WalkEnd) -> Result<(), StorageError> {
    let size = end.frontier.size();
    let Some(marked) = clean_mark::size(disk)?.filter(|marked| *marked > size) else {
        return Ok(());
    };
    let nowhere = Place { segment: segment_name(0), offset: 0, index: 0 };
    Err(StorageError::Corrupt {
        place: end.end.clone().unwrap_or(nowhere),
        reason: format!("the log was closed cleanly with {marked} entries"),
        lost: format!("entries {size} to {} would be lost", marked - 1),
    })
}

fn new_log(disk: &Arc<dyn Disk>, end: &WalkEnd, segment_bytes: u64, firsts: impl Iterator<Item = u64>) -> SegmentLog {
    let segments = firsts.map(|first_index| Segment { first_index, end: None, index: None }).collect();
    let anchor_size = end.anchor.as_ref().map_or(0, |anchor| anchor.size);
    SegmentLog {
        disk: Arc::clone(disk),
        segment_bytes,
        state: RwLock::new(State { size: end.frontier.size(), segments, note: String::new() }),
        erased: RwLock::default(),
        anchor: Mutex::new(Anchor::new(Arc::clone(disk), anchor_size)),
        prepared: Mutex::new(None),
        lock: Mutex::new(None),
        poisoned: AtomicBool::new(false),
        poison_cause: Mutex::new(String::new()),
        stalled: Mutex::new(None),
        is_given_up: AtomicBool::new(false),
        wants_next: AtomicBool::new(false),
    }
}

/// Removes files that a crash left half made. They may hold payloads, so none may stay.
fn remove_leftovers(disk: &dyn Disk) -> Result<Vec<String>, StorageError> {
    let mut names = disk.list().on("list", "the data folder")?;
    names.retain(|name| name.ends_with(".tmp"));
    names.sort();
    for name in &names {
        disk.remove(name).on("remove", name)?;
    }
    if !names.is_empty() {
        disk.sync_dir().on("sync", "the data folder")?;
    }
    Ok(names)
}
