//! Verdicts on the wire: from a decision just made, or from the entry that holds one made before.
//!
//! Both become a [`Said`] first, which is data, and one renderer makes the answer of it, or a retry would tell an agent something
//! else than the first answer did. Nothing is evaluated again: a stored verdict is read, not decided. Only what the agent may see is
//! decided for each answer, by the grants as they are then: an entry holds everything, an answer what its agent may know.

mod readings;
mod refused;
mod withheld;

use countersign_api::{
    Atomicity, Evidence, FailedPrecondition, FailedRead, PactRef, ParamMisfit, RestsOn, Shadowed, Verdict, VerdictKind,
    WaivedBy, Why, Wrote,
};
use countersign_core::action::Action;
use countersign_core::call::{self, EffectId};
use countersign_core::decide::Snapshot as _;
use countersign_core::decision::{self, Decision, InFlight};
use countersign_core::disclose::{DecidedBy, Disclosure};
use countersign_core::fact::Version;
use countersign_core::ids::{ActionId, ActionName, AgentId, FactId};
use countersign_core::pact;
use countersign_core::reason::{self, BindProblem, Expected, Reason};
use countersign_core::record::{Event, Grouped, Kind, LeafVerdict};
use countersign_engine::gate::{Gate, LogError, StoredEntry};
use countersign_engine::request::Entered;
use countersign_engine::view::Synced;
pub use readings::changes;
pub use refused::{of_refused, refusal};
use withheld::withheld_evidence;
pub use withheld::withhold_effect;

/// What is to be said of an action, before there are words and before anything is left out.
struct Said {
    verdict: VerdictKind,
    /// The action's id.
    id: Option<ActionId>,
    /// The action type; `None` where it was erased.
    action: Option<ActionName>,
    /// Who acts, and is answered.
    agent: AgentId,
    pact: Option<decision::PactRef>,
    /// The facts read: the agents first, then those of the action type in its order.
    reads: Vec<FactId>,
    blocked: Option<Reason>,
    shadowed: Option<Reason>,
    wrote: Vec<(FactId, u64)>,
    waived_by: Option<WaivedBy>,
    gap_ms: Option<u64>,
    expires_at: Option<u64>,
    dispatch_at: Option<u64>,
    /// Whether more than one entry tells of it: that of the action, and those of its call.
    is_of_call: bool,
}

/// A verdict, and its effect where that is under way and can be waited for.
pub struct Told {
    pub verdict: Verdict,
    pub under_way: Option<EffectId>,
}

/// The verdict that a new entry holds; nothing for entries that are not actions.
pub fn of_entry(gate: &Gate, entered: &Entered) -> Option<Told> {
    // Before any of it is told.
    gate.note_entered(&entered.entry);
    let said = match &entered.entry.event {
        Event::Action(decided) => of_decision(&decided.action, &decided.decision),
        Event::Approval(approved) => of_decision(&approved.action, &approved.decision),
        _ => return None,
    };
    let mut verdict = said.in_entry(gate, entered.entry.index);
    verdict.readings = intent_readings(gate, &entered.entry.event);
    verdict.receipt = super::receipt(entered);
    let under_way = (verdict.verdict == VerdictKind::InFlight).then_some(EffectId(entered.entry.index));
    Some(Told { verdict, under_way })
}

/// The verdict on the action at a place, from 0, of a group that an entry rejected as a whole.
pub fn of_group(gate: &Gate, group: &Grouped, entry: u64, at: usize) -> Verdict {
    of_grouped(group, entry, at).in_entry(gate, entry)
}

fn of_grouped(group: &Grouped, entry: u64, at: usize) -> Said {
    let Grouped { actions, failed, decision } = group;
    let Some(action) = actions.get(at) else { return of_nothing(VerdictKind::Rejected, AgentId::gate()) };
    let mut said = of_decision(action, decision);
    if at != *failed {
        // Its own decision was never made, or was undone.
        let failed = (*failed as u64).saturating_add(1);
        (said.pact, said.gap_ms, said.reads) = (None, None, Vec::new());
        said.blocked = Some(Reason::GroupRejected { failed, entry });
    }
    said
}

