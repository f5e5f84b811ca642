//! What the interfaces ask of a view. They name what they want to know, so that how the state keeps it is for core and engine alone.

use super::{Synced, View};
use countersign_core::call::EffectId;
use countersign_core::disclose::{DecidedBy, Disclosure, ShownClaim, disclose_claim};
use countersign_core::effect::{Effect, EffectRefusal, Phase};
use countersign_core::fact::Fact;
use countersign_core::fence::{Claim, ClaimId};
use countersign_core::halt::{Halt, Scope};
use countersign_core::identity::{Holder, KeyName};
use countersign_core::ids::{AgentId, FactId, PactName};
use countersign_core::message::Inbox;
use countersign_core::pact::Pact;
use countersign_core::pact::catalogue::Catalogue;
use countersign_core::state::{HeldFeed, PublishError, ReadState as _, State};
use std::sync::Arc;

/// How many of each there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Facts, deleted ones included.
    pub facts: usize,
    /// Pacts in force.
    pub pacts: usize,
    /// Scopes that are halted.
    pub halts: usize,
    /// Feeds that wait for a fence to end.
    pub held_feeds: usize,
    /// Effects that cool.
    pub cooling: usize,
    /// Effects that were dispatched.
    pub dispatched: usize,
    /// Effects in doubt.
    pub in_doubt: usize,
    /// Messages that wait for their recipients.
    pub messages: usize,
}

impl View {
    /// Whether the gate has operators, so that it can tell who is calling.
    pub fn is_identified(&self) -> bool {
        self.rest.is_identified()
    }

    /// Whose key this is.
    pub fn holder(&self, key: &KeyName) -> Option<&Holder> {
        self.rest.keys().holder(key)
    }

    /// The pacts in force, by name.
    pub fn pacts(&self) -> impl Iterator<Item = &Arc<Pact>> {
        self.rest.pacts.values()
    }

    /// A pact in force.
    pub fn pact(&self, name: &PactName) -> Option<&Arc<Pact>> {
        self.rest.pacts.get(name)
    }

    /// Whether a pact could be published: the very check that publishing makes at its place in the order.
    ///
    /// # Errors
    ///
    /// What publishing it would be refused with.
    pub fn check_publish(&self, pact: &Pact) -> Result<(), PublishError> {
        self.rest.check_publish(pact).map(drop)
    }

    /// The fact types of all pacts, and where their facts live.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.rest.catalogue
    }

    /// The effects in flight that a fact must not change under.
    pub fn fenced_by(&self, fact: &FactId) -> impl Iterator<Item = EffectId> {
        self.rest.fences.steady_on(fact)
    }

    /// The feeds of a fact that wait for a fence to end, by their entries.
    pub fn held_feeds(&self, fact: &FactId) -> impl Iterator<Item = (u64, &HeldFeed)> {
        self.rest.held_feeds(fact)
    }

    /// The entries of the feeds that wait for an effect to end.
    pub fn feeds_waiting_for(&self, effect: EffectId) -> Vec<u64> {
        let waits = |feed: &HeldFeed| self.fenced_by(&feed.fact).any(|fence| fence == effect);
        self.rest.held.iter().filter(|(_, feed)| waits(feed)).map(|(entry, _)| *entry).collect()
    }

    /// The claims in force.
    pub fn claims(&self, now_ms: u64) -> impl Iterator<Item = (ClaimId, &Claim)> {
        self.rest.fences.claims().filter(move |(_, claim)| claim.stands(now_ms))
    }

    /// A claim in force.
    pub fn claim(&self, id: ClaimId, now_ms: u64) -> Option<&Claim> {
        self.rest.fences.claim(id, now_ms)
    }

    /// The claim in force on a fact.
    pub fn claim_on(&self, fact: &FactId, now_ms: u64) -> Option<ClaimId> {
        self.rest.fences.claim_on(fact, now_ms).map(|(claim, _)| claim)
    }

    /// An effect that is under way.
    ///
    /// # Errors
    ///
    /// It has ended, or there is none.
    pub fn effect(&self, id: EffectId) -> Result<&Effect, EffectRefusal> {
        self.rest.effects.find(id)
    }

    /// The effects under way, oldest first.
    pub fn effects_open(&self) -> impl Iterator<Item = (EffectId, &Effect)> {
        self.rest.effects.open()
    }

    /// The effects that ended lately, and in which entry.
    pub fn effects_ended(&self) -> impl Iterator<Item = (EffectId, u64)> {
        self.rest.effects.ended().map(|(effect, _, entry)| (effect, entry))
    }

    /// The latest entry that speaks of an effect.
    pub fn latest_of_effect(&self, id: EffectId) -> Option<u64> {
        self.rest.effects.latest(id.0)
    }

    /// The entry that says what has become of the action of an entry.
    pub fn latest_of(&self, entry: u64) -> u64 {
        self.rest.latest_of(entry)
    }

    /// The messages that wait for an agent, oldest first.
    pub fn waiting_for(&self, agent: &AgentId) -> Inbox<'_> {
        self.rest.inboxes.waiting_for(agent)
    }

    /// What is halted.
    pub fn halts_in_force(&self) -> impl Iterator<Item = (&Scope, &Halt)> {
        self.rest.halts.iter()
    }

    /// The halt of exactly this scope.
    pub fn halt_of(&self, scope: &Scope) -> Option<&Halt> {
        self.rest.halts.get(scope)
    }
}

impl Synced<'_> {
    /// The current version of a fact.
    pub fn fact(&self, id: &FactId) -> Option<&Arc<Fact>> {
        self.current(id)
    }

    /// What an agent may see of a claim; `None` if nothing.
    pub fn claim_shown_to<'a>(&self, agent: &AgentId, claim: &'a Claim) -> Option<ShownClaim<'a>> {
        disclose_claim(self, agent, claim)
    }

    /// What an agent may be told of an action that was decided by `by` and read `reads`.
    pub fn disclosure<'a>(&'a self, agent: &'a AgentId, by: Option<DecidedBy<'_>>, reads: &[FactId]) -> Disclosure<'a> {
        Disclosure::new(self, agent, by, reads)
    }

    /// How many of each there are.
    pub fn counts(&self) -> Counts {
        let State { pacts, halts, held, effects, inboxes, .. } = &self.rest;
        let facts = self.live().facts.len_as_of(self.position);
        let (pacts, halts, held_feeds) = (pacts.len(), halts.len(), held.len());
        let messages = inboxes.len();
        let mut counts = Counts { facts, pacts, halts, held_feeds, messages, ..Counts::default() };
        for (_, effect) in effects.open() {
            match effect.phase {
                Phase::Cooling { .. } => counts.cooling += 1,
                Phase::Dispatched(_) => counts.dispatched += 1,
                Phase::InDoubt { .. } => counts.in_doubt += 1,
            }
        }
        counts
    }
}
