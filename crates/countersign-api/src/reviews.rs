//! Reviews: actions that wait for a person.

use crate::action::is_false;
use crate::{Change, FailedPrecondition, PactRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ReviewList {
    /// The reviews, oldest first.
    pub reviews: Vec<ReviewSummary>,
}

/// One action that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ReviewSummary {
    /// The review.
    #[cfg_attr(feature = "document", schema(example = "rev_813"))]
    pub review: String,
    /// The entry that parked the action.
    pub entry: u64,
    /// The agent that acts.
    pub agent: String,
    /// The pact.
    pub pact: String,
    /// The action type.
    pub action: String,
    /// When it was parked, in ledger milliseconds.
    pub at: u64,
    /// Until when a person may decide.
    pub expires_at: u64,
}

/// A review as it is shown to a reviewer: everything an approval is bound to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ReviewShown {
    /// What waits.
    #[serde(flatten)]
    pub summary: ReviewSummary,
    /// The action's id: SHA-256 of its raw body.
    pub action_id: String,
    /// Everyone on whose behalf it acts, root first; absent without delegation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// The parameters in canonical form, whole.
    #[cfg_attr(feature = "document", schema(value_type = Object))]
    pub params: Value,
    /// The pact in force.
    pub pact_ref: PactRef,
    /// The facts that the action reads, as the agent observed them and as they are now.
    pub facts: Vec<ReviewFact>,
    /// What the agent had read that the action rests on, where it is guarded as read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<ReviewReading>,
    /// What does not hold now and an approval would waive; nothing else is waived.
    pub waives: Vec<FailedPrecondition>,
    /// Why no approval could commit now, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// When it was shown, in ledger milliseconds. An approval is good for ten minutes at most.
    pub shown_at: u64,
    /// What was shown, sealed; an approval carries it.
    #[cfg_attr(feature = "document", schema(example = "rvw1.AAAA"))]
    pub shown: String,
}

/// A fact that the action reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ReviewFact {
    /// The fact.
    pub fact: String,
    /// Its version now; 0 where there is none, and for external facts.
    pub version: u64,
    /// Of an external fact, the digest of its content as it was read to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Its value now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The version that the agent had observed; absent where it had not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_version: Option<u64>,
    /// The value that the agent had observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_value: Option<Value>,
    /// When, in ledger milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<u64>,
}

/// A reading that the action rests on, as its agent had it when it asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ReviewReading {
    /// The MCP server.
    pub upstream: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON.
    pub arguments: String,
    /// When it was read, in ledger milliseconds.
    pub read_at: u64,
    /// What of its answer is compared, in at most 2 KB; absent where it was too long to keep, or is erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Whether that is not all of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// Whether it was read again since and reads differently, so that no approval can commit: the agent has to ask again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_again: bool,
    /// Where it does, as far as that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// An approval of what was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// What was shown, as it was given out.
    #[cfg_attr(feature = "document", schema(example = "rvw1.AAAA"))]
    pub shown: String,
    /// For how long after it was shown the approval is good; at most, and unless told, ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(value_type = u64, required = false))]
    pub expires_in_ms: Option<u64>,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RefuseRequest {
    /// Why.
    #[cfg_attr(feature = "document", schema(min_length = 1, max_length = 1024))]
    pub reason: String,
}

/// A review that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Refused {
    /// The review.
    pub review: String,
    /// The entry that records it.
    pub entry: u64,
    /// The entry's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}
