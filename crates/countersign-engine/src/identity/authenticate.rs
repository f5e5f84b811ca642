//! From a presented signature to a name. On the caller's thread, in parallel; nothing is locked while a signature is
//! verified.

use super::freshness::{AHEAD_MAX_S, SigningTime};
use super::kept::{self, KEPT_MAX, Kind};
use super::replay::NotTaken;
use crate::gate::Gate;
use crate::identity::replay::NONCES_MAX;
use countersign_core::body::RawBody;
use countersign_core::identity::{
    ACTIVE, Auth, Holder, HolderKind, KeyName, NoAuthority, Role, Signed, authorise_key, holds_key,
};
use countersign_core::utc::{Span, Utc};
use countersign_core::value::Value;
use countersign_signature::{BodyDigest, Head, Presented, SignatureError, verify_head, verify_strict};
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

/// Who sent a request whose body has not been read. Nothing may be done for it before the body is known to be the one that was
/// signed.
#[derive(Debug)]
pub struct HeadAuthenticated {
    /// The agent or operator whose key signed.
    pub holder: Holder,
    /// Whether the holder's standing was active.
    pub is_active: bool,
    signed: Signed,
    body: BodyDigest,
}

impl HeadAuthenticated {
    /// Whether the holder may do what takes this role, as far as that can be said before its place in the order.
    pub fn authorise(&self, gate: &Gate, role: Role) -> Result<(), NoAuthority> {
        authorise_key(&gate.view(), &self.holder.name, Some(&self.signed.key), role, gate.now_ms())
    }

    /// The whole, with the body that came, if it is the one that was signed.
    pub fn with_body(self, body: RawBody) -> Result<Authenticated, SignatureError> {
        let Self { holder, is_active, mut signed, body: digest } = self;
        signed.body = digest.check(body)?;
        Ok(Authenticated { holder, auth: Auth::Signature(Arc::new(signed)), is_active })
    }
}

/// Why a request was not authenticated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The signature was refused.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Too many signed requests within the window.
    #[error("the gate is busy: its replay window is full ({NONCES_MAX} requests)")]
    Full,
    /// Too many halts, resumes or confirmations that could still be sent again.
    #[error("the gate already tracks {KEPT_MAX} admin requests that could be replayed, and cannot track another")]
    KeptFull,
    /// The gate ended uncleanly and has just started: it cannot tell what is signed now from what it has seen and forgotten.
    #[error(
        "the gate has just restarted after an unclean stop, and accepts signatures made from now on in {}", Span(*.left_ms)
    )]
    NotYet {
        /// How long that takes.
        left_ms: u64,
    },
    /// The signature is fresh by the wall clock and not by ledger time: the clock stepped, and no operator has confirmed it.
    #[error(
        "this gate's ledger time is {} and its wall clock {}: the wall clock jumped, so signatures dated by it are refused",
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
    #[error("the gate could not record this signature's use, so it refused it: {0}")]
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

/// By what a signature is judged.
#[derive(Debug, Clone, Copy)]
struct Judged {
    /// Which kind of request it is, of those that are kept if an active admin signs them.
    kind: Option<Kind>,
    /// The same if one did.
    kept_as: Option<Kind>,
    /// Whether what is kept can tell that it is new, and the wall clock may judge it.
    by_kept: bool,
    /// Whether only the wall clock finds it fresh.
    by_step_only: bool,
}

impl Gate {
    /// Says who signed. The order of the checks is the order of their costs; a nonce is remembered only once everything
    /// else is good, so that no one can spend someone else's.
    pub fn authenticate(&self, presented: Presented) -> Result<Authenticated, AuthError> {
        let (holder, is_active, signed) = self.authenticate_by(presented, |signed| verify_strict(signed, None))?;
        Ok(Authenticated { holder, auth: Auth::Signature(Arc::new(signed)), is_active })
    }

    /// The same before the body is read, so that only who can sign can make the gate hold one. The nonce counts as used whatever
    /// body follows.
    pub fn authenticate_head(&self, head: Head) -> Result<HeadAuthenticated, AuthError> {
        let Head { presented, body, covered } = head;
        let verify = |signed: &Signed| verify_head(signed, &covered, body);
        let (holder, is_active, signed) = self.authenticate_by(presented, verify)?;
        Ok(HeadAuthenticated { holder, is_active, signed, body })
    }

    /// Whether [`Self::authenticate_head`] would wait for the disk with this head, for callers that must not: its clock is ahead of what
    /// was noted, or it is kept for good.
    pub fn authenticating_writes(&self, head: &Head) -> bool {
        let Presented { signed, created_s, .. } = &head.presented;
        let signers_ms = self.signing_time().signers_ms();
        let is_due = self.replays().lock().note_due(*created_s, signers_ms).is_some();
        is_due || kept::kind(signed) == Some(Kind::Other) && self.is_admins(&signed.key)
    }

