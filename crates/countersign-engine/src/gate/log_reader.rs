//! The log for outsiders: entries, tiles, bundles, checkpoints, proofs and receipts, at synced positions only.

use super::Gate;
use crate::fold::payload_matches;
use crate::storage::{self, ReadLog as _, StorageError};
use crate::view::View;
use countersign_core::record::{Entry, Leaf, ShownEntry, show};
use countersign_ledger::hash::{Hash, leaf_hash};
use countersign_ledger::receipt::Receipt;
use countersign_ledger::tile::{TileRef, encode_bundle, encode_tile};
use countersign_ledger::tree::{SubtreeHashes, TileView, TreeError, consistency_proof, inclusion_proof};
use std::sync::Arc;

/// How many leaves a tile has.
const TILE: u64 = 256;

/// Why a part of the log cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is no such part yet.
    #[error("the log has {0} entries; the requested entry or range is past the end")]
    Beyond(u64),
    /// The store failed.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The tree refused.
    #[error("{0}")]
    Tree(#[from] TreeError),
    /// An entry cannot be read.
    #[error("entry {0} cannot be read: {1}")]
    Damaged(u64, String),
}

/// One entry as it is stored.
#[derive(Debug, Clone)]
pub struct StoredEntry {
    pub index: u64,
    pub leaf: Vec<u8>,
    /// Its payload; `None` where it was erased.
    pub payload: Option<Vec<u8>>,
}

impl StoredEntry {
    /// An entry with the payload that its leaf commits to: nothing else is ever shown as one.
    pub(crate) fn checked(entry: storage::Entry) -> Option<Self> {
        let storage::Entry { index, leaf, content } = entry;
        let is_whole = content.as_ref().is_none_or(|(salt, payload)| payload_matches(&leaf, salt, payload));
        is_whole.then(|| Self { index, leaf, payload: content.map(|(_, payload)| payload) })
    }

    /// Reads its leaf.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn leaf(&self) -> Result<Leaf, LogError> {
        Leaf::decode(&self.leaf).map_err(|error| self.damaged(error))
    }

    /// Why it cannot be read.
    pub fn damaged(&self, why: impl ToString) -> LogError {
        LogError::Damaged(self.index, why.to_string())
    }

    /// Shows it, as JSON.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn show(&self) -> Result<ShownEntry, LogError> {
        show(&self.leaf, self.payload.as_deref()).map_err(|error| self.damaged(error))
    }

    /// Reads it.
    pub fn decode(&self) -> Result<Entry, LogError> {
        Entry::decode(self.leaf()?, self.payload.as_deref()).map_err(|error| self.damaged(error))
    }
}

impl Gate {
    /// One entry.
    pub fn read_log(&self, index: u64) -> Result<StoredEntry, LogError> {
        let size = self.view().position;
        if index >= size {
            return Err(LogError::Beyond(size));
        }
        let entry = self.shared.log.read_entry(index)?;
        StoredEntry::checked(entry).ok_or_else(|| self.shared.log.altered(index).into())
    }

    /// The hash of the first entry. No other log has it, and it stays, whatever key signs.
    pub fn first_leaf(&self) -> Result<Hash, LogError> {
        Ok(leaf_hash(&self.read_log(0)?.leaf))
    }

    /// One entry, decoded: from memory where it is still there, or else from the log.
    pub fn entry(&self, index: u64) -> Result<Arc<Entry>, LogError> {
        match self.shared.stream.recent(index) {
            Some(entry) => Ok(entry),
            None => self.read_log(index)?.decode().map(Arc::new),
        }
    }

    /// Entries from `start` on, at most `limit`.
    pub fn read_log_range(&self, start: u64, limit: u64) -> Result<Vec<StoredEntry>, LogError> {
        let end = start.saturating_add(limit).min(self.view().position);
        let (mut entries, mut altered) = (Vec::new(), None);
        if start < end {
            self.shared.log.entries(start..end, |entry| {
                let index = entry.index;
                match StoredEntry::checked(entry) {
                    Some(entry) => entries.push(entry),
                    None => altered = Some(index),
                }
                altered.is_none()
            })?;
        }
        altered.map_or(Ok(entries), |index| Err(self.shared.log.altered(index).into()))
    }

