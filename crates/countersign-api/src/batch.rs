//! Several actions at once, under one signature.

use crate::{ActionRequest, Verdict};
use serde::{Deserialize, Serialize};

/// The body of a batch: actions, each in the very form in which it could be sent alone. The raw text of each, without the spaces
/// around it, is its body: SHA-256 of that is the action's id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "document", schema(min_items = 1, max_items = 256))]
pub struct BatchRequest(pub Vec<ActionRequest>);

/// What came of each action of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct BatchResponse {
    /// The entry that keeps the signature of the batch, or of the group that was rejected; absent where nothing new was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// One for each action, in their order.
    pub results: Vec<BatchResult>,
}

/// What came of one action of a batch: its verdict, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum BatchResult {
    /// It was decided.
    Verdict(Box<Verdict>),
    /// It was not.
    Refused(ActionRefused),
}

/// An action of a batch that was not decided, for whichever reason it would not have been alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ActionRefused {
    /// Why.
    pub error: ActionError,
}

/// Why an action of a batch was not decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ActionError {
    /// The stable code.
    #[cfg_attr(feature = "document", schema(value_type = crate::ErrorCode))]
    pub code: String,
    /// The cause, for people.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// The entry that is in the way: of `idempotency_key_reused`, the one that was made under the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
}
