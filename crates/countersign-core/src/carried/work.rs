//! How much may be looked at for one decision. It is made where everyone else waits, and an agent chooses what is looked at.

use super::spelling::normal;
use crate::limits::CARRIED_WORK_MAX;

/// What is left of it, in bytes of text and in values that are compared.
#[derive(Debug, Clone)]
pub(super) struct Work {
    left: usize,
    is_over: bool,
}

impl Work {
    pub(super) fn new() -> Self {
        Self { left: CARRIED_WORK_MAX, is_over: false }
    }

    /// Whether so much more may be done. Once something was too much, nothing may.
    pub(super) fn may(&mut self, steps: usize) -> bool {
        match self.left.checked_sub(steps).filter(|_| !self.is_over) {
            Some(left) => self.left = left,
            None => self.is_over = true,
        }
        !self.is_over
    }

    /// Whether something was too much: what was looked at is then not all there is.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// A text in normal form, which may be a good deal longer.
    pub(super) fn normal(&mut self, text: &str) -> Option<String> {
        let formed = self.may(text.len()).then(|| normal(text))?;
        self.may(formed.len().saturating_sub(text.len())).then_some(formed)
    }

    #[cfg(test)]
    pub(super) fn done(&self) -> usize {
        CARRIED_WORK_MAX.saturating_sub(self.left)
    }
}
