//! The body of a request that must not leave any more once its verdict is too old, or once the gate says so, however long a connection
//! took to open.

use super::Failed;
use axum::body::Bytes;
use countersign_core::call::{Found, FoundCode};
use countersign_engine::outbox::Leave;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Whether it was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Turned {
    Waits,
    Given,
    /// It was too late, or the gate said no more, for this reason.
    Held(Box<Found>),
}

/// What decides whether it is given out: whichever comes first, the connection that takes it or the clock. The connection asks the gate
/// once more.
#[derive(Clone)]
pub struct Latch {
    turned: Arc<Mutex<Turned>>,
    leave: Option<Leave>,
}

impl Latch {
    /// A latch that asks this when a connection is there.
    pub fn new(leave: Option<Leave>) -> Self {
        Self { turned: Arc::new(Mutex::new(Turned::Waits)), leave }
    }

    fn turned(&self) -> std::sync::MutexGuard<'_, Turned> {
        self.turned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may be given out now, after which it was.
    fn opens(&self) -> bool {
        let mut turned = self.turned();
        if *turned == Turned::Waits {
            let held = self.leave.as_ref().and_then(Leave::held_back).map(Box::new);
            *turned = held.map_or(Turned::Given, Turned::Held);
        }
        *turned == Turned::Given
    }

    /// It is too late; `false` where it was given out before.
    pub fn is_closed_now(&self) -> bool {
        let mut turned = self.turned();
        if *turned == Turned::Waits {
            *turned = Turned::Held(Box::new(FoundCode::TakenTooLate.alone()));
        }
        *turned != Turned::Given
    }

    /// What a failure means: of a body that was never given out, nothing was sent.
    pub fn failed(&self, failed: Failed) -> Failed {
        match (&*self.turned(), failed) {
            (Turned::Held(why), _) => Failed::NotSent(Found::clone(why)),
            (Turned::Waits, Failed::NoAnswer(why)) => Failed::NotSent(why),
            (_, failed) => failed,
        }
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
        Poll::Ready(Some(match self.latch.opens() {
            true => Ok(Frame::data(text)),
            false => Err(std::io::Error::other("it must not be sent any more")),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.text.as_ref().map_or(0, |text| u64::try_from(text.len()).unwrap_or(u64::MAX)))
    }
}
