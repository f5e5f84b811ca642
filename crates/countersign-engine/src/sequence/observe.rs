//! Observations that are entries, at their place in the order.

use super::{Batch, Sequencer};
use crate::gate::{Found, FoundFacts};
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
    pub(super) attest: bool,
}

impl Sequencer {
    /// Shows facts to an agent as they are now, and enters what counts, or is to be attested.
    pub(super) fn observe(&mut self, batch: &mut Batch, asked: Asked, found: &FoundFacts, reply: Reply, now_ms: u64) {
        let Asked { agent, auth, ids, external, attest } = asked;
        let made = Observation::make(&self.state, (&agent, &auth), &ids, &external, now_ms);
        let made = made.and_then(|made| Ok((made.to_enter(attest)?, made)));
        let (entry, observation) = match made {
            Ok(made) => made,
            Err(refusal) => return batch.refuse(reply, refusal),
        };
        let whole = |id: &FactId| match external.facts.get(id) {
            Some(read) => read.clone(),
            None => self.state.facts.get(id).cloned(),
        };
        let facts = ids.iter().map(whole).collect();
        let position = self.state.next_entry;
        // No one else has it yet.
        let _ = found.set(Found { observation, facts, position, at_ms: now_ms });
        match entry {
            Some(entry) => self.enter(batch, now_ms, agent, auth, Event::Observation(Box::new(entry)), Some(reply)),
            // Another observation has counted the same meanwhile. What is shown may rest on what is not durable yet.
            None => batch.answers.push((reply, Ok(position))),
        }
    }
}
