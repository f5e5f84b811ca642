//! The commit stage: encodes, hashes, signs and syncs what the sequencer decided, and only then publishes and answers.
//!
//! A batch is its entries and its signed checkpoint, one write and one sync (I2, I7). If the disk fails, nobody is told a
//! verdict: what was written may or may not be there, and the gate refuses everything until it is opened again.

use crate::request::{Answer, Entered, Refusal};
use crate::sequence::{Batch, Sequenced, change};
use crate::storage::{LogWriter, StorageError};
use crate::view::View;
use countersign_core::limits::EXPLAINED_BYTES_MAX;
use countersign_core::record::{Encoder, Entry, Event};
use countersign_core::value::Attributes;
use countersign_ledger::checkpoint::Checkpoint;
use countersign_ledger::commitment::commitment;
use countersign_ledger::hash::{Hash, leaf_hash};
use countersign_ledger::receipt::Receipt;
use countersign_ledger::segment::{BATCH_BYTES_MAX, BatchEncoder, EncodeError, LEAF_BYTES_MAX};
use countersign_ledger::tree::{BatchProver, Frontier};
use ed25519_dalek::SigningKey;
use parking_lot::RwLock;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::Rng as _;
use std::sync::Arc;

/// The commit stage.
pub struct Committer {
    log: LogWriter,
    frontier: Frontier,
    origin: String,
    key: SigningKey,
    view: Arc<RwLock<View>>,
    random: ChaCha12Rng,
    payloads: Encoder,
    leaves: Encoder,
    batch: BatchEncoder,
    salts: Vec<u8>,
    bytes: u64,
}

/// Why a batch could not be made durable.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An entry does not fit the format.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// What proves the entries of one batch. Proofs are worked out only when somebody asks for one.
#[derive(Debug)]
pub struct BatchProof {
    prover: BatchProver,
    first_index: u64,
    commitments: Vec<Hash>,
    checkpoint: Arc<str>,
}

/// What proves a batch that was stored, and its leaf hashes.
type Stored = (BatchProof, Arc<[Hash]>);

impl BatchProof {
    /// The receipt of an entry of the batch.
    pub fn receipt(&self, entry: &Entry) -> Option<Receipt> {
        let at = usize::try_from(entry.index.checked_sub(self.first_index)?).ok()?;
        let commitment = self.commitments.get(at)?;
        let leaf = Encoder::default().leaf(entry, &commitment.0).as_bytes().to_vec();
        let proof = self.prover.inclusion_proof(entry.index).ok()?;
        Some(Receipt { index: entry.index, leaf, proof, checkpoint: self.checkpoint.to_string() })
    }
}

