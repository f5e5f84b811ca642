//! How much one hop passes on, and when one scope lies within another.

use crate::identity::KeyName;
use crate::ids::{ActionName, AgentId, FactId, PactName};
use crate::reason::{Listed, ScopeRefusal, Widening};
use crate::value::{Attributes, Value};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// What one hop passes on. What is `None` is not limited by this hop; the hops before it limit it anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// To whom.
    pub to: AgentId,
    /// The key by which that agent is named, and with which it signs if it passes on.
    pub key: KeyName,
    /// The action types; `None` for all.
    pub actions: Option<BTreeSet<(PactName, ActionName)>>,
    /// Limits on parameters, by name.
    pub limits: BTreeMap<SmolStr, Limit>,
    /// The facts that may be written or be the `resource`; `None` for all.
    pub facts: Option<BTreeSet<FactId>>,
    /// From when on it is void, in ledger milliseconds; `None` for never.
    pub expires_at_ms: Option<u64>,
    /// How many times it may be passed on.
    pub depth: u32,
}

/// A limit on one parameter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limit {
    /// The largest integer it may be.
    pub max: Option<i64>,
    /// The values it may have, as text.
    pub one_of: Option<BTreeSet<SmolStr>>,
}

impl Limit {
    /// What is wrong with a value, if anything. A parameter that is absent, or of a kind that cannot be compared, is not
    /// within a limit (I4).
    fn refuses(&self, name: &SmolStr, value: Option<&Value>) -> Option<ScopeRefusal> {
        let name = || name.clone();
        let Some(value) = value else {
            return Some(ScopeRefusal::NoParameter { name: name() });
        };
        if let Some(max) = self.max
            && !all(value, &|value| matches!(value, Value::Long(number) if *number <= max))
        {
            return Some(ScopeRefusal::Maximum { name: name(), max, value: value.clone() });
        }
        let listed = |values: &BTreeSet<SmolStr>, value: &Value| match value {
            Value::String(text) => values.contains(text.as_str()),
            Value::Long(number) => values.contains(number.to_string().as_str()),
            Value::Bool(truth) => values.contains(if *truth { "true" } else { "false" }),
            _ => false,
        };
        if let Some(values) = &self.one_of
            && !all(value, &|value| listed(values, value))
        {
            let (allowed, value) = (Listed::of(values.iter()), value.clone());
            return Some(ScopeRefusal::Value { name: name(), allowed, value });
        }
        None
    }

    /// What of another limit this one does not have within it.
    fn widened_by(&self, name: &SmolStr, child: Option<&Self>) -> Option<Widening> {
        let name = || name.clone();
        let child_max = child.and_then(|child| child.max);
        if let Some(max) = self.max
            && child_max.is_none_or(|child| child > max)
        {
            return Some(Widening::Maximum { name: name(), claimed: child_max, given: max });
        }
        let values = self.one_of.as_ref()?;
        match child.and_then(|child| child.one_of.as_ref()) {
            None => Some(Widening::AnyValue { name: name(), given: Listed::of(values.iter()) }),
            Some(claimed) => {
                let more = || claimed.difference(values);
                more().next().map(|_| Widening::Values { name: name(), claimed: Listed::of(more()) })
            }
        }
    }
}

/// Whether a value, or every element of a set, passes. Records have no order and pass nothing.
fn all(value: &Value, passes: &dyn Fn(&Value) -> bool) -> bool {
    match value {
        Value::Set(items) => items.iter().all(passes),
        value => passes(value),
    }
}

impl Scope {
    /// Why an action with these parameters is not within this scope, if so.
    pub fn refuses(&self, pact: &PactName, action: &ActionName, params: &Attributes) -> Option<ScopeRefusal> {
        if let Some(actions) = &self.actions
            && !actions.iter().any(|(p, a)| p == pact && a == action)
        {
            let names = actions.iter().map(|(pact, action)| format!("{pact}.{action}"));
            let (allowed, asked) = (Listed::of(names), format!("{pact}.{action}").into());
            return Some(ScopeRefusal::Action { allowed, asked });
        }
        self.limits.iter().find_map(|(name, limit)| limit.refuses(name, params.get(name)))
    }

    /// Why a fact is not within this scope, if so.
    pub fn refuses_fact(&self, fact: &FactId) -> Option<ScopeRefusal> {
        let facts = self.facts.as_ref().filter(|facts| !facts.contains(fact))?;
        Some(ScopeRefusal::Fact { allowed: Listed::of(facts.iter()), asked: fact.clone() })
    }

    /// Takes over from the scope it was given within whatever it does not limit itself, since a limit that is left out would
    /// claim more than was given.
    pub fn within(mut self, parent: &Self) -> Self {
        self.actions = self.actions.or_else(|| parent.actions.clone());
        self.facts = self.facts.or_else(|| parent.facts.clone());
        self.expires_at_ms = self.expires_at_ms.or(parent.expires_at_ms);
        for (name, limit) in &parent.limits {
            let own = self.limits.entry(name.clone()).or_default();
            own.max = own.max.or(limit.max);
            own.one_of = own.one_of.take().or_else(|| limit.one_of.clone());
        }
        self
    }
}

/// Whether `child` claims nothing beyond `parent`; if it does, what. Reflexive and transitive, so a chain in which each hop
/// narrows the one before narrows its first.
pub fn narrows(parent: &Scope, child: &Scope) -> Result<(), Widening> {
    let widening = widened_actions(parent, child)
        .or_else(|| parent.limits.iter().find_map(|(name, limit)| limit.widened_by(name, child.limits.get(name))))
        .or_else(|| widened_facts(parent, child))
        .or_else(|| widened_expiry(parent, child));
    match widening {
        Some(widening) => Err(widening),
        None if child.depth > parent.depth => Err(Widening::Depth { claimed: child.depth, given: parent.depth }),
        None => Ok(()),
    }
}

fn widened_actions(parent: &Scope, child: &Scope) -> Option<Widening> {
    let given = parent.actions.as_ref()?;
    let name = |(pact, action): &(PactName, ActionName)| format!("{pact}.{action}");
    let Some(claimed) = &child.actions else {
        return Some(Widening::AnyAction { given: Listed::of(given.iter().map(name)) });
    };
    let more = || claimed.difference(given).map(name);
    more().next().map(|_| Widening::Actions { claimed: Listed::of(more()) })
}

fn widened_facts(parent: &Scope, child: &Scope) -> Option<Widening> {
    let given = parent.facts.as_ref()?;
    let Some(claimed) = &child.facts else { return Some(Widening::AnyFact { given: Listed::of(given.iter()) }) };
    let more = || claimed.difference(given);
    more().next().map(|_| Widening::Facts { claimed: Listed::of(more()) })
}

fn widened_expiry(parent: &Scope, child: &Scope) -> Option<Widening> {
    let (given, claimed) = (parent.expires_at_ms?, child.expires_at_ms);
    claimed.is_none_or(|claimed| claimed > given).then_some(Widening::Expiry { claimed, given })
}
