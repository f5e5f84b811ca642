//! The tree as a writer keeps it in memory: small, and yet enough to prove any entry.
//!
//! Kept are the hashes from level 8 up (one for each full tile of 256 leaves, and above: about a quarter of a byte a leaf) and
//! the leaf hashes of the last, partial tile. What lies inside older tiles is computed again from leaf hashes that the caller
//! reads back, and is checked against the tile's own hash first, so that damaged storage gives an error and not a false proof.

use crate::hash::{Hash, node_hash};
use crate::tree::frontier::{self, fold_root};
use crate::tree::{Frontier, MAX_SIZE, SubtreeHashes, TreeError};

/// Leaves in a full tile: 2^8, fixed by C2SP tlog-tiles.
pub const TILE_WIDTH: u64 = 256;
const TILE_LEVEL: u8 = frontier::TILE_LEVEL as u8;

/// A tree with all its hashes from level 8 up and the leaves of its last partial tile.
#[derive(Clone, Debug)]
pub struct TileTree {
    /// `upper[n]` has every complete subtree on level 8 + n, in order.
    upper: Vec<Vec<Hash>>,
    /// The leaf hashes of the partial tile.
    partial: Vec<Hash>,
}

impl Default for TileTree {
    fn default() -> Self {
        Self::new()
    }
}

impl TileTree {
    /// The empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self { upper: vec![Vec::new()], partial: Vec::with_capacity(TILE_WIDTH as usize) }
    }

    /// A tree taken up again from the hashes of its full tiles and the leaf hashes after them.
    ///
    /// # Errors
    /// If the counts do not fit the size. Whether they are the right hashes only a checkpoint can tell: compare
    /// [`TileTree::root`].
    pub fn from_parts(size: u64, level8: Vec<Hash>, partial: Vec<Hash>) -> Result<Self, TreeError> {
        if size > MAX_SIZE {
            return Err(TreeError::TooLarge { size });
        }
        check_count(size, "full tiles", size / TILE_WIDTH, level8.len())?;
        check_count(size, "leaves after the last full tile", size % TILE_WIDTH, partial.len())?;
        let mut upper = vec![level8];
        while let Some(below) = upper.last().filter(|level| level.len() > 1) {
            let level = pair_up(below);
            upper.push(level);
        }
        let mut tree = Self { upper, ..Self::new() };
        for leaf in partial {
            tree.push(leaf);
        }
        Ok(tree)
    }

    /// Appends a leaf, given by its [`leaf_hash`](crate::leaf_hash).
    pub fn push(&mut self, leaf: Hash) {
        self.extend(&[leaf], &[]);
    }

    /// Appends leaves. The hashes of the tiles that they fill are worked out only where they are not given: whoever pushed the
    /// same leaves to a [`Frontier`] has them.
    pub fn extend(&mut self, leaves: &[Hash], tiles: &[Hash]) {
        let mut tiles = tiles.iter().copied();
        for leaf in leaves {
            self.partial.push(*leaf);
            if self.partial.len() as u64 == TILE_WIDTH {
                let tile = tiles.next().unwrap_or_else(|| complete_root(&self.partial));
                self.partial.clear();
                self.push_tile(tile);
            }
        }
    }

    fn push_tile(&mut self, tile: Hash) {
        let mut node = tile;
        let mut level = 0;
        loop {
            if self.upper.len() == level {
                self.upper.push(Vec::new());
            }
            let Some(row) = self.upper.get_mut(level) else {
                return;
            };
            row.push(node);
            let [.., left, right] = row.as_slice() else {
                return;
            };
            if row.len() % 2 == 1 {
                return;
            }
            node = node_hash(left, right);
            level += 1;
        }
    }

    /// How many leaves there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.level8().len() as u64 * TILE_WIDTH + self.partial.len() as u64
    }

    /// The root of the tree as it stands.
    #[must_use]
    pub fn root(&self) -> Hash {
        fold_root(self.tail().nodes().iter().rev().copied().chain(self.upper_edge()))
    }

    /// The right edge, to carry on from or to prove a batch with.
    #[must_use]
    pub fn frontier(&self) -> Frontier {
        let mut nodes: Vec<Hash> = self.tail().nodes().iter().rev().copied().chain(self.upper_edge()).collect();
        nodes.reverse();
        // The counts agree by construction; an empty frontier would only make a caller's root comparison fail.
        Frontier::from_parts(self.size(), nodes).unwrap_or_default()
    }

    /// The frontier of the partial tile alone.
    fn tail(&self) -> Frontier {
        frontier_of(&self.partial)
    }

    /// The complete subtrees above the tiles that have no parent yet, smallest first: the last one of each odd row.
    fn upper_edge(&self) -> impl Iterator<Item = Hash> + '_ {
        self.upper.iter().filter(|row| row.len() % 2 == 1).filter_map(|row| row.last().copied())
    }

    /// The hashes of all full tiles.
    #[must_use]
    pub fn level8(&self) -> &[Hash] {
        self.upper.first().map_or(&[], Vec::as_slice)
    }

    /// The leaf hashes after the last full tile.
    #[must_use]
    pub fn partial(&self) -> &[Hash] {
        &self.partial
    }

    /// A view that also knows what is inside the full tile `tile`, given that tile's 256 leaf hashes.
    ///
    /// One tile is enough to prove a leaf of it against the tree as it stands. A proof against an older size, or between two
    /// sizes, also needs the tile in which each such size ends: add it with [`TileView::and_tile`].
    ///
    /// # Errors
    /// If there is no such full tile, or these are not its leaves.
    pub fn with_tile(&self, tile: u64, leaves: &[Hash]) -> Result<TileView<'_>, TreeError> {
        TileView { tree: self, tiles: Vec::new() }.and_tile(tile, leaves)
    }
}

