//! Proving the entries of one batch after the fact, without the tree.
//!
//! A writer answers a batch with receipts, most of which no one will read. So it keeps only what a proof would need: the
//! frontier before the batch and the batch's leaf hashes. The hashes between them are computed when the first proof is asked for.

use std::sync::{Arc, OnceLock};

use crate::hash::Hash;
use crate::tree::prove::inclusion_proof;
use crate::tree::tiles::pair_up;
use crate::tree::{Frontier, MAX_SIZE, SubtreeHashes, TreeError};

/// What is needed to prove the leaves of one batch against the tree as it was just after that batch.
#[derive(Debug)]
pub struct BatchProver {
    before: Frontier,
    leaves: Arc<[Hash]>,
    /// For each level the complete subtrees that the batch completed, with the number of the first.
    rows: OnceLock<Vec<(u64, Vec<Hash>)>>,
}

impl BatchProver {
    /// The prover for `leaves`, which were appended to the tree `before`.
    #[must_use]
    pub fn new(before: Frontier, leaves: Arc<[Hash]>) -> Self {
        Self { before, leaves, rows: OnceLock::new() }
    }

    /// The size of the tree just after the batch: proofs are against this size.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.before.size().saturating_add(self.leaves.len() as u64)
    }

    /// The proof that leaf `index` of the log, which must be one of the batch, is in the tree of [`BatchProver::size`] leaves.
    ///
    /// # Errors
    /// If the leaf is not in the batch.
    pub fn inclusion_proof(&self, index: u64) -> Result<Vec<Hash>, TreeError> {
        if index < self.before.size() || self.size() > MAX_SIZE {
            return Err(TreeError::OutOfRange { index, size: self.size() });
        }
        inclusion_proof(index, self.size(), self)
    }

    fn rows(&self) -> &[(u64, Vec<Hash>)] {
        self.rows.get_or_init(|| {
            let mut edge = self.before.nodes().iter().rev().copied();
            let mut rows = vec![(self.before.size(), self.leaves.to_vec())];
            while let Some((first, below)) = rows.last() {
                // An odd first one is a right child. Its sibling lies before the batch, and is the next on the frontier: the
                // number of the first is the size shifted, so it is odd where the size has a bit, as the frontier has a node.
                let sibling = if first % 2 == 1 { edge.next() } else { None };
                let row = pair_up(&sibling.into_iter().chain(below.iter().copied()).collect::<Vec<_>>());
                if row.is_empty() {
                    break;
                }
                let first = first / 2;
                rows.push((first, row));
            }
            rows
        })
    }

    /// A complete subtree that ends before the batch, if it is one of those on the frontier.
    fn before(&self, level: u8, index: u64) -> Option<Hash> {
        let size = self.before.size();
        let larger = size.checked_shr(u32::from(level))?;
        // The subtree on this level that is on the frontier is the last one, and only if the level's bit is set.
        let on_frontier = larger & 1 == 1 && index == larger - 1;
        let position = on_frontier.then(|| (larger >> 1).count_ones())?;
        self.before.nodes().get(position as usize).copied()
    }
}

impl SubtreeHashes for BatchProver {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.before(level, index).or_else(|| {
            let (first, row) = self.rows().get(usize::from(level))?;
            row.get(usize::try_from(index.checked_sub(*first)?).ok()?).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::leaf_hash;
    use crate::tree::verify_inclusion;

    #[test]
    fn every_leaf_of_every_batch_is_proved() {
        let mut before = Frontier::new();
        for start in 0_u64..70 {
            for count in [1_u64, 2, 3, 7, 8, 33, 64, 100] {
                let leaves: Vec<Hash> = (start..start + count).map(|i| leaf_hash(&i.to_be_bytes())).collect();
                let mut after = before.clone();
                leaves.iter().for_each(|leaf| _ = after.push(*leaf));
                let prover = BatchProver::new(before.clone(), leaves.clone().into());
                assert_eq!(prover.size(), after.size());
                for index in start..start + count {
                    let proof = prover.inclusion_proof(index).unwrap();
                    let leaf = &leaves[(index - start) as usize];
                    verify_inclusion(leaf, index, after.size(), &proof, &after.root()).unwrap();
                }
                assert!(prover.inclusion_proof(start + count).is_err());
                assert!(start == 0 || prover.inclusion_proof(start - 1).is_err());
            }
            before.push(leaf_hash(&start.to_be_bytes()));
        }
    }
}
