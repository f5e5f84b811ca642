//! Pure log mathematics of Countersign: leaves, tree, proofs, checkpoints, receipts, offline verification.
//!
//! Everything here is a function of its arguments. Nothing in this crate opens a file, reads a clock, holds a key longer than
//! the call that was given one, or knows what a pact is. That is what lets the same code run in the writer, in the offline
//! verifier and in someone else's program, and it is what I7 rests on: anyone who holds a later checkpoint or receipt and the
//! log's public key can find any edit, gap, reorder or truncation without trusting the gate.
//!
//! The formats are those of C2SP (tlog-tiles, tlog-checkpoint, signed-note, tlog-proof) over the tree of RFC 6962, so that
//! existing clients and witnesses can read the log. `docs/formats/log.md` has the bytes, `vectors/ledger.json` has examples.
//!
//! Every decoder is total: arbitrary input gives a value or an error, never a panic, and never allocates more than a small
//! multiple of the input's own length.
#![warn(missing_docs)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "tests may panic"
    )
)]

pub mod checkpoint;
pub mod commitment;
pub mod hash;
pub mod receipt;
pub mod segment;
pub mod tile;
pub mod tree;
pub mod verify;

pub use checkpoint::{Checkpoint, CheckpointError, KeyChain, KeyError, LogKey};
pub use commitment::commitment;
pub use hash::{EMPTY_ROOT, Hash, leaf_hash, node_hash};
pub use receipt::{Receipt, ReceiptError};
pub use tile::{
    BundleError, PathError, TileRef, decode_bundle, decode_tile, encode_bundle, encode_tile, entries_path, parse_path,
    tile_path,
};
pub use tree::{
    BatchProver, Frontier, ProofError, SubtreeHashes, TileTree, TreeError, consistency_proof, inclusion_proof, root_at,
    verify_consistency, verify_inclusion,
};
pub use verify::{Broken, Evidence, LogVerifier, Place, Summary};
