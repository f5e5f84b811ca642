//! A stream of messages as the body of an answer.

use crate::mcp::message::Message;
use crate::mcp::sse;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use http_body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Interval;

/// How often a line without meaning is sent, so that nobody takes a silent connection for a dead one.
const PING_EVERY: Duration = Duration::from_secs(15);

/// The body. Its receiver is dropped with it, so whoever sends learns at once that the reader is gone.
struct Events {
    first: Option<Message>,
    messages: mpsc::Receiver<Message>,
    ping: Interval,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |text: String| Some(Ok(Frame::data(Bytes::from(text))));
        if let Some(first) = self.first.take() {
            return Poll::Ready(frame(sse::event(&first.line())));
        }
        if let Poll::Ready(message) = self.messages.poll_recv(context) {
            return Poll::Ready(message.and_then(|message| frame(sse::event(&message.line()))));
        }
        self.ping.poll_tick(context).map(|_| frame(": still here\n\n".to_owned()))
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
    (headers, Body::new(Events { first, messages, ping })).into_response()
}
