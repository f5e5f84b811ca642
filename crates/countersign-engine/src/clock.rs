//! Ledger time: the gate's own time, which never goes back and never jumps unseen.
//!
//! It advances with monotonic time from the last entry and is slewed towards the wall clock, so that a clock set back
//! cannot revive a stale observation and a clock set forward cannot age a fresh one in an instant. A wall clock more than
//! five seconds away is not followed: it becomes an entry, and the gate is not ready until the wall clock is back or an operator
//! confirms it. Confirmed ahead, it is followed at once. Confirmed behind, ledger time runs slower until the two meet.

/// What the machine's clocks say.
pub trait Clock: Send + Sync {
    /// Wall-clock time, milliseconds UTC.
    fn wall_ms(&self) -> u64;
    /// Monotonic time in milliseconds from any start.
    fn monotonic_ms(&self) -> u64;
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    started: std::time::Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> u64 {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }
    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A wall clock this far from ledger time has stepped.
pub const STEP_MS: u64 = 5_000;

/// Out of this many milliseconds, one may be added or held back to follow the wall clock: five seconds are made up in
/// under a minute, and no interval is wrong by more than a tenth.
const SLEW_PER_MS: u64 = 10;

/// Ledger time.
#[derive(Debug)]
pub struct LedgerClock {
    last_ms: u64,
    monotonic_ms: u64,
    stepped: Option<Step>,
    /// How far behind an operator confirmed the wall clock, less what was made up since.
    behind_ms: u64,
    /// Time that passed and was not used for slewing: readings that follow each other closely slew no more than others.
    unslewed_ms: u64,
    #[cfg(feature = "sabotage")]
    follows_the_wall: bool,
}

/// A wall clock that has stepped away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What the wall clock said.
    pub wall_ms: u64,
    /// What ledger time was.
    pub ledger_ms: u64,
}

impl LedgerClock {
    /// Starts at the later of the wall clock and the last entry. A wall clock that lies behind the last entry by more than
    /// a step is reported with the first reading.
    pub fn start(clock: &dyn Clock, last_entry_ms: u64) -> Self {
        Self {
            last_ms: clock.wall_ms().max(last_entry_ms),
            monotonic_ms: clock.monotonic_ms(),
            stepped: None,
            behind_ms: 0,
            unslewed_ms: 0,
            #[cfg(feature = "sabotage")]
            follows_the_wall: false,
        }
    }

    /// Has it say what the wall clock says.
    #[cfg(feature = "sabotage")]
    pub fn following_the_wall(self, follows_the_wall: bool) -> Self {
        Self { follows_the_wall, ..self }
    }

    /// Reads ledger time; it never goes back. A wall clock that has stepped away is remembered in [`Self::stepped`]
    /// until it is back.
    pub fn read(&mut self, clock: &dyn Clock) -> u64 {
        #[cfg(feature = "sabotage")]
        if self.follows_the_wall {
            return clock.wall_ms();
        }
        let monotonic_ms = clock.monotonic_ms();
        let elapsed_ms = monotonic_ms.saturating_sub(self.monotonic_ms);
        let wall_ms = clock.wall_ms();
        let unslewed_ms = self.last_ms.saturating_add(elapsed_ms);
        let away_ms = wall_ms.abs_diff(unslewed_ms);
        let behind_ms = if wall_ms < unslewed_ms { self.behind_ms } else { 0 };
        if away_ms > STEP_MS.saturating_add(behind_ms) {
            self.last_ms = unslewed_ms;
            self.monotonic_ms = monotonic_ms;
            self.stepped.get_or_insert(Step { wall_ms, ledger_ms: unslewed_ms });
            return self.last_ms;
        }
        self.stepped = None;
        self.behind_ms = if away_ms > STEP_MS { behind_ms.min(away_ms) } else { 0 };
        let passed_ms = self.unslewed_ms.saturating_add(elapsed_ms);
        let slew_ms = away_ms.min(passed_ms / SLEW_PER_MS);
        let now_ms = if wall_ms >= unslewed_ms {
            unslewed_ms.saturating_add(slew_ms)
        } else {
            unslewed_ms.saturating_sub(slew_ms).max(self.last_ms)
        };
        // Readings within one millisecond must not eat the elapsed time.
        if elapsed_ms > 0 {
            self.last_ms = now_ms;
            self.monotonic_ms = monotonic_ms;
            self.unslewed_ms = passed_ms % SLEW_PER_MS;
        }
        now_ms
    }

    /// Whether an operator confirmed a wall clock that is still behind.
    pub fn is_behind(&self) -> bool {
        self.behind_ms > 0
    }

    /// The step that waits for confirmation.
    pub fn stepped(&self) -> Option<Step> {
        self.stepped
    }

