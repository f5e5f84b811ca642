//! The Cedar schema that follows from a pact.
//!
//! Agents and facts become entity types, each action type becomes an action whose context holds its parameters, its reads
//! as entities, the time, and what was observed. The same text serves the loader's own checks and `pact export`.

use super::reads::Reads;
use super::{ActionType, FactSchema, Params, Presence, Read, ReadingType};
use crate::value::{FieldType, ValueType};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// What the context of one action type is derived from.
pub(super) struct Signature<'a> {
    pub(super) action: &'a str,
    pub(super) params: &'a BTreeMap<SmolStr, FieldType>,
    pub(super) reads: &'a [Read],
    /// The attributes of each read, in the order of `reads`.
    pub(super) schemas: Vec<&'a FactSchema>,
    pub(super) require_observation: bool,
    /// What it sees of readings, by name.
    pub(super) readings: Vec<(&'a SmolStr, &'a FactSchema)>,
    /// Whether it sees labels.
    pub(super) labels: bool,
}

impl<'a> Signature<'a> {
    /// The signature of an action that is being loaded.
    pub(super) fn new(
        action: &'a str,
        params: &'a Params,
        reads: &'a Reads,
        require_observation: bool,
        readings: &'a BTreeMap<SmolStr, Arc<ReadingType>>,
    ) -> Self {
        let schemas = reads.schemas.iter().collect();
        let readings = readings.iter().map(|(name, ty)| (name, &ty.attributes)).collect();
        let (params, reads, labels) = (&params.types, &reads.reads, true);
        Self { action, params, reads, schemas, require_observation, readings, labels }
    }

    /// The signature of an action that was loaded; `schema_of` finds the attributes of a type.
    pub(super) fn of(action: &'a ActionType, schema_of: impl Fn(&Read) -> &'a FactSchema) -> Self {
        Self {
            action: action.name.as_str(),
            params: &action.params.types,
            reads: &action.reads,
            schemas: action.reads.iter().map(schema_of).collect(),
            require_observation: action.require_observation,
            readings: action.readings.iter().map(|(name, ty)| (name, &ty.attributes)).collect(),
            labels: action.inputs.iter().any(|(_, mention)| mention.is_labels()),
        }
    }
}

/// An entity type.
pub(super) fn entity(out: &mut String, name: &str, schema: &FactSchema) {
    let _ = writeln!(out, "entity {name} = {};", record(schema));
}

/// An action and its context. `extra` are further fields of the context, which checks of values use as their targets.
pub(super) fn action(out: &mut String, signature: &Signature<'_>, extra: &[(String, &ValueType)]) {
    let resource = signature.reads.first().map_or("Agent", |read| read.ty.as_str());
    let _ = writeln!(out, "action \"{}\" appliesTo {{", signature.action);
    let _ = writeln!(out, "  principal: [Agent],\n  resource: [{resource}],\n  context: {{");
    for (name, field) in signature.params {
        let _ = writeln!(out, "    {name}{}: {},", mark(field.required), shown(&field.ty));
    }
    // What is yet to be created cannot be named by a condition.
    let named = |read: &&Read| read.presence != Presence::Create;
    for read in signature.reads.iter().skip(1).filter(named) {
        let _ = writeln!(out, "    {}{}: {},", read.name, mark(read.presence != Presence::Optional), read.ty);
    }
    for (name, ty) in extra {
        let _ = writeln!(out, "    {name}: {},", shown(ty));
    }
    if signature.labels {
        out.push_str("    rests_on: { labels: Set<String> },\n    session: { labels: Set<String> },\n");
        let tainted: Vec<String> = signature.params.keys().map(|name| format!("{name}: Set<String>")).collect();
        let _ = writeln!(out, "    tainted: {{ {} }},", tainted.join(", "));
    }
    let _ = writeln!(out, "    actor: Agent,\n    now: Long,\n    observed: {{");
    for (read, schema) in signature.reads.iter().zip(&signature.schemas) {
        // A fact that may be missing may also have been missing when it was observed.
        let always = signature.require_observation && read.presence == Presence::Required;
        if read.presence != Presence::Create {
            let _ = writeln!(out, "      {}{}: {},", read.name, mark(always), record(schema));
        }
    }
    out.push_str("    },\n");
    if !signature.readings.is_empty() {
        out.push_str("    readings: {\n");
        for (name, schema) in &signature.readings {
            let _ = writeln!(out, "      {name}: {},", record(schema));
        }
        out.push_str("    },\n");
    }
    out.push_str("  },\n};\n");
}

fn mark(required: bool) -> &'static str {
    if required { "" } else { "?" }
}

fn record(fields: &BTreeMap<SmolStr, FieldType>) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, field)| format!("{name}{}: {}", mark(field.required), shown(&field.ty))).collect();
    if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
}

fn shown(ty: &ValueType) -> String {
    match ty {
        ValueType::Set(element) => format!("Set<{}>", shown(element)),
        ValueType::Record(fields) => record(fields),
        ValueType::Money(_) => ValueType::Long.to_string(),
        scalar => scalar.to_string(),
    }
}