/// The verdict of a check, which no entry holds and which guarantees nothing.
pub fn of_check(gate: &Gate, action: &Action, decision: &Decision) -> Verdict {
    Verdict { checked: true, ..of_decision(action, decision).tell(gate) }
}

/// The verdict that an entry holds which was made before, under the same idempotency key.
pub fn of_stored(gate: &Gate, stored: &StoredEntry, receipt: Option<String>) -> Result<Verdict, LogError> {
    of_stored_action(gate, stored, receipt, None)
}

/// The same on one of the actions that the entry speaks of.
pub fn of_stored_action(
    gate: &Gate,
    stored: &StoredEntry,
    receipt: Option<String>,
    action: Option<ActionId>,
) -> Result<Verdict, LogError> {
    let event = stored.decode()?.event;
    let mut verdict = Said::of_event(stored, &event, action)?.in_entry(gate, stored.index);
    verdict.readings = intent_readings(gate, &event);
    verdict.erased = stored.payload.is_none();
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
) -> Result<Verdict, LogError> {
    let latest_entry = latest.decode()?;
    let event = &latest_entry.event;
    let kind = match (event.kind(), event.verdict()) {
        (Kind::Dispatch, Some(LeafVerdict::InFlight)) => VerdictKind::InFlight,
        (Kind::Dispatch, _) | (_, Some(LeafVerdict::Failed)) => VerdictKind::Failed,
        (_, Some(LeafVerdict::Settled)) => VerdictKind::Settled,
        (_, Some(LeafVerdict::InDoubt)) => VerdictKind::InDoubt,
        other => return Err(latest.damaged(format_args!("it holds no known outcome: {other:?}"))),
    };
    let intent_entry = intent.decode()?;
    let mut said = Said { is_of_call: true, ..Said::of_event(intent, &intent_entry.event, None)? };
    said.later(event);
    if let (Event::Settle(_), None) = (event, &said.shadowed) {
        said.shadowed = readings::shadowed(gate, &intent_entry, latest.index)?;
    }
    said.know_all_ids();
    let evidence = match event {
        Event::Settle(settle) => {
            let long = || gate.long_answers().of(EffectId(intent.index)).map(|answer| answer.to_string());
            let mut evidence = settle.evidence.clone();
            evidence.result = evidence.result.take().or_else(long);
            Some(withheld_evidence(&said.disclosure(&gate.view()), &evidence))
        }
        _ => None,
    };
    let mut verdict = said.in_entry(gate, intent.index);
    (verdict.verdict, verdict.entry, verdict.dispatch_at) = (kind, Some(latest.index), None);
    verdict.readings = intent_readings(gate, &intent_entry.event);
    if let Some(rests_on) = &mut verdict.readings {
        readings::follow(gate, rests_on, EffectId(intent.index), &latest_entry)?;
    }
    if let Event::Settle(settle) = event {
        verdict.beside = settle.beside.iter().map(ToString::to_string).collect();
    }
    verdict.erased = intent.payload.is_none() || latest.payload.is_none();
    (verdict.evidence, verdict.receipt, verdict.repeated) = (evidence, receipt, true);
    Ok(verdict)
}

/// What an action rests on, by what the entry of its intent holds.
fn intent_readings(gate: &Gate, intent: &Event) -> Option<RestsOn> {
    intent.decision().and_then(|decision| readings::of_intent(gate, decision))
}

fn of_decision(action: &Action, decision: &Decision) -> Said {
    let (verdict, expires_at, dispatch_at) = match &decision.verdict {
        decision::Verdict::Committed => (VerdictKind::Committed, None, None),
        decision::Verdict::Rejected(_) => (VerdictKind::Rejected, None, None),
        decision::Verdict::Review { expires_at_ms, .. } => (VerdictKind::Review, Some(*expires_at_ms), None),
        decision::Verdict::InFlight(in_flight) => match **in_flight {
            InFlight::Cooling { dispatch_at_ms } => (VerdictKind::InFlight, None, Some(dispatch_at_ms)),
            InFlight::Dispatched(_) => (VerdictKind::InFlight, None, None),
        },
    };
    Said {
        verdict,
        id: Some(action.id),
        action: Some(action.action.clone()),
        agent: action.agent.clone(),
        pact: decision.pact.clone(),
        reads: decision.reads.iter().map(|read| read.fact.clone()).collect(),
        blocked: decision.blocked().cloned(),
        shadowed: decision.shadowed.as_deref().cloned(),
        wrote: decision.writes.iter().map(|write| (write.fact.clone(), write.version)).collect(),
        waived_by: decision.waived_by.as_ref().map(|waived| WaivedBy {
            reviewer: waived.reviewer.to_string(),
            review: waived.review,
            preconditions: waived.preconditions.iter().map(ToString::to_string).collect(),
        }),
        gap_ms: decision.gap_ms,
        expires_at,
        dispatch_at,
        is_of_call: false,
    }
}

