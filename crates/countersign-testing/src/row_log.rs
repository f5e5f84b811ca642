//! A log as rows of a table, in memory, as a shared database will keep it.
//!
//! One row a batch, keyed by its first entry, and one row for the head: epoch, position, and the checkpoint of the last batch. A batch goes
//! in together with a compare-and-set of (epoch, position). Whoever takes the log begins an epoch, so a leader that was paused
//! cannot commit when it wakes. Rows are whole or not there; connections break before or after the commit of one, and leaders are paused in
//! front of it.

mod faults;
mod snapshots;

pub use faults::{Fault, Paused};

use countersign_core::state::EntrySet;
use countersign_engine::storage::disk::Disk;
use countersign_engine::storage::{
    Append, Fold, Log, OpenOptions, OpenReport, OpenedLog, OwnedBatch, StorageError, Store, VisitBatch, Walk, WalkEnd,
    WalkOptions, check_next, walk_batches,
};
use countersign_ledger::Frontier;
use countersign_ledger::segment::{SALT_LEN, parse_batch};
use faults::Faults;
use parking_lot::Mutex;
use snapshots::Snapshots;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The table. Clones are the same table.
#[derive(Clone, Default)]
pub struct RowTable {
    rows: Arc<Mutex<Rows>>,
    faults: Faults,
    snapshots: Snapshots,
}

#[derive(Default)]
struct Rows {
    epoch: u64,
    position: u64,
    /// The checkpoint of the last batch.
    note: Option<String>,
    batches: BTreeMap<u64, Vec<u8>>,
}

impl Rows {
    /// The compare of the compare-and-set.
    fn check(&self, epoch: u64) -> Result<(), StorageError> {
        if self.epoch == epoch {
            return Ok(());
        }
        Err(StorageError::Moved { cause: format!("epoch {} has begun, and this is epoch {epoch}", self.epoch) })
    }

    fn batch(&self, index: u64) -> Option<(u64, &Vec<u8>)> {
        self.batches.range(..=index).next_back().map(|(first, bytes)| (*first, bytes))
    }
}

fn named(first: u64, bytes: &[u8]) -> Result<OwnedBatch, StorageError> {
    OwnedBatch::new(bytes.to_vec(), format!("row {first}"), 0)
}

impl RowTable {
    /// Takes the log: whoever led it before leads no longer.
    #[must_use]
    pub fn take(&self) -> Box<dyn Store> {
        let mut rows = self.rows.lock();
        rows.epoch += 1;
        let snapshots: Arc<dyn Disk> = Arc::new(self.snapshots.of(&self.rows, rows.epoch));
        Box::new(Taken { table: self.clone(), epoch: rows.epoch, snapshots })
    }

    /// What happens at the next append.
    pub fn fail(&self, fault: Fault) {
        self.faults.set(fault);
    }

    /// Has the next append wait, right in front of its commit.
    #[must_use]
    pub fn pause(&self) -> Paused {
        self.faults.pause()
    }

    /// How many entries there are.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.rows.lock().position
    }

    /// Whether any row or snapshot holds these bytes.
    #[must_use]
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let held = |row: &[u8]| row.windows(bytes.len()).any(|part| part == bytes);
        self.rows.lock().batches.values().any(|row| held(row))
            || self.snapshots.contents().iter().any(|file| held(file))
    }

    #[must_use]
    pub fn snapshot_names(&self) -> Vec<String> {
        self.snapshots.names()
    }

    /// Someone who can write to the table changes the row that holds an entry.
    pub fn edit(&self, index: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let mut rows = self.rows.lock();
        if let Some((_, row)) = rows.batches.range_mut(..=index).next_back() {
            change(row);
        }
    }

    /// Someone removes the rows from an entry on.
    pub fn cut(&self, index: u64) {
        self.rows.lock().batches.split_off(&index);
    }
}

/// The table as anyone reads it who only verifies.
impl Walk for RowTable {
    fn walk(&self, options: WalkOptions<'_>, start: Frontier, visit: &mut Fold<'_>) -> Result<WalkEnd, StorageError> {
        let (note, rows) = {
            let rows = self.rows.lock();
            let from = rows.batch(start.size()).map_or(0, |(first, _)| first);
            (rows.note.clone(), rows.batches.range(from..).map(|(first, row)| named(*first, row)).collect::<Vec<_>>())
        };
        walk_batches(options, start, note.as_deref(), rows.into_iter(), visit)
    }
}

/// The log, taken and not read yet.
struct Taken {
    table: RowTable,
    epoch: u64,
    snapshots: Arc<dyn Disk>,
}

impl Store for Taken {
    fn snapshots(&self) -> &Arc<dyn Disk> {
        &self.snapshots
    }

    fn open(self: Box<Self>, options: OpenOptions<'_>, fold: &mut Fold<'_>) -> Result<OpenedLog, StorageError> {
        let Self { table, epoch, snapshots } = *self;
        let OpenOptions { key, next, leaves, start, .. } = options;
        let end = table.walk(WalkOptions { key, next, leaves }, start, fold)?;
        let current = end.keys.current();
        if current != key && Some(current) != next {
            let (current, held) = (current.name_and_id(), key.name_and_id());
            return Err(StorageError::KeyNotCurrent { current, held });
        }
        let size = end.frontier.size();
        let report = OpenReport {
            size,
            batches: end.batches,
            segments: 0,
            was_clean: true,
            cut: None,
            anchor_size: size,
            leftovers_removed: Vec::new(),
        };
        let log = Arc::new(RowLog { table, epoch, snapshots, poison: Mutex::new(None), erased: Mutex::default() });
        let writer = Box::new(RowWriter { log: Arc::clone(&log), size });
        Ok(OpenedLog { writer, log, frontier: end.frontier, keys: end.keys, report })
    }
}

