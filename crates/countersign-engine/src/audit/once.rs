//! What was recorded before: no request makes two entries, and none that was signed long before its entry.
//!
//! The gate remembers keys for a day and nonces for as long as a signature is fresh. An audit remembers every signed request, erased ones
//! too: their leaves still tell one from another. A signature that is old enough to be forgotten is no less a second entry of one request.

use super::signing_time::SigningTimes;
use crate::fold::Fold;
use crate::idempotency::{Lookup, Remembered};
use crate::identity::batches::Batches;
use countersign_core::decide::not_groupable;
use countersign_core::identity::RequestDigest;
use countersign_core::reason::Reason;
use countersign_core::record::{Entry, Event};
use countersign_signature::signed_at;
use std::collections::HashMap;

/// The signed requests of a log, each with its entry.
#[derive(Debug, Default)]
pub(super) struct Once {
    requests: HashMap<RequestDigest, u64>,
    keys: Remembered,
    times: SigningTimes,
    batches: Batches,
}

impl Once {
    /// The atomic group that the log ends in the middle of.
    pub(super) fn unfinished(&self) -> Option<u64> {
        self.batches.unfinished()
    }

    /// Remembers the keys of an entry.
    pub(super) fn applied(&mut self, entry: &Entry) {
        self.keys.note(entry);
    }

    /// Whether an entry is the first of its request: of its idempotency key within a day, and of its signature at all; and whether the
    /// signature was fresh.
    pub(super) fn check(&mut self, entry: &Entry, fold: &Fold, origin: &str) -> Result<(), String> {
        for (key, action) in entry.event.keys() {
            if let Lookup::Same(before) | Lookup::Other(before) = self.keys.lookup(&key, &action, entry.time_ms) {
                return Err(format!("its idempotency key was used in entry {before}, and it was decided again"));
            }
        }
        let is_in_group = self.batches.is_in_group(entry);
        self.batches.check(entry)?;
        if let (Event::Action(decided), true) = (&entry.event, is_in_group)
            && let Some(why) = not_groupable(&decided.action, &fold.state)
        {
            let action = decided.action.action.clone();
            return Err(Reason::NotInGroup { action, why }.message());
        }
        let signed = entry.auth.signed();
        let request = match &entry.event {
            Event::Erased(leaf) => leaf.request,
            _ => signed.map(|signed| signed.digest()),
        };
        if let Some(before) = request.and_then(|request| self.requests.insert(request, entry.index)) {
            return Err(format!("the request that it was signed with is that of entry {before}"));
        }
        let fresh = signed.map_or(Ok(()), |signed| {
            let at = signed_at(signed, origin).map_err(|error| format!("its signature: {error}"))?;
            self.times.check(at, entry)
        });
        self.times.passed(entry);
        fresh
    }
}
