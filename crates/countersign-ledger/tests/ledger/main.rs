//! The ledger against other people's implementations, against tampering, against arbitrary input, and against its own vectors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests may panic")]

mod notes;
mod oracles;
mod rotation;
mod tampering;
mod totality;
mod vectors;

use countersign_ledger::{
    Checkpoint, Hash, LogKey, Receipt, SubtreeHashes, TileTree, inclusion_proof, leaf_hash, node_hash,
};
use ed25519_dalek::SigningKey;

const ORIGIN: &str = "example.com/gate";

fn signing_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn log_key() -> LogKey {
    LogKey::new(ORIGIN, signing_key().verifying_key()).unwrap()
}

fn leaf(index: u64) -> Vec<u8> {
    format!("entry {index}").into_bytes()
}

/// Every complete subtree, computed from the leaves in the most obvious way.
struct AllHashes(Vec<Vec<Hash>>);

impl AllHashes {
    fn of(leaves: &[Hash]) -> Self {
        let mut rows = vec![leaves.to_vec()];
        while rows.last().unwrap().len() > 1 {
            let below = rows.last().unwrap();
            rows.push(below.chunks_exact(2).map(|pair| node_hash(&pair[0], &pair[1])).collect());
        }
        Self(rows)
    }
}

impl SubtreeHashes for AllHashes {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.0.get(usize::from(level))?.get(usize::try_from(index).ok()?).copied()
    }
}

/// A small log, in memory, as a gate would write it.
struct SmallLog {
    leaves: Vec<Vec<u8>>,
    tree: TileTree,
    key: SigningKey,
}

impl SmallLog {
    fn new(size: u64) -> Self {
        Self::of((0..size).map(leaf).collect(), signing_key())
    }

    fn of(leaves: Vec<Vec<u8>>, key: SigningKey) -> Self {
        let mut tree = TileTree::new();
        leaves.iter().for_each(|leaf| tree.push(leaf_hash(leaf)));
        Self { leaves, tree, key }
    }

    fn checkpoint(&self) -> String {
        Checkpoint { origin: ORIGIN.to_owned(), size: self.tree.size(), root: self.tree.root() }.sign(&self.key)
    }

    fn receipt(&self, index: u64) -> Receipt {
        let hashes: Vec<Hash> = self.leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        Receipt {
            index,
            leaf: self.leaves[index as usize].clone(),
            proof: inclusion_proof(index, self.tree.size(), &AllHashes::of(&hashes)).unwrap(),
            checkpoint: self.checkpoint(),
        }
    }
}
