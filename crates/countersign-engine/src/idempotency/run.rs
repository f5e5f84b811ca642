//! A run: keys in a file, in the order of their digests, and in memory what it takes to find one with a single verified read.
//!
//! The file has the records, 102 to a block, and behind them the tail: range, counts, filter, and of every block its first key and its
//! SHA-256. The SHA-256 of the tail stands for the whole; a signed snapshot names the run by it. So every byte that is believed was
//! signed, or was made by this process. docs/formats/keys.md has the bytes.

mod read;
mod write;

pub(super) use read::RunReader;
pub(super) use write::{RunWriter, write_sorted};

use super::Seen;
use super::filter::{Filter, LINE_BYTES};
use crate::storage::disk::{Disk, DiskFile};
use crate::storage::{IoContext as _, StorageError};
use countersign_core::action::KeyDigest;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the names of runs end in.
pub(super) const SUFFIX: &str = ".keys";
const MAGIC: [u8; 8] = *b"CSGNKEY\n";
const TAIL_PREFIX: &[u8] = b"countersign keys 1\n";
/// Bytes of a record: key, entry, time, front of the action's id.
const RECORD_BYTES: usize = 16 + 8 + 8 + 8;
const BLOCK_RECORDS: usize = 102;
const BLOCK_BYTES: usize = BLOCK_RECORDS * RECORD_BYTES;
/// Bytes of the tail in front of the filter.
const HEAD_BYTES: usize = 8 + 5 * 8;

type BlockDigest = [u8; 32];

/// A run as a signed snapshot names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRun {
    /// The file.
    pub name: String,
    /// SHA-256 of its tail.
    pub digest: [u8; 32],
    /// Bytes of its tail, so that no one can have more than that read into memory.
    pub tail_bytes: u64,
}

impl NamedRun {
    /// The first entry that it has a key of, and the one after the last: what it is made of again.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        range_of(&self.name)
    }
}

/// The range in the name of a run.
pub(super) fn range_of(name: &str) -> Option<(u64, u64)> {
    let mut parts = name.strip_suffix(SUFFIX)?.split('-');
    let (first, end) = (parts.next()?, parts.next()?);
    let digits = |part: &str| part.parse().ok().filter(|_| part.len() == 20);
    Some((digits(first)?, digits(end)?))
}

/// An open run.
pub struct Run {
    name: String,
    file: Arc<dyn DiskFile>,
    /// The entry of its oldest key.
    first: u64,
    /// All keys of entries from its oldest up to here were looked at when it was made.
    end: u64,
    keys: u64,
    /// The time of its latest key.
    newest_ms: u64,
    filter: Filter,
    /// The first key of each block.
    fronts: Box<[KeyDigest]>,
    digests: Box<[BlockDigest]>,
    digest: [u8; 32],
    tail_bytes: u64,
    is_damaged: AtomicBool,
}

impl Run {
    /// Opens a run that a snapshot names. Its blocks are verified when they are read.
    ///
    /// # Errors
    /// If the file is not there or is not the one that was named.
    pub(super) fn open(disk: &dyn Disk, named: &NamedRun) -> Result<Self, StorageError> {
        let name = named.name.as_str();
        let file = disk.open_read(name).on("open", name)?;
        let len = file.len().on("read", name)?;
        let altered = |reason: &str| StorageError::KeyRun { name: name.to_owned(), reason: reason.to_owned() };
        let start = len.checked_sub(named.tail_bytes).ok_or_else(|| altered("it is too short"))?;
        let mut tail = vec![0; usize::try_from(named.tail_bytes).map_err(|_| altered("it is too long"))?];
        file.read_exact_at(&mut tail, start).on("read", name)?;
        if tail_digest(&tail) != named.digest {
            return Err(altered("it is not the one that was signed"));
        }
        Self::parse(name, file, &tail, start).ok_or_else(|| altered("this version cannot read it"))
    }

