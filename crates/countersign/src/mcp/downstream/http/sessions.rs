//! Sessions over HTTP: which stream of a client a message goes to, and when a session is over.

use super::{App, SESSION, events, json, refused};
use crate::mcp::buffers::Held;
use crate::mcp::message::{Kind, Message, Raw};
use crate::mcp::observed::Observations;
use crate::mcp::resumed::FOLLOWED_WITHIN;
use crate::mcp::session::{Ends, Session};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How many sessions there may be; each has its own servers behind it.
const SESSIONS_MAX: usize = 256;
/// How often sessions that no one uses are looked for, at least.
const REAP_EVERY_MAX: Duration = Duration::from_secs(60);
/// How many messages wait for a client that has no stream open.
const WAITING_MAX: usize = 256;
/// How much of them: a client that never listens must not take the room of the others.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// How long after it was told that its session is gone a client begins another at the latest: it does so at once.
const BEGINS_AGAIN_WITHIN: Duration = Duration::from_secs(60);

/// All sessions, by id.
#[derive(Default)]
pub struct Sessions {
    live: Mutex<HashMap<String, Live>>,
    /// When a client was told last that there is no session of its id. Who begins next may be that one.
    gone: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Live {
    seen: Arc<Observations>,
    inbox: mpsc::Sender<Message>,
    streams: Arc<Mutex<Streams>>,
    used: Instant,
}

/// The streams that a client has open.
#[derive(Default)]
struct Streams {
    posts: Vec<Post>,
    listener: Option<mpsc::Sender<Message>>,
    waiting: VecDeque<Message>,
}

/// The stream of one request.
struct Post {
    id: String,
    progress: Option<String>,
    stream: mpsc::Sender<Message>,
}

impl Sessions {
    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<String, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client is told that there is no session of its id.
    fn is_gone(&self) {
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a session that begins may take the place of one that is gone.
    fn may_take_its_place(&self) -> bool {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.is_some_and(|at| at.elapsed() < BEGINS_AGAIN_WITHIN)
    }

    /// A session, also one that was cut off and is gone on in with this.
    fn get(&self, app: &App, id: &str) -> Option<Live> {
        let mut map = self.map();
        if let Some(live) = map.get_mut(id) {
            live.used = Instant::now();
            return Some(live.clone());
        }
        if map.len() >= SESSIONS_MAX {
            return None;
        }
        let (seen, handshake) = app.gateway.gate.come_back_over_http(id)?;
        let live = Live::start(app, seen, Some(handshake));
        map.insert(id.to_owned(), live.clone());
        Some(live)
    }

    /// Ends a session, because its client says so; whether there was one.
    pub fn end(&self, app: &App, id: &str) -> bool {
        let Some(live) = self.get(app, id) else { return false };
        live.seen.session.end();
        self.map().remove(id);
        true
    }
}

impl Live {
    fn start(app: &App, seen: Arc<Observations>, handshake: Option<Raw>) -> Self {
        let Ends { inbox, outbox, .. } = Session::start_again(&app.gateway, &app.alive, Arc::clone(&seen), handshake);
        let live = Self { seen, inbox, streams: Arc::default(), used: Instant::now() };
        tokio::spawn(pump(outbox, Arc::clone(&live.streams)));
        live
    }
}

/// Ends sessions that no one has used for so long, as long as there is a server.
pub fn reap(app: &Arc<App>, idle: Duration) {
    let app = Arc::downgrade(app);
    tokio::spawn(async move {
        let mut every = tokio::time::interval((idle / 4).min(REAP_EVERY_MAX));
        loop {
            every.tick().await;
            let Some(app) = app.upgrade() else { return };
            app.sessions.map().retain(|_, live| {
                let in_use = {
                    let mut streams = live.streams();
                    streams.forget_gone();
                    streams.listener.is_some() || !streams.posts.is_empty()
                };
                if in_use {
                    // Idleness is counted from the end of what it is used for.
                    live.used = Instant::now();
                }
                let is_idle = live.used.elapsed() >= idle;
                if is_idle && idle >= FOLLOWED_WITHIN {
                    // It would not be gone on in any more.
                    live.seen.session.end();
                }
                !live.inbox.is_closed() && !is_idle
            });
        }
    });
}

/// Begins a session with the client's handshake.
pub async fn begin(app: &Arc<App>, message: Message) -> Response {
    let mut id = [0; 18];
    if app.sessions.map().len() >= SESSIONS_MAX || getrandom::fill(&mut id).is_err() {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions");
    }
    let id = BASE64_URL_SAFE_NO_PAD.encode(id);
    let seen = app.gateway.gate.seen_over_http(&id);
    if app.sessions.may_take_its_place() {
        // What its client has read before counts for nothing here, and the client may write all the same.
        seen.session.is_unclear();
    }
    let live = Live::start(app, seen, None);
    app.sessions.map().insert(id.clone(), live);
    let mut response = post(app, &id, message).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(SESSION, value);
    }
    response
}

/// Takes a message of a session.
pub async fn post(app: &Arc<App>, session: &str, message: Message) -> Response {
    let Some(live) = app.sessions.get(app, session) else {
        app.sessions.is_gone();
        return refused(StatusCode::NOT_FOUND, "there is no such session: begin again with initialize");
    };
    if message.kind() != Kind::Request {
        return match live.inbox.send(message).await {
            Ok(()) => StatusCode::ACCEPTED.into_response(),
            Err(_) => refused(StatusCode::NOT_FOUND, "the session has ended: begin again with initialize"),
        };
    }
    let (stream, mut messages) = mpsc::channel(16);
    let id = message.id().map(|id| id.get().to_owned()).unwrap_or_default();
    let progress = message.params_members().ok().and_then(|params| params.object("_meta"));
    let progress = progress.and_then(|meta| Some(meta.get("progressToken")?.get().to_owned()));
    {
        let mut streams = live.streams();
        streams.forget_gone();
        streams.posts.push(Post { id: id.clone(), progress, stream });
    }
    if live.inbox.send(message).await.is_err() {
        return refused(StatusCode::NOT_FOUND, "the session has ended: begin again with initialize");
    }
    match messages.recv().await {
        Some(first) if first.kind() == Kind::Response => json(&first),
        Some(first) => events::stream(Some(first), messages),
        None => refused(StatusCode::BAD_GATEWAY, "the session ended without an answer"),
    }
}

/// Opens the stream for what the client is told unasked.
pub fn listen(app: &Arc<App>, session: &str) -> Response {
    let Some(live) = app.sessions.get(app, session) else {
        return refused(StatusCode::NOT_FOUND, "there is no such session: begin again with initialize");
    };
    let (listener, messages) = mpsc::channel(WAITING_MAX);
    let mut streams = live.streams();
    for message in std::mem::take(&mut streams.waiting) {
        // As many fit as can wait.
        let _ = listener.try_send(message);
    }
    // A second stream takes the place of the first: a message is never sent on two.
    streams.listener = Some(listener);
    events::stream(None, messages)
}

impl Live {
    fn streams(&self) -> std::sync::MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands what a session says to the streams of its client, until the session has ended.
async fn pump(mut outbox: mpsc::Receiver<Message>, streams: Arc<Mutex<Streams>>) {
    let lock = || streams.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(mut message) = outbox.recv().await {
        loop {
            let chosen = lock().choose(&message);
            let Some(stream) = chosen else {
                lock().keep(message);
                break;
            };
            match stream.send(message).await {
                Ok(()) => break,
                // Its reader is gone: another stream, or none.
                Err(lost) => {
                    message = lost.0;
                    lock().forget(&stream);
                    if message.kind() == Kind::Response {
                        break;
                    }
                }
            }
        }
    }
    *lock() = Streams::default();
}

impl Streams {
    /// The stream for a message. An answer goes where its request came from, and takes that stream with it; progress as well, and
    /// anything else while there is but one request it can be about.
    fn choose(&mut self, message: &Message) -> Option<mpsc::Sender<Message>> {
        if message.kind() == Kind::Response {
            let id = message.id()?.get();
            let at = self.posts.iter().position(|post| post.id == id)?;
            return Some(self.posts.remove(at).stream);
        }
        let token =
            message.params_members().ok().and_then(|params| Some(params.get("progressToken")?.get().to_owned()));
        let post = match (&token, self.posts.as_slice()) {
            (Some(_), posts) => posts.iter().find(|post| post.progress == token),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let post = post.map(|post| post.stream.clone());
        post.or_else(|| self.listener.clone()).or_else(|| self.posts.last().map(|post| post.stream.clone()))
    }

    /// Keeps a message until there is a stream, unless it is an answer that no one waits for.
    fn keep(&mut self, message: Message) {
        if message.kind() != Kind::Response {
            self.waiting.push_back(message);
            let bytes = |message: &Message| message.held.as_ref().map_or(0, Held::bytes);
            let mut waiting_bytes: usize = self.waiting.iter().map(bytes).sum();
            while self.waiting.len() > WAITING_MAX || waiting_bytes > WAITING_BYTES_MAX {
                let Some(oldest) = self.waiting.pop_front() else { break };
                waiting_bytes -= bytes(&oldest);
            }
        }
    }

    /// Forgets streams whose readers are gone, also of requests that are never answered: a client that gave up is not there.
    fn forget_gone(&mut self) {
        self.posts.retain(|post| !post.stream.is_closed());
        self.listener.take_if(|listener| listener.is_closed());
    }

    fn forget(&mut self, stream: &mpsc::Sender<Message>) {
        self.posts.retain(|post| !post.stream.same_channel(stream));
        self.listener.take_if(|listener| listener.same_channel(stream));
    }
}
