//! The real disk: a folder of the file system.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use super::{Disk, DiskFile, DiskLock};

const LOCK_FILE: &str = "lock";

/// A folder of the file system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    folder: PathBuf,
    /// Kept open: making names durable must not depend on a descriptor being free just then.
    handle: Arc<File>,
}

impl RealDisk {
    /// Uses a folder that exists.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        if !std::fs::metadata(&folder)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is not a folder", folder.display())));
        }
        let handle = Arc::new(File::open(&folder)?);
        Ok(Self { folder, handle })
    }

    /// Makes the folder, readable by its owner only, if it is not there, and uses it.
    pub fn create(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // The name of the folder itself must survive a crash as well as what is in it.
        if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        Self::open(folder)
    }

    /// Where the folder is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        // Names come from this crate, but a listing is data: one that leaves the folder is refused.
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a plain file name")));
        }
        Ok(self.folder.join(name))
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(name)?)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile { file: File::open(self.path(name)?)? }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Arc::new(RealFile { file: options.open(self.path(name)?)? }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name)?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn lock(&self) -> io::Result<Box<dyn DiskLock>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(self.path(LOCK_FILE)?)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                // The holder wrote its process id; it is only read to be shown, so a half-written one does no harm.
                let mut holder = String::new();
                let _ = file.take(32).read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "an unknown process" } else { holder.trim() };
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!("{} is held by {holder}", self.folder.display()),
                ));
            }
            Err(error) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "process {}", std::process::id())?;
        Ok(Box::new(RealLock { file, path: self.path(LOCK_FILE)? }))
    }
}

/// The lock ends when the file is closed, also when the process is killed.
struct RealLock {
    file: File,
    path: PathBuf,
}

impl DiskLock for RealLock {
    fn is_held(&self) -> bool {
        let named = std::fs::metadata(&self.path).map(|named| (named.dev(), named.ino()));
        let held = self.file.metadata().map(|held| (held.dev(), held.ino()));
        matches!((named, held), (Ok(named), Ok(held)) if named == held)
    }
}

struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // Not every file system can reserve room; a longer file with holes works the same, only slower.
            Err(Errno::OPNOTSUPP) => self.file.set_len(len.max(self.len()?)),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
