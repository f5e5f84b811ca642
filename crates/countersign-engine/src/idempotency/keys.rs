//! The keys of a gate: the window, the runs, and what moves keys from one to the other beside the commit loop.

mod tend;

use super::retired::RetiredRuns;
use super::run::{SUFFIX, range_of};
use super::{Count, Known, NamedRun, Run, Seen, TABLE_KEYS, Window};
use crate::request::{Refusal, Request};
use crate::storage::disk::Disk;
use crate::storage::{IoContext as _, StorageError};
use countersign_core::action::{Action, KeyDigest};
use parking_lot::{Mutex, MutexGuard, RwLock};
use smol_str::SmolStr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most keys that wait to be written to runs. Past it no action is taken until the disk has caught up: memory is bounded.
const PENDING_MAX: usize = 16 * TABLE_KEYS;

/// All keys that are remembered.
pub struct Keys {
    disk: Arc<dyn Disk>,
    window: Mutex<Window>,
    runs: RwLock<Arc<Runs>>,
    table_keys: usize,
    /// How many keys are in frozen tables and in no run yet.
    pending: Arc<AtomicUsize>,
    /// Held while keys of the window are written to a run.
    writing: Mutex<()>,
    /// Held while runs are replaced.
    replacing: Mutex<()>,
    retired: RetiredRuns,
}

/// What is in files.
#[derive(Default, Clone)]
struct Runs {
    /// All keys of entries before this that are not forgotten are in the runs.
    covered: u64,
    /// Oldest first.
    list: Vec<Arc<Run>>,
    /// The entries of runs that are missing and not yet made again.
    lost: Vec<Range<u64>>,
}

impl Runs {
    /// The latest use of a key.
    fn find(&self, key: &KeyDigest) -> Result<Option<Seen>, StorageError> {
        for run in self.list.iter().rev() {
            if let Some(seen) = run.find(key)? {
                return Ok(Some(seen));
            }
        }
        Ok(None)
    }

    /// Whether one of them may hold a key, as far as is known without the disk.
    fn may_hold(&self, key: &KeyDigest) -> bool {
        self.list.iter().any(|run| run.may_hold(key))
    }
}

/// What a snapshot holds of keys.
#[derive(Debug, Default)]
pub struct Kept {
    /// The runs that hold all keys before its position.
    pub(crate) runs: Vec<NamedRun>,
    /// How many keys each agent has used.
    pub(crate) counts: Vec<(SmolStr, Count)>,
}

/// The runs that a snapshot is to name.
pub(crate) struct Naming {
    pub(crate) runs: Vec<NamedRun>,
    /// How many runs were retired by then, which it does not name.
    retired: usize,
}

impl Keys {
    /// The keys as a snapshot at a position has them; none at position 0. Runs that are not there as they were signed are made again by
    /// [`Self::mend`].
    ///
    /// # Errors
    /// If the folder cannot be listed, or a run of no known kind is named.
    pub(crate) fn restore(
        disk: Arc<dyn Disk>,
        table_keys: usize,
        position: u64,
        kept: Kept,
    ) -> Result<Self, StorageError> {
        let mut runs = Runs { covered: position, ..Runs::default() };
        for named in &kept.runs {
            let unknown = || StorageError::KeyRun { name: named.name.clone(), reason: "its name says nothing".into() };
            let (first, end) = named.range().ok_or_else(unknown)?;
            match Run::open(&*disk, named) {
                Ok(run) => runs.list.push(Arc::new(run)),
                Err(error) => {
                    tracing::warn!(%error, "a run of idempotency keys is made again from the log");
                    runs.lost.push(first..end);
                }
            }
        }
        let retired = RetiredRuns::default();
        retired.add(unnamed(&*disk, position, &kept.runs)?);
        let pending = Arc::new(AtomicUsize::new(0));
        let mut window = Window::new(position, table_keys, Arc::clone(&pending));
        kept.counts.into_iter().for_each(|(agent, count)| window.put_count(agent, count));
        Ok(Self {
            disk,
            window: Mutex::new(window),
            runs: RwLock::new(Arc::new(runs)),
            table_keys,
            pending,
            writing: Mutex::default(),
            replacing: Mutex::default(),
            retired,
        })
    }

