//! Which entries were erased, as ranges: most erasures name neighbours, and a set that only grows must stay small.

use std::collections::BTreeMap;

/// A set of entries, kept as ranges that neither touch nor overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntrySet {
    /// The first entry of each range, and the first behind it.
    ranges: BTreeMap<u64, u64>,
}

impl EntrySet {
    /// Whether an entry is in it.
    pub fn contains(&self, entry: u64) -> bool {
        self.ranges.range(..=entry).next_back().is_some_and(|(_, end)| entry < *end)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds an entry.
    pub fn insert(&mut self, entry: u64) {
        self.insert_range(entry, entry.saturating_add(1));
    }

    /// Adds all entries from `first` on and before `end`.
    pub fn insert_range(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let (mut first, mut end) = (first, end);
        // Those that it touches become one with it.
        while let Some((start, stop)) = self.ranges.range(..=end).next_back().map(|(start, stop)| (*start, *stop)) {
            if stop < first {
                break;
            }
            self.ranges.remove(&start);
            (first, end) = (first.min(start), end.max(stop));
        }
        self.ranges.insert(first, end);
    }

    /// Its ranges in ascending order: the first entry of each, and the first behind it.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().map(|(first, end)| (*first, *end))
    }
}

#[cfg(test)]
mod tests {
    use super::EntrySet;
    use std::collections::BTreeSet;

    #[test]
    fn it_holds_what_was_put_in_and_in_as_few_ranges_as_there_are_gaps() {
        // Every order of a small set of entries, some of them neighbours and some twice.
        let entries = [7u64, 3, 4, 9, 5, 7, 0, 8];
        for turn in 0..entries.len() {
            let (mut set, mut plain) = (EntrySet::default(), BTreeSet::new());
            for entry in entries.iter().cycle().skip(turn).take(entries.len()) {
                set.insert(*entry);
                plain.insert(*entry);
                for asked in 0..12 {
                    assert_eq!(set.contains(asked), plain.contains(&asked), "{asked} in {set:?}");
                }
            }
            assert_eq!(set.ranges().collect::<Vec<_>>(), [(0, 1), (3, 6), (7, 10)]);
        }
    }

    #[test]
    fn a_range_takes_in_those_that_it_touches() {
        let mut set = EntrySet::default();
        for (first, end) in [(1, 2), (4, 6), (8, 9), (2, 8), (5, 5)] {
            set.insert_range(first, end);
        }
        assert_eq!(set.ranges().collect::<Vec<_>>(), [(1, 9)]);
    }
}
