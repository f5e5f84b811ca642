//! What was under way by entries that are erased: reviews, claims, held feeds and calls in flight, followed by their leaves alone.
//!
//! What goes on with such a thing cannot be derived again, and what was fenced by it cannot be found again. Both are unverifiable and not
//! wrong, but only while it was under way: leaves tell when it ended.

use super::fault::RestsOn;
use countersign_core::fence::{ClaimId, Fences};
use countersign_core::ids::AgentId;
use countersign_core::limits::{CLAIM_MS_MAX, REVIEW_EXPIRES_MS};
use countersign_core::reason::Reason;
use countersign_core::record::{Event, Kind, Leaf, LeafVerdict};
use std::collections::{BTreeMap, BTreeSet};

/// What was under way, with the erased entry that began it.
#[derive(Debug, Default)]
pub(super) struct Lost {
    effects: BTreeMap<u64, u64>,
    held: BTreeMap<u64, u64>,
    /// Each with the time after which it is over by itself.
    claims: BTreeMap<u64, u64>,
    /// Every erased claim, however it ended, for as long as a claim that it took facts from may last.
    took: BTreeMap<u64, Took>,
    reviews: BTreeMap<u64, u64>,
    /// Sessions whose opening is erased: what they have read since may be all that is known of them, or nothing.
    sessions: BTreeSet<u64>,
}

/// A claim of which it is not known which facts it took from others.
#[derive(Debug)]
struct Took {
    by: AgentId,
    until_ms: u64,
}

impl Lost {
    /// An erased entry may have begun something.
    pub(super) fn begun(&mut self, leaf: &Leaf) {
        let index = leaf.index;
        match (leaf.kind, leaf.verdict) {
            (Kind::Claim, _) => {
                let until_ms = leaf.time.saturating_add(CLAIM_MS_MAX);
                self.claims.insert(index, until_ms);
                self.took.insert(index, Took { by: leaf.by.clone(), until_ms });
            }
            (Kind::Held, _) => drop(self.held.insert(index, index)),
            (Kind::Session, _) => {
                self.sessions.insert(index);
            }
            (_, Some(LeafVerdict::InFlight)) => drop(self.effects.insert(leaf.effect.unwrap_or(index), index)),
            (Kind::Action | Kind::Shadow, Some(LeafVerdict::Review)) => {
                self.reviews.insert(index, leaf.time.saturating_add(REVIEW_EXPIRES_MS));
            }
            _ => {}
        }
    }

    /// An entry, erased or not, may have ended something.
    pub(super) fn ended(&mut self, event: &Event, time_ms: u64) {
        // No longer claim is granted than this, extensions included.
        self.claims.retain(|_, until_ms| time_ms <= *until_ms);
        self.took.retain(|_, took| time_ms <= took.until_ms);
        let (claim, held, review) = match event {
            Event::Withdrawal { claim } => (Some(claim.0), None, None),
            Event::Feed { held, .. } => (None, *held, None),
            Event::Approval(approved) if !approved.is_void() => (None, None, Some(approved.shown.review.0)),
            Event::Refusal { review, .. } | Event::Expiry { review } => (None, None, Some(review.0)),
            Event::Erased(leaf) if leaf.verdict == Some(LeafVerdict::Rejected) => (None, None, None),
            Event::Erased(leaf) => (leaf.claim.filter(|_| leaf.kind == Kind::Withdrawal), leaf.held, leaf.review),
            Event::Erasure { entries, .. } => {
                // Whether they had ended was asked before.
                entries.iter().for_each(|entry| {
                    self.reviews.remove(entry);
                    self.claims.remove(entry);
                });
                (None, None, None)
            }
            _ => (None, None, None),
        };
        if let Some(effect) = event.effect()
            && !matches!(event.verdict(), Some(LeafVerdict::InFlight | LeafVerdict::InDoubt))
        {
            self.effects.remove(&effect.0);
        }
        claim.map(|claim| self.claims.remove(&claim));
        held.map(|held| self.held.remove(&held));
        review.map(|review| self.reviews.remove(&review));
    }

