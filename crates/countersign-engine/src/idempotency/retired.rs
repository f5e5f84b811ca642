//! Files of runs that are in use no longer. A snapshot on disk may still name one, so it goes only when all snapshots that are kept were
//! taken without it. What a crash left goes the same way.

use crate::storage::disk::Disk;
use crate::storage::snapshot::SNAPSHOTS_KEPT;
use parking_lot::Mutex;

#[derive(Debug)]
struct Retired {
    name: String,
    /// How many snapshots were taken since that do not name it.
    snapshots: usize,
}

#[derive(Debug, Default)]
pub(super) struct RetiredRuns(Mutex<Vec<Retired>>);

impl RetiredRuns {
    pub(super) fn add(&self, names: impl IntoIterator<Item = String>) {
        self.0.lock().extend(names.into_iter().map(|name| Retired { name, snapshots: 0 }));
    }

    /// A run is in use that has the name of one of them.
    pub(super) fn is_back(&self, name: &str) {
        // It stays in its place, which the snapshot under way counts by.
        let mut retired = self.0.lock();
        retired.iter_mut().filter(|retired| retired.name == name).for_each(|retired| retired.name.clear());
    }

    /// How many there are: the snapshot that is taken from here on names none of them.
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// A snapshot is on disk that names none of the first so many. Removes those that no snapshot names any more.
    pub(super) fn passed(&self, disk: &dyn Disk, first: usize) {
        let mut retired = self.0.lock();
        retired.iter_mut().take(first).for_each(|retired| retired.snapshots += 1);
        retired.retain(|Retired { name, snapshots }| {
            let is_gone = *snapshots >= SNAPSHOTS_KEPT && is_removed(disk, name);
            !is_gone
        });
    }
}

fn is_removed(disk: &dyn Disk, name: &str) -> bool {
    if name.is_empty() {
        return true;
    }
    match disk.remove(name) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        // It is tried again after the next snapshot.
        Err(error) => {
            tracing::warn!(%error, name, "a run of idempotency keys that is in use no longer cannot be removed");
            false
        }
    }
}
