//! From a presented signature to a name. On the caller's thread, in parallel; nothing is locked while a signature is
//! verified.

use super::freshness::AHEAD_MAX_S;
use super::kept::{self, KEPT_MAX, Kind};
use super::replay::NotTaken;
use super::signature::{Presented, SignatureError, verify_strict};
use crate::gate::Gate;
use crate::identity::replay::NONCES_MAX;
use countersign_core::identity::{ACTIVE, Auth, Holder, HolderKind, KeyName, holds_key};
use countersign_core::utc::Utc;
use countersign_core::value::Value;
use std::sync::Arc;

/// How long an unclean end alone can keep fresh signatures out: as far as clocks may be ahead, and the seconds noted with them.
const UNCLEAN_MAX_MS: u64 = (AHEAD_MAX_S + 2) * 1000;

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
    /// Too many halts, resumes or confirmations that could still be sent again.
    #[error(
        "the gate remembers {KEPT_MAX} requests of admins already that could be fresh again, and takes none that it could not \
         remember"
    )]
    KeptFull,
    /// The gate ended uncleanly and has just started: it cannot tell what is signed now from what it has seen and forgotten.
    #[error(
        "the gate was started a moment ago after an unclean end, and accepts what is signed from now on in {left_ms} ms"
    )]
    NotYet {
        /// How long that takes.
        left_ms: u64,
    },
    /// The signature is fresh by the wall clock and not by ledger time: the clock stepped, and no operator has confirmed it.
    #[error(
        "this gate's ledger time is {} and its wall clock {}: the clock stepped, and what is signed by it is not accepted",
        Utc(*ledger_ms), Utc(*wall_ms)
    )]
    Stepped {
        /// Ledger time.
        ledger_ms: u64,
        /// The wall clock.
        wall_ms: u64,
    },
    /// The wall clock was set back: what is signed now cannot be told from what was signed when it showed the same time before.
    #[error(
        "this gate's ledger time is {} and its wall clock {}: the clock was set back to a time that it has shown before, and \
         the gate accepts what is signed from now on in {} s",
        Utc(*ledger_ms), Utc(*wall_ms), left_ms.div_ceil(1000)
    )]
    Behind {
        /// Ledger time.
        ledger_ms: u64,
        /// The wall clock.
        wall_ms: u64,
        /// How long it takes until the clock shows times that it has not shown.
        left_ms: u64,
    },
    /// What must be remembered cannot be written.
    #[error("the gate cannot note that it takes this signature, and so does not take it: {0}")]
    NotNoted(String),
}

impl AuthError {
    /// How long it lasts, where that is known.
    pub fn left_ms(&self) -> Option<u64> {
        match self {
            Self::NotYet { left_ms } | Self::Behind { left_ms, .. } => Some(*left_ms),
            _ => None,
        }
    }
}

impl Gate {
    /// Says who signed. The order of the checks is the order of their costs; a nonce is remembered only once everything
    /// else is good, so that nobody can spend somebody else's.
    pub fn authenticate(&self, presented: Presented) -> Result<Authenticated, AuthError> {
        let time = self.signing_time();
        let now_ms = time.ledger_ms;
        let created_s = presented.created_s;
        let kind = kept::kind(&presented.signed);
        let kept_as = kind.filter(|_| self.is_admins(&presented.signed.key));
        // What is kept for good needs neither the window nor ledger time, and must not wait for them.
        let (by_kept, is_before_start) = {
            let mut replays = self.replays().lock();
            replays.set_behind(time.is_confirmed);
            let is_forgotten = kind.is_some_and(|kind| replays.kept.is_forgotten(kind, created_s));
            let by_kept = kept_as.is_some() && replays.kept.is_whole() && !is_forgotten;
            (by_kept, is_forgotten || replays.is_before_start(created_s))
        };
        time.check(&presented, by_kept)?;
        if is_before_start && !by_kept {
            return Err(self.before_start());
        }
        let by_step_only = time.check(&presented, false).is_err();
        let Presented { signed, nonce, .. } = presented;
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
        if kind.is_some_and(|kind| replays.kept.has(kind, &signed.key, &nonce, created_s)) {
            return Err(SignatureError::Replayed.into());
        }
        // Once more, under one lock with taking it: it may have been dropped in between.
        if kind.is_some_and(|kind| replays.kept.is_forgotten(kind, created_s)) {
            drop(replays);
            return Err(self.before_start());
        }
        let room = kept_as.filter(|kind| replays.kept.make_room(*kind, now_ms / 1000));
        if room.is_none() && (kept_as == Some(Kind::Other) || kept_as.is_some() && by_step_only) {
            return Err(AuthError::KeptFull);
        }
        let not_noted = |error: std::io::Error| AuthError::NotNoted(error.to_string());
        let taken = if by_kept && room.is_some() {
            replays.take(&signed.key, &nonce, holder.kind, now_ms)
        } else {
            replays.note_ahead(self.disk().as_ref(), created_s, time.signers_ms()).map_err(not_noted)?;
            replays.accept(&signed.key, &nonce, holder.kind, created_s, now_ms)
        };
        if let (Ok(()), Some(kind)) = (taken, room) {
            replays.kept.insert(kind, &signed.key, &nonce, created_s);
        }
        drop(replays);
        taken.map_err(|not_taken| match not_taken {
            NotTaken::Seen => AuthError::Signature(SignatureError::Replayed),
            NotTaken::Full => AuthError::Full,
            NotTaken::Forgotten => self.before_start(),
        })?;
        // A halt does not wait for its file: housekeeping writes it in a moment.
        if room == Some(Kind::Other) {
            self.write_kept().map_err(not_noted)?;
        }
        Ok(Authenticated { holder, auth: Auth::Signature(Arc::new(signed)), is_active })
    }

    /// Whether it is the key of an active admin: what others sign here is refused, and must not use up what is kept for these.
    pub fn is_admins(&self, key: &KeyName) -> bool {
        let view = self.view();
        let holder = view.state.keys().holder(key).filter(|holder| holder.kind == HolderKind::Operator);
        holder.is_some_and(|holder| view.state.keys().admins().contains(&holder.name))
    }

    /// What is signed later passes, so this says nothing against the caller as long as no one could have done better.
    fn before_start(&self) -> AuthError {
        self.not_yet().unwrap_or(AuthError::Signature(SignatureError::BeforeStart))
    }

    /// Why nothing that is signed now is accepted yet, if so.
    pub(crate) fn not_yet(&self) -> Option<AuthError> {
        let left_ms = self.blind_for_ms()?;
        let (ledger_ms, wall_ms) = (self.now_ms(), self.wall_ms());
        Some(match left_ms > UNCLEAN_MAX_MS {
            true => AuthError::Behind { ledger_ms, wall_ms, left_ms },
            false => AuthError::NotYet { left_ms },
        })
    }
}
