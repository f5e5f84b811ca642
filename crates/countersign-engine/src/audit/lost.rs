//! What was under way by entries that are erased: claims, held feeds and calls in flight, followed by their leaves alone.
//!
//! They fenced facts. An entry that came out differently because a fence is missing here is unverifiable and not wrong, but only
//! while such a thing was under way, and only where the entry is about fences at all.

use countersign_core::code::Code;
use countersign_core::record::Leaf;
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
    /// Takes in an erased entry.
    pub(super) fn begun(&mut self, leaf: &Leaf) {
        let index = leaf.index;
        match (leaf.kind.as_str(), leaf.verdict.as_deref()) {
            ("claim", _) => drop(self.claims.insert(index, index)),
            ("held", _) => drop(self.held.insert(index, index)),
            (_, Some("in_flight")) => drop(self.effects.insert(leaf.effect.unwrap_or(index), index)),
            _ => {}
        }
    }

    /// Takes in what an entry ends, erased or not.
    pub(super) fn ended(&mut self, leaf: &Leaf) {
        if let Some(effect) = leaf.effect
            && !matches!(leaf.verdict.as_deref(), Some("in_flight" | "in_doubt"))
        {
            self.effects.remove(&effect);
        }
        if leaf.kind == "withdrawal" {
            leaf.claim.map(|claim| self.claims.remove(&claim));
        }
        leaf.held.map(|held| self.held.remove(&held));
    }

    /// Whether an entry is about fences whatever it says: it announces, holds, releases or settles.
    pub(super) fn concerns(leaf: &Leaf) -> bool {
        matches!(leaf.kind.as_str(), "claim" | "held" | "dispatch" | "settle")
            || leaf.held.is_some()
            || leaf.claim.is_some()
    }

    /// The erased entry that an entry may rest on: of its own effect, or else anything that was under way.
    pub(super) fn under_way(&self, leaf: &Leaf) -> Option<u64> {
        let own = leaf.effect.and_then(|effect| self.effects.get(&effect));
        let others = self.effects.values().chain(self.claims.values()).chain(self.held.values());
        own.or_else(|| others.into_iter().next()).copied()
    }
}
