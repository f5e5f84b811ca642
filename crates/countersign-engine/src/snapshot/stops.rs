//! What is stopped or waits, as a snapshot holds it: halts in force, and reviews.
//!
//! A parked action is not copied: its entry is read again from the log. Only what it had observed is kept here, because the
//! entry leaves out values that were current then.

use countersign_core::action::Observed;
use countersign_core::canonical::Canonical;
use countersign_core::halt::{Halt, Scope};
use countersign_core::ids::{AgentId, FactId, IdError};
use countersign_core::review::{Ended, Parked, ReviewId};
use countersign_core::value::Attributes;
use serde::Deserialize;

pub(super) fn write_halt(out: &mut Canonical, scope: &Scope, halt: &Halt) {
    out.open('{');
    out.key("at");
    out.u64(halt.at_ms);
    out.key("by");
    out.string(halt.by.as_str());
    out.key("entry");
    out.u64(halt.entry);
    out.key("reason");
    out.string(&halt.reason);
    out.key("scope");
    out.string(&scope.to_string());
    out.close('}');
}

#[derive(Deserialize)]
struct StoredHalt {
    at: u64,
    by: String,
    entry: u64,
    reason: String,
    scope: String,
}

pub(super) fn read_halt(line: &[u8]) -> Result<(Scope, Halt), String> {
    let stored: StoredHalt = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let scope = stored.scope.parse::<Scope>().map_err(|error| error.to_string())?;
    let by = AgentId::new(stored.by).map_err(|error| error.to_string())?;
    Ok((scope, Halt { entry: stored.entry, by, at_ms: stored.at, reason: stored.reason.into() }))
}

pub(super) fn write_waiting(out: &mut Canonical, review: ReviewId, parked: &Parked) {
    out.open('{');
    out.key("entry");
    out.u64(review.0);
    out.key("observed");
    out.open('[');
    for observed in &parked.action.observed {
        out.element();
        // No version is ever u64::MAX, so the value is always there.
        observed.write(out, u64::MAX);
    }
    out.close(']');
    out.close('}');
}

#[derive(Deserialize)]
struct StoredWaiting {
    entry: u64,
    observed: Vec<StoredObserved>,
}

#[derive(Deserialize)]
struct StoredObserved {
    at: u64,
    fact: String,
    value: Option<serde_json::Map<String, serde_json::Value>>,
    version: u64,
}

pub(super) fn read_waiting(line: &[u8]) -> Result<(u64, Vec<Observed>), String> {
    let stored: StoredWaiting = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let observed = stored.observed.into_iter().map(|observed| {
        let value = observed.value.as_ref().map(Attributes::from_untyped_json).transpose();
        Ok(Observed {
            fact: observed.fact.parse::<FactId>().map_err(|error: IdError| error.to_string())?,
            version: observed.version,
            at_ms: observed.at,
            value: value.map_err(|error| error.to_string())?,
        })
    });
    Ok((stored.entry, observed.collect::<Result<_, String>>()?))
}

pub(super) fn write_ended(out: &mut Canonical, review: ReviewId, how: Ended, entry: u64) {
    out.open('[');
    out.element();
    out.u64(review.0);
    out.element();
    out.string(how.as_str());
    out.element();
    out.u64(entry);
    out.close(']');
}

pub(super) fn read_ended(line: &[u8]) -> Result<(u64, Ended, u64), String> {
    let (review, how, entry): (u64, String, u64) = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok((review, Ended::parse(&how).ok_or_else(|| format!("a review cannot end as `{how}`"))?, entry))
}
