//! The fact types that a pact declares.

mod external;

use super::catalogue::{AGENT, OPERATOR, agent_schema};
use super::diagnostic::{Problems, suggestion};
use super::source::{Node, Table, array, string, table};
use super::{FactSchema, FactSource, ReadingType};
use crate::decimal::MONEY_SCALE_MAX;
use crate::ids::{FactType, check_identifier};
use crate::labels::{LabelSet, UNTRUSTED, check_label};
use crate::limits::{FACT_TYPES_MAX, LABELS_MAX};
use crate::session::{READING, SESSION, WORDS};
use crate::value::{FieldType, ValueType};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use toml::de::DeTable;

/// Words that Cedar would read as something else than a name.
const CEDAR_WORDS: [&str; 9] = ["true", "false", "if", "then", "else", "in", "is", "like", "has"];

/// Names that mean something else in a Cedar schema.
const CEDAR_TYPES: [&str; 13] = [
    "Action",
    "Bool",
    "Boolean",
    "Long",
    "String",
    "Set",
    "Record",
    "Entity",
    "Extension",
    "ipaddr",
    "decimal",
    "datetime",
    "duration",
];

/// The fact types that the actions of a pact may use: those it declares, and agents.
#[derive(Debug)]
pub(super) struct Facts {
    declared: BTreeMap<FactType, FactSchema>,
    sources: BTreeMap<FactType, Arc<FactSource>>,
    max_staleness: BTreeMap<FactType, u64>,
    labels: BTreeMap<FactType, LabelSet>,
    trusted: BTreeSet<FactType>,
    /// Types of which a part was refused; what uses them is not checked further, since nothing sensible could be said.
    unsound: BTreeSet<SmolStr>,
    agent: FactSchema,
    /// What conditions may ask of readings.
    pub(super) readings: BTreeMap<SmolStr, Arc<ReadingType>>,
}

/// The fact types that a pact itself declares.
pub(super) struct Declared {
    /// Their attributes.
    pub(super) types: BTreeMap<FactType, FactSchema>,
    /// Where those live that are not in the ledger.
    pub(super) sources: BTreeMap<FactType, Arc<FactSource>>,
    /// How long ago their source may have confirmed them.
    pub(super) max_staleness: BTreeMap<FactType, u64>,
    /// The labels of what they say.
    pub(super) labels: BTreeMap<FactType, LabelSet>,
    /// Those whose values are clean wherever else they stand.
    pub(super) trusted: BTreeSet<FactType>,
}

impl Default for Facts {
    fn default() -> Self {
        let (declared, sources, max_staleness) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            declared,
            sources,
            max_staleness,
            labels: BTreeMap::new(),
            trusted: BTreeSet::new(),
            unsound: BTreeSet::new(),
            agent: agent_schema(),
            readings: BTreeMap::new(),
        }
    }
}

impl Facts {
    /// The type of that name and its attributes.
    pub(super) fn get(&self, name: &str) -> Option<(FactType, FactSchema)> {
        let ty = FactType::new(name).ok()?;
        let schema = if name == AGENT { &self.agent } else { self.declared.get(&ty)? };
        Some((ty, schema.clone()))
    }

    /// Whether the type of that name is written down, but not rightly.
    pub(super) fn is_unsound(&self, name: &str) -> bool {
        self.unsound.contains(name)
    }

    /// The names of all types.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.declared.keys().map(FactType::as_str).chain([AGENT])
    }

    /// Where the facts of a type live, if not in the ledger.
    pub(super) fn source(&self, ty: &FactType) -> Option<Arc<FactSource>> {
        self.sources.get(ty).cloned()
    }

    /// How long ago the source of a fact of a type may have confirmed it.
    pub(super) fn max_staleness(&self, ty: &FactType) -> Option<u64> {
        self.max_staleness.get(ty).copied()
    }

    /// What the pact itself declares.
    pub(super) fn into_declared(self) -> Declared {
        Declared {
            types: self.declared,
            sources: self.sources,
            max_staleness: self.max_staleness,
            labels: self.labels,
            trusted: self.trusted,
        }
    }
}

/// Checks the name of an attribute, parameter or read: it must be a name in Cedar too.
pub(super) fn check_name(name: &str, span: &Range<usize>, problems: &mut Problems) -> bool {
    if let Err(error) = check_identifier(name) {
        problems.error(span, error.to_string(), "rename it: conditions must be able to name it");
        return false;
    }
    if CEDAR_WORDS.contains(&name) || name.starts_with("__") {
        problems.error(span, format!("`{name}` cannot be a name: Cedar reserves it"), "rename it");
        return false;
    }
    true
}

/// Reads `[facts.…]`.
pub(super) fn read<'a>(source: &'a str, declared: &'a DeTable<'a>, problems: &mut Problems) -> Facts {
    let mut facts = Facts::default();
    if let Some(key) = declared.keys().nth(FACT_TYPES_MAX) {
        let message = format!("a pact declares at most {FACT_TYPES_MAX} fact types");
        problems.error(&key.span(), message, "split it into several pacts");
    }
    for (key, node) in declared.iter().take(FACT_TYPES_MAX) {
        let name = key.get_ref().as_ref();
        let before = problems.errors();
        let schema = read_type(source, name, &key.span(), node, problems);
        if problems.errors() > before {
            facts.unsound.insert(SmolStr::new(name));
        }
        if let (Some(ReadType { schema, outside, max_staleness_ms, labels, is_trusted }), Ok(ty)) =
            (schema, FactType::new(name))
        {
            facts.labels.extend(Some(labels).filter(|labels| !labels.is_empty()).map(|labels| (ty.clone(), labels)));
            facts.trusted.extend(is_trusted.then(|| ty.clone()));
            facts.sources.extend(outside.map(|source| (ty.clone(), Arc::new(source))));
            facts.max_staleness.extend(max_staleness_ms.map(|ms| (ty.clone(), ms)));
            facts.declared.insert(ty, schema);
        }
    }
    facts
}

