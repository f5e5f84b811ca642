//! One client, and its own links to every upstream: who gets which message, under which id.
//!
//! One task holds everything and waits for no one: what takes long (a link, the gate) reports back by a channel. Ids are given
//! anew in both directions, so that no two clients, servers or questions of the gateway itself can be taken for each other. A
//! message that is not about tools passes as it came, but for its id.

mod answers;
mod calls;
mod gather;
mod listens;
mod lists;
mod slot;
mod uses;

pub use self::lists::next_cursor;

use self::calls::{CallState, Verdict};
use self::gather::Gather;
use self::slot::Slot;
use self::uses::{Sending, Use};
use super::Gateway;
use super::message::{
    INVALID_PARAMS, Kind, METHOD_NOT_FOUND, Members, Message, NOT_SENT, Raw, SERVER_ERROR, number, raw,
};
use super::methods::{self, Rule};
use super::observed::Observations;
use super::refusal::Refusal;
use super::resumed::LIVES_EVERY;
use super::upstream::{Alive, Event};
use countersign_core::screen::visible::one_line;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

/// How many messages may wait for a session, and for its client.
const WAITING_MAX: usize = 256;

/// How many requests of a client may wait for answers of servers.
const PENDING_MAX: usize = 1024;

/// How many calls of a client may be under way: each waits on a thread, and is compared with those before it.
const CALLS_MAX: usize = 256;

/// How long answers are still waited for once the client has closed its side.
const DRAIN: Duration = Duration::from_secs(5);

/// The longest token or number of a progress that is passed on.
const PROGRESS_BYTES_MAX: usize = 64;

/// How much a server can be told to log.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A client that is served. Ends when the client's sender is dropped.
pub struct Session {
    gateway: Arc<Gateway>,
    slots: Vec<Slot>,
    client: mpsc::Sender<Message>,
    events: mpsc::Sender<(usize, u64, Event)>,
    verdicts: mpsc::Sender<Verdict>,
    /// Requests that upstreams have to answer, by the id that they were given.
    pending: HashMap<u64, Pending>,
    /// Requests of upstreams that the client has to answer, by the id that it was given.
    asked: HashMap<u64, Asked>,
    calls: HashMap<u64, CallState>,
    /// Other uses of servers that wait for the gate.
    uses: HashMap<u64, Use>,
    /// What the client has said that it can be asked.
    capabilities: Members,
    /// What the client was shown.
    seen: Arc<Observations>,
    gathers: HashMap<u64, Gather>,
    /// Lists of tools that wait for the gate.
    showing: usize,
    next: u64,
}

/// A request that an upstream has to answer.
struct Pending {
    slot: usize,
    purpose: Purpose,
}

/// Whom the answer is for.
enum Purpose {
    /// The client, under its own id.
    Relay { id: Raw },
    /// The client, if the gate lets the call pass.
    Call { call: u64 },
    /// Several answers make one.
    Gather { gather: u64 },
    /// The client, which is told of changes under this id until it or the upstream ends that.
    Listen { id: Raw },
    /// The first upstream that does not refuse answers; these are left.
    FirstOf { message: Message, left: Vec<usize> },
    /// A link that was opened again, before anything else is sent to it.
    Reopening,
}

/// A request that the client has to answer.
struct Asked {
    slot: usize,
    generation: u64,
    id: Raw,
    method: String,
}

/// The client's two ends of a session.
pub struct Ends {
    /// What the client sends; the session ends when this is dropped.
    pub inbox: mpsc::Sender<Message>,
    /// What the client is sent; closed when the session has ended.
    pub outbox: mpsc::Receiver<Message>,
    /// Cuts the session off: it ends at once, and its client has not said that it is done.
    pub cut_off: AbortHandle,
}

impl Session {
    /// Begins to serve a client that shares what it was shown with others.
    pub fn start_having_seen(gateway: &Arc<Gateway>, alive: &Alive, seen: Arc<Observations>) -> Ends {
        Self::start_again(gateway, alive, seen, None)
    }

