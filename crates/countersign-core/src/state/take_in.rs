//! What an entry does beside writing facts and charging budgets: it halts, parks, fences, puts under way, settles.

use super::{HeldFeed, State};
use crate::action::Action;
use crate::call::{EffectId, Outcome};
use crate::decision::{Charge, Decision, InFlight, ReadVersion, Verdict};
use crate::effect::{Approved, Context, Effect, Flight, Phase};
use crate::erase::Forgotten;
use crate::fact::{Fact, Written};
use crate::fence::{Claim, ClaimId};
use crate::halt::Halt;
use crate::ids::{AgentId, FactId, PactName, Tag};
use crate::record::Event;
use crate::review::Ended;
use std::sync::Arc;

impl State {
    /// Takes in what an entry stops, lets go on, parks, fences, puts under way or ends.
    pub fn take_in(&mut self, entry: u64, time_ms: u64, by: &AgentId, event: &Event) {
        match event {
            Event::Halt { scope, reason } => {
                let halt = Halt { entry, by: by.clone(), at_ms: time_ms, reason: reason.clone() };
                self.halts.halt(scope.clone(), halt);
            }
            Event::Resume { scope, .. } => self.halts.resume(scope),
            Event::Action(decided) => self.take_in_action(entry, time_ms, &decided.action, &decided.decision),
            // One that is void changes nothing: the review waits on.
            Event::Approval(approved) if approved.is_void() => {}
            Event::Approval(approved) => {
                self.reviews.close(approved.shown.review.0, Ended::Approved, entry);
                let approval = Approved { by: by.clone(), shown: approved.shown.clone(), until_ms: approved.until_ms };
                let (action, decision) = (&approved.action, &approved.decision);
                self.begin(entry, time_ms, action, Some(approval), decision);
            }
            Event::Refusal { review, .. } => self.reviews.close(review.0, Ended::Refused, entry),
            Event::Expiry { review } => self.reviews.close(review.0, Ended::Expired, entry),
            Event::Erasure { entries, forgotten, .. } => {
                for erased in entries {
                    self.reviews.close(*erased, Ended::Erased, entry);
                    // It has ended, and is kept only until room is needed: with the facts that it names.
                    self.fences.withdraw(ClaimId(*erased));
                }
                for forgotten in forgotten {
                    self.forget(*forgotten);
                }
            }
            Event::Dispatch(dispatch) => {
                let decision = &dispatch.decision;
                match &decision.verdict {
                    Verdict::InFlight(in_flight) => {
                        self.dispatched(dispatch.effect, entry, time_ms, in_flight, &decision.charges, &decision.reads);
                    }
                    _ => self.effects.settle(dispatch.effect, Outcome::Failed, entry, time_ms, &mut self.fences),
                }
            }
            Event::Settle(settle) => {
                self.effects.settle(settle.effect, settle.outcome, entry, time_ms, &mut self.fences);
            }
            Event::Claim { facts, expires_at_ms, until_ms, priority, reason } => {
                let claim = Claim {
                    by: by.clone(),
                    at_ms: time_ms,
                    expires_at_ms: *expires_at_ms,
                    until_ms: *until_ms,
                    priority: *priority,
                    reason: reason.clone(),
                    facts: facts.clone(),
                };
                self.fences.announce(entry, claim);
            }
            Event::Extension { claim, expires_at_ms } => self.fences.extend(*claim, *expires_at_ms),
            Event::Withdrawal { claim } => self.fences.withdraw(*claim),
            Event::Held { fact, value } => {
                let held = HeldFeed { fact: fact.clone(), value: value.clone(), by: by.clone(), at_ms: time_ms };
                self.hold(entry, held);
            }
            Event::Confirm { fact, version, .. } => self.confirm(entry, time_ms, by, fact, *version),
            Event::Feed { held: Some(held), .. } => self.release(*held),
            _ => {}
        }
    }

    fn take_in_action(&mut self, entry: u64, time_ms: u64, action: &Action, decision: &Decision) {
        match &decision.verdict {
            Verdict::Review { .. } => {
                let action = without_unread(action, &decision.reads);
                self.reviews.park(entry, time_ms, Arc::new(action));
            }
            Verdict::InFlight(_) => {
                let action = Arc::new(without_unread(action, &decision.reads));
                self.begin(entry, time_ms, &action, None, decision);
            }
            Verdict::Committed | Verdict::Rejected(_) => {}
        }
    }

    fn begin(
        &mut self,
        entry: u64,
        time_ms: u64,
        action: &Arc<Action>,
        approval: Option<Approved>,
        decision: &Decision,
    ) {
        let Verdict::InFlight(in_flight) = &decision.verdict else { return };
        self.begin_effect(entry, time_ms, Arc::clone(action), approval, in_flight, &decision.charges, &decision.reads);
    }

    /// Puts an effect under way; `reads` are what its decision read.
    #[expect(clippy::too_many_arguments, reason = "the parts of one effect, named at the call")]
    pub fn begin_effect(
        &mut self,
        entry: u64,
        time_ms: u64,
        action: Arc<Action>,
        approval: Option<Approved>,
        in_flight: &InFlight,
        charges: &[Charge],
        reads: &[ReadVersion],
    ) {
        let phase = match in_flight {
            InFlight::Cooling { dispatch_at_ms } => Phase::Cooling { dispatch_at_ms: *dispatch_at_ms },
            InFlight::Dispatched(_) => match self.flight(entry, time_ms, &action.pact, in_flight, charges, reads) {
                Some(flight) => Phase::Dispatched(Arc::new(flight)),
                None => return,
            },
        };
        let effect = Effect { action, approval: approval.map(Arc::new), at_ms: time_ms, phase, latest: entry };
        self.effects.begin(EffectId(entry), effect, &mut self.fences);
    }

