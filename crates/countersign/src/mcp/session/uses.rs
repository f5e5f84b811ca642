//! Uses of servers otherwise than by calls of tools: resources, prompts, completions, answers to their questions. They act or
//! disclose, so each is an entry of the gate's before it is sent, for each server that it is sent to.

use super::answers::is_not_its_own;
use super::calls::{VERDICT_GOOD_FOR, Verdict};
use super::slot::Slot;
use super::{Purpose, Session};
use crate::mcp::adapter::RESOURCE;
use crate::mcp::delivery::Delivery;
use crate::mcp::gate::Using;
use crate::mcp::message::{INVALID_PARAMS, Message, NOT_SENT, REFUSED, Raw, raw};
use crate::mcp::readings::{Resource, named_session};
use crate::mcp::refusal::Refusal;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// One that waits for the gate.
pub struct Use {
    slot: usize,
    /// The link that there was when the gate was asked.
    link: Option<u64>,
    message: Message,
    sending: Sending,
    /// Goes with its answer, where the gate reads it.
    delivery: Option<Arc<Delivery>>,
}

/// What is sent.
pub enum Sending {
    /// A request of the client's.
    Request(Purpose),
    /// Something that the client tells.
    Notification,
    /// What the client answers to a question of this link's.
    Answer {
        /// The link.
        generation: u64,
        /// What was asked.
        method: String,
    },
}

impl Use {
    /// Whether it is the request that the client knows by this id.
    pub fn is(&self, id: &str) -> bool {
        matches!(self.sending, Sending::Request(_)) && self.message.id().is_some_and(|known| known.get() == id)
    }

    /// Whom its answer will be for.
    pub fn purpose(&self) -> Option<&Purpose> {
        match &self.sending {
            Sending::Request(purpose) => Some(purpose),
            Sending::Notification | Sending::Answer { .. } => None,
        }
    }
}

impl Session {
    /// The client asks for something that acts or discloses.
    pub(super) async fn used(&mut self, id: Raw, mut message: Message) {
        let Ok(mut params) = message.params_members() else {
            return self.answer_error(&id, INVALID_PARAMS, "the params can be read in two ways").await;
        };
        if message.method == "subscriptions/listen" {
            return self.listen(id, message);
        }
        if !self.is_namespaced() {
            return self.record(0, message, Sending::Request(Purpose::Relay { id }));
        }
        // Prompts carry the name of their server.
        let mut about = params.object("ref").filter(|_| message.method == "completion/complete");
        let holder = if message.method == "prompts/get" { Some(&params) } else { about.as_ref() };
        if let Some(name) = holder.and_then(|holder| holder.text("name")) {
            let Some((slot, name)) = self.route(&name) else {
                return self.answer_error(&id, INVALID_PARAMS, "there is no prompt of this name").await;
            };
            match &mut about {
                Some(about) => {
                    about.set("name", raw(&name));
                    params.set("ref", about.to_raw());
                }
                None => params.set("name", raw(&name)),
            }
            message.set_params(params.to_raw());
            return self.record(slot, message, Sending::Request(Purpose::Relay { id }));
        }
        // Only the server whose own it is knows that: they are asked in turn, and each of them only if the gate lets it.
        let left = (1..self.slots.len()).collect();
        let purpose = Purpose::FirstOf { message: message.clone(), left };
        self.record(0, message, Sending::Request(purpose));
    }

    /// Asks the gate whether something may be sent to a server, and keeps it until then.
    pub(super) fn record(&mut self, slot: usize, message: Message, sending: Sending) {
        let using = self.next_id();
        let method = match &sending {
            Sending::Answer { method, .. } => method.clone(),
            Sending::Request(_) | Sending::Notification => message.method.clone(),
        };
        let mut about = Using {
            upstream: self.name(slot).to_owned(),
            method,
            about: about(&message).unwrap_or_default(),
            content: message.content(),
            session: message.params_members().ok().and_then(|params| named_session(&params)),
            delivery: None,
        };
        let link = self.slots.get(slot).and_then(Slot::linked);
        let (gateway, verdicts, seen) = (Arc::clone(&self.gateway), self.verdicts.clone(), Arc::clone(&self.seen));
        let delivery = (about.method == RESOURCE).then(|| {
            let arguments = json!({"uri": about.about}).to_string();
            let params = message.params_members().unwrap_or_default();
            seen.session.begin((&about.upstream, RESOURCE), &arguments, &params, message.place)
        });
        about.delivery = delivery.clone();
        self.uses.insert(using, Use { slot, link, message, sending, delivery });
        tokio::task::spawn_blocking(move || {
            let verdict = gateway.gate.used(&about, &seen);
            // A session that has ended needs no verdict; the entry stands anyway.
            let _ = verdicts.blocking_send(Verdict::Use { using, verdict, at: Instant::now() });
        });
    }

