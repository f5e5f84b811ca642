//! Halts: what is stopped, by whom and why.

use serde::{Deserialize, Serialize};

/// What to halt or to resume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HaltRequest {
    /// `all`, `agent:NAME`, `pact:NAME` or `org:NAME`.
    #[cfg_attr(feature = "document", schema(example = "agent:refund-1"))]
    pub scope: String,
    /// Why; it stands in every rejection while the halt lasts.
    #[cfg_attr(feature = "document", schema(min_length = 1, max_length = 1024, example = "paying twice"))]
    pub reason: String,
}

/// A halt or resume that was entered. It holds from its entry on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct HaltEntered {
    /// The scope.
    pub scope: String,
    /// The entry, which for a halt is its epoch: nothing of the scope commits in a later one until it is resumed.
    pub entry: u64,
    /// When, in ledger milliseconds.
    pub at: u64,
    /// How many agents or pacts the scope of a halt names; absent for `all`, and for a resume. With 0 the halt is in force, and stops
    /// nothing that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<u64>,
    /// Where it names none: the name that is closest to it, if one is close.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "refund-1"))]
    pub closest: Option<String>,
    /// The entry's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "document", schema(example = "rct1.AAAA"))]
    pub receipt: Option<String>,
}

/// One halt in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct HaltInForce {
    /// The scope.
    pub scope: String,
    /// Its epoch: the entry that made it.
    pub epoch: u64,
    /// Who halted.
    pub by: String,
    /// When, in ledger milliseconds.
    pub at: u64,
    /// Why.
    pub reason: String,
}

/// What is halted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct HaltList {
    /// The halts in force.
    pub halts: Vec<HaltInForce>,
    /// Effects that were dispatched and are not settled; a halt does not call them back.
    pub in_flight: Vec<InFlight>,
}

/// An effect in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct InFlight {
    /// The effect.
    #[cfg_attr(feature = "document", schema(example = "eff_813"))]
    pub effect: String,
    /// The entry that dispatched it.
    pub entry: u64,
    /// The agent.
    pub agent: String,
    /// The pact.
    pub pact: String,
}
