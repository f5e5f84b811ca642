//! A clock that only a test moves.

use countersign_engine::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Time passes when a test says so, and the wall clock steps when a test sets it.
#[derive(Debug)]
pub struct Hands {
    passed_ms: AtomicU64,
    ahead_ms: AtomicI64,
}

impl Hands {
    /// A clock that stands at this time.
    #[must_use]
    pub fn at(wall_ms: u64) -> Arc<Self> {
        Arc::new(Self { passed_ms: wall_ms.into(), ahead_ms: 0.into() })
    }

    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets both clocks back, as those of another machine can be.
    pub fn set_back(&self, ms: u64) {
        self.passed_ms.fetch_sub(ms, Ordering::SeqCst);
    }

    /// Sets the wall clock alone, by so much.
    pub fn step(&self, by_ms: i64) {
        self.ahead_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// The wall clock in seconds.
    #[must_use]
    pub fn now_s(&self) -> u64 {
        self.wall_ms() / 1000
    }
}

impl Clock for Hands {
    fn wall_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::SeqCst).saturating_add_signed(self.ahead_ms.load(Ordering::SeqCst))
    }
    fn monotonic_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::SeqCst)
    }
}
