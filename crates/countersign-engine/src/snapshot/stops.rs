//! What stops, waits or is under way, as records of a snapshot.
//!
//! Of actions that wait for a person, and of effects, a snapshot holds the entries only: the actions are read from there.

use super::Lines;
use crate::fold::{Fold, Moved};
use crate::storage::StorageError;
use countersign_core::action::Observed;
use countersign_core::call::{EffectId, Outcome};
use countersign_core::canonical::Canonical;
use countersign_core::effect::{Effect, Effects, Phase};
use countersign_core::fact::Version;
use countersign_core::fence::{Claim, ClaimId, Fences};
use countersign_core::halt::{Halt, Halts, Scope};
use countersign_core::ids::{AgentId, FactId, IdError};
use countersign_core::review::{Ended, Parked, ReviewId, Reviews};
use countersign_core::state::{HeldFeed, State};
use countersign_core::value::Attributes;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What stops, waits or is under way at one position.
pub(super) struct Stops {
    halts: Halts,
    reviews: Reviews,
    fences: Fences,
    effects: Effects,
    held: BTreeMap<u64, HeldFeed>,
}

impl Stops {
    pub(super) fn of(state: &State) -> Self {
        Self {
            halts: state.halts.clone(),
            reviews: state.reviews.clone(),
            fences: state.fences.clone(),
            effects: state.effects.clone(),
            held: state.held.clone(),
        }
    }

    pub(super) fn write(&self, lines: &mut Lines) -> Result<(), StorageError> {
        lines.section("halts")?;
        for (scope, halt) in self.halts.iter() {
            lines.push(|out| write_halt(out, scope, halt))?;
        }
        lines.section("reviews")?;
        for (review, parked) in self.reviews.open() {
            lines.push(|out| write_waiting(out, review, parked))?;
        }
        lines.section("ended")?;
        for (review, how, entry) in self.reviews.closed() {
            lines.push(|out| write_ended(out, review.0, how.as_str(), entry))?;
        }
        lines.section("claims")?;
        for (claim, held) in self.fences.claims() {
            lines.push(|out| write_claim(out, claim, held))?;
        }
        lines.section("effects")?;
        for (effect, under_way) in self.effects.open() {
            lines.push(|out| write_effect(out, effect, under_way))?;
        }
        lines.section("settled")?;
        for (effect, how, entry) in self.effects.ended() {
            lines.push(|out| write_ended(out, effect.0, how.as_str(), entry))?;
        }
        lines.section("held")?;
        for (entry, held) in &self.held {
            lines.push(|out| write_held(out, *entry, held))?;
        }
        Ok(())
    }
}

