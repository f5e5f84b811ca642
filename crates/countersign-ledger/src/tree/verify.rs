//! Checking proofs: what a person with a checkpoint and nothing else runs.
//!
//! Both functions walk from the leaf to the root as RFC 9162 (sections 2.1.3.2 and 2.1.4.2) describes. They take any input:
//! a proof is only ever accepted or refused.

use crate::hash::{EMPTY_ROOT, Hash, node_hash};

/// No proof in a tree of at most 2^64 leaves is longer: 64 levels, and one more hash for the seed of a consistency proof.
pub const MAX_PROOF_LEN: usize = 65;

/// Why a proof was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The leaf cannot be in a tree of that size.
    #[error("leaf {index} is not in a tree of {size} leaves")]
    OutOfRange {
        /// The leaf the proof is about.
        index: u64,
        /// The size of the tree.
        size: u64,
    },
    /// The older tree is the larger one.
    #[error("a tree of {old} leaves cannot be a prefix of one of {new}")]
    NotAPrefix {
        /// The size said to be older.
        old: u64,
        /// The size said to be newer.
        new: u64,
    },
    /// The proof has too many or too few hashes for those sizes.
    #[error("the proof has {found} hashes, which is not what these sizes need")]
    WrongLength {
        /// How many hashes the proof has.
        found: usize,
    },
    /// The proof leads to another root.
    #[error("the proof leads to root {found}, but the {which} root is {expected}")]
    WrongRoot {
        /// Which root: of the tree, or of the old or new one.
        which: &'static str,
        /// The root that was given.
        expected: Hash,
        /// The root that the proof leads to.
        found: Hash,
    },
}

impl ProofError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::OutOfRange { .. } => "the checkpoint is older than the entry",
            Self::NotAPrefix { .. } => "the log has been cut, or the two were swapped",
            Self::WrongLength { .. } => "it was made for another tree size or cut short",
            Self::WrongRoot { .. } => "the entry, the proof or the log was altered",
        };
        Some(hint.to_owned())
    }
}

/// Checks that the leaf with this hash is number `index` in the tree of `size` leaves with this root.
///
/// # Errors
/// If the proof does not show that.
pub fn verify_inclusion(leaf: &Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::OutOfRange { index, size });
    }
    let wrong_length = ProofError::WrongLength { found: proof.len() };
    let (mut node, mut last) = (index, size - 1);
    let mut found = *leaf;
    for sibling in proof {
        if last == 0 {
            return Err(wrong_length);
        }
        if node & 1 == 1 || node == last {
            found = node_hash(sibling, &found);
            (node, last) = skip_lone_levels(node, last);
        } else {
            found = node_hash(&found, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    if last != 0 {
        return Err(wrong_length);
    }
    same_root("given", root, &found)
}

/// Checks that the tree of `old` leaves with root `old_root` is a prefix of that of `new` leaves with root `new_root`.
///
/// # Errors
/// If the proof does not show that.
pub fn verify_consistency(
    old: u64,
    old_root: &Hash,
    new: u64,
    new_root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if old > new {
        return Err(ProofError::NotAPrefix { old, new });
    }
    let wrong_length = ProofError::WrongLength { found: proof.len() };
    if old == 0 || old == new {
        if !proof.is_empty() {
            return Err(wrong_length);
        }
        return if old == new { same_root("new", new_root, old_root) } else { same_root("old", old_root, &EMPTY_ROOT) };
    }
    // An old tree of 2^n leaves is a node of the new one, and its root stands in for the first hash of the proof.
    let (seed, rest) =
        if old.is_power_of_two() { (old_root, proof) } else { proof.split_first().ok_or(wrong_length)? };
    let shared_levels = (old - 1).trailing_ones();
    let (mut node, mut last) = ((old - 1) >> shared_levels, (new - 1) >> shared_levels);
    let (mut found_old, mut found_new) = (*seed, *seed);
    for hash in rest {
        if last == 0 {
            return Err(wrong_length);
        }
        if node & 1 == 1 || node == last {
            found_old = node_hash(hash, &found_old);
            found_new = node_hash(hash, &found_new);
            (node, last) = skip_lone_levels(node, last);
        } else {
            found_new = node_hash(&found_new, hash);
        }
        node >>= 1;
        last >>= 1;
    }
    if last != 0 {
        return Err(wrong_length);
    }
    same_root("old", old_root, &found_old)?;
    same_root("new", new_root, &found_new)
}

/// A node on the right edge without a sibling is its own parent: passes over those levels, up to the one where it is a right
/// child (or the root).
fn skip_lone_levels(node: u64, last: u64) -> (u64, u64) {
    if node == 0 {
        return (node, last);
    }
    let levels = node.trailing_zeros();
    (node >> levels, last >> levels)
}

fn same_root(which: &'static str, expected: &Hash, found: &Hash) -> Result<(), ProofError> {
    if expected == found { Ok(()) } else { Err(ProofError::WrongRoot { which, expected: *expected, found: *found }) }
}
