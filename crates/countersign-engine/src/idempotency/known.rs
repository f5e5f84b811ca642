//! What the runs said of the keys of a request, and as of which position: what a caller's thread hands to the sequencer.

use super::Seen;

/// The keys of one request, looked up.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Every key of an entry before this was looked at.
    pub(super) as_of: u64,
    /// Those that were found, by the places of their actions.
    pub(super) found: Vec<(usize, Seen)>,
}

/// One key, looked up.
#[derive(Debug, Clone, Copy)]
pub struct Sought {
    pub as_of: u64,
    pub seen: Option<Seen>,
}

impl Known {
    /// Up to which entry it is known.
    pub fn as_of(&self) -> u64 {
        self.as_of
    }

    /// What was found for the action at a place.
    pub fn of(&self, place: usize) -> Sought {
        let found = self.found.iter().find(|(at, _)| *at == place);
        Sought { as_of: self.as_of, seen: found.map(|(_, seen)| *seen) }
    }
}
