//! Roots and proofs against `tlog_tiles` and `ct-merkle`, and wrong proofs against refusal.

use countersign_ledger::{
    EMPTY_ROOT, Frontier, Hash, consistency_proof, inclusion_proof, leaf_hash, root_at, verify_consistency,
    verify_inclusion,
};
use ct_merkle::mem_backed_tree::MemoryBackedTree;
use proptest::prelude::*;
use sha2::Sha256;

use crate::{AllHashes, leaf};

/// Every size up to this is compared with every other.
const EXHAUSTIVE: u64 = 130;

type OtherTree = MemoryBackedTree<Sha256, Vec<u8>>;

/// The store of hashes that `tlog_tiles` reads from.
#[derive(Default)]
struct Stored(Vec<tlog_tiles::Hash>);

impl tlog_tiles::HashReader for Stored {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<tlog_tiles::Hash>, tlog_tiles::Error> {
        Ok(indexes.iter().map(|index| self.0[*index as usize]).collect())
    }
}

fn stored(size: u64) -> Stored {
    let mut stored = Stored::default();
    for index in 0..size {
        let hashes = tlog_tiles::stored_hashes(index, &leaf(index), &stored).unwrap();
        stored.0.extend(hashes);
    }
    stored
}

fn theirs(hash: &Hash) -> tlog_tiles::Hash {
    tlog_tiles::Hash(hash.0)
}

fn all_theirs(hashes: &[Hash]) -> Vec<tlog_tiles::Hash> {
    hashes.iter().map(theirs).collect()
}