    /// Goes on to serve a client that began with this handshake, and was cut off.
    pub fn start_again(gateway: &Arc<Gateway>, alive: &Alive, seen: Arc<Observations>, handshake: Option<Raw>) -> Ends {
        let (inbox, client_said) = mpsc::channel(WAITING_MAX);
        let (client, outbox) = mpsc::channel(WAITING_MAX);
        let (events, from_links) = mpsc::channel(WAITING_MAX);
        let (verdicts, gate_said) = mpsc::channel(WAITING_MAX);
        let slots =
            gateway.upstreams.iter().map(|(name, place)| Slot::new(name, place, alive, &gateway.buffers)).collect();
        let mut session = Self {
            gateway: Arc::clone(gateway),
            slots,
            client,
            events,
            verdicts,
            pending: HashMap::new(),
            asked: HashMap::new(),
            calls: HashMap::new(),
            uses: HashMap::new(),
            capabilities: Members::default(),
            seen,
            gathers: HashMap::new(),
            showing: 0,
            next: 1,
        };
        if let Some(handshake) = handshake {
            session.shook_hands(&Message::request(0, "initialize", Some(handshake)));
            session.slots.iter_mut().for_each(Slot::remember_initialized);
        }
        let cut_off = tokio::spawn(session.run(client_said, from_links, gate_said)).abort_handle();
        Ends { inbox, outbox, cut_off }
    }

    async fn run(
        mut self,
        mut client_said: mpsc::Receiver<Message>,
        mut from_links: mpsc::Receiver<(usize, u64, Event)>,
        mut gate_said: mpsc::Receiver<Verdict>,
    ) {
        let mut open = true;
        let far = tokio::time::Instant::now() + Duration::from_secs(60 * 60 * 24 * 365);
        let drained = tokio::time::sleep_until(far);
        tokio::pin!(drained);
        let mut lives = tokio::time::interval(LIVES_EVERY);
        lives.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while open || self.showing > 0 || self.is_waited_for() || !self.calls.is_empty() || !self.uses.is_empty() {
            tokio::select! {
                message = client_said.recv(), if open => match message {
                    Some(message) => self.client_said(message).await,
                    None => {
                        open = false;
                        drained.as_mut().reset(tokio::time::Instant::now() + DRAIN);
                    }
                },
                Some((slot, generation, event)) = from_links.recv() => self.link_said(slot, generation, event).await,
                Some(verdict) = gate_said.recv() => self.gate_said(verdict).await,
                // However long its client is silent: what it has read counts until it is cut off.
                _ = lives.tick() => self.seen.session.lives(),
                () = &mut drained => break,
                // No one reads any more: there is no one to serve.
                () = self.client.closed() => break,
            }
        }
        // A client that has closed its side begins anew; one that was cut off may come back.
        if !open {
            let (gateway, seen) = (Arc::clone(&self.gateway), Arc::clone(&self.seen));
            let closed = tokio::task::spawn_blocking(move || gateway.gate.close_session(&seen));
            // The answers are out: nobody waits for this but the end of the gateway.
            let _ = closed.await;
        }
    }

    fn next_id(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        id
    }

    /// Whether tools and prompts carry the name of their upstream.
    fn is_namespaced(&self) -> bool {
        self.slots.len() > 1
    }

    async fn answer(&self, message: Message) {
        // A client that has gone away needs no answer.
        let _ = self.client.send(message).await;
    }

    async fn answer_error(&self, id: &RawValue, code: i64, why: &str) {
        self.answer(Message::error(id, code, why)).await;
    }

    async fn client_said(&mut self, message: Message) {
        match message.kind() {
            Kind::Request => self.request(message).await,
            Kind::Notification => self.notification(message).await,
            Kind::Response => self.response_of_client(message).await,
        }
    }

