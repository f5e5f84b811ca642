//! Why a precondition failed, in terms an agent can act on: expected, actual, who changed it, when, and what to observe
//! again. Taken from the same resolved facts the verdict was reached on, never evaluated a second time.

use super::{Deciding, Resolved, Snapshot};
use crate::decision::{Expected, FailedPrecondition, FailedRead, Why};
use crate::expression::{Base, Mention};
use crate::fact::{Fact, Version};
use crate::ids::FactId;
use crate::pact::{Require, TemplatePart};
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;

impl<S: Snapshot> Deciding<'_, S> {
    pub(super) fn explain(&self, require: &Require, why: Why) -> FailedPrecondition {
        let facts: BTreeSet<usize> = require.that.facts().collect();
        let mut facts: Vec<usize> = if facts.is_empty() { vec![0] } else { facts.into_iter().collect() };
        let mut reads: Vec<FailedRead> =
            require.that.attributes().filter_map(|(base, name)| self.failed_read(base, name)).collect();
        for (link, read) in self.moved_links(&facts) {
            if !reads.iter().any(|listed| listed.fact == read.fact && listed.attribute == read.attribute) {
                reads.push(read);
            }
            if !facts.contains(&link) {
                facts.push(link);
            }
        }
        if let (Why::Unconfirmed, Some(limit_ms)) = (&why, require.max_staleness_ms) {
            facts.sort_unstable();
            return self.unconfirmed(require.id.clone(), require.that.text().clone(), &facts, limit_ms);
        }
        let as_observed = self.is_as_observed(require, &why, &reads);
        FailedPrecondition {
            id: require.id.clone(),
            that: require.that.text().clone(),
            as_observed,
            gap_ms: self.gap_ms(facts.iter().copied()),
            limit_ms: require.stale_after_ms.filter(|_| matches!(why, Why::Stale | Why::Unobserved)),
            hint: match (&why, require.stale_after_ms) {
                (Why::Stale | Why::Unobserved, Some(limit_ms)) => {
                    format!("{}; it may be at most {limit_ms} ms old", self.hint(&facts))
                }
                (Why::False, _) if reads.is_empty() => "it is about the parameters alone; act with others".to_owned(),
                (Why::False | Why::Error(_), _) if as_observed => self.hint_to_wait(&facts),
                (Why::False | Why::Error(_), _) if require.that.facts().next().is_none() => {
                    "it is about the agent itself and about no fact it could observe; ask an operator".to_owned()
                }
                _ => self.hint(&facts),
            },
            why,
            reads,
        }
    }

    /// Whether a condition failed on nothing but what the agent has seen: every fact it reads was observed, and reads the same now.
    /// Time may have passed by itself, so a condition on it is never said to have failed before.
    fn is_as_observed(&self, require: &Require, why: &Why, reads: &[FailedRead]) -> bool {
        let mut facts = require.that.facts().peekable();
        matches!(why, Why::False | Why::Error(_))
            && facts.peek().is_some()
            && facts.all(|read| self.reads.get(read).is_some_and(|it| self.action.observation_of(&it.id).is_some()))
            && !require.that.mentions().any(|(_, mention)| *mention == Mention::Now)
            && !reads.iter().any(FailedRead::differs)
    }

    /// What to do about a condition that was false before: looking again would show the same.
    fn hint_to_wait(&self, reads: &[usize]) -> String {
        let ids: BTreeSet<&FactId> = reads.iter().filter_map(|read| self.reads.get(*read)).map(|r| &r.id).collect();
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        format!("{} is as you observed it, so looking again changes nothing; change the plan", list.join(", "))
    }

    /// The attributes that ids of these reads were built from, and that changed since they were observed: what is looked
    /// at now is then another fact than the agent saw.
    pub(super) fn moved_links(&self, reads: &[usize]) -> Vec<(usize, FailedRead)> {
        let mut moved: Vec<(usize, FailedRead)> = Vec::new();
        let mut waiting = reads.to_vec();
        let mut done = BTreeSet::new();
        while let Some(read) = waiting.pop() {
            let Some(read) = self.kind.reads.get(read).filter(|_| done.insert(read)) else {
                continue;
            };
            for part in &read.template {
                let TemplatePart::Attribute { read: link, attribute } = part else {
                    continue;
                };
                waiting.push(*link);
                moved.extend(
                    self.failed_read(Base::Read(*link), attribute)
                        .filter(FailedRead::differs)
                        .map(|read| (*link, read)),
                );
            }
        }
        moved
    }

    fn failed_read(&self, base: Base, attribute: &SmolStr) -> Option<FailedRead> {
        let (id, record, expected) = match base {
            Base::Principal | Base::Actor => {
                let record = if base == Base::Actor { self.actor } else { self.principal_of(attribute) };
                let id = record.map_or_else(|| FactId::of_agent(self.action.principal()), |fact| fact.id.clone());
                let expected = self.expected_of(&id, record, attribute);
                (id, record, expected)
            }
            Base::Read(read) => {
                let resolved = self.reads.get(read)?;
                (resolved.id.clone(), resolved.record, self.expected_of(&resolved.id, resolved.record, attribute))
            }
        };
        let actual = record.and_then(|fact| fact.value.as_ref()).and_then(|value| value.get(attribute)).cloned();
        Some(FailedRead {
            attribute: Some(attribute.clone()),
            expected,
            actual,
            observed_version: self.action.observation_of(&id).map(|observed| observed.version),
            version: record.map_or(Version::NONE, |fact| fact.current()),
            changed: record.map(|fact| fact.changed(attribute).clone()),
            confirmed: None,
            fact: id,
        })
    }

    fn expected_of(&self, id: &FactId, record: Option<&Arc<Fact>>, attribute: &str) -> Expected {
        let Some(observed) = self.action.observation_of(id) else {
            return Expected::NotObserved;
        };
        match observed.value_with(record).and_then(|value| value.get(attribute)) {
            Some(value) => Expected::Value(value.clone()),
            None => Expected::Absent,
        }
    }

    /// For `unchanged`: the attributes that differ, or the fact as a whole where only its version does (A-B-A).
    pub(super) fn changed_reads(&self, read: usize) -> Vec<FailedRead> {
        let Some(resolved) = self.reads.get(read) else {
            return Vec::new();
        };
        let names: BTreeSet<&SmolStr> =
            [self.observed_value(read), resolved.live().and_then(|fact| fact.value.as_ref())]
                .into_iter()
                .flatten()
                .flat_map(|value| value.iter().map(|(name, _)| name))
                .collect();
        let differing: Vec<FailedRead> = names
            .into_iter()
            .filter_map(|name| self.failed_read(Base::Read(read), name))
            .filter(|read| read.expected == Expected::NotObserved || read.differs())
            .collect();
        if !differing.is_empty() {
            return differing;
        }
        vec![FailedRead {
            fact: resolved.id.clone(),
            attribute: None,
            expected: Expected::Absent,
            actual: None,
            observed_version: self.action.observation_of(&resolved.id).map(|observed| observed.version),
            version: resolved.current(),
            changed: resolved.record.map(|fact| fact.written.clone()),
            confirmed: None,
        }]
    }

    /// What a source has not confirmed for too long: each fact, with when it last did.
    pub(super) fn unconfirmed(
        &self,
        id: SmolStr,
        that: Arc<str>,
        reads: &[usize],
        limit_ms: u64,
    ) -> FailedPrecondition {
        let late: Vec<&Resolved<'_>> = reads
            .iter()
            .filter(|read| !self.is_confirmed(**read, limit_ms))
            .filter_map(|at| self.reads.get(*at))
            .collect();
        let read = |resolved: &&Resolved<'_>| FailedRead {
            fact: resolved.id.clone(),
            attribute: None,
            expected: Expected::NotObserved,
            actual: None,
            observed_version: self.action.observation_of(&resolved.id).map(|observed| observed.version),
            version: resolved.current(),
            changed: resolved.record.map(|fact| fact.written.clone()),
            confirmed: resolved.record.and_then(|fact| fact.confirmed.clone()),
        };
        let said = |resolved: &&Resolved<'_>| match resolved.record.and_then(|fact| fact.confirmed.as_ref()) {
            Some(last) => {
                let ago_ms = self.now_ms.saturating_sub(last.at_ms);
                format!("{} was last confirmed {ago_ms} ms ago, by {} in entry {}", resolved.id, last.by, last.entry)
            }
            None => format!("{} was never confirmed by a source", resolved.id),
        };
        let said: Vec<String> = late.iter().map(said).collect();
        let hint = format!(
            "{}; at most {limit_ms} ms are allowed. Observing it again does not help: its source must feed or confirm it \
             (`countersign fact confirm`)",
            said.join("; ")
        );
        let (reads, limit_ms) = (late.iter().map(read).collect(), Some(limit_ms));
        let gap_ms = None;
        FailedPrecondition { id, that, why: Why::Unconfirmed, as_observed: false, reads, gap_ms, limit_ms, hint }
    }

    /// What to observe again, with the latest change since it was observed.
    pub(super) fn hint(&self, reads: &[usize]) -> String {
        let ids: BTreeSet<&FactId> = reads.iter().filter_map(|read| self.reads.get(*read)).map(|r| &r.id).collect();
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let seen = ids.iter().any(|id| self.action.observation_of(id).is_some());
        let changed = reads
            .iter()
            .filter_map(|read| self.reads.get(*read))
            .filter_map(|r| Some((r, r.record?, self.action.observation_of(&r.id)?)))
            .filter(|(_, fact, observed)| fact.current() != observed.version)
            .max_by_key(|(_, fact, _)| fact.written.entry);
        match changed {
            Some((resolved, fact, _)) if fact.written.is_outside() => {
                let (id, place) = (&resolved.id, &fact.written.by);
                format!(
                    "observe {} again; {id} reads otherwise in {place} now than when it was observed",
                    list.join(", ")
                )
            }
            Some((resolved, fact, observed)) => {
                let written = &fact.written;
                let ago_ms = self.now_ms.saturating_sub(written.at_ms);
                let verb = if fact.value.is_some() { "changed" } else { "deleted" };
                format!(
                    "observe {} again; {} was {verb} {ago_ms} ms before this action, by {} in entry {} (version {} was \
                     observed, version {} is current)",
                    list.join(", "),
                    resolved.id,
                    written.by,
                    written.entry,
                    observed.version.number().unwrap_or_default(),
                    fact.version(),
                )
            }
            None if seen => format!("observe {} again and decide anew", list.join(", ")),
            None => format!("observe {} before acting, so that the gate can say what changed", list.join(", ")),
        }
    }
}
