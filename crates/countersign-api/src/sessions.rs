//! Sessions, what is read in them, and what a verdict says about the readings that an action rests on.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A session that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// A session of the same agent that was cut off, to go on in: if it is still open, it is the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "ses_812"))]
    pub follows: Option<String>,
    /// For front ends: the agent whose session it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "refund-1"))]
    pub agent: Option<String>,
    /// For front ends: what the user said, word for word. A value that is in it is clean, wherever else it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "document", schema(example = json!(["Please refund order 77123 to bob@corp.example"])))]
    pub words: Vec<String>,
    /// For front ends: the action types that the session is for, as PACT/ACTION.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = json!(["billing/refund"])))]
    pub task: Option<Vec<String>>,
    /// For front ends: whether nothing counts in it which its agent was shown before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clean: bool,
}

/// What the user said, to be added to a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WordsRequest {
    /// What the user said, word for word.
    #[cfg_attr(feature = "document", schema(example = json!(["No, to bob@corp.example"])))]
    pub words: Vec<String>,
}

/// What the user said was added to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct WordsAdded {
    /// The session.
    #[cfg_attr(feature = "document", schema(example = "ses_812"))]
    pub session: String,
}

/// A session that was opened, or is gone on in. What is read in it counts for what is done in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct SessionOpened {
    /// Its name.
    #[cfg_attr(feature = "document", schema(example = "ses_812"))]
    pub session: String,
    /// Of a session that is gone on in: everything that was read in it. Which of it had reached the agent is not known, and a call that
    /// was under way may still add to it, so an action names each reading as `unsure`, twice, until it is made again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<String>,
    /// Of a session that is gone on in: its calls that are under way. What they change may be told to no one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "document", schema(example = json!(["eff_813"])))]
    pub open: Vec<String>,
    /// Of a session that is gone on in: its calls that ended in the ten minutes before, oldest first. Their outcomes may not have reached
    /// the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedCall>,
}

/// A call that has ended. Its action tells what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct EndedCall {
    /// Its effect.
    #[cfg_attr(feature = "document", schema(example = "eff_813"))]
    pub effect: String,
    /// The MCP server; absent where it was no tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "bank"))]
    pub upstream: Option<String>,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "pay_out"))]
    pub tool: Option<String>,
}

/// A session that was closed: what was read in it counts no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct SessionClosed {
    /// Its name.
    #[cfg_attr(feature = "document", schema(example = "ses_812"))]
    pub session: String,
}

/// A tool to be read by the gate, in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// The MCP server, by its name in the gate's settings.
    #[cfg_attr(feature = "document", schema(example = "bank"))]
    pub upstream: String,
    /// The tool, which must be approved as one that only reads; `resources/read` for a resource.
    #[cfg_attr(feature = "document", schema(example = "get_account"))]
    pub tool: String,
    /// Its arguments; for a resource, its `uri`.
    #[serde(default)]
    #[cfg_attr(feature = "document", schema(value_type = Object))]
    pub arguments: Map<String, Value>,
}

/// What a tool answered. It is in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ReadResponse {
    /// The session.
    #[cfg_attr(feature = "document", schema(example = "ses_812"))]
    pub session: String,
    /// The entry that keeps it.
    pub entry: u64,
    /// Whether the session has as many readings as are kept, so that this is not among them: writes that would rest on it are refused
    /// (`too_many_readings`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unkept: bool,
    /// When it was read, in ledger milliseconds.
    pub read_at: u64,
    /// What names this reading: the digest of server, tool and arguments.
    pub name: String,
    /// The result as the server sent it, as JSON.
    pub answer: String,
    /// Readings of this session that read differently by now, as far as is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outdated: Vec<Outdated>,
}

/// A reading that reads differently by now. What it reads now is told when it is read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Outdated {
    /// The MCP server.
    pub upstream: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON.
    pub arguments: String,
    /// When that was noticed, in ledger milliseconds.
    pub since: u64,
    /// The effect after which it was noticed, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "eff_813"))]
    pub after: Option<String>,
}

/// What an action that is guarded as read rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct RestsOn {
    /// How many readings of its session. With 0 it was done without having read anything.
    pub rested_on: u64,
    /// Which they are; the first 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountedReading>,
    /// Tools whose answers the session had by then, and that were not asked again because they may change something; the first 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_rechecked: Vec<AnsweringTool>,
    /// What reading them again took in all, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reread_ms: Option<u64>,
    /// Those for which it was refused: that are missing or too old, or could not be read again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_for: Vec<RefusedReading>,
    /// Those that read differently: right before the call, or because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedReading>,
    /// Readings of this session that read differently by now, as far as is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outdated: Vec<Outdated>,
}

/// A tool that has answered in a session and gives no reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct AnsweringTool {
    /// The MCP server.
    pub upstream: String,
    /// The tool.
    pub tool: String,
}

/// A reading that a write rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct CountedReading {
    /// The MCP server.
    pub upstream: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON; absent where they are long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
}

/// A reading for which a write was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct RefusedReading {
    /// The MCP server; absent where the pact names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON; absent where any will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
}

/// A reading that reads differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ChangedReading {
    /// The MCP server.
    pub upstream: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON.
    pub arguments: String,
    /// Set where it is not known which answer reached the agent last. Then no change is claimed: it has to be read again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
    /// What has changed, by path. Where `told` is not set, there may be more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Whether that is all, so that the reading counts as read again. Otherwise the tool has to be read again.
    pub told: bool,
    /// Paths that differ whenever it is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<String>,
}

/// One thing that has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Change {
    /// Where.
    #[cfg_attr(feature = "document", schema(example = "/balance"))]
    pub path: String,
    /// What was there; absent for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What is there now; absent for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
