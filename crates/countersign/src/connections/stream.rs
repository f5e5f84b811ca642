//! What a connection carries, each noting what it sees: the bytes, the body that arrives, the answer that leaves.

use super::table::{Slot, State};
use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes, below TLS where that is spoken. Knows when the next request begins, and when the client stops reading.
pub struct Tracked<S> {
    stream: S,
    slot: Arc<Slot>,
}

impl<S> Tracked<S> {
    pub(super) fn new(stream: S, slot: Arc<Slot>) -> Self {
        Self { stream, slot }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tracked<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, slot } = self.get_mut();
        let before = into.filled().len();
        let read = Pin::new(stream).poll_read(context, into);
        if into.filled().len() > before && slot.state() == State::Idle {
            slot.enter(State::Head);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> Tracked<S> {
    fn noted<T>(&self, written: Poll<T>) -> Poll<T> {
        self.slot.is_read(written.is_ready());
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tracked<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.noted(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The body of a request. Once it is whole, the gate is at work and the client is not to blame for any wait.
pub struct Arriving {
    body: Incoming,
    slot: Arc<Slot>,
}

impl Arriving {
    pub(super) fn new(body: Incoming, slot: Arc<Slot>) -> Self {
        Self { body, slot }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || frame.is_ready() && self.body.is_end_stream() {
            self.slot.enter(State::Working);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer. When it is dropped, it was handed over, and the connection waits for its client again.
pub struct Leaving {
    body: Body,
    slot: Arc<Slot>,
}

impl Leaving {
    pub(super) fn new(body: Body, slot: Arc<Slot>) -> Self {
        Self { body, slot }
    }
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.slot.enter(State::Idle);
    }
}
