//! How long the time was in which a change made past the gate would have gone unnoticed: from when what a write rests on was begun to
//! be read again, to when its call was answered. Measured for each server since the gate was started; it decides nothing.

use parking_lot::Mutex;
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// The windows at all servers.
#[derive(Debug, Default)]
pub struct Windows(Mutex<BTreeMap<SmolStr, Window>>);

/// The windows at one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// How many calls were made.
    pub calls: u64,
    /// How long they were in all.
    pub sum_ms: u64,
    /// How long the longest was.
    pub max_ms: u64,
}

impl Windows {
    /// A call was made.
    pub(crate) fn note(&self, server: &SmolStr, window_ms: u64) {
        let mut windows = self.0.lock();
        let window = windows.entry(server.clone()).or_default();
        window.calls = window.calls.saturating_add(1);
        window.sum_ms = window.sum_ms.saturating_add(window_ms);
        window.max_ms = window.max_ms.max(window_ms);
    }

    /// Those of each server at which a call was made, by its name.
    pub fn by_server(&self) -> BTreeMap<SmolStr, Window> {
        self.0.lock().clone()
    }
}
