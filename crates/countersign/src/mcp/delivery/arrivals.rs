//! What came first: a message of a client, or an answer that it was given.
//!
//! A message may wait long before anyone looks at it: behind others in a queue, in a buffer, in the pipe itself. So it is not looked at
//! when its turn comes but where it stood: at its place in what the client has sent. An answer stands behind everything that the client
//! had sent when it left, also what no one has read by then.

use std::io::{ErrorKind, Read, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many answers have left to clients over HTTP.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// The place of a message over HTTP whose request begins now.
pub fn over_http() -> u64 {
    LEFT.load(Ordering::SeqCst)
}

/// Orders what a client sends and what it is sent: a message knows the answers whose places are not behind its own.
#[derive(Debug, Default)]
pub enum Arrivals {
    /// By how many answers had left.
    #[default]
    OverHttp,
    /// By the bytes of standard input.
    OverStdio(Arc<Input>),
}

impl Arrivals {
    /// The place of an answer that leaves now.
    pub(super) fn leaves(&self) -> u64 {
        match self {
            Self::OverHttp => LEFT.fetch_add(1, Ordering::SeqCst).saturating_add(1),
            Self::OverStdio(input) => input.end(),
        }
    }
}

/// Standard input, and how many bytes of it were read.
#[derive(Debug, Default)]
pub struct Input(Mutex<u64>);

impl Input {
    fn read(&self) -> MutexGuard<'_, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it ends: behind what was read, and what waits to be read.
    fn end(&self) -> u64 {
        let read = self.read();
        // What cannot be asked has nothing that waits.
        read.saturating_add(rustix::io::ioctl_fionread(std::io::stdin()).unwrap_or_default())
    }
}

impl Read for &Input {
    /// Waits for bytes before it takes the lock, and holds that while it takes them: they are always either read or waiting.
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let stdin = std::io::stdin();
        let mut polled = [rustix::event::PollFd::new(&stdin, rustix::event::PollFlags::IN)];
        while let Err(error) = rustix::event::poll(&mut polled, None) {
            if error.kind() != ErrorKind::Interrupted {
                return Err(error.into());
            }
        }
        let mut read = Input::read(self);
        let count = rustix::io::read(&stdin, into)?;
        *read = read.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}