    /// The latest checkpoint.
    pub fn checkpoint(&self) -> Arc<str> {
        Arc::clone(&self.view().checkpoint)
    }

    /// A tile or bundle, as C2SP tlog-tiles lays them out.
    pub fn tile(&self, tile: &TileRef) -> Result<Vec<u8>, LogError> {
        let size = self.view().position;
        let (level, index, width) = match *tile {
            TileRef::Hashes { level, index, width } => (level, index, width),
            TileRef::Entries { index, width } => (0, index, width),
        };
        let leaves_each = 256u64.checked_pow(u32::from(level)).ok_or(LogError::Beyond(size))?;
        let first = index.checked_mul(TILE).ok_or(LogError::Beyond(size))?;
        let end = first.checked_add(u64::from(width)).ok_or(LogError::Beyond(size))?;
        if end.checked_mul(leaves_each).is_none_or(|leaves| leaves > size) {
            return Err(LogError::Beyond(size));
        }
        match tile {
            TileRef::Entries { .. } => {
                let leaves = self.leaves(first, u64::from(width))?;
                let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
                encode_bundle(&leaves).map_err(|error| LogError::Damaged(first, error.to_string()))
            }
            TileRef::Hashes { level: 0, .. } => Ok(encode_tile(&self.leaf_hashes(first, u64::from(width))?)),
            TileRef::Hashes { level, .. } => {
                let view = self.view();
                let hashes = (first..end).map(|at| view.tree.subtree(level.saturating_mul(8), at));
                let hashes = hashes.collect::<Option<Vec<Hash>>>().ok_or(LogError::Beyond(size))?;
                Ok(encode_tile(&hashes))
            }
        }
    }

    fn leaf_hashes(&self, first: u64, count: u64) -> Result<Vec<Hash>, LogError> {
        Ok(self.leaves(first, count)?.iter().map(|leaf| leaf_hash(leaf)).collect())
    }

    /// Leaves from `first` on. Of payloads, which are much longer, none is held or hashed: anyone may ask for these, and the tree tells
    /// whether a leaf is the one that was signed.
    fn leaves(&self, first: u64, count: u64) -> Result<Vec<Vec<u8>>, LogError> {
        let mut leaves = Vec::new();
        self.shared.log.entries(first..first.saturating_add(count), |entry| {
            leaves.push(entry.leaf);
            true
        })?;
        Ok(leaves)
    }

    /// The receipt of an entry under the latest checkpoint.
    pub fn receipt(&self, index: u64) -> Result<Receipt, LogError> {
        let leaf = self.read_log(index)?.leaf;
        self.with_tile(index / TILE, |view, tile| {
            let proof = match tile {
                Some(tile) => inclusion_proof(index, view.position, &tile)?,
                None => inclusion_proof(index, view.position, &view.tree)?,
            };
            Ok(Receipt { index, leaf: leaf.clone(), proof, checkpoint: view.checkpoint.to_string() })
        })
    }

    /// Proves something with the leaves of one tile at hand: read from the log where the tile is full, because then the tree
    /// no longer holds them; else the tree has them itself, and the proof is made under the very view that said so.
    fn with_tile<T>(
        &self,
        tile: u64,
        prove: impl Fn(&View, Option<TileView<'_>>) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        {
            let view = self.view();
            if tile.saturating_add(1).saturating_mul(TILE) > view.position {
                return prove(&view, None);
            }
        }
        // Once full, it stays full.
        let leaves = self.leaf_hashes(tile * TILE, TILE)?;
        let view = self.view();
        prove(&view, view.tree.with_tile(tile, leaves.as_slice()).ok())
    }

    /// The proof that the log of `old` entries is the beginning of the log as it is now; with the size it is now.
    pub fn consistency(&self, old: u64) -> Result<(u64, Vec<Hash>), LogError> {
        let size = self.view().position;
        if old == 0 || old > size {
            return Err(LogError::Beyond(size));
        }
        self.with_tile(old / TILE, |view, tile| {
            let proof = match tile {
                Some(tile) => consistency_proof(old, view.position, &tile)?,
                None => consistency_proof(old, view.position, &view.tree)?,
            };
            Ok((view.position, proof))
        })
    }
}