    fn authenticate_by(
        &self,
        presented: Presented,
        verify: impl FnOnce(&Signed) -> Result<(), SignatureError>,
    ) -> Result<(Holder, bool, Signed), AuthError> {
        let time = self.signing_time();
        let judged = self.judge(&presented, time)?;
        let (holder, is_active) = self.holder_of(&presented.signed.key, time.ledger_ms)?;
        let verified = verify(&presented.signed);
        #[cfg(feature = "sabotage")]
        let verified = if self.is_without(crate::sabotage::Control::Signatures) { Ok(()) } else { verified };
        verified?;
        #[cfg(feature = "sabotage")]
        if self.is_without(crate::sabotage::Control::Nonces) {
            return Ok((holder, is_active, presented.signed));
        }
        self.take_nonce(&presented, holder.kind, time, judged)?;
        Ok((holder, is_active, presented.signed))
    }

    /// Whether a signature is fresh, and by what it may be judged.
    fn judge(&self, presented: &Presented, time: SigningTime) -> Result<Judged, AuthError> {
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
        time.check(presented, by_kept)?;
        if is_before_start && !by_kept {
            return Err(self.before_start());
        }
        let by_step_only = by_kept && time.check(presented, false).is_err();
        Ok(Judged { kind, kept_as, by_kept, by_step_only })
    }

    fn holder_of(&self, key: &KeyName, now_ms: u64) -> Result<(Holder, bool), SignatureError> {
        let unknown = || SignatureError::KeyUnknown(key.to_string());
        let view = self.view();
        let holder = view.rest.keys().holder(key).cloned().ok_or_else(unknown)?;
        let fact = view.fact(&holder.fact()).filter(|fact| holds_key(fact, key, now_ms));
        let value = fact.and_then(|fact| fact.value.as_ref()).ok_or_else(unknown)?;
        let standing = value.get("standing");
        Ok((holder, matches!(standing, Some(Value::String(standing)) if standing == ACTIVE)))
    }

    /// Takes the nonce of a good signature, unless it was seen before or may have been.
    fn take_nonce(
        &self,
        presented: &Presented,
        holder: HolderKind,
        time: SigningTime,
        judged: Judged,
    ) -> Result<(), AuthError> {
        let Presented { signed, nonce, created_s, .. } = presented;
        let (created_s, now_ms) = (*created_s, time.ledger_ms);
        let Judged { kind, kept_as, by_kept, by_step_only } = judged;
        let mut replays = self.replays().lock();
        if kind.is_some_and(|kind| replays.kept.has(kind, &signed.key, nonce, created_s)) {
            return Err(SignatureError::Replayed.into());
        }
        // Once more, under one lock with taking it: it may have been dropped in between.
        if kind.is_some_and(|kind| replays.kept.is_forgotten(kind, created_s)) {
            drop(replays);
            return Err(self.before_start());
        }
        let room = kept_as.filter(|kind| replays.kept.make_room(*kind, now_ms / 1000));
        if room.is_none() && (kept_as == Some(Kind::Other) || by_step_only) {
            return Err(AuthError::KeptFull);
        }
        let not_noted = |error: std::io::Error| AuthError::NotNoted(error.to_string());
        let is_by_kept = by_kept && room.is_some();
        if !is_by_kept && let Some(note) = replays.note_due(created_s, time.signers_ms()) {
            drop(replays);
            note.write(self.replays(), self.disk().as_ref()).map_err(not_noted)?;
            // Everything once more: others were taken meanwhile. What is noted now is noted for this one too.
            return self.take_nonce(presented, holder, time, judged);
        }
        let taken = match is_by_kept {
            true => replays.take(&signed.key, nonce, holder, now_ms),
            false => replays.accept(&signed.key, nonce, holder, created_s, now_ms),
        };
        if let (Ok(()), Some(kind)) = (taken, room) {
            replays.kept.insert(kind, &signed.key, nonce, created_s);
        }
        drop(replays);
        taken.map_err(|not_taken| match not_taken {
            NotTaken::Seen => AuthError::Signature(SignatureError::Replayed),
            NotTaken::Full => AuthError::Full,
            NotTaken::Forgotten => self.before_start(),
        })?;
        // A halt does not wait for its file: housekeeping writes it in a moment.
        match room {
            Some(Kind::Other) => self.write_kept().map_err(not_noted),
            _ => Ok(()),
        }
    }

    /// Whether it is the key of an active admin: what others sign here is refused, and must not use up what is kept for these.
    pub fn is_admins(&self, key: &KeyName) -> bool {
        let view = self.view();
        let holder = view.rest.keys().holder(key).filter(|holder| holder.kind == HolderKind::Operator);
        holder.is_some_and(|holder| view.rest.keys().admins().contains(&holder.name))
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