    /// The window, for the sequencer.
    pub fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock()
    }

    /// Looks the keys of a request up in the runs, on the sender's thread.
    ///
    /// # Errors
    /// If they cannot be read: then no one knows whether it was decided before, and it is not decided now.
    pub fn look_up(&self, request: &Request) -> Result<Known, Refusal> {
        let Some(actions) = actions(request) else { return Ok(Known::default()) };
        if self.pending.load(Ordering::Acquire) >= PENDING_MAX {
            return Err(Refusal::KeysUnread("too many of them wait to be written to the disk".to_owned()));
        }
        let runs = {
            let runs = self.runs.read();
            if !runs.lost.is_empty() {
                return Err(Refusal::KeysUnread("a file of them is being made again".to_owned()));
            }
            // Nearly always, and then the disk is not read: the lock need not be given back first.
            if !actions.iter().any(|action| runs.may_hold(&action.key)) {
                return Ok(Known { as_of: runs.covered, found: Vec::new() });
            }
            Arc::clone(&runs)
        };
        let mut found = Vec::new();
        for (place, action) in actions.iter().enumerate() {
            let seen = runs.find(&action.key).map_err(|error| Refusal::KeysUnread(error.to_string()))?;
            found.extend(seen.map(|seen| (place, seen)));
        }
        Ok(Known { as_of: runs.covered, found })
    }

    /// Whether looking the keys of a request up would wait for the disk.
    pub fn must_read_for(&self, request: &Request) -> bool {
        let Some(actions) = actions(request) else { return false };
        let runs = Arc::clone(&self.runs.read());
        actions.iter().any(|action| runs.may_hold(&action.key))
    }

    /// The latest use of a key, wherever it is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn find(&self, key: &KeyDigest) -> Result<Option<Seen>, StorageError> {
        // In this order: a key leaves the window only once it is in a run.
        if let Some(seen) = self.window.lock().find(key) {
            return Ok(Some(seen));
        }
        let runs = Arc::clone(&self.runs.read());
        runs.find(key)
    }

    /// The same as far as it can be said at once; `None` where it would take waiting, for the disk or for the sequencer's turn.
    pub fn find_now(&self, key: &KeyDigest) -> Option<Option<Seen>> {
        let in_window = self.window.try_lock()?.find(key);
        if in_window.is_some() {
            return Some(in_window);
        }
        let runs = Arc::clone(&self.runs.read());
        (!runs.may_hold(key)).then_some(None)
    }

    /// The files that are in use, oldest first, for tests.
    pub fn run_names(&self) -> Vec<String> {
        self.runs.read().list.iter().map(|run| run.name().to_owned()).collect()
    }

    /// How many runs there are, and how many keys they hold, for tests.
    pub fn in_runs(&self) -> (usize, u64) {
        let runs = self.runs.read();
        (runs.list.len(), runs.list.iter().map(|run| run.keys()).sum())
    }

    /// Keeps the runs as they are, up to where they cover the log, for as long as the guard lives.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// Writes all keys before a position to runs, and gives the runs that hold them: exactly these, and none of a later entry. `held` must
    /// be older than the position.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn name(&self, held: &MutexGuard<'_, ()>, position: u64) -> Result<Naming, StorageError> {
        self.window.lock().freeze();
        self.write_until(held, position)?;
        let retired = self.retired.len();
        let runs = Arc::clone(&self.runs.read());
        if !runs.lost.is_empty() {
            let reason = "one that is missing is not made again yet".to_owned();
            return Err(StorageError::KeyRun { name: SUFFIX.to_owned(), reason });
        }
        Ok(Naming { runs: runs.list.iter().map(|run| run.named()).collect(), retired })
    }

    /// A snapshot that names these runs is on disk.
    pub(crate) fn named(&self, naming: &Naming) {
        self.retired.passed(&*self.disk, naming.retired);
    }

    /// How many keys each agent has used. Keys of entries after the snapshot may be among them, which are counted again when the tail is
    /// replayed: a few too many, never too few.
    pub(crate) fn counts(&self, now_ms: u64) -> impl Iterator<Item = (SmolStr, Count)> {
        (0..Window::COUNT_SHARDS).flat_map(move |shard| self.window.lock().copy_counts(shard, now_ms))
    }
}

/// The actions of a request; `None` where it has no idempotency keys.
fn actions(request: &Request) -> Option<&[Action]> {
    match request {
        Request::Act(action) => Some(std::slice::from_ref(&**action)),
        Request::ActMany(many) => Some(&many.actions),
        _ => None,
    }
}

/// The runs in a folder that a snapshot does not name. Those of later entries are named by no snapshot at all and are removed: their keys
/// are entered again as the log is read.
fn unnamed(disk: &dyn Disk, position: u64, named: &[NamedRun]) -> Result<Vec<String>, StorageError> {
    let mut names = disk.list().on("list", "the data folder")?;
    names.retain(|name| range_of(name).is_some() && named.iter().all(|named| named.name != *name));
    let (later, older): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| range_of(name).is_some_and(|(_, end)| end > position));
    for name in &later {
        disk.remove(name).on("remove", name)?;
    }
    Ok(older)
}
