//! Erasing payloads: what must no longer be in force first, and what a gate forgets with them.
//!
//! One check for the plan and for the erasure itself, so that they cannot disagree. A fact that was deleted is forgotten with the
//! payload of its deletion: nothing of its id stays. What keeps its versions from coming back is one number for all
//! facts, [`State::version_floor`]: a new fact begins above every version that was ever forgotten.

use crate::call::EffectId;
use crate::decision::{BudgetKey, Charge};
use crate::effect::Phase;
use crate::fence::ClaimId;
use crate::ids::{FactId, Tag};
use crate::observing::Count;
use crate::record::{Entry, Event, Kind, Leaf, LeafIdentity};
use crate::review::ReviewId;
use crate::state::{ReadState, State};
use crate::utc::Utc;
use std::collections::BTreeMap;

/// An entry whose payload is to be erased, with what it holds that might be in force.
#[derive(Debug, Clone)]
pub struct EraseTarget {
    pub entry: u64,
    /// Why its payload is kept for ever, if it is.
    pub kept: Option<&'static str>,
    /// The facts and versions it wrote, which must no longer be current.
    pub writes: Vec<(FactId, u64)>,
    /// What it charged to budgets, whose windows must have closed.
    pub charges: Vec<Charge>,
    /// The effect that it dispatched or settled, which must have ended.
    pub effect: Option<EffectId>,
    /// Until when it counts to a budget on observing, in ledger milliseconds.
    pub observing_until_ms: Option<u64>,
    /// Whether the deletion of a fact may go too: every entry that wrote an earlier version is erased, or is erased with this one.
    /// Otherwise a fold of the log would bring an earlier version back.
    pub is_last: bool,
}

/// A deleted fact that goes with its deletion's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgotten {
    pub tag: Tag,
    /// Its last version.
    pub version: u64,
}

/// Why a payload cannot be erased, or not yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InForce {
    /// Payloads of this kind, or about this, are kept forever.
    #[error("{0}")]
    Kind(&'static str),
    /// It holds the current value of a fact.
    #[error("it holds the current version of {0}")]
    Current(FactId),
    /// It deleted a fact of which an earlier version is still there.
    #[error("it deleted {fact}, and entry {earlier} still holds an earlier version")]
    Earlier {
        fact: FactId,
        /// The entry that holds an earlier version.
        earlier: u64,
    },
    /// A call in flight relies on the fact that it deleted, or a feed of it is held.
    #[error("it deleted {0}, which a call in flight relies on or a held feed will write")]
    Fenced(FactId),
    /// It counts against a budget.
    #[error("it counts against budget `{}` of {}{}", .budget.id, of(.budget), until(*.until_ms))]
    Budget {
        budget: BudgetKey,
        /// When the window ends; `None` where no published pact has the budget any more.
        until_ms: Option<u64>,
    },
    /// It counts to a budget on observing.
    #[error("it counts to a budget on observing{}", until(Some(*.until_ms)))]
    Observing {
        /// When the last of the windows ends.
        until_ms: u64,
    },
    /// An effect that it is part of has not ended.
    #[error("{effect} has not ended: it is {phase}{}", until(*.until_ms))]
    Effect {
        effect: EffectId,
        /// Where it is.
        phase: &'static str,
        /// When it is decided again, where it cools.
        until_ms: Option<u64>,
    },
    /// Its claim has not ended.
    #[error("{claim} announces a change until {}", Utc(*.until_ms))]
    Claim {
        claim: ClaimId,
        /// Until when.
        until_ms: u64,
    },
    /// Its feed is not written yet.
    #[error("its feed of {0} is held until no call in flight relies on the fact")]
    Held(FactId),
    /// Its action waits for a person.
    #[error("{review} waits for a person until {}", Utc(*.until_ms))]
    Review {
        review: ReviewId,
        /// Until when.
        until_ms: u64,
    },
}

fn of(budget: &BudgetKey) -> String {
    match &budget.action {
        Some(action) => format!("{}.{action}", budget.pact),
        None => format!("pact {}", budget.pact),
    }
}

fn until(at_ms: Option<u64>) -> String {
    at_ms.map(|at_ms| format!(", until {}", Utc(at_ms))).unwrap_or_default()
}

