//! A call whose answer is on its way to the client: what that answer tells, and how much is known of it yet.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the answer of a call tells, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Telling {
    /// Not known yet: it may turn out to be anything.
    Unknown,
    /// Nothing that was read.
    Nothing,
    /// The gate was asked to read; it may have kept a reading that this answer does not hold.
    Reads,
    /// It holds the reading.
    Read,
    /// The gate was asked to write; it may have kept what it was to tell with the outcome.
    Writes,
    /// It holds the outcome of a write, and what is told with it.
    Outcome {
        /// The effect, where this answer was asked for after the call was left open.
        effect: Option<u64>,
        /// The same in a line, for whoever did not get it.
        line: String,
    },
    /// The write goes on, and its outcome is told later, if it is asked for.
    LeftOpen,
    /// That the session is gone at the gate, as has happened so often.
    Gone(u64),
}

/// How much is known of a call, in the order in which it becomes known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// It has come.
    Come,
    /// Under which names it may read.
    Named,
    /// Nothing that is read from now on can count for it.
    Noted,
}

/// The readings that an answer may hold, and how many of each.
#[derive(Debug, Clone, Default)]
pub(super) struct Readings {
    pub(super) names: Vec<String>,
    pub(super) each: usize,
}

/// A call whose answer is on its way.
#[derive(Debug)]
pub(super) struct OnItsWay {
    /// What it reads, if it turns out to read.
    pub(super) readings: Mutex<Readings>,
    pub(super) telling: Mutex<Telling>,
    pub(super) known: Mutex<Known>,
    pub(super) changed: Condvar,
}

impl OnItsWay {
    pub(super) fn become_known(&self, now: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = now.max(*known);
        self.changed.notify_all();
    }

    /// What it rests on, if it is a write, is noted at the gate.
    pub(super) fn note(&self) {
        self.become_known(Known::Noted);
    }

    /// Waits until so much is known; whether it came in time.
    pub(super) fn is_known_within(&self, wanted: Known, within: Duration) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(known, within, |known| *known < wanted);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= wanted
    }

    pub(super) fn readings(&self) -> Readings {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn telling(&self) -> MutexGuard<'_, Telling> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
