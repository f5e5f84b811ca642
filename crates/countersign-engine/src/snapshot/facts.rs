//! The facts as they were at a snapshot's position, copied piece by piece while entries go on.
//!
//! A replay from that position must find what the entries behind it found. What a dispatch was decided on, agents and readings among it,
//! may change while it is under way, and a call that rested on a later version could leave although its dispatch rules it out (I1, I3).

use crate::view::{Pin, Synced};
use countersign_core::fact::Fact;
use countersign_core::ids::FactId;
use countersign_core::state::SHARDS;
use std::collections::HashMap;
use std::sync::Arc;

/// The facts as of a position, shard by shard.
pub(super) struct FactsAsOf<'a> {
    pin: Pin<'a>,
    /// What entries in front of this one replaced has been seen.
    seen: u64,
    /// What the first entry from the position on replaced, of each fact that one did, in the shards that are still to be copied.
    before: Vec<HashMap<FactId, Option<Arc<Fact>>>>,
    next: usize,
}

impl<'a> FactsAsOf<'a> {
    /// The facts as of the position that is pinned.
    pub(super) fn new(pin: Pin<'a>, position: u64) -> Self {
        Self { pin, seen: position, before: vec![HashMap::new(); SHARDS], next: 0 }
    }

    /// The facts of the next shard; `None` after the last.
    pub(super) fn next_shard(&mut self, view: Synced<'_>) -> Option<Vec<Arc<Fact>>> {
        let shard = self.next;
        if shard >= SHARDS {
            return None;
        }
        self.next += 1;
        // Only pointers and names are copied under the lock.
        let (facts, next_entry) = view.facts_ahead();
        let of_later = |(at, id, before): (usize, &FactId, Option<&Arc<Fact>>)| (at, id.clone(), before.cloned());
        let replaced = facts.replaced_since(self.seen).filter(|(at, ..)| *at >= shard).map(of_later);
        let replaced: Vec<_> = replaced.collect();
        let now: Vec<Arc<Fact>> = facts.shard(shard).cloned().collect();
        self.seen = next_entry;
        self.pin.advance(next_entry);
        drop(view);
        for (at, id, before) in replaced {
            if let Some(of_shard) = self.before.get_mut(at) {
                of_shard.entry(id).or_insert(before);
            }
        }
        let mut before = self.before.get_mut(shard).map(std::mem::take).unwrap_or_default();
        // What is left in the end was taken out of the table since.
        let mut then: Vec<Arc<Fact>> = Vec::with_capacity(now.len());
        then.extend(now.into_iter().filter_map(|fact| before.remove(&fact.id).unwrap_or(Some(fact))));
        then.extend(before.into_values().flatten());
        Some(then)
    }
}
