//! What was under way by entries that are erased: claims, held feeds and calls in flight, followed by their leaves alone.
//!
//! They fenced facts. An entry that came out differently because a fence is missing here is unverifiable and not wrong, but only
//! while such a thing was under way, and only where the entry is about fences at all.

use countersign_core::code::Code;
use countersign_core::record::{Event, Kind, Leaf, LeafVerdict};
use std::collections::BTreeMap;

/// The codes that speak of fences.
pub(super) const FENCED: &[Code] = &[Code::FactClaimed, Code::FactFenced, Code::ClaimLost];

/// What was under way, with the erased entry that began it.
#[derive(Debug, Default)]
pub(super) struct Lost {
    effects: BTreeMap<u64, u64>,
    claims: BTreeMap<u64, u64>,
    held: BTreeMap<u64, u64>,
}

impl Lost {
    /// An erased entry may have begun something.
    pub(super) fn begun(&mut self, leaf: &Leaf) {
        let index = leaf.index;
        match (leaf.kind, leaf.verdict) {
            (Kind::Claim, _) => drop(self.claims.insert(index, index)),
            (Kind::Held, _) => drop(self.held.insert(index, index)),
            (_, Some(LeafVerdict::InFlight)) => drop(self.effects.insert(leaf.effect.unwrap_or(index), index)),
            _ => {}
        }
    }

    /// An entry, erased or not, may have ended something.
    pub(super) fn ended(&mut self, event: &Event) {
        let (claim, held) = match event {
            Event::Withdrawal { claim } => (Some(claim.0), None),
            Event::Feed { held, .. } => (None, *held),
            Event::Erased(leaf) => (leaf.claim.filter(|_| leaf.kind == Kind::Withdrawal), leaf.held),
            _ => (None, None),
        };
        if let Some(effect) = event.effect()
            && !matches!(event.verdict(), Some(LeafVerdict::InFlight | LeafVerdict::InDoubt))
        {
            self.effects.remove(&effect.0);
        }
        claim.map(|claim| self.claims.remove(&claim));
        held.map(|held| self.held.remove(&held));
    }

    /// Whether an entry is about fences whatever it says: it announces, holds, releases or settles.
    pub(super) fn concerns(event: &Event) -> bool {
        matches!(
            event,
            Event::Claim { .. }
                | Event::Extension { .. }
                | Event::Withdrawal { .. }
                | Event::Held { .. }
                | Event::Feed { held: Some(_), .. }
                | Event::Dispatch(_)
                | Event::Settle(_)
        )
    }

    /// The erased entry that an entry may rest on: of its own effect, or else anything that was under way.
    pub(super) fn under_way(&self, event: &Event) -> Option<u64> {
        let own = event.effect().and_then(|effect| self.effects.get(&effect.0));
        let others = self.effects.values().chain(self.claims.values()).chain(self.held.values());
        own.or_else(|| others.into_iter().next()).copied()
    }
}
