//! What the body of a signed request asks for, held against the entry that it made.
//!
//! Read as strictly as the gate reads it: a member that the gate does not know, or one that is missing, makes no entry. Two bodies cannot
//! be compared here: what a reviewer was shown is sealed with a key that the log does not hold, and an action is decided again from its
//! body.

use countersign_core::call::{Evidence, Found, FoundCode, Outcome};
use countersign_core::identity::Signed;
use countersign_core::ids::FactId;
use countersign_core::json::parse_object_exact;
use countersign_core::limits::APPROVAL_EXPIRES_MS;
use countersign_core::observation::Observation;
use countersign_core::record::{Approved, Event, Settle};
use countersign_core::state::State;
use countersign_core::value::Attributes;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Checks that an entry says what the body of its signed request asked for.
pub(super) fn check(signed: &Signed, event: &Event, state: &State) -> Result<(), String> {
    let text = signed.body.as_deref();
    match event {
        // The body is beside the signature, and the entry is decided again from it.
        Event::Action(_) if text.is_some() => Err(otherwise("another body than the action's own")),
        // A batch keeps digests in place of its body.
        Event::Batch { .. } | Event::Group(_) if text.is_some() => Err(otherwise("another body than its actions'")),
        Event::Pact(pact) if text != Some(&*pact.source) => Err(otherwise("another pact")),
        Event::Feed { write, held: None } => check_feed(signed, &write.fact, write.value.as_ref(), state),
        Event::Held { fact, value } => check_feed(signed, fact, value.as_ref(), state),
        Event::Confirm { version, .. } => with(signed, |asked| asked.is_number("version", *version)),
        Event::Approval(approved) => with(signed, |asked| check_approval(asked, approved)),
        Event::Refusal { reason, .. } => with(signed, |asked| asked.is_text("reason", reason)),
        Event::Rotation { reason, .. } => with(signed, |asked| asked.is_text("reason", reason)),
        Event::Halt { scope, reason } | Event::Resume { scope, reason } => with(signed, |asked| {
            asked.is_text("scope", &scope.to_string())?;
            asked.is_text("reason", reason)
        }),
        Event::Claim { facts, reason, .. } => with(signed, |asked| {
            let named = asked.take("facts").and_then(|named| named.as_array().map(|named| facts_in(named)));
            if named.flatten().as_ref() != Some(facts) {
                return Err(otherwise("other facts"));
            }
            asked.is_text("reason", reason)?;
            asked.span("for_ms").map(drop)
        }),
        Event::Observation(observation) => with(signed, |asked| check_observed(asked, observation)),
        Event::Extension { .. } => with(signed, |asked| asked.span("for_ms").map(drop)),
        Event::Withdrawal { .. } => with(signed, |_| Ok(())),
        Event::Settle(settle) => with(signed, |asked| check_resolved(asked, settle)),
        Event::Erasure { entries, reason, .. } => with(signed, |asked| check_erasure(asked, entries, reason, state)),
        // The clock is confirmed without a body, and the rest is not asked for by anyone.
        Event::Action(_)
        | Event::Batch { .. }
        | Event::Group(_)
        | Event::Pact(_)
        | Event::Clock { .. }
        | Event::Genesis { .. }
        | Event::Feed { held: Some(_), .. }
        | Event::Dispatch(_)
        | Event::Session { .. }
        | Event::Reading { .. }
        | Event::Expiry { .. }
        | Event::Denials(_)
        | Event::Done(_)
        | Event::Erased(_) => Ok(()),
    }
}

/// For how long the body of a signed request asks to claim something.
pub(crate) fn claimed_for_ms(signed: &Signed) -> Result<u64, String> {
    Asked::read(signed)?.span("for_ms")
}

fn otherwise(what: &str) -> String {
    format!("what was signed asks for something else: {what}")
}

/// Reads the body, and has everything in it compared.
fn with(signed: &Signed, compare: impl FnOnce(&mut Asked) -> Result<(), String>) -> Result<(), String> {
    let mut asked = Asked::read(signed)?;
    compare(&mut asked)?;
    match asked.0.keys().next() {
        None => Ok(()),
        Some(unknown) => Err(otherwise(&format!("field `{unknown}`, which makes no such entry"))),
    }
}

/// The members of a body that were not compared yet.
struct Asked(Map<String, Value>);

impl Asked {
    fn read(signed: &Signed) -> Result<Self, String> {
        let text = signed.body.as_deref().unwrap_or_default();
        parse_object_exact(text)
            .map(Self)
            .map_err(|error| format!("the body that was signed is not acceptable JSON: {error}"))
    }

    fn take(&mut self, field: &str) -> Option<Value> {
        self.0.swap_remove(field)
    }

    fn is_text(&mut self, field: &str, recorded: &str) -> Result<(), String> {
        match self.take(field) {
            Some(Value::String(asked)) if asked == recorded => Ok(()),
            _ => Err(otherwise(&format!("another `{field}`"))),
        }
    }