impl SubtreeHashes for TileTree {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        if level >= TILE_LEVEL {
            let row = self.upper.get(usize::from(level - TILE_LEVEL))?;
            return row.get(usize::try_from(index).ok()?).copied();
        }
        let first = self.level8().len() as u64 * (TILE_WIDTH >> level);
        let start = usize::try_from(index.checked_sub(first)?.checked_mul(1 << level)?).ok()?;
        let leaves = self.partial.get(start..)?.get(..1 << level)?;
        Some(complete_root(leaves))
    }
}

/// A [`TileTree`] together with the insides of some of its full tiles.
#[derive(Clone, Debug)]
pub struct TileView<'a> {
    tree: &'a TileTree,
    /// For each tile its number and its rows, from the 256 leaves to the pair below its root.
    tiles: Vec<(u64, Vec<Vec<Hash>>)>,
}

impl TileView<'_> {
    /// The same view with one more full tile in it. A number that is not a full tile's, because the size in question ends in
    /// the partial tile or between tiles, needs no tile.
    ///
    /// # Errors
    /// If there is no such full tile, or these are not its leaves.
    pub fn and_tile(mut self, tile: u64, leaves: &[Hash]) -> Result<Self, TreeError> {
        let root = self.tree.subtree(TILE_LEVEL, tile).ok_or(TreeError::Missing { level: TILE_LEVEL, index: tile })?;
        check_count(TILE_WIDTH, "leaves in a tile", TILE_WIDTH, leaves.len())?;
        let mut rows = vec![leaves.to_vec()];
        while let Some(below) = rows.last().filter(|row| row.len() > 1) {
            let row = pair_up(below);
            rows.push(row);
        }
        if rows.last().and_then(|row| row.first()) != Some(&root) {
            return Err(TreeError::WrongTile { tile });
        }
        self.tiles.push((tile, rows));
        Ok(self)
    }
}

impl SubtreeHashes for TileView<'_> {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.tree.subtree(level, index).or_else(|| {
            let per_tile = TILE_WIDTH.checked_shr(u32::from(level)).filter(|count| *count > 0)?;
            let (_, rows) = self.tiles.iter().find(|(tile, _)| *tile == index / per_tile)?;
            rows.get(usize::from(level))?.get((index % per_tile) as usize).copied()
        })
    }
}

fn check_count(size: u64, what: &'static str, expected: u64, found: usize) -> Result<(), TreeError> {
    let found = found as u64;
    if expected == found { Ok(()) } else { Err(TreeError::WrongCount { size, what, expected, found }) }
}

