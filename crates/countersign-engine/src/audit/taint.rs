//! What an audit no longer knows of facts, because the entries that wrote or confirmed them are erased.
//!
//! It excuses as little as it can. While a version is gone, nothing that rests on the fact can be judged. The next write that can be
//! read holds the whole value, so from there on the value is known again, and a lie about it is found. Two things stay unknown for
//! longer: since when an attribute is as it is, which only explanations tell, and when the source last confirmed the fact.
//!
//! What an entry rests on is told by the decision made again, never by the entry itself, which may name whatever it likes. Agents and
//! operators are never erased, so nothing is excused by them. A fact that an erasure forgot is gone for good, and its tag with it.

use super::Unknown;
use countersign_core::code::Code;
use countersign_core::erase::Forgotten;
use countersign_core::fact::{Fact, Version};
use countersign_core::ids::{FactId, Tag};
use countersign_core::observation::Observation;
use countersign_core::record::{Entry, Event, Kind, Leaf, LeafIdentity};
use countersign_core::session::{Held, READING, SESSION, Session};
use countersign_core::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// The codes whose explanations say since when something is so.
const DATED: &[Code] = &[Code::PreconditionFailed, Code::ApprovalOutdated];

/// What is not known, by the tags of facts, each with the erased entry that would have told.
#[derive(Debug, Default)]
pub(super) struct Taint {
    /// Facts whose current value is gone.
    values: BTreeMap<Tag, Gone>,
    /// Facts of which it is not known since when their attributes are as they are.
    dates: BTreeMap<Tag, Undated>,
    /// Facts of which it is not known when their source last confirmed them.
    confirmed: BTreeMap<Tag, u64>,
    /// Which fact a tag belongs to of which no version can be read: what was said first holds for all that follows.
    ids: BTreeMap<Tag, FactId>,
    /// The tags of facts that were forgotten, which never come back.
    forgotten: BTreeSet<Tag>,
    /// Of sessions, the tags of readings that erased entries put into them: the session may name them yet.
    readings: BTreeMap<Tag, BTreeSet<Tag>>,
}

/// A value that is gone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gone {
    /// The first erased entry since the value was last known.
    since: u64,
    pub(super) latest: u64,
    /// The version that the latest made.
    pub(super) version: u64,
}

/// A fact that is known again, without since when.
#[derive(Debug, Clone, Copy)]
struct Undated {
    /// The first erased entry since the value was last known.
    since: u64,
    /// The entry from which on it is known.
    known_from: u64,
}

