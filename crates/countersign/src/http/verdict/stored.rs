//! A verdict as an entry's payload holds it.

use super::Said;
use countersign_api::{Evidence, WaivedBy};
use countersign_core::ids::{AgentId, FactId};
use countersign_core::reason::Reason;
use serde::Deserialize;

/// What of an action's payload makes its verdict.
#[derive(Deserialize)]
pub(super) struct StoredPayload {
    /// In an approval, the agent that acts; elsewhere that is the sender.
    agent: Option<AgentId>,
    body: String,
    decision: StoredDecision,
    effect: Option<StoredEffect>,
    #[serde(default)]
    reads: Vec<(FactId, u64)>,
    #[serde(default)]
    writes: Vec<StoredWrite>,
}

impl Said {
    /// Takes over what a payload says.
    pub(super) fn fill(&mut self, payload: StoredPayload) -> Result<(), String> {
        let request: StoredRequest = serde_json::from_str(&payload.body).map_err(|error| error.to_string())?;
        self.action = request.action;
        self.agent = payload.agent.unwrap_or_else(|| self.agent.clone());
        self.reads = payload.reads.into_iter().map(|(fact, _)| fact).collect();
        self.wrote = payload.writes.into_iter().map(Into::into).collect();
        self.dispatch_at = payload.effect.and_then(|effect| effect.dispatch_at);
        let StoredDecision { blocked, expires_at, gap_ms, shadowed, waived_by } = payload.decision;
        (self.blocked, self.shadowed, self.waived_by) = (blocked, shadowed, waived_by);
        (self.expires_at, self.gap_ms) = (expires_at, gap_ms);
        Ok(())
    }
}

/// What of a dispatch's or settlement's payload makes its verdict.
#[derive(Deserialize)]
pub(super) struct StoredOutcome {
    pub(super) blocked: Option<Reason>,
    pub(super) decision: Option<StoredDecision>,
    pub(super) evidence: Option<Evidence>,
    #[serde(default)]
    pub(super) reads: Vec<(FactId, u64)>,
    pub(super) shadowed: Option<Reason>,
    #[serde(default)]
    pub(super) writes: Vec<StoredWrite>,
}

/// A fact that was written, and its version.
#[derive(Deserialize)]
pub(super) struct StoredWrite {
    fact: FactId,
    version: u64,
}

impl From<StoredWrite> for (FactId, u64) {
    fn from(StoredWrite { fact, version }: StoredWrite) -> Self {
        (fact, version)
    }
}

#[derive(Deserialize)]
struct StoredEffect {
    dispatch_at: Option<u64>,
}

/// What of an action's body its verdict depends on.
#[derive(Deserialize)]
struct StoredRequest {
    action: String,
}

#[derive(Deserialize)]
pub(super) struct StoredDecision {
    pub(super) blocked: Option<Reason>,
    expires_at: Option<u64>,
    gap_ms: Option<u64>,
    shadowed: Option<Reason>,
    waived_by: Option<WaivedBy>,
}
