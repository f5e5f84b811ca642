//! Folding stored entries back into state: after a restart, and in an audit.

use crate::idempotency::Idempotency;
use crate::storage::WalkOptions;
use countersign_core::action::{Action, ActionRequest, Observed};
use countersign_core::call::{EffectId, Outcome};
use countersign_core::decision::Charge;
use countersign_core::effect::Approved;
use countersign_core::erase::EraseTarget;
use countersign_core::fact::Fact;
use countersign_core::identity::Auth;
use countersign_core::ids::Digest;
use countersign_core::pact::load::load;
use countersign_core::record::{DecodeError, Event, Leaf, Stored, StoredAction, UnderWay, decode, decode_with_auth};
use countersign_core::review::Ended;
use countersign_core::state::{Change, State};
use countersign_core::utc::Utc;
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::commitment::commitment;
use countersign_ledger::hash::leaf_hash;
use countersign_ledger::tree::TileTree;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a log folds to.
#[derive(Debug, Default)]
pub struct Fold {
    /// Facts, pacts and budgets.
    pub state: State,
    /// Idempotency keys.
    pub keys: Idempotency,
    /// The tree over the leaves.
    pub tree: TileTree,
    /// How many entries were folded.
    pub position: u64,
    /// The time of the last.
    pub time_ms: u64,
    /// Actions that waited for a person when a snapshot was taken: their entries, and what they had observed.
    pub waiting: Vec<(u64, Vec<Observed>)>,
    /// Entries whose payloads an erasure names.
    pub erased: Vec<u64>,
    /// The latest erasure.
    pub erasure: Option<u64>,
    /// Effects under way that must be read from their entries, because a snapshot names them or they rest on something that
    /// waited when it was taken.
    pub under_way: BTreeMap<u64, Moved>,
}

/// How far an effect has come that is yet to be read from its entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// What its action had observed, where a snapshot says so: entries leave out values that were current.
    pub observed: Option<Vec<Observed>>,
    /// The entry that dispatched it, where that is not its first.
    pub dispatch: Option<u64>,
    /// The entry since which it is in doubt.
    pub in_doubt: Option<u64>,
}

/// Why an entry could not be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// It could not be read.
    #[error("entry {index} cannot be read: {source}")]
    Decode {
        /// The entry.
        index: u64,
        /// Why.
        source: DecodeError,
    },
    /// It stands at another place than it says.
    #[error("entry {index} says that it is entry {says}")]
    Index {
        /// Where it stands.
        index: u64,
        /// What it says.
        says: u64,
    },
    /// Time goes back.
    #[error("entry {index} is at {}, before the entry in front of it", Utc(*.time_ms))]
    Time {
        /// The entry.
        index: u64,
        /// Its time.
        time_ms: u64,
    },
    /// It holds a pact that does not load or does not follow.
    #[error("entry {index} publishes a pact that this version does not accept: {why}")]
    Pact {
        /// The entry.
        index: u64,
        /// Why.
        why: String,
    },
}

/// The action of an entry, as it was sent. Its signatures and delegation were checked when it was admitted.
pub fn parked_action(leaf: &Leaf, stored: &StoredAction, auth: Auth) -> Result<Action, DecodeError> {
    let request = ActionRequest::parse(&stored.body).map_err(|_| DecodeError::Missing("body"))?;
    let mut action = Action::new(leaf.by()?, auth, stored.body.clone(), request, stored.observed.clone());
    action.chain = stored.chain.clone();
    Ok(action)
}

/// Whether salt and payload are those that a leaf commits to.
pub fn payload_matches(leaf: &[u8], salt: &[u8; 32], payload: &[u8]) -> bool {
    let stated = Leaf::decode(leaf).ok().and_then(|leaf| leaf.commitment().ok());
    stated.is_some_and(|stated| stated.0 == commitment(salt, payload).0)
}

/// Which of the log's keys a leaf names: the genesis its first, a rotation its next.
///
/// # Errors
/// If the leaf is one of these and cannot be read, or another that names a key.
pub fn named_key(leaf: &[u8]) -> Result<Option<LogKey>, String> {
    let text = std::str::from_utf8(leaf).map_err(|_| "its leaf is not text".to_owned())?;
    // Almost no leaf names a key, and reading one costs more than its hash. In a string, quotes would be escaped.
    if !text.contains(r#""log_key":"#) && !text.contains(r#""kind":"rotation""#) {
        return Ok(None);
    }
    let leaf = Leaf::decode(leaf).map_err(|error| error.to_string())?;
    let named = match (leaf.kind.as_str(), leaf.index) {
        ("genesis", 0) | ("rotation", 1..) => leaf.log_key.ok_or_else(|| "it names no key".to_owned())?,
        (kind, _) => return Err(format!("an entry of kind `{kind}` may not name a key of the log here")),
    };
    named.parse().map(Some).map_err(|error| format!("it names no key that can be used: {error}"))
}

