//! The floor: the least that any durable ledger with state in memory has to do on this machine.
//!
//! A plain loop appends pre-encoded records to a preallocated file, syncs once per batch and rewrites one key of a hash map
//! per record. It checks nothing, hashes no content and signs nothing; whatever the gate takes beyond this is the price of
//! the gate. It must stay this plain: an optimisation here would be an optimisation of the yardstick.
//!
//! Preallocated means that the blocks are reserved and not written before, as for the gate's own segments. On some file
//! systems the first write to a reserved block costs more than the second, so the two must not differ in this.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use rustix::fs::{FallocateFlags, fallocate};

/// Records per sync, the batch that the gate is measured with too.
pub const BATCH: usize = 256;

/// How far ahead of the writes the file is preallocated; a step costs one call in a few hundred batches.
const PREALLOCATED_BYTES: u64 = 64 << 20;

/// Distinct records to choose from, so that no layer below can fold equal writes together.
const RECORDS: usize = 1024;

/// How often the small append is timed: enough for a steady median, and under a second on most disks.
const FSYNC_SAMPLES: usize = 500;

/// The small appends stop here even on a slow disk.
const FSYNC_SECONDS_MAX: f64 = 3.0;

/// What the loop managed.
#[derive(Debug, Clone, PartialEq)]
pub struct FloorResult {
    /// Durable records a second.
    pub per_s: f64,
    /// Records written and synced.
    pub records: u64,
    /// Batches, which is also the number of syncs.
    pub batches: u64,
    /// Bytes of one record.
    pub record_len: usize,
    /// Keys in the map.
    pub facts: usize,
    /// How long the loop ran.
    pub elapsed_s: f64,
}

/// Runs the loop for about so many seconds in a folder that is on the disk to be measured; the file is removed afterwards.
pub fn floor(dir: &Path, record_len: usize, facts: usize, seconds: f64) -> io::Result<FloorResult> {
    let mut file = Preallocated::create(dir)?;
    let mut random = Lcg::new(1);
    let records: Vec<Vec<u8>> = (0..RECORDS).map(|_| random.bytes(record_len)).collect();
    let keys = facts.max(1) as u64;
    let mut versions: FxHashMap<u64, u64> = (0..keys).map(|key| (key, 0)).collect();
    let mut buffer = Vec::with_capacity(BATCH * record_len);

    let (mut batches, limit) = (0_u64, Duration::from_secs_f64(seconds));
    let started = Instant::now();
    while started.elapsed() < limit {
        buffer.clear();
        for record in records.iter().cycle().skip(random.below(RECORDS as u64) as usize).take(BATCH) {
            buffer.extend_from_slice(record);
            *versions.entry(random.below(keys)).or_default() += 1;
        }
        file.append(&buffer)?;
        batches += 1;
    }
    let elapsed_s = started.elapsed().as_secs_f64();

    // The map is read once more so that the compiler cannot drop the updates, and it has to agree with the file.
    let records = batches * BATCH as u64;
    if versions.values().sum::<u64>() != records {
        return Err(io::Error::other("the floor lost count of its own records"));
    }
    Ok(FloorResult { per_s: records as f64 / elapsed_s, records, batches, record_len, facts, elapsed_s })
}

/// The median time of appending one record to a preallocated file and syncing it, in microseconds.
pub fn fsync_p50_us(dir: &Path, record_len: usize) -> io::Result<f64> {
    let mut file = Preallocated::create(dir)?;
    let record = Lcg::new(2).bytes(record_len);
    let started = Instant::now();
    let mut samples_us = Vec::with_capacity(FSYNC_SAMPLES);
    while samples_us.len() < FSYNC_SAMPLES && started.elapsed().as_secs_f64() < FSYNC_SECONDS_MAX {
        let before = Instant::now();
        file.append(&record)?;
        samples_us.push(before.elapsed().as_secs_f64() * 1e6);
    }
    samples_us.sort_by(f64::total_cmp);
    let median = samples_us.get(samples_us.len() / 2).copied();
    median.ok_or_else(|| io::Error::other("no append ended within the time for the sync measurement"))
}

/// A file whose blocks are allocated ahead of the writes; removed when dropped.
struct Preallocated {
    file: File,
    path: PathBuf,
    written: u64,
    allocated: u64,
}

impl Preallocated {
    fn create(dir: &Path) -> io::Result<Self> {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("floor-{}-{number}.tmp", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let mut created = Self { file, path, written: 0, allocated: 0 };
        created.allocate()?;
        // The first sync also has to write the new length; that belongs to the set-up and not to what is measured.
        created.file.sync_all()?;
        Ok(created)
    }

    fn allocate(&mut self) -> io::Result<()> {
        fallocate(&self.file, FallocateFlags::empty(), self.allocated, PREALLOCATED_BYTES)?;
        self.allocated += PREALLOCATED_BYTES;
        Ok(())
    }

    /// Writes bytes at the end and syncs them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.written + bytes.len() as u64;
        while end > self.allocated {
            self.allocate()?;
        }
        self.file.write_all_at(bytes, self.written)?;
        self.written = end;
        self.file.sync_data()
    }
}

impl Drop for Preallocated {
    fn drop(&mut self) {
        // There is nobody left to tell: a file that cannot be removed is visible by its name.
        let _removed = std::fs::remove_file(&self.path);
    }
}

/// A fixed sequence that looks random, the same in every run and on every machine.
#[derive(Debug, Clone)]
pub(super) struct Lcg(u64);

impl Lcg {
    /// A sequence of its own for each seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number; only the upper bits of such a generator are any good.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32
    }

    /// A number under a limit, which must not be 0 and must fit 32 bits.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        (self.next() * limit) >> 32
    }

    /// So many bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() & 0xff) as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("countersign-floor-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn the_loop_counts_whole_batches_and_leaves_nothing_behind() {
        let dir = scratch("loop");
        let result = floor(&dir, 400, 1000, 0.05).unwrap();
        let left = std::fs::read_dir(&dir).unwrap().count();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(result.records, result.batches * BATCH as u64);
        assert!(result.batches > 0 && result.per_s > 0.0);
        assert_eq!(left, 0);
    }

    #[test]
    fn one_append_and_its_sync_take_time() {
        let dir = scratch("sync");
        let p50_us = fsync_p50_us(&dir, 400).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(p50_us > 0.0, "{p50_us}");
    }

    #[test]
    fn a_file_grows_past_its_first_allocation() {
        let dir = scratch("grow");
        let mut file = Preallocated::create(&dir).unwrap();
        let chunk = vec![7; (PREALLOCATED_BYTES / 2 + 1) as usize];
        file.append(&chunk).unwrap();
        file.append(&chunk).unwrap();
        assert_eq!(file.allocated, 2 * PREALLOCATED_BYTES);
        drop(file);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn keys_stay_under_their_limit_and_reach_most_of_it() {
        let mut random = Lcg::new(3);
        let seen: std::collections::HashSet<u64> = (0..1000).map(|_| random.below(100)).collect();
        assert!(seen.iter().all(|key| *key < 100));
        assert!(seen.len() > 90, "{}", seen.len());
    }
}
