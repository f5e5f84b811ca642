//! Observations that are entries, at their place in the order.

use super::{Batch, Sequencer};
use crate::gate::FoundFacts;
use crate::request::Reply;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::observation::{ExternalFacts, Observation};
use countersign_core::record::Event;

/// Who asks for which facts.
pub(super) struct Asked {
    pub(super) agent: AgentId,
    pub(super) auth: Auth,
    pub(super) ids: Vec<FactId>,
    pub(super) external: Box<ExternalFacts>,
}

impl Sequencer {
    /// Shows facts to an agent as they are now, and keeps what it is shown.
    pub(super) fn observe(&mut self, batch: &mut Batch, asked: Asked, found: &FoundFacts, reply: Reply, now_ms: u64) {
        let Asked { agent, auth, ids, external } = asked;
        match Observation::make(&self.state, (&agent, &auth), &ids, &external, now_ms) {
            Ok(observation) => {
                let whole = |id: &FactId| match external.facts.get(id) {
                    Some(read) => read.clone(),
                    None => self.state.facts.get(id).cloned(),
                };
                // No one else has it yet.
                let _ = found.set(ids.iter().map(whole).collect());
                let event = Event::Observation(Box::new(observation));
                self.enter(batch, now_ms, agent, auth, event, Some(reply));
            }
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }
}
