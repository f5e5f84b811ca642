//! Waiting for one effect: whoever does is told when the entry that moved it is synced.

use countersign_core::call::EffectId;
use countersign_core::decision::Verdict;
use countersign_core::record::{Entry, Event};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Called once, on a thread of the gate: it must not block.
pub type Listener = Box<dyn FnOnce() + Send>;

/// Who waits for which effect.
#[derive(Default)]
pub struct Moves {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    listeners: BTreeMap<(u64, u64), Listener>,
    next: u64,
}

/// One that listens; to be told that it no longer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    effect: u64,
    number: u64,
}

impl Moves {
    /// Has the next move of one effect told. Look at the effect after this call and not before, or a move may be missed.
    pub fn once(&self, effect: EffectId, listener: Listener) -> Listening {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next = waiting.next.wrapping_add(1);
        waiting.listeners.insert((effect.0, number), listener);
        Listening { effect: effect.0, number }
    }

    /// Stops listening; without this, whoever waits for an effect that never moves is kept for ever.
    pub fn cancel(&self, Listening { effect, number }: Listening) {
        self.waiting.lock().listeners.remove(&(effect, number));
    }

    /// Effects have moved.
    pub(super) fn tell(&self, effects: impl Iterator<Item = EffectId>) {
        for effect in effects {
            let told = {
                let mut waiting = self.waiting.lock();
                let mut later = waiting.listeners.split_off(&(effect.0, 0));
                let mut after = later.split_off(&(effect.0.saturating_add(1), 0));
                waiting.listeners.append(&mut after);
                later
            };
            for (_, listener) in told {
                listener();
            }
        }
    }
}

/// The effect that an entry moves.
pub(crate) fn effect_of(entry: &Entry) -> Option<EffectId> {
    match &entry.event {
        Event::Dispatch(dispatch) => Some(dispatch.effect),
        Event::Settle(settle) => Some(settle.effect),
        Event::Erased(leaf) => leaf.moves(),
        event => event
            .decision()
            .filter(|decision| matches!(decision.verdict, Verdict::InFlight(_)))
            .map(|_| EffectId(entry.index)),
    }
}
