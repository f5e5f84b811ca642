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
use super::{FactSchema, Grant, ObservingBudget, Presence, Read, Together, params};
use crate::ids::FactType;
use crate::limits::{GRANTS_MAX, OBSERVING_BUDGETS_MAX, OBSERVING_DISTINCT_MAX, OBSERVING_PER_MS_MAX};
use crate::utc::Span;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

const WHO_HINT: &str = "say who is shown it, for example who = 'principal.roles.contains(\"refunder\")'";
const ATTRIBUTES_HINT: &str = "list what is shown: attributes = [\"status\"], or \"*\" for all that this pact declares";

/// Who may share a budget on observing.
const TOGETHER: [(&str, Together); 2] = [("agent", Together::Agent), ("org", Together::Org)];

/// Reads `[observe.TYPE]` and `[[observe.TYPE]]`.
pub(super) fn read<'a>(
    source: &'a str,
    declared: &'a DeTable<'a>,
    facts: &Facts,
    problems: &mut Problems,
) -> BTreeMap<FactType, Vec<Grant>> {
    let grants = by_type(source, declared, facts, "the grant on", problems, |(ty, schema), body, checker, problems| {
        grant(source, ty, schema, body, checker, problems)
    });
    refuse_alike(declared, &grants, problems);
    grants
}

/// Reads rules about agents and the facts of one type. They see the agent and the fact, so their conditions are checked
/// like those of an action that has no parameters and reads nothing else.
pub(super) fn by_type<'a, T>(
    source: &'a str,
    declared: &'a DeTable<'a>,
    facts: &Facts,
    what: &str,
    problems: &mut Problems,
    one: impl Fn((&FactType, &FactSchema), Table<'a>, &Checker<'_>, &mut Problems) -> Option<T>,
) -> BTreeMap<FactType, Vec<T>> {
    let (mut rules, no_readings) = (BTreeMap::new(), BTreeMap::new());
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
        let Some(none) = params::read(source, None, problems) else { continue };
        let reads = resource_alone(&ty, &schema, &key.span());
        let Some(checker) = Checker::new("observe", &none, &reads, false, &no_readings, &key.span(), problems) else {
            continue;
        };
        let what = format!("{what} `{ty}`");
        let rule = |(span, node)| {
            let body = Table::new(source, table(node, &what, problems)?, span, what.as_str());
            one((&ty, &schema), body, &checker, problems)
        };
        let found = written.into_iter().filter_map(rule).collect();
        rules.insert(ty.clone(), found);
    }
    rules
}

fn resource_alone(ty: &FactType, schema: &FactSchema, span: &Range<usize>) -> Reads {
    let resource = Read {
        name: SmolStr::new_static("resource"),
        ty: ty.clone(),
        template: Vec::new(),
        presence: Presence::Required,
        unchanged: false,
        outside: None,
        max_staleness_ms: None,
    };
    Reads { reads: vec![resource], schemas: vec![schema.clone()], spans: vec![span.clone()] }
}

fn grant<'a>(
    source: &'a str,
    ty: &FactType,
    schema: &FactSchema,
    mut body: Table<'a>,
    checker: &Checker<'_>,
    problems: &mut Problems,
) -> Option<Grant> {
    let doc = body.doc(problems);
    let who = body.required_string("who", WHO_HINT, problems);
    let who = who.and_then(|who| checker.grant(&who, problems));
    if body.get("attributes").is_none() {
        body.missing("attributes", ATTRIBUTES_HINT, problems);
    }
    let attributes = body.get("attributes").and_then(|(_, node)| attributes(source, ty, schema, node, problems));
    let budgets = budgets(source, &mut body, problems);
    body.finish(problems);
    Some(Grant { who: who?, attributes: attributes?, budgets: budgets?, doc })
}

/// Reads `budget`: one table or a list of them.
fn budgets<'a>(source: &'a str, grant: &mut Table<'a>, problems: &mut Problems) -> Option<Vec<ObservingBudget>> {
    let Some((span, node)) = grant.get("budget") else { return Some(Vec::new()) };
    let nodes: Vec<Node<'a>> = match node.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![node],
    };
    if nodes.len() > OBSERVING_BUDGETS_MAX {
        let message = format!("a grant has at most {OBSERVING_BUDGETS_MAX} budgets, this one has {}", nodes.len());
        problems.error(&span, message, "keep the narrowest ones");
        return None;
    }
    nodes.into_iter().map(|node| budget(source, node, problems)).collect()
}

fn budget<'a>(source: &'a str, node: Node<'a>, problems: &mut Problems) -> Option<ObservingBudget> {
    let what = "this budget on observing";
    let mut body = Table::new(source, table(node, "a budget on observing", problems)?, node.span(), what);
    for (key, hint) in [
        ("distinct", "say how many distinct facts one window shows: distinct = 50"),
        ("per", "say how long a window is: per = \"1d\""),
        ("by", "say who shares it: by = \"agent\", or by = \"org\" for all agents of an organisation together"),
    ] {
        if body.get(key).is_none() {
            body.missing(key, hint, problems);
        }
    }
    let distinct = body.integer("distinct", 1..=OBSERVING_DISTINCT_MAX, problems);
    let span = body.get("per").map_or_else(|| node.span(), |(span, _)| span);
    let per_ms = body.duration("per", problems);
    let by = body.choice("by", &TOGETHER, problems);
    body.finish(problems);
    let per_ms = per_ms?;
    if per_ms > OBSERVING_PER_MS_MAX {
        let message = format!("a window of observing is at most {} long", Span(OBSERVING_PER_MS_MAX));
        problems.error(
            &span,
            message,
            "what counts to an open window is kept, and cannot be erased: choose a shorter one",
        );
        return None;
    }
    Some(ObservingBudget { distinct: u64::try_from(distinct?).ok()?, per_ms, by: by? })
}

/// What counts to a budget is told by its pact, type, sharer and window: two that have all of these would count together.
fn refuse_alike(declared: &DeTable<'_>, grants: &BTreeMap<FactType, Vec<Grant>>, problems: &mut Problems) {
    for (key, _) in declared {
        let budgets: Vec<&ObservingBudget> = grants
            .iter()
            .filter(|(ty, _)| ty.as_str() == key.get_ref().as_ref())
            .flat_map(|(_, grants)| grants.iter().flat_map(|grant| &grant.budgets))
            .collect();
        let is_alike = |(at, budget): (usize, &&ObservingBudget)| {
            budgets.iter().skip(at + 1).any(|other| (other.by, other.per_ms) == (budget.by, budget.per_ms))
        };
        if budgets.iter().enumerate().any(is_alike) {
            let message = format!("two budgets on observing `{}` have the same `by` and `per`", key.get_ref());
            problems.error(&key.span(), message, "keep one of them, or give them windows of different length");
        }
    }
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
