//! Entries that a snapshot takes over from the log's files. A snapshot is signed, so what it holds must be what the log signed: someone who
//! can write to the folder may have changed the files since they were read (I7).

use crate::fold::payload_matches;
use crate::storage::{Entry, Log, ReadLog as _, StorageError};
use countersign_ledger::hash::{Hash, leaf_hash};
use countersign_ledger::tree::{Frontier, TILE_WIDTH, TileTree};

/// Reads entries and holds each against the tree.
pub(super) struct Proved<'a> {
    log: &'a dyn Log,
    tree: &'a TileTree,
    /// The leaf hashes of the full tile that was looked at last, found right.
    tile: Option<(u64, Vec<Hash>)>,
}

impl<'a> Proved<'a> {
    pub(super) fn new(log: &'a dyn Log, tree: &'a TileTree) -> Self {
        Self { log, tree, tile: None }
    }

    /// An entry with its payload, as the log signed it. What is in force is never erased, so a payload that is gone was taken away.
    pub(super) fn read(&mut self, index: u64) -> Result<Entry, StorageError> {
        let stored = self.log.read_entry(index)?;
        let content = stored.content.as_ref();
        let is_whole = content.is_some_and(|(salt, payload)| payload_matches(&stored.leaf, salt, payload));
        if !is_whole || self.leaf_at(index)? != Some(leaf_hash(&stored.leaf)) {
            return Err(self.log.altered(index));
        }
        Ok(stored)
    }

    fn leaf_at(&mut self, index: u64) -> Result<Option<Hash>, StorageError> {
        let (tile, at) = (index / TILE_WIDTH, usize::try_from(index % TILE_WIDTH).unwrap_or(usize::MAX));
        let Some(hash) = usize::try_from(tile).ok().and_then(|tile| self.tree.level8().get(tile)) else {
            return Ok(self.tree.partial().get(at).copied());
        };
        if self.tile.as_ref().is_none_or(|(known, _)| *known != tile) {
            let (mut leaves, mut frontier) = (Vec::new(), Frontier::new());
            self.log.entries(tile * TILE_WIDTH..(tile + 1) * TILE_WIDTH, |entry| {
                let leaf = leaf_hash(&entry.leaf);
                frontier.push(leaf);
                leaves.push(leaf);
                true
            })?;
            if frontier.root() != *hash {
                return Err(self.log.altered(index));
            }
            self.tile = Some((tile, leaves));
        }
        Ok(self.tile.as_ref().and_then(|(_, leaves)| leaves.get(at).copied()))
    }
}
