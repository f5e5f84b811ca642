//! One upstream of one session: its link, if it has one, and what is known of its tools.

use crate::mcp::buffers::{Buffers, Held};
use crate::mcp::message::{Message, Raw};
use crate::mcp::settings::Place;
use crate::mcp::tool::{LISTED_FOR, Tool};
use crate::mcp::upstream::{self, Alive, Event, Inlet};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// The first wait before a link that ended is opened again, and the longest; it doubles in between.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(10);
/// How long a link must have stood for its end not to count as one more failure.
const STOOD: Duration = Duration::from_secs(30);
/// How many messages may wait for a link that is being opened again.
const QUEUED_MAX: usize = 64;

/// One upstream.
pub struct Slot {
    pub name: String,
    place: Place,
    alive: Alive,
    buffers: Arc<Buffers>,
    link: Option<mpsc::Sender<Message>>,
    generation: u64,
    opened: Instant,
    failures: u32,
    not_before: Instant,
    /// The client's handshake, to be repeated when the link is opened again.
    handshake: Option<Raw>,
    initialized: bool,
    /// Messages that wait until that is done.
    queued: Option<Vec<Message>>,
    tools: HashMap<String, Tool>,
    /// The room that they take.
    held: Option<Held>,
    /// When all its tools were known.
    listed: Option<Instant>,
}

impl Slot {
    /// One that is not linked yet.
    pub fn new(name: &str, place: &Place, alive: &Alive, buffers: &Arc<Buffers>) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            place: place.clone(),
            alive: alive.clone(),
            buffers: Arc::clone(buffers),
            link: None,
            generation: 0,
            opened: now,
            failures: 0,
            not_before: now,
            handshake: None,
            initialized: false,
            queued: None,
            tools: HashMap::new(),
            held: None,
            listed: None,
        }
    }

    /// Keeps the client's handshake.
    pub fn remember_handshake(&mut self, message: &Message) {
        self.handshake = message.params().map(ToOwned::to_owned);
    }

    /// Keeps that the client has finished its handshake.
    pub fn remember_initialized(&mut self) {
        self.initialized = true;
    }

    /// Whether it is linked, by the link with this number.
    pub fn is_open_as(&self, generation: u64) -> bool {
        self.link.is_some() && self.generation == generation
    }

    /// Makes sure that there is a link. Gives the handshake that must be repeated on it first, if one must.
    pub fn ready(
        &mut self,
        slot: usize,
        events: &mpsc::Sender<(usize, u64, Event)>,
        message: &Message,
    ) -> Result<Option<Message>, String> {
        if self.link.is_some() {
            return Ok(None);
        }
        let now = Instant::now();
        if now < self.not_before {
            let wait = (self.not_before - now).as_millis();
            return Err(format!("it has ended, and is started again in {wait} ms at the earliest"));
        }
        self.generation += 1;
        self.opened = now;
        let inlet = Inlet::new(&self.name, (slot, self.generation), Arc::clone(&self.buffers), events.clone());
        // What comes goes on to a client, which must not learn what the server was started with.
        let inlet = inlet.hiding_secrets();
        match upstream::open(&self.place, inlet, self.alive.clone()) {
            Ok(link) => self.link = Some(link),
            Err(why) => {
                self.ended();
                return Err(why.to_string());
            }
        }
        // A handshake is repeated only where it was finished, and not in front of another.
        let repeat = self.initialized && message.method != "initialize";
        let handshake = self.handshake.clone().filter(|_| repeat);
        if handshake.is_some() {
            self.queued = Some(Vec::new());
        }
        Ok(handshake.map(|params| Message::request(0, "initialize", Some(params))))
    }

    /// Puts a message on its way, or into the queue while the handshake is repeated.
    pub fn put(&mut self, message: Message, is_handshake: bool) -> Result<(), String> {
        match (&mut self.queued, &self.link) {
            (Some(queued), _) if !is_handshake => {
                if queued.len() >= QUEUED_MAX {
                    return Err("it is being started again, and too much waits for it already".to_owned());
                }
                queued.push(message);
                Ok(())
            }
            (_, Some(link)) => link.try_send(message).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => "it is busy: it does not read what it is sent".to_owned(),
                mpsc::error::TrySendError::Closed(_) => "it has ended".to_owned(),
            }),
            (_, None) => Err("it has ended".to_owned()),
        }
    }

    /// The handshake was repeated: what has waited goes out.
    pub fn reopened(&mut self, failed: bool) -> Result<(), String> {
        let queued = self.queued.take().unwrap_or_default();
        if failed {
            return Err("it refused the handshake that it had taken before".to_owned());
        }
        self.put(Message::notification("notifications/initialized", None), false)?;
        queued.into_iter().try_for_each(|message| self.put(message, false))
    }

    /// The link has ended.
    pub fn ended(&mut self) {
        self.link = None;
        self.queued = None;
        self.forget_tools();
        self.failures = if self.opened.elapsed() > STOOD { 1 } else { self.failures.saturating_add(1) };
        let doubled = AGAIN_AFTER.saturating_mul(1 << self.failures.saturating_sub(1).min(10));
        self.not_before = Instant::now() + doubled.min(AGAIN_AFTER_MAX);
    }

    /// Its list of tools is not the last word any more.
    pub fn forget_tools(&mut self) {
        self.tools = HashMap::new();
        self.held = None;
        self.listed = None;
    }

    /// Keeps all its tools, as they were listed; what was known before is forgotten.
    pub fn remember_tools(&mut self, tools: &[Tool], held: Option<Held>) {
        self.held = held;
        self.tools = tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect();
        self.listed = Some(Instant::now());
    }

    /// A tool, as it was last listed.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Whether all its tools are known, as of a moment ago: not every server says when they change.
    pub fn is_listed(&self) -> bool {
        self.listed.is_some_and(|at| at.elapsed() < LISTED_FOR)
    }

    /// The number of the link that a call can be sent on right now, without waiting for anything.
    pub fn linked(&self) -> Option<u64> {
        (self.link.is_some() && self.queued.is_none()).then_some(self.generation)
    }
}
