//! Messages between agents: what waits in an inbox, and acknowledging it.

use crate::PactRef;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A page of the caller's inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct InboxPage {
    /// The position of the ledger that it shows.
    pub position: u64,
    /// The messages that are not acknowledged, oldest first.
    pub messages: Vec<ReceivedMessage>,
    /// Where more wait behind these: what to ask for with `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "msg_813"))]
    pub next: Option<String>,
    /// How many wait in all.
    pub waiting: u64,
}

/// A message as its recipient is given it. It comes again, under this name, until it is acknowledged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ReceivedMessage {
    /// Its name, which never changes: a program that has handled it knows it again by this.
    #[cfg_attr(feature = "document", schema(example = "msg_813"))]
    pub message: String,
    /// The entry that delivered it.
    pub entry: u64,
    /// When, in ledger milliseconds.
    pub at: u64,
    /// Who sent it. The gate knows, whatever the message says.
    #[cfg_attr(feature = "document", schema(example = "research-1"))]
    pub from: String,
    /// How that is known: `signature`, `gateway` (signed with a key that a gateway holds), or `none` in an open gate.
    #[cfg_attr(feature = "document", schema(example = "signature"))]
    pub auth: String,
    /// On whose behalf it was sent, root first and the sender last; absent where it was sent in the sender's own right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// The pact that allowed it, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pact: Option<PactRef>,
    /// The action type; absent where it was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "tell"))]
    pub action: Option<String>,
    /// Who approved it, where a person had to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// What it says: parameters that its pact's schema bound; absent where it was erased or is withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(value_type = Option<Object>))]
    pub body: Option<Map<String, Value>>,
    /// Whether it was erased. It can be acknowledged all the same.
    #[serde(default, skip_serializing_if = "is_false")]
    pub erased: bool,
    /// Why it is not handed out now. It comes whole once that is over; acknowledging it forgoes that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<MessageWithheld>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(truth: &bool) -> bool {
    !truth
}

/// Why a message is not handed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct MessageWithheld {
    /// `halted`, or `agent_not_active`: its sender, or someone on whose behalf it was sent, is no longer active.
    #[cfg_attr(feature = "document", schema(example = "halted"))]
    pub code: String,
    /// The scope that is halted, or the agent.
    #[cfg_attr(feature = "document", schema(example = "agent:research-1"))]
    pub what: String,
}

/// Messages that were handled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// Their names.
    #[cfg_attr(feature = "document", schema(min_items = 1, max_items = 1024, example = json!(["msg_813"])))]
    pub messages: Vec<String>,
}

/// What was acknowledged. Asking again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Acknowledged {
    /// The entry; absent where none of the messages still waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// Those that waited, and will not come again.
    pub acknowledged: Vec<String>,
    /// Those that did not wait for this agent: acknowledged before, or no messages to it.
    pub not_waiting: Vec<String>,
    /// How many still wait.
    pub waiting: u64,
    /// The entry's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "rct1.AAAA"))]
    pub receipt: Option<String>,
}
