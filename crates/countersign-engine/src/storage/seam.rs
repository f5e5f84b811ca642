//! What everything above storage needs of a log, whatever keeps it.
//!
//! Segment files in a folder are one way to keep a log ([`Folder`](super::Folder)), rows of a table another. Both keep the same batches,
//! byte for byte, so whoever reads a log verifies the same signatures. A log has one leader at a time: taking the log begins an
//! epoch, and [`Append::append`] enters a batch only if the log is still at this writer's position in this writer's epoch. A leader that
//! was paused while another took over gets [`StorageError::Moved`] when it wakes, and has entered nothing (I1, I2).
//!
//! What a gate keeps for itself is not here: keys, nonces and what admins signed are files of the gate's own, on its local disk.

use std::ops::Range;
use std::sync::Arc;

use countersign_core::state::EntrySet;
use countersign_ledger::segment::SALT_LEN;
use countersign_ledger::{Frontier, KeyChain};

use super::disk::Disk;
use super::index::damaged;
use super::walk::walk;
use super::{Fold, OpenOptions, OpenReport, OwnedBatch, StorageError, WalkEnd, WalkOptions};

/// A log that was opened: what readers, followers, snapshots and erasures use, from any thread, while the writer appends.
pub trait Log: Send + Sync {
    /// How many entries are durable.
    fn size(&self) -> u64;

    /// The checkpoint note of the last durable batch, if there is any.
    fn latest_note(&self) -> Option<String>;

    /// Hands every batch on, from the one that holds entry `from`, until `visit` says stop (`false`) or the durable end is reached.
    ///
    /// # Errors
    /// If there is no entry `from` where one is asked for, a batch cannot be read, or `visit` fails.
    fn batches(&self, from: u64, visit: &mut VisitBatch<'_>) -> Result<(), StorageError>;

    /// Takes salt and payload of these entries away, durably. Says how many were not erased before. An erasure that names them must be
    /// in the log already. Only the leader erases.
    ///
    /// # Errors
    /// If there is no such entry, or the log failed.
    fn erase(&self, indexes: &[u64]) -> Result<u64, StorageError>;

    /// Hands out no salt and no payload of these entries any more, whatever is still kept of them: an erasure names them.
    fn withhold(&self, entries: &EntrySet);

    /// Where snapshots of the log are kept, by name. What only the leader may change is refused to one that is no longer leading.
    fn snapshots(&self) -> &Arc<dyn Disk>;

    /// Has whatever is entered before and with this entry known to be there outside of the batches themselves, so that its loss would
    /// be noticed.
    ///
    /// # Errors
    /// If that cannot be written.
    fn anchor_past(&self, index: u64) -> Result<(), StorageError>;

    /// What must be done now and then beside the appends; `now_mono_ms` is monotonic time. Call it a few times a second.
    ///
    /// # Errors
    /// If it cannot be done. It may be tried again.
    fn tend(&self, now_mono_ms: u64) -> Result<(), StorageError>;

    /// Refuses if the log takes no more entries, as far as is known without asking anyone: asked for every request.
    ///
    /// # Errors
    /// Says why.
    fn refuse_if_poisoned(&self) -> Result<(), StorageError>;

    /// Refuses if someone else has the log by now: asked before anything leaves the gate.
    ///
    /// # Errors
    /// [`StorageError::Moved`].
    fn check_held(&self) -> Result<(), StorageError>;

    /// Why nothing is written at the moment, if so: the writer waits for room. With `give_up` it does not wait any longer, because the
    /// gate is about to end.
    fn stalled(&self, give_up: bool) -> Option<String>;
}

/// The receiver of batches; it says whether to go on.
pub type VisitBatch<'a> = dyn FnMut(&OwnedBatch) -> Result<bool, StorageError> + 'a;

/// The one writer of a log in one epoch. Dropping it lets the log go.
pub trait Append: Send {
    /// Appends one finished batch, if the log is still at this writer's position in this writer's epoch. When this returns `Ok`, the batch
    /// is durable and readable. Gives the new size.
    ///
    /// # Errors
    /// [`StorageError::Moved`] if another took over: nothing was entered. After any failure that leaves the outcome unknown the log is
    /// poisoned.
    fn append(&mut self, batch: &[u8]) -> Result<u64, StorageError>;