/// Takes a record back; false where the section is not one of these.
pub(super) fn restore(fold: &mut Fold, section: &str, line: &[u8]) -> Result<bool, String> {
    match section {
        "halts" => {
            let (scope, halt) = read_halt(line)?;
            fold.state.halts.halt(scope, halt);
        }
        "reviews" => {
            let (entry, observed) = read_waiting(line)?;
            fold.state.reviews.expect(entry);
            fold.waiting.push((entry, observed));
        }
        "ended" => {
            let (review, how, entry) = read_ended(line)?;
            let how = Ended::parse(&how).ok_or_else(|| format!("a review cannot end as `{how}`"))?;
            fold.state.reviews.remember(review, how, entry);
        }
        "claims" => {
            let (entry, claim) = read_claim(line)?;
            fold.state.fences.announce(entry, claim);
        }
        "effects" => {
            let (effect, moved) = read_effect(line)?;
            fold.under_way.insert(effect, moved);
        }
        "settled" => {
            let (effect, how, entry) = read_ended(line)?;
            let how = Outcome::parse(&how).ok_or_else(|| format!("an effect cannot end as `{how}`"))?;
            fold.state.effects.remember(EffectId(effect), how, entry);
        }
        "held" => {
            let (entry, held) = read_held(line)?;
            fold.state.hold(entry, held);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn write_halt(out: &mut Canonical, scope: &Scope, halt: &Halt) {
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

fn read_halt(line: &[u8]) -> Result<(Scope, Halt), String> {
    let stored: StoredHalt = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let scope = stored.scope.parse::<Scope>().map_err(|error| error.to_string())?;
    let by = AgentId::new(stored.by).map_err(|error| error.to_string())?;
    Ok((scope, Halt { entry: stored.entry, by, at_ms: stored.at, reason: stored.reason.into() }))
}

fn write_waiting(out: &mut Canonical, review: ReviewId, parked: &Parked) {
    out.open('{');
    out.key("entry");
    out.u64(review.0);
    write_observed(out, &parked.action.observed);
    out.close('}');
}

fn write_observed(out: &mut Canonical, observed: &[Observed]) {
    out.key("observed");
    out.open('[');
    for observed in observed {
        out.element();
        observed.write(out, true);
    }
    out.close(']');
}

#[derive(Deserialize)]
struct StoredWaiting {
    entry: u64,
    observed: Vec<StoredObserved>,
}

#[derive(Deserialize)]
struct StoredObserved {
    at: u64,
    digest: Option<String>,
    fact: String,
    value: Option<serde_json::Map<String, serde_json::Value>>,
    version: Option<u64>,
}

fn read_waiting(line: &[u8]) -> Result<(u64, Vec<Observed>), String> {
    let stored: StoredWaiting = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok((stored.entry, read_observed(stored.observed)?))
}

fn read_observed(stored: Vec<StoredObserved>) -> Result<Vec<Observed>, String> {
    let observed = stored.into_iter().map(|observed| {
        let value = observed.value.as_ref().map(Attributes::from_untyped_json).transpose();
        Ok(Observed {
            fact: observed.fact.parse::<FactId>().map_err(|error: IdError| error.to_string())?,
            version: Version::read(observed.version, observed.digest.as_deref())
                .ok_or("an observation has no version")?,
            at_ms: observed.at,
            value: value.map_err(|error| error.to_string())?,
        })
    });
    observed.collect()
}

fn write_ended(out: &mut Canonical, what: u64, how: &str, entry: u64) {
    out.open('[');
    out.element();
    out.u64(what);
    out.element();
    out.string(how);
    out.element();
    out.u64(entry);
    out.close(']');
}

fn read_ended(line: &[u8]) -> Result<(u64, String, u64), String> {
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

fn write_claim(out: &mut Canonical, ClaimId(entry): ClaimId, claim: &Claim) {
    out.open('{');
    out.key("at");
    out.u64(claim.at_ms);
    out.key("by");
    out.string(claim.by.as_str());
    out.key("entry");
    out.u64(entry);
    out.key("expires_at");
    out.u64(claim.expires_at_ms);
    out.key("facts");
    out.open('[');
    for fact in &claim.facts {
        out.element();
        out.fact(fact);
    }
    out.close(']');
    out.key("priority");
    out.i64(claim.priority);
    out.key("reason");
    out.string(&claim.reason);
    out.key("until");
    out.u64(claim.until_ms);
    out.close('}');
}

#[derive(Deserialize)]
struct StoredClaim {
    at: u64,
    by: String,
    entry: u64,
    expires_at: u64,
    facts: Vec<String>,
    priority: i64,
    reason: String,
    until: u64,
}

fn read_claim(line: &[u8]) -> Result<(u64, Claim), String> {
    let stored: StoredClaim = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let facts = stored.facts.iter().map(|fact| fact.parse::<FactId>()).collect::<Result<_, _>>();
    let claim = Claim {
        by: AgentId::new(stored.by).map_err(|error| error.to_string())?,
        at_ms: stored.at,
        expires_at_ms: stored.expires_at,
        until_ms: stored.until,
        priority: stored.priority,
        reason: stored.reason.into(),
        facts: facts.map_err(|error: IdError| error.to_string())?,
    };
    Ok((stored.entry, claim))
}

fn write_effect(out: &mut Canonical, EffectId(entry): EffectId, effect: &Effect) {
    out.open('{');
    if let Some(flight) = effect.flight().filter(|flight| flight.entry != entry) {
        out.key("dispatch");
        out.u64(flight.entry);
    }
    out.key("effect");
    out.u64(entry);
    if let Phase::InDoubt { .. } = effect.phase {
        out.key("in_doubt");
        out.u64(effect.latest);
    }
    write_observed(out, &effect.action.observed);
    out.close('}');
}

#[derive(Deserialize)]
struct StoredEffect {
    dispatch: Option<u64>,
    effect: u64,
    in_doubt: Option<u64>,
    observed: Vec<StoredObserved>,
}

fn read_effect(line: &[u8]) -> Result<(u64, Moved), String> {
    let stored: StoredEffect = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let observed = Some(read_observed(stored.observed)?);
    Ok((stored.effect, Moved { observed, dispatch: stored.dispatch, in_doubt: stored.in_doubt }))
}

fn write_held(out: &mut Canonical, entry: u64, held: &HeldFeed) {
    out.open('{');
    out.key("at");
    out.u64(held.at_ms);
    out.key("by");
    out.string(held.by.as_str());
    out.key("entry");
    out.u64(entry);
    out.key("fact");
    out.fact(&held.fact);
    if let Some(value) = &held.value {
        out.key("value");
        value.write(out);
    }
    out.close('}');
}

#[derive(Deserialize)]
struct StoredHeld {
    at: u64,
    by: String,
    entry: u64,
    fact: String,
    value: Option<serde_json::Map<String, serde_json::Value>>,
}

fn read_held(line: &[u8]) -> Result<(u64, HeldFeed), String> {
    let stored: StoredHeld = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let value = stored.value.as_ref().map(Attributes::from_untyped_json).transpose();
    let held = HeldFeed {
        fact: stored.fact.parse().map_err(|error: IdError| error.to_string())?,
        value: value.map_err(|error| error.to_string())?,
        by: AgentId::new(stored.by).map_err(|error| error.to_string())?,
        at_ms: stored.at,
    };
    Ok((stored.entry, held))
}
