//! The preconditions: observation, `unchanged`, staleness and conditions; all of them, in one pass.

use super::{Deciding, Resolved, Stopped};
use crate::expression::Inputs;
use crate::ids::{Digest, FactId};
use crate::limits::EXPLAINED_BYTES_MAX;
use crate::pact::{Mode, OnFail, Presence, Require};
use crate::reason::{Condition, Expected, FailedPrecondition, Reason, Why};
use crate::value::{Attributes, Value};

impl Deciding<'_> {
    /// The value of a read as it was observed.
    pub(super) fn observed_value(&self, read: usize) -> Option<&Attributes> {
        let resolved = self.reads.get(read)?;
        self.action.observation_of(&resolved.id)?.value_with(resolved.record)
    }

    pub(super) fn check_observations(&self) -> Result<(), Reason> {
        if !self.kind.require_observation {
            return Ok(());
        }
        let unseen: Vec<_> = self
            .kind
            .reads
            .iter()
            .zip(&self.reads)
            .filter(|(read, resolved)| {
                read.presence != Presence::Create && self.action.observation_of(&resolved.id).is_none()
            })
            .map(|(_, resolved)| resolved.id.clone())
            .collect();
        if unseen.is_empty() {
            return Ok(());
        }
        Err(Reason::ObservationRequired { action: self.kind.name.clone(), facts: unseen })
    }

    pub(super) fn check_preconditions(&self, inputs: &Inputs<'_>) -> Result<(), Stopped> {
        let mut failed = Vec::new();
        // Until something fails outright, a person could still let the action pass.
        let mut on_fail = OnFail::Review;
        let is_read = |at: usize| self.is_judgement() || !self.is_external(at);
        for (at, read) in self.kind.reads.iter().enumerate().filter(|(at, read)| read.unchanged && is_read(*at)) {
            if let Some(changed) = self.check_unchanged(at, &read.name) {
                failed.push(changed);
                on_fail = OnFail::Reject;
            }
        }
        for (at, limit_ms) in self.limited_reads().filter(|(at, _)| is_read(*at)) {
            if let Some(resolved) = self.reads.get(at).filter(|_| !self.is_confirmed(at, limit_ms)) {
                let name = self.kind.reads.get(at).map_or("", |read| read.name.as_str());
                let that = Condition::Confirmed { fact: resolved.id.clone(), limit_ms };
                failed.push(self.unconfirmed(format!("{name}-confirmed").into(), that, &[at], limit_ms));
                on_fail = OnFail::Reject;
            }
        }
        for require in self.kind.require.iter().filter(|require| self.is_known(&require.that)) {
            if let Some(why) = self.check_require(require, inputs).filter(|_| !self.is_waived(require)) {
                failed.push(self.explain(require, why));
                if require.on_fail != OnFail::Review {
                    on_fail = OnFail::Reject;
                }
            }
        }
        bound_explanation(&mut failed);
        if failed.is_empty() {
            return Ok(());
        }
        Err(Stopped::by(Reason::PreconditionFailed { failed }, on_fail))
    }

    /// What must hold in shadow mode too.
    pub(super) fn check_always(&self, inputs: &Inputs<'_>) -> Result<(), Reason> {
        let always = self.kind.require.iter().filter(|require| require.on_fail == OnFail::RejectAlways);
        let known = always.filter(|require| self.is_known(&require.that));
        let failed = known.filter_map(|require| Some(self.explain(require, self.check_require(require, inputs)?)));
        let mut failed: Vec<FailedPrecondition> = failed.collect();
        bound_explanation(&mut failed);
        if failed.is_empty() { Ok(()) } else { Err(Reason::PreconditionFailed { failed }) }
    }

    pub(super) fn check_require(&self, require: &Require, inputs: &Inputs<'_>) -> Option<Why> {
        match require.that.holds(inputs) {
            Ok(true) => {}
            Ok(false) => return Some(Why::False),
            Err(error) => return Some(Why::Error(error)),
        }
        if let Some(limit_ms) = require.max_staleness_ms
            && !require.that.facts().all(|read| self.is_confirmed(read, limit_ms))
        {
            return Some(Why::Unconfirmed);
        }
        let limit_ms = require.stale_after_ms?;
        // An observation from the future has outlived a clock that was set back: its age is not known.
        match self.looked_at_for(require).map(|at_ms| self.now_ms.checked_sub(at_ms)) {
            None => Some(Why::Unobserved),
            Some(age_ms) => age_ms.is_none_or(|age_ms| age_ms > limit_ms).then_some(Why::Stale),
        }
    }

    /// When all facts of a precondition had been looked at, by the oldest look; `None` where one never was.
    fn looked_at_for(&self, require: &Require) -> Option<u64> {
        let looked_at = |read: usize| self.reads.get(read).and_then(|resolved| self.looked_at_ms(&resolved.id));
        // A condition over parameters and time only still speaks of the resource it was decided on.
        require.that.facts().map(looked_at).min().unwrap_or_else(|| looked_at(0))
    }

    /// The reads whose type limits how long ago their source may have confirmed them.
    fn limited_reads(&self) -> impl Iterator<Item = (usize, u64)> {
        self.kind.reads.iter().enumerate().filter_map(|(at, read)| Some((at, read.max_staleness_ms?)))
    }

    /// Whether the source of a read has confirmed it within this time. What is not there has nothing to confirm.
    pub(super) fn is_confirmed(&self, read: usize, limit_ms: u64) -> bool {
        let Some(fact) = self.reads.get(read).and_then(Resolved::live) else { return true };
        let age_ms = fact.confirmed.as_ref().and_then(|confirmed| self.now_ms.checked_sub(confirmed.at_ms));
        age_ms.is_some_and(|age_ms| age_ms <= limit_ms)
    }

    /// Until when the source of a read counts as having confirmed it. An external one is asked again at every attempt.
    fn confirmed_until_ms(&self, read: usize, limit_ms: u64) -> Option<u64> {
        let fact = self.reads.get(read).filter(|_| !self.is_external(read)).and_then(Resolved::live)?;
        Some(fact.confirmed.as_ref()?.at_ms.saturating_add(limit_ms))
    }

    /// Until when no precondition that counts now will have gone stale: a call that could not be sent by then must not be.
    pub(super) fn fresh_until_ms(&self) -> u64 {
        if self.kind.mode == Mode::Shadow {
            return u64::MAX;
        }
        let counted = self.kind.require.iter().filter(|require| !self.is_waived(require));
        let until =
            counted.filter_map(|require| Some(self.looked_at_for(require)?.saturating_add(require.stale_after_ms?)));
        let counted = self.kind.require.iter().filter(|require| !self.is_waived(require));
        let of_requires = counted
            .filter_map(|require| Some((require, require.max_staleness_ms?)))
            .flat_map(|(require, limit_ms)| require.that.facts().map(move |read| (read, limit_ms)));
        let confirmed = of_requires.chain(self.limited_reads());
        let confirmed = confirmed.filter_map(|(read, limit_ms)| self.confirmed_until_ms(read, limit_ms));
        until.chain(confirmed).min().unwrap_or(u64::MAX)
    }

    fn check_unchanged(&self, read: usize, name: &str) -> Option<FailedPrecondition> {
        let resolved = self.reads.get(read)?;
        let observed = self.action.observation_of(&resolved.id);
        if observed.is_some_and(|observed| observed.version == resolved.current()) {
            return None;
        }
        let fact = resolved.id.clone();
        let version = observed.and_then(|observed| observed.version.number());
        let why = if observed.is_some() { Why::Changed } else { Why::Unobserved };
        let links = self.moved_links(&[read]).into_iter().map(|(_, read)| read);
        let reads = self.changed_reads(read).into_iter().chain(links).collect();
        let that = Condition::Unchanged { fact, version };
        Some(FailedPrecondition { reads, ..self.failed(format!("{name}-unchanged").into(), that, why, &[read]) })
    }
}

