//! Rotating the log's key: the one request of which a part is in files outside the log.

use super::Gate;
use crate::log_key::RotateError;
use crate::request::{Answer, Entered, Refusal, Request};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_ledger::checkpoint::LogKey;
use rand_chacha::rand_core::Rng as _;

/// Why the key was not rotated, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum RotateLogKeyError {
    /// The new key could not be made.
    #[error(transparent)]
    Prepare(#[from] RotateError),
    /// The gate refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The entry is durable, but the key files are not in line with it.
    #[error(
        "the key was rotated in entry {entry}, but its file could not be put in place: {source}; restart the gate to finish"
    )]
    Unsettled {
        /// The rotation.
        entry: u64,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Gate {
    /// Replaces the key that signs the log by a new one that the gate makes itself; its private half never leaves the gate.
    /// Gives the entry and the new key. Takes a snapshot, since those signed by the old key are of no use any more.
    ///
    /// # Errors
    /// If it was refused; then the old key stays. If the ledger could not be written, the next opening finds out which key holds.
    pub fn rotate_log_key(
        &self,
        by: AgentId,
        auth: Auth,
        reason: String,
    ) -> Result<(Entered, LogKey), RotateLogKeyError> {
        let keys = &self.shared.log_keys;
        let mut seed = [0; 32];
        self.shared.nonces.lock().fill_bytes(&mut seed);
        let next = keys.prepare(seed)?;
        let public = next.public().clone();
        let entered = match self.call(Request::RotateLogKey { by, auth, next, reason }) {
            Ok(Answer::Entered(entered)) => entered,
            // Nobody knows whether the entry is there: both keys must stay.
            Err(refusal @ (Refusal::Poisoned(_) | Refusal::Closed)) => return Err(refusal.into()),
            Ok(Answer::Repeated(_) | Answer::Many(_)) => return Err(Refusal::Closed.into()),
            Err(refusal) => {
                keys.settle().map_err(RotateError::Io)?;
                return Err(refusal.into());
            }
        };
        let entry = entered.entry.index;
        keys.settle().map_err(|source| RotateLogKeyError::Unsettled { entry, source })?;
        if let Err(error) = self.snapshot() {
            tracing::warn!(%error, "no snapshot could be taken after the rotation; reopening will replay everything");
        }
        Ok((entered, public))
    }
}
