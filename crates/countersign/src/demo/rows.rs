//! Facts as plain rows: what a service without a gate keeps, and the form in which both worlds' end states are judged.

use anyhow::{Context, Result};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

/// Rows by fact id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows(HashMap<String, Map<String, Json>>);

impl Rows {
    /// Rows from facts written as JSON.
    pub fn parse(facts: &[(&str, &str)]) -> Result<Self> {
        let mut rows = Self::default();
        for (fact, value) in facts {
            rows.put(fact, value)?;
        }
        Ok(rows)
    }

    /// Replaces a row.
    pub fn put(&mut self, fact: &str, value: &str) -> Result<()> {
        let value = serde_json::from_str(value).with_context(|| format!("the value of {fact} is not a JSON object"))?;
        self.0.insert(fact.to_owned(), value);
        Ok(())
    }

    /// Replaces a row by one already parsed.
    pub fn insert(&mut self, fact: String, value: Map<String, Json>) {
        self.0.insert(fact, value);
    }

    /// Sets one attribute.
    pub fn set(&mut self, fact: &str, attribute: &str, value: impl Into<Json>) {
        self.0.entry(fact.to_owned()).or_default().insert(attribute.to_owned(), value.into());
    }

    /// Adds to one attribute.
    pub fn add(&mut self, fact: &str, attribute: &str, amount: i64) {
        let sum = self.long(fact, attribute).saturating_add(amount);
        self.set(fact, attribute, sum);
    }

    /// An integer; 0 where there is none.
    pub fn long(&self, fact: &str, attribute: &str) -> i64 {
        self.get(fact, attribute).and_then(Json::as_i64).unwrap_or_default()
    }

    /// A text; empty where there is none.
    pub fn text(&self, fact: &str, attribute: &str) -> &str {
        self.get(fact, attribute).and_then(Json::as_str).unwrap_or_default()
    }

    /// A truth value; false where there is none.
    pub fn flag(&self, fact: &str, attribute: &str) -> bool {
        self.get(fact, attribute).and_then(Json::as_bool).unwrap_or_default()
    }

    fn get(&self, fact: &str, attribute: &str) -> Option<&Json> {
        self.0.get(fact)?.get(attribute)
    }
}
