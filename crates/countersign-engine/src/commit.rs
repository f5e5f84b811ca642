//! The commit stage: encodes, hashes and signs what the sequencer decided, syncs it, and only then publishes and answers.
//!
//! A batch is its entries and its signed checkpoint, one write and one sync (I2, I7). If the disk fails, nobody is told a
//! verdict: what was written may or may not be there, and the gate refuses everything until it is opened again.
//!
//! It has two halves, so that one batch can be encoded while the one before is synced: [`EncodeStage`] and [`StoreStage`]. A
//! [`Committer`] is both, one after the other.

mod encode;
mod store;

pub use encode::{EncodeStage, Encoded, GROUP_BYTES_MAX};
pub use store::StoreStage;

use crate::request::Refusal;
use crate::sequence::Batch;
use crate::storage::{Log, StorageError};
use countersign_core::record::{Encoder, Entry};
use countersign_ledger::hash::Hash;
use countersign_ledger::receipt::Receipt;
use countersign_ledger::segment::EncodeError;
use countersign_ledger::tree::BatchProver;
use std::sync::Arc;

/// Both halves of the commit stage.
pub struct Committer {
    /// Encodes, hashes and signs.
    pub encode: EncodeStage,
    /// Syncs, publishes and answers.
    pub store: StoreStage,
}

/// Why a batch could not be made durable.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The store failed.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// An entry does not fit the format.
    #[error("{0}")]
    Encode(#[from] EncodeError),
    /// A rotation names a key that the gate does not hold.
    #[error("entry {0} names a key that the gate does not hold")]
    NextKey(u64),
}

impl CommitError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NextKey(..) => "this is a defect in the caller",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// What proves the entries of one batch. Proofs are worked out only when somebody asks for one.
#[derive(Debug)]
pub struct BatchProof {
    prover: BatchProver,
    first_index: u64,
    commitments: Vec<Hash>,
    checkpoint: Arc<str>,
}

impl BatchProof {
    /// The receipt of an entry of the batch.
    pub fn receipt(&self, entry: &Entry) -> Option<Receipt> {
        let at = usize::try_from(entry.index.checked_sub(self.first_index)?).ok()?;
        let commitment = self.commitments.get(at)?;
        let leaf = Encoder::default().leaf(entry, &commitment.0).to_vec();
        let proof = self.prover.inclusion_proof(entry.index).ok()?;
        Some(Receipt { index: entry.index, leaf, proof, checkpoint: self.checkpoint.to_string() })
    }
}

impl Committer {
    /// The log it writes.
    pub fn log(&self) -> &Arc<dyn Log> {
        self.store.log()
    }

    /// Makes a batch durable, publishes it and answers. On an error everybody waiting is told, and no verdict is given.
    pub fn commit(&mut self, batch: Batch) -> Result<(), CommitError> {
        for encoded in self.encode.encode(batch)? {
            self.store.store(encoded)?;
        }
        Ok(())
    }

    /// Ends cleanly.
    pub fn close(self) -> Result<(), StorageError> {
        self.store.close()
    }
}

impl From<&CommitError> for Refusal {
    fn from(error: &CommitError) -> Self {
        match error {
            // Nothing of it was written, and nothing will be.
            CommitError::Storage(StorageError::NoRoom { .. }) => Self::Closed,
            error => Self::Poisoned(error.to_string()),
        }
    }
}