impl Taint {
    /// An entry is erased.
    pub(super) fn erased(&mut self, leaf: &Leaf) {
        for (tag, version) in leaf.writes.iter().flatten() {
            let since = self.values.get(tag).map_or(leaf.index, |gone| gone.since);
            self.values.insert(*tag, Gone { since, latest: leaf.index, version: *version });
        }
        if let (Kind::Reading, Some([(reading, _), (session, _)])) = (leaf.kind, leaf.writes.as_deref()) {
            self.readings.entry(*session).or_default().insert(*reading);
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

    /// An entry that can be read was applied: what it wrote is known from here on.
    pub(super) fn applied(&mut self, entry: &Entry, state: &State) {
        for write in entry.event.writes() {
            let Some(tag) = write.tag else { continue };
            if let Some(gone) = self.values.remove(&tag) {
                self.ids.remove(&tag);
                let since = self.dates.get(&tag).map_or(gone.since, |undated| undated.since);
                self.dates.insert(tag, Undated { since, known_from: entry.index });
            }
            if entry.event.kind() == Kind::Feed {
                self.confirmed.remove(&tag);
            }
            // Once every attribute was written again, it is known since when each is as it is.
            if let Some(undated) = self.dates.get(&tag)
                && let Some(fact) = state.facts.get(&write.fact)
                && fact.all_changed().all(|changed| changed.entry > undated.known_from)
            {
                self.dates.remove(&tag);
            }
        }
        match &entry.event {
            Event::Confirm { tag, .. } => drop(self.confirmed.remove(tag)),
            Event::Erasure { forgotten, .. } => forgotten.iter().for_each(|fact| self.forget(fact)),
            _ => {}
        }
    }

    /// A feed was written that was held in an entry that is erased: who fed it, and when, is not known.
    pub(super) fn released(&mut self, entry: &Entry, held: u64) {
        for tag in entry.event.writes().iter().filter_map(|write| write.tag) {
            let since = self.dates.get(&tag).map_or(held, |undated| undated.since);
            self.dates.insert(tag, Undated { since, known_from: entry.index });
            self.confirmed.entry(tag).or_insert(held);
        }
    }

    /// Nothing of a forgotten fact comes back, so nothing rests on what is not known of it.
    fn forget(&mut self, Forgotten { tag, .. }: &Forgotten) {
        self.values.remove(tag);
        self.dates.remove(tag);
        self.confirmed.remove(tag);
        self.ids.remove(tag);
        self.readings.remove(tag);
        self.forgotten.insert(*tag);
    }

    /// The version of a fact that is gone, if its current one is.
    pub(super) fn gone(&self, tag: &Tag) -> Option<&Gone> {
        self.values.get(tag)
    }

    /// Which version follows one that is gone, and which entry made that, its leaf still says.
    ///
    /// # Errors
    /// If a write has the tag of another fact.
    pub(super) fn number(&mut self, again: &mut Entry, state: &State) -> Result<(), String> {
        for write in again.event.writes_mut() {
            let Some(tag) = write.tag else { continue };
            let is_new = state.facts.get(&write.fact).is_none();
            if is_new && (self.forgotten.contains(&tag) || !self.may_be(tag, &write.fact, state)) {
                return Err(format!("{} is written with the tag of another fact", write.fact));
            }
            if let Some(gone) = self.values.get(&tag) {
                write.version = gone.version.saturating_add(1);
                write.previous_entry = Some(gone.latest);
            }
        }
        Ok(())
    }

    /// Whether a tag of which no version can be read may be that of this fact, of which none is known. Once it is, it stays so.
    fn may_be(&mut self, tag: Tag, fact: &FactId, state: &State) -> bool {
        if !self.values.contains_key(&tag) {
            return true;
        }
        if let Some(known) = self.ids.get(&tag) {
            return known == fact;
        }
        let is_taken = self.ids.values().any(|known| known == fact) || state.facts.iter().any(|held| held.tag == tag);
        if !is_taken {
            self.ids.insert(tag, fact.clone());
        }
        !is_taken
    }

    /// The tag of a fact that something rests on: the one that it is known by, or else the one that the entry gives, if that may be its.
    fn tag_of(&mut self, fact: &FactId, recorded: Option<Tag>, state: &State) -> Option<Tag> {
        if LeafIdentity::of_type(fact.ty()).is_some() {
            return None;
        }
        match state.facts.get(fact) {
            Some(held) => Some(held.tag),
            None => recorded.filter(|tag| self.values.contains_key(tag) && self.may_be(*tag, fact, state)),
        }
    }

    /// Why an entry that came out differently cannot be judged, if what it rests on is not known: by the facts that the decision made
    /// again reads.
    pub(super) fn excuse(&mut self, recorded: &Event, again: &Event, state: &State) -> Option<(u64, Unknown)> {
        let (said, made) = (recorded.decision()?, again.decision()?);
        let codes = [said, made].map(|decision| decision.reason().map(|reason| reason.code()));
        let is_dated = codes.iter().all(|code| code.is_some_and(|code| DATED.contains(&code)));
        let is_unmet = codes.contains(&Some(Code::PreconditionFailed));
        let found = made.reads.iter().find_map(|read| {
            let named = said.reads.iter().find(|named| named.fact == read.fact).and_then(|named| named.tag);
            let tag = self.tag_of(&read.fact, named, state).or_else(|| self.reading_gone(&read.fact, state))?;
            let value = self.values.get(&tag).map(|gone| (gone.since, Unknown::Value));
            let confirmed = || self.confirmed.get(&tag).map(|entry| (*entry, Unknown::Confirmation));
            let dated = || self.dates.get(&tag).map(|undated| (undated.since, Unknown::Date));
            value.or_else(|| confirmed().filter(|_| is_unmet)).or_else(|| dated().filter(|_| is_dated))
        });
        let in_session = || made.reads.iter().find_map(|read| self.excuse_readings(&read.fact, state));
        found.or_else(|| Some((in_session()?, Unknown::Value)))
    }

    /// The same for a reading of a session of which an older version is known: whether a write carried the one that is gone is not known,
    /// and one that does not carry the older one does not read it.
    fn excuse_readings(&self, session: &FactId, state: &State) -> Option<u64> {
        let id = session.id().parse().ok().filter(|_| session.ty().as_str() == SESSION)?;
        let gone = |fact: FactId| self.values.get(&state.facts.get(&fact)?.tag).map(|gone| gone.since);
        Session::find(id, state).ok()?.readings().find_map(gone)
    }

    /// The tag of a reading that its session names and of which nothing can be read, or of one that may be it. Whether the write carried it
    /// is not known, and a write that did not says nothing of it.
    fn reading_gone(&self, fact: &FactId, state: &State) -> Option<Tag> {
        if fact.ty().as_str() != READING || state.facts.get(fact).is_some() {
            return None;
        }
        let session = state.facts.get(&Held::session(fact)?.fact()?)?;
        let is_gone =
            |tag: &&Tag| self.values.contains_key(*tag) && self.ids.get(*tag).is_none_or(|known| known == fact);
        self.readings.get(&session.tag)?.iter().find(is_gone).copied()
    }

    /// Why what rests on the whole of a session cannot be judged, if what it has is not known.
    pub(super) fn excuse_session(&self, session: &Fact) -> Option<u64> {
        self.values.get(&session.tag).map(|gone| gone.since)
    }

    /// The same for an entry that is nothing but writes, which follow from what was there before.
    pub(super) fn excuse_writes(&mut self, recorded: &Event, state: &State) -> Option<u64> {
        recorded.writes().iter().find_map(|write| {
            let tag = self.tag_of(&write.fact, write.tag, state)?;
            self.values.get(&tag).map(|gone| gone.since)
        })
    }

    /// The same for an observation: whatever of it came out differently shows a fact whose value is gone, at the version that is gone.
    pub(super) fn excuse_seen(&mut self, recorded: &Observation, again: &Observation, state: &State) -> Option<u64> {
        if recorded.began_ms != again.began_ms || recorded.facts.len() != again.facts.len() {
            return None;
        }
        let differing = recorded.facts.iter().zip(&again.facts).filter(|(said, made)| said != made);
        let mut since = None;
        for (said, _) in differing {
            let tag = self.tag_of(&said.fact, said.tag, state)?;
            let gone = self.values.get(&tag)?;
            if said.version != Some(Version::Number(gone.version)) {
                return None;
            }
            since.get_or_insert(gone.since);
        }
        since
    }

    /// Since when the value of a fact may be gone: it is, or nothing of the fact can be read, and something is gone of which no one knows
    /// what it was.
    pub(super) fn may_be_gone(&self, fact: &FactId, state: &State) -> Option<u64> {
        if let Some(held) = state.facts.get(fact) {
            return self.values.get(&held.tag).map(|gone| gone.since);
        }
        let is_unknown = |tag: &Tag| self.ids.get(tag).is_none_or(|known| known == fact);
        self.values.iter().find(|(tag, _)| is_unknown(tag)).map(|(_, gone)| gone.since)
    }

    /// The same for an entry that rests on the current version of one fact.
    pub(super) fn excuse_on(&mut self, fact: &FactId, recorded: &Event, state: &State) -> Option<u64> {
        let confirmed = match recorded {
            Event::Confirm { tag, version, .. } => Some((*tag, *version)),
            Event::Observation(observation) => observation.version_of(fact),
            _ => None,
        };
        let tag = self.tag_of(fact, confirmed.map(|(tag, _)| tag), state)?;
        let gone = self.values.get(&tag)?;
        // Which version was current is in the leaf that made it.
        let is_that = confirmed.is_none_or(|(named, version)| named == tag && version == gone.version);
        is_that.then_some(gone.since)
    }
}
