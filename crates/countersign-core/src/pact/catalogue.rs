//! The fact types of a gate, which all its pacts share.
//!
//! Types are global so that one fact means the same to every pact. They may only grow, and only by optional attributes:
//! a stored fact must stay valid forever, and so must the conditions that were checked against its type.

use super::diagnostic::Disagreement;
use super::{Change, FactSchema, FactSource, Pact, Presence};
use crate::ids::FactType;
use crate::value::{FieldType, ValueType};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of the built-in type of agents.
pub const AGENT: &str = "Agent";

/// The name of the built-in type of operators. Pacts neither read nor write it.
pub const OPERATOR: &str = "Operator";

/// The types of facts in which an admin's word on MCP servers and their tools is kept: which of them are approved, which only read, how
/// they are guarded. The gateway's own pact declares them, and no action writes them (R11).
pub const APPROVED: [&str; 3] = ["McpServer", "McpShadow", "McpTool"];

/// The attributes of the built-in type `Agent`.
pub fn agent_schema() -> FactSchema {
    let required = |ty| FieldType { ty, required: true };
    let optional = |ty| FieldType { ty, required: false };
    BTreeMap::from([
        (SmolStr::new_static("held_by"), optional(ValueType::String)),
        (SmolStr::new_static("key"), optional(ValueType::String)),
        (SmolStr::new_static("old_key"), optional(ValueType::String)),
        (SmolStr::new_static("old_key_until"), optional(ValueType::Long)),
        (SmolStr::new_static("org"), required(ValueType::String)),
        (SmolStr::new_static("roles"), required(ValueType::Set(Box::new(ValueType::String)))),
        (SmolStr::new_static("standing"), required(ValueType::String)),
        (SmolStr::new_static("trust"), required(ValueType::Long)),
    ])
}

/// The attributes of the built-in type `Operator`.
pub fn operator_schema() -> FactSchema {
    let required = |ty| FieldType { ty, required: true };
    let optional = |ty| FieldType { ty, required: false };
    BTreeMap::from([
        (SmolStr::new_static("key"), required(ValueType::String)),
        (SmolStr::new_static("old_key"), optional(ValueType::String)),
        (SmolStr::new_static("old_key_until"), optional(ValueType::Long)),
        (SmolStr::new_static("roles"), required(ValueType::Set(Box::new(ValueType::String)))),
        (SmolStr::new_static("standing"), required(ValueType::String)),
    ])
}

/// The fact types of a gate: `Agent`, `Operator`, and those of all published pacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    types: BTreeMap<FactType, FactSchema>,
    sources: BTreeMap<FactType, Arc<FactSource>>,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalogue {
    /// The catalogue of a gate without pacts.
    pub fn new() -> Self {
        let agent = FactType::new(AGENT).map(|ty| (ty, agent_schema()));
        let operator = FactType::new(OPERATOR).map(|ty| (ty, operator_schema()));
        Self { types: agent.into_iter().chain(operator).collect(), sources: BTreeMap::new() }
    }

    /// All types.
    pub fn types(&self) -> &BTreeMap<FactType, FactSchema> {
        &self.types
    }

    /// Where the facts of a type live, if not in the ledger.
    pub fn source(&self, ty: &FactType) -> Option<&Arc<FactSource>> {
        self.sources.get(ty)
    }

    /// The catalogue after a pact is published, or every reason why it must not be.
    pub fn admit(&self, pact: &Pact) -> Result<Self, Vec<Disagreement>> {
        let (mut types, mut sources) = (self.types.clone(), self.sources.clone());
        let mut refusals = Vec::new();
        for ty in pact.facts.keys().filter(|ty| self.types.contains_key(*ty)) {
            // A query may change; whether a fact is in the ledger or outside may not.
            let adapter = |source: Option<&Arc<FactSource>>| source.map(|source| source.adapter.clone());
            let (before, now) = (adapter(self.sources.get(ty)), adapter(pact.sources.get(ty)));
            if before != now {
                let place = |adapter: Option<SmolStr>| match adapter {
                    Some(adapter) => format!("external, in `{adapter}`"),
                    None => "in the ledger".to_owned(),
                };
                let message = format!("facts of type `{ty}` live {} on this gate, not {}", place(before), place(now));
                refusals
                    .push(Disagreement::new(message, "declare `source` as it is, or choose another name for the type"));
            }
        }
        sources.extend(pact.sources.iter().map(|(ty, source)| (ty.clone(), Arc::clone(source))));
        for (ty, declared) in &pact.facts {
            match types.get_mut(ty) {
                None => {
                    types.insert(ty.clone(), declared.clone());
                }
                Some(existing) => grow(ty, existing, declared, &mut refusals),
            }
        }
        for (ty, required) in self.required_unknown_to(pact) {
            let message = format!(
                "fact type `{ty}` has the required attribute `{required}`, which pact `{}` does not declare although it \
                 creates facts of that type",
                pact.name
            );
            refusals.push(Disagreement::new(message, "declare it and `set` it"));
        }
        if refusals.is_empty() { Ok(Self { types, sources }) } else { Err(refusals) }
    }

    /// Required attributes of types that the pact creates without knowing them.
    fn required_unknown_to(&self, pact: &Pact) -> Vec<(FactType, SmolStr)> {
        let mut unknown = Vec::new();
        for (ty, declared) in &pact.facts {
            let creates = pact.actions.values().any(|action| {
                action.writes.iter().any(|write| {
                    let read = action.reads.get(write.read).filter(|read| read.ty == *ty);
                    read.is_some_and(|read| read.presence != Presence::Required)
                        && matches!(write.change, Change::Set(_))
                })
            });
            let existing = self.types.get(ty).filter(|_| creates);
            for (name, field) in existing.into_iter().flatten() {
                if field.required && !declared.contains_key(name) {
                    unknown.push((ty.clone(), name.clone()));
                }
            }
        }
        unknown
    }
}

fn grow(ty: &FactType, existing: &mut FactSchema, declared: &FactSchema, refusals: &mut Vec<Disagreement>) {
    let shown = |field: &FieldType| format!("{}{}", field.ty, if field.required { "" } else { "?" });
    for (name, field) in declared {
        match existing.get(name) {
            Some(before) if before == field => {}
            Some(before) => {
                let (before, now) = (shown(before), shown(field));
                let message =
                    format!("attribute `{name}` of fact type `{ty}` is already `{before}` on this gate, not `{now}`");
                refusals.push(Disagreement::new(message, "declare it as it is, or choose another name"));
            }
            None if field.required => {
                let message = format!(
                    "fact type `{ty}` already exists on this gate, so its new attribute `{name}` must be optional"
                );
                refusals.push(Disagreement::new(message, format!("write `{name} = \"{}?\"`", field.ty)));
            }
            None => {
                existing.insert(name.clone(), field.clone());
            }
        }
    }
}
