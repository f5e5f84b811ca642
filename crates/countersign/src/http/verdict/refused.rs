//! What the agent of a parked action is told after a reviewer has refused it.

use super::of_stored;
use countersign_api::{Verdict, VerdictKind};
use countersign_core::record::Leaf;
use countersign_engine::gate::{Gate, StoredEntry};
use serde::Deserialize;

/// A reviewer's refusal, as its entry has it.
pub struct Refusal {
    /// The entry that parked the action.
    pub review: u64,
    entry: u64,
    by: String,
    /// `None` where it was erased.
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Payload {
    reason: String,
}

/// The refusal that an entry holds; nothing for entries of other kinds.
pub fn refusal(stored: &StoredEntry) -> Result<Option<Refusal>, String> {
    let leaf = Leaf::decode(&stored.leaf).map_err(|error| error.to_string())?;
    let Some(review) = leaf.review.filter(|_| leaf.kind == "refusal") else { return Ok(None) };
    let payload = stored.payload.as_deref().map(serde_json::from_slice::<Payload>).transpose();
    let reason = payload.map_err(|error| error.to_string())?.map(|payload| payload.reason);
    Ok(Some(Refusal { review, entry: stored.index, by: leaf.by, reason }))
}

/// The verdict on a parked action that was refused: rejected by the refusal's entry, for what it had been parked for.
pub fn of_refused(gate: &Gate, parked: &StoredEntry, refusal: Refusal, receipt: String) -> Result<Verdict, String> {
    let Refusal { review, entry, by, reason } = refusal;
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Ok(Verdict {
        verdict: VerdictKind::Rejected,
        entry: Some(entry),
        review: Some(format!("rev_{review}")),
        message: Some(format!("{by} refused rev_{review}{reason}")),
        hint: Some("a person has decided; act anew, under another key, only if something has changed".to_owned()),
        expires_at: None,
        ..of_stored(gate, parked, Some(receipt))?
    })
}