    fn parse(name: &str, file: Arc<dyn DiskFile>, tail: &[u8], records_bytes: u64) -> Option<Self> {
        let (head, rest) = tail.split_at_checked(HEAD_BYTES)?;
        let numbers = head.strip_prefix(&MAGIC)?.as_chunks::<8>().0;
        let number = |at: usize| numbers.get(at).map(|number| u64::from_le_bytes(*number));
        let (first, end, keys, newest_ms) = (number(0)?, number(1)?, number(2)?, number(3)?);
        let filter_bytes = usize::try_from(number(4)?).ok()?.checked_mul(LINE_BYTES)?;
        let (filter, blocks) = rest.split_at_checked(filter_bytes)?;
        let (blocks, []) = blocks.as_chunks::<48>() else { return None };
        if records_bytes != keys.checked_mul(RECORD_BYTES as u64)?
            || blocks.len() as u64 != keys.div_ceil(BLOCK_RECORDS as u64)
        {
            return None;
        }
        Some(Self {
            name: name.to_owned(),
            file,
            first,
            end,
            keys,
            newest_ms,
            filter: Filter::from_bytes(filter)?,
            fronts: blocks.iter().filter_map(|block| block.first_chunk().copied()).collect(),
            digests: blocks.iter().filter_map(|block| block.last_chunk().copied()).collect(),
            digest: tail_digest(tail),
            tail_bytes: tail.len() as u64,
            is_damaged: AtomicBool::new(false),
        })
    }

    /// The bytes behind the records.
    fn tail(&self) -> Vec<u8> {
        let mut tail = MAGIC.to_vec();
        for number in [self.first, self.end, self.keys, self.newest_ms, self.filter.lines() as u64] {
            tail.extend_from_slice(&number.to_le_bytes());
        }
        self.filter.write(&mut tail);
        for (front, digest) in self.fronts.iter().zip(&self.digests) {
            tail.extend_from_slice(front);
            tail.extend_from_slice(digest);
        }
        tail
    }

    /// Whether it may have a key, so that a block must be read to know.
    pub(super) fn may_hold(&self, key: &KeyDigest) -> bool {
        self.filter.may_hold(key)
    }

    /// The latest use of a key, if it is here. Reads at most one block.
    ///
    /// # Errors
    /// If the block cannot be read, or is not as it was written. The run is damaged then.
    pub(super) fn find(&self, key: &KeyDigest) -> Result<Option<Seen>, StorageError> {
        if !self.may_hold(key) {
            return Ok(None);
        }
        let Some(block) = self.fronts.partition_point(|front| front <= key).checked_sub(1) else { return Ok(None) };
        let bytes = self.block(block)?;
        let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
        let found = records.binary_search_by(|record| record.first_chunk::<16>().cmp(&Some(key)));
        Ok(found.ok().and_then(|at| records.get(at)).map(|record| decode(record).1))
    }

    /// The bytes of a block, verified.
    fn block(&self, block: usize) -> Result<Vec<u8>, StorageError> {
        let from = (block as u64).saturating_mul(BLOCK_BYTES as u64);
        let all = self.keys.saturating_mul(RECORD_BYTES as u64);
        let len = all.saturating_sub(from).min(BLOCK_BYTES as u64);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = self.file.read_exact_at(&mut bytes, from).on("read", &self.name);
        let verified = read.and_then(|()| {
            let is_right = self.digests.get(block).is_some_and(|digest| *digest == block_digest(&bytes));
            let reason = || format!("block {block} is not as it was written");
            if is_right { Ok(()) } else { Err(StorageError::KeyRun { name: self.name.clone(), reason: reason() }) }
        });
        if verified.is_err() {
            self.is_damaged.store(true, Ordering::Release);
        }
        verified.map(|()| bytes)
    }

    /// Whether something of it could not be read.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// How a snapshot names it.
    pub(super) fn named(&self) -> NamedRun {
        NamedRun { name: self.name.clone(), digest: self.digest, tail_bytes: self.tail_bytes }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The entry of its oldest key, and the one after the last that was looked at.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.first, self.end)
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    pub(super) fn newest_ms(&self) -> u64 {
        self.newest_ms
    }
}

fn tail_digest(tail: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(TAIL_PREFIX).chain_update(tail).finalize().into()
}

fn block_digest(block: &[u8]) -> BlockDigest {
    Sha256::digest(block).into()
}

fn encode(key: &KeyDigest, seen: &Seen) -> [u8; RECORD_BYTES] {
    let parts: [&[u8]; 4] = [key, &seen.entry.to_le_bytes(), &seen.at_ms.to_le_bytes(), &seen.action];
    let mut record = [0; RECORD_BYTES];
    for (into, byte) in record.iter_mut().zip(parts.into_iter().flatten()) {
        *into = *byte;
    }
    record
}

fn decode(record: &[u8; RECORD_BYTES]) -> (KeyDigest, Seen) {
    let key = record.first_chunk().copied().unwrap_or_default();
    let (_, rest) = record.split_at(16);
    let (numbers, _) = rest.as_chunks::<8>();
    let part = |at: usize| numbers.get(at).copied().unwrap_or_default();
    let (entry, at_ms) = (u64::from_le_bytes(part(0)), u64::from_le_bytes(part(1)));
    (key, Seen { entry, at_ms, action: part(2) })
}
