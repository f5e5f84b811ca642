//! A disk in memory that forgets, tears and refuses, the same way every time for the same seed.
//!
//! What was written and not synced may be lost at a crash, sector by sector and in any order; a name that was given and not
//! synced may be the old one again; a write may be short; one sync may fail, after which its pages are either dropped or look
//! clean without being on the disk. Any kind of step can be made to fail with an error of the system, once or until it is told
//! otherwise. The model is harsher than most disks and never kinder than POSIX promises.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_engine::storage::disk::{Disk, DiskFile, DiskLock};

mod failing;
mod inode;
mod rng;

use failing::Counts;
pub use failing::{EIO, EMFILE, ENOSPC, Fail, Failed, StepKind};
use inode::Inode;
pub use rng::SplitMix;

/// The unit that a disk writes whole.
pub const SECTOR: usize = 512;

/// What a failed sync does to the pages that it did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedSync {
    /// The new bytes are gone from memory too; reading gives the old ones.
    Dropped,
    /// The new bytes can still be read, look clean, and are not on the disk: the next sync reports success.
    KeptClean,
}

/// Which faults to inject. Steps count every operation that changes something, from 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The power fails during this step.
    pub crash_at: Option<u64>,
    /// This sync of a file (counted from 1) fails once.
    pub fail_sync: Option<(u64, FailedSync)>,
    /// Every n-th write on average takes only some of the bytes; zero for never.
    pub short_writes: u64,
    /// Steps that fail with an error of the system.
    pub fail: Option<Fail>,
}

/// A folder on a faulty disk. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    world: Arc<Mutex<World>>,
}

struct World {
    rng: SplitMix,
    faults: Faults,
    steps: u64,
    syncs: u64,
    counts: Counts,
    is_down: bool,
    /// Which lock holds the folder.
    holder: Option<u64>,
    /// How many locks there were.
    locks: u64,
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// What happened to names since the last sync of the folder, in order.
    name_changes: Vec<NameChange>,
}

#[derive(Clone)]
enum NameChange {
    Set(String, usize),
    Moved { from: String, to: String, inode: usize },
    Removed(String),
}

fn down() -> io::Error {
    io::Error::other("the power is off")
}

impl FaultyDisk {
    /// An empty folder.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        let world = World {
            rng: SplitMix::new(seed),
            faults,
            steps: 0,
            syncs: 0,
            counts: Counts::default(),
            is_down: false,
            holder: None,
            locks: 0,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many changing operations there were: the range for [`Faults::crash_at`].
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.world().steps
    }

    /// Whether the power has failed.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.world().is_down
    }

    /// Sets other faults from here on; steps and syncs count from zero again.
    pub fn set_faults(&self, faults: Faults) {
        let mut world = self.world();
        world.faults = faults;
        world.steps = 0;
        world.syncs = 0;
        world.counts = Counts::default();
    }

    /// The step that [`Faults::fail`] made fail first, if one did.
    #[must_use]
    pub fn failed(&self) -> Option<Failed> {
        self.world().counts.failed.clone()
    }

    /// Cuts the power and gives the disk as it is found afterwards. The old one answers nothing any more.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let mut world = self.world();
        world.is_down = true;
        let mut rng = SplitMix::new(seed ^ world.rng.next());
        let survived = Self::new(rng.next(), Faults::default());
        let kept = rng.below(world.name_changes.len() as u64 + 1) as usize;
        let mut names = world.durable_names.clone();
        for change in world.name_changes.iter().take(kept) {
            change.apply(&mut names);
        }
        let mut after = survived.world();
        for (name, inode) in names {
            if let Some(inode) = world.inodes.get(inode) {
                let at = after.inodes.len();
                after.inodes.push(inode.after_crash(&mut rng));
                after.names.insert(name, at);
            }
        }
        after.durable_names = after.names.clone();
        drop(after);
        survived
    }

    /// The process dies and the machine does not: what is in memory stays, synced or not, and the lock is free.
    #[must_use]
    pub fn restart(&self) -> Self {
        let mut world = self.world();
        world.holder = None;
        drop(world);
        self.clone()
    }

    /// The bytes of a file as a program would read them.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.world();
        let inode = world.names.get(name)?;
        world.inodes.get(*inode).map(|inode| inode.bytes().to_vec())
    }

    /// Puts bytes into a file behind everyone's back, durably: for tampering tests.
    pub fn tamper(&self, name: &str, bytes: Vec<u8>) {
        let mut world = self.world();
        let at = world.inodes.len();
        world.inodes.push(Inode::durable(bytes));
        world.names.insert(name.to_owned(), at);
        world.durable_names.insert(name.to_owned(), at);
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Set(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Moved { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Self::Removed(name) => {
                names.remove(name);
            }
        }
    }
}

impl World {
    /// Counts a changing operation. `Ok(true)` means that the power fails during it: it may do part of its work.
    fn step(&mut self) -> io::Result<bool> {
        if self.is_down {
            return Err(down());
        }
        self.steps += 1;
        self.is_down = self.faults.crash_at == Some(self.steps);
        Ok(self.is_down)
    }

    /// Refuses a step of this kind if it is one that is to fail.
    fn refuse(&mut self, kind: StepKind, name: &str) -> io::Result<()> {
        let fail = self.faults.fail;
        self.counts.count(fail, kind, name)
    }

