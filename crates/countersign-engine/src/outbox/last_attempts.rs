//! What the latest attempt or probe found that has led to nothing yet.
//!
//! Only in memory: whatever follows from an attempt is an entry. This is for whoever wonders why an effect takes so long.

use countersign_core::call::{EffectId, Evidence};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The latest attempts of effects under way.
#[derive(Debug, Default)]
pub struct LastAttempts(Mutex<BTreeMap<u64, LastTry>>);

/// An attempt or a probe that has led to nothing yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastTry {
    /// When it ended, in ledger milliseconds.
    pub at_ms: u64,
    /// Which it was, of the attempts, or of the probes of a doubt; the first is 1.
    pub number: u32,
    /// What it found, without answers.
    pub found: Evidence,
}

impl LastAttempts {
    /// The latest of an effect.
    pub fn last(&self, effect: EffectId) -> Option<LastTry> {
        self.0.lock().get(&effect.0).cloned()
    }

    pub(super) fn note(&self, effect: EffectId, last: LastTry) {
        self.0.lock().insert(effect.0, last);
    }

    /// An effect has moved on.
    pub(super) fn forget(&self, effect: EffectId) {
        self.0.lock().remove(&effect.0);
    }
}
