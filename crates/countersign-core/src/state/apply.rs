//! What each entry does to the state: the one fold.

// A new kind of entry must be led to every place that asks what it does.
#![deny(clippy::wildcard_enum_match_arm)]

use super::{BudgetUse, HeldFeed, State};
use crate::action::Action;
use crate::call::{EffectId, Outcome, external_key};
use crate::decide::readings_in;
use crate::decision::{Charge, Decision, Dispatched, InFlight, ReadVersion, Verdict, Write};
use crate::effect::{Approved, Context, Effect, Flight, Phase};
use crate::erase::Forgotten;
use crate::fact::{Fact, Written};
use crate::fence::{Claim, ClaimId};
use crate::halt::Halt;
use crate::ids::{AgentId, FactId, Tag};
use crate::pact::Pact;
use crate::pact::catalogue::{AGENT, OPERATOR};
use crate::record::{Entry, Event, Kind, Leaf, LeafVerdict};
use crate::review::Ended;
use std::sync::Arc;

impl State {
    /// Applies an entry. Applying one again that is in the state already changes nothing, which is what lets a snapshot be taken
    /// while entries go on. Whether the entry may be made at all was asked before.
    pub fn apply(&mut self, entry: &Entry) {
        self.facts.begin(entry.index);
        self.write_facts(entry);
        self.charge(entry);
        self.next_entry = self.next_entry.max(entry.index.saturating_add(1));
        let (index, time_ms, by) = (entry.index, entry.time_ms, &entry.by);
        match &entry.event {
            Event::Genesis { origin, is_identified, .. } => {
                self.origin = Arc::from(origin.as_str());
                if *is_identified {
                    self.keys.identify();
                }
            }
            Event::Denials(_) | Event::Clock { .. } | Event::Rotation { .. } => {}
            Event::Observation(observation) => self.observing.count(&observation.counts, time_ms),
            // A batch is what its actions do, each in its own entry; of a rejected group nothing is done.
            Event::Batch { .. } | Event::Group(_) => {}
            // All that they did is in what they wrote and charged.
            Event::Done(_) | Event::Session { .. } | Event::Reading { .. } => {}
            Event::Pact(pact) => self.publish(pact),
            Event::Feed { held, .. } => held.iter().for_each(|held| self.release(*held)),
            Event::Held { fact, value } => {
                let held = HeldFeed { fact: fact.clone(), value: value.clone(), by: by.clone(), at_ms: time_ms };
                self.hold(index, held);
            }
            Event::Confirm { fact, version, .. } => self.confirm(index, time_ms, by, fact, *version),
            Event::Action(decided) => self.act(index, time_ms, &decided.action, &decided.decision),
            // One that is void changes nothing: the review waits on.
            Event::Approval(approved) if approved.is_void() => {}
            Event::Approval(approved) => {
                // The action as it was parked: an approval that is read back does not hold all of it.
                let parked = self.reviews.parked(approved.shown.review);
                self.reviews.close(approved.shown.review.0, Ended::Approved, index);
                let approval = Approved { by: by.clone(), shown: approved.shown.clone(), until_ms: approved.until_ms };
                if let (Some(action), Verdict::InFlight(in_flight)) = (parked, &approved.decision.verdict) {
                    self.begin(index, time_ms, action, Some(approval), in_flight, &approved.decision);
                }
            }
            Event::Refusal { review, .. } => self.reviews.close(review.0, Ended::Refused, index),
            Event::Expiry { review } => self.reviews.close(review.0, Ended::Expired, index),
            Event::Halt { scope, reason } => {
                let halt = Halt { entry: index, by: by.clone(), at_ms: time_ms, reason: reason.clone() };
                self.halts.halt(scope.clone(), halt);
            }
            Event::Resume { scope, .. } => self.halts.resume(scope),
            Event::Dispatch(dispatch) => match dispatch.decision.dispatched() {
                Some(dispatched) => self.dispatch(dispatch.effect, index, time_ms, dispatched, &dispatch.decision),
                None => self.settle(dispatch.effect, Outcome::Failed, index, time_ms),
            },
            Event::Settle(settle) => self.settle(settle.effect, settle.outcome, index, time_ms),
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
                self.fences.announce(index, claim);
            }
            Event::Extension { claim, expires_at_ms } => self.fences.extend(*claim, *expires_at_ms),
            Event::Withdrawal { claim } => self.fences.withdraw(*claim),
            Event::Erasure { entries, forgotten, .. } => {
                for erased in entries {
                    self.erased.insert(*erased);
                    self.reviews.close(*erased, Ended::Erased, index);
                    // It has ended, and is kept only until room is needed: with the facts that it names.
                    self.fences.withdraw(ClaimId(*erased));
                }
                for forgotten in forgotten {
                    self.forget(*forgotten);
                }
            }
            Event::Erased(leaf) => self.apply_leaf(leaf),
        }
    }

    /// What the leaf of an erased entry still says: which review or effect it began or ended, and which held feed it released.
    fn apply_leaf(&mut self, leaf: &Leaf) {
        let (index, time_ms) = (leaf.index, leaf.time);
        let ended = match leaf.kind {
            Kind::Action | Kind::Shadow => {
                if leaf.verdict == Some(LeafVerdict::Review) {
                    self.reviews.park_gone(index, time_ms);
                }
                None
            }
            // A void approval leaves the action parked.
            Kind::Approval => Some(Ended::Approved).filter(|_| leaf.verdict != Some(LeafVerdict::Rejected)),
            Kind::Refusal => Some(Ended::Refused),
            Kind::Expiry => Some(Ended::Expired),
            Kind::Genesis
            | Kind::Pact
            | Kind::Feed
            | Kind::Held
            | Kind::Confirm
            | Kind::Erasure
            | Kind::Clock
            | Kind::Halt
            | Kind::Resume
            | Kind::Dispatch
            | Kind::Settle
            | Kind::Claim
            | Kind::Extension
            | Kind::Withdrawal
            | Kind::Session
            | Kind::Reading
            | Kind::Observation
            | Kind::Denials
            | Kind::Batch
            | Kind::Group
            | Kind::Rotation => None,
        };
        if let (Some(ended), Some(review)) = (ended, leaf.review) {
            self.reviews.close(review, ended, index);
        }
        match (leaf.moves(), leaf.verdict) {
            // What is under way is never erased, so it has ended: by an entry that follows.
            (None, _) | (_, Some(LeafVerdict::InFlight)) => {}
            (Some(effect), verdict) => {
                let outcome = verdict.and_then(LeafVerdict::outcome).unwrap_or(Outcome::Failed);
                self.settle(effect, outcome, index, time_ms);
            }
        }
        if let Some(held) = leaf.held {
            self.release(held);
        }
    }

    /// Writes the facts of an entry, each a version further.
    fn write_facts(&mut self, entry: &Entry) {
        let writes = entry.event.writes();
        if writes.is_empty() {
            return;
        }
        // The gate makes the entries of settlements and of feeds that were held. What they write was written by the agent that acted,
        // and by the operator who fed; and a feed that was held was confirmed when it came, not when it was written.
        let (by, confirmed_at_ms) = match &entry.event {
            Event::Settle(settle) => (settle.agent.clone(), None),
            Event::Feed { held: None, .. } => (entry.by.clone(), Some(entry.time_ms)),
            Event::Feed { held: Some(held), .. } => match self.held.get(held) {
                Some(feed) => (feed.by.clone(), Some(feed.at_ms)),
                None => (entry.by.clone(), None),
            },
            Event::Genesis { .. }
            | Event::Pact(_)
            | Event::Held { .. }
            | Event::Confirm { .. }
            | Event::Action(_)
            | Event::Erasure { .. }
            | Event::Clock { .. }
            | Event::Approval(_)
            | Event::Refusal { .. }
            | Event::Expiry { .. }
            | Event::Halt { .. }
            | Event::Resume { .. }
            | Event::Dispatch(_)
            | Event::Claim { .. }
            | Event::Extension { .. }
            | Event::Withdrawal { .. }
            | Event::Session { .. }
            | Event::Reading { .. }
            | Event::Observation(_)
            | Event::Denials(_)
            | Event::Batch { .. }
            | Event::Group(_)
            | Event::Rotation { .. }
            | Event::Done(_)
            | Event::Erased(_) => (entry.by.clone(), None),
        };
        for write in writes {
            self.advance(&write.fact, |before| {
                if before.is_some_and(|fact| fact.version() >= write.version) {
                    return None;
                }
                let place = (entry.index, entry.time_ms);
                Some(Arc::new(after(before.map(AsRef::as_ref), write, place, &by, confirmed_at_ms)))
            });
        }
    }

    /// Puts the next version of a fact in the place of the one before, if there is a next one.
    fn advance(&mut self, id: &FactId, next: impl FnOnce(Option<&Arc<Fact>>) -> Option<Arc<Fact>>) {
        let Self { facts, keys, .. } = self;
        let is_identity = is_identity(id);
        facts.advance(id, |before| {
            let fact = next(before)?;
            if is_identity {
                keys.put(before.map(AsRef::as_ref), &fact);
            }
            Some(fact)
        });
    }

    /// Puts a version of a fact in the place of the one before.
    pub(super) fn put(&mut self, fact: Arc<Fact>) {
        let id = fact.id.clone();
        self.advance(&id, |_| Some(fact));
    }

    fn charge(&mut self, entry: &Entry) {
        for Charge { budget, window, amount } in entry.event.charges() {
            let held = match self.budgets.get(budget) {
                Some(held) if held.entry >= entry.index => continue,
                Some(held) if held.window == *window => held.used,
                // What is given back to a window that has closed is of no use to the next.
                _ if *amount < 0 => continue,
                _ => 0,
            };
            let used = held.saturating_add(*amount);
            self.budgets.insert(budget.clone(), BudgetUse { window: *window, used, entry: entry.index });
        }
    }

    /// Makes a pact the current one of its name. It was checked before, so its types fit; if they did not, they would not count.
    pub(super) fn publish(&mut self, pact: &Arc<Pact>) {
        if let Ok(catalogue) = self.catalogue.admit(pact) {
            self.catalogue = Arc::new(catalogue);
        }
        self.pacts.insert(pact.name.clone(), Arc::clone(pact));
    }

    fn act(&mut self, index: u64, time_ms: u64, action: &Action, decision: &Decision) {
        match &decision.verdict {
            Verdict::Review { .. } => {
                let action = Arc::new(without_unread(action, &decision.reads));
                self.reviews.park(index, time_ms, action, readings_in(decision));
            }
            Verdict::InFlight(in_flight) => {
                let action = Arc::new(without_unread(action, &decision.reads));
                self.begin(index, time_ms, action, None, in_flight, decision);
            }
            Verdict::Committed | Verdict::Rejected(_) => {}
        }
    }

    /// Puts an effect under way.
    fn begin(
        &mut self,
        index: u64,
        time_ms: u64,
        action: Arc<Action>,
        approval: Option<Approved>,
        in_flight: &InFlight,
        decision: &Decision,
    ) {
        let id = EffectId(index);
        let phase = match in_flight {
            InFlight::Cooling { dispatch_at_ms } => Phase::Cooling { dispatch_at_ms: *dispatch_at_ms },
            InFlight::Dispatched(dispatched) => {
                Phase::Dispatched(Arc::new(self.flight((id, &action), index, time_ms, dispatched, decision)))
            }
        };
        let rests_on = readings_in(decision);
        let approval = approval.map(Arc::new);
        let effect = Effect { id, action, approval, rests_on, at_ms: time_ms, phase, latest: index };
        self.effects.begin(effect, &mut self.fences);
    }

    /// A cooling effect goes off.
    fn dispatch(&mut self, effect: EffectId, index: u64, time_ms: u64, dispatched: &Dispatched, decision: &Decision) {
        let Ok(action) = self.effects.find(effect).map(|found| Arc::clone(&found.action)) else { return };
        let flight = self.flight((effect, &action), index, time_ms, dispatched, decision);
        self.effects.dispatch(effect, flight, &mut self.fences);
    }

    fn settle(&mut self, effect: EffectId, outcome: Outcome, index: u64, time_ms: u64) {
        self.effects.settle(effect, outcome, index, time_ms, &mut self.fences);
    }

    fn flight(
        &self,
        (effect, action): (EffectId, &Action),
        entry: u64,
        at_ms: u64,
        dispatched: &Dispatched,
        Decision { reads, charges, .. }: &Decision,
    ) -> Flight {
        let outside = !dispatched.call.outside.is_empty();
        let context = dispatched.rests_on.get(|| {
            let pact = self.pacts.get(&action.pact).filter(|_| outside)?;
            let facts = reads.iter().filter_map(|read| self.facts.get(&read.fact).cloned());
            Some(Context { pact: Arc::clone(pact), facts: facts.collect() })
        });
        let key = external_key(&self.origin, effect, &action.id);
        Flight { entry, at_ms, dispatched: dispatched.clone(), key, charges: charges.clone(), context }
    }

    /// A fact was confirmed by its source. It stays at its version, so whatever was observed of it stays good.
    fn confirm(&mut self, entry: u64, at_ms: u64, by: &AgentId, id: &FactId, version: u64) {
        let Some(fact) = self.facts.get(id) else { return };
        // Entering it twice, or over a snapshot that knows of later ones, changes nothing.
        if fact.confirmed.as_ref().is_some_and(|confirmed| confirmed.entry >= entry) {
            return;
        }
        let mut confirmed = Fact::clone(fact);
        confirmed.confirmed = Some(Arc::new(Written { entry, version, at_ms, by: by.clone() }));
        self.put(Arc::new(confirmed));
    }

    /// Keeps a feed until the fence on its fact ends.
    pub(super) fn hold(&mut self, entry: u64, feed: HeldFeed) {
        let fact = feed.fact.clone();
        // Entering it twice, as over a snapshot, holds it once.
        if self.held.insert(entry, feed).is_none() {
            self.fences.hold(&fact);
        }
    }

    /// A held feed is written, and no longer waits.
    fn release(&mut self, held: u64) {
        if let Some(released) = self.held.remove(&held) {
            self.fences.release(&released.fact);
        }
    }

    /// Forgets a deleted fact whose deletion is erased.
    fn forget(&mut self, Forgotten { tag, version }: Forgotten) {
        self.facts.forget(tag);
        self.version_floor = self.version_floor.max(version);
    }
}

/// Whether a fact is of an agent or an operator.
pub(super) fn is_identity(id: &FactId) -> bool {
    matches!(id.ty().as_str(), AGENT | OPERATOR)
}

/// The fact that a write makes by itself, as the entry that holds it says.
pub fn written(write: &Write, place: (u64, u64), by: &AgentId) -> Fact {
    after(None, write, place, by, None)
}

/// The version that a write makes.
pub(crate) fn after(
    before: Option<&Fact>,
    write: &Write,
    (entry, at_ms): (u64, u64),
    by: &AgentId,
    confirmed_at_ms: Option<u64>,
) -> Fact {
    let version = write.version;
    let written = Written { entry, version, at_ms, by: by.clone() };
    let tag = write.tag.unwrap_or(Tag([0; 12]));
    let mut after = Fact::after(before, write.fact.clone(), tag, write.value.clone(), written);
    if let Some(at_ms) = confirmed_at_ms {
        after.confirmed = Some(Arc::new(Written { at_ms, ..after.written.clone() }));
    }
    after
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
