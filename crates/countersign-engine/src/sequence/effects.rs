//! Claims, dispatches and settlements at their place in the order.

use super::waiting::{Waiter, Waits};
use super::{Batch, Sequencer};
use crate::request::{Reply, Request, Settlement};
use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_core::decide::{self, ReadRest, beside};
use countersign_core::effect::{Effect, EffectRefusal, Phase};
use countersign_core::fence::{ClaimRefusal, Granted, check_holder, extend_claim, grant_claim, own_claim};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::limits::{JUDGED_BYTES_MAX, REASON_BYTES_MAX};
use countersign_core::record::{Dispatch, Event, Settle};
use countersign_core::state::State;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The calls in doubt beside which a call was made: those that the worker found when it took its turn, and those that are in doubt
/// now. What is resolved by a person was made when it was dispatched.
pub(crate) fn beside_all(effect: &Effect, found: Vec<EffectId>, state: &State) -> Vec<EffectId> {
    if !matches!(effect.phase, Phase::Dispatched(_)) {
        return found;
    }
    let rest = ReadRest { effects: &state.effects, pacts: &state.pacts };
    let all: BTreeSet<EffectId> = found.into_iter().chain(beside(effect, state, rest)).collect();
    all.into_iter().collect()
}

impl Sequencer {
    /// Announces, extends or withdraws.
    pub(super) fn claim(&mut self, batch: &mut Batch, request: Request, reply: Reply, now_ms: u64) {
        match self.claim_event(request, now_ms) {
            Ok((by, auth, event)) => {
                // A claim too: it may have taken a fact from another that its holder waits for.
                let ends = matches!(event, Event::Withdrawal { .. } | Event::Claim { .. });
                self.enter(batch, now_ms, by, auth, event, Some(reply));
                if ends {
                    self.waiting.free();
                }
            }
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }

    fn claim_event(&self, request: Request, now_ms: u64) -> Result<(AgentId, Auth, Event), ClaimRefusal> {
        let state = &self.state;
        match request {
            Request::Claim { by, auth, facts, for_ms, reason } => {
                check_holder(state, &by, &auth, now_ms)?;
                let Granted { expires_at_ms, until_ms, priority } =
                    grant_claim(state, &by, &facts, for_ms, &reason, now_ms)?;
                Ok((by, auth, Event::Claim { facts, expires_at_ms, until_ms, priority, reason }))
            }
            Request::ExtendClaim { by, auth, claim, for_ms } => {
                check_holder(state, &by, &auth, now_ms)?;
                let expires_at_ms = extend_claim(state, &by, claim, for_ms, now_ms)?;
                Ok((by, auth, Event::Extension { claim, expires_at_ms }))
            }
            Request::WithdrawClaim { by, auth, claim } => {
                check_holder(state, &by, &auth, now_ms)?;
                own_claim(state, &by, claim, now_ms)?;
                Ok((by, auth, Event::Withdrawal { claim }))
            }
            // The sequencer hands nothing else to this place; were it to, nothing would be granted.
            other => Err(ClaimRefusal::Agent(format!("{other:?} is no claim"))),
        }
    }

    /// Decides an effect again that has cooled: it goes off, waits for a fence, or is cancelled. `since` is when it began to wait.
    pub(super) fn dispatch(&mut self, batch: &mut Batch, id: EffectId, reply: Reply, now_ms: u64, since: Option<u64>) {
        let action = match self.due(id, now_ms) {
            Ok(effect) => Arc::clone(&effect.action),
            Err(refusal) => return batch.refuse(reply, refusal),
        };
        // What rests on readings is dispatched by whoever has read them again; here, nothing was.
        let mut decision = match self.decide_as_read(id, &[], now_ms) {
            Ok(decision) => decision,
            Err(refusal) => return batch.refuse(reply, refusal),
        };
        let since_ms = since.unwrap_or(now_ms);
        if let Some(until_ms) = self.waits(&action, &decision, since_ms, now_ms) {
            let wakes_at_ms = self.wakes_at(&decision, until_ms, now_ms);
            let what = Waits::Dispatch(id, action.agent.clone());
            return self.waiting.enter(Waiter { what, reply, since_ms, wakes_at_ms });
        }
        if self.show_refusal(batch, id, &decision, now_ms) {
            decision = self.decide_as_read(id, &[], now_ms).unwrap_or(decision);
        }
        let event = Event::Dispatch(Box::new(Dispatch { effect: id, rereads: Vec::new(), decision }));
        self.enter(batch, now_ms, AgentId::gate(), Auth::None, event, Some(reply));
    }

    /// An effect that has cooled for as long as it must.
    pub(super) fn due(&self, id: EffectId, now_ms: u64) -> Result<&Effect, EffectRefusal> {
        let effect = self.state.effects.cooling(id)?;
        match effect.phase {
            Phase::Cooling { dispatch_at_ms } if now_ms < dispatch_at_ms => {
                let (phase, needs) = (effect.phase.as_str(), "its time has not come");
                Err(EffectRefusal::Phase { effect: id, phase, needs })
            }
            _ => Ok(effect),
        }
    }

    /// Settles a call by what a worker or a probe found.
    pub(super) fn settle(&mut self, batch: &mut Batch, mut settlement: Settlement, reply: Reply, now_ms: u64) {
        // Other people's servers word it. What does not fit an entry would stop the ledger, and every halt with it.
        settlement.evidence = settlement.evidence.bounded();
        if settlement.judged.as_ref().is_some_and(|judged| judged.bytes_bound() > JUDGED_BYTES_MAX) {
            let attempts = settlement.evidence.attempts;
            settlement.evidence = Evidence { attempts, ..Evidence::of(FoundCode::TooLong.alone()) };
            settlement.judged = None;
        }
        let by = (AgentId::gate(), Auth::None);
        if self.state.effects.settling(settlement.effect, settlement.outcome).is_ok() {
            self.show_settlement(batch, &settlement, now_ms);
        }
        self.enter_settlement(batch, by, settlement, reply, now_ms);
    }

    /// Settles a call by what an operator says.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request, named at the call")]
    pub(super) fn resolve(
        &mut self,
        batch: &mut Batch,
        by: (AgentId, Auth),
        effect: EffectId,
        outcome: Outcome,
        evidence: Evidence,
        reply: Reply,
        now_ms: u64,
    ) {
        let reason_len = evidence.found.said.as_ref().map_or(0, String::len);
        if !(1..=REASON_BYTES_MAX).contains(&reason_len) {
            let refusal = EffectRefusal::Reason(reason_len);
            return batch.refuse(reply, refusal);
        }
        let in_doubt = self.state.effects.find(effect).and_then(|found| match found.phase {
            Phase::InDoubt { .. } => Ok(()),
            _ => {
                let needs = "only what is in doubt is resolved by a person";
                Err(EffectRefusal::Phase { effect, phase: found.phase.as_str(), needs })
            }
        });
        if let Err(refusal) = in_doubt {
            return batch.refuse(reply, refusal);
        }
        let settlement = Settlement {
            effect,
            outcome,
            evidence,
            judged: None,
            is_stopped: false,
            found: Default::default(),
            beside: Vec::new(),
        };
        self.enter_settlement(batch, by, settlement, reply, now_ms);
    }

    fn enter_settlement(
        &mut self,
        batch: &mut Batch,
        (by, auth): (AgentId, Auth),
        settlement: Settlement,
        reply: Reply,
        now_ms: u64,
    ) {
        let Settlement { effect: id, outcome, evidence, judged, is_stopped, found: _, beside } = settlement;
        let settling = self.state.effects.settling(id, outcome).and_then(|effect| {
            if !is_stopped {
                return Ok((effect, None));
            }
            // The worker looked at what was synced; why it stops is decided here, at the entry's own place, so that an audit
            // finds the same. What was lifted in between stops nothing.
            let stopped = decide::stop_on(&effect.action, effect.approval.as_deref(), &*self.state, now_ms);
            stopped.map(|stopped| (effect, Some(stopped))).ok_or(EffectRefusal::NotStopped(id))
        });
        let (effect, stopped) = match settling {
            Ok(settling) => settling,
            Err(refusal) => return batch.refuse(reply, refusal),
        };
        let (writes, charges) = effect.settlement(outcome);
        let agent = effect.action.agent.clone();
        let beside = beside_all(effect, beside, &self.state);
        let settle = Settle { effect: id, agent, outcome, evidence, judged, stopped, writes, charges, beside };
        self.enter(batch, now_ms, by, auth, Event::Settle(Box::new(settle)), Some(reply));
        if outcome == Outcome::InDoubt {
            return;
        }
        self.release(batch, now_ms);
        self.waiting.free();
    }

    /// Writes the feeds that waited for fences that are gone.
    fn release(&mut self, batch: &mut Batch, now_ms: u64) {
        while let Some((entry, held)) = self.state.next_released() {
            let event = Event::Feed { write: self.state.feed(&held.fact, held.value.clone()), held: Some(entry) };
            self.enter(batch, now_ms, AgentId::gate(), Auth::None, event, None);
        }
    }
}
