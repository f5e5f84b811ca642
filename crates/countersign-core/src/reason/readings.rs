//! Readings that a write rests on and that could not be made again, or read differently.

use crate::call::Found;
use crate::ids::{Digest, FactId};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// A reading, as a reason names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingRef {
    pub fact: FactId,
    /// The server.
    pub upstream: SmolStr,
    pub tool: SmolStr,
}

/// A reading that could not be made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadReading {
    #[serde(flatten)]
    pub reading: ReadingRef,
    /// Why; none where it was not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<Found>>,
}

/// A reading that reads differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedReading {
    #[serde(flatten)]
    pub reading: ReadingRef,
    /// The digest that the write rests on; none where it rests on two that differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Digest>,
    /// The digest that was read.
    pub after: Digest,
    /// Whether what it reads now counts as read by the agent, because the difference is told in full.
    pub told: bool,
    /// Where it differs whenever it is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<SmolStr>,
}