/// One fact type as it is written down.
struct ReadType {
    schema: FactSchema,
    outside: Option<FactSource>,
    max_staleness_ms: Option<u64>,
    labels: LabelSet,
    is_trusted: bool,
}

fn read_type<'a>(
    source: &'a str,
    name: &str,
    span: &Range<usize>,
    node: Node<'a>,
    problems: &mut Problems,
) -> Option<ReadType> {
    if name == AGENT {
        let message = "`Agent` is built in and must not be declared";
        problems.error(span, message, "remove it; agents have `roles`, `standing`, `org` and `trust`");
        return None;
    }
    if name == OPERATOR {
        let message = "`Operator` is built in and must not be declared";
        problems.error(span, message, "rename it; who operates the gate is no matter of pacts");
        return None;
    }
    if [SESSION, READING, WORDS].contains(&name) {
        let message = format!("`{name}` is built in and must not be declared");
        problems.error(span, message, "rename it; only the gate writes sessions and readings");
        return None;
    }
    if !check_name(name, span, problems) {
        return None;
    }
    if CEDAR_TYPES.contains(&name) {
        problems.error(span, format!("`{name}` cannot be a fact type: Cedar reserves it"), "rename it");
        return None;
    }
    let what = format!("fact type `{name}`");
    let mut body = Table::new(source, table(node, &what, problems)?, span.clone(), what);
    body.doc(problems);
    if body.get("attributes").is_none() {
        body.missing("attributes", "list them: attributes = { status = \"String\" }", problems);
    }
    let attributes = body.table("attributes", problems);
    let schema = attributes.map(|(_, attributes)| read_attributes(source, attributes, problems));
    let outside = schema.as_ref().and_then(|schema| external::read(source, &mut body, schema, problems));
    let max_staleness_ms = body.duration("max_staleness", problems);
    let labels = match body.get("labels") {
        Some((_, node)) => read_labels(source, "`labels`", node, problems),
        None => LabelSet::new(),
    };
    let is_trusted = body.flag("trusted", problems);
    if is_trusted && labels.contains(UNTRUSTED) {
        let message = format!("`{name}` is declared both trusted and {UNTRUSTED}");
        problems.error(span, message, "a trusted type says what the user may be sent to; remove one of them");
    }
    body.finish(problems);
    Some(ReadType { schema: schema?, outside, max_staleness_ms, labels, is_trusted })
}

/// Reads names of labels: what is known of where content comes from.
pub(super) fn read_labels<'a>(source: &'a str, what: &str, node: Node<'a>, problems: &mut Problems) -> LabelSet {
    let (mut labels, span) = (LabelSet::new(), node.span());
    for item in array(node, what, problems).unwrap_or_default() {
        let Some(text) = string(source, item, &format!("an element of {what}"), problems) else { continue };
        match check_label(text.value) {
            Ok(()) if labels.insert(SmolStr::new(text.value)) => {}
            Ok(()) => problems.error(&text.content(), format!("`{}` is named twice", text.value), "remove one of them"),
            Err(why) => problems.error(&text.content(), why, "use one such as \"untrusted\" or \"confidential\""),
        }
    }
    if labels.len() > LABELS_MAX {
        let message = format!("a gate has at most {LABELS_MAX} names of labels");
        problems.error(&span, message, "name fewer");
    }
    labels
}

pub(super) fn read_attributes<'a>(source: &'a str, attributes: &'a DeTable<'a>, problems: &mut Problems) -> FactSchema {
    let mut schema = FactSchema::new();
    for (key, node) in attributes {
        let name = key.get_ref().as_ref();
        if !check_name(name, &key.span(), problems) {
            continue;
        }
        let Some(text) = string(source, node, &format!("the type of `{name}`"), problems) else {
            continue;
        };
        match field_type(text.value) {
            Some(field) => {
                schema.insert(SmolStr::new(name), field);
            }
            None => {
                let known = ["String", "Long", "Bool", "Money<2>", "decimal", "Set<String>", "Set<Long>", "Set<Bool>"];
                let message = format!("`{}` is not a type of an attribute", super::source::shorten(text.value));
                let base = text.value.trim().trim_end_matches('?');
                problems.error(
                    &text.content(),
                    message,
                    suggestion(base, &known, "add `?` if it may be missing; use one of"),
                );
            }
        }
    }
    schema
}

fn field_type(text: &str) -> Option<FieldType> {
    let text = text.trim();
    let (text, required) = match text.strip_suffix('?') {
        Some(text) => (text.trim_end(), false),
        None => (text, true),
    };
    let ty = match text.strip_prefix("Set<").and_then(|rest| rest.strip_suffix('>')) {
        Some(element) => ValueType::Set(Box::new(scalar(element.trim())?)),
        None => scalar(text)?,
    };
    Some(FieldType { ty, required })
}

fn scalar(text: &str) -> Option<ValueType> {
    match text {
        "String" => Some(ValueType::String),
        "Long" => Some(ValueType::Long),
        "Bool" => Some(ValueType::Bool),
        "decimal" => Some(ValueType::Decimal),
        other => {
            let scale = other.strip_prefix("Money<").and_then(|rest| rest.strip_suffix('>'))?;
            let is_plain = scale == "0" || !scale.starts_with(['0', '+']);
            let scale = scale.parse().ok().filter(|scale| is_plain && *scale <= MONEY_SCALE_MAX);
            scale.map(ValueType::Money)
        }
    }
}