/// A verdict of which nothing else is known.
fn of_nothing(verdict: VerdictKind, agent: AgentId) -> Said {
    Said {
        verdict,
        id: None,
        action: None,
        agent,
        pact: None,
        reads: Vec::new(),
        blocked: None,
        shadowed: None,
        wrote: Vec::new(),
        waived_by: None,
        gap_ms: None,
        expires_at: None,
        dispatch_at: None,
        is_of_call: false,
    }
}

/// Why a call did not leave: cancelled at its dispatch, blocked by what was read right before, or stopped.
pub fn blocked_by(event: &Event) -> Option<&Reason> {
    match event {
        Event::Settle(settle) => {
            let judged = settle.judged.as_ref().and_then(|judged| judged.blocked.as_ref());
            judged.or(settle.stopped.as_ref())
        }
        _ => event.decision().and_then(Decision::blocked),
    }
}

fn pact_ref(pact: &decision::PactRef) -> PactRef {
    PactRef { name: pact.name.to_string(), version: pact.version, hash: pact.hash.to_string() }
}

/// What follows the front of an answer that is not kept whole.
const CUT: &str = "… (cut: there was more)";

/// Evidence in words, for those who may see all of it.
pub fn evidence(evidence: &call::Evidence) -> Evidence {
    let call::Evidence { attempts, status, result, is_cut, receipt, measured, .. } = evidence.clone();
    let result = result.map(|result| if is_cut { result + CUT } else { result });
    let call::Measured { reread_ms, window_ms } = measured.as_deref().copied().unwrap_or_default();
    let (code, summary) = (evidence.found.code.as_str().to_owned(), evidence.words());
    Evidence { attempts, code, summary, status, result, receipt, reread_ms, window_ms, withheld: false }
}

impl Said {
    /// What an entry of an action or an approval says; of one whose payload is erased, what its leaf says.
    fn read(stored: &StoredEntry) -> Result<Self, LogError> {
        Self::of_event(stored, &stored.decode()?.event, None)
    }

    /// The same by what it holds, on one of the actions that it speaks of; of a rejected group, on the one that failed unless another is
    /// asked for.
    fn of_event(stored: &StoredEntry, event: &Event, action: Option<ActionId>) -> Result<Self, LogError> {
        let leaf = match event {
            Event::Action(decided) => return Ok(of_decision(&decided.action, &decided.decision)),
            Event::Approval(approved) => return Ok(of_decision(&approved.action, &approved.decision)),
            Event::Group(group) => {
                let at = action.and_then(|id| group.actions.iter().position(|action| action.id == id));
                return Ok(of_grouped(group, stored.index, at.unwrap_or(group.failed)));
            }
            Event::Erased(leaf) => leaf,
            other => return Err(stored.damaged(format_args!("its kind `{}` has no verdict", other.kind()))),
        };
        let verdict = match leaf.verdict {
            Some(LeafVerdict::Committed) => VerdictKind::Committed,
            Some(LeafVerdict::Rejected) => VerdictKind::Rejected,
            Some(LeafVerdict::Review) => VerdictKind::Review,
            Some(LeafVerdict::InFlight) => VerdictKind::InFlight,
            other => return Err(stored.damaged(format_args!("it holds no known verdict: {other:?}"))),
        };
        Ok(Self { id: leaf.action.or(action), pact: leaf.pact.clone(), ..of_nothing(verdict, leaf.by.clone()) })
    }

