//! The gate's one connection to a server: what is read for agents and what is called for them goes over it, several at a time, so
//! that readings and writes meet the same process and the same memory.

use super::buffers::{Buffers, Held};
use super::direct::{Direct, NoAnswer, Parts, understood, unlisted, with_meta};
use super::message::{Kind, METHOD_NOT_FOUND, Members, Message, Raw, raw};
use super::session::next_cursor;
use super::settings::Place;
use super::tool::{LISTED_FOR, Tool};
use super::upstream::{Alive, Event, MESSAGE_BYTES_MAX};
use countersign_core::call::{Found, FoundCode};
use countersign_engine::outbox::Leave;
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// How long a server may take to list its tools.
const LISTS_WITHIN: Duration = Duration::from_secs(30);
/// A list of more pages than this does not end.
const PAGES_MAX: usize = 100;

/// How many requests in a row may go without an answer before it counts as silent: one of them may just take long.
const SILENT_MAX: u32 = 3;

/// A connection to one server.
pub struct Connection {
    /// Which of the gate's connections to the server it is: another one is another process.
    pub number: u64,
    inner: Arc<Inner>,
    next: AtomicU64,
    stateless: bool,
    /// One lists them at a time; the others wait for that.
    listing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Who waits for which answer.
    waiting: HashMap<u64, oneshot::Sender<Result<Message, NoAnswer>>>,
    /// Where messages go; the link ends when this is dropped.
    link: Option<mpsc::Sender<Message>>,
    /// Why it has ended.
    ended: Option<Found>,
    /// How many requests went without an answer since anything came.
    given_up: u32,
    /// Its tools, and when they were listed, unless it has said since that they have changed.
    known: Option<(Instant, Arc<Vec<Tool>>, Option<Held>)>,
    /// How often it has said that they have changed.
    changes: u64,
}

impl Inner {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: &Found) {
        let mut state = self.state();
        state.ended.get_or_insert_with(|| why.clone());
        state.link = None;
        for (_, answer) in state.waiting.drain() {
            // Whoever no longer waits needs no answer.
            let _ = answer.send(Err(NoAnswer::Lost(FoundCode::ConnectionEnded.because(why.clone()))));
        }
    }

    fn send(&self, message: Message) -> Result<(), ()> {
        self.state().link.as_ref().ok_or(())?.try_send(message).map_err(drop)
    }

    /// What came: an answer goes to whoever waits for it, questions are refused.
    fn came(&self, message: Message) {
        self.state().given_up = 0;
        match (message.kind(), message.id().and_then(|id| id.get().parse::<u64>().ok())) {
            (Kind::Response, Some(id)) => {
                let answer = self.state().waiting.remove(&id);
                // Whoever is told so does not find it open when it asks again.
                if let Some(why) = message.why.as_deref().filter(|why| why.code == FoundCode::SessionUnknown) {
                    self.end(why);
                }
                // An answer that comes too late is for no one.
                answer.into_iter().for_each(|answer| drop(answer.send(understood(message.clone()))));
            }
            (Kind::Request, _) => {
                let refused =
                    message.id().map(|id| Message::error(id, METHOD_NOT_FOUND, "this client answers no questions"));
                // One that asks and does not read gets no more refusals.
                if let Some(refused) = refused {
                    let _ = self.send(refused);
                }
            }
            (Kind::Notification, _) if message.method == "notifications/tools/list_changed" => {
                let mut state = self.state();
                (state.known, state.changes) = (None, state.changes.wrapping_add(1));
            }
            _ => {}
        }
    }
}

impl Connection {
    /// Opens one and introduces the gateway.
    pub async fn open(
        number: u64,
        name: &str,
        place: &Place,
        alive: &Alive,
        buffers: &Arc<Buffers>,
    ) -> Result<Self, NoAnswer> {
        let Parts { link, mut events, stateless, next } = Direct::open(name, place, alive, buffers).await?.into_parts();
        let inner = Arc::new(Inner::default());
        inner.state().link = Some(link);
        let heard = Arc::clone(&inner);
        tokio::spawn(async move {
            while let Some((_, _, event)) = events.recv().await {
                match event {
                    Event::Message(message) => heard.came(message),
                    Event::Ended(why) => return heard.end(&why),
                }
            }
            heard.end(&FoundCode::OutputClosed.alone());
        });
        let listing = tokio::sync::Mutex::default();
        Ok(Self { number, inner, next: AtomicU64::new(next + 1), stateless, listing })
    }