/// The log as one leader sees it.
struct RowLog {
    table: RowTable,
    epoch: u64,
    snapshots: Arc<dyn Disk>,
    poison: Mutex<Option<String>>,
    /// What an erasure names.
    erased: Mutex<EntrySet>,
}

impl RowLog {
    fn poisoned<T>(&self, error: StorageError) -> Result<T, StorageError> {
        self.poison.lock().get_or_insert(error.to_string());
        Err(error)
    }
}

impl Log for RowLog {
    fn size(&self) -> u64 {
        self.table.position()
    }

    fn latest_note(&self) -> Option<String> {
        self.table.rows.lock().note.clone()
    }

    fn batches(&self, from: u64, visit: &mut VisitBatch<'_>) -> Result<(), StorageError> {
        let (mut next, size) = (from, self.size());
        while next < size {
            let owned = {
                let rows = self.table.rows.lock();
                let (first, row) = rows.batch(next).ok_or(StorageError::NoEntry { index: next, size })?;
                let mut owned = named(first, row)?;
                owned.withhold(&self.erased.lock())?;
                owned
            };
            if !visit(&owned)? {
                break;
            }
            next = owned.header().end_index();
        }
        Ok(())
    }

    fn erase(&self, indexes: &[u64]) -> Result<u64, StorageError> {
        self.refuse_if_poisoned()?;
        let mut rows = self.table.rows.lock();
        if let Err(moved) = rows.check(self.epoch) {
            return self.poisoned(moved);
        }
        let (mut erased, size) = (0, rows.position);
        indexes.iter().for_each(|index| self.erased.lock().insert(*index));
        for index in indexes {
            let row = rows.batches.range_mut(..=*index).next_back().filter(|_| *index < size);
            let (_, row) = row.ok_or(StorageError::NoEntry { index: *index, size })?;
            let place = parse_batch(row).ok().flatten().and_then(|batch| {
                let frame = batch.frames().find(|frame| frame.index == *index)?;
                Some((frame.salt_offset, SALT_LEN + frame.payload.len(), frame.is_erased()))
            });
            let (from, len, was_erased) = place.ok_or(StorageError::NoEntry { index: *index, size })?;
            row[from..from + len].fill(0);
            erased += u64::from(!was_erased);
        }
        Ok(erased)
    }

    fn withhold(&self, entries: &EntrySet) {
        let mut erased = self.erased.lock();
        entries.ranges().for_each(|(first, end)| erased.insert_range(first, end));
    }

    fn snapshots(&self) -> &Arc<dyn Disk> {
        &self.snapshots
    }

    /// The head holds the latest checkpoint: it goes in with every batch.
    fn anchor_past(&self, _: u64) -> Result<(), StorageError> {
        Ok(())
    }

    fn tend(&self, _: u64) -> Result<(), StorageError> {
        Ok(())
    }

    fn refuse_if_poisoned(&self) -> Result<(), StorageError> {
        match &*self.poison.lock() {
            Some(cause) => Err(StorageError::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    fn check_held(&self) -> Result<(), StorageError> {
        self.table.rows.lock().check(self.epoch)
    }

    fn stalled(&self, _: bool) -> Option<String> {
        None
    }
}

/// The one writer of an epoch.
struct RowWriter {
    log: Arc<RowLog>,
    size: u64,
}

fn broken() -> StorageError {
    let source = io::Error::new(io::ErrorKind::BrokenPipe, "the connection was closed");
    StorageError::Io { action: "insert into", name: "the table".to_owned(), source }
}

impl Append for RowWriter {
    fn append(&mut self, batch: &[u8]) -> Result<u64, StorageError> {
        self.log.refuse_if_poisoned()?;
        let (header, note) = check_next(batch, self.size)?;
        let table = &self.log.table;
        table.faults.wait();
        let fault = table.faults.take();
        if fault == Some(Fault::Before) {
            return self.log.poisoned(broken());
        }
        let mut rows = table.rows.lock();
        let is_at = rows.check(self.log.epoch).and_then(|()| match rows.position == self.size {
            true => Ok(()),
            false => Err(StorageError::Moved { cause: format!("it is at {}, not at {}", rows.position, self.size) }),
        });
        if let Err(moved) = is_at {
            return self.log.poisoned(moved);
        }
        rows.batches.insert(header.first_index, batch.to_vec());
        rows.position = header.end_index();
        rows.note = Some(note.to_owned());
        drop(rows);
        if fault == Some(Fault::After) {
            return self.log.poisoned(broken());
        }
        self.size = header.end_index();
        Ok(self.size)
    }

    fn close(self: Box<Self>) -> Result<(), StorageError> {
        self.log.refuse_if_poisoned()?;
        self.log.poison.lock().get_or_insert("the log was closed".to_owned());
        Ok(())
    }
}
