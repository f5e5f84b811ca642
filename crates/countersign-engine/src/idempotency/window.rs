//! The keys in memory: everything that was entered since a position. It belongs to the sequencer, which looks nowhere else.
//!
//! Keys go into one table. A full table is frozen, which changes a pointer, and is written to a run by another thread. It stays here until
//! that is done, and some time longer: a caller that looked into the runs before that is still served.

use super::counts::{Counts, SHARDS};
use super::{Count, Seen, Table};
use countersign_core::action::KeyDigest;
use countersign_core::record::Entry;
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one turn of the sequencer may add to a table that was not quite full.
const TURN_KEYS: usize = 4_600;
/// Most frozen tables that are kept although they are in a run: each is one more place to look.
const WRITTEN_KEPT_MAX: usize = 4;

/// A table that is no longer written to.
#[derive(Debug)]
pub(super) struct Frozen {
    /// The first entry that it may have a key of.
    start: u64,
    /// The entry after the last one.
    pub(super) end: u64,
    pub(super) keys: Table,
}

/// The keys that were entered since a position.
#[derive(Debug)]
pub struct Window {
    current: Table,
    /// The first entry that the current table may have a key of.
    current_start: u64,
    /// The entry after the last one that has a key here.
    end: u64,
    /// Older tables, oldest first.
    frozen: VecDeque<Arc<Frozen>>,
    /// Up to where all keys are in runs.
    covered: u64,
    table_keys: usize,
    /// How many keys are in frozen tables that are in no run yet, for those that do not hold the window.
    pending: Arc<AtomicUsize>,
    counts: Counts,
}

impl Window {
    /// An empty window: everything before `start` is in runs.
    pub(super) fn new(start: u64, table_keys: usize, pending: Arc<AtomicUsize>) -> Self {
        Self {
            current: Table::default(),
            current_start: start,
            end: start,
            frozen: VecDeque::new(),
            covered: start,
            table_keys,
            pending,
            counts: Counts::default(),
        }
    }

    /// From which entry on all keys are here.
    pub fn start(&self) -> u64 {
        self.frozen.front().map_or(self.current_start, |oldest| oldest.start)
    }

    /// The latest use of a key, if it is here.
    pub fn find(&self, key: &KeyDigest) -> Option<Seen> {
        let older = || self.frozen.iter().rev().find_map(|table| table.keys.get(key));
        self.current.get(key).or_else(older).copied()
    }

    /// Enters a key of an agent.
    pub fn insert(&mut self, agent: &SmolStr, key: KeyDigest, seen: Seen) {
        if self.current.is_empty() {
            // At once: growing step by step moves every key again.
            self.current.reserve(self.table_keys.saturating_add(TURN_KEYS.min(self.table_keys)));
        }
        self.end = self.end.max(seen.entry.saturating_add(1));
        self.counts.add(agent, seen.at_ms);
        self.current.insert(key, seen);
    }

    /// Enters the keys of an entry.
    pub fn note(&mut self, entry: &Entry) {
        for (key, action) in entry.event.keys() {
            self.insert(entry.by.smol(), key, Seen::new(&action, entry.index, entry.time_ms));
        }
    }

    /// How many keys of an agent are remembered.
    pub fn of_agent(&self, agent: &SmolStr, now_ms: u64) -> u32 {
        self.counts.of(agent, now_ms)
    }

    /// Freezes the table if it is full. Only between entries: all keys of one are in the same table, or in later ones.
    pub fn freeze_if_full(&mut self) -> bool {
        let is_full = self.current.len() >= self.table_keys;
        if is_full {
            self.freeze();
        }
        is_full
    }

    /// Freezes the table, however little is in it.
    pub(super) fn freeze(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let keys = std::mem::take(&mut self.current);
        self.frozen.push_back(Arc::new(Frozen { start: self.current_start, end: self.end, keys }));
        self.current_start = self.end;
        self.count_pending();
    }

    /// The tables that are in no run yet, or not wholly.
    pub(super) fn unwritten(&self) -> Vec<Arc<Frozen>> {
        self.frozen.iter().filter(|table| table.end > self.covered).cloned().collect()
    }

    /// Up to where all keys are in frozen tables or in runs.
    pub(super) fn frozen_end(&self) -> u64 {
        self.current_start
    }

    /// Notes that all keys before an entry are in runs. Gives the tables that are no longer needed, so that their memory is given back
    /// where no one waits for it.
    pub(super) fn cover(&mut self, covered: u64) -> Vec<Arc<Frozen>> {
        self.covered = self.covered.max(covered);
        let mut keys: usize = self.frozen.iter().map(|table| table.keys.len()).sum();
        let mut dropped = Vec::new();
        while let Some(oldest) = self.frozen.front().filter(|oldest| oldest.end <= self.covered) {
            let rest = keys.saturating_sub(oldest.keys.len());
            if rest < self.table_keys && self.frozen.len() <= WRITTEN_KEPT_MAX {
                break;
            }
            keys = rest;
            dropped.extend(self.frozen.pop_front());
        }
        self.count_pending();
        dropped
    }

    fn count_pending(&self) {
        let unwritten = self.frozen.iter().filter(|table| table.end > self.covered);
        let pending = unwritten.map(|table| table.keys.len()).sum();
        self.pending.store(pending, Ordering::Release);
    }

    /// The counts of some of the agents.
    pub(super) fn copy_counts(&mut self, shard: usize, now_ms: u64) -> Vec<(SmolStr, Count)> {
        self.counts.copy(shard, now_ms)
    }

    /// How many times [`Self::copy_counts`] is to be called.
    pub(super) const COUNT_SHARDS: usize = SHARDS;

    /// Puts back how many keys an agent has used.
    pub(crate) fn put_count(&mut self, agent: SmolStr, count: Count) {
        self.counts.put(agent, count);
    }
}
