//! The preconditions: observation, `unchanged`, staleness and conditions; all of them, in one pass.

use super::{Deciding, Snapshot, Stage, Stopped, blocked};
use crate::code::Code;
use crate::decision::{Blocked, Expected, FailedPrecondition, Why};
use crate::expression::Inputs;
use crate::ids::Digest;
use crate::limits::EXPLAINED_BYTES_MAX;
use crate::pact::{OnFail, Presence, Require};
use crate::value::{Attributes, Value};
use std::sync::Arc;

impl<S: Snapshot> Deciding<'_, S> {
    /// The value of a read as it was observed; the current one while its version still stands.
    pub(super) fn observed_value(&self, read: usize) -> Option<&Attributes> {
        let resolved = self.reads.get(read)?;
        let observed = self.action.observation_of(&resolved.id)?;
        match resolved.record {
            Some(fact) if fact.version() == observed.version => fact.value.as_ref(),
            _ => observed.value.as_ref(),
        }
    }

    pub(super) fn check_observations(&self) -> Result<(), Blocked> {
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
            .map(|(_, resolved)| resolved.id.to_string())
            .collect();
        if unseen.is_empty() {
            return Ok(());
        }
        let message =
            format!("`{}` must be decided on an observation; none was sent of {}", self.kind.name, unseen.join(", "));
        Err(blocked(Code::ObservationRequired, message, &format!("observe {} and send the token", unseen.join(", "))))
    }

    pub(super) fn check_preconditions(&self, inputs: &Inputs<'_>) -> Result<(), Stopped> {
        let mut failed = Vec::new();
        // Until something fails outright, a person could still let the action pass.
        let mut on_fail = OnFail::Review;
        let is_read = |at: usize| self.stage == Stage::Judgement || !self.is_outside(at);
        for (at, read) in self.kind.reads.iter().enumerate().filter(|(at, read)| read.unchanged && is_read(*at)) {
            if let Some(changed) = self.check_unchanged(at, &read.name) {
                failed.push(changed);
                on_fail = OnFail::Reject;
            }
        }
        for require in self.kind.require.iter().filter(|require| self.is_known(&require.that)) {
            if let Some(why) = self.check_require(require, inputs).filter(|_| !self.is_waived(require)) {
                failed.push(self.explain(require, why));
                if require.on_fail == OnFail::Reject {
                    on_fail = OnFail::Reject;
                }
            }
        }
        bound_values(&mut failed);
        let (Some(first), count) = (failed.first(), failed.len()) else {
            return Ok(());
        };
        let message = match (&first.why, count) {
            (Why::Stale, 1) => format!("{} was checked too long ago", first.id),
            (_, 1) if first.gap_ms.is_some() => format!("{} no longer holds", first.id),
            (_, 1) => format!("{} does not hold", first.id),
            _ => {
                let ids: Vec<_> = failed.iter().map(|f| f.id.as_str()).collect();
                format!("{count} preconditions do not hold: {}", ids.join(", "))
            }
        };
        let hint = first.hint.clone();
        Err(Stopped::by(Blocked { code: Code::PreconditionFailed, message, hint, failed }, on_fail))
    }

    pub(super) fn check_require(&self, require: &Require, inputs: &Inputs<'_>) -> Option<Why> {
        match require.that.holds(inputs) {
            Ok(true) => {}
            Ok(false) => return Some(Why::False),
            Err(error) => return Some(Why::Error(error)),
        }
        let limit_ms = require.stale_after_ms?;
        let fresh = |read: usize| {
            let looked_at = self.reads.get(read).and_then(|resolved| self.looked_at_ms(&resolved.id));
            // An observation from the future has outlived a clock that was set back: its age is not known.
            looked_at.and_then(|at_ms| self.now_ms.checked_sub(at_ms)).is_some_and(|age_ms| age_ms <= limit_ms)
        };
        let mut facts = require.that.facts().peekable();
        // A condition over parameters and time only still speaks of the resource it was decided on.
        let all_fresh = if facts.peek().is_none() { fresh(0) } else { facts.all(fresh) };
        (!all_fresh).then_some(Why::Stale)
    }

    fn check_unchanged(&self, read: usize, name: &str) -> Option<FailedPrecondition> {
        let resolved = self.reads.get(read)?;
        let observed = self.action.observation_of(&resolved.id);
        if observed.is_some_and(|observed| observed.version == resolved.version()) {
            return None;
        }
        let that: Arc<str> = match observed {
            Some(observed) => format!("{} is still at version {}", resolved.id, observed.version).into(),
            None => format!("{} is unchanged since it was observed", resolved.id).into(),
        };
        Some(FailedPrecondition {
            id: format!("{name}-unchanged").into(),
            that,
            why: Why::Changed,
            reads: self
                .changed_reads(read)
                .into_iter()
                .chain(self.moved_links(&[read]).into_iter().map(|(_, read)| read))
                .collect(),
            gap_ms: self.gap_ms(std::iter::once(read)),
            hint: self.hint(&[read]),
        })
    }
}

/// Names values by their digest once a rejection has quoted as much as its record has room for.
fn bound_values(failed: &mut [FailedPrecondition]) {
    let mut left = EXPLAINED_BYTES_MAX;
    let mut quote = |value: &mut Value| match left.checked_sub(value.bytes_bound()) {
        Some(rest) => left = rest,
        None => *value = Value::String(format!("sha256:{}", Digest::of(value.to_string().as_bytes())).into()),
    };
    for read in failed.iter_mut().flat_map(|failed| &mut failed.reads) {
        if let Expected::Value(expected) = &mut read.expected {
            quote(expected);
        }
        if let Some(actual) = &mut read.actual {
            quote(actual);
        }
    }
}
