//! Which actions were seen under which keys: the same key answers with the same action for a day of ledger time.
//!
//! Two generations, each of a day: a key is looked for in both, and the older is dropped whole when a new day of ledger
//! time begins. So forgetting costs nothing while running, and a key is remembered for one to two days (never less than
//! promised; the exact age decides, so a replay decides the same).

use countersign_core::action::KeyDigest;
use countersign_core::ids::ActionId;
use countersign_core::limits::IDEMPOTENCY_KEPT_MS;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Takes the digest itself as the hash.
#[derive(Debug, Default, Clone)]
pub struct Front(u64);

impl Hasher for Front {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        if let Some(front) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*front);
        }
    }
}

type Generation = HashMap<KeyDigest, Seen, BuildHasherDefault<Front>>;

/// An action seen under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub entry: u64,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
    /// The front of its id, to tell another body under the same key.
    pub action: [u8; 8],
}

/// The keys seen.
#[derive(Debug, Default)]
pub struct Idempotency {
    day: u64,
    current: Generation,
    before: Generation,
    /// How many keys of each agent are in the current generation, and in the one before.
    by_agent: HashMap<SmolStr, [u32; 2]>,
}

/// What is known of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing.
    New,
    /// The same action was decided in this entry.
    Same(u64),
    /// Another action was decided under the key, in this entry.
    Other(u64),
}

fn front(action: &ActionId) -> [u8; 8] {
    action.0.first_chunk().copied().unwrap_or_default()
}

impl Idempotency {
    /// Looks a key up.
    pub fn lookup(&self, key: &KeyDigest, action: &ActionId, now_ms: u64) -> Lookup {
        let seen = self.current.get(key).or_else(|| self.before.get(key));
        match seen.filter(|seen| now_ms.saturating_sub(seen.at_ms) <= IDEMPOTENCY_KEPT_MS) {
            None => Lookup::New,
            Some(seen) if seen.action == front(action) => Lookup::Same(seen.entry),
            Some(seen) => Lookup::Other(seen.entry),
        }
    }

    /// Remembers a key of an agent.
    pub fn insert(&mut self, agent: &SmolStr, key: KeyDigest, action: &ActionId, entry: u64, at_ms: u64) {
        if !self.put(key, Seen { entry, at_ms, action: front(action) }) {
            return;
        }
        let generation = usize::from(at_ms / IDEMPOTENCY_KEPT_MS < self.day);
        let counts = match self.by_agent.get_mut(agent) {
            Some(counts) => counts,
            None => self.by_agent.entry(agent.clone()).or_default(),
        };
        if let Some(count) = counts.get_mut(generation) {
            *count = count.saturating_add(1);
        }
    }

    /// Puts a remembered key back, in order of time; whether it was not there yet. Whose it is is said by [`Self::put_count`].
    pub fn put(&mut self, key: KeyDigest, seen: Seen) -> bool {
        let day = seen.at_ms / IDEMPOTENCY_KEPT_MS;
        if day > self.day {
            let current = std::mem::take(&mut self.current);
            let is_next = day == self.day + 1;
            self.before = if is_next { current } else { Generation::default() };
            self.by_agent.retain(|_, counts| {
                let [current, _] = *counts;
                *counts = [0, if is_next { current } else { 0 }];
                *counts != [0, 0]
            });
            self.day = day;
        }
        let generation = if day == self.day { &mut self.current } else { &mut self.before };
        generation.insert(key, seen).is_none()
    }

    /// How many keys of an agent are remembered.
    pub fn of_agent(&self, agent: &SmolStr) -> u32 {
        self.by_agent.get(agent).map_or(0, |[current, before]| current.saturating_add(*before))
    }

    /// How many keys of each agent there are, in the current generation and in the one before.
    pub fn counts(&self) -> impl Iterator<Item = (&SmolStr, [u32; 2])> {
        self.by_agent.iter().map(|(agent, counts)| (agent, *counts))
    }

    /// Puts back how many keys of an agent there are, after all keys were put back.
    pub fn put_count(&mut self, agent: SmolStr, counts: [u32; 2]) {
        self.by_agent.insert(agent, counts);
    }

    /// All keys before an entry, older first.
    pub fn before(&self, entry: u64) -> impl Iterator<Item = (&KeyDigest, &Seen)> {
        self.before.iter().chain(&self.current).filter(move |(_, seen)| seen.entry < entry)
    }

    /// How many keys are remembered.
    pub fn len(&self) -> usize {
        self.current.len() + self.before.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::ids::Digest;

    #[test]
    fn a_key_is_known_for_exactly_a_day() {
        let mut keys = Idempotency::default();
        let key = [9; 16];
        let (action, other) = (Digest::of(b"1"), Digest::of(b"2"));
        let at = 10 * IDEMPOTENCY_KEPT_MS + 5;
        let (agent, idle) = (SmolStr::new("a"), SmolStr::new("b"));
        keys.insert(&agent, key, &action, 3, at);
        keys.insert(&agent, key, &action, 3, at);
        assert_eq!((keys.of_agent(&agent), keys.of_agent(&idle)), (1, 0), "a key counts once");
        assert_eq!(keys.lookup(&key, &action, at), Lookup::Same(3));
        assert_eq!(keys.lookup(&key, &other, at), Lookup::Other(3));
        keys.insert(&agent, [1; 16], &other, 4, at + IDEMPOTENCY_KEPT_MS);
        assert_eq!(keys.of_agent(&agent), 2, "both days");
        assert_eq!(keys.lookup(&key, &action, at + IDEMPOTENCY_KEPT_MS), Lookup::Same(3));
        assert_eq!(keys.lookup(&key, &action, at + IDEMPOTENCY_KEPT_MS + 1), Lookup::New);
        keys.insert(&idle, [2; 16], &other, 5, at + 2 * IDEMPOTENCY_KEPT_MS);
        assert_eq!(keys.len(), 2);
        assert_eq!((keys.of_agent(&agent), keys.of_agent(&idle)), (1, 1), "what is forgotten no longer counts");
        keys.insert(&idle, [3; 16], &other, 6, at + 9 * IDEMPOTENCY_KEPT_MS);
        assert_eq!(keys.counts().collect::<Vec<_>>(), [(&idle, [1, 0])], "nor are agents kept that have none");
    }
}