    fn is_number(&mut self, field: &str, recorded: u64) -> Result<(), String> {
        match self.take(field).and_then(|asked| asked.as_u64()) {
            Some(asked) if asked == recorded => Ok(()),
            _ => Err(otherwise(&format!("another `{field}`"))),
        }
    }

    fn span(&mut self, field: &str) -> Result<u64, String> {
        let span = self.take(field).and_then(|span| span.as_u64()).filter(|span| *span > 0);
        span.ok_or_else(|| otherwise(&format!("no `{field}`")))
    }
}

/// A feed writes the value of its body, read by the types at its place.
fn check_feed(signed: &Signed, fact: &FactId, value: Option<&Attributes>, state: &State) -> Result<(), String> {
    // A deletion has no body that means anything.
    let Some(value) = value else { return Ok(()) };
    with(signed, |asked| {
        let types = state.catalogue.types().get(fact.ty());
        let types = types.ok_or_else(|| format!("there was no fact type `{}`", fact.ty()))?;
        let given = asked.take("value").and_then(|given| Attributes::from_json(given.as_object()?, types).ok());
        if given.as_ref() == Some(value) { Ok(()) } else { Err(otherwise("another value")) }
    })
}

/// What was shown is sealed in the body. When the approval ends follows from it and from what the entry says was shown.
fn check_approval(asked: &mut Asked, approved: &Approved) -> Result<(), String> {
    if !asked.take("shown").is_some_and(|shown| shown.is_string()) {
        return Err(otherwise("no approval of anything that was shown"));
    }
    let expires_in_ms = match asked.take("expires_in_ms") {
        None => Some(APPROVAL_EXPIRES_MS),
        // Past its limit it counts for no more, which is decided again.
        Some(span) => span.as_u64(),
    };
    match expires_in_ms.map(|span| approved.shown.at_ms.saturating_add(span)) {
        Some(until_ms) if until_ms == approved.until_ms => Ok(()),
        _ => Err(otherwise("another end of the approval")),
    }
}

/// An observation shows the facts that were asked for, and is an entry where that was asked for.
fn check_observed(asked: &mut Asked, observation: &Observation) -> Result<(), String> {
    let named = asked.take("facts").and_then(|named| named.as_array().map(|named| facts_in(named))).flatten();
    let named = named.ok_or_else(|| otherwise("no facts"))?;
    let shown: Vec<&FactId> = observation.facts.iter().map(|seen| &seen.fact).collect();
    let is_attested = asked.take("attest") == Some(Value::Bool(true));
    // One that is an entry only because of what it counts does not say what else was asked for.
    let is_it = match is_attested {
        true => named.iter().eq(shown),
        false => {
            shown.is_empty() && observation.counts.iter().flat_map(|count| &count.facts).all(|it| named.contains(it))
        }
    };
    if !is_it {
        return Err(otherwise("other facts, or an observation of another kind"));
    }
    // What tools answered, and in which session that is kept, is no part of it.
    drop((asked.take("answers"), asked.take("session")));
    Ok(())
}

/// What a person says of a call in doubt: an outcome, and why.
fn check_resolved(asked: &mut Asked, settle: &Settle) -> Result<(), String> {
    let outcome = asked.take("outcome").and_then(|outcome| Outcome::parse(outcome.as_str()?));
    if outcome != Some(settle.outcome) {
        return Err(otherwise("another outcome"));
    }
    asked.is_text("reason", settle.evidence.found.said.as_deref().unwrap_or_default())?;
    // How often it was tried is the gate's own count.
    let (attempts, said) = (settle.evidence.attempts, settle.evidence.found.said.clone());
    let found = Found { said, ..FoundCode::Resolved.alone() };
    let said = Evidence { attempts, found: Box::new(found), ..Evidence::default() };
    if settle.evidence == said { Ok(()) } else { Err(otherwise("no such evidence")) }
}

/// An erasure erases what was asked for, and all of that which was not erased before. A dry run erases nothing.
fn check_erasure(asked: &mut Asked, erased: &[u64], reason: &str, state: &State) -> Result<(), String> {
    match asked.take("dry_run") {
        None | Some(Value::Bool(false)) => {}
        Some(_) => return Err(otherwise("a dry run, which erases nothing")),
    }
    asked.is_text("reason", reason)?;
    let named = asked.take("entries").and_then(|named| named.as_array()?.iter().map(Value::as_u64).collect());
    let named: BTreeSet<u64> = named.ok_or_else(|| otherwise("no entries"))?;
    let is_asked = erased.iter().all(|entry| named.contains(entry));
    let is_all = named.iter().all(|entry| erased.binary_search(entry).is_ok() || state.erased.contains(*entry));
    if is_asked && is_all { Ok(()) } else { Err(otherwise("other entries")) }
}

fn facts_in(named: &[Value]) -> Option<Vec<FactId>> {
    named.iter().map(|fact| fact.as_str()?.parse().ok()).collect()
}
