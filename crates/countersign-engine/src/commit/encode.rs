//! The first half of the commit stage: from decisions to the bytes of a batch, with everything that proves them.

use super::{BatchProof, CommitError};
use crate::log_key::LogKeys;
use crate::request::{Refusal, Reply};
use crate::sequence::{Batch, Joint, Sequenced};
use countersign_core::record::{Encoder, Event, Leaf};
use countersign_ledger::checkpoint::Checkpoint;
use countersign_ledger::commitment::commitment;
use countersign_ledger::hash::{Hash, leaf_hash};
use countersign_ledger::segment::{BATCH_BYTES_MAX, BatchEncoder, SALT_LEN};
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
    /// The hashes of the tiles that they fill.
    pub(super) tiles: Vec<Hash>,
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
        // What was to be looked up again is with the thread that does that.
        let Batch { entries: mut rest, answers, clock_step, again: _ } = batch;
        let clock_stepped = clock_step.is_some();
        let mut pieces = Vec::with_capacity(1);
        while !rest.is_empty() {
            let mut piece = Encoded { entries: rest, clock_stepped, ..Encoded::default() };
            match self.piece(&mut piece) {
                Ok(later) => rest = later,
                Err(error) => {
                    let unanswered = Encoded { answers, ..Encoded::default() };
                    let all = pieces.into_iter().chain([piece, unanswered]);
                    all.for_each(|encoded: Encoded| encoded.refuse(&(&error).into()));
                    return Err(error);
                }
            }
            pieces.push(piece);
        }
        match pieces.last_mut() {
            Some(last) => last.answers = answers,
            None => pieces.push(Encoded { answers, clock_stepped, ..Encoded::default() }),
        }
        Ok(pieces)
    }

    /// Puts as many entries into one piece as fit, and gives the rest. What an entry takes is known only once it is written: a guess
    /// that is too low would fail the gate.
    fn piece(&mut self, piece: &mut Encoded) -> Result<Vec<Sequenced>, CommitError> {
        let Some(first) = piece.entries.first() else { return Ok(Vec::new()) };
        let count = piece.entries.len();
        let before = self.frontier.clone();
        let first_index = first.entry.index;
        let mut leaves = Vec::with_capacity(count);
        let mut commitments = Vec::with_capacity(count);
        self.batch.begin(first_index);
        self.salts.resize(count * SALT_LEN, 0);
        self.random.fill_bytes(&mut self.salts);
        let (salts, _) = self.salts.as_chunks::<SALT_LEN>();
        for (sequenced @ Sequenced { entry, .. }, salt) in piece.entries.iter().zip(salts) {
            let payload = self.payloads.payload(entry).as_bytes();
            // An atomic group is never split: whether it fits is asked at its first entry.
            let takes = match sequenced.joint {
                Joint::Alone => payload.len(),
                Joint::First(bytes) => bytes,
                Joint::Next => 0,
            };
            if !self.batch.is_empty() && self.batch.len().saturating_add(takes) > BATCH_BYTES {
                break;
            }
            let committed = commitment(salt, payload);
            let leaf = self.leaves.leaf(entry, &committed.0);
            // What is acknowledged must be read back: a member that `may_have` does not give this kind would keep the log from opening.
            debug_assert!(Leaf::decode(leaf).is_ok(), "the leaf of a {} cannot be read back", entry.event.kind());
            let hash = leaf_hash(leaf);
            self.batch.push_frame(leaf, salt, payload)?;
            piece.tiles.extend(self.frontier.push(hash));
            leaves.push(hash);
            commitments.push(committed);
            // Always the last of its batch, whose checkpoint both keys sign.
            if rotates_to(sequenced).is_some() {
                break;
            }
        }
        let later = piece.entries.split_off(leaves.len());
        let checkpoint =
            Checkpoint { origin: self.origin.clone(), size: self.frontier.size(), root: self.frontier.root() };
        let note: Arc<str> = self.sign(&checkpoint, piece.entries.last())?.into();
        piece.bytes = self.batch.finish(note.as_bytes())?;
        piece.leaves = leaves.into();
        let prover = BatchProver::new(before, Arc::clone(&piece.leaves));
        piece.proof = Some(Arc::new(BatchProof { prover, first_index, commitments, checkpoint: note }));
        Ok(later)
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

/// Most bytes that a batch on disk is meant to have: a quarter of what its format takes, and as much as the longest payload.
const BATCH_BYTES: usize = BATCH_BYTES_MAX / 4;

/// Most bytes of payload that entries may have which must share one commit: they fit a batch that has nothing else.
pub const GROUP_BYTES_MAX: usize = BATCH_BYTES;

/// The key that an entry rotates to, and the entry's index.
fn rotates_to(sequenced: &Sequenced) -> Option<(&str, u64)> {
    match &sequenced.entry.event {
        Event::Rotation { log_key, .. } => Some((log_key, sequenced.entry.index)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

    use super::*;
    use crate::log_key::HeldKey;
    use countersign_core::identity::Auth;
    use countersign_core::ids::AgentId;
    use countersign_core::record::{Context, Entry};
    use countersign_core::review::ReviewId;
    use rand_chacha::rand_core::SeedableRng as _;

    fn stage() -> EncodeStage {
        let key = SigningKey::from_bytes(&[1; 32]);
        let keys = LogKeys::new("test.example/log", HeldKey::from(key)).unwrap();
        let random = ChaCha12Rng::from_seed([2; 32]);
        EncodeStage::new(Frontier::new(), "test.example/log".to_owned(), Arc::new(keys), random)
    }

    /// Of a kind whose length is not bounded in advance.
    fn long(index: u64) -> Sequenced {
        let event = Event::Refusal { review: ReviewId(1), reason: "\u{1}".repeat(50_000).into() };
        let (by, context) = (AgentId::gate(), Context::default());
        let entry = Entry { index, time_ms: 0, by, auth: Auth::None, context, event };
        Sequenced { entry: Arc::new(entry), joint: Joint::Alone, reply: None }
    }

    #[test]
    fn what_belongs_together_is_never_made_durable_in_several_steps() {
        let bytes = Encoder::default().payload(&long(0).entry).len();
        let (count, most) = (32, BATCH_BYTES / bytes);
        // The group begins so late in a piece that it must not end in the same.
        for before in [0, 1, most - 40, most - 31, most - 1, most, most + 1] {
            let mut entries: Vec<Sequenced> = (0..before as u64 + count + 3).map(long).collect();
            for (at, entry) in entries.iter_mut().skip(before).take(32).enumerate() {
                entry.joint = if at == 0 { Joint::First(32 * bytes) } else { Joint::Next };
            }
            let pieces = stage().encode(Batch { entries, ..Batch::default() }).unwrap();
            let holds = |piece: &&Encoded| piece.entries.iter().any(|it| it.joint != Joint::Alone);
            let holding: Vec<&Encoded> = pieces.iter().filter(holds).collect();
            assert_eq!(holding.len(), 1, "{before} before the group");
            assert_eq!(holding.iter().flat_map(|it| &it.entries).filter(|it| it.joint != Joint::Alone).count(), 32);
            assert!(pieces.iter().all(|piece| piece.bytes.len() < BATCH_BYTES_MAX / 2));
        }
    }

    #[test]
    fn a_batch_of_many_long_entries_is_made_durable_in_several_steps() {
        let mut stage = stage();
        // More than one batch on disk may hold.
        let entries: Vec<Sequenced> = (0..260).map(long).collect();
        let pieces = stage.encode(Batch { entries, ..Batch::default() }).unwrap();
        assert!(pieces.len() > 4, "{}", pieces.len());
        assert!(pieces.iter().all(|piece| piece.bytes.len() < BATCH_BYTES_MAX / 2 && piece.proof.is_some()));
        let indices: Vec<u64> = pieces.iter().flat_map(|piece| &piece.entries).map(|it| it.entry.index).collect();
        assert_eq!(indices, (0..260).collect::<Vec<u64>>());
    }
}
