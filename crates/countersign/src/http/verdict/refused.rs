//! What the agent of a parked action is told after a reviewer has refused it, or no one has decided in time.

use super::of_stored;
use countersign_api::{Verdict, VerdictKind};
use countersign_core::record::{Event, Kind};
use countersign_engine::gate::{Gate, LogError, StoredEntry};

/// How a parked action ended without being executed, as the entry of that has it.
pub struct Refusal {
    /// The entry that parked the action.
    pub review: u64,
    entry: u64,
    message: String,
    hint: &'static str,
}

/// The refusal or expiry that an entry holds; nothing for entries of other kinds.
pub fn refusal(stored: &StoredEntry) -> Result<Option<Refusal>, LogError> {
    let leaf = stored.leaf()?;
    let (message, hint) = match (leaf.kind, leaf.review) {
        (Kind::Refusal, Some(review)) => {
            let reason = match stored.decode()?.event {
                Event::Refusal { reason, .. } => format!(": {reason}"),
                // Where it was erased, no one says why.
                _ => String::new(),
            };
            let message = format!("{} refused rev_{review}{reason}", leaf.by);
            (message, "a person has decided; act again, under another key, only if something has changed")
        }
        (Kind::Expiry, Some(review)) => {
            let message = format!("rev_{review} expired: no reviewer decided in time");
            (message, "nothing was done; observe and act again, under another key")
        }
        _ => return Ok(None),
    };
    Ok(leaf.review.map(|review| Refusal { review, entry: stored.index, message, hint }))
}

/// The verdict on a parked action that was refused or expired: rejected by that entry, for what it had been parked for.
pub fn of_refused(gate: &Gate, parked: &StoredEntry, refusal: Refusal, receipt: String) -> Result<Verdict, LogError> {
    let Refusal { review, entry, message, hint } = refusal;
    Ok(Verdict {
        verdict: VerdictKind::Rejected,
        entry: Some(entry),
        review: Some(format!("rev_{review}")),
        message: Some(message),
        hint: Some(hint.to_owned()),
        expires_at: None,
        ..of_stored(gate, parked, Some(receipt))?
    })
}
