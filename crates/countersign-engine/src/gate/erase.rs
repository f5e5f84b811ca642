//! Erasing payloads: every copy of them, and nothing that is still in force.
//!
//! Plan and erasure go through one check, [`Eraser`], so what a plan promises is what an erasure does. The check is made once
//! more at the erasure's own place in the order.

use super::Gate;
use super::log_reader::{LogError, StoredEntry};
use crate::request::{Answer, Refusal, Request};
use crate::storage::StorageError;
use countersign_core::decide::percent_encoded;
use countersign_core::erase::{EraseTarget, Eraser, InForce, kept_for_ever};
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId, Tag};
use countersign_core::limits::ERASED_MAX;
use countersign_core::record::{Entry, Event, Leaf, LeafVerdict};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// How many entries are read at a time while looking for copies.
const READ_AT_ONCE: u64 = 4096;

/// What an erasure would erase.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ErasePlan {
    /// The entries, ascending.
    pub entries: Vec<u64>,
    /// Entries that hold a copy and stay, each with what of it is in force.
    pub kept: Vec<(u64, InForce)>,
}

/// Why nothing was erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The log could not be read.
    #[error("{0}")]
    Log(#[from] LogError),
    /// The store failed.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The gate refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What was found of a fact.
#[derive(Default)]
struct Found {
    /// Entries that can be erased once nothing of them is in force.
    targets: Vec<EraseTarget>,
    /// Entries that hold a copy and are kept for ever.
    kept: Vec<(u64, InForce)>,
}

impl Gate {
    /// Every entry whose payload speaks of a fact: that wrote it, read it, was shown it, was rejected over it, announced a
    /// change of it, or belongs to a call or a review that did.
    pub fn erase_plan(&self, fact: &FactId) -> Result<ErasePlan, EraseError> {
        let Found { mut targets, kept } = self.find_copies(fact)?;
        for target in &mut targets {
            target.is_last = true;
        }
        let mut plan = ErasePlan { entries: Vec::new(), kept };
        let deletion = self.fact(fact).filter(|held| held.value.is_none()).map(|held| held.written.entry);
        let view = self.view();
        let eraser = Eraser::new(&view.rest, &view, self.now_ms());
        let mut earlier = None;
        for target in &targets {
            // The deletion goes last: while an earlier version is kept, a fold of the log would bring that back.
            let checked = match earlier.filter(|_| deletion == Some(target.entry)) {
                Some(earlier) => Err(InForce::Earlier { fact: fact.clone(), earlier }),
                None => eraser.check(target),
            };
            match checked {
                Ok(_) => plan.entries.push(target.entry),
                Err(in_force) => {
                    if target.writes.iter().any(|(wrote, _)| wrote == fact) {
                        earlier.get_or_insert(target.entry);
                    }
                    plan.kept.push((target.entry, in_force));
                }
            }
        }
        // An entry may have deleted other facts too, of which nothing else goes: a session that ends deletes all that was read in it.
        let writers = self.writers_of_deleted(&targets)?;
        loop {
            let named: BTreeSet<u64> = plan.entries.iter().copied().collect();
            let going = targets.iter().filter(|target| named.contains(&target.entry));
            let early: BTreeMap<u64, InForce> = too_early(going, &writers, &named).collect();
            if early.is_empty() {
                break;
            }
            plan.entries.retain(|entry| !early.contains_key(entry));
            plan.kept.extend(early);
        }
        plan.kept.sort_by_key(|(entry, _)| *entry);
        Ok(plan)
    }

    /// Whether these entries could be erased now; gives those that are not erased yet. Changes nothing.
    pub fn check_erase(&self, entries: &[u64]) -> Result<Vec<u64>, EraseError> {
        let targets = self.erase_targets(entries)?;
        let view = self.view();
        let eraser = Eraser::new(&view.rest, &view, self.now_ms());
        for target in &targets {
            eraser.check(target).map_err(|what| Refusal::InForce { entry: target.entry, what })?;
        }
        Ok(targets.iter().map(|target| target.entry).collect())
    }

    /// Erases the payloads of entries. The erasure is itself an entry (several for very many); the leaves and all proofs
    /// stay. Gives the last erasure.
    pub fn erase(&self, by: AgentId, auth: Auth, entries: &[u64], reason: String) -> Result<u64, EraseError> {
        let targets = self.erase_targets(entries)?;
        let mut erasure = 0;
        for targets in targets.chunks(ERASED_MAX) {
            let entries: Vec<u64> = targets.iter().map(|target| target.entry).collect();
            // From the moment the erasure is entered it must be done. So whatever may find the disk full comes before it.
            self.shared.log.anchor_past(entries.iter().max().copied().unwrap_or_default())?;
            let (by, auth, targets, reason) = (by.clone(), auth.clone(), targets.to_vec(), reason.clone());
            let answer = self.call(Request::Erase { by, auth, targets, reason })?;
            let Answer::Entered(entered) = answer else { return Err(Refusal::Closed.into()) };
            erasure = entered.entry.index;
        }
        // What was verified may name facts too.
        self.shared.delegations.clear();
        self.shared.replace_snapshots(erasure)?;
        Ok(erasure)
    }

    /// What these entries hold. An unknown kind, one that is kept, and a list without anything left are refused.
    fn erase_targets(&self, entries: &[u64]) -> Result<Vec<EraseTarget>, EraseError> {
        let mut targets = Vec::with_capacity(entries.len());
        for index in entries {
            let entry = self.read_log(*index)?;
            // What is erased already stays so; naming it again is harmless.
            if entry.payload.is_none() {
                continue;
            }
            let stored = entry.decode()?;
            if let Some(why) = kept_for_ever(stored.event.kind(), stored.event.identity()) {
                return Err(Refusal::InForce { entry: *index, what: InForce::Kind(why) }.into());
            }
            targets.push(self.target(&stored)?);
        }
        if targets.is_empty() {
            let index = entries.first().copied().unwrap_or_default();
            return Err(Refusal::NotErasable(index, "its payload is erased already").into());
        }
        self.check_deletions(&mut targets)?;
        Ok(targets)
    }

    /// What one entry holds that might be in force.
    fn target(&self, entry: &Entry) -> Result<EraseTarget, LogError> {
        let mut target = EraseTarget::new(entry);
        // Who fed what was held is told by the entry that held it, so that stays as long as what it became is current.
        if let Event::Held { fact, .. } = &entry.event
            && let Some(held) = self.fact(fact)
            && self.read_log(held.written.entry)?.leaf()?.held == Some(entry.index)
        {
            target.writes.push((fact.clone(), held.version()));
        }
        Ok(target)
    }

    /// The deletion of a fact goes only after every earlier version, or with them.
    fn check_deletions(&self, targets: &mut [EraseTarget]) -> Result<(), EraseError> {
        targets.iter_mut().for_each(|target| target.is_last = true);
        let named: BTreeSet<u64> = targets.iter().map(|target| target.entry).collect();
        let writers = self.writers_of_deleted(targets)?;
        match too_early(targets.iter(), &writers, &named).next() {
            Some((entry, what)) => Err(Refusal::InForce { entry, what }.into()),
            None => Ok(()),
        }
    }

    /// The facts that these entries have deleted for good, each with the entries that wrote it and are not erased.
    fn writers_of_deleted(&self, targets: &[EraseTarget]) -> Result<BTreeMap<FactId, Vec<u64>>, EraseError> {
        let is_gone = |fact: &FactId, version: u64| {
            self.fact(fact).is_some_and(|held| held.value.is_none() && held.version() == version)
        };
        let written = targets.iter().flat_map(|target| &target.writes);
        let deleted = written.filter(|(fact, version)| is_gone(fact, *version));
        let mut writers: BTreeMap<FactId, Vec<u64>> = deleted.map(|(fact, _)| (fact.clone(), Vec::new())).collect();
        let mut start = 0;
        while !writers.is_empty() {
            let entries = self.read_log_range(start, READ_AT_ONCE)?;
            let Some(last) = entries.last() else { break };
            start = last.index + 1;
            for entry in entries.iter().filter(|entry| entry.payload.is_some()) {
                let stored = entry.decode()?;
                if kept_for_ever(stored.event.kind(), stored.event.identity()).is_some() {
                    continue;
                }
                for (fact, _) in self.target(&stored)?.writes {
                    writers.entry(fact).and_modify(|entries| entries.push(stored.index));
                }
            }
        }
        Ok(writers)
    }

    /// Goes through the whole log for a fact.
    fn find_copies(&self, fact: &FactId) -> Result<Found, EraseError> {
        let copies = Copies::of(fact, self.fact(fact).map(|held| held.tag));
        let (mut found, mut start) = (Found::default(), 0);
        let mut related = BTreeSet::new();
        loop {
            let entries = self.read_log_range(start, READ_AT_ONCE)?;
            let Some(last) = entries.last() else { return Ok(found) };
            start = last.index + 1;
            for entry in &entries {
                let leaf = entry.leaf()?;
                let is_related = [leaf.effect, leaf.review, leaf.held].iter().flatten().any(|of| related.contains(of));
                if !is_related && !copies.is_tagged(&leaf) && !copies.is_named(&leaf, entry)? {
                    continue;
                }
                related.insert(entry.index);
                if entry.payload.is_none() {
                    continue;
                }
                let stored = entry.decode()?;
                match kept_for_ever(stored.event.kind(), stored.event.identity()) {
                    Some(why) => found.kept.push((entry.index, InForce::Kind(why))),
                    None => found.targets.push(self.target(&stored)?),
                }
            }
        }
    }
}

/// Of these, those that deleted a fact of which an entry that is not named still holds an earlier version, and which.
fn too_early<'a>(
    targets: impl Iterator<Item = &'a EraseTarget> + 'a,
    writers: &'a BTreeMap<FactId, Vec<u64>>,
    named: &'a BTreeSet<u64>,
) -> impl Iterator<Item = (u64, InForce)> + 'a {
    targets.filter_map(move |target| {
        target.writes.iter().find_map(|(fact, _)| {
            let entries = writers.get(fact).filter(|entries| entries.last() == Some(&target.entry))?;
            let earlier = *entries.iter().find(|entry| !named.contains(entry))?;
            Some((target.entry, InForce::Earlier { fact: fact.clone(), earlier }))
        })
    })
}

