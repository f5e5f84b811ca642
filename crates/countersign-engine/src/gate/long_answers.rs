//! What calls answered that is too long for an entry: kept in memory for a while, for whoever waits for the call. The ledger says how
//! long it was, and nothing rests on it.

use countersign_core::call::EffectId;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most bytes that are kept; the oldest goes first.
const BYTES_MAX: usize = 64 << 20;

/// Answers, oldest first.
#[derive(Debug, Default)]
pub struct LongAnswers(Mutex<VecDeque<(EffectId, Arc<str>)>>);

impl LongAnswers {
    /// Keeps one.
    pub fn keep(&self, effect: EffectId, answer: String) {
        let mut answers = self.0.lock();
        answers.retain(|(known, _)| *known != effect);
        answers.push_back((effect, answer.into()));
        let mut bytes: usize = answers.iter().map(|(_, answer)| answer.len()).sum();
        while bytes > BYTES_MAX {
            let Some((_, oldest)) = answers.pop_front() else { break };
            bytes = bytes.saturating_sub(oldest.len());
        }
    }

    /// What a call answered, if it is still here.
    pub fn of(&self, effect: EffectId) -> Option<Arc<str>> {
        self.0.lock().iter().find(|(known, _)| *known == effect).map(|(_, answer)| Arc::clone(answer))
    }
}
