//! From a presented signature to a name. On the caller's thread, in parallel; nothing is locked while a signature is
//! verified.

use super::freshness;
use super::replay::NotTaken;
use super::signature::{Presented, SignatureError, verify_strict};
use crate::gate::Gate;
use crate::identity::replay::NONCES_MAX;
use countersign_core::identity::{ACTIVE, Auth, Holder, holds_key};
use countersign_core::value::Value;
use std::sync::Arc;

/// Who sent a request, proved.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// The agent or operator whose key signed.
    pub holder: Holder,
    /// The proof, to be kept with the entry.
    pub auth: Auth,
    /// Whether the holder's standing was active. What changes something is asked again at its place in the order; what
    /// only reads has no other place to ask.
    pub is_active: bool,
}

/// Why a request was not authenticated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The signature was refused.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Too many signed requests within the window.
    #[error(
        "the gate is busy: it remembers {NONCES_MAX} signed requests already, and takes none that it could not remember"
    )]
    Full,
    /// The gate ended uncleanly and has just started: it cannot tell what is signed now from what it has seen and forgotten.
    #[error(
        "the gate was started a moment ago after an unclean end, and accepts what is signed from now on in {left_ms} ms"
    )]
    NotYet {
        /// How long that takes.
        left_ms: u64,
    },
    /// What must be remembered cannot be written.
    #[error("the gate cannot note that it takes this signature, and so does not take it: {0}")]
    NotNoted(String),
}

impl Gate {
    /// Says who signed. The order of the checks is the order of their costs; a nonce is remembered only once everything
    /// else is good, so that nobody can spend somebody else's.
    pub fn authenticate(&self, presented: Presented) -> Result<Authenticated, AuthError> {
        let now_ms = self.now_ms();
        freshness::check(&presented, now_ms)?;
        if self.replays().lock().is_before_start(presented.created_s) {
            // What is signed later passes, so this says nothing against the caller as long as nobody could have done better.
            return Err(match self.blind_for_ms() {
                Some(left_ms) => AuthError::NotYet { left_ms },
                None => SignatureError::BeforeStart.into(),
            });
        }
        let Presented { signed, nonce, created_s, .. } = presented;
        let unknown = || SignatureError::KeyUnknown(signed.key.to_string());
        let (holder, is_active) = {
            let view = self.view();
            let holder = view.state.keys().holder(&signed.key).cloned().ok_or_else(unknown)?;
            let fact = view.state.facts.get(&holder.fact()).filter(|fact| holds_key(fact, &signed.key, now_ms));
            let value = fact.and_then(|fact| fact.value.as_ref()).ok_or_else(unknown)?;
            let standing = value.get("standing");
            (holder, matches!(standing, Some(Value::String(standing)) if standing == ACTIVE))
        };
        verify_strict(&signed, None)?;
        #[cfg(feature = "sabotage")]
        if self.is_without(crate::sabotage::Control::Nonces) {
            return Ok(Authenticated { holder, auth: Auth::Signature(Arc::new(signed)), is_active });
        }
        let mut replays = self.replays().lock();
        let noted = replays.note_ahead(self.disk().as_ref(), created_s, now_ms);
        noted.map_err(|error| AuthError::NotNoted(error.to_string()))?;
        replays.take(&signed.key, &nonce, holder.kind, now_ms).map_err(|not_taken| match not_taken {
            NotTaken::Seen => AuthError::Signature(SignatureError::Replayed),
            NotTaken::Full => AuthError::Full,
        })?;
        drop(replays);
        Ok(Authenticated { holder, auth: Auth::Signature(Arc::new(signed)), is_active })
    }
}
