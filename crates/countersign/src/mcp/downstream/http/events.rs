//! A stream of messages as the body of an answer.

use crate::mcp::buffers::counted;
use crate::mcp::delivery::Delivery;
use crate::mcp::message::Message;
use crate::mcp::sse;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Interval;

/// How often a line without meaning is sent, so that no one takes a silent connection for a dead one.
const PING_EVERY: Duration = Duration::from_secs(15);

/// The body. Its receiver is dropped with it, so anyone who sends learns at once that the reader is gone.
struct Events {
    first: Option<Message>,
    messages: mpsc::Receiver<Message>,
    ping: Interval,
    /// What is left of the event that is being sent.
    event: Pieces,
}

/// How much is given to a connection at a time: it copies what it is given, and the copy is not counted.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// A text that is given to a connection bit by bit, as it can send it. All of it counts until the last is given.
#[derive(Default)]
pub struct Pieces {
    left: Bytes,
    delivery: Option<Arc<Delivery>>,
}

impl Pieces {
    /// All of a message.
    pub fn of(message: &Message) -> Self {
        Self { left: message.bytes(), delivery: message.delivery.clone() }
    }

    fn next(&mut self) -> Option<Frame<Bytes>> {
        let piece = self.left.split_to(self.left.len().min(PIECE_BYTES_MAX));
        if self.left.is_empty() {
            self.delivery.take().iter().for_each(|delivery| delivery.made());
        }
        (!piece.is_empty()).then(|| Frame::data(piece))
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.left.len()).unwrap_or(u64::MAX))
    }
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(piece) = self.event.next() {
            return Poll::Ready(Some(Ok(piece)));
        }
        let next = match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.messages.poll_recv(context),
        };
        match next {
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(message)) => {
                let left = counted(sse::event(&message.line()), message.held);
                self.event = Pieces { left, delivery: message.delivery };
                Poll::Ready(self.event.next().map(Ok))
            }
            Poll::Pending => {
                let still_here = || Some(Ok(Frame::data(Bytes::from_static(b": still here\n\n"))));
                self.ping.poll_tick(context).map(|_| still_here())
            }
        }
    }
}

/// Answers with a stream that ends when the sender of its messages is dropped.
pub fn stream(first: Option<Message>, messages: mpsc::Receiver<Message>) -> Response {
    let ping = tokio::time::interval_at(tokio::time::Instant::now() + PING_EVERY, PING_EVERY);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::new(Events { first, messages, ping, event: Pieces::default() })).into_response()
}
