//! Reading the TOML text of a pact.
//!
//! Total on any text: it answers with a pact or with every problem it has, each at its place and with a hint. It never
//! guesses: unknown keys, names that clash, conditions that do not type-check and reads too narrow for them are refused, so
//! that `decide` meets only pacts in which nothing can be wrong any more (I4).

use super::budgets::named::Named;
use super::catalogue::OPERATOR;
use super::changes::unsaid;
use super::diagnostic::{Diagnostic, Problems, Severity};
use super::source::{Table, shorten};
use super::{ActionType, FactSchema, Pact, action, budgets, call, claims, facts, observe};
use crate::ids::{ActionName, Digest, FactType, PactName};
use crate::limits::{ACTION_TYPES_MAX, INTEGER_MAX, PACT_BYTES_MAX};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::DeTable;

/// A pact that loaded, and what its author should still look at.
#[derive(Debug)]
pub struct Loaded {
    pub pact: Pact,
    /// Problems that do not stop it.
    pub warnings: Vec<Diagnostic>,
}

/// Loads a pact, or says everything that is wrong with it, in the order of the text.
pub fn load(source: &str) -> Result<Loaded, Vec<Diagnostic>> {
    let mut problems = Problems::default();
    let pact = read(source, &mut problems);
    let sound = problems.errors() == 0;
    let found = problems.into_sorted(source);
    match pact {
        Some(pact) if sound => {
            let warnings = found.into_iter().chain(unsaid(&pact, &[])).collect();
            Ok(Loaded { pact, warnings })
        }
        _ if sound => Err(vec![Diagnostic {
            severity: Severity::Error,
            span: 0..0,
            message: "this pact cannot be loaded".into(),
            hint: Some("this is a fault of the loader; please report it with the text of the pact".into()),
        }]),
        _ => Err(found),
    }
}

fn read(source: &str, problems: &mut Problems) -> Option<Pact> {
    if source.len() > PACT_BYTES_MAX {
        let message = format!("a pact has at most {PACT_BYTES_MAX} bytes, this one has {}", source.len());
        problems.error(&(0..0), message, "split it into several pacts; fact types can be shared between them");
        return None;
    }
    let (root, errors) = DeTable::parse_recoverable(source);
    for error in &errors {
        let message = format!("this is not TOML: {}", error.message());
        problems.error(&error.span().unwrap_or(0..0), message, "see https://toml.io for the syntax");
    }
    // A tree that was guessed from broken text would only raise problems that are not there.
    if !errors.is_empty() {
        return None;
    }
    let first_line = 0..source.find('\n').unwrap_or(source.len());
    let mut table = Table::new(source, root.get_ref(), first_line, "this pact");
    let name = name(&mut table, problems);
    let version = version(&mut table, problems);
    let doc = table.doc(problems);
    let readings = match table.table("readings", problems) {
        Some((_, declared)) => super::readings::read(source, declared, problems),
        None => BTreeMap::new(),
    };
    let mut facts = match table.table("facts", problems) {
        Some((_, declared)) => facts::read(source, declared, problems),
        None => facts::Facts::default(),
    };
    facts.readings = readings;
    let named = budgets::named::define(source, &mut table, name.clone(), problems);
    let actions = actions(source, &mut table, &facts, &named, problems);
    let observe = match table.table("observe", problems) {
        Some((_, declared)) => observe::read(source, declared, &facts, problems),
        None => BTreeMap::new(),
    };
    let claims = match table.table("claim", problems) {
        Some((_, declared)) => claims::read(source, declared, &facts, problems),
        None => BTreeMap::new(),
    };
    call::check_undo(&actions, problems);
    table.finish(problems);
    let readings = std::mem::take(&mut facts.readings);
    let facts::Declared { types, sources, max_staleness, labels, trusted } = facts.into_declared();
    Some(Pact {
        name: name?,
        version: version?,
        hash: Digest::of(source.as_bytes()),
        source: source.into(),
        doc,
        facts: types,
        actions,
        observe,
        claims,
        labels,
        trusted,
        sources,
        max_staleness,
        readings,
        budgets: named.into_defined(),
    })
}

fn name(table: &mut Table<'_>, problems: &mut Problems) -> Option<PactName> {
    let text = table.required_string("pact", "start the file with its name: pact = \"billing\"", problems)?;
    match PactName::new(text.value) {
        Ok(name) => Some(name),
        Err(error) => {
            problems.error(&text.content(), error.to_string(), "choose a short name: pact = \"billing\"");
            None
        }
    }
}

fn version(table: &mut Table<'_>, problems: &mut Problems) -> Option<u64> {
    if table.get("version").is_none() {
        table.missing("version", "the first version is 1: version = 1", problems);
    }
    table.integer("version", 1..=INTEGER_MAX, problems).map(i64::unsigned_abs)
}

fn actions(
    source: &str,
    table: &mut Table<'_>,
    facts: &facts::Facts,
    named: &Named,
    problems: &mut Problems,
) -> BTreeMap<ActionName, ActionType> {
    let mut actions = BTreeMap::new();
    if table.get("action").is_none() {
        table.missing("action", "declare what agents may do: [action.refund]", problems);
    }
    let Some((span, declared)) = table.table("action", problems) else {
        return actions;
    };
    if declared.len() > ACTION_TYPES_MAX {
        let message = format!("a pact has at most {ACTION_TYPES_MAX} action types, this one has {}", declared.len());
        problems.error(&span, message, "split it into several pacts");
        return actions;
    }
    for (key, node) in declared {
        let name = match ActionName::new(key.get_ref().as_ref()) {
            Ok(name) => name,
            Err(error) => {
                problems.error(&key.span(), error.to_string(), "rename the action type: [action.refund]");
                continue;
            }
        };
        let what = format!("action `{name}`");
        let Some(body) = super::source::table(node, &what, problems) else {
            continue;
        };
        let body = Table::new(source, body, key.span(), what);
        if let Some(action) = action::read(source, name.clone(), body, facts, named, problems) {
            actions.insert(name, action);
        }
    }
    actions
}

/// The schema of a fact type that a pact may use, or a problem.
pub(super) fn known_type(
    facts: &facts::Facts,
    name: &str,
    span: &Range<usize>,
    problems: &mut Problems,
) -> Option<(FactType, FactSchema)> {
    if facts.is_unsound(name) {
        return None;
    }
    if name == OPERATOR {
        let message = "no action reads or writes `Operator`";
        problems.error(span, message, "who operates the gate is no matter of pacts; use a fact of your own");
        return None;
    }
    let found = facts.get(name);
    if found.is_none() {
        let names: Vec<&str> = facts.names().collect();
        let hint = super::diagnostic::suggestion(name, &names, "declare it as [facts.NAME], or use one of");
        problems.error(span, format!("fact type `{}` is not declared", shorten(name)), hint);
    }
    found
}
