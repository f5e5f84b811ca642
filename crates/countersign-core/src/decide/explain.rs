//! Why a precondition failed, in terms an agent can act on: expected, actual, who changed it, when, and what to observe
//! again. Taken from the same resolved facts the verdict was reached on, never evaluated a second time.

use super::{Deciding, Resolved};
use crate::expression::{Base, Mention};
use crate::fact::Fact;
use crate::ids::FactId;
use crate::pact::{Require, TemplatePart};
use crate::reason::{About, Condition, Expected, FailedPrecondition, FailedRead, LastChange, Why};
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Deciding<'_> {
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
        let that = Condition::Text(require.that.text().as_ref().into());
        if let (Why::Unconfirmed, Some(limit_ms)) = (&why, require.max_staleness_ms) {
            facts.sort_unstable();
            return self.unconfirmed(require.id.clone(), that, &facts, limit_ms);
        }
        let as_observed = self.is_as_observed(require, &why, &reads);
        let limit_ms = require.stale_after_ms.filter(|_| matches!(why, Why::Stale | Why::Unobserved));
        let about = match require.that.facts().next() {
            None if require.that.mentions().any(|(_, mention)| mention.is_labels()) => About::Labels,
            _ if reads.is_empty() => About::Params,
            None => About::Agent,
            Some(_) => About::Facts,
        };
        FailedPrecondition { as_observed, about, limit_ms, reads, ..self.failed(require.id.clone(), that, why, &facts) }
    }

    /// A failed precondition that rests on these reads.
    pub(super) fn failed(&self, id: SmolStr, that: Condition, why: Why, reads: &[usize]) -> FailedPrecondition {
        let resolved = || reads.iter().filter_map(|read| self.reads.get(*read));
        let facts: BTreeSet<&FactId> = resolved().map(|resolved| &resolved.id).collect();
        FailedPrecondition {
            id,
            that,
            why,
            reads: Vec::new(),
            left_out: 0,
            was_observed: facts.iter().any(|fact| self.action.observation_of(fact).is_some()),
            facts: facts.into_iter().cloned().collect(),
            about: About::Facts,
            as_observed: false,
            last_change: self.last_change(resolved()),
            gap_ms: self.gap_ms(reads.iter().copied()),
            limit_ms: None,
        }
    }

    /// Whether a condition failed on nothing but what the agent has seen: every fact it reads was observed, and reads the same now.
    /// Time may have passed by itself, so a condition on it is never said to have failed before.
    fn is_as_observed(&self, require: &Require, why: &Why, reads: &[FailedRead]) -> bool {
        let mut facts = require.that.facts().peekable();
        matches!(why, Why::False | Why::Error(_))
            && facts.peek().is_some()
            && facts.all(|read| self.reads.get(read).is_some_and(|it| self.action.observation_of(&it.id).is_some()))
            && !require.that.mentions().any(|(_, mention)| *mention == Mention::Now || mention.is_labels())
            && !reads.iter().any(FailedRead::differs)
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
                let TemplatePart::Attribute { read: link, attribute, .. } = part else {
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
        let changed = record.map(|fact| fact.changed(attribute).clone());
        let attribute = Some(attribute.clone());
        Some(FailedRead { attribute, expected, actual, changed, ..self.whole(&Resolved { id, record }) })
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
        vec![FailedRead { expected: Expected::Absent, ..self.whole(resolved) }]
    }

    /// What a source has not confirmed for too long: each fact, with when it last did.
    pub(super) fn unconfirmed(
        &self,
        id: SmolStr,
        that: Condition,
        reads: &[usize],
        limit_ms: u64,
    ) -> FailedPrecondition {
        let late =
            reads.iter().filter(|read| !self.is_confirmed(**read, limit_ms)).filter_map(|at| self.reads.get(*at));
        let read = |resolved: &Resolved<'_>| {
            let confirmed = resolved.record.and_then(|fact| fact.confirmed.as_deref().cloned());
            let confirmed_ago_ms = confirmed.as_ref().map(|last| self.now_ms.saturating_sub(last.at_ms));
            FailedRead { confirmed, confirmed_ago_ms, ..self.whole(resolved) }
        };
        let (reads, limit_ms) = (late.map(read).collect(), Some(limit_ms));
        let failed = self.failed(id, that, Why::Unconfirmed, &[]);
        FailedPrecondition { reads, limit_ms, ..failed }
    }

    /// A fact as a whole, without its values.
    fn whole(&self, resolved: &Resolved<'_>) -> FailedRead {
        FailedRead {
            fact: resolved.id.clone(),
            attribute: None,
            expected: Expected::NotObserved,
            actual: None,
            withheld: false,
            observed_version: self.action.observation_of(&resolved.id).map(|observed| observed.version),
            version: Some(resolved.current()),
            changed: resolved.record.map(|fact| fact.written.clone()),
            confirmed: None,
            confirmed_ago_ms: None,
        }
    }

    /// The latest change of one of these facts since it was observed.
    fn last_change<'r>(&self, reads: impl Iterator<Item = &'r Resolved<'r>>) -> Option<LastChange> {
        let (resolved, fact, observed) = reads
            .filter_map(|resolved| Some((resolved, resolved.record?, self.action.observation_of(&resolved.id)?)))
            .filter(|(_, fact, observed)| fact.current() != observed.version)
            .max_by_key(|(_, fact, _)| fact.written.entry)?;
        let written = &fact.written;
        let versions = (observed.version.number().unwrap_or_default(), fact.version());
        Some(LastChange {
            fact: resolved.id.clone(),
            by: written.by.clone(),
            entry: written.entry,
            ago_ms: self.now_ms.saturating_sub(written.at_ms),
            is_deleted: fact.value.is_none(),
            versions: (!written.is_external()).then_some(versions),
        })
    }
}