/// The row above: the hash of each whole pair.
pub(crate) fn pair_up(row: &[Hash]) -> Vec<Hash> {
    let (pairs, _) = row.as_chunks::<2>();
    pairs.iter().map(|[left, right]| node_hash(left, right)).collect()
}

/// The root over 2^n leaves.
fn complete_root(leaves: &[Hash]) -> Hash {
    frontier_of(leaves).root()
}

fn frontier_of(leaves: &[Hash]) -> Frontier {
    let mut frontier = Frontier::new();
    for leaf in leaves {
        frontier.push(*leaf);
    }
    frontier
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::leaf_hash;
    use crate::tree::{inclusion_proof, root_at, verify_inclusion};

    fn leaves(count: u64) -> Vec<Hash> {
        (0..count).map(|i| leaf_hash(&i.to_be_bytes())).collect()
    }

    #[test]
    fn it_agrees_with_the_frontier_and_can_be_taken_up_again() {
        let (mut tree, mut frontier, mut told) = (TileTree::new(), Frontier::new(), TileTree::new());
        for (i, leaf) in leaves(5 * 256 + 3).into_iter().enumerate() {
            assert_eq!((tree.size(), tree.root(), tree.frontier()), (i as u64, frontier.root(), frontier.clone()));
            tree.push(leaf);
            let tile = frontier.push(leaf);
            assert_eq!(tile.is_some(), (i + 1) % 256 == 0);
            told.extend(&[leaf], tile.as_slice());
            assert_eq!((&told.upper, &told.partial), (&tree.upper, &tree.partial));
            if i % 97 == 0 || i % 256 > 253 {
                let again = TileTree::from_parts(tree.size(), tree.level8().to_vec(), tree.partial().to_vec()).unwrap();
                assert_eq!((again.root(), &again.upper, &again.partial), (tree.root(), &tree.upper, &tree.partial));
            }
        }
    }

    #[test]
    fn one_tile_proves_its_leaves_and_two_prove_old_sizes() {
        let leaves = leaves(4 * 256 + 77);
        let tile = |n: u64| &leaves[n as usize * 256..][..256];
        let mut tree = TileTree::new();
        leaves.iter().for_each(|leaf| tree.push(*leaf));
        for index in [256, 300, 511] {
            let view = tree.with_tile(1, tile(1)).unwrap();
            let proof = inclusion_proof(index, tree.size(), &view).unwrap();
            verify_inclusion(&leaves[index as usize], index, tree.size(), &proof, &tree.root()).unwrap();
            let old = 3 * 256 + 5;
            assert!(matches!(inclusion_proof(index, old, &view), Err(TreeError::Missing { .. })));
            let both = view.and_tile(3, tile(3)).unwrap();
            let proof = inclusion_proof(index, old, &both).unwrap();
            verify_inclusion(&leaves[index as usize], index, old, &proof, &root_at(old, &both).unwrap()).unwrap();
        }
        let proof = inclusion_proof(1024 + 5, tree.size(), &tree).unwrap();
        verify_inclusion(&leaves[1024 + 5], 1024 + 5, tree.size(), &proof, &tree.root()).unwrap();
    }

    #[test]
    fn damaged_tiles_are_refused() {
        let mut leaves = leaves(600);
        let mut tree = TileTree::new();
        leaves.iter().for_each(|leaf| tree.push(*leaf));
        assert!(tree.with_tile(1, &leaves[256..512]).is_ok());
        assert!(matches!(tree.with_tile(0, &leaves[256..512]), Err(TreeError::WrongTile { tile: 0 })));
        assert!(matches!(tree.with_tile(1, &leaves[256..511]), Err(TreeError::WrongCount { .. })));
        assert!(matches!(tree.with_tile(2, &leaves[256..512]), Err(TreeError::Missing { .. })));
        leaves[300].0[7] ^= 1;
        assert!(matches!(tree.with_tile(1, &leaves[256..512]), Err(TreeError::WrongTile { tile: 1 })));
        assert!(TileTree::from_parts(600, vec![], leaves[512..].to_vec()).is_err());
        assert!(TileTree::from_parts(601, tree.level8().to_vec(), leaves[512..].to_vec()).is_err());
    }
}
