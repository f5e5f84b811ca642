//! Snapshots of a log in rows: named bytes beside the table, which only the leader of the current epoch changes.

use super::Rows;
use crate::disk::{Faults, FaultyDisk};
use countersign_engine::storage::disk::{Disk, DiskFile, DiskLock};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// All snapshots.
#[derive(Clone)]
pub(super) struct Snapshots {
    files: FaultyDisk,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self { files: FaultyDisk::new(1, Faults::default()) }
    }
}

impl Snapshots {
    /// The same for the leader of an epoch.
    pub(super) fn of(&self, rows: &Arc<Mutex<Rows>>, epoch: u64) -> Led {
        Led { files: self.files.clone(), rows: Arc::clone(rows), epoch }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.files.list().unwrap_or_default()
    }

    pub(super) fn contents(&self) -> Vec<Vec<u8>> {
        self.names().iter().filter_map(|name| self.files.contents(name)).collect()
    }
}

/// The snapshots as one leader may use them.
pub(super) struct Led {
    files: FaultyDisk,
    rows: Arc<Mutex<Rows>>,
    epoch: u64,
}

impl Led {
    /// A leader of an earlier epoch may hold what was erased since, so it stores no snapshot.
    fn check(&self) -> io::Result<()> {
        self.rows.lock().check(self.epoch).map_err(|moved| io::Error::new(io::ErrorKind::PermissionDenied, moved))
    }
}

impl Disk for Led {
    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.check()?;
        self.files.open(name)
    }
    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.files.open_read(name)
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.check()?;
        self.files.create(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check()?;
        self.files.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.check()?;
        self.files.remove(name)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.files.sync_dir()
    }
    fn lock(&self) -> io::Result<Box<dyn DiskLock>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the table is taken, not its snapshots"))
    }
}
