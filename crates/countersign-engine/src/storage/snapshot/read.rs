//! Reading a snapshot's records with one bounded buffer, hashing everything on the way.

use sha2::{Digest, Sha256};

use super::{CHUNK_BYTES_MAX, MAGIC, NAME_BYTES_MAX, SEAL_LEN, SNAPSHOT_VERSION, TAG_CHUNK, TAG_END, TAG_SECTION};
use crate::storage::disk::DiskFile;

/// What surrounds the records.
pub struct Head {
    pub size: u64,
    pub origin: String,
    pub digest: [u8; 32],
    pub signature: [u8; 64],
}

/// The receiver of chunks: section and bytes.
pub type Visit<'a> = dyn FnMut(&str, &[u8]) -> Result<(), String> + 'a;

/// Reads all records in order. The hash is compared; the signature on it is for the caller to judge.
pub fn records(file: &dyn DiskFile, visit: &mut Visit<'_>) -> Result<Head, String> {
    let len = file.len().map_err(|error| error.to_string())?;
    let end = len.checked_sub(SEAL_LEN).ok_or_else(cut)?;
    let mut reader = Reader { file, end, offset: 0, window: Vec::new(), at: 0, hasher: Sha256::new() };
    if reader.array::<8>()? != MAGIC {
        return Err("it does not start as a snapshot does".to_owned());
    }
    let version = u32::from_le_bytes(reader.array()?);
    if version != SNAPSHOT_VERSION {
        return Err(format!("its format version {version} is unknown, this build reads {SNAPSHOT_VERSION}"));
    }
    let size = u64::from_le_bytes(reader.array()?);
    let origin_len = usize::from(u16::from_le_bytes(reader.array()?));
    let mut buffer = Vec::new();
    reader.take(origin_len, &mut buffer)?;
    let origin = text(&buffer)?;
    let mut section = String::new();
    loop {
        match reader.array::<1>()? {
            [TAG_END] => break,
            [TAG_SECTION] => {
                let [name_len] = reader.array::<1>()?;
                if usize::from(name_len) > NAME_BYTES_MAX {
                    return Err("a section's name is too long".to_owned());
                }
                reader.take(usize::from(name_len), &mut buffer)?;
                section = text(&buffer)?;
            }
            [TAG_CHUNK] => {
                let chunk_len = u32::from_le_bytes(reader.array()?) as usize;
                if chunk_len > CHUNK_BYTES_MAX {
                    return Err("a chunk is longer than the format allows".to_owned());
                }
                reader.take(chunk_len, &mut buffer)?;
                visit(&section, &buffer)?;
            }
            [tag] => return Err(format!("record kind {tag} is unknown")),
        }
    }
    if reader.position() != end {
        return Err("bytes follow its last record".to_owned());
    }
    let (mut digest, mut signature) = ([0; 32], [0; 64]);
    file.read_exact_at(&mut digest, end).map_err(|error| error.to_string())?;
    file.read_exact_at(&mut signature, end + 32).map_err(|error| error.to_string())?;
    let computed: [u8; 32] = reader.hasher.finalize().into();
    if computed != digest {
        return Err("its bytes are not those that were hashed when it was written".to_owned());
    }
    Ok(Head { size, origin, digest, signature })
}

fn cut() -> String {
    "it ends too early".to_owned()
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a name in it is not text".to_owned())
}

/// Reads ahead in large pieces; never past `end`.
struct Reader<'a> {
    file: &'a dyn DiskFile,
    end: u64,
    /// Offset in the file after the window.
    offset: u64,
    window: Vec<u8>,
    /// Position in the window.
    at: usize,
    hasher: Sha256,
}

impl Reader<'_> {
    fn position(&self) -> u64 {
        self.offset - (self.window.len() - self.at) as u64
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.need(N)?;
        let bytes = self.window.get(self.at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or_else(cut)?;
        self.at += N;
        self.hasher.update(bytes);
        Ok(bytes)
    }

    fn take(&mut self, len: usize, into: &mut Vec<u8>) -> Result<(), String> {
        self.need(len)?;
        let bytes = self.window.get(self.at..self.at + len).ok_or_else(cut)?;
        into.clear();
        into.extend_from_slice(bytes);
        self.hasher.update(bytes);
        self.at += len;
        Ok(())
    }

    /// Makes sure that the window holds `len` more bytes; `len` is at most one chunk.
    fn need(&mut self, len: usize) -> Result<(), String> {
        if self.window.len() - self.at >= len {
            return Ok(());
        }
        self.window.drain(..self.at);
        self.at = 0;
        let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let have = self.window.len();
        let more = left.min(2 * CHUNK_BYTES_MAX);
        if have + more < len {
            return Err(cut());
        }
        self.window.resize(have + more, 0);
        let fresh = self.window.get_mut(have..).unwrap_or_default();
        self.file.read_exact_at(fresh, self.offset).map_err(|error| error.to_string())?;
        self.offset += more as u64;
        Ok(())
    }
}
