//! Whether a signature was fresh when its entry was made, as far as the log tells.
//!
//! The gate judges a signature when the request arrives, by the clock that callers sign by; the entry is made later. So an audit allows for
//! the longest that a request may take on its way, and for what the log says of the clock.

use crate::clock::STEP_MS;
use crate::identity::{AGE_MAX_S, AHEAD_MAX_S};
use countersign_core::limits::WAIT_MS_MAX;
use countersign_core::record::{Entry, Event};
use countersign_core::utc::Utc;

/// How long a request may take from its signature to its entry: the longest wait for a fence, and as much again for its body and the queue.
const ON_ITS_WAY_MS: u64 = 2 * WAIT_MS_MAX;

/// What the log says of the clock that callers sign by.
#[derive(Debug, Default)]
pub(super) struct SigningTimes {
    /// The wall clock has stepped away, and no one has confirmed it.
    is_away: bool,
    /// It was confirmed behind: by how much, and at what time.
    behind: Option<(u64, u64)>,
    /// It was confirmed ahead, and time went there at once: from when, to when.
    ahead: Option<(u64, u64)>,
}

impl SigningTimes {
    /// Whether what was signed at this second could make an entry.
    pub(super) fn check(&self, created_s: u64, entry: &Entry) -> Result<(), String> {
        // What operators sign to halt, resume and confirm is judged by a wall clock that the log does not follow then.
        let passes_a_step = matches!(entry.event, Event::Halt { .. } | Event::Resume { .. } | Event::Clock { .. });
        if self.is_away && passes_a_step {
            return Ok(());
        }
        let (now_ms, created_ms) = (entry.time_ms, created_s.saturating_mul(1000));
        let behind_ms = self.behind.map_or(0, |(behind_ms, since_ms)| {
            behind_ms.saturating_sub(now_ms.saturating_sub(since_ms) / 10).saturating_add(STEP_MS)
        });
        let from_ms = match self.ahead {
            Some((from_ms, to_ms)) if now_ms <= to_ms.saturating_add(ON_ITS_WAY_MS) => from_ms,
            _ => now_ms,
        };
        let oldest_ms = from_ms.saturating_sub(AGE_MAX_S * 1000 + 1000 + ON_ITS_WAY_MS).saturating_sub(behind_ms);
        let newest_ms = now_ms.saturating_add(AHEAD_MAX_S * 1000 + 1000);
        if (oldest_ms..=newest_ms).contains(&created_ms) {
            return Ok(());
        }
        Err(format!("it was signed at {}, too far from its own time, {}", Utc(created_ms), Utc(now_ms)))
    }

    /// Takes in what an entry says of the clock.
    pub(super) fn passed(&mut self, entry: &Entry) {
        let Event::Clock { wall_ms, confirmed } = entry.event else { return };
        let time_ms = entry.time_ms;
        self.is_away = !confirmed && wall_ms.abs_diff(time_ms) > STEP_MS;
        if confirmed && wall_ms < time_ms {
            self.behind = Some((time_ms - wall_ms, time_ms));
        }
        if confirmed && wall_ms > time_ms {
            self.ahead = Some((time_ms, wall_ms));
        }
    }
}
