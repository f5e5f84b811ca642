//! The requirements as data: the one place that has their words. `cargo xtask requirements` makes docs/requirements.md of them.

use serde::Deserialize;
use std::sync::LazyLock;

/// The families whose ids have procedures.
const FAMILIES: [&str; 3] = ["AG-097-", "CONC-", "TOOL-"];

/// How far a requirement is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Claim {
    /// Built, with what shows it.
    #[serde(rename = "met")]
    Met,
    /// The row says what is there and what is missing.
    #[serde(rename = "part")]
    Part,
    /// Nothing is claimed.
    #[serde(rename = "not yet")]
    NotYet,
}

/// One requirement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub id: String,
    /// What it asks for.
    pub asks: String,
    /// How far it is met.
    pub state: Claim,
    /// What `conform` does for it, in a sentence.
    pub conform: Option<String>,
    /// What else shows it, or what is missing.
    #[serde(default)]
    pub shown: String,
    /// What is missing, if it is met in part.
    pub missing: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Section {
    #[serde(rename = "row")]
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Document {
    #[serde(rename = "section")]
    sections: Vec<Section>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    // A test reads it; a build that ships has passed that test.
    let document = toml::from_str::<Document>(include_str!("requirements.toml"));
    document
        .map(|document| document.sections.into_iter().flat_map(|section| section.rows).collect())
        .unwrap_or_default()
});

/// The requirements of the families that have procedures, in the order of the document.
pub fn procedural() -> Vec<&'static Row> {
    ROWS.iter().filter(|row| FAMILIES.iter().any(|family| row.id.starts_with(family))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_can_be_read() {
        let document = toml::from_str::<Document>(include_str!("requirements.toml"));
        assert!(document.is_ok(), "{document:?}");
        assert!(procedural().len() > 25);
    }
}