    /// Takes over what a dispatch or settlement says later.
    fn later(&mut self, event: &Event) {
        let judged = match event {
            Event::Settle(settle) => settle.judged.as_ref(),
            Event::Dispatch(_) => None,
            _ => return,
        };
        let decision = event.decision();
        self.also_read(decision.into_iter().flat_map(|decision| decision.reads.iter().map(|read| read.fact.clone())));
        self.wrote = event.writes().iter().map(|write| (write.fact.clone(), write.version)).collect();
        let shadowed = judged.and_then(|judged| judged.shadowed.as_ref());
        self.shadowed = shadowed.cloned().or(self.shadowed.take());
        self.blocked = blocked_by(event).cloned().or(self.blocked.take());
    }

    /// Leaves out what its agent may not see, and puts the rest into words.
    fn tell(mut self, gate: &Gate) -> Verdict {
        self.withhold(gate);
        let mut verdict = bare(self.verdict, self.id, self.pact.as_ref());
        if let Some(reason) = &self.blocked {
            let Shadowed { code, message, hint, failed } = in_words(reason);
            (verdict.code, verdict.message, verdict.hint) = (Some(code), Some(message), Some(hint));
            verdict.failed = failed;
            match reason {
                Reason::ObservationRequired { facts, .. } => {
                    verdict.observe = facts.iter().map(ToString::to_string).collect();
                }
                Reason::InvalidParams { problems } => {
                    let misfit = |it: &BindProblem| ParamMisfit { at: it.at.clone(), what: it.what.to_string() };
                    verdict.misfits = problems.iter().map(misfit).collect();
                }
                _ => {}
            }
        }
        // It was let go: what a refusal would say to do about it does not hold.
        let hint = "shadow mode: it was not refused, and `countersign mcp report` counts it";
        verdict.shadowed = self.shadowed.as_ref().map(|reason| Shadowed { hint: hint.to_owned(), ..in_words(reason) });
        verdict.wrote =
            self.wrote.into_iter().map(|(fact, version)| Wrote { fact: fact.to_string(), version }).collect();
        verdict.waived_by = self.waived_by;
        verdict.gap_ms = self.gap_ms;
        verdict.expires_at = self.expires_at;
        verdict.dispatch_at = self.dispatch_at;
        verdict
    }

    fn in_entry(self, gate: &Gate, entry: u64) -> Verdict {
        let atomicity = atomicity(gate, self.pact.as_ref(), self.action.as_ref());
        let mut verdict = self.tell(gate);
        verdict.entry = Some(entry);
        verdict.atomicity = atomicity;
        verdict.effect = (verdict.verdict == VerdictKind::InFlight).then(|| format!("eff_{entry}"));
        verdict.review = (verdict.verdict == VerdictKind::Review).then(|| format!("rev_{entry}"));
        verdict
    }

    /// Counts facts as read, each once.
    fn also_read(&mut self, facts: impl IntoIterator<Item = FactId>) {
        for fact in facts {
            if !self.reads.contains(&fact) {
                self.reads.push(fact);
            }
        }
    }

    /// What a call wrote, or was stopped by, may have other ids than its intent read, where an attribute that they are made of changed
    /// meanwhile. How those came about is not known here, so they count as read.
    fn know_all_ids(&mut self) {
        let failed = self.blocked.iter().chain(&self.shadowed).flat_map(Reason::failed);
        let named = failed.flat_map(|failed| failed.reads.iter().map(|read| &read.fact).chain(&failed.facts));
        let facts: Vec<FactId> = self.wrote.iter().map(|(fact, _)| fact).chain(named).cloned().collect();
        self.also_read(facts);
    }

