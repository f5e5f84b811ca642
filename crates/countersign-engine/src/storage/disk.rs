//! The few disk operations that the store needs, as a trait, so that the same store runs on a faulty disk in tests.
//!
//! A disk is one flat folder. Nothing here is durable before the sync that makes it so: bytes of a file before `sync_data`
//! or `sync_all` of that file, a new or changed name before `sync_dir`. Writes may be short; the `_all` and `_exact`
//! forms repeat them. Which order of these calls makes something durable is decided by the callers, never here.

use std::io;
use std::sync::Arc;

mod real;

pub use real::RealDisk;

/// One folder of files.
pub trait Disk: Send + Sync {
    /// The names of all plain files in the folder, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading only.
    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates an empty file, readable by its owner only, or empties the one that is there.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name; a file that had this name before is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names durable: what was created, renamed and removed before this call stays so.
    fn sync_dir(&self) -> io::Result<()>;

    /// Takes the folder for this process until the guard is dropped. A folder that someone else holds is an error of kind
    /// [`io::ErrorKind::WouldBlock`] whose text names the holder.
    fn lock(&self) -> io::Result<Box<dyn DiskLock>>;
}

/// Holds a folder for as long as it lives.
pub trait DiskLock: Send + Sync {
    /// Whether the folder is still held by this and by nobody else: someone may have removed the lock and taken the folder.
    fn is_held(&self) -> bool;
}

/// One open file.
pub trait DiskFile: Send + Sync {
    /// Reads some bytes at an offset; zero means that the file ends there.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes at an offset and says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Reserves room up to `len` and makes the file that long; the new bytes read as zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Makes the bytes durable, and the length where it is needed to read them.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes bytes and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;

    /// Makes the file `len` bytes long.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// The length of the file.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Writes all bytes at an offset, in as many writes as that takes.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => {
                    return Err(io::Error::new(io::ErrorKind::WriteZero, "the disk took no bytes"));
                }
                Ok(written) => {
                    bytes = bytes.get(written..).unwrap_or_default();
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends, and says how many bytes that were.
    fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Fills the buffer, or fails if the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_up_to(buffer, offset)? == buffer.len() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before the bytes that should be there"))
    }
}

/// The whole contents of a small file, or `None` if there is no file of this name. More than `len_max` bytes is an error,
/// so that a file that someone blew up cannot exhaust memory.
pub fn read_small(disk: &dyn Disk, name: &str, len_max: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open_read(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = usize::try_from(file.len()?).ok().filter(|len| *len <= len_max);
    let Some(len) = len else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} is longer than {len_max} bytes")));
    };
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// Replaces a small file so that after a crash either the old or the new contents are there, whole.
pub fn replace_small(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    let file = disk.create(&temporary)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    disk.rename(&temporary, name)?;
    disk.sync_dir()
}
