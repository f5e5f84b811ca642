//! What moves keys to files and keeps the files few. Never done by the sequencer, which waits for no disk.

use super::{Keys, Runs};
use crate::idempotency::merge::{due, merge};
use crate::idempotency::rebuild::rebuild;
use crate::idempotency::run::write_sorted;
use crate::idempotency::{Run, is_past};
use crate::storage::{Log, StorageError};
use crate::view::View;
use countersign_core::record::Entry;
use countersign_ledger::tree::TileTree;
use parking_lot::{MutexGuard, RwLock};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Keys {
    /// One round: makes damaged runs again, writes full tables to runs, merges runs. Call it a few times a second.
    ///
    /// # Errors
    /// If the disk refuses. It may be tried again.
    pub fn tend(&self, log: &dyn Log, view: &RwLock<View>) -> Result<(), StorageError> {
        let (position, now_ms) = {
            let view = view.read();
            (view.position, view.time_ms)
        };
        // A gate that took the folder over has files of the same names.
        log.check_held()?;
        self.mend(log, || view.read().tree.clone(), now_ms)?;
        if self.pending.load(Ordering::Acquire) > 0 {
            let held = self.hold();
            let frozen_end = self.window.lock().frozen_end();
            self.write_until(&held, position.min(frozen_end))?;
        }
        self.merge_due(now_ms)
    }

    /// Enters the keys of an entry that is read back from the log.
    ///
    /// # Errors
    /// If those of the entries before it had to be written to a run, and could not be.
    pub fn replay(&self, entry: &Entry) -> Result<(), StorageError> {
        let full = {
            let mut window = self.window.lock();
            let full = window.freeze_if_full().then(|| window.frozen_end());
            window.note(entry);
            full
        };
        let Some(end) = full else { return Ok(()) };
        self.write_until(&self.hold(), end)?;
        self.merge_due(entry.time_ms)
    }

    /// Writes the keys of all entries before one to a run. All of them must be durable, and in frozen tables.
    pub(super) fn write_until(&self, _held: &MutexGuard<'_, ()>, end: u64) -> Result<(), StorageError> {
        let covered = self.runs.read().covered;
        if end <= covered {
            return Ok(());
        }
        let tables = self.window.lock().unwritten();
        let keys = tables.iter().flat_map(|table| &table.keys).map(|(key, seen)| (*key, *seen));
        let keys: Vec<_> = keys.filter(|(_, seen)| (covered..end).contains(&seen.entry)).collect();
        let run = if keys.is_empty() { None } else { write_sorted(&*self.disk, "new", end, keys)? };
        self.change(|runs| {
            runs.covered = end;
            runs.list.extend(run.map(|run| self.in_use(run)));
        });
        // Only now: a key that is missing from the window must be in the runs.
        let unused = self.window.lock().cover(end);
        drop((tables, unused));
        Ok(())
    }

    /// Drops runs whose keys are all forgotten, and makes one of several while there are many of a size.
    fn merge_due(&self, now_ms: u64) -> Result<(), StorageError> {
        let _one = self.replacing.lock();
        let old = Arc::clone(&self.runs.read());
        for run in old.list.iter().filter(|run| is_past(run.newest_ms(), now_ms)) {
            self.replace(std::slice::from_ref(run), None);
        }
        loop {
            let runs = Arc::clone(&self.runs.read());
            let keys: Vec<u64> = runs.list.iter().map(|run| run.keys()).collect();
            let some = due(&keys, self.table_keys as u64).and_then(|some| runs.list.get(some));
            // One that cannot be read is made again first: a gate must open in spite of it.
            let Some(some) = some.filter(|some| !some.iter().any(|run| run.is_damaged())) else { return Ok(()) };
            match merge(&*self.disk, "merged", some, now_ms) {
                Ok(merged) => self.replace(some, merged),
                Err(_) if some.iter().any(|run| run.is_damaged()) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes runs again that are missing, or of which something could not be read.
    ///
    /// # Errors
    /// If the log cannot be read or is altered itself, or a run cannot be written.
    pub(crate) fn mend(&self, log: &dyn Log, tree: impl FnOnce() -> TileTree, now_ms: u64) -> Result<(), StorageError> {
        let is_whole = |runs: &Runs| runs.lost.is_empty() && !runs.list.iter().any(|run| run.is_damaged());
        if is_whole(&self.runs.read()) {
            return Ok(());
        }
        let _one = self.replacing.lock();
        let runs = Arc::clone(&self.runs.read());
        let tree = tree();
        let again = |first, end| rebuild(&*self.disk, (log, &tree), first..end, now_ms, self.table_keys);
        for run in runs.list.iter().filter(|run| run.is_damaged()) {
            let (first, end) = run.range();
            self.replace(std::slice::from_ref(run), again(first, end)?);
            tracing::warn!(name = run.name(), "a run of idempotency keys was damaged, and was made again from the log");
        }
        for lost in &runs.lost {
            let run = again(lost.start, lost.end)?;
            self.change(|runs| {
                runs.lost.retain(|other| other != lost);
                runs.list.extend(run.map(|run| self.in_use(run)));
                runs.list.sort_by_key(|run| run.range().1);
            });
        }
        Ok(())
    }

    /// Puts one run, or none, in the place of others. Their files stay until no snapshot names them.
    fn replace(&self, old: &[Arc<Run>], new: Option<Run>) {
        let new = new.map(|run| self.in_use(run));
        let is_old = |run: &Arc<Run>| old.iter().any(|old| Arc::ptr_eq(old, run));
        let name = new.as_ref().map(|run| run.name().to_owned());
        self.change(|runs| {
            let at = runs.list.iter().position(is_old).unwrap_or(runs.list.len());
            runs.list.retain(|run| !is_old(run));
            if let Some(new) = new {
                runs.list.insert(at.min(runs.list.len()), new);
            }
        });
        // One that was made again as it was has the same name.
        self.retired.add(old.iter().map(|run| run.name().to_owned()).filter(|old| Some(old) != name.as_ref()));
    }

    fn in_use(&self, run: Run) -> Arc<Run> {
        self.retired.is_back(run.name());
        Arc::new(run)
    }

    fn change(&self, change: impl FnOnce(&mut Runs)) {
        let mut runs = self.runs.write();
        let mut changed = Runs::clone(&runs);
        change(&mut changed);
        *runs = Arc::new(changed);
    }
}
