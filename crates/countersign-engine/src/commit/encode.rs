//! The first half of the commit stage: from decisions to the bytes of a batch, with everything that proves them.

use super::{BatchProof, CommitError};
use crate::log_key::LogKeys;
use crate::request::{Refusal, Reply};
use crate::sequence::{Batch, Sequenced};
use countersign_core::decision::{Decision, InFlight, Verdict};
use countersign_core::limits::{CHAIN_BYTES_MAX, EXPLAINED_BYTES_MAX};
use countersign_core::record::{Encoder, Event};
use countersign_core::value::Attributes;
use countersign_ledger::checkpoint::Checkpoint;
use countersign_ledger::commitment::commitment;
use countersign_ledger::hash::{Hash, leaf_hash};
use countersign_ledger::segment::{BATCH_BYTES_MAX, BatchEncoder, LEAF_BYTES_MAX};
use countersign_ledger::tree::{BatchProver, Frontier};
use ed25519_dalek::SigningKey;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::Rng as _;
use std::sync::Arc;

/// Encodes, hashes and signs.
pub struct EncodeStage {
    frontier: Frontier,
    origin: String,
    /// The key that signs the next batch; where a rotation is under way, ahead of the shared one.
    key: SigningKey,
    keys: Arc<LogKeys>,
    random: ChaCha12Rng,
    payloads: Encoder,
    leaves: Encoder,
    batch: BatchEncoder,
    salts: Vec<u8>,
}

/// A batch in bytes, and who waits for it.
#[derive(Default)]
pub struct Encoded {
    /// What goes to disk.
    pub(super) bytes: Vec<u8>,
    /// The entries in it.
    pub(super) entries: Vec<Sequenced>,
    /// Their leaf hashes.
    pub(super) leaves: Arc<[Hash]>,
    /// What proves them; `None` where there is no entry.
    pub(super) proof: Option<Arc<BatchProof>>,
    /// Answers that need no entry, but must wait for what they rest on.
    pub(super) answers: Vec<(Reply, Result<u64, Refusal>)>,
    /// Whether the wall clock has stepped and waits for confirmation.
    pub(super) clock_stepped: bool,
}

impl Encoded {
    /// Tells everybody who waits that there will be no verdict.
    pub(super) fn refuse(self, refusal: &Refusal) {
        let waiting = self.entries.into_iter().filter_map(|sequenced| sequenced.reply);
        for reply in waiting.chain(self.answers.into_iter().map(|(reply, _)| reply)) {
            reply(Err(refusal.clone()));
        }
    }
}

impl EncodeStage {
    /// Goes on from the end of a log.
    pub fn new(frontier: Frontier, origin: String, keys: Arc<LogKeys>, random: ChaCha12Rng) -> Self {
        Self {
            frontier,
            origin,
            key: keys.private(),
            keys,
            random,
            payloads: Encoder::default(),
            leaves: Encoder::default(),
            batch: BatchEncoder::new(),
            salts: Vec::new(),
        }
    }

    /// Puts a batch into bytes. Usually one piece comes of it: only very large entries are made durable in several steps.
    pub fn encode(&mut self, batch: Batch) -> Result<Vec<Encoded>, CommitError> {
        let Batch { entries: mut rest, answers, clock_step } = batch;
        let clock_stepped = clock_step.is_some();
        let mut pieces = Vec::with_capacity(1);
        while !rest.is_empty() {
            let later = rest.split_off(fitting(&rest));
            let mut piece = Encoded { entries: rest, clock_stepped, ..Encoded::default() };
            if let Err(error) = self.piece(&mut piece) {
                let all = pieces.into_iter().chain([piece, Encoded { entries: later, answers, ..Encoded::default() }]);
                all.for_each(|encoded: Encoded| encoded.refuse(&(&error).into()));
                return Err(error);
            }
            pieces.push(piece);
            rest = later;
        }
        match pieces.last_mut() {
            Some(last) => last.answers = answers,
            None => pieces.push(Encoded { answers, clock_stepped, ..Encoded::default() }),
        }
        Ok(pieces)
    }

    fn piece(&mut self, piece: &mut Encoded) -> Result<(), CommitError> {
        let entries = &piece.entries;
        let Some(first) = entries.first() else { return Ok(()) };
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
        let note: Arc<str> = self.sign(&checkpoint, entries.last())?.into();
        piece.bytes = self.batch.finish(note.as_bytes())?;
        piece.leaves = leaves.into();
        let prover = BatchProver::new(before, Arc::clone(&piece.leaves));
        piece.proof = Some(Arc::new(BatchProof { prover, first_index, commitments, checkpoint: note }));
        Ok(())
    }

    /// Signs a batch; one that ends in a rotation with both keys, and whatever follows with the new one only.
    fn sign(&mut self, checkpoint: &Checkpoint, last: Option<&Sequenced>) -> Result<String, CommitError> {
        let Some((named, index)) = last.and_then(rotates_to) else { return Ok(checkpoint.sign(&self.key)) };
        let next = self.keys.next_private(named).ok_or(CommitError::NextKey(index))?;
        let note = checkpoint.sign_by(&[&self.key, &next]);
        self.key = next;
        Ok(note)
    }

    /// Gives the memory of a batch back once it is on disk: a quarter of a megabyte need not be found anew each time.
    pub fn reuse(&mut self, bytes: Vec<u8>) {
        self.batch.reuse(bytes);
    }
}

