//! The final check: the whole action, decided on the external facts as read right before the call is made.
//!
//! Agents, pact and the gate's own facts are those of the dispatch, so anyone who replays the settlement has the same inputs (I3).

use super::{Approval, Snapshot, Stage, decide_at};
use crate::call::Send;
use crate::decision::{BudgetKey, Verdict};
use crate::effect::{Context, Effect};
use crate::fact::{Fact, Written};
use crate::fence::Fences;
use crate::halt::Halts;
use crate::ids::{AgentId, FactId, PactName, Tag};
use crate::labels::{LabelSet, Labels};
use crate::pact::Pact;
use crate::reason::{EffectProblem, Reason};
use crate::review::Reviews;
use crate::value::Attributes;
use std::sync::Arc;

/// What may be sent after all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyToSend {
    /// What is to be sent.
    pub send: Send,
    /// What would have blocked it, if its action type were not in shadow mode.
    pub shadowed: Option<Reason>,
}

/// Decides an effect on what was read outside. Gives what is to be sent.
pub fn judge(effect: &Effect, outside: &[(FactId, Option<Attributes>)], now_ms: u64) -> Result<ReadyToSend, Reason> {
    let lost = |why: EffectProblem| Reason::EffectInvalid { why };
    let flight = effect.flight().ok_or_else(|| lost(EffectProblem::NotDispatched))?;
    let context = flight.context.as_ref().ok_or_else(|| lost(EffectProblem::ContextLost))?;
    let asked: Vec<&FactId> = flight.dispatched.call.outside.iter().map(|read| &read.fact).collect();
    if !asked.iter().copied().eq(outside.iter().map(|(fact, _)| fact)) {
        return Err(lost(EffectProblem::OtherFactsRead));
    }
    let by = AgentId::new(flight.dispatched.call.adapter.as_str()).unwrap_or_else(|_| AgentId::gate());
    let fact = |(id, value): &(FactId, Option<Attributes>)| {
        (id.clone(), value.as_ref().map(|value| external_fact(id, value, &by, now_ms)))
    };
    let judging = Judging { context, outside: outside.iter().map(fact).collect(), none: Nothing::default() };
    let approval = effect.approval.as_deref();
    let approval =
        approval.map(|approved| Approval { by: &approved.by, shown: &approved.shown, until_ms: approved.until_ms });
    let (decision, drift) =
        decide_at(Stage::Judgement(&flight.key), approval.as_ref(), &effect.action, &judging, now_ms);
    if let Some(drift) = drift {
        return Err(Reason::ApprovalOutdated { drift: Box::new(drift) });
    }
    match decision.dispatched().and_then(|dispatched| dispatched.call.send.clone()) {
        Some(send) => Ok(ReadyToSend { send, shadowed: decision.shadowed.map(|it| *it) }),
        None => Err(match decision.verdict {
            Verdict::Rejected(blocked) | Verdict::Review { blocked, .. } => blocked,
            Verdict::Committed | Verdict::InFlight(_) => lost(EffectProblem::NoCall),
        }),
    }
}

/// An external fact as it was read. It has no number: its version is the digest of its value.
pub fn external_fact(id: &FactId, value: &Attributes, by: &AgentId, at_ms: u64) -> Arc<Fact> {
    let written = Written { entry: 0, version: 0, at_ms, by: by.clone() };
    let mut fact = Fact::after(None, id.clone(), Tag([0; 12]), Some(value.clone()), written.clone());
    // Its source has just said so.
    fact.confirmed = Some(Arc::new(written));
    Arc::new(fact)
}

/// What a judgement may look at.
struct Judging<'a> {
    context: &'a Context,
    /// What was read, and what was found not to be there.
    outside: Vec<(FactId, Option<Arc<Fact>>)>,
    none: Nothing,
}

/// Halts, reviews and fences were asked at the dispatch, and are not asked again.
#[derive(Default)]
struct Nothing {
    halts: Halts,
    reviews: Reviews,
    fences: Fences,
    labels: Labels,
}

impl Snapshot for Judging<'_> {
    fn fact(&self, id: &FactId) -> Option<&Arc<Fact>> {
        // What was read and is not there must not be found in the ledger instead.
        match self.outside.iter().find(|(read, _)| read == id) {
            Some((_, fact)) => fact.as_ref(),
            None => self.context.facts.iter().find(|fact| fact.id == *id),
        }
    }
    fn pact(&self, name: &PactName) -> Option<&Arc<Pact>> {
        Some(&self.context.pact).filter(|pact| pact.name == *name)
    }
    fn version_floor(&self) -> u64 {
        // What is written was settled at the dispatch.
        0
    }
    // The key of the call, which is made of these, was settled there too.
    fn origin(&self) -> &str {
        ""
    }
    fn next_entry(&self) -> u64 {
        0
    }
    fn budget_used(&self, _: &BudgetKey, _: u64) -> i64 {
        0
    }
    fn is_identified(&self) -> bool {
        false
    }
    fn halts(&self) -> &Halts {
        &self.none.halts
    }
    fn reviews(&self) -> &Reviews {
        &self.none.reviews
    }
    fn fences(&self) -> &Fences {
        &self.none.fences
    }
    fn effects_at_capacity(&self, _: &AgentId) -> bool {
        false
    }
    fn labels(&self) -> &Labels {
        &self.none.labels
    }
    fn labels_before(&self) -> Option<&LabelSet> {
        Some(&self.context.labels)
    }
}
