//! Whether an erasure could be made at its own place in the order: what it names must not have been in force there.
//!
//! The gate asks this with the payloads at hand. They are gone when an audit reads the log, so it asks again by what leaves say: kinds,
//! identities, versions written, effects, reviews and held feeds. What a leaf does not say is how long a claim lasted and what a charge
//! counted against.

use super::lost::Lost;
use super::taint::Taint;
use countersign_core::erase::{EraseTarget, Eraser, Forgotten, kept_for_ever};
use countersign_core::ids::Tag;
use countersign_core::record::{Event, Kind, Leaf, LeafIdentity};
use countersign_core::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// What an audit keeps of entries, to judge erasures by.
#[derive(Debug, Default)]
pub(super) struct Erasable {
    /// Of every entry its kind and whose identity it is about: two numbers in one byte.
    kinds: Vec<u8>,
    /// Of every entry that is gone, what else its leaf says.
    gone: BTreeMap<u64, Box<Leaf>>,
}

/// Kinds are below this.
const IDENTITY: u8 = 64;

impl Erasable {
    /// Takes down the next entry.
    pub(super) fn note(&mut self, event: &Event) {
        let identity = event.identity().map_or(0, LeafIdentity::code);
        self.kinds.push(identity.saturating_mul(IDENTITY).saturating_add(event.kind().code()));
        if let Event::Erased(leaf) = event {
            self.gone.insert(leaf.index, leaf.clone());
        }
    }

    fn kept(&self, entry: u64) -> Option<&'static str> {
        let code = usize::try_from(entry).ok().and_then(|entry| self.kinds.get(entry));
        let Some(kind) = code.and_then(|code| Kind::from_code(code % IDENTITY)) else {
            return Some("there was no such entry");
        };
        kept_for_ever(kind, code.and_then(|code| LeafIdentity::from_code(code / IDENTITY)))
    }

    /// Whether an erasure of these entries, at this time and in this state, could be made, and forgets what it must.
    ///
    /// # Errors
    /// Which entry was in force, and how.
    pub(super) fn check(
        &self,
        entries: &[u64],
        forgotten: &[Forgotten],
        (state, time_ms): (&State, u64),
        taint: &Taint,
        lost: &Lost,
    ) -> Result<(), String> {
        let eraser = Eraser::new(state, state, time_ms);
        let mut facts = Facts::default();
        for entry in entries {
            let refused = |why: &str| Err(format!("entry {entry} was in force when it was erased: {why}"));
            if let Some(why) = self.kept(*entry) {
                return Err(format!("entry {entry} is never erased: {why}"));
            }
            let gone = self.gone.get(entry);
            let effect = gone.and_then(|leaf| leaf.moves()).map(|effect| effect.0);
            if let Some(why) = lost.in_force(*entry, effect, time_ms) {
                return refused(why);
            }
            let target = gone.map_or_else(|| EraseTarget::of_entry(*entry), |leaf| EraseTarget::of_leaf(leaf));
            if let Err(in_force) = eraser.check(&target) {
                return refused(&in_force.to_string());
            }
            match gone {
                Some(leaf) => facts.of_leaf(leaf, taint),
                // It is there yet, so the state knows what it wrote.
                None => drop(facts.there.insert(*entry)),
            }
        }
        facts.check(entries, forgotten, state)
    }
}

/// The facts that erased entries wrote or confirmed, as far as that was current.
#[derive(Default)]
struct Facts {
    /// Entries that can still be read.
    there: BTreeSet<u64>,
    /// Deletions that are current, by version and entry.
    deleted: BTreeMap<Tag, (u64, u64)>,
    /// An entry that made a version which is gone, current and no deletion.
    held: Option<u64>,
    /// Versions whose confirmation is gone, with that entry.
    confirmed: BTreeMap<Tag, (u64, u64)>,
}

impl Facts {
    fn of_leaf(&mut self, leaf: &Leaf, taint: &Taint) {
        for (place, (tag, version)) in (0u64..).zip(leaf.writes.iter().flatten()) {
            if taint.gone(tag).is_none_or(|gone| gone.latest != leaf.index) {
                continue;
            }
            if leaf.deletes.contains(&place) {
                self.deleted.insert(*tag, (*version, leaf.index));
            } else {
                self.held.get_or_insert(leaf.index);
            }
        }
        for (tag, version) in leaf.reads.iter().flatten().filter(|_| leaf.kind == Kind::Confirm) {
            // Of a version that is gone it confirmed what is no longer known either.
            if taint.gone(tag).is_none() {
                self.confirmed.insert(*tag, (*version, leaf.index));
            }
        }
    }

    /// The current version of a fact goes only where it says that there is none, and then the fact is forgotten: it and no other.
    fn check(mut self, entries: &[u64], forgotten: &[Forgotten], state: &State) -> Result<(), String> {
        let held = |entry: u64| Err(format!("entry {entry} held the current version of a fact when it was erased"));
        if let Some(entry) = self.held {
            return held(entry);
        }
        if !self.there.is_empty() || !self.confirmed.is_empty() || !forgotten.is_empty() {
            for fact in state.facts.iter() {
                let (tag, written) = (fact.tag, fact.written.entry);
                let is_there = self.there.contains(&written);
                let confirmed = fact.confirmed.as_ref().map(|confirmed| confirmed.entry);
                let confirmed = confirmed.filter(|entry| *entry != written && self.there.contains(entry));
                let lost = self.confirmed.get(&tag).filter(|(version, _)| *version == fact.version());
                let entry = confirmed.or(lost.map(|(_, entry)| *entry)).or(is_there.then_some(written));
                match entry.filter(|_| !self.deleted.contains_key(&tag)) {
                    Some(entry) if fact.value.is_some() => return held(entry),
                    Some(_) if is_there => drop(self.deleted.insert(tag, (fact.version(), written))),
                    _ => {}
                }
                let is_forgotten = forgotten.iter().any(|forgotten| forgotten.tag == tag);
                if is_forgotten && entries.binary_search(&written).is_err() {
                    return Err(format!("it forgets a fact of which entry {written} still holds a version"));
                }
            }
        }
        for Forgotten { tag, version } in forgotten {
            if self.deleted.remove(tag).is_none_or(|(deleted, _)| deleted != *version) {
                return Err("it forgets a fact whose deletion it does not erase".to_owned());
            }
        }
        self.deleted.into_values().next().map_or(Ok(()), |(_, entry)| held(entry))
    }
}
