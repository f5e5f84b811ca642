//! Writing a run, under a name that is not read until it is whole and durable.

use super::{BLOCK_BYTES, Run, SUFFIX, block_digest, encode, tail_digest};
use crate::idempotency::Seen;
use crate::idempotency::filter::Filter;
use crate::storage::disk::{Disk, DiskFile};
use crate::storage::{IoContext as _, StorageError};
use countersign_core::action::KeyDigest;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 * BLOCK_BYTES;

pub(in crate::idempotency) struct RunWriter<'a> {
    disk: &'a dyn Disk,
    file: Arc<dyn DiskFile>,
    temporary: String,
    buffer: Vec<u8>,
    offset: u64,
    first: u64,
    end: u64,
    keys: u64,
    newest_ms: u64,
    filter: Filter,
    fronts: Vec<KeyDigest>,
    digests: Vec<[u8; 32]>,
}

impl<'a> RunWriter<'a> {
    /// Starts a run of at most so many keys, of entries before `end`. No two that are written at a time have one label.
    pub(in crate::idempotency) fn begin(
        disk: &'a dyn Disk,
        label: &str,
        end: u64,
        keys_max: u64,
    ) -> Result<Self, StorageError> {
        let temporary = format!("{label}{SUFFIX}.tmp");
        let file = disk.create(&temporary).on("create", &temporary)?;
        let blocks = usize::try_from(keys_max).unwrap_or(0) / super::BLOCK_RECORDS + 1;
        Ok(Self {
            disk,
            file,
            temporary,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            offset: 0,
            first: end,
            end,
            keys: 0,
            newest_ms: 0,
            filter: Filter::for_keys(keys_max),
            fronts: Vec::with_capacity(blocks),
            digests: Vec::with_capacity(blocks),
        })
    }

    /// Adds the next key; they come in ascending order.
    pub(in crate::idempotency) fn push(&mut self, key: &KeyDigest, seen: &Seen) -> Result<(), StorageError> {
        if self.keys.is_multiple_of(super::BLOCK_RECORDS as u64) {
            self.fronts.push(*key);
        }
        self.filter.insert(key);
        self.keys += 1;
        (self.first, self.newest_ms) = (self.first.min(seen.entry), self.newest_ms.max(seen.at_ms));
        self.buffer.extend_from_slice(&encode(key, seen));
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what was gathered: whole blocks, and the last one at the end.
    fn flush(&mut self) -> Result<(), StorageError> {
        self.digests.extend(self.buffer.chunks(BLOCK_BYTES).map(block_digest));
        self.put()
    }

    fn put(&mut self) -> Result<(), StorageError> {
        self.file.write_all_at(&self.buffer, self.offset).on("write", &self.temporary)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the run durable and gives it its name; nothing where it has no key.
    pub(in crate::idempotency) fn finish(mut self) -> Result<Option<Run>, StorageError> {
        if self.keys == 0 {
            self.disk.remove(&self.temporary).on("remove", &self.temporary)?;
            return Ok(None);
        }
        self.flush()?;
        let mut run = Run {
            name: String::new(),
            file: Arc::clone(&self.file),
            first: self.first,
            end: self.end,
            keys: self.keys,
            newest_ms: self.newest_ms,
            filter: std::mem::replace(&mut self.filter, Filter::for_keys(0)),
            fronts: std::mem::take(&mut self.fronts).into(),
            digests: std::mem::take(&mut self.digests).into(),
            digest: [0; 32],
            tail_bytes: 0,
            is_damaged: AtomicBool::new(false),
        };
        self.buffer = run.tail();
        (run.digest, run.tail_bytes) = (tail_digest(&self.buffer), self.buffer.len() as u64);
        self.put()?;
        self.file.sync_all().on("sync", &self.temporary)?;
        let digest: String = run.digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        run.name = format!("{:020}-{:020}-{digest}{SUFFIX}", run.first, run.end);
        self.disk.rename(&self.temporary, &run.name).on("name", &run.name)?;
        self.disk.sync_dir().on("sync", "the data folder")?;
        Ok(Some(run))
    }
}

/// Writes keys that are in memory, in any order. Of several uses of one key the latest counts.
pub(in crate::idempotency) fn write_sorted(
    disk: &dyn Disk,
    label: &str,
    end: u64,
    mut keys: Vec<(KeyDigest, Seen)>,
) -> Result<Option<Run>, StorageError> {
    keys.sort_unstable_by_key(|(key, seen)| (*key, Reverse(seen.entry)));
    keys.dedup_by_key(|(key, _)| *key);
    let mut writer = RunWriter::begin(disk, label, end, keys.len() as u64)?;
    for (key, seen) in &keys {
        writer.push(key, seen)?;
    }
    writer.finish()
}
