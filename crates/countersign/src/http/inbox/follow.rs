//! An inbox as server-sent events: what waits, and then what comes.
//!
//! One task writes one stream, and has one event ready at a time: a client that does not read holds up its own stream and nothing else,
//! and its connection is cut when it has not read for as long as any answer may wait. There are only so many streams, of one agent and
//! in all. A stream ends by itself after a while, so that its reader shows its signature again; then, as after every cut, what is
//! not acknowledged comes again.

use super::{App, Caller, HttpError, received};
use crate::connections::Slot;
use crate::http::places::Place;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use countersign_api::routes::PAGE_MAX;
use countersign_core::ids::AgentId;
use countersign_core::message::MessageId;
use countersign_engine::gate::{Content, Received};
use countersign_engine::stream;
use http_body::Frame;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How often a line without meaning is sent, so that no one takes a silent connection for a dead one.
const PING_EVERY: Duration = Duration::from_secs(15);

/// How long a stream lasts.
const FOLLOWED_FOR: Duration = Duration::from_secs(10 * 60);

/// The body: whatever the task has ready.
struct Events(mpsc::Receiver<Bytes>);

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// Answers with a stream of everything behind a message.
pub(super) fn stream(
    app: Arc<App>,
    caller: Caller,
    after: Option<MessageId>,
    slot: Option<Arc<Slot>>,
    place: Place,
) -> Response {
    let (events, ready) = mpsc::channel(1);
    let following = Following { app, caller, events, last: after, withheld: BTreeSet::new() };
    tokio::spawn(async move {
        let ending = async {
            match slot {
                Some(slot) => slot.ending().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = following.run() => {}
            () = ending => {}
            () = tokio::time::sleep(FOLLOWED_FOR) => {}
        }
        drop(place);
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::new(Events(ready))).into_response()
}

struct Following {
    app: Arc<App>,
    caller: Caller,
    events: mpsc::Sender<Bytes>,
    /// The last message that was sent.
    last: Option<MessageId>,
    /// Those that were sent without their content, which may come later.
    withheld: BTreeSet<MessageId>,
}

/// One that listens for what comes, until it is dropped.
struct Listening {
    app: Arc<App>,
    it: Option<stream::Listening<AgentId>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.it.take().into_iter().for_each(|it| self.app.gate.arrivals().cancel(it));
    }
}

impl Following {
    async fn run(mut self) {
        loop {
            let (moved, moves) = oneshot::channel();
            // First listen, then look: nothing can fall between.
            let told = move || {
                // A stream that has ended need not be told.
                let _ = moved.send(());
            };
            let it = self.app.gate.arrivals().once(self.caller.name.clone(), Box::new(told));
            let _listening = Listening { app: Arc::clone(&self.app), it: Some(it) };
            let is_read = match self.news().await {
                Ok(news) if news.is_empty() => self.wait(moves).await,
                Ok(news) => self.send_all(news).await,
                // No longer active, halted, or the log cannot be read: said in the form of any error, and the stream ends.
                Err(error) => return drop(self.events.send(refused(&error)).await),
            };
            if !is_read {
                return;
            }
        }
    }

    /// Sends messages; false where no one reads any more.
    async fn send_all(&mut self, news: Vec<Received>) -> bool {
        for message in news {
            if !self.send(message).await {
                return false;
            }
        }
        true
    }

    /// What is to be sent: everything behind the last message, and what was withheld and no longer is.
    async fn news(&mut self) -> Result<Vec<Received>, HttpError> {
        // What was acknowledged never comes, so what is kept is no more than an inbox holds.
        if !self.withheld.is_empty() {
            let view = self.app.gate.view();
            let inbox = view.waiting_for(&self.caller.name);
            self.withheld.retain(|id| inbox.contains(*id));
        }
        let limit = usize::try_from(PAGE_MAX).unwrap_or(usize::MAX);
        let first = self.withheld.first().map(|first| MessageId(first.0.saturating_sub(1)));
        let mut from = first.map_or(self.last, |first| self.last.min(Some(first)));
        let mut news = Vec::new();
        loop {
            let page = self.app.page(&self.caller, from, limit).await?;
            from = page.messages.last().map(|last| last.id).or(from);
            let is_whole = |message: &Received| !matches!(message.content, Content::Withheld(_));
            let is_news = |it: &Received| Some(it.id) > self.last || self.withheld.contains(&it.id) && is_whole(it);
            news.extend(page.messages.into_iter().filter(is_news));
            // A page at a time: what is left comes next, from the last that was sent.
            if !page.has_more || !news.is_empty() {
                return Ok(news);
            }
        }
    }

    /// Sends a message; false where no one reads any more.
    async fn send(&mut self, message: Received) -> bool {
        let id = message.id;
        match message.content {
            Content::Withheld(_) => self.withheld.insert(id),
            _ => self.withheld.remove(&id),
        };
        self.last = self.last.max(Some(id));
        let Ok(data) = serde_json::to_string(&received(message)) else { return false };
        self.events.send(format!("id: {id}\nevent: message\ndata: {data}\n\n").into()).await.is_ok()
    }

    /// Waits for something to come; false where no one reads any more.
    async fn wait(&self, mut moves: oneshot::Receiver<()>) -> bool {
        loop {
            let ping = Instant::now() + PING_EVERY;
            tokio::select! {
                _ = &mut moves => return true,
                () = self.events.closed() => return false,
                () = tokio::time::sleep_until(ping) => {
                    if self.events.send(Bytes::from_static(b": still here\n\n")).await.is_err() {
                        return false;
                    }
                }
            }
        }
    }
}

fn refused(error: &HttpError) -> Bytes {
    let error =
        serde_json::json!({"error": {"code": error.code.as_str(), "message": error.message, "hint": error.hint}});
    format!("event: refused\ndata: {error}\n\n").into()
}
