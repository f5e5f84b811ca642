//! Sessions that single requests name: which there are, and which are forgotten when there are too many.

use super::{Named, Shared, lock};
use crate::mcp::settings::SESSION_IDLE;
use countersign_core::ids::Digest;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The most sessions of single requests whose marks are kept.
pub(super) const SESSIONS_MAX: usize = 1024;

/// The marks of sessions that single requests name, the one used last at the end. Only what this gateway has opened can be named: of
/// another session it would not know what had reached its client.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<VecDeque<Kept>>);

/// A session that single requests name.
#[derive(Debug)]
struct Kept {
    marks: Shared,
    used: Instant,
}

impl Sessions {
    /// Those of a session that a request names; `None` where it was not opened here, or too long ago.
    pub fn named(&self, told: &str) -> Option<Shared> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |kept: &Kept| lock(&kept.marks).named().is_some_and(|named| named.told == told);
        let at = known.iter().position(is_it)?;
        let marks = known.remove(at)?.marks;
        known.push_back(Kept { marks: Arc::clone(&marks), used: Instant::now() });
        Some(marks)
    }

    /// A session was opened for a request that named none. The names of those that are forgotten for it: what no one has used for long,
    /// and where there are too many, what the client with the most has used longest ago.
    pub fn opened(&self, named: Named, marks: &Shared) -> Vec<String> {
        lock(marks).named = Some(named);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back(Kept { marks: Arc::clone(marks), used: Instant::now() });
        let mut forgotten = Vec::new();
        while let Some(kept) = known.pop_front_if(|kept| kept.used.elapsed() > SESSION_IDLE) {
            forgotten.push(kept);
        }
        while known.len() > SESSIONS_MAX {
            forgotten.extend(oldest_of_most(&known).and_then(|at| known.remove(at)));
        }
        forgotten.iter().filter_map(|kept| lock(&kept.marks).named().map(|named| named.name.clone())).collect()
    }
}

/// The place of the session that was used longest ago, of those of the client that has the most.
fn oldest_of_most(known: &VecDeque<Kept>) -> Option<usize> {
    let clients: Vec<Option<Digest>> = known.iter().map(|kept| lock(&kept.marks).client).collect();
    let mut counts: BTreeMap<Option<Digest>, usize> = BTreeMap::new();
    clients.iter().for_each(|client| *counts.entry(*client).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count)?.0;
    clients.into_iter().position(|client| client == most)
}