/// How entries speak of a fact.
struct Copies<'a> {
    id: &'a str,
    /// `Type::"id"`, as payloads and messages have it. The quotes keep `"4"` from being found in `"42"`.
    name: String,
    tag: Option<Tag>,
}

impl<'a> Copies<'a> {
    fn of(fact: &'a FactId, tag: Option<Tag>) -> Self {
        Self { id: fact.id(), name: fact.to_string(), tag }
    }

    /// Whether a leaf says that the fact was read or written.
    fn is_tagged(&self, leaf: &Leaf) -> bool {
        let versions = leaf.reads.iter().chain(&leaf.writes).flatten();
        self.tag.as_ref().is_some_and(|tag| versions.into_iter().any(|(named, _)| named == tag))
    }

    fn is_named(&self, leaf: &Leaf, entry: &StoredEntry) -> Result<bool, LogError> {
        if entry.payload.is_none() {
            return Ok(false);
        }
        // What cannot be searched may hold a copy, so the erasure must not go on as if it held none.
        let payload = serde_json::from_str(&entry.decode()?.show_payload()).map_err(|error| entry.damaged(error))?;
        let asks_for = self
            .asks_for(leaf.verdict == Some(LeafVerdict::Rejected), &payload)
            .map_err(|error| entry.damaged(error))?;
        Ok(asks_for || self.names(&payload) || self.was_denied(&payload))
    }