/// Options for a walk over a log of entries that has or had this key.
pub fn walk_options(key: &LogKey) -> WalkOptions<'_> {
    WalkOptions { key, next: None, named_key: &named_key, payload_matches: &payload_matches }
}

impl Fold {
    /// Folds one entry; `payload` is `None` where it was erased.
    pub fn entry(&mut self, leaf_bytes: &[u8], payload: Option<&[u8]>) -> Result<(), FoldError> {
        let index = self.position;
        let decoded = |source| FoldError::Decode { index, source };
        let leaf = Leaf::decode(leaf_bytes).map_err(decoded)?;
        self.check_place(&leaf)?;
        if let Some(erased) = &leaf.erased {
            self.erased.extend(erased);
            self.erasure = Some(leaf.index);
        }
        if let Some(payload) = payload {
            // Only what waits or is under way is decided again, and needs to know who sent it.
            if matches!(leaf.verdict.as_deref(), Some("review" | "in_flight")) {
                let (stored, auth) = decode_with_auth(&leaf, payload).map_err(decoded)?;
                self.apply(&leaf, &stored)?;
                self.begin(&leaf, &stored, auth)?;
            } else {
                let stored = decode(&leaf, payload).map_err(decoded)?;
                self.apply(&leaf, &stored)?;
            }
        }
        if payload.is_none() && leaf.verdict.as_deref() == Some("review") {
            self.state.reviews.park_gone(leaf.index, leaf.time);
        }
        self.advance(&leaf, leaf_bytes)
    }

    /// Takes in what the leaf alone says, which outlives an erasure: its place, its time, its
    /// idempotency key, which review it ends, and which held feed it releases.
    pub fn advance(&mut self, leaf: &Leaf, leaf_bytes: &[u8]) -> Result<(), FoldError> {
        let decoded = |source| FoldError::Decode { index: self.position, source };
        if let (Some(key), Some(action)) = (leaf.key_digest().map_err(decoded)?, &leaf.action) {
            let action: Digest = action.parse().map_err(|error| decoded(DecodeError::Id(error)))?;
            self.keys.insert(&leaf.by.as_str().into(), key, &action, leaf.index, leaf.time);
        }
        match (leaf.kind.as_str(), leaf.review) {
            // One that is void ends nothing.
            ("approval", Some(_)) if leaf.verdict.as_deref() == Some("rejected") => {}
            ("approval", Some(review)) => self.state.reviews.close(review, Ended::Approved, leaf.index),
            ("refusal", Some(review)) => self.state.reviews.close(review, Ended::Refused, leaf.index),
            ("expiry", Some(review)) => self.state.reviews.close(review, Ended::Expired, leaf.index),
            _ => {}
        }
        if let Some(effect) = leaf.effect {
            self.moved(leaf, effect);
        }
        if let Some(held) = leaf.held {
            self.state.release(held);
        }
        self.tree.push(leaf_hash(leaf_bytes));
        self.position += 1;
        self.time_ms = leaf.time;
        Ok(())
    }

    /// Follows an effect by its leaves alone.
    fn moved(&mut self, leaf: &Leaf, effect: u64) {
        let ended = match (leaf.kind.as_str(), leaf.verdict.as_deref()) {
            ("dispatch", Some("in_flight")) => {
                if let Some(moved) = self.under_way.get_mut(&effect) {
                    moved.dispatch = Some(leaf.index);
                }
                return;
            }
            ("settle", Some("in_doubt")) => {
                if let Some(moved) = self.under_way.get_mut(&effect) {
                    moved.in_doubt = Some(leaf.index);
                }
                let fences = &mut self.state.fences;
                self.state.effects.settle(EffectId(effect), Outcome::InDoubt, leaf.index, leaf.time, fences);
                return;
            }
            ("settle", Some("settled")) => Outcome::Settled,
            _ => Outcome::Failed,
        };
        self.under_way.remove(&effect);
        // Said by the payload too, unless that was erased; saying it twice changes nothing.
        self.state.effects.settle(EffectId(effect), ended, leaf.index, leaf.time, &mut self.state.fences);
    }

    /// Checks that a leaf is the next in place and time.
    pub fn check_place(&self, leaf: &Leaf) -> Result<(), FoldError> {
        let index = self.position;
        if leaf.index != index {
            return Err(FoldError::Index { index, says: leaf.index });
        }
        if leaf.time < self.time_ms {
            return Err(FoldError::Time { index, time_ms: leaf.time });
        }
        Ok(())
    }

