//! Messages: whom an action writes to, whether there is room, and whether a message that waits may be handed out now.

use super::halted::halt_among;
use super::{Deciding, Resolved, Snapshot};
use crate::fact::Fact;
use crate::halt::Scope;
use crate::identity::ACTIVE;
use crate::ids::{AgentId, FactId, PactName};
use crate::message::{Message, NoRoom};
use crate::reason::{Crowded, Reason};
use crate::value::Value;

impl Deciding<'_> {
    /// Finds the recipient. Under a delegation it must be within what was handed on, as what an action writes must be.
    pub(super) fn resolve_recipient(&mut self) -> Result<(), Reason> {
        let Some(deliver) = &self.kind.deliver else { return Ok(()) };
        let id = self.fact_id(&deliver.to)?;
        self.check_written_scope(&id)?;
        self.recipient = Some(Resolved { record: self.snapshot.fact(&id), id });
        Ok(())
    }

    /// The recipient, where it is not read as something else already.
    pub(super) fn recipient_read(&self) -> Option<&Resolved<'_>> {
        let is_read =
            |id: &FactId| self.reads.iter().any(|read| read.id == *id) || self.agents_read().any(|it| it.id == *id);
        self.recipient.as_ref().filter(|recipient| !is_read(&recipient.id))
    }

    /// The message that the action delivers, if there is someone to take it and room for it.
    pub(super) fn message(&self) -> Result<Option<Message>, Reason> {
        let (Some(deliver), Some(recipient)) = (&self.kind.deliver, &self.recipient) else { return Ok(None) };
        let from = &self.action.agent;
        let Some(to) = recipient.id.as_agent() else { return Ok(None) };
        if !recipient.live().is_some_and(|fact| is_active(fact)) {
            return Err(Reason::RecipientNotActive { to });
        }
        let crowded = |from: Option<&AgentId>, waiting: usize, max: usize, in_all| {
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            Crowded { from: from.cloned(), to: to.clone(), waiting: count(waiting), max: count(max), in_all }
        };
        match self.snapshot.unread(from, &to).check() {
            Ok(()) => Ok(Some(Message { to, body: deliver.body.clone() })),
            Err(NoRoom::Sender { waiting, max, in_all }) => {
                Err(Reason::MessageQuotaExceeded(crowded(Some(from), waiting, max, in_all)))
            }
            Err(NoRoom::Inbox { waiting, max, in_all }) => Err(Reason::InboxFull(crowded(None, waiting, max, in_all))),
        }
    }
}

fn is_active(fact: &Fact) -> bool {
    let standing = fact.value.as_ref().and_then(|value| value.get("standing"));
    matches!(standing, Some(Value::String(standing)) if standing == ACTIVE)
}

/// Why a message that waits is not handed out now. It keeps its place, and its recipient sees that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    /// Its sender, someone on whose behalf it was sent, or its pact is halted.
    Halted(Scope),
    /// Its sender, or someone on whose behalf it was sent, is no longer active.
    NotActive(AgentId),
}

/// Whether a message of these senders under this pact may be handed out now. It was right when it was sent; who was halted or revoked
/// since says nothing more to anyone.
pub fn withheld<'m, M: Iterator<Item = &'m AgentId>>(
    pact: &PactName,
    members: impl Fn() -> M,
    snapshot: &dyn Snapshot,
) -> Option<Withheld> {
    if let Some((scope, _)) = halt_among(pact, &members, snapshot) {
        return Some(Withheld::Halted(scope));
    }
    let is_gone = |agent: &&AgentId| !snapshot.fact(&FactId::of_agent(agent)).is_some_and(|fact| is_active(fact));
    members().find(is_gone).map(|agent| Withheld::NotActive(agent.clone()))
}