    fn inode(&mut self, at: usize) -> io::Result<&mut Inode> {
        self.inodes.get_mut(at).ok_or_else(|| io::Error::other("no such inode"))
    }

    fn change_name(&mut self, change: NameChange) -> io::Result<()> {
        let fails = self.step()?;
        if !fails || self.rng.below(2) == 0 {
            change.apply(&mut self.names);
            self.name_changes.push(change);
        }
        if fails { Err(down()) } else { Ok(()) }
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        if self.is_down {
            return Err(down());
        }
        let found = self.names.get(name).copied();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no {name}")))
    }
}

impl Disk for FaultyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.refuse(StepKind::List, "")?;
        if world.is_down { Err(down()) } else { Ok(world.names.keys().cloned().collect()) }
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        world.refuse(StepKind::Open, name)?;
        let inode = world.find(name)?;
        Ok(Arc::new(FaultyFile { disk: self.clone(), inode, name: name.to_owned() }))
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        world.refuse(StepKind::Create, name)?;
        let inode = world.inodes.len();
        world.inodes.push(Inode::default());
        world.change_name(NameChange::Set(name.to_owned(), inode))?;
        Ok(Arc::new(FaultyFile { disk: self.clone(), inode, name: name.to_owned() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world();
        world.refuse(StepKind::Rename, from)?;
        let inode = world.find(from)?;
        world.change_name(NameChange::Moved { from: from.to_owned(), to: to.to_owned(), inode })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.world();
        world.refuse(StepKind::Remove, name)?;
        world.find(name)?;
        world.change_name(NameChange::Removed(name.to_owned()))
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut world = self.world();
        world.refuse(StepKind::SyncDir, "")?;
        let fails = world.step()?;
        if fails && world.rng.below(2) == 0 {
            return Err(down());
        }
        world.durable_names = world.names.clone();
        world.name_changes.clear();
        if fails { Err(down()) } else { Ok(()) }
    }

    fn lock(&self) -> io::Result<Box<dyn DiskLock>> {
        let mut world = self.world();
        if world.is_down {
            return Err(down());
        }
        if world.holder.is_some() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "the folder is held by another process"));
        }
        world.locks += 1;
        let number = world.locks;
        world.holder = Some(number);
        Ok(Box::new(FaultyLock { disk: self.clone(), number }))
    }
}

struct FaultyLock {
    disk: FaultyDisk,
    number: u64,
}

impl DiskLock for FaultyLock {
    fn is_held(&self) -> bool {
        self.disk.world().holder == Some(self.number)
    }
}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        self.disk.world().holder.take_if(|holder| *holder == self.number);
    }
}

struct FaultyFile {
    disk: FaultyDisk,
    inode: usize,
    /// The name that it was opened by.
    name: String,
}

impl FaultyFile {
    fn resize(&self, len: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        let fails = world.step()?;
        world.inode(self.inode)?.set_len(len as usize);
        if fails { Err(down()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.world();
        let fails = world.step()?;
        world.syncs += 1;
        let failure = world.faults.fail_sync.filter(|(at, _)| *at == world.syncs).map(|(_, how)| how);
        let mut rng = world.rng.fork();
        let inode = world.inode(self.inode)?;
        if fails {
            // Some sectors made it, some did not; `crash` decides. The caller hears nothing but the crash.
            return Err(down());
        }
        if let Some(how) = failure {
            inode.fail_sync(&mut rng, how);
            return Err(io::Error::other("input/output error"));
        }
        if let Err(error) = world.refuse(StepKind::Sync, &self.name) {
            let how = if rng.below(2) == 0 { FailedSync::Dropped } else { FailedSync::KeptClean };
            world.inode(self.inode)?.fail_sync(&mut rng, how);
            return Err(error);
        }
        world.inode(self.inode)?.sync();
        Ok(())
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.disk.world();
        if world.is_down {
            return Err(down());
        }
        Ok(world.inode(self.inode)?.read(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut world = self.disk.world();
        let fails = world.step()?;
        if let Err(error) = world.refuse(StepKind::Write, &self.name) {
            // Some of the bytes were taken before.
            let len = world.rng.below(bytes.len() as u64 + 1) as usize;
            world.inode(self.inode)?.write(bytes.get(..len).unwrap_or_default(), offset);
            return Err(error);
        }
        let every = world.faults.short_writes;
        let is_short = fails || (every > 0 && world.rng.below(every) == 0);
        let len = if is_short { 1 + world.rng.below(bytes.len() as u64) as usize } else { bytes.len() };
        let taken = bytes.get(..len.min(bytes.len())).unwrap_or_default();
        world.inode(self.inode)?.write(taken, offset);
        if fails { Err(down()) } else { Ok(taken.len()) }
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.world().refuse(StepKind::Allocate, &self.name)?;
        let current = self.len()?;
        if len > current { self.resize(len) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.world().refuse(StepKind::Truncate, &self.name)?;
        self.resize(len)
    }

    fn len(&self) -> io::Result<u64> {
        let mut world = self.disk.world();
        if world.is_down {
            return Err(down());
        }
        Ok(world.inode(self.inode)?.bytes().len() as u64)
    }
}
