//! Who is registered.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct AgentList {
    /// The agents, by name.
    pub agents: Vec<Registered>,
}

/// All operators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct OperatorList {
    /// The operators, by name.
    pub operators: Vec<Registered>,
}

/// Who the gate takes a caller for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct CallerResponse {
    /// Whether the gate goes by signatures; an open one does not know who calls.
    pub identified: bool,
    /// Which log the gate writes: the hash of its first entry, in hexadecimal. A gate that is set up anew at the same address has another.
    #[cfg_attr(
        feature = "document",
        schema(example = "c6c5d6a2f1b6c1f5be1cbdd7a7d7d3ed44a9e9b4b0f0b4b5b5e7fd0fd1b3bd9c")
    )]
    pub log: String,
    /// The name of the agent or operator who signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `agent` or `operator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// An agent or operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Registered {
    /// The name.
    pub name: String,
    /// The version of its fact.
    pub version: u64,
    /// Its fact: roles, standing, keys, and for agents organisation and trust.
    #[cfg_attr(feature = "document", schema(value_type = Object))]
    pub value: Value,
    /// When that was written, in ledger milliseconds.
    pub written_at: u64,
    /// Who wrote it.
    pub written_by: String,
}

/// Rights that were not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct UnusedRights {
    /// Since when they were not used, in ledger milliseconds.
    pub since: u64,
    /// How many entries were read to find out.
    pub entries: u64,
    /// By agent, pact and action type. Those that an agent has had for less are not among them.
    pub rights: Vec<UnusedRight>,
}

/// An action type that an agent could do, by its roles and its trust, and did not ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct UnusedRight {
    /// The agent.
    pub agent: String,
    /// The pact.
    pub pact: String,
    /// The action type.
    pub action: String,
    /// Since when the agent has the roles that it has, in ledger milliseconds.
    pub held_since: u64,
    /// An entry of this agent under this pact whose payload is erased: it may have been of this action type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maybe_used_in: Option<u64>,
}
