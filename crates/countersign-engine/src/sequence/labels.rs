//! Labels at their place in the order: an entry says what an agent is shown before it is shown.

use super::{Batch, Sequencer};
use crate::request::{Reply, Settlement};
use countersign_core::call::EffectId;
use countersign_core::decision::Decision;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::labels::{LabelSet, shown_by_settlement, shown_in, told};
use countersign_core::limits::LABEL_SOURCES_MAX;
use countersign_core::record::Event;
use countersign_core::session::SessionId;
use smol_str::SmolStr;
use std::sync::Arc;

impl Sequencer {
    /// Enters that an agent is shown content with these labels, unless it has them all; whether it entered anything. Who asked is answered
    /// in any case, once all that the answer rests on is durable.
    pub(super) fn show(
        &mut self,
        batch: &mut Batch,
        who: (&AgentId, Option<SessionId>),
        (labels, mut from): (&LabelSet, Vec<SmolStr>),
        reply: Option<Reply>,
        now_ms: u64,
    ) -> bool {
        let context = shown_in(who, labels, &*self.state, now_ms);
        if context.given().is_none() {
            let latest = self.state.next_entry.saturating_sub(1);
            batch.answers.extend(reply.map(|reply| (reply, Ok(latest))));
            return false;
        }
        from.truncate(LABEL_SOURCES_MAX);
        let (agent, _) = who;
        self.push(batch, (now_ms, agent.clone(), Auth::None, context), Event::Labels { from }, reply);
        true
    }

    /// The same for what the agent of an effect is told with the refusal of its dispatch. That is decided again if it was said.
    pub(super) fn show_refusal(&mut self, batch: &mut Batch, id: EffectId, decision: &Decision, now_ms: u64) -> bool {
        let Ok(effect) = self.state.effects.find(id) else { return false };
        if decision.blocked().is_none() && decision.shadowed.is_none() {
            return false;
        }
        let action = Arc::clone(&effect.action);
        let labels = told(&action, decision, &*self.state);
        self.show(batch, (&action.agent, action.session.map(|session| session.id)), (&labels, Vec::new()), None, now_ms)
    }

    /// The same for what the agent of an effect is told with its settlement.
    pub(super) fn show_settlement(&mut self, batch: &mut Batch, settlement: &Settlement, now_ms: u64) {
        let Ok(effect) = self.state.effects.find(settlement.effect) else { return };
        let action = Arc::clone(&effect.action);
        let mut labels = shown_by_settlement(effect, settlement.judged.as_ref(), &*self.state);
        if !labels.is_empty() {
            labels.extend(settlement.found.iter().cloned());
        }
        let who = (&action.agent, action.session.map(|session| session.id));
        self.show(batch, who, (&labels, Vec::new()), None, now_ms);
    }
}