    /// Applies what an entry changed.
    pub fn apply(&mut self, leaf: &Leaf, stored: &Stored) -> Result<(), FoldError> {
        let index = self.position;
        let by = leaf.by().map_err(|source| FoldError::Decode { index, source })?;
        let (wrote, confirmed_at_ms) = match stored {
            Stored::Event(event) => (self.state.writer(event, &by).clone(), self.state.confirmed_at(event, leaf.time)),
            _ => (by.clone(), None),
        };
        let change = Change {
            entry: leaf.index,
            time_ms: leaf.time,
            by: &wrote,
            writes: stored.writes(),
            confirmed_at_ms,
            charges: stored.charges(),
        };
        self.state.apply(&change, |_| ());
        match stored {
            Stored::Event(Event::Pact { source, .. }) => self.publish(source),
            Stored::Event(event) => {
                self.state.take_in(leaf.index, leaf.time, &by, event);
                Ok(())
            }
            Stored::Action(_) | Stored::Approval(_) | Stored::Dispatch(_) => Ok(()),
        }
    }

    /// Parks the action of an entry that waits for a person, or puts under way what the entry began.
    pub fn begin(&mut self, leaf: &Leaf, stored: &Stored, auth: Auth) -> Result<(), FoldError> {
        let unreadable = |source: DecodeError| FoldError::Decode { index: leaf.index, source };
        match (stored, stored.in_flight()) {
            (Stored::Action(stored), None) => {
                let action = parked_action(leaf, stored, auth).map_err(unreadable)?;
                let was_read = |fact: &Fact| {
                    let tag = fact.tag.to_string();
                    leaf.reads.iter().flatten().any(|(read, _)| *read == tag)
                };
                self.state.park_again(leaf.index, leaf.time, action, was_read);
            }
            (Stored::Action(stored), Some(under_way)) => {
                let mut action = parked_action(leaf, stored, auth).map_err(unreadable)?;
                self.state.fill_observed(&mut action, |fact| under_way.reads.iter().any(|read| read.fact == fact.id));
                self.put_under_way(leaf, Arc::new(action), None, stored.charges.as_slice(), under_way);
            }
            (Stored::Approval(stored), Some(under_way)) => {
                let Some(action) = self.state.reviews.parked(stored.shown.review) else {
                    // It waited when a snapshot was taken, and is read again from there.
                    self.under_way.insert(leaf.index, Moved::default());
                    return Ok(());
                };
                let by = leaf.by().map_err(unreadable)?;
                let approved = Approved { by, shown: stored.shown.clone(), until_ms: stored.until_ms };
                self.put_under_way(leaf, action, Some(approved), stored.charges.as_slice(), under_way);
            }
            (Stored::Dispatch(stored), Some(UnderWay { in_flight, reads })) => {
                self.state.dispatched(stored.effect, leaf.index, leaf.time, in_flight, &stored.charges, reads);
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts an effect under way as its entry says.
    pub fn put_under_way(
        &mut self,
        leaf: &Leaf,
        action: Arc<Action>,
        approved: Option<Approved>,
        charges: &[Charge],
        UnderWay { in_flight, reads }: &UnderWay,
    ) {
        self.state.begin_effect(leaf.index, leaf.time, action, approved, in_flight, charges, reads);
    }

    /// Makes a pact current again, checked as when it was published.
    pub fn publish(&mut self, source: &str) -> Result<(), FoldError> {
        let refused = |why: String| FoldError::Pact { index: self.position, why };
        let loaded = load(source).map_err(|problems| {
            let problems: Vec<_> = problems.iter().map(|problem| problem.message.clone()).collect();
            refused(problems.join("; "))
        })?;
        let catalogue = self.state.check_publish(&loaded.pact).map_err(|error| refused(error.to_string()))?;
        self.state.publish(Arc::new(loaded.pact), catalogue);
        Ok(())
    }

    /// Takes a pact from a snapshot: it was current, whatever its version.
    pub fn restore_pact(&mut self, source: &str) -> Result<(), FoldError> {
        let refused = |why: String| FoldError::Pact { index: self.position, why };
        let loaded = load(source).map_err(|_| refused("it does not load".to_owned()))?;
        let catalogue = self.state.catalogue.admit(&loaded.pact).map_err(|problems| refused(problems.join("; ")))?;
        self.state.publish(Arc::new(loaded.pact), Arc::new(catalogue));
        Ok(())
    }

    /// What an entry holds that must no longer be in force when it is erased.
    pub fn erase_target(leaf: &Leaf, payload: &[u8]) -> Result<EraseTarget, DecodeError> {
        Ok(EraseTarget::new(leaf.index, leaf.effect, &decode(leaf, payload)?))
    }
}
