//! Snapshots: what the log folds to at one size, so that reopening reads only what came after.
//!
//! A snapshot is never needed: the log alone gives the same state. So one that cannot be verified is ignored with a reason, and
//! an older one, or the whole log, is used. It carries the tree, so that the walk can go on from its size, and opaque sections
//! that only the engine understands. All of it is under one SHA-256, signed by the log's key: a snapshot that someone
//! edited would otherwise be a way to change facts without an entry (I1, I7).

use std::sync::Arc;

use countersign_ledger::tree::TileTree;
use countersign_ledger::{Hash, LogKey};
use ed25519_dalek::Signature;

use super::disk::Disk;
use super::error::IoContext;
use super::{StorageError, index_of_name};

mod read;
mod write;

pub use write::SnapshotWriter;

/// Version of the snapshot format; any other is ignored.
pub const SNAPSHOT_VERSION: u32 = 1;
/// How many snapshots are kept: one may be found bad.
pub const SNAPSHOTS_KEPT: usize = 2;

const MAGIC: [u8; 8] = *b"CSGNSNP\n";
const SUFFIX: &str = ".snap";
const CHUNK_BYTES_MAX: usize = 1 << 20;
const NAME_BYTES_MAX: usize = 64;
const TAG_END: u8 = 0;
const TAG_SECTION: u8 = 1;
const TAG_CHUNK: u8 = 2;
const SECTION_LEVEL8: &str = "tree/level8";
const SECTION_PARTIAL: &str = "tree/partial";
/// Bytes after the last record: the hash and the signature on it.
const SEAL_LEN: u64 = 32 + 64;
const SIGNED_PREFIX: &[u8] = b"countersign snapshot 1\n";

/// The file name of the snapshot at this size.
#[must_use]
pub fn snapshot_name(size: u64) -> String {
    format!("{size:020}{SUFFIX}")
}

/// A snapshot whose hash and signature were found right.
pub struct Snapshot {
    disk: Arc<dyn Disk>,
    name: String,
    size: u64,
    tree: TileTree,
    /// What was signed: whatever is read later must be that.
    digest: [u8; 32],
}

/// A snapshot that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The file.
    pub name: String,
    /// Why it cannot be used.
    pub reason: String,
}

impl Snapshot {
    /// Size of the log that it holds.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The tree at that size.
    #[must_use]
    pub fn tree(&self) -> &TileTree {
        &self.tree
    }

    /// Name of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands every chunk of every section on, in the order in which they were written: `(section, bytes)`. A section may come in
    /// several chunks, cut where the writer's calls cut them or at one MiB.
    ///
    /// # Errors
    /// If the file changed since it was verified, or `visit` refuses a chunk. Then nothing that was handed on may be used.
    pub fn read(&self, mut visit: impl FnMut(&str, &[u8]) -> Result<(), String>) -> Result<(), StorageError> {
        let file = self.disk.open_read(&self.name).on("open", &self.name)?;
        let refused = |reason: String| StorageError::Snapshot { name: self.name.clone(), reason };
        let head = read::records(&*file, &mut |section, chunk| match section {
            SECTION_LEVEL8 | SECTION_PARTIAL => Ok(()),
            _ => visit(section, chunk),
        })
        .map_err(refused)?;
        match head.digest == self.digest {
            true => Ok(()),
            false => Err(refused("it was replaced after it had been verified".to_owned())),
        }
    }
}

/// The newest snapshot that verifies and is not of more than `size_max` entries, and those that were passed over.
///
/// # Errors
/// If the folder cannot be listed. A bad snapshot is not an error.
pub fn newest(
    disk: &Arc<dyn Disk>,
    key: &LogKey,
    size_max: Option<u64>,
) -> Result<(Option<Snapshot>, Vec<Ignored>), StorageError> {
    let mut ignored = Vec::new();
    for (size, name) in listed(&**disk)?.into_iter().rev() {
        if size_max.is_some_and(|most| size > most) {
            ignored.push(Ignored { name, reason: "it is of a longer log than asked for".to_owned() });
            continue;
        }
        match verify(&**disk, &name, size, key) {
            Ok((tree, digest)) => {
                return Ok((Some(Snapshot { disk: Arc::clone(disk), name, size, tree, digest }), ignored));
            }
            Err(reason) => ignored.push(Ignored { name, reason }),
        }
    }
    Ok((None, ignored))
}

/// Removes all snapshots of fewer than `size` entries: after an erasure, once a new one was taken, so that no copy is left.
/// Says how many were removed.
///
/// # Errors
/// If a file cannot be removed.
pub fn remove_older_than(disk: &dyn Disk, size: u64) -> Result<usize, StorageError> {
    let names = disk.list().on("list", "the data folder")?;
    // What a failed attempt left holds the same.
    let of = |name: &str| index_of_name(name, SUFFIX).or_else(|| index_of_name(name.strip_suffix(".tmp")?, SUFFIX));
    let old: Vec<String> = names.into_iter().filter(|name| of(name).is_some_and(|of| of < size)).collect();
    remove_all(disk, &old)
}

fn remove_all(disk: &dyn Disk, names: &[String]) -> Result<usize, StorageError> {
    for name in names {
        disk.remove(name).on("remove", name)?;
    }
    if !names.is_empty() {
        disk.sync_dir().on("sync", "the data folder")?;
    }
    Ok(names.len())
}

/// All snapshots by size, smallest first.
fn listed(disk: &dyn Disk) -> Result<Vec<(u64, String)>, StorageError> {
    let names = disk.list().on("list", "the data folder")?;
    let mut found: Vec<_> = names.into_iter().filter_map(|name| Some((index_of_name(&name, SUFFIX)?, name))).collect();
    found.sort();
    Ok(found)
}

/// Checks hash, signature, origin and size, and takes the tree out.
fn verify(disk: &dyn Disk, name: &str, size: u64, key: &LogKey) -> Result<(TileTree, [u8; 32]), String> {
    let file = disk.open_read(name).map_err(|error| error.to_string())?;
    let (mut level8, mut partial) = (Vec::new(), Vec::new());
    let head = read::records(&*file, &mut |section, chunk| {
        let into = match section {
            SECTION_LEVEL8 => &mut level8,
            SECTION_PARTIAL => &mut partial,
            _ => return Ok(()),
        };
        let (hashes, rest) = chunk.as_chunks::<32>();
        into.extend(hashes.iter().map(|hash| Hash(*hash)));
        if rest.is_empty() { Ok(()) } else { Err("a hash of its tree is cut".to_owned()) }
    })?;
    let mut signed = SIGNED_PREFIX.to_vec();
    signed.extend_from_slice(&head.digest);
    let signature = Signature::from_bytes(&head.signature);
    key.verifying_key()
        .verify_strict(&signed, &signature)
        .map_err(|_| "it is not signed by the log's key".to_owned())?;
    if head.origin != key.origin() {
        return Err(format!("it is of the log {}", head.origin));
    }
    if head.size != size {
        return Err(format!("it is of {} entries, its name says {size}", head.size));
    }
    let tree = TileTree::from_parts(size, level8, partial).map_err(|error| error.to_string())?;
    Ok((tree, head.digest))
}
