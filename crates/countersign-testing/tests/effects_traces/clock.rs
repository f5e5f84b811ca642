//! Time for a gate on its way through the model: it passes where a step says so.

use countersign_engine::clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that moves when it is told to. The wall clock follows what was last read of the monotonic one, so that nobody reads
/// one before a move and the other after it.
#[derive(Debug, Default)]
pub struct Still {
    now_ms: AtomicU64,
    read_ms: AtomicU64,
}

impl Clock for Still {
    fn wall_ms(&self) -> u64 {
        1_800_000_000_000 + self.read_ms.load(Ordering::SeqCst)
    }
    fn monotonic_ms(&self) -> u64 {
        let now_ms = self.now_ms.load(Ordering::SeqCst);
        self.read_ms.store(now_ms, Ordering::SeqCst);
        now_ms
    }
}

impl Still {
    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }
}