    /// An operator says that the wall clock is right: ledger time follows it forward at once. If the wall clock is behind,
    /// ledger time goes on from where it is, a tenth slower, until the wall clock has caught up.
    pub fn confirm(&mut self, clock: &dyn Clock) {
        let now_ms = self.last_ms.saturating_add(clock.monotonic_ms().saturating_sub(self.monotonic_ms));
        let wall_ms = clock.wall_ms();
        self.last_ms = now_ms.max(wall_ms);
        self.monotonic_ms = clock.monotonic_ms();
        self.behind_ms = now_ms.saturating_sub(wall_ms);
        self.stepped = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Hands {
        wall: AtomicU64,
        monotonic: AtomicU64,
    }
    impl Hands {
        fn pass(&self, ms: u64) {
            self.wall.fetch_add(ms, Ordering::SeqCst);
            self.monotonic.fetch_add(ms, Ordering::SeqCst);
        }
    }
    impl Hands {
        fn set(&self, by_ms: i64) {
            let wall_ms = self.wall.load(Ordering::SeqCst).checked_add_signed(by_ms).unwrap();
            self.wall.store(wall_ms, Ordering::SeqCst);
        }
    }
    impl Clock for Hands {
        fn wall_ms(&self) -> u64 {
            self.wall.load(Ordering::SeqCst)
        }
        fn monotonic_ms(&self) -> u64 {
            self.monotonic.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn it_follows_a_steady_clock_exactly() {
        let hands = Hands::default();
        hands.wall.store(1_000_000, Ordering::SeqCst);
        let mut clock = LedgerClock::start(&hands, 0);
        for _ in 0..1000 {
            hands.pass(7);
            assert_eq!(clock.read(&hands), hands.wall_ms());
            assert_eq!(clock.stepped(), None);
        }
    }

    #[test]
    fn small_offsets_are_slewed_and_never_go_back() {
        let hands = Hands::default();
        hands.wall.store(1_000_000, Ordering::SeqCst);
        let mut clock = LedgerClock::start(&hands, 0);
        hands.wall.fetch_sub(3_000, Ordering::SeqCst);
        let mut last = 1_000_000;
        for _ in 0..100 {
            hands.pass(1_000);
            let now = clock.read(&hands);
            assert!(now >= last + 899, "{last} {now}");
            assert_eq!(clock.stepped(), None);
            last = now;
        }
        assert_eq!(last, hands.wall_ms());
    }

    #[test]
    fn a_step_is_not_followed_until_confirmed() {
        let hands = Hands::default();
        hands.wall.store(1_000_000, Ordering::SeqCst);
        let mut clock = LedgerClock::start(&hands, 0);
        hands.wall.fetch_add(3_600_000, Ordering::SeqCst);
        hands.pass(10);
        assert_eq!(clock.read(&hands), 1_000_010);
        assert!(clock.stepped().is_some());
        hands.pass(10);
        assert_eq!(clock.read(&hands), 1_000_020);
        clock.confirm(&hands);
        assert_eq!(clock.read(&hands), hands.wall_ms());
        assert_eq!(clock.stepped(), None);
    }

    #[test]
    fn a_step_is_over_once_the_clock_is_back() {
        for (there, back) in [(900_000, -900_000), (-900_000, 900_000)] {
            let hands = Hands::default();
            hands.wall.store(1_000_000, Ordering::SeqCst);
            let mut clock = LedgerClock::start(&hands, 0);
            hands.set(there);
            clock.read(&hands);
            assert!(clock.stepped().is_some());
            hands.set(back);
            hands.pass(1);
            assert_eq!(clock.read(&hands), 1_000_001);
            assert_eq!(clock.stepped(), None);
        }
    }

    #[test]
    fn a_clock_confirmed_behind_is_met_a_tenth_slower_however_often_it_is_read() {
        for every_ms in [1, 7, 1_000] {
            let hands = Hands::default();
            hands.wall.store(10_000_000, Ordering::SeqCst);
            let mut clock = LedgerClock::start(&hands, 0);
            hands.set(-900_000);
            clock.read(&hands);
            clock.confirm(&hands);
            let mut last = clock.read(&hands);
            assert_eq!((last, clock.is_behind()), (10_000_000, true));
            for _ in 0..(60_000 / every_ms) {
                hands.pass(every_ms);
                let now = clock.read(&hands);
                assert!(now >= last && clock.stepped().is_none() && clock.is_behind());
                last = now;
            }
            let passed_ms = last - 10_000_000;
            assert!((53_900..=54_100).contains(&passed_ms), "{passed_ms} in a minute, read every {every_ms} ms");
            hands.set(-10_000);
            clock.read(&hands);
            assert!(clock.stepped().is_some(), "further behind is another step");
            hands.set(10_000);
            while clock.read(&hands) != hands.wall_ms() || clock.is_behind() {
                hands.pass(60_000);
                assert!(hands.wall_ms() < 30_000_000, "they never meet");
            }
        }
    }

    #[test]
    fn it_starts_no_earlier_than_the_last_entry() {
        let hands = Hands::default();
        hands.wall.store(1_000, Ordering::SeqCst);
        let mut clock = LedgerClock::start(&hands, 900_000);
        hands.pass(5);
        assert_eq!(clock.read(&hands), 900_005);
        assert!(clock.stepped().is_some(), "a wall clock far behind the ledger is reported");
    }
}
