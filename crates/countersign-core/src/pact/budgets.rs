//! Budgets: how much or how often, per window of time.

pub mod named;

use super::action::Ids;
use super::diagnostic::{Problems, suggestion};
use super::source::{Node, Table, Text, shorten, table};
use super::{Budget, BudgetBy, Limit, LimitRule, Measure, Params};
use crate::limits::{BUDGETS_MAX, INTEGER_MAX};
use crate::value::ValueType;
use named::Named;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::ops::Range;
use toml::de::DeValue;

/// Who may share a budget of an action type.
const BY: [(&str, BudgetBy); 2] = [("agent", BudgetBy::Agent), ("pact", BudgetBy::All)];

/// Reads `budget`: one table or a list of them.
pub(super) fn read<'a>(
    source: &'a str,
    action: &mut Table<'a>,
    params: Option<&Params>,
    named: &Named,
    ids: &mut Ids,
    problems: &mut Problems,
) -> Vec<Budget> {
    let Some((span, node)) = action.get("budget") else {
        return Vec::new();
    };
    let nodes: Vec<Node<'a>> = match node.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![node],
    };
    if nodes.len() > BUDGETS_MAX {
        let message = format!("an action has at most {BUDGETS_MAX} budgets, this one has {}", nodes.len());
        problems.error(&span, message, "keep the narrowest ones");
        return Vec::new();
    }
    nodes.into_iter().filter_map(|node| one(source, node, params, named, ids, problems)).collect()
}

fn one<'a>(
    source: &'a str,
    node: Node<'a>,
    params: Option<&Params>,
    named: &Named,
    ids: &mut Ids,
    problems: &mut Problems,
) -> Option<Budget> {
    let body = table(node, "a budget", problems)?;
    let mut body = Table::new(source, body, node.span(), "this budget");
    let name = body.string("name", problems);
    let of = body.string("of", problems);
    let count = body.flag("count", problems);
    let sum = body.string("sum", problems);
    let span = body.span.clone();
    let measure = match (count, sum) {
        (true, None) => Some(Measure::Count),
        (false, Some(text)) => summed(&text, params, problems).map(Measure::Sum),
        _ => {
            let message = "a budget adds up exactly one thing";
            problems.error(&span, message, "write either count = true, or sum = \"amount\"");
            None
        }
    };
    if let Some(name) = name {
        body.finish(problems);
        let measure = measure?;
        let scale = scale_of(&measure, params);
        let limit = named::charged(&name, of.as_ref(), (&measure, scale), named, problems)?;
        return Some(Budget { id: ids.take(&name, problems)?, measure, scale, limit });
    }
    if let Some(of) = of {
        problems.error(&of.span, "`of` says whose a named budget is", "write its name: name = \"outflow\"");
    }
    let id = body.string("id", problems);
    let per = body.string("per", problems).map(|text| text.value.to_owned());
    let limit = limit(&mut body, &BY, "by = \"pact\" for all agents together", problems);
    body.finish(problems);
    let (measure, limit) = (measure?, limit?);
    let id = match id {
        Some(text) => ids.take(&text, problems)?,
        None => {
            let by_word = BY.iter().find(|(_, choice)| *choice == limit.by);
            let by_word = by_word.map_or("", |(word, _)| *word);
            made_up_id(&measure, &per.unwrap_or_default(), by_word, &span, ids, problems)?
        }
    };
    Some(Budget { id, scale: scale_of(&measure, params), measure, limit: LimitRule::Own(limit) })
}

/// How many digits behind the point the units of what is added up have, where it is money.
fn scale_of(measure: &Measure, params: Option<&Params>) -> Option<u8> {
    let Measure::Sum(name) = measure else { return None };
    match params?.types.get(name)?.ty {
        ValueType::Money(scale) => Some(scale),
        _ => None,
    }
}

/// How much one window holds, how long it is and who shares it.
fn limit(
    body: &mut Table<'_>,
    choices: &[(&'static str, BudgetBy)],
    together: &str,
    problems: &mut Problems,
) -> Option<Limit> {
    for (key, hint) in
        [("max", "say how much one window may hold: max = 2000000"), ("per", "say how long a window is: per = \"1d\"")]
    {
        if body.get(key).is_none() {
            body.missing(key, hint, problems);
        }
    }
    let max = body.integer("max", 1..=INTEGER_MAX, problems);
    let per_ms = body.duration("per", problems);
    if body.get("by").is_none() {
        let hint = format!("say who shares it: by = \"agent\", or {together}");
        body.missing("by", &hint, problems);
    }
    let by = body.choice("by", choices, problems);
    Some(Limit { max: max?, per_ms: per_ms?, by: by? })
}

/// An id that says what the budget is; two budgets alike need ids of their own.
fn made_up_id(
    measure: &Measure,
    per: &str,
    by: &str,
    span: &Range<usize>,
    ids: &mut Ids,
    problems: &mut Problems,
) -> Option<SmolStr> {
    let what = match measure {
        Measure::Count => "count",
        Measure::Sum(param) => param.as_str(),
    };
    let made_up = format!("{what}-per-{per}-by-{by}");
    let id = ids.take_default(&made_up);
    if id.is_none() {
        let message = format!("the id `{made_up}` is already taken in this action");
        problems.error(span, message, "give it an `id`");
    }
    id
}

/// A parameter that can be added up: always there, whole, and never negative, which would give budget back.
fn summed(text: &Text<'_>, params: Option<&Params>, problems: &mut Problems) -> Option<SmolStr> {
    let params = params?;
    let name = SmolStr::new(text.value);
    let Some(field) = params.types.get(&name) else {
        let names: Vec<&str> = params.types.keys().map(SmolStr::as_str).collect();
        let hint = suggestion(&name, &names, "declare it under `params`, or use one of");
        problems.error(&text.content(), format!("`{}` is not a parameter of this action", shorten(&name)), hint);
        return None;
    };
    if !matches!(field.ty, ValueType::Long | ValueType::Money(_)) || !field.required {
        let message = format!("`{name}` cannot be added up: it must be a required integer, or money");
        problems.error(&text.content(), message, format!("make it an integer and add \"{name}\" to `required`"));
        return None;
    }
    if !never_negative(&params.lowered, &name) {
        let message = format!("`{name}` could be negative and give budget back");
        problems.error(&text.content(), message, format!("add minimum = 0 or more to the parameter `{name}`"));
        return None;
    }
    Some(name)
}

fn never_negative(schema: &Json, name: &str) -> bool {
    let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) else {
        return false;
    };
    let at_least = |key: &str, least: i64| property.get(key).and_then(Json::as_i64).is_some_and(|n| n >= least);
    let listed = property.get("enum").and_then(Json::as_array);
    at_least("minimum", 0)
        || at_least("exclusiveMinimum", -1)
        || at_least("const", 0)
        || listed.is_some_and(|values| values.iter().all(|value| value.as_i64().is_some_and(|n| n >= 0)))
}
