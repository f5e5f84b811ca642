//! Streams of changes, as clients of the stateless revision ask for them: a request that is not answered until the stream ends,
//! and whose id stands in everything that is said on it. Ids are replaced, so that name is, too.

use super::uses::Sending;
use super::{Purpose, Session};
use crate::mcp::message::{Members, Message, Raw};

/// What names the stream, in the `_meta` of all that is said on it.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

impl Session {
    /// The client wants to be told of changes: by every upstream, on one stream.
    pub(super) fn listen(&mut self, id: Raw, message: Message) {
        for slot in 0..self.slots.len() {
            self.record(slot, message.clone(), Sending::Request(Purpose::Listen { id: id.clone() }));
        }
    }

    /// Whether an answer is still to come that someone waits for; a stream of changes never answers by itself.
    pub(super) fn is_waited_for(&self) -> bool {
        self.pending.values().any(|pending| !matches!(pending.purpose, Purpose::Listen { .. }))
    }

    /// The stream that an upstream knows by this id.
    pub(super) fn listening(&self, slot: usize, id: &str) -> Option<u64> {
        let id = id.parse::<u64>().ok()?;
        let pending = self.pending.get(&id).filter(|pending| pending.slot == slot)?;
        matches!(pending.purpose, Purpose::Listen { .. }).then_some(id)
    }

    /// Puts the client's own name of a stream into what is said on it.
    pub(super) fn name_subscription(&self, slot: usize, message: &mut Message) {
        let is_listening = |pending: &super::Pending| matches!(pending.purpose, Purpose::Listen { .. });
        if !self.pending.values().any(is_listening) {
            return;
        }
        let Ok(mut params) = message.params_members() else { return };
        let Some(mut meta) = params.object("_meta") else { return };
        let stream = meta.get(SUBSCRIPTION).and_then(|id| self.listening(slot, id.get()));
        let Some(Purpose::Listen { id }) = stream.and_then(|id| Some(&self.pending.get(&id)?.purpose)) else { return };
        meta.set(SUBSCRIPTION, id.clone());
        params.set("_meta", meta.to_raw());
        message.set_params(params.to_raw());
    }

    /// An upstream has ended a stream in an orderly way, by its answer. The client's own ends with the last of them.
    pub(super) async fn listen_answered(&mut self, id: Raw, mut message: Message) {
        if self.is_listened_to(&id) {
            return;
        }
        if let Some(Ok(mut result)) = message.result_raw().map(|result| Members::parse(result.get()))
            && let Some(mut meta) = result.object("_meta")
            && meta.get(SUBSCRIPTION).is_some()
        {
            meta.set(SUBSCRIPTION, id.clone());
            result.set("_meta", meta.to_raw());
            message.set_result(result.to_raw());
        }
        message.set_id(id);
        self.answer(message).await;
    }

    /// An upstream has ended a stream by cancelling it.
    pub(super) async fn listen_ended(&mut self, stream: u64, mut message: Message) {
        let Some(Purpose::Listen { id }) = self.pending.remove(&stream).map(|pending| pending.purpose) else { return };
        let Ok(mut params) = message.params_members() else { return };
        if !self.is_listened_to(&id) {
            params.set("requestId", id);
            message.set_params(params.to_raw());
            self.answer(message).await;
        }
    }

    fn is_listened_to(&self, id: &Raw) -> bool {
        let is_open = |purpose: &Purpose| matches!(purpose, Purpose::Listen { id: known } if known.get() == id.get());
        self.pending.values().any(|pending| is_open(&pending.purpose))
            || self.uses.values().any(|using| using.purpose().is_some_and(is_open))
    }
}
