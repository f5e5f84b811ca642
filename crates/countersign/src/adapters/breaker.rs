//! A breaker: a service that keeps failing is left alone for a while.
//!
//! Trying a service that is down costs time, ties up workers and, where the failure comes late, makes doubts. After so many
//! failures in a row nothing is sent for a while; then one call tries, and what it finds decides for all. Time is an argument.

use crate::config::adapters::BreakerSettings;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The breaker of one adapter.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Calls pass; so many failed in a row.
    Closed(u32),
    /// Nothing passes until then; the first caller afterwards tries for all, and moves this on while it does.
    Open(Instant),
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: Mutex::new(State::Closed(0)) }
    }

    /// Whether a call may pass; otherwise, how long it has to wait at least.
    pub fn pass(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state();
        match *state {
            State::Closed(_) => Ok(()),
            State::Open(until) if now < until => Err(until - now),
            State::Open(_) => {
                // If this call never reports, another tries when the same time has passed again.
                *state = State::Open(now + self.settings.open_for);
                Ok(())
            }
        }
    }

    /// Says how a call went that had passed: whether the service gave a clear answer.
    pub fn report(&self, is_clear: bool, now: Instant) {
        let mut state = self.state();
        *state = match *state {
            _ if is_clear => State::Closed(0),
            State::Closed(failures) if failures + 1 < self.settings.failures => State::Closed(failures + 1),
            _ => State::Open(now + self.settings.open_for),
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A state is written in one step, so it is whole even where someone panicked while holding the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings = BreakerSettings { failures: 3, open_for: Duration::from_secs(30) };

    #[test]
    fn it_opens_after_failures_in_a_row_and_one_call_tries_for_all() {
        let (breaker, start) = (Breaker::new(SETTINGS), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..2 {
            breaker.report(false, at(0));
        }
        breaker.report(true, at(0));
        for _ in 0..2 {
            breaker.report(false, at(0));
        }
        assert_eq!(breaker.pass(at(0)), Ok(()), "two in a row are not three");
        breaker.report(false, at(1));
        assert_eq!(breaker.pass(at(2)), Err(Duration::from_secs(29)));
        assert_eq!(breaker.pass(at(31)), Ok(()), "one tries");
        assert_eq!(breaker.pass(at(31)), Err(Duration::from_secs(30)), "the others wait");
        breaker.report(false, at(32));
        assert_eq!(breaker.pass(at(40)), Err(Duration::from_secs(22)), "it failed: all wait again");
        assert_eq!(breaker.pass(at(62)), Ok(()));
        breaker.report(true, at(63));
        assert_eq!((breaker.pass(at(63)), breaker.pass(at(63))), (Ok(()), Ok(())), "it went well: all pass");
    }

    #[test]
    fn a_call_that_tries_and_never_reports_blocks_nobody_for_ever() {
        let (breaker, start) = (Breaker::new(SETTINGS), Instant::now());
        (0..3).for_each(|_| breaker.report(false, start));
        assert_eq!(breaker.pass(start + Duration::from_secs(30)), Ok(()));
        assert_eq!(breaker.pass(start + Duration::from_secs(60)), Ok(()));
    }
}