    /// Whether a sample of what was denied has the id, in whichever form it came. Nothing rests on such an entry.
    fn was_denied(&self, payload: &Json) -> bool {
        let denied = payload.get("denied").and_then(Json::as_array).into_iter().flatten();
        let mut samples = denied.filter_map(|denied| denied.get("sample")?.as_str());
        let encoded = percent_encoded(self.id);
        samples.any(|sample| sample.contains(self.id) || sample.contains(&encoded))
    }

    /// Whether an action that was rejected has the fact's id among its parameters: it may have been rejected before its facts were
    /// resolved. Such an entry had no effect, so rather one too many is erased than one too few.
    fn asks_for(&self, is_rejected: bool, payload: &Json) -> Result<bool, serde_json::Error> {
        // Of a rejected group, each of its actions.
        let grouped = payload.get("actions").and_then(Json::as_array).into_iter().flatten();
        let bodies = grouped.chain([payload]).filter_map(|action| action.get("body")?.as_str());
        for body in bodies.filter(|_| is_rejected || payload.get("reads").is_none()) {
            let body: Json = serde_json::from_str(body)?;
            if body.get("params").is_some_and(|params| holds(params, self.id)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a JSON value names the fact: as a member, in a list, or in a message for people.
    fn names(&self, json: &Json) -> bool {
        match json {
            Json::String(text) => text.contains(&self.name),
            Json::Array(items) => items.iter().any(|item| self.names(item)),
            Json::Object(members) => members.values().any(|member| self.names(member)),
            _ => false,
        }
    }
}

/// Whether a JSON value holds this very text.
fn holds(json: &Json, text: &str) -> bool {
    match json {
        Json::String(held) => held == text,
        Json::Array(items) => items.iter().any(|item| holds(item, text)),
        Json::Object(members) => members.values().any(|member| holds(member, text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_searched_is_not_taken_for_an_entry_without_a_copy() {
        let fact: FactId = "Account::\"42\"".parse().unwrap();
        let copies = Copies::of(&fact, None);
        let asks_for = |body: &str| {
            let payload = serde_json::json!({"actions": [{"body": body}]});
            copies.asks_for(true, &payload)
        };
        assert!(asks_for(r#"{"params": {"account": "42"}}"#).unwrap());
        assert!(!asks_for(r#"{"params": {"account": "7"}}"#).unwrap());
        assert!(asks_for(r#"{"params": {"account": "42""#).is_err(), "a copy would stay behind");
    }
}
