//! Several runs become one, without the keys that are forgotten. It reads and writes files in order, and needs little memory.

use super::run::{RunReader, RunWriter};
use super::{Run, Seen};
use crate::storage::StorageError;
use crate::storage::disk::Disk;
use countersign_core::action::KeyDigest;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

/// So many neighbours of about one size become one.
const FAN_IN: usize = 4;
/// Most runs, whatever their sizes: each is one more filter to ask.
const RUNS_MAX: usize = 16;

/// The next record of one of the runs. Of one key, the latest use comes first.
type Next = Reverse<(KeyDigest, Reverse<u64>, usize, [u64; 2])>;

fn next(readers: &mut [RunReader], at: usize, heap: &mut BinaryHeap<Next>) -> Result<(), StorageError> {
    let record = readers.get_mut(at).map_or(Ok(None), RunReader::next)?;
    if let Some((key, seen)) = record {
        heap.push(Reverse((key, Reverse(seen.entry), at, [seen.at_ms, u64::from_le_bytes(seen.action)])));
    }
    Ok(())
}

/// Writes one run with the keys of several that are not forgotten at this time; nothing if all are.
///
/// # Errors
/// If one of them cannot be read or the new one cannot be written.
pub(super) fn merge(disk: &dyn Disk, label: &str, runs: &[Arc<Run>], now_ms: u64) -> Result<Option<Run>, StorageError> {
    let end = runs.iter().map(|run| run.range().1).max().unwrap_or(0);
    let mut writer = RunWriter::begin(disk, label, end, runs.iter().map(|run| run.keys()).sum())?;
    let mut readers: Vec<RunReader> = runs.iter().cloned().map(RunReader::new).collect();
    let mut heap = BinaryHeap::with_capacity(readers.len());
    for at in 0..readers.len() {
        next(&mut readers, at, &mut heap)?;
    }
    let mut last = None;
    while let Some(Reverse((key, Reverse(entry), at, [at_ms, action]))) = heap.pop() {
        next(&mut readers, at, &mut heap)?;
        let seen = Seen { entry, at_ms, action: action.to_le_bytes() };
        if last.replace(key) != Some(key) && !seen.is_forgotten(now_ms) {
            writer.push(&key, &seen)?;
        }
    }
    writer.finish()
}

/// Which neighbours are to become one, given how many keys each has, oldest first.
pub(super) fn due(keys: &[u64], table_keys: u64) -> Option<Range<usize>> {
    let size = |keys: &u64| (keys / table_keys.max(1)).max(1).ilog(FAN_IN as u64);
    let alike = |some: &[u64]| some.iter().all(|keys| some.first().map(size) == Some(size(keys)));
    let of = |at: usize| at..at + FAN_IN;
    if let Some(at) = keys.windows(FAN_IN).rposition(alike) {
        return Some(of(at));
    }
    let smallest = keys.windows(FAN_IN).enumerate().min_by_key(|(_, some)| some.iter().sum::<u64>());
    smallest.filter(|_| keys.len() > RUNS_MAX).map(|(at, _)| of(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stay_few_whatever_their_sizes_and_each_key_is_written_few_times() {
        let (mut runs, mut written) = (Vec::new(), 0u64);
        for flushed in 0..1_000u64 {
            // Full tables, and now and then the few keys that a snapshot found.
            runs.push(if flushed % 5 == 0 { flushed % 7 + 1 } else { 100 });
            while let Some(range) = due(&runs, 100) {
                let merged = runs.splice(range.clone(), [0]).sum::<u64>();
                runs[range.start] = merged;
                written += merged;
            }
            assert!(runs.len() <= RUNS_MAX, "{runs:?}");
        }
        let keys: u64 = runs.iter().sum();
        assert!(written < 7 * keys, "{written} written for {keys}");
        let mut odd: Vec<u64> = (0..40).map(|at| if at % 2 == 0 { 1 } else { 100_000 }).collect();
        while let Some(range) = due(&odd, 100) {
            let merged = odd.splice(range.clone(), [0]).sum();
            odd[range.start] = merged;
        }
        assert!(odd.len() <= RUNS_MAX, "{odd:?}");
    }
}
