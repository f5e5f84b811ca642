//! Effects that leave the building: where each of them is on its way, folded from the ledger like everything else.
//!
//! `cooling` → `dispatched` → (`in_doubt` →) `settled` or `failed`. What is under way is kept whole; what has ended is remembered by its
//! last entry only.

use crate::action::Action;
use crate::call::{EffectId, Outcome};
use crate::decision::{Charge, Dispatched, Write};
use crate::fact::Fact;
use crate::fence::Fences;
use crate::ids::{AgentId, FactId};
use crate::labels::LabelSet;
use crate::limits::{EFFECTS_MAX, EFFECTS_PER_AGENT_MAX, ENDED_EFFECTS_MAX, REASON_BYTES_MAX};
use crate::pact::Pact;
use crate::review::Shown;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An effect under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Its name.
    pub id: EffectId,
    /// The action, as it was sent.
    pub action: Arc<Action>,
    /// The approval that it rests on, if it needed one.
    pub approval: Option<Arc<Approved>>,
    /// The readings that it rests on, with the versions that they had at the intent.
    pub rests_on: Vec<(FactId, u64)>,
    /// When its intent was entered, in ledger milliseconds.
    pub at_ms: u64,
    /// Where it is.
    pub phase: Phase,
    /// The latest entry that speaks of it.
    pub latest: u64,
}

/// What a reviewer approved, kept for the dispatch that comes later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// The reviewer.
    pub by: AgentId,
    /// What was shown.
    pub shown: Shown,
    /// Until when the approval was good.
    pub until_ms: u64,
}

/// Where an effect is.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Its intent stands; it is decided again at this time.
    Cooling {
        /// When, in ledger milliseconds.
        dispatch_at_ms: u64,
    },
    /// It may be on its way.
    Dispatched(Arc<Flight>),
    /// No one knows whether it happened.
    InDoubt {
        /// The dispatch.
        flight: Arc<Flight>,
        /// Since when, in ledger milliseconds.
        since_ms: u64,
    },
}

impl Phase {
    /// As it stands in answers.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Cooling { .. } => "cooling",
            Self::Dispatched(_) => "dispatched",
            Self::InDoubt { .. } => "in_doubt",
        }
    }
}

/// A dispatch, with what its settlement needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Flight {
    /// The entry that dispatched it.
    pub entry: u64,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
    /// The call, its fences, and what its settlement writes.
    pub dispatched: Dispatched,
    /// The idempotency key that the outside is given.
    pub key: String,
    /// What it charged to budgets.
    pub charges: Vec<Charge>,
    /// What it was decided on, where external facts are still to be read: a judgement rests on these and not on what is current by then.
    pub context: Option<Arc<Context>>,
}

/// The pact and the facts of the gate at a dispatch.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    pub pact: Arc<Pact>,
    /// The facts read, agents among them.
    pub facts: Vec<Arc<Fact>>,
    /// The labels of all of these, and those in force for who acts: what is written on external facts has them.
    pub labels: LabelSet,
}

impl Effect {
    /// Its dispatch, if there was one.
    pub fn flight(&self) -> Option<&Arc<Flight>> {
        match &self.phase {
            Phase::Cooling { .. } => None,
            Phase::Dispatched(flight) | Phase::InDoubt { flight, .. } => Some(flight),
        }
    }

    /// What an outcome writes, and what it gives back to budgets.
    pub fn settlement(&self, outcome: Outcome) -> (Vec<Write>, Vec<Charge>) {
        let Some(flight) = self.flight() else { return (Vec::new(), Vec::new()) };
        match outcome {
            Outcome::Settled => (flight.dispatched.writes.clone(), Vec::new()),
            Outcome::Failed => {
                let back = |charge: &Charge| Charge { amount: charge.amount.saturating_neg(), ..charge.clone() };
                (Vec::new(), flight.charges.iter().map(back).collect())
            }
            Outcome::InDoubt => (Vec::new(), Vec::new()),
        }
    }
}

/// Why an effect cannot be dispatched or settled in this way. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EffectRefusal {
    /// There is no such effect.
    #[error("there is no effect `{0}`, or it ended long ago")]
    NotFound(EffectId),
    /// It has ended.
    #[error("{effect} is {} since entry {entry}", .how.as_str())]
    Ended { effect: EffectId, how: Outcome, entry: u64 },
    /// It is somewhere else on its way.
    #[error("{effect} is {phase}; {needs}")]
    Phase {
        effect: EffectId,
        /// Where it is.
        phase: &'static str,
        /// What would be needed.
        needs: &'static str,
    },
    /// The reason is empty or too long.
    #[error("a reason has 1 to {REASON_BYTES_MAX} bytes, not {0}")]
    Reason(usize),
    /// It was to end because it must not leave, and it may leave again.
    #[error("nothing stops {0} any more")]
    NotStopped(EffectId),
}

/// The effects under way, and those that ended lately.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    open: BTreeMap<u64, Effect>,
    /// How many of each agent are under way.
    by_agent: BTreeMap<AgentId, usize>,
    /// Those in doubt.
    doubts: BTreeSet<u64>,
    ended: BTreeMap<u64, (Outcome, u64)>,
}

impl Effects {
    /// Whether no more of an agent can be under way.
    pub fn is_full_for(&self, agent: &AgentId) -> bool {
        self.open.len() >= EFFECTS_MAX || self.by_agent.get(agent).is_some_and(|few| *few >= EFFECTS_PER_AGENT_MAX)
    }

