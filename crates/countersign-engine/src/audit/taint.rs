//! What an audit no longer knows of facts, because the entries that wrote or confirmed them are erased.
//!
//! It excuses as little as it can. While a version is gone, nothing that rests on the fact can be judged. The next write that can be
//! read holds the whole value, so from there on the value is known again, and a lie about it is found. Two things stay unknown for
//! longer: since when an attribute is as it is, which only explanations tell, and when the source last confirmed the fact.

use super::Unknown;
use countersign_core::code::Code;
use countersign_core::ids::Tag;
use countersign_core::record::{Entry, Event, Kind, Leaf};
use std::collections::BTreeMap;

/// The codes whose explanations say since when something is so.
const DATED: &[Code] = &[
    Code::AgentNotActive,
    Code::KeyNotCurrent,
    Code::DelegationMemberNotActive,
    Code::DelegationKeyNotCurrent,
    Code::PreconditionFailed,
    Code::ApprovalOutdated,
];

/// What is not known, by the tags of facts, each with the erased entry that would have told.
#[derive(Debug, Default)]
pub(super) struct Taint {
    /// Facts whose current value is gone.
    values: BTreeMap<Tag, Gone>,
    /// Facts of which it is not known since when their attributes are as they are.
    dates: BTreeMap<Tag, u64>,
    /// Facts of which it is not known when their source last confirmed them.
    confirmed: BTreeMap<Tag, u64>,
}

/// A value that is gone.
#[derive(Debug, Clone, Copy)]
struct Gone {
    /// The first erased entry since the value was last known.
    since: u64,
    /// The latest.
    latest: u64,
    /// The version that the latest made.
    version: u64,
}

/// Whether the recorded payload and the one decided again both give a code, or either of them.
pub(super) struct Said<'a> {
    pub(super) both: &'a dyn Fn(&[Code]) -> bool,
    pub(super) either: &'a dyn Fn(&[Code]) -> bool,
}

impl Taint {
    /// An entry is erased.
    pub(super) fn erased(&mut self, leaf: &Leaf) {
        for (tag, version) in leaf.writes.iter().flatten() {
            let since = self.values.get(tag).map_or(leaf.index, |gone| gone.since);
            self.values.insert(*tag, Gone { since, latest: leaf.index, version: *version });
        }
        let confirmed = match leaf.kind {
            Kind::Feed => leaf.writes.as_deref(),
            Kind::Confirm => leaf.reads.as_deref(),
            _ => None,
        };
        for (tag, _) in confirmed.into_iter().flatten() {
            self.confirmed.entry(*tag).or_insert(leaf.index);
        }
    }

    /// An entry that can be read is applied: what it writes is known from here on.
    pub(super) fn applied(&mut self, event: &Event) {
        for tag in event.writes().iter().filter_map(|write| write.tag) {
            if let Some(gone) = self.values.remove(&tag) {
                self.dates.entry(tag).or_insert(gone.since);
            }
            if event.kind() == Kind::Feed {
                self.confirmed.remove(&tag);
            }
        }
        if let Event::Confirm { tag, .. } = event {
            self.confirmed.remove(tag);
        }
    }

    /// Which version follows one that is gone, and which entry made that, its leaf still says.
    pub(super) fn number(&self, again: &mut Entry) {
        for write in again.event.writes_mut() {
            if let Some(gone) = write.tag.and_then(|tag| self.values.get(&tag)) {
                write.version = gone.version.saturating_add(1);
                write.previous_entry = Some(gone.latest);
            }
        }
    }

    /// Why an entry that came out differently cannot be judged, if what it rests on is not known.
    pub(super) fn excuse(&self, event: &Event, said: &Said<'_>) -> Option<(u64, Unknown)> {
        let reads = event.decision().into_iter().flat_map(|decision| decision.reads.iter().filter_map(|read| read.tag));
        let confirmed = match event {
            Event::Confirm { tag, .. } => Some(*tag),
            _ => None,
        };
        let tags = reads.chain(confirmed).chain(event.writes().iter().filter_map(|write| write.tag));
        tags.into_iter().find_map(|tag| {
            let value = self.values.get(&tag).map(|gone| (gone.since, Unknown::Value));
            let confirmed = || {
                let entry = self.confirmed.get(&tag).filter(|_| (said.either)(&[Code::PreconditionFailed]));
                entry.map(|entry| (*entry, Unknown::Confirmation))
            };
            let dated = || {
                let entry = self.dates.get(&tag).filter(|_| DATED.iter().any(|code| (said.both)(&[*code])));
                entry.map(|entry| (*entry, Unknown::Date))
            };
            value.or_else(confirmed).or_else(dated)
        })
    }

    /// The erased entry that may have written a fact: with this tag, or with any if the fact is not known at all.
    pub(super) fn value(&self, tag: Option<Tag>) -> Option<u64> {
        let found = match tag {
            Some(tag) => self.values.get(&tag),
            None => self.values.values().next_back(),
        };
        found.map(|gone| gone.since)
    }
}