/// Most bytes that a batch on disk is meant to have: a quarter of what its format takes.
const BATCH_BYTES: usize = BATCH_BYTES_MAX / 4;

/// The key that an entry rotates to, and the entry's index.
fn rotates_to(sequenced: &Sequenced) -> Option<(&str, u64)> {
    match &sequenced.entry.event {
        Event::Rotation { log_key, .. } => Some((log_key, sequenced.entry.index)),
        _ => None,
    }
}

/// What a dispatch holds besides: the call, and what its settlement will write.
fn in_flight(decision: &Decision) -> usize {
    let Verdict::InFlight(in_flight) = &decision.verdict else { return 0 };
    let InFlight::Dispatched(dispatched) = &**in_flight else { return 0 };
    let values = dispatched.writes.iter().filter_map(|write| write.value.as_ref()).map(Attributes::bytes_bound);
    values.fold(dispatched.call.bytes_bound(), usize::saturating_add)
}

/// How many entries from the front fit one batch on disk; at least one. A rotation ends its batch.
fn fitting(entries: &[Sequenced]) -> usize {
    let to_rotation =
        entries.iter().position(|sequenced| rotates_to(sequenced).is_some()).map_or(entries.len(), |at| at + 1);
    let mut bytes = 0_usize;
    let fits = |sequenced: &&Sequenced| {
        let values = sequenced.entry.event.writes().iter().filter_map(|write| write.value.as_ref());
        let values: usize = values.map(Attributes::bytes_bound).sum();
        let rest = match &sequenced.entry.event {
            // A control character takes six bytes; what was observed came within the body.
            Event::Action(decided) => {
                let blocked = decided.decision.blocked().or(decided.decision.shadowed.as_ref());
                let explained = blocked.is_some_and(|blocked| !blocked.failed().is_empty());
                let explained = if explained { EXPLAINED_BYTES_MAX } else { 0 };
                // A chain charges every member, so there may be many charges; names are short.
                let charges = decided.decision.charges.len().saturating_mul(1024);
                let delegated = decided.action.chain.as_ref().map_or(0, |_| CHAIN_BYTES_MAX.saturating_add(charges));
                decided.action.body.len().saturating_mul(6).saturating_add(explained).saturating_add(delegated)
            }
            // What was shown is as large as what is read, at most; what it writes is counted above.
            Event::Approval(approved) => {
                let shown = approved.shown.facts.iter().filter_map(|fact| fact.value.as_ref());
                let shown: usize = shown.map(Attributes::bytes_bound).sum();
                let explained = if approved.is_void() { EXPLAINED_BYTES_MAX } else { 0 };
                approved.action.body.len().saturating_mul(6).saturating_add(shown).saturating_add(explained)
            }
            Event::Refusal { reason, .. } => reason.len().saturating_mul(6),
            Event::Pact(pact) => pact.source.len().saturating_mul(6),
            Event::Halt { reason, .. } | Event::Resume { reason, .. } => reason.len().saturating_mul(6),
            Event::Erasure { forgotten, .. } => LEAF_BYTES_MAX.saturating_add(forgotten.len().saturating_mul(64)),
            Event::Rotation { reason, .. } => reason.len().saturating_mul(6),
            Event::Settle(settle) => {
                let judged = settle.judged.as_ref().map_or(0, |judged| {
                    // What blocked it, or would have.
                    judged.bytes_bound().saturating_add(EXPLAINED_BYTES_MAX)
                });
                settle.evidence.bytes_bound().saturating_add(judged)
            }
            Event::Held { value, .. } => value.as_ref().map_or(0, Attributes::bytes_bound),
            _ => 0,
        };
        let rest = rest.saturating_add(sequenced.entry.event.decision().map_or(0, in_flight));
        let auth = sequenced.entry.auth.bytes_bound();
        bytes = bytes.saturating_add(values).saturating_add(rest).saturating_add(auth);
        bytes <= BATCH_BYTES
    };
    entries.iter().take(to_rotation).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::call::{EffectId, Evidence, Outcome};
    use countersign_core::identity::Auth;
    use countersign_core::ids::AgentId;
    use countersign_core::record::{Entry, Settle};

    #[test]
    fn settlements_with_long_answers_are_not_put_into_a_batch_that_cannot_be_written() {
        let settled = |index| {
            let evidence = Evidence { result: Some("\u{1}".repeat(16 * 1024)), ..Evidence::said("done") };
            let (effect, agent, outcome) = (EffectId(index), AgentId::gate(), Outcome::Settled);
            let (writes, charges) = (Vec::new(), Vec::new());
            let settle = Settle { effect, agent, outcome, evidence, judged: None, stopped: None, writes, charges };
            let event = Event::Settle(Box::new(settle));
            let entry = Entry { index, time_ms: 0, by: AgentId::gate(), auth: Auth::None, event };
            Sequenced { entry, reply: None }
        };
        let entries: Vec<_> = (0..1000).map(settled).collect();
        let mut payloads = Encoder::default();
        let first = entries.iter().take(fitting(&entries));
        let bytes: usize = first.map(|sequenced| payloads.payload(&sequenced.entry).len()).sum();
        assert!(bytes > 1 << 20 && bytes <= BATCH_BYTES, "{bytes}");
    }
}
