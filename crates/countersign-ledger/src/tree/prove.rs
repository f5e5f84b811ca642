//! Making proofs, from the hashes of complete subtrees.
//!
//! The order of the hashes in a proof is that of RFC 6962: from the leaf towards the root.

use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::tree::{MAX_SIZE, TreeError};

/// A source of hashes of complete subtrees.
pub trait SubtreeHashes {
    /// The hash of the complete subtree of 2^`level` leaves that is number `index` on that level, if it is at hand.
    fn subtree(&self, level: u8, index: u64) -> Option<Hash>;
}

impl<T: SubtreeHashes + ?Sized> SubtreeHashes for &T {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        (**self).subtree(level, index)
    }
}

/// The root of the first `size` leaves.
///
/// # Errors
/// If a hash that is needed is not at hand, or the size is past [`MAX_SIZE`].
pub fn root_at(size: u64, hashes: &impl SubtreeHashes) -> Result<Hash, TreeError> {
    check_size(size)?;
    range_root(0, size, hashes)
}

/// The proof that leaf `index` is in the tree of the first `size` leaves.
///
/// # Errors
/// If the leaf is not in that tree, or a hash that is needed is not at hand.
pub fn inclusion_proof(index: u64, size: u64, hashes: &impl SubtreeHashes) -> Result<Vec<Hash>, TreeError> {
    check_size(size)?;
    if index >= size {
        return Err(TreeError::OutOfRange { index, size });
    }
    let (mut low, mut high) = (0, size);
    let mut proof = Vec::new();
    while high - low > 1 {
        let middle = low + split(high - low);
        if index < middle {
            proof.push(range_root(middle, high, hashes)?);
            high = middle;
        } else {
            proof.push(range_root(low, middle, hashes)?);
            low = middle;
        }
    }
    proof.reverse();
    Ok(proof)
}

/// The proof that the tree of the first `old` leaves is a prefix of that of the first `new`.
///
/// It is empty where there is nothing to show: for an empty old tree, and for two trees of one size.
///
/// # Errors
/// If `old` is larger than `new`, or a hash that is needed is not at hand.
pub fn consistency_proof(old: u64, new: u64, hashes: &impl SubtreeHashes) -> Result<Vec<Hash>, TreeError> {
    check_size(new)?;
    if old > new {
        return Err(TreeError::NotAPrefix { old, new });
    }
    let mut proof = Vec::new();
    if old == 0 {
        return Ok(proof);
    }
    let (mut low, mut high) = (0, new);
    while old != high {
        let middle = low + split(high - low);
        if old <= middle {
            proof.push(range_root(middle, high, hashes)?);
            high = middle;
        } else {
            proof.push(range_root(low, middle, hashes)?);
            low = middle;
        }
    }
    // Where the old tree is itself a subtree on the left edge, the verifier has its root already.
    if low > 0 {
        proof.push(range_root(low, high, hashes)?);
    }
    proof.reverse();
    Ok(proof)
}

fn check_size(size: u64) -> Result<(), TreeError> {
    if size > MAX_SIZE { Err(TreeError::TooLarge { size }) } else { Ok(()) }
}

/// The largest power of two smaller than `width`, which is at least 2.
fn split(width: u64) -> u64 {
    1 << (u64::BITS - 1 - (width - 1).leading_zeros())
}

/// The hash over the leaves from `low` up to `high`, a range that the tree has as a node.
///
/// Such a range starts at a multiple of its largest power of two, so it falls into complete subtrees, one for each bit of its
/// width; they are taken from the right, the smallest first.
fn range_root(low: u64, high: u64, hashes: &impl SubtreeHashes) -> Result<Hash, TreeError> {
    let mut root = None;
    let mut end = high;
    let mut width = high - low;
    while width != 0 {
        let bit = width.trailing_zeros();
        width &= width - 1;
        end -= 1 << bit;
        let (level, index) = (bit as u8, end >> bit);
        let left = hashes.subtree(level, index).ok_or(TreeError::Missing { level, index })?;
        root = Some(root.map_or(left, |right| node_hash(&left, &right)));
    }
    Ok(root.unwrap_or(EMPTY_ROOT))
}