/// Leaves out of a rejection what its record has no room for: values are named by their digest once enough were quoted, and past that
/// reads and facts are counted. Every precondition that failed is told, and how.
fn bound_explanation(failed: &mut [FailedPrecondition]) {
    let mut left = EXPLAINED_BYTES_MAX;
    for failed in failed {
        let mut kept = 0_usize;
        for read in &mut failed.reads {
            if let Expected::Value(expected) = &mut read.expected {
                quote(expected, &mut left);
            }
            if let Some(actual) = &mut read.actual {
                quote(actual, &mut left);
            }
            let Some(rest) = left.checked_sub(read.bytes_bound()) else { break };
            (left, kept) = (rest, kept.saturating_add(1));
        }
        failed.left_out = failed.reads.len().saturating_sub(kept);
        failed.reads.truncate(kept);
        let mut fits = |fact: &FactId| match left.checked_sub(fact.bytes_bound()) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let facts = failed.facts.iter().map_while(|fact| fits(fact).then_some(())).count();
        failed.facts.truncate(facts);
    }
}

/// Names a value by its digest where there is no room for it.
fn quote(value: &mut Value, left: &mut usize) {
    match left.checked_sub(value.bytes_bound()) {
        Some(rest) => *left = rest,
        None => *value = Value::String(format!("sha256:{}", Digest::of(value.to_string().as_bytes())).into()),
    }
}
