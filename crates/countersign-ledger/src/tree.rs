//! The Merkle tree of RFC 6962 as arithmetic: roots, proofs and their verification.
//!
//! Nothing here stores entries. A writer keeps a [`Frontier`] or a [`TileTree`]; anyone who wants a proof brings the hashes of the
//! complete subtrees as [`SubtreeHashes`], from memory, from tiles or from a batch.
//!
//! Verification ([`verify_inclusion`], [`verify_consistency`]) shares no code with proof making, so that a mistake in one is
//! found by the other (I7).

mod batch;
mod frontier;
mod prove;
mod tiles;
mod verify;

pub use batch::BatchProver;
pub use frontier::Frontier;
pub use prove::{SubtreeHashes, consistency_proof, inclusion_proof, root_at};
pub use tiles::{TILE_WIDTH, TileTree, TileView};
pub use verify::{MAX_PROOF_LEN, ProofError, verify_consistency, verify_inclusion};

/// The most leaves a tree may have: C2SP implementations in other languages hold sizes as signed 64-bit integers.
///
/// The bound also means that no sum of two sizes overflows here.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// Why a tree could not be put together or asked for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The size is past [`MAX_SIZE`].
    #[error("a tree of {size} leaves is larger than any log can be")]
    TooLarge {
        /// The size that was asked for.
        size: u64,
    },
    /// The number of hashes does not fit the size.
    #[error("a tree of {size} leaves has {expected} {what}, but {found} were given")]
    WrongCount {
        /// The size the parts were said to be of.
        size: u64,
        /// Which of the parts is wrong.
        what: &'static str,
        /// How many there must be.
        expected: u64,
        /// How many there were.
        found: u64,
    },
    /// The leaf is not in the tree of that size.
    #[error("leaf {index} is not in a tree of {size} leaves")]
    OutOfRange {
        /// The leaf asked about.
        index: u64,
        /// The size of the tree.
        size: u64,
    },
    /// The older of two trees has more leaves than the newer.
    #[error("a tree of {old} leaves cannot be a prefix of one of {new}")]
    NotAPrefix {
        /// The size said to be older.
        old: u64,
        /// The size said to be newer.
        new: u64,
    },
    /// The hash of a complete subtree is needed and the source does not have it.
    #[error("the hash of subtree {index} on level {level} is not at hand")]
    Missing {
        /// The level: the subtree has 2^level leaves.
        level: u8,
        /// Its number on that level.
        index: u64,
    },
    /// The leaves given for a tile do not hash to what the tree has there.
    #[error("the leaves given for tile {tile} do not hash to the tile's root in the tree")]
    WrongTile {
        /// The tile's number on level 0.
        tile: u64,
    },
}

impl TreeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::TooLarge { .. } => "the stored size is damaged, verify the log",
            Self::WrongCount { .. } => "stored tree state is damaged, rebuild it from the entries",
            Self::OutOfRange { .. } => "ask for a proof against a checkpoint newer than the entry",
            Self::NotAPrefix { .. } => "give the smaller size first",
            Self::Missing { .. } => "supply the tile that holds it",
            Self::WrongTile { .. } => "the stored entries of that tile are damaged, verify the log",
        };
        Some(hint.to_owned())
    }
}