impl Committer {
    /// A commit stage that goes on from the end of a log.
    pub fn new(
        log: LogWriter,
        frontier: Frontier,
        origin: String,
        key: SigningKey,
        view: Arc<RwLock<View>>,
        random: ChaCha12Rng,
    ) -> Self {
        Self {
            log,
            frontier,
            origin,
            key,
            view,
            random,
            payloads: Encoder::default(),
            leaves: Encoder::default(),
            batch: BatchEncoder::new(),
            salts: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes written to the log since it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The log it writes.
    pub fn log(&self) -> &LogWriter {
        &self.log
    }

    /// Makes a batch durable, publishes it and answers. On an error everybody waiting is told, and no verdict is given.
    pub fn commit(&mut self, batch: Batch) -> Result<(), CommitError> {
        let Batch { entries, answers, clock_step } = batch;
        let mut rest = entries;
        while !rest.is_empty() {
            // Usually all of them: only a batch of very large entries is made durable in several steps.
            let later = rest.split_off(fitting(&rest));
            if let Err(error) = self.commit_some(rest, clock_step.is_some()) {
                let refusal = Refusal::Poisoned(error.to_string());
                let waiting = later.into_iter().filter_map(|sequenced| sequenced.reply);
                for reply in waiting.chain(answers.into_iter().map(|(reply, _)| reply)) {
                    reply(Err(refusal.clone()));
                }
                return Err(error);
            }
            rest = later;
        }
        for (reply, answer) in answers {
            reply(answer.map(Answer::Repeated));
        }
        Ok(())
    }

    fn commit_some(&mut self, entries: Vec<Sequenced>, clock_stepped: bool) -> Result<(), CommitError> {
        match self.store(&entries) {
            Ok(Some((proof, leaves))) => {
                let proof = Arc::new(proof);
                self.publish(&entries, &leaves, &proof, clock_stepped);
                for Sequenced { entry, reply, .. } in entries {
                    if let Some(reply) = reply {
                        reply(Ok(Answer::Entered(Entered { entry, proof: Arc::clone(&proof) })));
                    }
                }
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                for reply in entries.into_iter().filter_map(|sequenced| sequenced.reply) {
                    reply(Err(Refusal::Poisoned(error.to_string())));
                }
                Err(error)
            }
        }
    }

    fn store(&mut self, entries: &[Sequenced]) -> Result<Option<Stored>, CommitError> {
        let Some(first) = entries.first() else { return Ok(None) };
        let before = self.frontier.clone();
        let first_index = first.entry.index;
        let mut leaves = Vec::with_capacity(entries.len());
        let mut commitments = Vec::with_capacity(entries.len());
        self.batch.begin(first_index);
        self.salts.resize(entries.len() * 32, 0);
        self.random.fill_bytes(&mut self.salts);
        let (salts, _) = self.salts.as_chunks::<32>();
        for (Sequenced { entry, .. }, salt) in entries.iter().zip(salts) {
            let payload = self.payloads.payload(entry).as_bytes();
            let committed = commitment(salt, payload);
            let leaf = self.leaves.leaf(entry, &committed.0).as_bytes();
            let hash = leaf_hash(leaf);
            self.batch.push_frame(leaf, salt, payload)?;
            self.frontier.push(hash);
            leaves.push(hash);
            commitments.push(committed);
        }
        let checkpoint =
            Checkpoint { origin: self.origin.clone(), size: self.frontier.size(), root: self.frontier.root() };
        let note: Arc<str> = checkpoint.sign(&self.key).into();
        let bytes = self.batch.finish(note.as_bytes())?;
        self.log.append(bytes)?;
        self.bytes += bytes.len() as u64;
        for Sequenced { entry, .. } in entries {
            // An erasure is done as soon as it is decided: before anybody is told, and before any later snapshot.
            if let Event::Erasure { entries, .. } = &entry.event {
                self.log.log().erase(entries)?;
            }
        }
        let leaves: Arc<[Hash]> = leaves.into();
        let prover = BatchProver::new(before, Arc::clone(&leaves));
        Ok(Some((BatchProof { prover, first_index, commitments, checkpoint: note }, leaves)))
    }

    /// Shows readers what is now durable, in one step.
    fn publish(&mut self, entries: &[Sequenced], leaves: &[Hash], proof: &BatchProof, clock_stepped: bool) {
        let mut view = self.view.write();
        for Sequenced { entry, facts, published, .. } in entries {
            for fact in facts {
                view.state.put(Arc::clone(fact));
            }
            view.state.charge(&change(entry));
            if let Some(published) = published {
                view.state.publish(Arc::clone(&published.pact), Arc::clone(&published.catalogue));
            }
            view.position = entry.index + 1;
            view.time_ms = entry.time_ms;
        }
        for leaf in leaves {
            view.tree.push(*leaf);
        }
        view.checkpoint = Arc::clone(&proof.checkpoint);
        view.clock_stepped = clock_stepped;
    }

    /// Ends cleanly.
    pub fn close(self) -> Result<(), StorageError> {
        self.log.close()
    }
}

/// Most bytes that a batch on disk is meant to have: a quarter of what its format takes.
const BATCH_BYTES: usize = BATCH_BYTES_MAX / 4;

/// How many entries from the front fit one batch on disk; at least one.
fn fitting(entries: &[Sequenced]) -> usize {
    let mut bytes = 0_usize;
    let fits = |sequenced: &&Sequenced| {
        let values = sequenced.entry.event.writes().iter().filter_map(|write| write.value.as_ref());
        let values: usize = values.map(Attributes::bytes_bound).sum();
        let rest = match &sequenced.entry.event {
            // A control character takes six bytes; what was observed came within the body.
            Event::Action(decided) => {
                let blocked = decided.decision.blocked().or(decided.decision.shadowed.as_ref());
                let explained = blocked.is_some_and(|blocked| !blocked.failed.is_empty());
                let explained = if explained { EXPLAINED_BYTES_MAX } else { 0 };
                decided.action.body.len().saturating_mul(6).saturating_add(explained)
            }
            Event::Pact { source, .. } => source.len().saturating_mul(6),
            Event::Erasure { .. } => LEAF_BYTES_MAX,
            _ => 0,
        };
        let auth = sequenced.entry.auth.bytes_bound();
        bytes = bytes.saturating_add(values).saturating_add(rest).saturating_add(auth);
        bytes <= BATCH_BYTES
    };
    entries.iter().take_while(fits).count().max(1)
}
