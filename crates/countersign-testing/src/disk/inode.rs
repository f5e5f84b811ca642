//! One file: what a program reads, what is on the disk, and which sectors differ.

use std::collections::BTreeSet;

use super::{FailedSync, SECTOR, SplitMix};

/// A file with its cached and its durable bytes.
#[derive(Clone, Default)]
pub struct Inode {
    cached: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    /// Whether the length changed since the last sync.
    is_resized: bool,
}

impl Inode {
    /// A file that is on the disk as it is.
    pub fn durable(bytes: Vec<u8>) -> Self {
        Self { cached: bytes.clone(), durable: bytes, ..Self::default() }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.cached
    }

    pub fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let rest = self.cached.get(offset as usize..).unwrap_or_default();
        let mut read = 0;
        for (slot, byte) in buffer.iter_mut().zip(rest) {
            *slot = *byte;
            read += 1;
        }
        read
    }

    pub fn write(&mut self, bytes: &[u8], offset: u64) {
        let start = offset as usize;
        let end = start + bytes.len();
        if end > self.cached.len() {
            self.set_len(end);
        }
        if let Some(slot) = self.cached.get_mut(start..end) {
            slot.copy_from_slice(bytes);
        }
        self.dirty.extend(start / SECTOR..end.div_ceil(SECTOR));
    }

    pub fn set_len(&mut self, len: usize) {
        // Bytes that come back after a cut are zeros, so the sectors after a cut differ from the disk's.
        let from = len.min(self.cached.len());
        self.dirty.extend(from / SECTOR..len.max(self.cached.len()).div_ceil(SECTOR));
        self.cached.resize(len, 0);
        self.is_resized = true;
    }

    pub fn sync(&mut self) {
        self.durable.clone_from(&self.cached);
        self.dirty.clear();
        self.is_resized = false;
    }

    /// Some sectors reach the disk, the rest does not and never will.
    pub fn fail_sync(&mut self, rng: &mut SplitMix, how: FailedSync) {
        let after = self.after_crash(rng);
        self.durable = after.durable;
        self.dirty.clear();
        self.is_resized = false;
        if how == FailedSync::Dropped {
            self.cached.clone_from(&self.durable);
        }
    }

    /// What is found after the power failed: each sector that was not synced is the old or the new one.
    pub fn after_crash(&self, rng: &mut SplitMix) -> Self {
        let keeps_len = self.is_resized && rng.below(2) == 0;
        let len = if keeps_len || !self.is_resized { self.cached.len() } else { self.durable.len() };
        // A failed sync leaves sectors that look clean, so the disk's own length counts where nothing is known to differ.
        let len = if self.dirty.is_empty() && !self.is_resized { self.durable.len() } else { len };
        let mut bytes = self.durable.clone();
        bytes.resize(len, 0);
        // Half of the crashes lose most, half lose little: both shapes of a torn write are common enough to be met.
        let odds = 1 + rng.below(4);
        for sector in &self.dirty {
            if rng.below(5) >= odds {
                continue;
            }
            let start = sector * SECTOR;
            let end = (start + SECTOR).min(self.cached.len()).min(len);
            if let (Some(slot), Some(new)) = (bytes.get_mut(start..end), self.cached.get(start..end)) {
                slot.copy_from_slice(new);
            }
        }
        Self::durable(bytes)
    }
}
