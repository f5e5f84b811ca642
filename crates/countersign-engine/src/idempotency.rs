//! Which actions were seen under which keys: the same key answers with the same action for a day of ledger time.
//!
//! Two generations, each of a day: a key is looked for in both, and the older is dropped whole when a new day of ledger
//! time begins. So forgetting costs nothing while running, and a key is remembered for one to two days (never less than
//! promised; the exact age decides, so a replay decides the same).

use countersign_core::action::KeyDigest;
use countersign_core::ids::ActionId;
use countersign_core::limits::IDEMPOTENCY_KEPT_MS;
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
    /// Its entry.
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

    /// Remembers a key.
    pub fn insert(&mut self, key: KeyDigest, action: &ActionId, entry: u64, at_ms: u64) {
        self.put(key, Seen { entry, at_ms, action: front(action) });
    }

    /// Puts a remembered key back, in order of time.
    pub fn put(&mut self, key: KeyDigest, seen: Seen) {
        let day = seen.at_ms / IDEMPOTENCY_KEPT_MS;
        if day > self.day {
            let current = std::mem::take(&mut self.current);
            self.before = if day == self.day + 1 { current } else { Generation::default() };
            self.day = day;
        }
        if day == self.day {
            self.current.insert(key, seen);
        } else {
            self.before.insert(key, seen);
        }
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
        keys.insert(key, &action, 3, at);
        assert_eq!(keys.lookup(&key, &action, at), Lookup::Same(3));
        assert_eq!(keys.lookup(&key, &other, at), Lookup::Other(3));
        keys.insert([1; 16], &other, 4, at + IDEMPOTENCY_KEPT_MS);
        assert_eq!(keys.lookup(&key, &action, at + IDEMPOTENCY_KEPT_MS), Lookup::Same(3));
        assert_eq!(keys.lookup(&key, &action, at + IDEMPOTENCY_KEPT_MS + 1), Lookup::New);
        keys.insert([2; 16], &other, 5, at + 2 * IDEMPOTENCY_KEPT_MS);
        assert_eq!(keys.len(), 2);
    }
}
