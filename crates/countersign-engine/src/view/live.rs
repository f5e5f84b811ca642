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
    pinned: Arc<Pinned>,
}

/// The position that a snapshot reads the table as of, beside readers: what entries replaced from there on is kept for it.
#[derive(Debug)]
pub struct Pinned(AtomicU64);

impl Default for Pinned {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Pinned {
    /// Keeps what is replaced from a position on until the pin is dropped. Readers must be held at that position, or behind it, when this
    /// is called: else it may be gone already. One at a time.
    pub(crate) fn at(&self, position: u64) -> Pin<'_> {
        self.0.store(position, Ordering::Release);
        Pin(self)
    }
}

/// Keeps what was replaced from a position on.
pub(crate) struct Pin<'a>(&'a Pinned);

impl Pin<'_> {
    /// What was replaced in front of this position is needed no more.
    pub(crate) fn advance(&self, position: u64) {
        self.0.0.store(position, Ordering::Release);
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.0.0.store(u64::MAX, Ordering::Release);
    }
}

impl Live {
    /// Holds the state; `synced` is the position that readers have come to.
    pub fn new(state: State, synced: u64) -> Self {
        let mut state = state;
        state.facts.keep_replaced();
        let state = Arc::new(RwLock::new(state)).upgradable_read_arc();
        Self { state, synced: Arc::new(AtomicU64::new(synced)), pinned: Arc::default() }
    }

    /// Where readers find it.
    pub fn shared(&self) -> Arc<RwLock<State>> {
        Arc::clone(ArcRwLockUpgradableReadGuard::rwlock(&self.state))
    }

    /// Where the commit stage says how far readers have come.
    pub fn synced(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.synced)
    }

    /// Where a snapshot says what it still needs.
    pub fn pinned(&self) -> Arc<Pinned> {
        Arc::clone(&self.pinned)
    }

    /// Applies the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        self.state.with_upgraded(|state| state.apply(entry));
    }

    /// Drops what only readers and snapshots at earlier positions needed.
    pub fn release(&mut self) {
        // In this order: a pin is set while the view is held, so whoever sees a later position of readers sees the pin too.
        let synced = self.synced.load(Ordering::Acquire);
        let needed = synced.min(self.pinned.0.load(Ordering::Acquire));
        self.state.with_upgraded(|state| state.facts.release(needed));
    }
}

impl Deref for Live {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}
