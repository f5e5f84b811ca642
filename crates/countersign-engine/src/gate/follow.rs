//! Following the log, and whether there still is one to follow.

use super::{Gate, LogError, Shared};
use crate::stream::{Arrivals, Follower, Moves};
use crate::view::Synced;
use std::sync::Arc;

impl Gate {
    /// Follows the log from a position on: every synced entry with its position, without gaps or repeats.
    ///
    /// # Errors
    /// If the log is not that long.
    pub fn follow(&self, from: u64) -> Result<Follower, LogError> {
        let size = self.view().position;
        if from > size {
            return Err(LogError::Beyond(size));
        }
        Ok(self.shared.stream.follow(Arc::clone(&self.shared.log), from))
    }

    /// Who is told when an effect moves.
    pub fn moves(&self) -> &Moves {
        self.shared.stream.moves()
    }

    /// Who is told when a message comes into an inbox, or what may be handed out of it changes.
    pub fn arrivals(&self) -> &Arrivals {
        self.shared.stream.arrivals()
    }

    /// Why nothing more can be entered, if so: a write failed, a stage died, or somebody else has the log. Nothing may leave then.
    pub fn lost_log(&self) -> Option<String> {
        self.shared.failure().or_else(|| self.shared.log.check_held().err().map(|error| error.to_string()))
    }
}

impl Shared {
    /// What is durable, as of now.
    pub(super) fn view(&self) -> Synced<'_> {
        Synced::new(&self.view, &self.live)
    }

    /// Why the gate has failed, if so. The log may have failed by itself, before anything was to be appended.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.get().cloned().or_else(|| self.log.refuse_if_poisoned().err().map(|error| error.to_string()))
    }
}