    /// The erased entry that something rests on, if that was under way.
    pub(super) fn under_way(&self, rests_on: &RestsOn) -> Option<u64> {
        match rests_on {
            RestsOn::Review(review) => self.reviews.get_key_value(review).map(|(entry, _)| *entry),
            RestsOn::Claim(claim) => self.claims.get_key_value(claim).map(|(entry, _)| *entry),
            RestsOn::Effect(effect) => self.effects.get(effect).copied(),
            RestsOn::Session(session) => self.sessions.get(session).copied(),
            RestsOn::Claimed(claim) => self.took_from(*claim),
            // Which is released first also rests on which facts were fenced.
            RestsOn::Held(held) => self.held.get(held).or_else(|| self.effects.values().next()).copied(),
            RestsOn::Fences => self.effects.values().chain(self.held.values()).next().copied(),
            RestsOn::Fact(_) | RestsOn::Shown(_) | RestsOn::Decision(_) | RestsOn::Nothing => None,
        }
    }

    /// The erased claim that may have taken facts from a claim that is known, or from any: a later one does, also of the same agent.
    fn took_from(&self, claim: Option<ClaimId>) -> Option<u64> {
        let later = claim.map_or(0, |claim| claim.0.saturating_add(1));
        self.took.range(later..).next().map(|(entry, _)| *entry)
    }

    /// The erased claim that explains until when another may last, if that is not what it would be without: one of the same agent, whose
    /// end goes on, or one that took the fact, and with it the end that would have gone on.
    pub(super) fn carried(&self, by: &AgentId, said_until_ms: u64, made_until_ms: u64) -> Option<u64> {
        if said_until_ms > made_until_ms {
            return self.took_from(None);
        }
        let is_own = |entry: &u64| self.took.get(entry).is_some_and(|took| took.by == *by);
        let own = self.claims.iter().find(|(entry, until_ms)| is_own(entry) && said_until_ms <= **until_ms);
        own.map(|(entry, _)| *entry)
    }

    /// The erased entry without which a reason cannot be found again: it names what was under way, or how much was.
    pub(super) fn named_by(&self, reason: &Reason) -> Option<u64> {
        match reason {
            Reason::ClaimLost { claim, .. } | Reason::FactClaimed { claim, .. } => {
                self.claims.get_key_value(&claim.0).map(|(entry, _)| *entry)
            }
            Reason::FactFenced { effect, .. } => {
                self.effects.get(&effect.0).or_else(|| self.held.values().next()).copied()
            }
            Reason::TooManyEffects => self.effects.values().next().copied(),
            Reason::TooManyReviews => self.reviews.keys().next().copied(),
            _ => None,
        }
    }

    /// The erased claim that may have taken facts from one that is known: so that claim is said to be lost, or is found in the way where it
    /// no longer was.
    pub(super) fn taken(&self, said: Option<&Reason>, made: Option<&Reason>, fences: &Fences) -> Option<u64> {
        let lost = match (said, made) {
            (Some(Reason::ClaimLost { claim, .. }), _) | (_, Some(Reason::FactClaimed { claim, .. })) => claim,
            _ => return None,
        };
        fences.claims().find(|(id, _)| id == lost).and_then(|(id, _)| self.took_from(Some(id)))
    }

    /// Why the erased entries of something must not be erased at this time: it had not ended.
    pub(super) fn in_force(&self, entry: u64, effect: Option<u64>, time_ms: u64) -> Option<&'static str> {
        if self.effects.contains_key(&effect.unwrap_or(entry)) {
            return Some("its effect had not ended");
        }
        if self.held.contains_key(&entry) {
            return Some("its feed was not written yet");
        }
        self.reviews.get(&entry).filter(|expires_at_ms| time_ms <= **expires_at_ms).map(|_| "it waited for a person")
    }
}
