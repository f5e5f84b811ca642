//! What comes from upstreams: answers, questions to the client, and the end of a link.

use super::calls::unspoken;
use super::uses::Sending;
use super::{Asked, Purpose, Session};
use crate::mcp::message::{INVALID_PARAMS, Kind, METHOD_NOT_FOUND, Message, NOT_SENT, UPSTREAM_FAILED, number, raw};
use crate::mcp::methods;
use crate::mcp::upstream::Event;
use serde_json::json;

/// How many questions of one server may wait for the client.
const ASKED_MAX: usize = 16;

/// The code by which servers say that a resource is not theirs.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// Whether an error says that what was asked for is another server's.
pub(super) fn is_not_its_own(code: Option<i64>) -> bool {
    matches!(code, Some(METHOD_NOT_FOUND | INVALID_PARAMS | RESOURCE_NOT_FOUND))
}

impl Session {
    /// Something came from a link.
    pub(super) async fn link_said(&mut self, slot: usize, generation: u64, event: Event) {
        let current = self.slots.get(slot).is_some_and(|slot| slot.is_open_as(generation));
        if !current {
            return;
        }
        match event {
            Event::Message(message) => match message.kind() {
                Kind::Request => self.question(slot, generation, message).await,
                Kind::Notification => self.told(slot, message).await,
                Kind::Response => self.answered(slot, message).await,
            },
            Event::Ended(why) => self.ended(slot, &why.to_string()).await,
        }
    }

    /// An upstream asks the client something.
    async fn question(&mut self, slot: usize, generation: u64, mut message: Message) {
        let Some(id) = message.id().map(ToOwned::to_owned) else { return };
        if message.method == "ping" {
            let _ = self.deliver(slot, Message::result(&id, raw(&json!({}))));
            return;
        }
        let capability = methods::question(&message.method);
        let open = self.asked.values().filter(|asked| asked.slot == slot).count();
        if !capability.is_some_and(|capability| self.client_can(capability)) || open >= ASKED_MAX {
            let why =
                if capability.is_some() { "this client cannot be asked that now" } else { "no client is asked that" };
            let _ = self.deliver(slot, Message::error(&id, METHOD_NOT_FOUND, why));
            return;
        }
        let own = self.next_id();
        self.asked.insert(own, Asked { slot, generation, id, method: message.method.clone() });
        message.set_id(number(own));
        self.answer(message).await;
    }

    /// An upstream tells the client something.
    async fn told(&mut self, slot: usize, mut message: Message) {
        match message.method.as_str() {
            "notifications/tools/list_changed" => {
                if let Some(slot) = self.slots.get_mut(slot) {
                    slot.forget_tools();
                }
            }
            "notifications/cancelled" => {
                let Ok(mut params) = message.params_members() else { return };
                let id = params.get("requestId").map(|id| id.get().to_owned()).unwrap_or_default();
                if let Some(listening) = self.listening(slot, &id) {
                    return self.listen_ended(listening, message).await;
                }
                let own = self.asked.iter().find(|(_, asked)| asked.slot == slot && asked.id.get() == id);
                let Some(own) = own.map(|(own, _)| *own) else { return };
                self.asked.remove(&own);
                params.set("requestId", number(own));
                message.set_params(params.to_raw());
            }
            _ => {}
        }
        self.name_subscription(slot, &mut message);
        self.answer(message).await;
    }

    /// An upstream answers. What answers nothing, or for the second time, is passed over.
    async fn answered(&mut self, slot: usize, message: Message) {
        let id = message.id().and_then(|id| id.get().parse::<u64>().ok());
        let pending = id.filter(|id| self.pending.get(id).is_some_and(|pending| pending.slot == slot));
        let Some(pending) = pending.and_then(|id| self.pending.remove(&id)) else {
            tracing::warn!(upstream = self.name(slot), "an answer to nothing that was asked; it is passed over");
            return;
        };
        let mut message = unspoken(message);
        match pending.purpose {
            Purpose::Relay { id } => {
                message.set_id(id);
                self.answer(message).await;
            }
            Purpose::Listen { id } => self.listen_answered(id, message).await,
            Purpose::Call { call } => self.call_answered(call, message).await,
            Purpose::Gather { gather } => self.gathered(gather, slot, message).await,
            Purpose::FirstOf { message: asked, mut left } => {
                let Some(id) = asked.id().map(ToOwned::to_owned) else { return };
                // Only what says that it did nothing with it: what failed half-way must not happen at another server too.
                if is_not_its_own(message.error_code()) && !left.is_empty() {
                    let next = left.remove(0);
                    let purpose = Purpose::FirstOf { message: asked.clone(), left };
                    return self.record(next, asked, Sending::Request(purpose));
                }
                message.set_id(id);
                self.answer(message).await;
            }
            Purpose::Reopening => {
                let failed = message.error_raw().is_some();
                let opened = self.slots.get_mut(slot).map(|slot| slot.reopened(failed));
                if let Some(Err(why)) = opened {
                    self.ended(slot, &why).await;
                }
            }
        }
    }

    /// A request that gets no answer from its upstream: with `NOT_SENT` it was not asked.
    pub(super) async fn failed(&mut self, id: u64, code: i64, why: &str) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let name = self.name(pending.slot);
        let why = match code {
            NOT_SENT => format!("not sent to the server `{name}`: {why}"),
            _ => format!("no answer from the server `{name}`: {why}; it may have done it"),
        };
        let error = Message::error(&number(id), code, &why);
        match pending.purpose {
            Purpose::Relay { id } => self.answer_error(&id, code, &why).await,
            Purpose::Listen { id } => self.listen_answered(id, error).await,
            Purpose::Call { call } => self.call_answered(call, error).await,
            Purpose::Gather { gather } => Box::pin(self.gathered(gather, pending.slot, error)).await,
            Purpose::FirstOf { message, .. } => {
                if let Some(id) = message.id() {
                    self.answer_error(id, code, &why).await;
                }
            }
            Purpose::Reopening => {}
        }
    }

    /// A link has ended: anyone who waits for it is told, and it is opened again with the next message.
    async fn ended(&mut self, slot: usize, why: &str) {
        let Some(found) = self.slots.get_mut(slot) else { return };
        found.ended();
        tracing::warn!(upstream = found.name, why, "an upstream server has ended");
        self.asked.retain(|_, asked| asked.slot != slot);
        let waiting: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| pending.slot == slot).map(|(id, _)| *id).collect();
        for id in waiting {
            self.failed(id, UPSTREAM_FAILED, why).await;
        }
    }
}
