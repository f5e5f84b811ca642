//! Pacts as they are published.

use crate::Problem;
use serde::{Deserialize, Serialize};

/// All pacts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct PactList {
    /// The pacts by name, each at its current version.
    pub pacts: Vec<PactSummary>,
}

/// One pact, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct PactSummary {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// SHA-256 of its text.
    pub hash: String,
    /// What it is for, in its author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
    /// Its action types.
    pub actions: Vec<String>,
    /// The fact types it declares.
    pub facts: Vec<String>,
}

/// One pact with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct PactResponse {
    /// The pact.
    #[serde(flatten)]
    pub pact: PactSummary,
    /// Its text, exactly as it was published.
    pub source: String,
    /// Its documented preconditions, as Markdown.
    pub manifest: String,
}

/// A pact was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct PactPublished {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// SHA-256 of its text.
    pub hash: String,
    /// The entry.
    pub entry: u64,
    /// The entry's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// What its author should still look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
}

/// A pact that could be published now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct PactChecked {
    /// The pact.
    #[serde(flatten)]
    pub pact: PactSummary,
    /// Whether this very text is published already, so that there is nothing to publish.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// What is worth a look, and stops nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
}
