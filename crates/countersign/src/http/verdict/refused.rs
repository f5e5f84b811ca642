//! What the agent of a parked action is told after a reviewer has refused it, or no one has decided in time.

use super::of_stored;
use countersign_api::{Verdict, VerdictKind};
use countersign_core::record::{Kind, Leaf};
use countersign_engine::gate::{Gate, StoredEntry};
use serde::Deserialize;

/// How a parked action ended without being executed, as the entry of that has it.
pub struct Refusal {
    /// The entry that parked the action.
    pub review: u64,
    entry: u64,
    message: String,
    hint: &'static str,
}

#[derive(Deserialize)]
struct Payload {
    reason: String,
}

/// The refusal or expiry that an entry holds; nothing for entries of other kinds.
pub fn refusal(stored: &StoredEntry) -> Result<Option<Refusal>, String> {
    let leaf = Leaf::decode(&stored.leaf).map_err(|error| error.to_string())?;
    let (message, hint) = match (leaf.kind, leaf.review) {
        (Kind::Refusal, Some(review)) => {
            let payload = stored.payload.as_deref().map(serde_json::from_slice::<Payload>).transpose();
            // Where it was erased, no one says why.
            let reason = payload.map_err(|error| error.to_string())?.map(|payload| format!(": {}", payload.reason));
            let message = format!("{} refused rev_{review}{}", leaf.by, reason.unwrap_or_default());
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
pub fn of_refused(gate: &Gate, parked: &StoredEntry, refusal: Refusal, receipt: String) -> Result<Verdict, String> {
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
