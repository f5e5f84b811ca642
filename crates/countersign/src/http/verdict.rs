//! Verdicts on the wire: from a decision just made, or from the entry that holds one made before.
//!
//! Both ways must give the same body, or a retry would tell an agent something else than the first answer did. Nothing is
//! evaluated again: a stored verdict is read, not decided. Only what the agent may see is decided anew for each answer, by
//! the grants as they are then: an entry holds everything, an answer what its agent may know.

mod disclosing;
mod refused;
mod stored;

use countersign_api::{
    Atomicity, FailedPrecondition, FailedRead, PactRef, Shadowed, Verdict, VerdictKind, WaivedBy, Why, Wrote,
};
use countersign_core::action::Action;
use countersign_core::decision::{self, Blocked, Decision, Expected};
use countersign_core::fact::Version;
use countersign_core::pact;
use countersign_core::record::{Event, Leaf};
use countersign_engine::gate::{Gate, StoredEntry};
use countersign_engine::request::Entered;
use disclosing::Asked;
pub use refused::{of_refused, refusal};
use serde_json::Value;
use stored::{StoredBlocked, StoredDecision, StoredOutcome, StoredPayload};

/// The verdict that a new entry holds; nothing for entries that are not actions.
pub fn of_entry(gate: &Gate, entered: &Entered) -> Option<Verdict> {
    let mut verdict = match &entered.entry.event {
        Event::Action(decided) => of_decision(gate, &decided.action, &decided.decision),
        Event::Approval(approved) => of_decision(gate, &approved.action, &approved.decision),
        _ => return None,
    };
    let named = match &entered.entry.event {
        Event::Action(decided) => decided.action.action.as_str(),
        Event::Approval(approved) => approved.action.action.as_str(),
        _ => "",
    };
    in_entry(gate, &mut verdict, named, entered.entry.index);
    verdict.receipt = super::receipt(entered);
    Some(verdict)
}

/// The verdict of a check, which no entry holds and which guarantees nothing.
pub fn of_check(gate: &Gate, action: &Action, decision: &Decision) -> Verdict {
    Verdict { checked: true, ..of_decision(gate, action, decision) }
}

/// The verdict that an entry holds which was made before, under the same idempotency key.
pub fn of_stored(gate: &Gate, stored: &StoredEntry, receipt: Option<String>) -> Result<Verdict, String> {
    let leaf = Leaf::decode(&stored.leaf).map_err(|error| error.to_string())?;
    let kind = match leaf.verdict.as_deref() {
        Some("committed") => VerdictKind::Committed,
        Some("rejected") => VerdictKind::Rejected,
        Some("review") => VerdictKind::Review,
        Some("in_flight") => VerdictKind::InFlight,
        other => return Err(format!("entry {} holds no known verdict: {other:?}", stored.index)),
    };
    let agent = leaf.by().map_err(|error| error.to_string())?;
    let pact = leaf.pact.map(|pact| PactRef { name: pact.name, version: pact.version, hash: pact.hash });
    let mut verdict = bare(kind, leaf.action.unwrap_or_default(), pact);
    let mut action = String::new();
    match &stored.payload {
        None => verdict.erased = true,
        Some(payload) => {
            let payload: StoredPayload = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
            let StoredDecision { blocked, expires_at, gap_ms, shadowed, waived_by } = payload.decision.clone();
            verdict.waived_by = waived_by;
            if let Some(blocked) = blocked {
                block(&mut verdict, blocked.into());
            }
            verdict.expires_at = expires_at;
            verdict.dispatch_at = payload.effect.as_ref().and_then(|effect| effect.dispatch_at);
            verdict.gap_ms = gap_ms;
            verdict.shadowed = shadowed.map(Into::into);
            verdict.wrote.clone_from(&payload.writes);
            action = payload.disclose(gate, &mut verdict, agent)?;
        }
    }
    in_entry(gate, &mut verdict, &action, stored.index);
    verdict.receipt = receipt;
    verdict.repeated = true;
    Ok(verdict)
}

