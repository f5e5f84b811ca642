//! Tells whoever wants to know that an effect has moved, once the entry that moved it is durable.

use countersign_core::call::EffectId;
use countersign_core::decision::Verdict;
use countersign_core::record::{Entry, Event};
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Called once, on a thread of the gate: it must not block.
pub type Listener = Box<dyn FnOnce() + Send>;

/// Who is told when an effect moves.
#[derive(Default)]
pub struct Bell {
    outbox: Mutex<Option<Sender<EffectId>>>,
    waiting: Mutex<BTreeMap<u64, Vec<Listener>>>,
}

impl Bell {
    /// Has every move told to the outbox.
    pub(crate) fn connect(&self, outbox: Option<Sender<EffectId>>) {
        *self.outbox.lock() = outbox;
    }

    /// Has the next move of one effect told. Look at the effect after this call and not before, or a move may be missed.
    pub fn once(&self, effect: EffectId, listener: Listener) {
        self.waiting.lock().entry(effect.0).or_default().push(listener);
    }

    /// Effects have moved.
    pub(crate) fn ring(&self, effects: impl Iterator<Item = EffectId>) {
        for effect in effects {
            if let Some(outbox) = &*self.outbox.lock() {
                // An outbox that has ended finds the effect in the ledger when it is started again.
                let _ = outbox.send(effect);
            }
            for listener in self.waiting.lock().remove(&effect.0).unwrap_or_default() {
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
        event => event
            .decision()
            .filter(|decision| matches!(decision.verdict, Verdict::InFlight(_)))
            .map(|_| EffectId(entry.index)),
    }
}
