//! Sets of values.

use super::Value;
use cedar_policy_core::ast::{Set as CedarSet, Value as CedarValue, ValueKind};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// A set of values, and what Cedar sees of it: built once, since facts are read far more often than written.
#[derive(Debug, Default)]
pub struct Set {
    items: BTreeSet<Value>,
    cedar: OnceLock<CedarValue>,
}

impl Set {
    /// The values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.items.iter()
    }

    /// Whether a value is among them.
    pub fn contains(&self, value: &Value) -> bool {
        self.items.contains(value)
    }

    pub(super) fn to_cedar(&self) -> CedarValue {
        let build = || {
            let set = CedarSet::new(self.items.iter().map(Value::to_cedar));
            CedarValue { value: ValueKind::Set(set), loc: None }
        };
        self.cedar.get_or_init(build).clone()
    }
}

impl FromIterator<Value> for Set {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self { items: items.into_iter().collect(), cedar: OnceLock::new() }
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl Eq for Set {}

impl PartialOrd for Set {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Set {
    fn cmp(&self, other: &Self) -> Ordering {
        self.items.cmp(&other.items)
    }
}