/// The verdict on an action whose call has come to this entry since its intent.
pub fn of_effect(
    gate: &Gate,
    intent: &StoredEntry,
    latest: &StoredEntry,
    receipt: Option<String>,
) -> Result<Verdict, String> {
    let leaf = Leaf::decode(&latest.leaf).map_err(|error| error.to_string())?;
    let mut verdict = of_stored(gate, intent, receipt)?;
    verdict.verdict = match (leaf.kind.as_str(), leaf.verdict.as_deref()) {
        ("dispatch", Some("in_flight")) => VerdictKind::InFlight,
        ("dispatch", _) | (_, Some("failed")) => VerdictKind::Failed,
        (_, Some("settled")) => VerdictKind::Settled,
        (_, Some("in_doubt")) => VerdictKind::InDoubt,
        other => return Err(format!("entry {} holds no known outcome: {other:?}", latest.index)),
    };
    (verdict.entry, verdict.dispatch_at) = (Some(latest.index), None);
    let Some(payload) = &latest.payload else {
        verdict.erased = true;
        return Ok(verdict);
    };
    let outcome: StoredOutcome = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    (verdict.evidence, verdict.wrote) = (outcome.evidence, outcome.writes);
    let was_shadowed = outcome.shadowed.is_some();
    verdict.shadowed = outcome.shadowed.map(Into::into).or(verdict.shadowed);
    let blocked = outcome.blocked.or_else(|| outcome.decision.and_then(|decision| decision.blocked));
    let was_blocked = blocked.is_some();
    if let Some(blocked) = blocked {
        block(&mut verdict, blocked.into());
    }
    if was_blocked || was_shadowed {
        disclose_stored(gate, &mut verdict, intent)?;
    }
    Ok(verdict)
}

/// Leaves out of a stored verdict what its agent may not see, as told by the entry of its action.
fn disclose_stored(gate: &Gate, verdict: &mut Verdict, stored: &StoredEntry) -> Result<(), String> {
    let Some(payload) = &stored.payload else { return Ok(()) };
    let payload: StoredPayload = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    let leaf = Leaf::decode(&stored.leaf).map_err(|error| error.to_string())?;
    let agent = leaf.by().map_err(|error| error.to_string())?;
    payload.disclose(gate, verdict, agent).map(|_| ())
}

/// The failed preconditions in a recorded reason, for whoever may see all of it.
pub fn failed_in(blocked: &Value) -> Vec<FailedPrecondition> {
    let stored = serde_json::from_value::<StoredBlocked>(blocked.clone());
    stored.map(|stored| Shadowed::from(stored).failed).unwrap_or_default()
}

fn of_decision(gate: &Gate, action: &Action, decision: &Decision) -> Verdict {
    let kind = match &decision.verdict {
        decision::Verdict::Committed => VerdictKind::Committed,
        decision::Verdict::Rejected(_) => VerdictKind::Rejected,
        decision::Verdict::Review { .. } => VerdictKind::Review,
        decision::Verdict::InFlight(_) => VerdictKind::InFlight,
    };
    let pact = decision.pact.as_ref().map(|pact| PactRef {
        name: pact.name.to_string(),
        version: pact.version,
        hash: pact.hash.to_string(),
    });
    let mut verdict = bare(kind, action.id.to_string(), pact);
    if let Some(blocked) = decision.blocked() {
        block(&mut verdict, reasons(blocked));
    }
    if let decision::Verdict::Review { expires_at_ms, .. } = &decision.verdict {
        verdict.expires_at = Some(*expires_at_ms);
    }
    if let decision::Verdict::InFlight(in_flight) = &decision.verdict
        && let decision::InFlight::Cooling { dispatch_at_ms } = **in_flight
    {
        verdict.dispatch_at = Some(dispatch_at_ms);
    }
    verdict.gap_ms = decision.gap_ms;
    verdict.shadowed = decision.shadowed.as_ref().map(reasons);
    verdict.waived_by = decision.waived_by.as_ref().map(|waived| WaivedBy {
        reviewer: waived.reviewer.to_string(),
        review: waived.review,
        preconditions: waived.preconditions.iter().map(ToString::to_string).collect(),
    });
    verdict.wrote =
        decision.writes.iter().map(|write| Wrote { fact: write.fact.to_string(), version: write.version }).collect();
    let reads: Vec<_> = decision.reads.iter().map(|read| read.fact.clone()).collect();
    let asked = Asked { agent: &action.agent, action: action.action.as_str(), reads: &reads };
    disclosing::disclose(gate, &mut verdict, &asked);
    verdict
}

fn bare(verdict: VerdictKind, action: String, pact: Option<PactRef>) -> Verdict {
    Verdict {
        verdict,
        entry: None,
        action,
        pact,
        code: None,
        message: None,
        hint: None,
        failed: Vec::new(),
        wrote: Vec::new(),
        gap_ms: None,
        atomicity: None,
        review: None,
        expires_at: None,
        effect: None,
        dispatch_at: None,
        evidence: None,
        shadowed: None,
        waived_by: None,
        receipt: None,
        repeated: false,
        erased: false,
        checked: false,
    }
}

