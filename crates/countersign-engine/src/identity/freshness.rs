//! How old or how far ahead a signature may be.

use super::signature::{Presented, SignatureError};

/// How old a signature may be, in seconds: long enough for a slow network and a retry, short enough that nonces of all
/// that could still be taken fit in memory.
pub const AGE_MAX_S: u64 = 60;

/// How far a signer's clock may be ahead of ledger time, in seconds: twice what ledger time itself may be away from the
/// wall clock before it says so.
pub const AHEAD_MAX_S: u64 = 10;

/// Checks what a signature says of its own time.
pub(super) fn check(presented: &Presented, now_ms: u64) -> Result<(), SignatureError> {
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