fn bytes(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

fn leaf_hashes(size: u64) -> Vec<Hash> {
    (0..size).map(|index| leaf_hash(&leaf(index))).collect()
}

/// The roots of all trees up to this size.
fn roots(leaves: &[Hash]) -> Vec<Hash> {
    let mut frontier = Frontier::new();
    let mut roots = vec![frontier.root()];
    for leaf in leaves {
        frontier.push(*leaf);
        roots.push(frontier.root());
    }
    roots
}

#[test]
fn the_known_trees_of_certificate_transparency() {
    let leaves = [b"".as_slice(), b"\x00", b"\x10", b" !", b"01", b"@ABC", b"PQRSTUVW", b"`abcdefghijklmno"];
    let roots = roots(&leaves.map(leaf_hash));
    assert_eq!(roots[0], EMPTY_ROOT);
    assert_eq!(roots[1].to_string(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    assert_eq!(roots[2].to_string(), "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125");
    assert_eq!(roots[3].to_string(), "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77");
    assert_eq!(roots[8].to_string(), "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328");
}

#[test]
fn roots_and_inclusion_proofs_agree_for_all_sizes() {
    let (leaves, stored) = (leaf_hashes(EXHAUSTIVE), stored(EXHAUSTIVE));
    let (roots, hashes) = (roots(&leaves), AllHashes::of(&leaves));
    let mut other = OtherTree::new();
    for size in 1..=EXHAUSTIVE {
        other.push(leaf(size - 1));
        let root = roots[size as usize];
        assert_eq!(root_at(size, &hashes).unwrap(), root);
        assert_eq!(tlog_tiles::tree_hash(size, &stored).unwrap(), theirs(&root));
        assert_eq!(other.root().as_bytes().as_slice(), root.0);
        for index in 0..size {
            let proof = inclusion_proof(index, size, &hashes).unwrap();
            assert_eq!(tlog_tiles::prove_record(size, index, &stored).unwrap(), all_theirs(&proof));
            assert_eq!(other.prove_inclusion(index as usize).as_bytes(), bytes(&proof));
            verify_inclusion(&leaves[index as usize], index, size, &proof, &root).unwrap();
        }
    }
}

#[test]
fn consistency_proofs_agree_for_all_pairs_of_sizes() {
    let (leaves, stored) = (leaf_hashes(EXHAUSTIVE), stored(EXHAUSTIVE));
    let (roots, hashes) = (roots(&leaves), AllHashes::of(&leaves));
    let mut other = OtherTree::new();
    for new in 1..=EXHAUSTIVE {
        other.push(leaf(new - 1));
        for old in 0..=new {
            let proof = consistency_proof(old, new, &hashes).unwrap();
            if old > 0 {
                assert_eq!(tlog_tiles::prove_tree(new, old, &stored).unwrap(), all_theirs(&proof));
                assert_eq!(other.prove_consistency((new - old) as usize).as_bytes(), bytes(&proof));
            }
            verify_consistency(old, &roots[old as usize], new, &roots[new as usize], &proof).unwrap();
        }
    }
}

/// All ways to spoil a proof by one step.
fn spoiled(proof: &[Hash]) -> Vec<Vec<Hash>> {
    let mut all: Vec<Vec<Hash>> = (0..proof.len())
        .flat_map(|at| {
            let mut flipped = proof.to_vec();
            flipped[at].0[at % 32] ^= 1;
            let mut dropped = proof.to_vec();
            dropped.remove(at);
            let mut doubled = proof.to_vec();
            doubled.insert(at, proof[at]);
            [flipped, dropped, doubled]
        })
        .collect();
    all.push([proof, &[EMPTY_ROOT]].concat());
    if proof.len() > 1 {
        let mut swapped = proof.to_vec();
        swapped.swap(0, 1);
        all.push(swapped);
    }
    all
}

#[test]
fn wrong_inclusion_proofs_are_refused() {
    let leaves = leaf_hashes(EXHAUSTIVE);
    let (roots, hashes) = (roots(&leaves), AllHashes::of(&leaves));
    for size in [1, 2, 3, 5, 7, 8, 9, 64, 65, 100, 127, 128, 129] {
        let root = &roots[size as usize];
        for index in 0..size {
            let proof = inclusion_proof(index, size, &hashes).unwrap();
            let leaf = &leaves[index as usize];
            for wrong in spoiled(&proof) {
                assert!(verify_inclusion(leaf, index, size, &wrong, root).is_err(), "{index} of {size}: {wrong:?}");
            }
            for other in (0..size + 2).filter(|other| *other != index) {
                assert!(verify_inclusion(leaf, other, size, &proof, root).is_err(), "{index} as {other} of {size}");
            }
            for other in (0..size + 5).filter(|other| *other != size) {
                // A proof can fit several sizes, so a size is only ever taken from a signed checkpoint, together with the root.
                // What must hold is that no size is accepted with its own root, and that we accept what others accept.
                let other_root = roots.get(other as usize).unwrap_or(&EMPTY_ROOT);
                assert!(verify_inclusion(leaf, index, other, &proof, other_root).is_err());
                let accepted = verify_inclusion(leaf, index, other, &proof, root).is_ok();
                let theirs = index < other
                    && tlog_tiles::check_record(&all_theirs(&proof), other, theirs(root), index, theirs(leaf)).is_ok();
                assert_eq!(accepted, theirs, "{index} of {size} as of {other}");
            }
            assert!(verify_inclusion(root, index, size, &proof, leaf).is_err() || size == 1);
        }
    }
}

#[test]
fn wrong_consistency_proofs_are_refused() {
    let leaves = leaf_hashes(EXHAUSTIVE);
    let (roots, hashes) = (roots(&leaves), AllHashes::of(&leaves));
    for new in [1, 2, 3, 6, 7, 8, 9, 33, 64, 65, 100, 128, 130_u64] {
        let new_root = &roots[new as usize];
        for old in 0..=new {
            let old_root = &roots[old as usize];
            let proof = consistency_proof(old, new, &hashes).unwrap();
            for wrong in spoiled(&proof) {
                assert!(verify_consistency(old, old_root, new, new_root, &wrong).is_err(), "{old} to {new}: {wrong:?}");
            }
            for other in (0..=new).filter(|other| *other != old) {
                let root = &roots[other as usize];
                let refused =
                    |old, old_root, new_root| verify_consistency(old, old_root, new, new_root, &proof).is_err();
                assert!(refused(old, root, new_root), "root of {other} as {old} in {new}");
                // The empty proof is the right one for the empty tree and for the tree itself.
                let nothing_to_show = proof.is_empty() && (other == 0 || other == new);
                assert!(refused(other, root, new_root) || nothing_to_show, "{other} for {old}");
                assert!(refused(old, old_root, root) || old == 0 || other == new, "{other} for {new}");
            }
            assert!(old == new || verify_consistency(new, new_root, old, old_root, &proof).is_err());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn larger_trees_agree(size in 1_u64..5000, seed in any::<u64>()) {
        let (leaves, stored) = (leaf_hashes(size), stored(size));
        let (roots, hashes) = (roots(&leaves), AllHashes::of(&leaves));
        let (index, old) = (seed % size, seed / 7 % size + 1);
        let root = &roots[size as usize];
        prop_assert_eq!(tlog_tiles::tree_hash(size, &stored).unwrap(), theirs(root));
        let proof = inclusion_proof(index, size, &hashes).unwrap();
        prop_assert_eq!(tlog_tiles::prove_record(size, index, &stored).unwrap(), all_theirs(&proof));
        prop_assert!(verify_inclusion(&leaves[index as usize], index, size, &proof, root).is_ok());
        let proof = consistency_proof(old, size, &hashes).unwrap();
        prop_assert_eq!(tlog_tiles::prove_tree(size, old, &stored).unwrap(), all_theirs(&proof));
        prop_assert!(verify_consistency(old, &roots[old as usize], size, root, &proof).is_ok());
    }
}