    /// A cooling effect goes off.
    pub fn dispatched(
        &mut self,
        effect: EffectId,
        entry: u64,
        time_ms: u64,
        in_flight: &InFlight,
        charges: &[Charge],
        reads: &[ReadVersion],
    ) {
        let Ok(pact) = self.effects.find(effect).map(|found| found.action.pact.clone()) else { return };
        if let Some(flight) = self.flight(entry, time_ms, &pact, in_flight, charges, reads) {
            self.effects.dispatch(effect, flight, &mut self.fences);
        }
    }

    fn flight(
        &self,
        entry: u64,
        time_ms: u64,
        pact: &PactName,
        in_flight: &InFlight,
        charges: &[Charge],
        reads: &[ReadVersion],
    ) -> Option<Flight> {
        let InFlight::Dispatched(dispatched) = in_flight else { return None };
        let outside = !dispatched.call.outside.is_empty();
        let context = self.pacts.get(pact).filter(|_| outside).map(|pact| Context {
            pact: Arc::clone(pact),
            facts: reads.iter().filter_map(|read| self.facts.get(&read.fact).cloned()).collect(),
        });
        Some(Flight { entry, at_ms: time_ms, dispatched: dispatched.clone(), charges: charges.to_vec(), context })
    }

    /// When the source of what an event writes said so: of a feed that was held, when it came and not when it was written.
    pub fn confirmed_at(&self, event: &Event, time_ms: u64) -> Option<u64> {
        match event {
            Event::Feed { held: None, .. } => Some(time_ms),
            Event::Feed { held: Some(held), .. } => self.held.get(held).map(|feed| feed.at_ms),
            _ => None,
        }
    }

    /// A fact was confirmed by its source. It stays at its version, so whatever was observed of it stays good.
    fn confirm(&mut self, entry: u64, at_ms: u64, by: &AgentId, id: &FactId, version: u64) {
        let Some(fact) = self.facts.get(id) else { return };
        // Entering it twice, or over a snapshot that knows of later ones, changes nothing.
        if fact.confirmed.as_ref().is_some_and(|confirmed| confirmed.entry >= entry) {
            return;
        }
        let confirmed = Some(Arc::new(Written { entry, version, at_ms, by: by.clone() }));
        self.put(Arc::new(Fact { confirmed, ..(**fact).clone() }));
    }

    /// The tag of a fact whose source may confirm it at this version: it is here, and at that version now.
    pub fn confirmable(&self, id: &FactId, version: u64) -> Option<Tag> {
        let fact = self.facts.get(id).filter(|fact| fact.value.is_some() && fact.version() == version)?;
        Some(fact.tag)
    }

    /// Keeps a feed until the fence on its fact ends.
    pub fn hold(&mut self, entry: u64, feed: HeldFeed) {
        let fact = feed.fact.clone();
        // Entering it twice, as over a snapshot, holds it once.
        if self.held.insert(entry, feed).is_none() {
            self.fences.hold(&fact);
        }
    }

    /// A held feed is written, and no longer waits.
    pub fn release(&mut self, held: u64) {
        if let Some(released) = self.held.remove(&held) {
            self.fences.release(&released.fact);
        }
    }

    /// Forgets a deleted fact whose deletion is erased.
    fn forget(&mut self, Forgotten { tag, version }: Forgotten) {
        self.facts.forget(tag);
        self.version_floor = self.version_floor.max(version);
    }

    /// Who wrote what an entry writes. The gate makes the entries of settlements and of feeds that were held; what they write is
    /// the work of whoever acted, and of whoever fed.
    pub fn writer<'a>(&'a self, event: &'a Event, by: &'a AgentId) -> &'a AgentId {
        match event {
            Event::Settle(settle) => &settle.agent,
            Event::Feed { held: Some(held), .. } => self.held.get(held).map_or(by, |feed| &feed.by),
            _ => by,
        }
    }

    /// The oldest held feed whose fact no call relies on any more.
    pub fn next_released(&self) -> Option<(u64, &HeldFeed)> {
        let mut feeds = self.held.iter().map(|(entry, held)| (*entry, held));
        feeds.find(|(_, held)| !self.fences.is_steady(&held.fact))
    }

    /// The feeds of a fact that wait, oldest first, with their entries.
    pub fn held_feeds(&self, fact: &FactId) -> impl Iterator<Item = (u64, &HeldFeed)> {
        let feeds = self.held.iter().map(|(entry, held)| (*entry, held));
        feeds.filter(move |(_, held)| held.fact == *fact)
    }

    /// Whether a feed of this fact must wait: a call relies on the fact, or an earlier feed waits already.
    pub fn must_hold(&self, fact: &FactId) -> bool {
        self.fences.is_steady(fact) || self.fences.is_held(fact)
    }
}

/// The action as its entry keeps it: of what it did not read no value is kept, so nothing may rest on one here either.
fn without_unread(action: &Action, reads: &[ReadVersion]) -> Action {
    let mut action = action.clone();
    for observed in &mut action.observed {
        if !reads.iter().any(|read| read.fact == observed.fact) {
            observed.value = None;
        }
    }
    action
}
