//! A run made again from the leaves of the log. Every leaf is proved by the tree, since an attacker who altered the run may have
//! altered the log's files as well (I7). Erasures take payloads and no leaves, so no key is forgotten.

use super::merge::merge;
use super::run::write_sorted;
use super::{Run, Seen, is_past};
use crate::storage::disk::Disk;
use crate::storage::{Log, ReadLog as _, StorageError};
use countersign_core::action::KeyDigest;
use countersign_core::record::Leaf;
use countersign_ledger::hash::{Hash, leaf_hash};
use countersign_ledger::tree::{Frontier, TILE_WIDTH, TileTree};
use std::ops::Range;
use std::sync::Arc;

/// Makes a run of the keys in a range of entries that are not forgotten at this time; nothing if all are. `table_keys` are held in
/// memory at a time.
///
/// # Errors
/// If the log cannot be read, is not what the tree says, or the run cannot be written.
pub(super) fn rebuild(
    disk: &dyn Disk,
    (log, tree): (&dyn Log, &TileTree),
    range: Range<u64>,
    now_ms: u64,
    table_keys: usize,
) -> Result<Option<Run>, StorageError> {
    let (mut keys, mut pieces) = (Vec::new(), Vec::new());
    let end = range.end;
    let write = |keys: &mut Vec<_>, pieces: &mut Vec<Arc<Run>>| {
        let piece = write_sorted(disk, &format!("again-{}", pieces.len()), end, std::mem::take(keys))?;
        pieces.extend(piece.map(Arc::new));
        Ok::<_, StorageError>(())
    };
    proved_leaves(log, tree, range, &mut |leaf| {
        let seen = keys_of(leaf).filter(|(_, seen)| !is_past(seen.at_ms, now_ms));
        keys.extend(seen);
        if keys.len() >= table_keys { write(&mut keys, &mut pieces) } else { Ok(()) }
    })?;
    write(&mut keys, &mut pieces)?;
    if pieces.len() <= 1 {
        return Ok(pieces.pop().and_then(Arc::into_inner));
    }
    let whole = merge(disk, "again", &pieces, now_ms)?;
    for piece in pieces {
        // What is left of one that cannot be removed is named by nothing, and is removed when the gate is opened.
        if let Err(error) = disk.remove(piece.name()) {
            tracing::warn!(%error, name = piece.name(), "a piece of a run cannot be removed");
        }
    }
    Ok(whole)
}

/// The keys in a leaf.
fn keys_of(leaf: &Leaf) -> impl Iterator<Item = (KeyDigest, Seen)> {
    let one = leaf.key.zip(leaf.action);
    let (keys, ids) = (leaf.keys.as_deref().unwrap_or_default(), leaf.actions.as_deref().unwrap_or_default());
    let group = keys.iter().copied().zip(ids.iter().copied());
    one.into_iter().chain(group).map(|(key, action)| (key, Seen::new(&action, leaf.index, leaf.time)))
}

/// Hands on every leaf in a range, tile by tile, once the tile was found to be what the tree says.
fn proved_leaves(
    log: &dyn Log,
    tree: &TileTree,
    range: Range<u64>,
    visit: &mut dyn FnMut(&Leaf) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let start = range.start / TILE_WIDTH * TILE_WIDTH;
    let end = range.end.next_multiple_of(TILE_WIDTH).min(tree.size());
    if start >= end {
        return Ok(());
    }
    if range.end > tree.size() {
        return Err(StorageError::NoEntry { index: range.end.saturating_sub(1), size: tree.size() });
    }
    let (mut tile, mut proved) = (Tile::default(), start);
    log.batches(start, &mut |owned| {
        for frame in owned.batch()?.frames().filter(|frame| (start..end).contains(&frame.index)) {
            tile.push(log, frame.index, frame.leaf)?;
            if (frame.index + 1).is_multiple_of(TILE_WIDTH) || frame.index + 1 == end {
                tile.prove(log, tree, frame.index)?;
                tile.leaves.iter().filter(|leaf| range.contains(&leaf.index)).try_for_each(&mut *visit)?;
                (tile, proved) = (Tile::default(), frame.index + 1);
            }
        }
        Ok(owned.header().end_index() < end)
    })?;
    // A log that ends early has lost entries.
    if proved == end { Ok(()) } else { Err(log.altered(end.saturating_sub(1))) }
}

/// The leaves of one tile.
#[derive(Default)]
struct Tile {
    leaves: Vec<Leaf>,
    hashes: Vec<Hash>,
}

impl Tile {
    fn push(&mut self, log: &dyn Log, index: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let leaf = Leaf::decode(bytes).ok().filter(|leaf| leaf.index == index);
        self.leaves.push(leaf.ok_or_else(|| log.altered(index))?);
        self.hashes.push(leaf_hash(bytes));
        Ok(())
    }

    fn prove(&self, log: &dyn Log, tree: &TileTree, index: u64) -> Result<(), StorageError> {
        let of_tree = usize::try_from(index / TILE_WIDTH).ok().and_then(|tile| tree.level8().get(tile));
        let is_right = match of_tree {
            Some(root) => {
                let mut frontier = Frontier::new();
                for hash in &self.hashes {
                    frontier.push(*hash);
                }
                frontier.root() == *root
            }
            None => tree.partial() == self.hashes,
        };
        if is_right { Ok(()) } else { Err(log.altered(index)) }
    }
}
