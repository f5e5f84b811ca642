//! The sequencer's own hold of the one state.

use countersign_core::record::Entry;
use countersign_core::state::State;
use parking_lot::{ArcRwLockUpgradableReadGuard, RawRwLock, RwLock};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state that the sequencer decides on: the fold of everything it has entered, synced or not.
///
/// It is the only writer, so it holds the lock for as long as it lives, in a way that lets others read; they are kept out only while an
/// entry is applied.
pub struct Live {
    state: ArcRwLockUpgradableReadGuard<RawRwLock, State>,
    synced: Arc<AtomicU64>,
}

impl Live {
    /// Holds the state; `synced` is the position that readers have come to.
    pub fn new(state: State, synced: u64) -> Self {
        let mut state = state;
        state.facts.keep_replaced();
        let state = Arc::new(RwLock::new(state)).upgradable_read_arc();
        Self { state, synced: Arc::new(AtomicU64::new(synced)) }
    }

    /// Where readers find it.
    pub fn shared(&self) -> Arc<RwLock<State>> {
        Arc::clone(ArcRwLockUpgradableReadGuard::rwlock(&self.state))
    }

    /// Where the commit stage says how far readers have come.
    pub fn synced(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.synced)
    }

    /// Applies the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        self.state.with_upgraded(|state| state.apply(entry));
    }

    /// Drops what only readers at earlier positions needed.
    pub fn release(&mut self) {
        let synced = self.synced.load(Ordering::Acquire);
        self.state.with_upgraded(|state| state.facts.release(synced));
    }
}

impl Deref for Live {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}
