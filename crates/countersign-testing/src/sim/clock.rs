//! A clock that moves only when it is told to.

use crate::disk::SplitMix;
use countersign_engine::clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Wall and monotonic time of the simulated machine.
#[derive(Debug)]
pub(super) struct VirtualClock {
    wall_ms: AtomicU64,
    monotonic_ms: AtomicU64,
}

impl VirtualClock {
    pub(super) fn new(wall_ms: u64) -> Self {
        Self { wall_ms: wall_ms.into(), monotonic_ms: 5.into() }
    }

    fn add(&self, ms: u64) {
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
        self.monotonic_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Lets time pass: mostly moments, sometimes minutes, rarely more than a day; and now and then the wall clock steps.
    pub(super) fn pass(&self, rng: &mut SplitMix) {
        match rng.below(100) {
            0..70 => self.add(rng.below(40)),
            70..90 => self.add(rng.below(1_500)),
            90..96 => self.add(rng.below(4_000)),
            96..98 => self.add(20_000 + rng.below(60_000)),
            98 => self.add(90_000_000),
            _ if rng.below(2) == 0 => drop(self.wall_ms.fetch_add(10_000 + rng.below(100_000), Ordering::Relaxed)),
            _ => drop(self.wall_ms.fetch_sub(10_000 + rng.below(100_000), Ordering::Relaxed)),
        }
    }

    /// The machine starts anew after a while: monotonic time begins again.
    pub(super) fn restart(&self, after_ms: u64) {
        self.wall_ms.fetch_add(after_ms, Ordering::Relaxed);
        self.monotonic_ms.store(1, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::Relaxed)
    }
    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::Relaxed)
    }
}