impl InForce {
    /// Until when, where the time is known.
    pub fn until_ms(&self) -> Option<u64> {
        match self {
            Self::Budget { until_ms, .. } | Self::Effect { until_ms, .. } => *until_ms,
            Self::Claim { until_ms, .. } | Self::Review { until_ms, .. } | Self::Observing { until_ms } => {
                Some(*until_ms)
            }
            _ => None,
        }
    }

    /// Whether it stays so whatever happens.
    pub fn is_for_ever(&self) -> bool {
        matches!(self, Self::Kind(_))
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Kind(_) => "leave the entry out; docs/formats/entry.md says what can be erased",
            Self::Current(_) => "write or delete the fact first, then erase again",
            Self::Earlier { .. } => "erase that entry too, or erase by fact, which names every entry",
            Self::Fenced(_) | Self::Held(_) => "see `countersign effect list` for what is in flight, then erase again",
            Self::Budget { .. } | Self::Observing { .. } => "erase again when the window has closed",
            Self::Effect { .. } => {
                "erase again when it has ended; what is in doubt is ended by `countersign effect resolve EFFECT settled --reason TEXT`, or \
                 with `failed`"
            }
            Self::Claim { .. } => "erase again when it has ended; its holder can withdraw it",
            Self::Review { .. } => "approve or refuse it, or erase again when it has expired",
        }
    }
}

/// Why payloads of this kind, about this identity, are never erased; `None` where they can be once nothing of them is in force.
pub fn kept_for_ever(kind: Kind, identity: Option<LeafIdentity>) -> Option<&'static str> {
    match identity {
        Some(LeafIdentity::Agent) => return Some("it says who an agent was; who might do what must stay provable"),
        Some(LeafIdentity::Operator) => {
            return Some("it says who an operator was; who might do what must stay provable");
        }
        None => {}
    }
    match kind {
        Kind::Action | Kind::Shadow | Kind::Approval | Kind::Dispatch => None,
        Kind::Feed | Kind::Held | Kind::Settle | Kind::Claim | Kind::Refusal | Kind::Confirm => None,
        // Only counted, and nothing rests on it.
        Kind::Denials => None,
        Kind::Group => None,
        Kind::Observation => None,
        // Once the session is closed, nothing rests on them.
        Kind::Session | Kind::Reading => None,
        Kind::Batch => Some("it holds the signature of a batch of actions, and nothing that they say"),
        Kind::Expiry => Some("it names a review by its number and holds nothing else"),
        Kind::Extension | Kind::Withdrawal => Some("it names a claim by its number and holds nothing else"),
        Kind::Pact => Some("it holds a pact, which every decision under it rests on"),
        Kind::Halt | Kind::Resume => Some("it says what was halted and why, which must stay provable"),
        Kind::Genesis | Kind::Rotation | Kind::Clock | Kind::Erasure => Some("it is about the log itself"),
    }
}

impl EraseTarget {
    /// What an entry holds. Whether a deletion may go too is for the caller to say, which has seen the whole log.
    pub fn new(entry: &Entry) -> Self {
        let event = &entry.event;
        let mut writes: Vec<_> = event.writes().iter().map(|write| (write.fact.clone(), write.version)).collect();
        // How fresh the current version is rests on its confirmations.
        if let Event::Confirm { fact, version, .. } = event {
            writes.push((fact.clone(), *version));
        }
        let kept = kept_for_ever(event.kind(), event.identity());
        let (charges, effect) = (event.charges().to_vec(), event.effect());
        let observing_until_ms = match event {
            Event::Observation(observation) => observation.counts.iter().map(Count::until_ms).max(),
            _ => None,
        };
        Self { entry: entry.index, kept, writes, charges, effect, observing_until_ms, is_last: false }
    }

    /// An entry of which only the number is known.
    pub fn of_entry(entry: u64) -> Self {
        let (writes, charges) = (Vec::new(), Vec::new());
        Self { entry, kept: None, writes, charges, effect: None, observing_until_ms: None, is_last: false }
    }

    /// What the leaf of an entry alone still says of it: of facts and charges nothing that names them.
    pub fn of_leaf(leaf: &Leaf) -> Self {
        let kept = kept_for_ever(leaf.kind, leaf.identity);
        Self { kept, effect: leaf.moves(), ..Self::of_entry(leaf.index) }
    }
}