    fn disclosure<'a>(&'a self, view: &'a Synced<'_>) -> Disclosure<'a> {
        let by = self.pact.as_ref().zip(self.action.as_ref());
        let by = by.map(|(pact, action)| DecidedBy { pact, action });
        view.disclosure(&self.agent, by, &self.reads)
    }

    fn withhold(&mut self, gate: &Gate) {
        // Most verdicts speak of nothing but the fact that the agent named itself, and need no look at the grants.
        let named_only = !self.is_of_call && Disclosure::hides_none_of(&self.agent, &self.reads);
        if named_only && self.blocked.is_none() && self.shadowed.is_none() {
            return;
        }
        let view = gate.view();
        let (mut blocked, mut shadowed) = (self.blocked.take(), self.shadowed.take());
        let mut wrote = std::mem::take(&mut self.wrote);
        let disclosure = self.disclosure(&view);
        for reason in blocked.iter_mut().chain(&mut shadowed) {
            reason.withhold(&disclosure);
        }
        for (fact, _) in &mut wrote {
            if let Some(masked) = disclosure.masked(fact) {
                *fact = masked;
            }
        }
        (self.blocked, self.shadowed, self.wrote) = (blocked, shadowed, wrote);
    }
}

fn bare(verdict: VerdictKind, action: Option<ActionId>, pact: Option<&decision::PactRef>) -> Verdict {
    Verdict {
        verdict,
        entry: None,
        action: action.map(|id| id.to_string()).unwrap_or_default(),
        pact: pact.map(pact_ref),
        code: None,
        message: None,
        hint: None,
        failed: Vec::new(),
        observe: Vec::new(),
        misfits: Vec::new(),
        wrote: Vec::new(),
        gap_ms: None,
        atomicity: None,
        review: None,
        expires_at: None,
        effect: None,
        dispatch_at: None,
        evidence: None,
        readings: None,
        beside: Vec::new(),
        shadowed: None,
        waived_by: None,
        receipt: None,
        repeated: false,
        erased: false,
        checked: false,
    }
}

/// How strong the step from check to use was; `None` where its pact has been replaced since, because another version may read other
/// facts in other ways.
fn atomicity(gate: &Gate, pact: Option<&decision::PactRef>, action: Option<&ActionName>) -> Option<Atomicity> {
    let Some(pact) = pact else { return Some(Atomicity::Atomic) };
    let view = gate.view();
    let held = view.pact(&pact.name)?;
    if held.version != pact.version {
        return None;
    }
    let kind = action.and_then(|name| held.actions.get(name));
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

/// A reason in words, for a reader who may see all that it still holds.
pub fn in_words(reason: &Reason) -> Shadowed {
    Shadowed {
        code: reason.code().as_str().to_owned(),
        message: reason.message(),
        hint: reason.hint(),
        failed: reason.failed().iter().map(failed).collect(),
    }
}

fn failed(failed: &reason::FailedPrecondition) -> FailedPrecondition {
    let (why, error) = match &failed.why {
        reason::Why::False => (Why::False, None),
        reason::Why::Error(error) => (Why::Error, Some(error.to_string())),
        reason::Why::Stale => (Why::Stale, None),
        reason::Why::Unobserved => (Why::Unobserved, None),
        reason::Why::Unconfirmed => (Why::Unconfirmed, None),
        reason::Why::Changed => (Why::Changed, None),
    };
    FailedPrecondition {
        precondition: failed.id.to_string(),
        that: failed.that.to_string(),
        why,
        error,
        as_observed: failed.as_observed,
        reads: failed.reads.iter().map(read).collect(),
        reads_left_out: (failed.left_out > 0).then_some(failed.left_out),
        gap_ms: failed.gap_ms,
        limit_ms: failed.limit_ms,
        hint: failed.hint(),
    }
}

fn read(read: &reason::FailedRead) -> FailedRead {
    let (outside, changed) = (read.read_external(), read.changed_here());
    FailedRead {
        attribute: match &read.attribute {
            Some(attribute) => format!("{}.{attribute}", read.fact),
            None => read.fact.to_string(),
        },
        observed: read.expected != Expected::NotObserved,
        withheld: read.withheld,
        expected: match &read.expected {
            Expected::Value(value) => Some(value.to_json()),
            Expected::NotObserved | Expected::Absent => None,
        },
        actual: read.actual.as_ref().map(|value| value.to_json()),
        observed_version: read.observed_version.and_then(Version::number),
        observed_digest: read.observed_version.and_then(Version::digest).map(|digest| digest.to_string()),
        version: read.version.and_then(Version::number),
        digest: read.version.and_then(Version::digest).map(|digest| digest.to_string()),
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
