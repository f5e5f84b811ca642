//! How old or how far ahead a signature may be, and by which clock.
//!
//! Callers sign by the wall clock, and ledger time follows it; so ledger time judges, as long as the two agree. Where they do not,
//! the wall clock is the only one that an operator at the gate can sign by: see [`super::kept`] for what it may judge, and for
//! why still nothing counts twice.

use super::AuthError;
use countersign_signature::{Presented, SignatureError};

/// How old a signature may be, in seconds: long enough for a slow network and a retry, short enough that nonces of all
/// that could still be taken fit in memory.
pub const AGE_MAX_S: u64 = 60;

/// How far a signer's clock may be ahead of ledger time, in seconds: twice what ledger time itself may be away from the
/// wall clock before it says so.
pub const AHEAD_MAX_S: u64 = 10;

/// What a signature's own time is checked against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SigningTime {
    /// Ledger time.
    pub(crate) ledger_ms: u64,
    /// The wall clock, where it is more than a step from ledger time.
    pub(crate) wall_ms: Option<u64>,
    /// Whether an operator has confirmed it there: then it is behind, and judges everything.
    pub(crate) is_confirmed: bool,
}

impl SigningTime {
    /// The time by which callers are expected to sign.
    pub(crate) fn signers_ms(self) -> u64 {
        self.wall_ms.filter(|_| self.is_confirmed).unwrap_or(self.ledger_ms)
    }

    /// Checks what a signature says of its own time. `passes_a_step` for what the wall clock may judge while it has stepped.
    pub(super) fn check(self, presented: &Presented, passes_a_step: bool) -> Result<(), AuthError> {
        let Err(error) = check_at(presented, self.signers_ms()) else { return Ok(()) };
        match self.wall_ms {
            Some(wall_ms) if check_at(presented, wall_ms).is_ok() => match passes_a_step {
                true => Ok(()),
                false => Err(AuthError::Stepped { ledger_ms: self.ledger_ms, wall_ms }),
            },
            _ => Err(error.into()),
        }
    }
}

fn check_at(presented: &Presented, now_ms: u64) -> Result<(), SignatureError> {
    let now_s = now_ms / 1000;
    let age_s = now_s.saturating_sub(presented.created_s);
    let ahead_s = presented.created_s.saturating_sub(now_s);
    if age_s > AGE_MAX_S {
        return Err(SignatureError::Expired { age_s, window_s: AGE_MAX_S });
    }
    if ahead_s > AHEAD_MAX_S {
        return Err(SignatureError::Future { ahead_s, skew_s: AHEAD_MAX_S });
    }
    match presented.expires_s {
        Some(expires_s) if expires_s <= now_s => Err(SignatureError::Over),
        _ => Ok(()),
    }
}
