//! A small gate that only logs: makes entries from a seed, appends them, and remembers what was acknowledged.
//!
//! It shares the log's own hashing and signing with the shipped code, but judges by its own memory of what it wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use countersign_engine::storage::disk::Disk;
use countersign_engine::storage::{Folder, Leaves, LogWriter, OpenOptions, OpenReport, Opened, StorageError, open};
use countersign_engine::storage::{Log as _, ReadLog as _};
use countersign_ledger::commitment::commitment;
use countersign_ledger::segment::{BatchEncoder, SALT_LEN};
use countersign_ledger::{Checkpoint, Frontier, LogKey, leaf_hash};
use ed25519_dalek::SigningKey;

use crate::disk::SplitMix;

/// Origin of the log under test.
pub const ORIGIN: &str = "gate.test/log";

/// What was written for one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The leaf; its last 32 bytes are the commitment.
    pub leaf: Vec<u8>,
    pub salt: [u8; SALT_LEN],
    pub payload: Vec<u8>,
}

/// The signing key of the log under test.
#[must_use]
pub fn signing_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// The public key of the log under test.
///
/// # Panics
/// Never: the origin is a constant that the key accepts.
#[must_use]
#[expect(clippy::expect_used, reason = "the origin is a constant")]
pub fn log_key() -> LogKey {
    LogKey::new(ORIGIN, signing_key().verifying_key()).expect("the origin is a good one")
}

/// Whether salt and payload are those whose commitment ends the leaf.
#[must_use]
pub fn payload_matches(leaf: &[u8], salt: &[u8; SALT_LEN], payload: &[u8]) -> bool {
    leaf.last_chunk::<32>() == Some(&commitment(salt, payload).0)
}

/// What the leaf of an entry that erases another begins with; the other's index follows.
const ERASES: &[u8] = b"erases: ";

/// The leaves of the workload, for the store to ask.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadLeaves;

impl Leaves for WorkloadLeaves {
    fn payload_matches(&self, leaf: &[u8], salt: &[u8; SALT_LEN], payload: &[u8]) -> bool {
        payload_matches(leaf, salt, payload)
    }

    fn named_key(&self, _: &[u8]) -> Result<Option<LogKey>, String> {
        Ok(None)
    }

    fn erases(&self, leaf: &[u8]) -> Result<Vec<u64>, String> {
        let named = leaf.strip_prefix(ERASES).and_then(|rest| rest.first_chunk());
        Ok(named.map(|index| u64::from_le_bytes(*index)).into_iter().collect())
    }

    fn check_erasable(&self, leaf: &[u8]) -> Result<(), String> {
        if leaf.starts_with(ERASES) { Err("it erases another".to_owned()) } else { Ok(()) }
    }
}

/// An entry that erases another.
#[must_use]
pub fn erasure(index: u64) -> Written {
    let (salt, payload) = ([1; SALT_LEN], b"asked for".to_vec());
    let leaf = [ERASES, &index.to_le_bytes(), &commitment(&salt, &payload).0].concat();
    Written { leaf, salt, payload }
}

/// Makes an entry from a seed. Lengths vary so that frames begin and end anywhere in a sector.
#[must_use]
pub fn written(rng: &mut SplitMix, payload_len_max: u64) -> Written {
    let mut salt = [0u8; SALT_LEN];
    salt.fill_with(|| (rng.next() & 0xff) as u8 | 1);
    let len = rng.below(payload_len_max);
    let payload: Vec<u8> = (0..len).map(|_| (rng.next() & 0xff) as u8).collect();
    let header_len = 8 + rng.below(80);
    let mut leaf: Vec<u8> = (0..header_len).map(|_| (rng.next() & 0xff) as u8).collect();
    leaf.extend_from_slice(&commitment(&salt, &payload).0);
    Written { leaf, salt, payload }
}

/// Encodes and signs one batch and moves the tree on.
///
/// # Errors
/// If an entry is longer than the format allows.
pub fn encode(
    encoder: &mut BatchEncoder,
    frontier: &mut Frontier,
    entries: &[Written],
    key: &SigningKey,
) -> Result<Vec<u8>, countersign_ledger::segment::EncodeError> {
    encoder.begin(frontier.size());
    for entry in entries {
        encoder.push_frame(&entry.leaf, &entry.salt, &entry.payload)?;
        frontier.push(leaf_hash(&entry.leaf));
    }
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: frontier.size(), root: frontier.root() };
    encoder.finish(checkpoint.sign(key).as_bytes())
}

/// What the workload knows, apart from any disk.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Entries that were acknowledged as durable.
    pub acknowledged: Vec<Written>,
    /// The batch under way, if the last append did not return `Ok`.
    pub in_flight: Vec<Written>,
    /// Entries whose erasure was acknowledged.
    pub erased: BTreeSet<u64>,
    /// Entries whose erasure was asked for and not acknowledged.
    pub erasing: BTreeSet<u64>,
}

