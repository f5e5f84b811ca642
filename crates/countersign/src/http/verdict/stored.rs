//! A verdict as an entry's payload holds it.

use super::attribute;
use super::disclosing::{self, Asked};
use countersign_api::{Evidence, FailedPrecondition, FailedRead, Shadowed, Verdict, WaivedBy, Why, Wrote};
use countersign_core::ids::{AgentId, FactId};
use countersign_engine::gate::Gate;
use serde::Deserialize;
use serde_json::Value;

/// What of an action's payload makes its verdict.
#[derive(Deserialize)]
pub(super) struct StoredPayload {
    /// In an approval, the agent that acts; elsewhere that is the sender.
    pub(super) agent: Option<String>,
    pub(super) body: String,
    pub(super) decision: StoredDecision,
    pub(super) effect: Option<StoredEffect>,
    #[serde(default)]
    pub(super) reads: Vec<(String, u64)>,
    #[serde(default)]
    pub(super) writes: Vec<Wrote>,
}

impl StoredPayload {
    /// Leaves out of a verdict what the agent may not see: the sender, or, in an approval, the one who acts.
    /// Gives the action type.
    pub(super) fn disclose(&self, gate: &Gate, verdict: &mut Verdict, sender: AgentId) -> Result<String, String> {
        let request: StoredRequest = serde_json::from_str(&self.body).map_err(|error| error.to_string())?;
        let reads = self.reads.iter().map(|(fact, _)| fact.parse()).collect::<Result<Vec<FactId>, _>>();
        let reads = reads.map_err(|error| error.to_string())?;
        let acting = self.agent.as_deref().map(AgentId::new).transpose().map_err(|error| error.to_string())?;
        let agent = acting.unwrap_or(sender);
        disclosing::disclose(gate, verdict, &Asked { agent: &agent, action: &request.action, reads: &reads });
        Ok(request.action)
    }
}

/// What of a dispatch's or settlement's payload makes its verdict.
#[derive(Deserialize)]
pub(super) struct StoredOutcome {
    pub(super) blocked: Option<StoredBlocked>,
    pub(super) decision: Option<StoredDecision>,
    pub(super) evidence: Option<Evidence>,
    pub(super) shadowed: Option<StoredBlocked>,
    #[serde(default)]
    pub(super) writes: Vec<Wrote>,
}

#[derive(Deserialize)]
pub(super) struct StoredEffect {
    pub(super) dispatch_at: Option<u64>,
}

/// What of an action's body its verdict depends on.
#[derive(Deserialize)]
pub(super) struct StoredRequest {
    pub(super) action: String,
}

#[derive(Deserialize, Clone)]
pub(super) struct StoredDecision {
    pub(super) blocked: Option<StoredBlocked>,
    pub(super) expires_at: Option<u64>,
    pub(super) gap_ms: Option<u64>,
    pub(super) shadowed: Option<StoredBlocked>,
    pub(super) waived_by: Option<WaivedBy>,
}

#[derive(Deserialize, Clone)]
pub(super) struct StoredBlocked {
    pub(super) code: String,
    #[serde(default)]
    pub(super) failed: Vec<StoredFailed>,
    pub(super) hint: String,
    pub(super) message: String,
}

#[derive(Deserialize, Clone)]
pub(super) struct StoredFailed {
    #[serde(default)]
    as_observed: bool,
    pub(super) error: Option<String>,
    pub(super) gap_ms: Option<u64>,
    limit_ms: Option<u64>,
    pub(super) hint: String,
    pub(super) precondition: String,
    pub(super) reads: Vec<StoredRead>,
    pub(super) that: String,
    pub(super) why: Why,
}

#[derive(Deserialize, Clone)]
pub(super) struct StoredRead {
    pub(super) actual: Option<Value>,
    pub(super) attribute: Option<String>,
    pub(super) changed_at: Option<u64>,
    pub(super) changed_by: Option<String>,
    confirmed_at: Option<u64>,
    confirmed_by: Option<String>,
    confirmed_in: Option<u64>,
    digest: Option<String>,
    pub(super) entry: Option<u64>,
    pub(super) expected: Option<Value>,
    pub(super) fact: String,
    observed: bool,
    observed_digest: Option<String>,
    observed_version: Option<u64>,
    read_at: Option<u64>,
    read_in: Option<String>,
    version: Option<u64>,
}

impl From<StoredBlocked> for Shadowed {
    fn from(stored: StoredBlocked) -> Self {
        let StoredBlocked { code, failed, hint, message } = stored;
        Self { code, message, hint, failed: failed.into_iter().map(Into::into).collect() }
    }
}

impl From<StoredFailed> for FailedPrecondition {
    fn from(stored: StoredFailed) -> Self {
        Self {
            precondition: stored.precondition,
            that: stored.that,
            why: stored.why,
            error: stored.error,
            as_observed: stored.as_observed,
            reads: stored.reads.into_iter().map(Into::into).collect(),
            gap_ms: stored.gap_ms,
            limit_ms: stored.limit_ms,
            hint: stored.hint,
        }
    }
}

impl From<StoredRead> for FailedRead {
    fn from(stored: StoredRead) -> Self {
        Self {
            attribute: attribute(&stored.fact, stored.attribute.as_deref()),
            observed: stored.observed,
            withheld: false,
            expected: stored.expected,
            actual: stored.actual,
            observed_version: stored.observed_version,
            observed_digest: stored.observed_digest,
            version: stored.version,
            digest: stored.digest,
            changed_by: stored.changed_by,
            changed_at: stored.changed_at,
            entry: stored.entry,
            confirmed_at: stored.confirmed_at,
            confirmed_by: stored.confirmed_by,
            confirmed_in: stored.confirmed_in,
            read_in: stored.read_in,
            read_at: stored.read_at,
        }
    }
}
