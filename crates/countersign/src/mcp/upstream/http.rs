//! A server that runs, over streamable HTTP: every message is a POST, answered by JSON or by a stream of events; and, in the
//! revisions with a handshake, one more stream for what the server says unasked.

mod connector;
mod timed;

use self::connector::Connector;
use self::timed::{Latch, Timed};
use super::{Alive, Event, Inlet, MESSAGE_BYTES_MAX};
use crate::mcp::buffers::{Full, Held};
use crate::mcp::message::{Kind, Message, NOT_SENT, UPSTREAM_FAILED};
use crate::mcp::settings::Address;
use crate::mcp::sse::SseReader;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_core::call::{Found, FoundCode};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// The header that names a session.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header that names the revision.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// How long a server may take to take a notification or the end of a session.
const TAKES_WITHIN: Duration = Duration::from_secs(5);
/// How many answers to a server's own questions may be on their way.
const ANSWERS_MAX: usize = 64;
/// How long to wait before a stream that ended is asked for again, and how often in a row.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_MAX: u32 = 5;

/// Why there is no answer.
enum Failed {
    /// Nothing was sent, or the server knew nothing of the session that it was sent in.
    NotSent(Found),
    /// It may have been.
    NoAnswer(Found),
}

impl From<Found> for Failed {
    fn from(why: Found) -> Self {
        Self::NoAnswer(why)
    }
}

struct Link {
    client: Client<Connector, Body>,
    url: String,
    inlet: Inlet,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<HeaderValue>,
    /// The server does not know the session any more. It goes on being named: what is asked without one may be taken for something else.
    forgotten: bool,
    version: Option<HeaderValue>,
    stateless: bool,
    in_flight: HashMap<String, AbortHandle>,
}

impl State {
    /// Notes that the server knows nothing of the session; whether there is one.
    fn is_forgotten(&mut self) -> bool {
        self.forgotten = self.session.is_some();
        self.forgotten
    }

    /// The session, unless the server has none for it.
    fn take_known(&mut self) -> Option<HeaderValue> {
        self.session.take().filter(|_| !self.forgotten)
    }
}

/// Opens a link; nothing is sent until there is a message.
pub(super) fn open(
    address: &Address,
    messages: mpsc::Receiver<Message>,
    inlet: Inlet,
    alive: Alive,
) -> Result<(), Found> {
    let client = Client::builder(TokioExecutor::new()).build(Connector::new(address, TAKES_WITHIN)?);
    let link = Arc::new(Link { client, url: address.url.clone(), inlet, state: Mutex::default() });
    tokio::spawn(async move {
        link.run(messages).await;
        drop(alive);
    });
    Ok(())
}