/// Checks targets against a state at one time.
pub struct Eraser<'a> {
    state: &'a State,
    /// Where the facts are.
    facts: &'a dyn ReadState,
    now_ms: u64,
    /// The entries of every effect under way.
    under_way: BTreeMap<u64, EffectId>,
}

impl<'a> Eraser<'a> {
    /// On this state, with these facts, at this time.
    pub fn new(state: &'a State, facts: &'a dyn ReadState, now_ms: u64) -> Self {
        let mut under_way = BTreeMap::new();
        for (id, effect) in state.effects.open() {
            let review = effect.approval.as_ref().map(|approval| approval.shown.review.0);
            let dispatch = effect.flight().map(|flight| flight.entry);
            let entries = [Some(id.0), dispatch, review, Some(effect.latest)];
            under_way.extend(entries.into_iter().flatten().map(|entry| (entry, id)));
        }
        Self { state, facts, now_ms, under_way }
    }

    /// Refuses what is still in force; gives what is forgotten with the payload.
    pub fn check(&self, target: &EraseTarget) -> Result<Vec<Forgotten>, InForce> {
        self.check_work(target)?;
        if let Some(charge) = target.charges.iter().find(|charge| self.is_open(charge)) {
            let until_ms = self.window_ends_ms(charge);
            return Err(InForce::Budget { budget: charge.budget.clone(), until_ms });
        }
        if let Some(until_ms) = target.observing_until_ms.filter(|until_ms| self.now_ms < *until_ms) {
            return Err(InForce::Observing { until_ms });
        }
        let current = target
            .writes
            .iter()
            .filter(|(fact, version)| self.facts.current(fact).is_some_and(|held| held.version() == *version));
        let mut forgotten = Vec::new();
        for (fact, version) in current {
            forgotten.extend(self.forget(target, fact, *version)?);
        }
        Ok(forgotten)
    }

    /// Whether work that the entry began goes on.
    fn check_work(&self, target: &EraseTarget) -> Result<(), InForce> {
        let EraseTarget { entry, kept, effect, .. } = target;
        if let Some(why) = kept {
            return Err(InForce::Kind(why));
        }
        if let Some(effect) = self.under_way.get(entry).copied().or(*effect)
            && let Ok(under_way) = self.state.effects.find(effect)
        {
            let until_ms = match under_way.phase {
                Phase::Cooling { dispatch_at_ms } => Some(dispatch_at_ms),
                Phase::Dispatched(_) | Phase::InDoubt { .. } => None,
            };
            return Err(InForce::Effect { effect, phase: under_way.phase.as_str(), until_ms });
        }
        if let Some(claim) = self.state.fences.claim(ClaimId(*entry), self.now_ms) {
            return Err(InForce::Claim { claim: ClaimId(*entry), until_ms: claim.expires_at_ms });
        }
        if let Some(held) = self.state.held.get(entry) {
            return Err(InForce::Held(held.fact.clone()));
        }
        match self.state.reviews.waiting(ReviewId(*entry), self.now_ms) {
            Ok(parked) => Err(InForce::Review { review: ReviewId(*entry), until_ms: parked.expires_at_ms }),
            Err(_) => Ok(()),
        }
    }

    /// The current version of a fact goes only where it says that there is none.
    fn forget(&self, target: &EraseTarget, fact: &FactId, version: u64) -> Result<Option<Forgotten>, InForce> {
        let Some(held) = self.facts.current(fact) else { return Ok(None) };
        if held.value.is_some() || !target.is_last {
            return Err(InForce::Current(fact.clone()));
        }
        if self.state.must_hold(fact) {
            return Err(InForce::Fenced(fact.clone()));
        }
        Ok(Some(Forgotten { tag: held.tag, version }))
    }

    /// Whether a charge still counts: its window is the budget's latest, and is not known to be over.
    fn is_open(&self, charge: &Charge) -> bool {
        let is_latest = self.state.budgets.get(&charge.budget).is_some_and(|held| held.window == charge.window);
        is_latest && self.window_ends_ms(charge).is_none_or(|ends_ms| self.now_ms < ends_ms)
    }

    fn window_ends_ms(&self, charge: &Charge) -> Option<u64> {
        let BudgetKey { pact, action, id, .. } = &charge.budget;
        let limit = self.state.pacts.get(pact)?.limit(action.as_ref(), id)?;
        Some(charge.window.saturating_add(1).saturating_mul(limit.per_ms))
    }
}