fn in_entry(gate: &Gate, verdict: &mut Verdict, action: &str, entry: u64) {
    verdict.entry = Some(entry);
    verdict.atomicity = atomicity(gate, verdict.pact.as_ref(), action);
    verdict.effect = (verdict.verdict == VerdictKind::InFlight).then(|| format!("eff_{entry}"));
    verdict.review = (verdict.verdict == VerdictKind::Review).then(|| format!("rev_{entry}"));
}

/// How strong the step from check to use was; `None` where its pact has been replaced since, because another version may read other
/// facts in other ways.
fn atomicity(gate: &Gate, pact: Option<&PactRef>, action: &str) -> Option<Atomicity> {
    let Some(pact) = pact else { return Some(Atomicity::Atomic) };
    let view = gate.view();
    let held = view.state.pacts.values().find(|held| held.name.as_str() == pact.name)?;
    if held.version != pact.version {
        return None;
    }
    let kind = held.actions.values().find(|kind| kind.name.as_str() == action);
    Some(kind.map_or(Atomicity::Atomic, |kind| on_the_wire(kind.atomicity())))
}

/// An atomicity as it goes on the wire.
pub fn on_the_wire(atomicity: pact::Atomicity) -> Atomicity {
    match atomicity {
        pact::Atomicity::Atomic => Atomicity::Atomic,
        pact::Atomicity::Conditional => Atomicity::Conditional,
        pact::Atomicity::Rechecked => Atomicity::Rechecked,
    }
}

fn block(verdict: &mut Verdict, reasons: Shadowed) {
    verdict.code = Some(reasons.code);
    verdict.message = Some(reasons.message);
    verdict.hint = Some(reasons.hint);
    verdict.failed = reasons.failed;
}

fn reasons(blocked: &Blocked) -> Shadowed {
    Shadowed {
        code: blocked.code.as_str().to_owned(),
        message: blocked.message.clone(),
        hint: blocked.hint.clone(),
        failed: blocked.failed.iter().map(failed).collect(),
    }
}

/// Every failed precondition of a review, for whoever may see all of it.
pub fn all_failed(blocked: &Blocked) -> Vec<FailedPrecondition> {
    blocked.failed.iter().map(failed).collect()
}

fn failed(failed: &decision::FailedPrecondition) -> FailedPrecondition {
    let (why, error) = match &failed.why {
        decision::Why::False => (Why::False, None),
        decision::Why::Error(error) => (Why::Error, Some(error.clone())),
        decision::Why::Stale => (Why::Stale, None),
        decision::Why::Unobserved => (Why::Unobserved, None),
        decision::Why::Unconfirmed => (Why::Unconfirmed, None),
        decision::Why::Changed => (Why::Changed, None),
    };
    FailedPrecondition {
        precondition: failed.id.to_string(),
        that: failed.that.to_string(),
        why,
        error,
        as_observed: failed.as_observed,
        reads: failed.reads.iter().map(read).collect(),
        gap_ms: failed.gap_ms,
        limit_ms: failed.limit_ms,
        hint: failed.hint.clone(),
    }
}

fn read(read: &decision::FailedRead) -> FailedRead {
    let (outside, changed) = (read.read_outside(), read.changed_here());
    FailedRead {
        attribute: attribute(&read.fact.to_string(), read.attribute.as_deref()),
        observed: read.expected != Expected::NotObserved,
        withheld: false,
        expected: match &read.expected {
            Expected::Value(value) => Some(value.to_json()),
            Expected::NotObserved | Expected::Absent => None,
        },
        actual: read.actual.as_ref().map(|value| value.to_json()),
        observed_version: read.observed_version.and_then(Version::number),
        observed_digest: read.observed_version.and_then(Version::digest).map(|digest| digest.to_string()),
        version: read.version.number(),
        digest: read.version.digest().map(|digest| digest.to_string()),
        changed_by: changed.map(|changed| changed.by.to_string()),
        changed_at: changed.map(|changed| changed.at_ms),
        entry: changed.map(|changed| changed.entry),
        confirmed_at: read.confirmed.as_ref().map(|confirmed| confirmed.at_ms),
        confirmed_by: read.confirmed.as_ref().map(|confirmed| confirmed.by.to_string()),
        confirmed_in: read.confirmed.as_ref().map(|confirmed| confirmed.entry),
        read_in: outside.map(|outside| outside.by.to_string()),
        read_at: outside.map(|outside| outside.at_ms),
    }
}

fn attribute(fact: &str, attribute: Option<&str>) -> String {
    match attribute {
        Some(attribute) => format!("{fact}.{attribute}"),
        None => fact.to_owned(),
    }
}