impl Link {
    async fn run(self: Arc<Self>, mut messages: mpsc::Receiver<Message>) {
        let mut tasks = JoinSet::new();
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                Some(_) = tasks.join_next() => continue,
                () = self.inlet.closed() => None,
            };
            let Some(message) = message else { break };
            if let Some(why) = message.held_back() {
                if let Some(answer) = message.not_sent(why) {
                    self.inlet.put(Event::Message(answer)).await;
                }
                continue;
            }
            match message.kind() {
                Kind::Request => {
                    let id = message.id().map(|id| id.get().to_owned()).unwrap_or_default();
                    let task = tasks.spawn(Arc::clone(&self).ask(message));
                    self.state().in_flight.insert(id, task);
                }
                // Beside everything else: a server that asks much and takes no answers must not delay what it is asked.
                Kind::Response if tasks.len() < ANSWERS_MAX => {
                    let link = Arc::clone(&self);
                    tasks.spawn(async move { link.told(&message).await.map_or((), drop) });
                }
                // A question that is not answered is the server's own loss, where it asks so many at once.
                Kind::Response if message.is_own() => {}
                Kind::Response | Kind::Notification => self.tell(message, &mut tasks).await,
            }
        }
        tasks.shutdown().await;
        let session = self.state().take_known();
        if let Some(session) = session {
            // As a courtesy; a server that does not take it forgets the session by itself.
            let mut headers = HeaderMap::new();
            headers.insert(SESSION, session);
            let _ = tokio::time::timeout(TAKES_WITHIN, self.send(Method::DELETE, headers, Body::empty())).await;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what wants no answer, in order with what comes after it.
    async fn tell(self: &Arc<Self>, message: Message, tasks: &mut JoinSet<()>) {
        if message.method == "notifications/cancelled" && self.state().stateless {
            // In a stateless revision, to close the stream of an answer is to cancel its request.
            let id =
                message.params_members().ok().and_then(|params| params.get("requestId").map(|id| id.get().to_owned()));
            if let Some(task) = id.and_then(|id| self.state().in_flight.remove(&id)) {
                task.abort();
            }
            return;
        }
        if self.told(&message).await.is_some() && message.method == "notifications/initialized" {
            tasks.spawn(Arc::clone(self).listen());
        }
    }

    /// Sends what wants no answer; `None` where the server did not take it.
    async fn told(&self, message: &Message) -> Option<()> {
        match tokio::time::timeout(TAKES_WITHIN, self.post(message)).await {
            Ok(Ok(answer)) if answer.status().is_success() => return Some(()),
            Ok(Ok(answer)) => {
                tracing::warn!(status = %answer.status(), method = message.method, "an upstream did not take a message")
            }
            Ok(Err(Failed::NotSent(error) | Failed::NoAnswer(error))) => {
                tracing::warn!(%error, method = message.method, "an upstream did not take a message")
            }
            Err(_) => tracing::warn!(method = message.method, "an upstream did not take a message in time"),
        }
        None
    }

    /// Sends a request and passes on what comes of it; whatever happens, the request is answered.
    async fn ask(self: Arc<Self>, message: Message) {
        let Some(id) = message.id().map(ToOwned::to_owned) else { return };
        let mut ended = None;
        let failed = match self.answered(&message, id.get(), &mut ended).await {
            Ok(()) => None,
            Err(Failed::NotSent(why)) => {
                let said = format!("not sent to the upstream server: {}", why.why());
                Some((NOT_SENT, said, why))
            }
            Err(Failed::NoAnswer(why)) => {
                let said = format!("no answer from the upstream server: {why}; it may have done it");
                Some((UPSTREAM_FAILED, said, why))
            }
        };
        self.state().in_flight.remove(id.get());
        if let Some((code, said, why)) = failed {
            let mut failed = Message::error(&id, code, &said);
            failed.why = Some(Box::new(why));
            self.inlet.put(Event::Message(failed)).await;
        }
        // After its answer: what ends takes along whoever still waits, as if what they asked for may have been done.
        if let Some(why) = ended {
            self.inlet.put(Event::Ended(why)).await;
        }
    }

    async fn answered(&self, message: &Message, id: &str, ended: &mut Option<Found>) -> Result<(), Failed> {
        let begins = message.method == "initialize";
        let answer = self.post(message).await?;
        if begins && let Some(session) = answer.headers().get(SESSION) {
            self.state().session = Some(session.clone());
        }
        let status = answer.status();
        if status == StatusCode::NOT_FOUND && self.state().is_forgotten() {
            // The protocol has no other meaning for it: whoever does not know the session has not looked at what it was asked.
            *ended = Some(FoundCode::SessionUnknown.alone());
            return Err(Failed::NotSent(FoundCode::SessionUnknown.alone()));
        }
        if is_stream(answer.headers()) && status.is_success() {
            return if self.stream(answer, Some(id), &mut None).await? {
                Ok(())
            } else {
                Err(FoundCode::StreamEnded.alone().into())
            };
        }
        let mut held = self.inlet.nothing();
        let body = whole(answer.into_body(), &mut held).await?;
        let parsed = held.parse(&body).map_err(Full::found)?.ok().filter(|answer| answer.kind() == Kind::Response);
        let Some(mut parsed) = parsed else {
            return Err(FoundCode::NotAMessage.number(status.as_u16()).into());
        };
        if begins {
            self.note_version(&parsed);
        }
        match parsed.id().map(|found| found.get().to_owned()).as_deref() {
            None | Some("null") => {
                parsed.set_id(serde_json::value::RawValue::from_string(id.to_owned()).unwrap_or_default());
            }
            Some(found) if found == id => {}
            // It must not stand for the answer to something else that is asked at the same time.
            Some(_) => return Err(FoundCode::OtherRequest.alone().into()),
        }
        self.inlet.put(Event::Message(parsed)).await;
        Ok(())
    }

    /// Remembers the revision that a handshake agreed on: later requests must name it.
    fn note_version(&self, answer: &Message) {
        let result = answer.result_raw().and_then(|result| crate::mcp::message::Members::parse(result.get()).ok());
        let version = result.and_then(|result| result.text("protocolVersion"));
        self.state().version = version.and_then(|version| HeaderValue::from_str(&version).ok());
    }

    /// Passes on what a stream says, until it has answered the request with this id; whether it has.
    async fn stream(&self, answer: Response<Body>, id: Option<&str>, last: &mut Option<String>) -> Result<bool, Found> {
        let mut reader = SseReader::new(MESSAGE_BYTES_MAX);
        let mut part = self.inlet.nothing();
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| FoundCode::BrokenOff.said(error))?;
            let Some(chunk) = frame.data_ref() else { continue };
            let events = reader.push(chunk).map_err(|_| FoundCode::AnswerTooLong.number(MESSAGE_BYTES_MAX))?;
            for event in events {
                let mut held = std::mem::replace(&mut part, self.inlet.nothing());
                if event.id.is_some() {
                    last.clone_from(&event.id);
                }
                if event.data.is_empty() {
                    continue;
                }
                let message = match held.parse(&event.data).map_err(Full::found)? {
                    Ok(message) => message,
                    Err(error) => {
                        tracing::warn!(%error, "an upstream sent an event that is no message; it is passed over");
                        continue;
                    }
                };
                let done =
                    id.is_some() && message.kind() == Kind::Response && message.id().map(|found| found.get()) == id;
                if done && self.state().version.is_none() {
                    self.note_version(&message);
                }
                self.inlet.put(Event::Message(message)).await;
                if done {
                    return Ok(true);
                }
            }
            part.grow_to(reader.part_bytes()).map_err(Full::found)?;
        }
        Ok(false)
    }

    /// Listens to what the server says unasked, where it has a stream for that.
    async fn listen(self: Arc<Self>) {
        let mut last = None::<String>;
        let mut failed = 0;
        while failed < AGAIN_MAX {
            let mut headers = self.headers(None);
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            if let Some(last) = last.as_deref().and_then(|last| HeaderValue::from_str(last).ok()) {
                headers.insert("last-event-id", last);
            }
            match self.send(Method::GET, headers, Body::empty()).await {
                Ok(answer) if answer.status().is_success() && is_stream(answer.headers()) => {
                    failed = if self.stream(answer, None, &mut last).await.is_ok() { 0 } else { failed + 1 };
                }
                // A server without such a stream says so with 405; any other refusal would only be repeated.
                Ok(_) => return,
                Err(_) => failed += 1,
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn post(&self, message: &Message) -> Result<Response<Body>, Failed> {
        let headers = self.headers(Some(message));
        if message.not_after.is_none() && message.leave.is_none() {
            return self.send(Method::POST, headers, Body::from(message.bytes())).await;
        }
        let latch = Latch::new(message.leave.as_deref().cloned());
        let sending = self.send(Method::POST, headers, Body::new(Timed::new(message.bytes(), latch.clone())));
        tokio::pin!(sending);
        if let Some(not_after) = message.not_after {
            tokio::select! {
                answer = &mut sending => return answer.map_err(|failed| latch.failed(failed)),
                () = tokio::time::sleep_until(not_after.into()) => {}
            }
            if latch.is_closed_now() {
                return Err(Failed::NotSent(FoundCode::TakenTooLate.alone()));
            }
        }
        sending.await.map_err(|failed| latch.failed(failed))
    }

    async fn send(&self, method: Method, headers: HeaderMap, body: Body) -> Result<Response<Body>, Failed> {
        let mut request = Request::builder()
            .method(method)
            .uri(&self.url)
            .body(body)
            .map_err(|error| Failed::NotSent(FoundCode::Unsendable.said(error)))?;
        *request.headers_mut() = headers;
        let answer = self.client.request(request).await;
        Ok(answer.map_err(|error| connector::failed(&error, &self.url))?.map(Body::new))
    }

    fn headers(&self, message: Option<&Message>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let revision = message.and_then(Message::stateless_revision);
        let mut state = self.state();
        if let (Some(message), Some(revision)) = (message, revision) {
            state.stateless = true;
            put(&mut headers, VERSION, &revision);
            put(&mut headers, HeaderName::from_static("mcp-method"), &message.method);
            if let Some(name) = named(message) {
                put(&mut headers, HeaderName::from_static("mcp-name"), &name);
            }
            for (name, value) in &message.headers {
                if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                    headers.insert(name, value);
                }
            }
        } else if message.is_none_or(|message| message.method != "initialize") {
            headers.extend(state.session.clone().map(|session| (SESSION, session)));
            headers.extend(state.version.clone().map(|version| (VERSION, version)));
        }
        headers
    }
}

/// What a stateless request is about, which its header repeats.
fn named(message: &Message) -> Option<String> {
    let member = match message.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return None,
    };
    message.params_members().ok()?.text(member)
}

/// Text that does not survive in a header is wrapped as the protocol says.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    let plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && value.trim() == value
        && !value.starts_with("=?base64?");
    let value = if plain { value.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(value)) };
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(name, value);
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

async fn whole(mut body: Body, held: &mut Held) -> Result<String, Found> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| FoundCode::BrokenOff.said(error))?;
        let data = frame.into_data().unwrap_or_default();
        held.grow_to(text.len() + data.len()).map_err(Full::found)?;
        text.extend_from_slice(&data);
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(FoundCode::AnswerTooLong.number(MESSAGE_BYTES_MAX));
        }
    }
    String::from_utf8(text).map_err(|_| FoundCode::NotText.alone())
}
