//! What was recorded before: no request makes two entries.
//!
//! The gate remembers keys for a day and nonces for as long as a signature is fresh. An audit remembers every nonce that is not erased: a
//! signature that is old enough to be forgotten is no less a second entry of one request.

use crate::fold::Fold;
use crate::idempotency::Lookup;
use crate::identity::signature::nonce_of;
use countersign_core::ids::Digest;
use countersign_core::record::Entry;
use std::collections::HashMap;

/// What stands for a key and a nonce: enough of their digest that no one finds it twice.
type Nonce = [u8; 16];

/// The signed requests of a log, each with its entry.
#[derive(Debug, Default)]
pub(super) struct Once {
    nonces: HashMap<Nonce, u64>,
}

impl Once {
    /// Whether an entry is the first of its request: of its idempotency key within a day, and of its signature at all.
    pub(super) fn check(&mut self, entry: &Entry, fold: &Fold, origin: &str) -> Result<(), String> {
        if let Some((key, action)) = entry.event.key()
            && let Lookup::Same(before) | Lookup::Other(before) = fold.keys.lookup(&key, &action, entry.time_ms)
        {
            return Err(format!("its idempotency key was used in entry {before}, and it was decided all the same"));
        }
        let Some(signed) = entry.auth.signed() else { return Ok(()) };
        let nonce = nonce_of(signed, origin).map_err(|error| format!("its signature: {error}"))?;
        let Digest(digest) = Digest::of_parts(&[&signed.key.public_key(), nonce.as_bytes()]);
        let nonce = digest.first_chunk().copied().unwrap_or_default();
        match self.nonces.insert(nonce, entry.index) {
            None => Ok(()),
            Some(before) => Err(format!("the request that it was signed with is that of entry {before}")),
        }
    }
}
