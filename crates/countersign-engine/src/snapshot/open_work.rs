//! What stops, waits or is under way, as records of a snapshot.
//!
//! Of actions that wait for a person, and of effects, a snapshot holds the entries, and what a dispatch was decided on.

use super::proved::Proved;
use super::{Lines, StoredFact, restore_fact, restore_pact, write_fact};
use crate::fold::Fold;
use crate::storage::{self, StorageError};
use countersign_core::call::{EffectId, Outcome};
use countersign_core::canonical::Canonical;
use countersign_core::effect::{Context, Effects};
use countersign_core::fence::{Claim, ClaimId, Fences};
use countersign_core::halt::{Halt, Halts, Scope};
use countersign_core::hex;
use countersign_core::ids::{AgentId, FactId, FactType, IdError, PactName};
use countersign_core::observing::{Counted, LatestWindow, Observing, ObservingKey, Sharer};
use countersign_core::record::{Entry, Leaf};
use countersign_core::review::{Ended, Reviews};
use countersign_core::state::HeldFeed;
use countersign_core::value::Attributes;
use serde::Deserialize;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What stops, waits or is under way at one position.
pub(super) struct OpenWork {
    pub(super) halts: Halts,
    pub(super) reviews: Reviews,
    pub(super) fences: Fences,
    pub(super) effects: Effects,
    pub(super) held: BTreeMap<u64, HeldFeed>,
    pub(super) observing: Observing,
}

impl OpenWork {
    /// The entries of what waits for a person or is under way.
    fn entries(&self) -> BTreeSet<u64> {
        let mut entries: BTreeSet<u64> = self.reviews.open().map(|(review, _)| review.0).collect();
        for (id, effect) in self.effects.open() {
            let review = effect.approval.as_ref().map(|approval| approval.shown.review.0);
            let dispatch = effect.flight().map(|flight| flight.entry);
            entries.extend([Some(id.0), review, dispatch, Some(effect.latest)].into_iter().flatten());
        }
        entries
    }

    pub(super) fn write(&self, lines: &mut Lines, log: &mut Proved<'_>) -> Result<(), StorageError> {
        lines.section("halts")?;
        for (scope, halt) in self.halts.iter() {
            lines.push(|out| write_halt(out, scope, halt))?;
        }
        lines.section("entries")?;
        for entry in self.entries() {
            let stored = log.read(entry)?;
            lines.push(|out| write_entry(out, &stored))?;
        }
        lines.section("contexts")?;
        for (effect, under_way) in self.effects.open() {
            if let Some(context) = under_way.flight().and_then(|flight| flight.context.as_ref()) {
                lines.push(|out| write_context(out, effect, context))?;
            }
        }
        lines.section("ended")?;
        for (review, how, entry) in self.reviews.closed() {
            lines.push(|out| write_ended(out, review.0, how.as_str(), entry))?;
        }
        lines.section("claims")?;
        for (claim, held) in self.fences.claims() {
            lines.push(|out| write_claim(out, claim, held))?;
        }
        lines.section("settled")?;
        for (effect, how, entry) in self.effects.ended() {
            lines.push(|out| write_ended(out, effect.0, how.as_str(), entry))?;
        }
        lines.section("held")?;
        for (entry, held) in &self.held {
            lines.push(|out| write_held(out, *entry, held))?;
        }
        lines.section("observing")?;
        for (key, window) in self.observing.latest() {
            lines.push(|out| write_observing(out, key, window))?;
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
        "entries" => fold.state.apply(&read_entry(line)?),
        "contexts" => {
            let (effect, context) = read_context(line)?;
            fold.state.restore_context(effect, context);
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
        "settled" => {
            let (effect, how, entry) = read_ended(line)?;
            let how = Outcome::parse(&how).ok_or_else(|| format!("an effect cannot end as `{how}`"))?;
            fold.state.effects.remember(EffectId(effect), how, entry);
        }
        "held" => {
            let (entry, held) = read_held(line)?;
            fold.state.restore_held(entry, held);
        }
        "observing" => {
            let (key, ends_ms, facts) = read_observing(line)?;
            fold.state.observing.restore(key, ends_ms, facts);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn write_observing(out: &mut Canonical, key: &ObservingKey, window: &LatestWindow) {
    out.open('{');
    if let Sharer::Agent(agent) = &key.sharer {
        out.key("agent");
        out.string(agent.as_str());
    }
    out.key("ends");
    out.u64(window.ends_ms);
    out.key("facts");
    out.open('[');
    for fact in window.facts.iter() {
        out.element();
        out.hex_string(fact);
    }
    out.close(']');
    if let Sharer::Org(org) = &key.sharer {
        out.key("org");
        out.string(org);
    }
    out.key("pact");
    out.string(key.pact.as_str());
    out.key("per");
    out.u64(key.per_ms);
    out.key("type");
    out.string(key.ty.as_str());
    out.close('}');
}

#[derive(Deserialize)]
struct StoredObserving {
    agent: Option<AgentId>,
    ends: u64,
    facts: Vec<String>,
    org: Option<SmolStr>,
    pact: PactName,
    per: u64,
    #[serde(rename = "type")]
    ty: FactType,
}

fn read_observing(line: &[u8]) -> Result<(ObservingKey, u64, BTreeSet<Counted>), String> {
    let stored: StoredObserving = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let sharer = match (stored.agent, stored.org) {
        (Some(agent), None) => Sharer::Agent(agent),
        (None, Some(org)) => Sharer::Org(org),
        _ => return Err("a budget on observing is an agent's or an organisation's".to_owned()),
    };
    let key = ObservingKey { pact: stored.pact, ty: stored.ty, sharer, per_ms: stored.per };
    let facts = stored.facts.iter().map(|fact| hex::array(fact)).collect::<Option<_>>();
    Ok((key, stored.ends, facts.ok_or("not the digest of a fact")?))
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

fn write_entry(out: &mut Canonical, stored: &storage::Entry) {
    out.open('{');
    out.key("leaf");
    out.hex_string(&stored.leaf);
    if let Some((_, payload)) = &stored.content {
        out.key("payload");
        out.string(&String::from_utf8_lossy(payload));
    }
    out.close('}');
}

#[derive(Deserialize)]
struct KeptEntry {
    leaf: String,
    payload: Option<String>,
}

fn read_entry(line: &[u8]) -> Result<Entry, String> {
    let KeptEntry { leaf, payload } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let leaf = hex::bytes(&leaf).ok_or_else(|| "the leaf of an entry is not hexadecimal".to_owned())?;
    let leaf = Leaf::decode(&leaf).map_err(|error| error.to_string())?;
    Entry::decode(leaf, payload.as_deref().map(str::as_bytes)).map_err(|error| error.to_string())
}

fn write_context(out: &mut Canonical, effect: EffectId, context: &Context) {
    out.open('{');
    out.key("effect");
    out.u64(effect.0);
    out.key("facts");
    out.open('[');
    for fact in &context.facts {
        out.element();
        write_fact(out, fact);
    }
    out.close(']');
    out.key("pact");
    out.string(&context.pact.source);
    out.close('}');
}

#[derive(Deserialize)]
struct StoredContext {
    effect: u64,
    facts: Vec<StoredFact>,
    pact: String,
}

fn read_context(line: &[u8]) -> Result<(EffectId, Context), String> {
    let stored: StoredContext = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let facts = stored.facts.into_iter().map(|fact| restore_fact(fact).map(Arc::new)).collect::<Result<_, _>>()?;
    Ok((EffectId(stored.effect), Context { pact: restore_pact(&stored.pact)?, facts }))
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
