//! Waiting for one effect or one inbox: a listener is told when the entry that moved it is synced.

use countersign_core::call::EffectId;
use countersign_core::decision::Verdict;
use countersign_core::ids::AgentId;
use countersign_core::record::{Entry, Event};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Called once, on a thread of the gate: it must not block.
pub type Listener = Box<dyn FnOnce() + Send>;

/// Who waits for which effect.
pub type Moves = Listeners<EffectId>;

/// Who waits for something to come into which inbox.
pub type Arrivals = Listeners<AgentId>;

/// Who waits for what.
pub struct Listeners<K> {
    waiting: Mutex<Waiting<K>>,
}

struct Waiting<K> {
    listeners: BTreeMap<K, Vec<(u64, Listener)>>,
    next: u64,
}

impl<K> Default for Listeners<K> {
    fn default() -> Self {
        Self { waiting: Mutex::new(Waiting { listeners: BTreeMap::new(), next: 0 }) }
    }
}

/// One that listens; to be told that it no longer does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listening<K> {
    to: K,
    number: u64,
}

impl<K: Ord + Clone> Listeners<K> {
    /// Has the next move of one of them told. Look at it after this call and not before, or a move may be missed.
    pub fn once(&self, to: K, listener: Listener) -> Listening<K> {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next = waiting.next.wrapping_add(1);
        waiting.listeners.entry(to.clone()).or_default().push((number, listener));
        Listening { to, number }
    }

    /// Stops listening; without this, one that waits for what never moves is kept for ever.
    pub fn cancel(&self, Listening { to, number }: Listening<K>) {
        let mut waiting = self.waiting.lock();
        if let Some(listeners) = waiting.listeners.get_mut(&to) {
            listeners.retain(|(other, _)| *other != number);
            if listeners.is_empty() {
                waiting.listeners.remove(&to);
            }
        }
    }

    /// Some have moved.
    pub(super) fn tell<'a>(&self, moved: impl Iterator<Item = &'a K>)
    where
        K: 'a,
    {
        for moved in moved {
            let told = self.waiting.lock().listeners.remove(moved);
            told.into_iter().flatten().for_each(|(_, listener)| listener());
        }
    }

    /// All may have moved.
    pub(super) fn tell_all(&self) {
        let told = std::mem::take(&mut self.waiting.lock().listeners);
        told.into_values().flatten().for_each(|(_, listener)| listener());
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

/// Whether an entry changes which messages may be handed out, in whichever inbox: what is halted, who is active, what is erased.
pub(super) fn moves_inboxes(entry: &Entry) -> bool {
    let is_of_all = matches!(entry.event, Event::Halt { .. } | Event::Resume { .. } | Event::Erasure { .. });
    is_of_all || entry.event.identity().is_some()
}