    /// Ends cleanly.
    ///
    /// # Errors
    /// If the log has failed before, or its end cannot be noted.
    fn close(self: Box<Self>) -> Result<(), StorageError>;
}

/// A log that this process has taken, and not read yet.
pub trait Store {
    /// Where its snapshots are.
    fn snapshots(&self) -> &Arc<dyn Disk>;

    /// Verifies the log from `options.start` on, hands every batch to `fold`, and opens it. Makes an empty one if there is none.
    ///
    /// # Errors
    /// If something in the log is not as it was signed. Nothing is changed then.
    fn open(self: Box<Self>, options: OpenOptions<'_>, fold: &mut Fold<'_>) -> Result<OpenedLog, StorageError>;
}

/// An open log.
pub struct OpenedLog {
    /// Appends.
    pub writer: Box<dyn Append>,
    /// Reads.
    pub log: Arc<dyn Log>,
    /// The tree over the whole log.
    pub frontier: Frontier,
    /// The keys that the log has had, from where it was read.
    pub keys: KeyChain,
    /// What was found.
    pub report: OpenReport,
}

/// A log at rest, which anyone may read from a trusted tree to its end: nothing is taken and nothing written.
pub trait Walk {
    /// Hands every verified batch to `visit`.
    ///
    /// # Errors
    /// If something in the log is not as it was signed, or `visit` refuses a batch.
    fn walk(&self, options: WalkOptions<'_>, start: Frontier, visit: &mut Fold<'_>) -> Result<WalkEnd, StorageError>;
}

/// The segment files of a folder.
impl<D: Disk> Walk for D {
    fn walk(&self, options: WalkOptions<'_>, start: Frontier, visit: &mut Fold<'_>) -> Result<WalkEnd, StorageError> {
        walk(self, options, start, visit)
    }
}

/// One entry, copied out of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index in the log.
    pub index: u64,
    pub leaf: Vec<u8>,
    /// Salt and payload; `None` once erased.
    pub content: Option<([u8; SALT_LEN], Vec<u8>)>,
}

/// Reading single entries, the same for every log.
pub trait ReadLog: Log {
    /// The batch that holds an entry.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    fn batch_of(&self, index: u64) -> Result<OwnedBatch, StorageError> {
        let mut found = None;
        self.batches(index, &mut |owned| {
            found = Some(owned.clone());
            Ok(false)
        })?;
        found.ok_or_else(|| StorageError::NoEntry { index, size: self.size() })
    }

    /// One entry.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    fn read_entry(&self, index: u64) -> Result<Entry, StorageError> {
        let mut found = None;
        self.batches(index, &mut |owned| {
            let entry = owned.entries_from(index)?.next().filter(|entry| entry.index == index);
            let missing = || damaged(&owned.segment, owned.offset, index, "the entry is not there".to_owned());
            found = Some(entry.ok_or_else(missing)?);
            Ok(false)
        })?;
        found.ok_or_else(|| StorageError::NoEntry { index, size: self.size() })
    }

    /// Hands every entry of a range on, in order, until `visit` says stop (`false`) or the durable end is reached.
    ///
    /// # Errors
    /// If one cannot be read.
    fn entries(&self, range: Range<u64>, mut visit: impl FnMut(Entry) -> bool) -> Result<(), StorageError> {
        self.batches(range.start, &mut |owned| {
            for entry in owned.entries_from(range.start)? {
                if entry.index >= range.end || !visit(entry) {
                    return Ok(false);
                }
            }
            Ok(owned.header().end_index() < range.end)
        })
    }

    /// The checkpoint note of the batch that holds an entry: the earliest signature that covers it.
    ///
    /// # Errors
    /// If there is no such entry, or its batch cannot be read.
    fn checkpoint_covering(&self, index: u64) -> Result<String, StorageError> {
        let owned = self.batch_of(index)?;
        let note = owned.batch()?.note().to_vec();
        let not_text = || "the checkpoint of its batch is not text".to_owned();
        String::from_utf8(note).map_err(|_| damaged(&owned.segment, owned.offset, index, not_text()))
    }

    /// What to say of an entry whose bytes are not those that the log signed.
    fn altered(&self, index: u64) -> StorageError {
        match self.batch_of(index) {
            Ok(owned) => {
                let reason = "it is not the entry that the log signed".to_owned();
                damaged(&owned.segment, owned.offset, index, reason)
            }
            Err(error) => error,
        }
    }
}

impl<L: Log + ?Sized> ReadLog for L {}
