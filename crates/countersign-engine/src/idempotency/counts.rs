//! How many keys each agent has used, today and the day before: no agent may fill the disk for all.

use countersign_core::limits::IDEMPOTENCY_KEPT_MS;
use hashbrown::HashMap;
use smol_str::SmolStr;

/// A snapshot copies one shard at a time, so that the sequencer waits for few agents however many there are.
pub(super) const SHARDS: usize = 64;

/// How many keys an agent has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// The day of ledger time of its last key.
    pub day: u64,
    pub current: u32,
    /// On the day before.
    pub before: u32,
}

impl Count {
    /// The same, seen from another day.
    fn on(self, day: u64) -> Self {
        match day.saturating_sub(self.day) {
            0 => self,
            1 => Self { day, current: 0, before: self.current },
            _ => Self { day, current: 0, before: 0 },
        }
    }

    fn total(self) -> u32 {
        self.current.saturating_add(self.before)
    }
}

/// The counts of all agents.
#[derive(Debug)]
pub(super) struct Counts {
    shards: Box<[HashMap<SmolStr, Count>]>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashMap::new()).collect() }
    }
}

fn shard_of(agent: &str) -> usize {
    agent.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % SHARDS
}

impl Counts {
    /// An agent uses one more key.
    pub(super) fn add(&mut self, agent: &SmolStr, at_ms: u64) {
        let Some(shard) = self.shards.get_mut(shard_of(agent)) else { return };
        let count = match shard.get_mut(agent) {
            Some(count) => count,
            None => shard.entry(agent.clone()).or_default(),
        };
        *count = count.on(at_ms / IDEMPOTENCY_KEPT_MS);
        count.current = count.current.saturating_add(1);
    }

    /// How many keys of an agent are remembered.
    pub(super) fn of(&self, agent: &SmolStr, now_ms: u64) -> u32 {
        let count = self.shards.get(shard_of(agent)).and_then(|shard| shard.get(agent));
        count.map_or(0, |count| count.on(now_ms / IDEMPOTENCY_KEPT_MS).total())
    }

    /// The agents of one shard; those that have none any more are dropped.
    pub(super) fn copy(&mut self, shard: usize, now_ms: u64) -> Vec<(SmolStr, Count)> {
        let Some(shard) = self.shards.get_mut(shard) else { return Vec::new() };
        shard.retain(|_, count| count.on(now_ms / IDEMPOTENCY_KEPT_MS).total() > 0);
        shard.iter().map(|(agent, count)| (agent.clone(), *count)).collect()
    }

    /// Puts a count back.
    pub(super) fn put(&mut self, agent: SmolStr, count: Count) {
        if let Some(shard) = self.shards.get_mut(shard_of(&agent)) {
            shard.insert(agent, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_count_for_one_to_two_days() {
        let mut counts = Counts::default();
        let (agent, idle) = (SmolStr::new("a"), SmolStr::new("b"));
        let at = 10 * IDEMPOTENCY_KEPT_MS + 5;
        counts.add(&agent, at);
        assert_eq!((counts.of(&agent, at), counts.of(&idle, at)), (1, 0));
        counts.add(&agent, at + IDEMPOTENCY_KEPT_MS);
        assert_eq!(counts.of(&agent, at + IDEMPOTENCY_KEPT_MS), 2, "both days");
        assert_eq!(counts.of(&agent, at + 2 * IDEMPOTENCY_KEPT_MS), 1, "what is forgotten no longer counts");
        let copied: Vec<_> = (0..SHARDS).flat_map(|shard| counts.copy(shard, at + 9 * IDEMPOTENCY_KEPT_MS)).collect();
        assert_eq!(copied, [], "nor are agents kept that have none");
        assert_eq!(counts.shards.iter().map(HashMap::len).sum::<usize>(), 0);
    }
}
