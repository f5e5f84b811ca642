//! One bound for all messages that are held at a time, of all sessions and links together: each of them may hold hundreds of messages,
//! and each message may be large. What would go beyond it is refused, and its sender is told so.
//!
//! Bytes are counted while they are read, so that also half a message counts, and until the last copy of the message is dropped: in a
//! queue, in the hands of a session, or on its way to someone who does not read.

use super::message::{Message, Refused};
use axum::body::Bytes;
use countersign_core::call::{Found, FoundCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bound where the settings do not say: eight of the largest messages of servers.
pub const BUFFERED_MAX: usize = 256 << 20;

/// Messages up to this length have a quarter more for themselves: what is large must not keep everyone from a word.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// How much is held.
#[derive(Debug)]
pub struct Buffers {
    held: AtomicUsize,
    bytes_max: usize,
}

/// The bound is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes of messages wait already (mcp.buffered_max = {0}); try again when some were read")]
pub struct Full(usize);

impl Full {
    /// Why nothing more is read.
    pub fn found(self) -> Found {
        FoundCode::BuffersFull.number(self.0)
    }
}

impl Buffers {
    /// With this bound.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), bytes_max })
    }

    /// What holds nothing yet.
    pub fn nothing(self: &Arc<Self>) -> Held {
        Held { buffers: Arc::clone(self), bytes: 0 }
    }

    /// Holds so many bytes more.
    fn add(&self, bytes: usize, is_small: bool) -> Result<(), Full> {
        let bytes_max = if is_small { self.bytes_max.saturating_add(self.bytes_max / 4) } else { self.bytes_max };
        let add = |held: usize| held.checked_add(bytes).filter(|held| *held <= bytes_max);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map(drop).map_err(|_| Full(self.bytes_max))
    }
}

/// Some of it. A copy counts as well, whether there is room or not: what is copied was let in before.
#[derive(Debug)]
pub struct Held {
    buffers: Arc<Buffers>,
    bytes: usize,
}

impl Held {
    /// Holds at least this much.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Full> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.buffers.add(more, bytes <= SMALL_BYTES_MAX)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Gives up what is more than this.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.buffers.held.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }

    /// Reads a message, which takes its room from now on: twice as long as there are both, the text and the message.
    pub fn parse(&mut self, text: &str) -> Result<Result<Message, Refused>, Full> {
        self.grow_to(text.len().saturating_mul(2))?;
        Ok(Message::parse(text).map(|mut message| {
            let mut held = std::mem::replace(self, self.buffers.nothing());
            held.shrink_to(text.len());
            message.held = Some(held);
            message
        }))
    }

    /// How much it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes over what another holds.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.buffers.held.fetch_add(self.bytes, Ordering::Relaxed);
        Self { buffers: Arc::clone(&self.buffers), bytes: self.bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Text on its way out, counted until it has left.
pub fn counted(text: String, held: Option<Held>) -> Bytes {
    struct Counted {
        text: String,
        _held: Option<Held>,
    }
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            self.text.as_bytes()
        }
    }
    Bytes::from_owner(Counted { text, _held: held })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_and_given_back() {
        let buffers = Buffers::new(100 << 10);
        let mut one = buffers.nothing();
        one.grow_to(60 << 10).expect("there is room");
        one.grow_to(50 << 10).expect("it holds that already");
        let mut other = buffers.nothing();
        assert_eq!(other.grow_to(41 << 10), Err(Full(100 << 10)));
        other.grow_to(40 << 10).expect("there is room");
        buffers.nothing().grow_to(SMALL_BYTES_MAX).expect("small ones have more");
        buffers.nothing().grow_to(SMALL_BYTES_MAX + 1).expect_err("is not small");
        let copy = one.clone();
        buffers.nothing().grow_to(1).expect_err("copies count");
        drop(one);
        other.absorb(copy);
        assert_eq!(other.bytes(), 100 << 10);
        let text = counted("x".to_owned(), Some(other));
        assert_eq!(buffers.held.load(Ordering::Relaxed), 100 << 10);
        drop(text);
        assert_eq!(buffers.held.load(Ordering::Relaxed), 0);
    }
}