    /// Whether it can still be asked.
    pub fn is_open(&self) -> bool {
        self.inner.state().link.as_ref().is_some_and(|link| !link.is_closed())
    }

    /// Nothing more goes over it, and whoever waits is told.
    pub fn close(&self, why: &Found) {
        self.inner.end(why);
    }

    /// Whether nothing comes from it any more, and no one waits for anything.
    pub fn is_silent(&self) -> bool {
        let state = self.inner.state();
        state.ended.is_some() || state.waiting.is_empty() && state.given_up >= SILENT_MAX
    }

    /// Asks, and waits for the answer; what may be sent only if this still says so is asked when the server takes it.
    pub async fn request(
        &self,
        method: &str,
        params: Option<Raw>,
        within: Duration,
        leave: Option<Leave>,
    ) -> Result<Message, NoAnswer> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let params = if self.stateless { Some(with_meta(params)) } else { params };
        let mut request = Message::request(id, method, params);
        request.leave = leave.map(Box::new);
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.inner.state();
            if let Some(why) = &state.ended {
                return Err(NoAnswer::NotSent(FoundCode::ConnectionEnded.because(why.clone())));
            }
            state.waiting.insert(id, answer);
        }
        if self.inner.send(request).is_err() {
            self.inner.state().waiting.remove(&id);
            return Err(NoAnswer::NotSent(FoundCode::InputUnread.alone()));
        }
        match tokio::time::timeout(within, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(NoAnswer::Lost(FoundCode::ConnectionEnded.alone())),
            Err(_) => {
                {
                    let mut state = self.inner.state();
                    state.waiting.remove(&id);
                    state.given_up = state.given_up.saturating_add(1);
                }
                let cancelled = raw(&json!({"requestId": id, "reason": "no answer in time"}));
                // It may have begun, so this is a courtesy and says nothing about what was done.
                let _ = self.inner.send(Message::notification("notifications/cancelled", Some(cancelled)));
                Err(NoAnswer::within(within))
            }
        }
    }

    /// A tool as the server has it at the moment, on this very connection.
    pub async fn tool(&self, name: &str) -> Result<Option<Tool>, NoAnswer> {
        let tools = match self.known() {
            Some(tools) => tools,
            None => self.list().await?,
        };
        Ok(tools.iter().find(|tool| tool.name == name).cloned())
    }

    /// Its tools are listed again before the next one is looked at.
    pub fn forget_tools(&self) {
        self.inner.state().known = None;
    }

    fn known(&self) -> Option<Arc<Vec<Tool>>> {
        let state = self.inner.state();
        state.known.as_ref().filter(|(at, ..)| at.elapsed() < LISTED_FOR).map(|(_, tools, _)| Arc::clone(tools))
    }

    async fn list(&self) -> Result<Arc<Vec<Tool>>, NoAnswer> {
        let _listing = self.listing.lock().await;
        if let Some(tools) = self.known() {
            return Ok(tools);
        }
        let at = Instant::now();
        let changes = self.inner.state().changes;
        let (tools, held) = self.pages().await?;
        let tools = Arc::new(tools);
        let mut state = self.inner.state();
        // What has changed while it was listed is used once, and not kept.
        if state.changes == changes {
            state.known = Some((at, Arc::clone(&tools), held));
        }
        Ok(tools)
    }

    async fn pages(&self) -> Result<(Vec<Tool>, Option<Held>), NoAnswer> {
        let (mut pages, mut bytes, mut held) = (Vec::new(), 0, None::<Held>);
        let mut params = Members::default();
        for _ in 0..PAGES_MAX {
            let answer = self.request("tools/list", Some(params.to_raw()), LISTS_WITHIN, None).await?;
            let result = answer.result_raw().map(|result| Members::parse(result.get()));
            let Some(Ok(result)) = result else {
                return Err(NoAnswer::Lost(FoundCode::ToolListInvalid.alone()));
            };
            match (&mut held, answer.held.clone()) {
                (Some(held), Some(more)) => held.absorb(more),
                (held, more) => *held = more,
            }
            bytes += answer.result_raw().map_or(0, |result| result.get().len());
            if bytes > MESSAGE_BYTES_MAX {
                return Err(NoAnswer::Lost(FoundCode::ToolListTooLong.alone()));
            }
            let cursor = next_cursor(&result);
            pages.push(result);
            match cursor {
                Some(cursor) => params.set("cursor", cursor),
                None => return Ok((Tool::parse_pages(pages.iter()).map_err(unlisted)?, held)),
            }
        }
        Err(NoAnswer::Lost(FoundCode::ToolListTooLong.alone()))
    }
}
