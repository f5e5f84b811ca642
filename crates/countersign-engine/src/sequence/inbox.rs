//! Acknowledgements at their place in the order.

use super::{Batch, Sequencer};
use crate::request::{Refusal, Reply};
use countersign_core::fence::check_holder;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::message::MessageId;
use countersign_core::record::Event;

impl Sequencer {
    /// Takes out of an agent's inbox what it names and what is there. Where nothing is, nothing is entered: acknowledging twice is
    /// acknowledging once.
    pub(super) fn acknowledge(
        &mut self,
        batch: &mut Batch,
        (by, auth): (AgentId, Auth),
        named: &[MessageId],
        reply: Reply,
        now_ms: u64,
    ) {
        let holder = check_holder(&self.state, &by, &auth, now_ms).map_err(Refusal::from);
        match holder.and_then(|()| Ok(self.state.inboxes.pending(&by, named)?)) {
            Ok(messages) if messages.is_empty() => {
                batch.answers.push((reply, Ok(self.state.next_entry.saturating_sub(1))));
            }
            Ok(messages) => self.enter(batch, now_ms, by, auth, Event::Acknowledgement { messages }, Some(reply)),
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }
}