/// An open log and the tree over it.
pub struct Session {
    pub writer: LogWriter,
    /// The tree.
    pub frontier: Frontier,
    /// What opening found.
    pub report: OpenReport,
    /// Entries as the fold saw them: leaf, and salt and payload unless erased.
    pub folded: BTreeMap<u64, (Vec<u8>, Option<Vec<u8>>)>,
    encoder: BatchEncoder,
}

impl Session {
    /// Opens the log, reading everything.
    ///
    /// # Errors
    /// Whatever the store refuses.
    pub fn open(disk: Arc<dyn Disk>, segment_bytes: u64) -> Result<Self, StorageError> {
        Self::open_from(disk, segment_bytes, Frontier::new())
    }

    /// Opens the log from a trusted tree.
    ///
    /// # Errors
    /// Whatever the store refuses.
    pub fn open_from(disk: Arc<dyn Disk>, segment_bytes: u64, start: Frontier) -> Result<Self, StorageError> {
        let key = log_key();
        let options = OpenOptions { segment_bytes, start, ..OpenOptions::new(&key, &WorkloadLeaves) };
        let (mut folded, mut erased) = (BTreeMap::new(), Vec::new());
        let opened = open(Folder::lock(disk)?, options, &mut |placed| {
            for entry in placed.entries() {
                erased.extend(WorkloadLeaves.erases(entry.leaf)?);
                folded.insert(entry.index, (entry.leaf.to_vec(), entry.payload.map(<[u8]>::to_vec)));
            }
            Ok(())
        })?;
        // As the gate does: an erasure that was entered is finished before anything else.
        opened.log.erase(&erased)?;
        for index in erased {
            folded.entry(index).and_modify(|(_, payload)| *payload = None);
        }
        let Opened { writer, frontier, report, .. } = opened;
        Ok(Self { writer, frontier, report, folded, encoder: BatchEncoder::new() })
    }

    /// Appends one batch and notes in `memory` whether it was acknowledged.
    ///
    /// # Errors
    /// Whatever the store refuses.
    pub fn append(&mut self, memory: &mut Memory, entries: Vec<Written>) -> Result<(), StorageError> {
        let mut frontier = self.frontier.clone();
        let bytes = encode(&mut self.encoder, &mut frontier, &entries, &signing_key())
            .map_err(|error| StorageError::NotNext { reason: error.to_string() })?;
        memory.in_flight = entries;
        self.writer.append(&bytes)?;
        self.frontier = frontier;
        memory.acknowledged.append(&mut memory.in_flight);
        Ok(())
    }

    /// Erases one entry, by an entry of its own as the gate does, and notes in `memory` whether that was acknowledged.
    ///
    /// # Errors
    /// Whatever the store refuses.
    pub fn erase(&mut self, memory: &mut Memory, index: u64) -> Result<(), StorageError> {
        memory.erasing.insert(index);
        self.append(memory, vec![erasure(index)])?;
        self.writer.log().erase(&[index])?;
        memory.erasing.remove(&index);
        memory.erased.insert(index);
        Ok(())
    }
}

/// Compares a freshly opened log with what was acknowledged before. On success the memory is what the log now holds.
///
/// # Errors
/// Says what is wrong: something acknowledged is lost, something half done is visible, or something erased came back.
pub fn judge(session: &Session, memory: &mut Memory) -> Result<(), String> {
    let acknowledged = memory.acknowledged.len() as u64;
    let with_tail = acknowledged + memory.in_flight.len() as u64;
    let size = session.report.size;
    if size == with_tail {
        memory.acknowledged.append(&mut memory.in_flight);
    } else if size != acknowledged {
        return Err(format!("the log has {size} entries, acknowledged {acknowledged}, with the tail {with_tail}"));
    }
    memory.in_flight.clear();
    for (index, entry) in memory.acknowledged.iter().enumerate() {
        let index = index as u64;
        let read = session.writer.log().read_entry(index).map_err(|error| error.to_string())?;
        let content = read.content.map(|(_, payload)| payload);
        if session.folded.get(&index).is_some_and(|folded| *folded != (read.leaf.clone(), content.clone())) {
            return Err(format!("entry {index} was folded as something else than is read"));
        }
        if read.leaf != entry.leaf {
            return Err(format!("entry {index} has another leaf"));
        }
        // An erasure that was begun is finished when the log is opened; one that never began leaves the payload.
        match content {
            Some(payload) if memory.erased.contains(&index) => {
                return Err(format!("entry {index} was erased and is back with {} bytes", payload.len()));
            }
            Some(payload) if payload != entry.payload => {
                return Err(format!("entry {index} has another payload"));
            }
            None if !memory.erased.contains(&index) && !memory.erasing.contains(&index) => {
                return Err(format!("the payload of entry {index} is gone"));
            }
            None => {
                memory.erased.insert(index);
            }
            Some(_) => {}
        }
    }
    memory.erasing.clear();
    Ok(())
}
