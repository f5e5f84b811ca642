//! The body of a request that must not leave any more once its verdict is too old, however long a connection took to open.

use axum::body::Bytes;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

const WAITS: u8 = 0;
const GIVEN: u8 = 1;
const LATE: u8 = 2;

/// What decides whether it is given out: whoever comes first, the connection that takes it or the clock.
#[derive(Clone, Default)]
pub struct Latch(Arc<AtomicU8>);

impl Latch {
    fn turn(&self, to: u8) -> bool {
        self.0.compare_exchange(WAITS, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// It is too late; `false` where it was given out before.
    pub fn is_closed_now(&self) -> bool {
        self.turn(LATE)
    }
}

/// The body.
pub struct Timed {
    text: Option<Bytes>,
    latch: Latch,
}

impl Timed {
    /// This text, unless the latch is closed before a connection takes it.
    pub fn new(text: Bytes, latch: Latch) -> Self {
        Self { text: Some(text), latch }
    }
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(text) = self.text.take() else { return Poll::Ready(None) };
        Poll::Ready(Some(match self.latch.turn(GIVEN) {
            true => Ok(Frame::data(text)),
            false => Err(std::io::Error::other("too late for it to be sent")),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.text.as_ref().map_or(0, |text| u64::try_from(text.len()).unwrap_or(u64::MAX)))
    }
}
