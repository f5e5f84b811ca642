//! Readings that conditions ask about and that cannot be decided on.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// A reading that conditions ask about, and that is not there as the pact declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusableReading {
    /// Its name in the pact.
    pub name: SmolStr,
    /// The server.
    pub upstream: SmolStr,
    pub tool: SmolStr,
    /// Why it cannot be decided on.
    pub why: Unusable,
}

/// Why conditions cannot ask about a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unusable {
    /// It was not read in the session.
    NotRead,
    /// It was too long to keep, and its digest says nothing.
    DigestOnly,
    /// There is no object at the declared place.
    NoSuchPlace,
    /// An attribute is missing, or of another type.
    OtherType,
    /// It was read again since the action was asked for, and which reading was the latest then is not known any more.
    ReadMeanwhile,
    /// Its latest answer may not have reached the agent, which then knows another or none.
    NotArrived,
}
