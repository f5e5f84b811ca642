//! Calls in doubt, which their client must not make again.

use super::Marks;

/// The most that are remembered.
const DOUBTS_MAX: usize = 64;

/// A call of which no one knows whether it was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Its effect.
    pub effect: u64,
    /// The idempotency key that it was asked for under.
    pub key: String,
}

impl Marks {
    /// It is not known whether this call was done.
    pub fn doubts(&mut self, call: String, doubt: Doubt) {
        if self.doubts.len() < DOUBTS_MAX {
            self.doubts.insert(call, doubt);
        }
    }

    /// The same call that is in doubt, as far as is known here.
    pub fn doubt_of(&self, call: &str) -> Option<Doubt> {
        self.doubts.get(call).cloned()
    }

    /// By now it is known whether this call was done.
    pub fn is_sure(&mut self, call: &str) {
        self.doubts.remove(call);
    }
}
