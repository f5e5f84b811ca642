//! The right edge of the tree: all that is needed to append a leaf and to know the root.
//!
//! It must stay small and cheap, because the writer pushes every entry through it.

use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::tree::{MAX_SIZE, TreeError};

/// The level of a full tile's root, fixed by C2SP tlog-tiles.
pub(crate) const TILE_LEVEL: u32 = 8;

/// A tree's size and the roots of its complete subtrees, largest first: one for each bit set in the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    nodes: Vec<Hash>,
}

impl Default for Frontier {
    fn default() -> Self {
        Self::new()
    }
}

impl Frontier {
    /// The empty tree.
    #[must_use]
    pub fn new() -> Self {
        // Room for every bit of a size: pushing never allocates.
        Self { size: 0, nodes: Vec::with_capacity(64) }
    }

    /// A tree taken up again where it was left.
    ///
    /// # Errors
    /// If the number of hashes is not the number of bits set in `size`, or `size` is past [`MAX_SIZE`]. Whether they are the
    /// right hashes only a checkpoint can tell: compare [`Frontier::root`].
    pub fn from_parts(size: u64, mut nodes: Vec<Hash>) -> Result<Self, TreeError> {
        if size > MAX_SIZE {
            return Err(TreeError::TooLarge { size });
        }
        let (expected, found) = (u64::from(size.count_ones()), nodes.len() as u64);
        if expected != found {
            return Err(TreeError::WrongCount { size, what: "complete subtrees", expected, found });
        }
        nodes.reserve(64 - nodes.len().min(64));
        Ok(Self { size, nodes })
    }

    /// How many leaves there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The roots of the complete subtrees, largest first.
    #[must_use]
    pub fn nodes(&self) -> &[Hash] {
        &self.nodes
    }

    /// Appends a leaf, given by its [`leaf_hash`](crate::leaf_hash). Gives the hash of the tile that it fills, if it fills one.
    pub fn push(&mut self, leaf: Hash) -> Option<Hash> {
        // Each bit that the carry of `size + 1` clears is a pair of equal subtrees becoming one.
        let mut node = leaf;
        let mut tile = None;
        for level in 1..=self.size.trailing_ones() {
            let Some(left) = self.nodes.pop() else { break };
            node = node_hash(&left, &node);
            if level == TILE_LEVEL {
                tile = Some(node);
            }
        }
        self.nodes.push(node);
        self.size += 1;
        tile
    }

    /// The root of the tree as it stands.
    #[must_use]
    pub fn root(&self) -> Hash {
        fold_root(self.nodes.iter().rev().copied())
    }
}

/// Joins the roots of complete subtrees, smallest first, into the root of the tree they make up.
pub(crate) fn fold_root(smallest_first: impl IntoIterator<Item = Hash>) -> Hash {
    smallest_first.into_iter().reduce(|right, left| node_hash(&left, &right)).unwrap_or(EMPTY_ROOT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::leaf_hash;

    #[test]
    fn parts_can_be_taken_up_again() {
        let mut frontier = Frontier::new();
        assert_eq!(frontier.root(), EMPTY_ROOT);
        for i in 0_u64..300 {
            let again = Frontier::from_parts(frontier.size(), frontier.nodes().to_vec()).unwrap();
            assert_eq!(again, frontier);
            frontier.push(leaf_hash(&i.to_be_bytes()));
            assert_eq!(frontier.nodes().len(), frontier.size().count_ones() as usize);
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let hash = leaf_hash(b"x");
        assert!(matches!(
            Frontier::from_parts(3, vec![hash]),
            Err(TreeError::WrongCount { expected: 2, found: 1, .. })
        ));
        assert!(matches!(Frontier::from_parts(0, vec![hash]), Err(TreeError::WrongCount { .. })));
        assert!(matches!(Frontier::from_parts(u64::MAX, vec![hash; 64]), Err(TreeError::TooLarge { .. })));
        assert!(Frontier::from_parts(MAX_SIZE, vec![hash; 63]).is_ok());
    }
}
