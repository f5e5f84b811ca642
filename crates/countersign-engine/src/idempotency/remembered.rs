//! All keys of a day, in memory: for an audit, which decides one entry after the other and has no runs to look into.
//!
//! Two generations, each of a day: a key is looked for in both, and the older is dropped whole when a new day of ledger time begins. So
//! forgetting costs nothing, and no more than the keys of two days are held.

use super::{Lookup, Seen, Table};
use countersign_core::action::KeyDigest;
use countersign_core::ids::ActionId;
use countersign_core::limits::IDEMPOTENCY_KEPT_MS;
use countersign_core::record::Entry;

/// The keys seen.
#[derive(Debug, Default)]
pub struct Remembered {
    day: u64,
    current: Table,
    before: Table,
}

impl Remembered {
    /// Looks a key up.
    pub fn lookup(&self, key: &KeyDigest, action: &ActionId, now_ms: u64) -> Lookup {
        let seen = self.current.get(key).or_else(|| self.before.get(key));
        Lookup::of(seen.copied(), action, now_ms)
    }

    /// Remembers the keys of an entry.
    pub fn note(&mut self, entry: &Entry) {
        for (key, action) in entry.event.keys() {
            self.insert(key, Seen::new(&action, entry.index, entry.time_ms));
        }
    }

    fn insert(&mut self, key: KeyDigest, seen: Seen) {
        let day = seen.at_ms / IDEMPOTENCY_KEPT_MS;
        if day > self.day {
            let current = std::mem::take(&mut self.current);
            self.before = if day == self.day + 1 { current } else { Table::default() };
            self.day = day;
        }
        self.current.insert(key, seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::ids::Digest;

    #[test]
    fn a_key_is_known_for_exactly_a_day() {
        let mut keys = Remembered::default();
        let key = [9; 16];
        let (action, other) = (Digest::of(b"1"), Digest::of(b"2"));
        let at = 10 * IDEMPOTENCY_KEPT_MS + 5;
        keys.insert(key, Seen::new(&action, 3, at));
        assert_eq!(keys.lookup(&key, &action, at), Lookup::Same(3));
        assert_eq!(keys.lookup(&key, &other, at), Lookup::Other(3));
        keys.insert([1; 16], Seen::new(&other, 4, at + IDEMPOTENCY_KEPT_MS));
        assert_eq!(keys.lookup(&key, &action, at + IDEMPOTENCY_KEPT_MS), Lookup::Same(3));
        assert_eq!(keys.lookup(&key, &action, at + IDEMPOTENCY_KEPT_MS + 1), Lookup::New);
        keys.insert([2; 16], Seen::new(&other, 5, at + 2 * IDEMPOTENCY_KEPT_MS));
        assert_eq!(keys.current.len() + keys.before.len(), 2, "what is older than two days is not held");
    }
}