    /// An effect that is under way.
    pub fn find(&self, id: EffectId) -> Result<&Effect, EffectRefusal> {
        match (self.open.get(&id.0), self.ended.get(&id.0)) {
            (Some(effect), _) => Ok(effect),
            (None, Some((how, entry))) => Err(EffectRefusal::Ended { effect: id, how: *how, entry: *entry }),
            (None, None) => Err(EffectRefusal::NotFound(id)),
        }
    }

    /// An effect that is to be dispatched.
    pub fn cooling(&self, id: EffectId) -> Result<&Effect, EffectRefusal> {
        let effect = self.find(id)?;
        match effect.phase {
            Phase::Cooling { .. } => Ok(effect),
            _ => {
                let phase = effect.phase.as_str();
                Err(EffectRefusal::Phase { effect: id, phase, needs: "it was dispatched already" })
            }
        }
    }

    /// An effect that can come to this outcome.
    pub fn settling(&self, id: EffectId, outcome: Outcome) -> Result<&Effect, EffectRefusal> {
        let effect = self.find(id)?;
        let needs = match (&effect.phase, outcome) {
            (Phase::Cooling { .. }, _) => "it was not dispatched yet, so there is nothing to settle",
            (Phase::InDoubt { .. }, Outcome::InDoubt) => "say whether it happened",
            _ => return Ok(effect),
        };
        Err(EffectRefusal::Phase { effect: id, phase: effect.phase.as_str(), needs })
    }

    /// The latest entry that speaks of an effect.
    pub fn latest(&self, id: u64) -> Option<u64> {
        let open = self.open.get(&id).map(|effect| effect.latest);
        open.or_else(|| self.ended.get(&id).map(|(_, entry)| *entry))
    }

    /// Those under way.
    pub fn open(&self) -> impl Iterator<Item = (EffectId, &Effect)> {
        self.open.iter().map(|(entry, effect)| (EffectId(*entry), effect))
    }

    /// Those in doubt.
    pub fn in_doubt(&self) -> impl Iterator<Item = &Effect> {
        self.doubts.iter().filter_map(|id| self.open.get(id))
    }

    /// Those that ended: effect, how, and in which entry.
    pub fn ended(&self) -> impl Iterator<Item = (EffectId, Outcome, u64)> {
        self.ended.iter().map(|(effect, (how, entry))| (EffectId(*effect), *how, *entry))
    }

    /// Puts an effect under way, and its fences with it. One that is known already is left as it is.
    pub fn begin(&mut self, effect: Effect, fences: &mut Fences) {
        let id = effect.id;
        if self.open.contains_key(&id.0) || self.ended.contains_key(&id.0) {
            return;
        }
        if let Some(flight) = effect.flight() {
            fences.take(id.0, &flight.dispatched.fenced);
        }
        let few = self.by_agent.entry(effect.action.agent.clone()).or_default();
        *few = few.saturating_add(1);
        if matches!(effect.phase, Phase::InDoubt { .. }) {
            self.doubts.insert(id.0);
        }
        self.open.insert(id.0, effect);
    }

    /// A cooling effect goes off.
    pub fn dispatch(&mut self, id: EffectId, flight: Flight, fences: &mut Fences) {
        let Some(effect) = self.open.get_mut(&id.0) else { return };
        if !matches!(effect.phase, Phase::Cooling { .. }) {
            return;
        }
        fences.take(id.0, &flight.dispatched.fenced);
        effect.latest = flight.entry;
        effect.phase = Phase::Dispatched(Arc::new(flight));
    }

    /// An effect comes to an outcome. Its fences end unless no one knows.
    pub fn settle(&mut self, id: EffectId, outcome: Outcome, entry: u64, time_ms: u64, fences: &mut Fences) {
        if outcome == Outcome::InDoubt {
            let Some(effect) = self.open.get_mut(&id.0) else { return };
            effect.latest = entry;
            if let Phase::Dispatched(flight) = &effect.phase {
                effect.phase = Phase::InDoubt { flight: Arc::clone(flight), since_ms: time_ms };
                self.doubts.insert(id.0);
            }
            return;
        }
        self.doubts.remove(&id.0);
        if let Some(effect) = self.open.remove(&id.0) {
            match self.by_agent.get_mut(&effect.action.agent) {
                Some(few) if *few > 1 => *few -= 1,
                _ => drop(self.by_agent.remove(&effect.action.agent)),
            }
            if let Some(flight) = effect.flight() {
                fences.free(id.0, &flight.dispatched.fenced);
            }
        }
        self.remember(id, outcome, entry);
    }

    /// Puts back what a dispatch was decided on.
    pub(crate) fn restore_context(&mut self, id: EffectId, context: Context) {
        let Some(effect) = self.open.get_mut(&id.0) else { return };
        if let Phase::Dispatched(flight) | Phase::InDoubt { flight, .. } = &mut effect.phase {
            Arc::make_mut(flight).context = Some(Arc::new(context));
        }
    }

    /// Remembers how an effect ended.
    pub fn remember(&mut self, id: EffectId, outcome: Outcome, entry: u64) {
        self.ended.insert(id.0, (outcome, entry));
        while self.ended.len() > ENDED_EFFECTS_MAX {
            self.ended.pop_first();
        }
    }
}