    async fn request(&mut self, message: Message) {
        let Some(id) = message.id().map(ToOwned::to_owned) else { return };
        match methods::request(&message.method) {
            Some(Rule::Pass) => self.passed(id, message).await,
            Some(Rule::Call) => self.call(id, message).await,
            Some(Rule::Record) => self.used(id, message).await,
            None if self.gateway.allows(&message.method) => self.used(id, message).await,
            None => self.answer(Refusal::method(&message.method).answer(&id, METHOD_NOT_FOUND)).await,
        }
    }

    /// A request that neither acts nor discloses.
    async fn passed(&mut self, id: Raw, message: Message) {
        match message.method.as_str() {
            "initialize" => {
                self.shook_hands(&message);
                self.spread(id, message).await;
            }
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
                self.list(id, &message).await
            }
            "server/discover" => self.spread(id, message).await,
            "ping" if self.is_namespaced() => self.answer(Message::result(&id, raw(&serde_json::json!({})))).await,
            _ => match plain_request(&message) {
                Some(message) => self.spread(id, message).await,
                None => self.answer_error(&id, INVALID_PARAMS, "there is no such level").await,
            },
        }
    }

    /// The client begins.
    fn shook_hands(&mut self, message: &Message) {
        self.capabilities =
            message.params_members().ok().and_then(|params| params.object("capabilities")).unwrap_or_default();
        self.slots.iter_mut().for_each(|slot| slot.remember_handshake(message));
        message.params().iter().for_each(|params| self.seen.session.remember_handshake((*params).to_owned()));
    }

    /// Whether the client has said that it can be asked this.
    fn client_can(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|value| value.get() != "null")
    }

    /// The upstream that a name belongs to, and the name as the upstream has it.
    fn route(&self, name: &str) -> Option<(usize, String)> {
        if !self.is_namespaced() {
            return Some((0, name.to_owned()));
        }
        let (upstream, name) = name.split_once(super::settings::SEPARATOR)?;
        let slot = self.slots.iter().position(|slot| slot.name == upstream)?;
        Some((slot, name.to_owned()))
    }

    /// Sends a request on under an id of our own.
    async fn forward(&mut self, slot: usize, mut message: Message, purpose: Purpose) {
        let id = self.next_id();
        message.set_id(number(id));
        self.pending.insert(id, Pending { slot, purpose });
        if self.pending.len() > PENDING_MAX {
            let why = format!("{PENDING_MAX} requests wait for answers already");
            return self.failed(id, NOT_SENT, &why).await;
        }
        if let Err(why) = self.deliver(slot, message) {
            self.failed(id, NOT_SENT, &why).await;
        }
    }

    /// Puts a message on its way, and opens the link again if it has ended and may be.
    fn deliver(&mut self, slot: usize, message: Message) -> Result<(), String> {
        let events = self.events.clone();
        let Some(found) = self.slots.get_mut(slot) else { return Err("there is no such server".to_owned()) };
        let handshake = found.ready(slot, &events, &message)?;
        if let Some(mut handshake) = handshake {
            let id = self.next;
            self.next += 1;
            handshake.set_id(number(id));
            self.pending.insert(id, Pending { slot, purpose: Purpose::Reopening });
            found.put(handshake, true)?;
        }
        found.put(message, false)
    }

    async fn notification(&mut self, message: Message) {
        if message.method == "notifications/cancelled" {
            return self.cancelled_by_client(message);
        }
        if message.method == "notifications/initialized" {
            for slot in &mut self.slots {
                slot.remember_initialized();
            }
        }
        if methods::notification(&message.method).is_none() {
            if self.gateway.allows(&message.method) {
                let slots = 0..self.slots.len();
                return slots.for_each(|slot| self.record(slot, message.clone(), Sending::Notification));
            }
            let method = one_line(&message.method, 128);
            return self
                .gateway
                .note_once(format!("the notification `{method}` is not passed on: --allow-method allows it"));
        }
        if methods::notification(&message.method) == Some(Rule::Record) {
            return (0..self.slots.len()).for_each(|slot| self.record(slot, message.clone(), Sending::Notification));
        }
        let message = plain(&message);
        for slot in 0..self.slots.len() {
            // No one can be told that a notification did not arrive.
            let _ = self.deliver(slot, message.clone());
        }
    }

    /// Cancels upstream what the client does not want any more, under the id that it has there.
    fn cancelled_by_client(&mut self, mut message: Message) {
        let Ok(params) = message.params_members() else { return };
        let Some(id) = params.get("requestId").map(|id| id.get().to_owned()) else { return };
        let calls: Vec<u64> = self.calls.iter().filter(|(_, call)| call.is(&id)).map(|(number, _)| *number).collect();
        // Where the gate, or the list of tools, has not come yet, nothing is ever sent.
        for call in &calls {
            self.calls.remove(call);
        }
        self.uses.retain(|_, using| !using.is(&id));
        self.gathers.extract_if(|_, gather| gather.is_for(&id)).for_each(|(_, gather)| gather.cancel());
        let found = self.pending.iter().filter(|(_, pending)| match &pending.purpose {
            Purpose::Relay { id: known } | Purpose::Listen { id: known } => known.get() == id,
            Purpose::Call { call: known } => calls.contains(known),
            Purpose::FirstOf { message, .. } => message.id().is_some_and(|known| known.get() == id),
            Purpose::Gather { .. } | Purpose::Reopening => false,
        });
        let found: Vec<(u64, usize)> = found.map(|(upstream, pending)| (*upstream, pending.slot)).collect();
        for (upstream, slot) in found {
            self.pending.remove(&upstream);
            message.set_params(raw(&serde_json::json!({"requestId": upstream})));
            let _ = self.deliver(slot, message.clone());
        }
    }

    /// What the client answers to a question of an upstream.
    async fn response_of_client(&mut self, mut message: Message) {
        let id = message.id().and_then(|id| id.get().parse::<u64>().ok());
        let Some(asked) = id.and_then(|id| self.asked.remove(&id)) else {
            tracing::debug!("the client answered a request that was never made");
            return;
        };
        message.set_id(asked.id.clone());
        let same = self.slots.get(asked.slot).is_some_and(|slot| slot.is_open_as(asked.generation));
        if same && let Some(code) = message.error_raw().map(|_| message.error_code().unwrap_or(SERVER_ERROR)) {
            // That it does not answer needs no entry; what it might say beside that would.
            let _ = self.deliver(asked.slot, Message::error(&asked.id, code, "the client answers with an error"));
        } else if same {
            // What the client answers tells the server something.
            let Asked { slot, generation, method, .. } = asked;
            self.record(slot, message, Sending::Answer { generation, method });
        }
    }

    fn name(&self, slot: usize) -> &str {
        self.slots.get(slot).map_or("?", |slot| slot.name.as_str())
    }
}

/// A request that passes without an entry, with nothing in it that could tell a server more than what is asked: a ping, and how much a
/// server is to log.
fn plain_request(message: &Message) -> Option<Message> {
    let params = match message.method.as_str() {
        "logging/setLevel" => {
            let level =
                message.params_members().ok()?.text("level").filter(|level| LEVELS.contains(&level.as_str()))?;
            Some(raw(&serde_json::json!({"level": level})))
        }
        _ => None,
    };
    Some(Message::request(0, &message.method, params))
}

/// A notification that passes without an entry, with nothing in it that could tell a server more than what it is about: the numbers
/// of a progress, and the token that the server itself gave it.
fn plain(message: &Message) -> Message {
    let params = message.params_members().unwrap_or_default();
    let mut kept = Members::default();
    if message.method == "notifications/progress" {
        for name in ["progressToken", "progress", "total"] {
            if let Some(value) = params.get(name).filter(|value| value.get().len() <= PROGRESS_BYTES_MAX) {
                kept.set(name, value.to_owned());
            }
        }
    }
    let has_any = kept.iter().next().is_some();
    Message::notification(&message.method, has_any.then(|| kept.to_raw()))
}