    /// The gate has said whether something may be sent.
    pub(super) async fn use_decided(&mut self, using: u64, verdict: Result<Option<Resource>, Refusal>, at: Instant) {
        // What was cancelled meanwhile is not there any more.
        let Some(Use { slot, link, mut message, sending, delivery }) = self.uses.remove(&using) else { return };
        let verdict = match (verdict, &sending) {
            // Only the server whose own it is knows a resource: the others are asked in turn.
            (Ok(Some(Resource::Error { code, .. })), Sending::Request(Purpose::FirstOf { message, left }))
                if is_not_its_own(Some(code)) && !left.is_empty() =>
            {
                let (message, mut left) = (message.clone(), left.clone());
                let next = left.remove(0);
                let purpose = Purpose::FirstOf { message: message.clone(), left };
                return self.record(next, message, Sending::Request(purpose));
            }
            (Ok(Some(read)), Sending::Request(_)) => {
                if let Some(id) = message.id() {
                    let answer = match read {
                        Resource::Found(result) => Message::result(id, result),
                        Resource::Error { code, error } => {
                            let mut answer = Message::error(id, code, "");
                            answer.set_error(error);
                            answer
                        }
                    };
                    self.answer(answer.delivering(delivery)).await;
                }
                return;
            }
            // Only the server whose own it is knows a resource: the others are asked in turn.
            (Err(refusal), Sending::Request(Purpose::FirstOf { message, left })) if refusal.is_unread() => {
                let mut left = left.clone();
                if left.is_empty() {
                    Err(refusal)
                } else {
                    let (next, message) = (left.remove(0), message.clone());
                    let purpose = Purpose::FirstOf { message: message.clone(), left };
                    return self.record(next, message, Sending::Request(purpose));
                }
            }
            (verdict, _) => verdict.map(drop),
        };
        let is_other_link = link.is_some() && self.slots.get(slot).and_then(Slot::linked) != link;
        if is_other_link && verdict.is_ok() {
            return self.use_outrun(message, sending).await;
        }
        message.not_after = Some(at + VERDICT_GOOD_FOR);
        match (sending, verdict) {
            (Sending::Request(purpose), Ok(())) => self.forward(slot, message, purpose).await,
            (Sending::Notification, Ok(())) => {
                // No one can be told that a notification did not arrive.
                let _ = self.deliver(slot, message);
            }
            (Sending::Answer { generation, .. }, verdict) => {
                if !self.slots.get(slot).is_some_and(|slot| slot.is_open_as(generation)) {
                    return;
                }
                let refused = |id| Message::error(id, REFUSED, "the client's gate does not let it answer");
                let answer = match (verdict, message.id()) {
                    (Err(_), Some(id)) => refused(id),
                    _ => message,
                };
                let _ = self.deliver(slot, answer);
            }
            (Sending::Notification, Err(_)) => {}
            (Sending::Request(Purpose::Listen { id }), Err(refusal)) => {
                let answer = refusal.answer(&id, REFUSED);
                self.listen_answered(id, answer).await;
            }
            (Sending::Request(_), Err(refusal)) => {
                if let Some(id) = message.id() {
                    self.answer(refusal.answer(id, REFUSED)).await;
                }
            }
        }
    }
}

impl Session {
    /// The server was started again while the gate decided: nothing is sent to one that was not decided for.
    async fn use_outrun(&mut self, message: Message, sending: Sending) {
        let why = "not sent: the server was started again while the gate decided; try again";
        match sending {
            Sending::Request(Purpose::Listen { id }) => {
                let answer = Message::error(&id, NOT_SENT, why);
                self.listen_answered(id, answer).await;
            }
            Sending::Request(_) => {
                if let Some(id) = message.id() {
                    self.answer_error(id, NOT_SENT, why).await;
                }
            }
            // Anyone who asked is gone, and no one can be told that a notification did not arrive.
            Sending::Answer { .. } | Sending::Notification => {}
        }
    }
}

/// What a use is about: a URI, or a name.
fn about(message: &Message) -> Option<String> {
    let params = message.params_members().ok()?;
    let of = |params: &crate::mcp::message::Members| params.text("uri").or_else(|| params.text("name"));
    of(&params).or_else(|| of(&params.object("ref")?)).or_else(|| params.text("taskId"))
}
