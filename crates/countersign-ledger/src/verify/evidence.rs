//! Evidence that somebody kept, and what the log must look like to agree with it.
//!
//! Evidence is checked against the log's keys when it is made, so that a forged receipt accuses nobody: whatever is compared with the
//! log was signed by the log.

use crate::checkpoint::{Checkpoint, CheckpointError, KeyChain};
use crate::hash::{Hash, leaf_hash};
use crate::receipt::{Receipt, ReceiptError};

/// A checkpoint or receipt of the log, kept by somebody outside, whose signature has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    name: String,
    checkpoint: Checkpoint,
    entry: Option<(u64, Hash)>,
}

impl Evidence {
    /// A checkpoint as evidence. The name is what messages call it, such as the name of its file.
    ///
    /// # Errors
    /// If the checkpoint is not one of this log, signed by the key that it had then.
    pub fn checkpoint(name: &str, note: &str, keys: &KeyChain) -> Result<Self, CheckpointError> {
        Ok(Self { name: name.to_owned(), checkpoint: keys.open(note)?, entry: None })
    }

    /// A receipt as evidence, for its entry and for its checkpoint.
    ///
    /// # Errors
    /// If the receipt does not hold by itself.
    pub fn receipt(name: &str, receipt: &Receipt, keys: &KeyChain) -> Result<Self, ReceiptError> {
        let checkpoint = receipt.verify_in(keys)?;
        Ok(Self { name: name.to_owned(), checkpoint, entry: Some((receipt.index, leaf_hash(&receipt.leaf))) })
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first entry that must not have been passed for the evidence to be of use.
    pub(super) fn first_entry(&self) -> u64 {
        self.entry.map_or(self.checkpoint.size.saturating_sub(1), |(index, _)| index)
    }
}

/// Evidence in the order in which the log comes to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Expectations {
    /// By size, the largest first, so that the next one is at the end.
    by_size: Vec<Evidence>,
    /// Receipts by the index of their entry, likewise.
    by_entry: Vec<(u64, Hash, String)>,
    count: usize,
}

impl Expectations {
    pub fn add(&mut self, evidence: Vec<Evidence>) {
        self.count += evidence.len();
        for evidence in evidence {
            if let Some((index, hash)) = evidence.entry {
                self.by_entry.push((index, hash, evidence.name.clone()));
            }
            // Every log begins empty: a checkpoint of no entries says nothing that could be compared.
            if evidence.checkpoint.size > 0 {
                self.by_size.push(evidence);
            }
        }
        self.by_entry.sort_by_key(|(index, ..)| std::cmp::Reverse(*index));
        self.by_size.sort_by_key(|evidence| std::cmp::Reverse(evidence.checkpoint.size));
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// A receipt that has another leaf at this index.
    pub fn entry_conflict(&mut self, index: u64, found: &Hash) -> Option<(String, Hash)> {
        while let Some((_, expected, name)) = self.by_entry.pop_if(|(entry, ..)| *entry <= index) {
            if expected != *found {
                return Some((name, expected));
            }
        }
        None
    }

    /// Whether there is evidence of the log at this size.
    pub fn reached(&self, size: u64) -> bool {
        self.by_size.last().is_some_and(|evidence| evidence.checkpoint.size <= size)
    }

    /// Evidence of another root at this size.
    pub fn root_conflict(&mut self, size: u64, found: &Hash) -> Option<(String, Hash)> {
        while let Some(evidence) = self.by_size.pop_if(|evidence| evidence.checkpoint.size <= size) {
            if evidence.checkpoint.root != *found {
                return Some((evidence.name, evidence.checkpoint.root));
            }
        }
        None
    }

    /// Evidence of a log longer than this: the longest of it.
    pub fn beyond(&self, size: u64) -> Option<(String, u64)> {
        let longest = self.by_size.first().filter(|evidence| evidence.checkpoint.size > size)?;
        Some((longest.name.clone(), longest.checkpoint.size))
    }
}
