//! A log that acknowledges what is only in memory. It is written when the gate ends as it should, and lost when it is killed: to those
//! who were told, the same as a sync that never happened when the power fails.

use crate::storage::disk::Disk;
use crate::storage::{Append, Log, OpenedLog, OwnedBatch, StorageError, VisitBatch, check_next};
use countersign_core::state::EntrySet;
use parking_lot::Mutex;
use std::sync::Arc;

/// Where the batches are said to be that are nowhere.
const NOWHERE: &str = "memory";

/// The same log, whose batches are acknowledged before they are written.
pub(crate) fn unsynced(opened: OpenedLog) -> OpenedLog {
    let log = Arc::new(Unsynced { log: opened.log, kept: Mutex::default() });
    let writer = Box::new(LateWriter { writer: opened.writer, log: Arc::clone(&log) });
    OpenedLog { writer, log, ..opened }
}

/// The batches that were written, and behind them those that were not.
struct Unsynced {
    log: Arc<dyn Log>,
    kept: Mutex<Vec<Arc<Kept>>>,
}

/// A batch that was acknowledged and not written.
struct Kept {
    bytes: Vec<u8>,
    batch: OwnedBatch,
}

impl Kept {
    fn end(&self) -> u64 {
        self.batch.header().end_index()
    }
}

/// Writes when it is closed.
struct LateWriter {
    writer: Box<dyn Append>,
    log: Arc<Unsynced>,
}

impl Append for LateWriter {
    fn append(&mut self, batch: &[u8]) -> Result<u64, StorageError> {
        check_next(batch, self.log.size())?;
        let bytes = batch.to_vec();
        let kept = Kept { batch: OwnedBatch::new(bytes.clone(), NOWHERE.to_owned(), 0)?, bytes };
        let end = kept.end();
        self.log.kept.lock().push(Arc::new(kept));
        Ok(end)
    }

    fn close(mut self: Box<Self>) -> Result<(), StorageError> {
        for kept in std::mem::take(&mut *self.log.kept.lock()) {
            self.writer.append(&kept.bytes)?;
        }
        self.writer.close()
    }
}

impl Log for Unsynced {
    fn size(&self) -> u64 {
        self.kept.lock().last().map_or_else(|| self.log.size(), |kept| kept.end())
    }

    fn latest_note(&self) -> Option<String> {
        let kept = self.kept.lock().last().cloned();
        match kept.as_ref().and_then(|kept| kept.batch.batch().ok()) {
            Some(batch) => String::from_utf8(batch.note().to_vec()).ok(),
            None => self.log.latest_note(),
        }
    }

    fn batches(&self, from: u64, visit: &mut VisitBatch<'_>) -> Result<(), StorageError> {
        let kept: Vec<Arc<Kept>> = self.kept.lock().iter().filter(|kept| kept.end() > from).cloned().collect();
        let mut goes_on = true;
        if from < self.log.size() {
            self.log.batches(from, &mut |batch| {
                goes_on = visit(batch)?;
                Ok(goes_on)
            })?;
        }
        for kept in kept {
            goes_on = goes_on && visit(&kept.batch)?;
        }
        Ok(())
    }

    /// What was never written has nothing to take away.
    fn erase(&self, indexes: &[u64]) -> Result<u64, StorageError> {
        let size = self.log.size();
        let written: Vec<u64> = indexes.iter().copied().filter(|index| *index < size).collect();
        self.log.erase(&written)
    }

    fn withhold(&self, entries: &EntrySet) {
        self.log.withhold(entries);
    }

    fn snapshots(&self) -> &Arc<dyn Disk> {
        self.log.snapshots()
    }

    fn anchor_past(&self, index: u64) -> Result<(), StorageError> {
        if index < self.log.size() { self.log.anchor_past(index) } else { Ok(()) }
    }

    fn tend(&self, now_mono_ms: u64) -> Result<(), StorageError> {
        self.log.tend(now_mono_ms)
    }

    fn refuse_if_poisoned(&self) -> Result<(), StorageError> {
        self.log.refuse_if_poisoned()
    }

    fn check_held(&self) -> Result<(), StorageError> {
        self.log.check_held()
    }

    fn stalled(&self, give_up: bool) -> Option<String> {
        self.log.stalled(give_up)
    }
}
