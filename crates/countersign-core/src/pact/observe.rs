//! Who may observe what: `[observe]`.
//!
//! Without a grant nothing can be observed. A grant names the attributes it shows one by one, or all that this pact
//! declares for the type: an attribute that another pact adds later is never shown by a rule that did not know it.

use super::check::Checker;
use super::diagnostic::{Problems, suggestion};
use super::facts::Facts;
use super::load::known_type;
use super::reads::Reads;
use super::source::{Node, Table, Text, array, kind, shorten, string, table};
use super::{FactSchema, Grant, Params, Presence, Read, params};
use crate::ids::FactType;
use crate::limits::GRANTS_MAX;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

const WHO_HINT: &str = "say who is shown it, for example who = 'principal.roles.contains(\"refunder\")'";
const ATTRIBUTES_HINT: &str = "list what is shown: attributes = [\"status\"], or \"*\" for all that this pact declares";

/// Reads `[observe.TYPE]` and `[[observe.TYPE]]`.
pub(super) fn read<'a>(
    source: &'a str,
    declared: &'a DeTable<'a>,
    facts: &Facts,
    problems: &mut Problems,
) -> BTreeMap<FactType, Vec<Grant>> {
    let mut observe = BTreeMap::new();
    for (key, node) in declared {
        let Some((ty, schema)) = known_type(facts, key.get_ref().as_ref(), &key.span(), problems) else {
            continue;
        };
        let written: Vec<(Range<usize>, Node<'a>)> = match node.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| (item.span(), item)).collect(),
            _ => vec![(key.span(), node)],
        };
        if written.len() > GRANTS_MAX {
            let message =
                format!("a fact type has at most {GRANTS_MAX} grants in one pact, this one has {}", written.len());
            problems.error(&key.span(), message, "join conditions with ||");
            continue;
        }
        let grants = grants(source, &ty, schema, &key.span(), written, problems);
        observe.insert(ty, grants);
    }
    observe
}

/// The grants on one fact type. They see the agent and the fact, so their conditions are checked like those of an action
/// that has no parameters and reads nothing else.
fn grants<'a>(
    source: &'a str,
    ty: &FactType,
    schema: FactSchema,
    span: &Range<usize>,
    written: Vec<(Range<usize>, Node<'a>)>,
    problems: &mut Problems,
) -> Vec<Grant> {
    let Some(none) = params::read(source, None, problems) else {
        return Vec::new();
    };
    let resource = Read {
        name: SmolStr::new_static("resource"),
        ty: ty.clone(),
        template: Vec::new(),
        presence: Presence::Required,
        unchanged: false,
    };
    let reads = Reads { reads: vec![resource], schemas: vec![schema.clone()], spans: vec![span.clone()] };
    let Some(checker) = checker(&none, &reads, span, problems) else {
        return Vec::new();
    };
    let what = format!("the grant on `{ty}`");
    let grant = |(span, node)| grant(source, ty, &schema, &what, span, node, &checker, problems);
    written.into_iter().filter_map(grant).collect()
}

fn checker<'a>(
    params: &'a Params,
    reads: &'a Reads,
    span: &Range<usize>,
    problems: &mut Problems,
) -> Option<Checker<'a>> {
    Checker::new("observe", params, reads, false, span, problems)
}

#[expect(clippy::too_many_arguments, reason = "one grant needs its place, its type and what checks it")]
fn grant<'a>(
    source: &'a str,
    ty: &FactType,
    schema: &FactSchema,
    what: &str,
    span: Range<usize>,
    node: Node<'a>,
    checker: &Checker<'_>,
    problems: &mut Problems,
) -> Option<Grant> {
    let mut body = Table::new(source, table(node, what, problems)?, span, what);
    let doc = body.doc(problems);
    let who = body.required_string("who", WHO_HINT, problems);
    let who = who.and_then(|who| checker.grant(&who, problems));
    if body.get("attributes").is_none() {
        body.missing("attributes", ATTRIBUTES_HINT, problems);
    }
    let attributes = body.get("attributes").and_then(|(_, node)| attributes(source, ty, schema, node, problems));
    body.finish(problems);
    Some(Grant { who: who?, attributes: attributes?, doc })
}

/// The attributes that a grant shows.
fn attributes<'a>(
    source: &'a str,
    ty: &FactType,
    schema: &FactSchema,
    node: Node<'a>,
    problems: &mut Problems,
) -> Option<BTreeSet<SmolStr>> {
    if let DeValue::String(text) = node.get_ref() {
        if text == "*" {
            return Some(schema.keys().cloned().collect());
        }
        let message = format!("`attributes` must be a list or \"*\", not `{}`", shorten(text));
        problems.error(&node.span(), message, ATTRIBUTES_HINT);
        return None;
    }
    if !matches!(node.get_ref(), DeValue::Array(_)) {
        let message = format!("`attributes` must be a list or \"*\", but is {}", kind(node.get_ref()));
        problems.error(&node.span(), message, ATTRIBUTES_HINT);
        return None;
    }
    let items = array(node, "`attributes`", problems)?;
    if items.is_empty() {
        problems.error(&node.span(), "this grant shows no attribute, so it grants nothing", ATTRIBUTES_HINT);
        return None;
    }
    let mut shown = BTreeSet::new();
    let before = problems.errors();
    for item in items {
        if let Some(name) = string(source, item, "an attribute", problems) {
            attribute(ty, schema, &name, &mut shown, problems);
        }
    }
    (problems.errors() == before).then_some(shown)
}

fn attribute(
    ty: &FactType,
    schema: &FactSchema,
    name: &Text<'_>,
    shown: &mut BTreeSet<SmolStr>,
    problems: &mut Problems,
) {
    if !schema.contains_key(name.value) {
        let names: Vec<&str> = schema.keys().map(SmolStr::as_str).collect();
        let message = format!("fact type `{ty}` has no attribute `{}`", shorten(name.value));
        problems.error(&name.content(), message, suggestion(name.value, &names, "use one of"));
    } else if !shown.insert(SmolStr::new(name.value)) {
        let message = format!("attribute `{}` is listed twice", name.value);
        problems.error(&name.content(), message, "list it once");
    }
}
