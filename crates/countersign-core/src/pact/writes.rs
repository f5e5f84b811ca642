//! What an action type writes: `set`, `delete`, and facts that it creates.
//!
//! A fact must never come into being without an attribute that its type requires, so whatever may not exist yet
//! (`create`, `optional`) is set completely. Agents are not written by actions at all: an agent must not be able to
//! give itself roles, standing or trust (I8).

use super::catalogue::{AGENT, APPROVED};
use super::check::Checker;
use super::diagnostic::{Problems, suggestion};
use super::facts::read_labels;
use super::reads::Reads;
use super::source::{Node, Table, array, shorten, string};
use super::{Change, Presence, WriteRule};
use crate::expression::Expression;
use crate::labels::LabelSet;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::DeValue;

/// Where `set` gives an attribute: read, attribute, place of the name, expression.
struct Target<'a> {
    read: String,
    attribute: String,
    span: Range<usize>,
    node: Node<'a>,
}

/// Reads `set` and `delete`.
pub(super) fn read<'a>(
    source: &'a str,
    action: &mut Table<'a>,
    reads: &Reads,
    checker: &Checker<'_>,
    problems: &mut Problems,
) -> Vec<WriteRule> {
    let mut sets: BTreeMap<usize, BTreeMap<SmolStr, Option<Expression>>> = BTreeMap::new();
    for target in targets("set", action, problems) {
        let Some(read) = written(&target.read, &target.span, reads, problems) else {
            continue;
        };
        let Some(field) = reads.schemas.get(read).and_then(|schema| schema.get(target.attribute.as_str())) else {
            refuse_attribute(&target, read, reads, problems);
            continue;
        };
        let what = format!("the value of `{}`", target.attribute);
        let text = string(source, target.node, &what, problems);
        let value = text.and_then(|text| checker.value(&text, field, problems));
        // Kept even when it was refused, so that it does not also count as missing.
        let earlier = sets.entry(read).or_default().insert(SmolStr::new(&target.attribute), value);
        if earlier.is_some() {
            let message = format!("`{}.{}` is set twice", target.read, target.attribute);
            problems.error(&target.span, message, "remove one of them");
        }
    }
    let mut endorsed = endorsements(source, action, reads, problems);
    for read in endorsed.keys() {
        sets.entry(*read).or_default();
    }
    // A fact without attributes of its own is created anyway.
    for index in
        (0..reads.reads.len()).filter(|at| reads.reads.get(*at).is_some_and(|r| r.presence == Presence::Create))
    {
        sets.entry(index).or_default();
    }
    complete(&sets, reads, problems);
    let deletes = deletes(source, action, reads, &sets, problems);
    let mut rule = |(read, set): (usize, BTreeMap<SmolStr, Option<Expression>>)| {
        let set = set.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let endorse = endorsed.remove(&read).unwrap_or_default();
        WriteRule { read, change: Change::Set(set), endorse }
    };
    let mut rules: Vec<WriteRule> = sets.into_iter().map(&mut rule).collect();
    rules.extend(deletes.into_iter().map(|read| WriteRule { read, change: Change::Delete, endorse: Vec::new() }));
    rules.sort_by_key(|rule| rule.read);
    rules
}

/// Reads `endorse`: which labels the action takes off attributes of facts that exist.
fn endorsements<'a>(
    source: &'a str,
    action: &mut Table<'a>,
    reads: &Reads,
    problems: &mut Problems,
) -> BTreeMap<usize, Vec<(SmolStr, LabelSet)>> {
    let mut endorsed: BTreeMap<usize, Vec<(SmolStr, LabelSet)>> = BTreeMap::new();
    for target in targets("endorse", action, problems) {
        let Some(read) = written(&target.read, &target.span, reads, problems) else {
            continue;
        };
        if reads.schemas.get(read).is_none_or(|schema| !schema.contains_key(target.attribute.as_str())) {
            refuse_attribute(&target, read, reads, problems);
            continue;
        }
        if reads.reads.get(read).is_some_and(|read| read.presence != Presence::Required) {
            let message = format!("`{}` may not exist, so nothing of it can be endorsed", target.read);
            problems.error(
                &target.span,
                message,
                "endorse only facts that must exist (neither `optional` nor `create`)",
            );
            continue;
        }
        if reads.reads.get(read).is_some_and(|read| read.outside.is_some()) {
            let message = format!("`{}` is external: its source says what it is, not this gate", target.read);
            problems.error(&target.span, message, "endorse a fact that is kept here");
            continue;
        }
        let labels = read_labels(source, "`endorse`", target.node, problems);
        if labels.is_empty() {
            problems.error(&target.span, "`endorse` names no label", "name those to take off: [\"untrusted\"]");
        }
        endorsed.entry(read).or_default().push((SmolStr::new(&target.attribute), labels));
    }
    endorsed
}

/// All targets of `set`, in both spellings: `"to.balance" = …` and `to.balance = …`. Those of `endorse` are written in the same way.
fn targets<'a>(key: &'static str, action: &mut Table<'a>, problems: &mut Problems) -> Vec<Target<'a>> {
    let mut targets = Vec::new();
    let Some((_, set)) = action.table(key, problems) else {
        return targets;
    };
    for (key, node) in set {
        let name = key.get_ref().as_ref();
        match node.get_ref() {
            DeValue::Table(inner) => {
                for (attribute, node) in inner {
                    let (read, attribute, span) = (name.to_owned(), attribute.get_ref().to_string(), attribute.span());
                    targets.push(Target { read, attribute, span, node });
                }
            }
            // What is no string is refused where the expression is read.
            _ => {
                let (read, attribute) = name.split_once('.').unwrap_or(("resource", name));
                let (read, attribute) = (read.to_owned(), attribute.to_owned());
                targets.push(Target { read, attribute, span: key.span(), node });
            }
        }
    }
    targets
}

/// The index of a read that may be written.
fn written(name: &str, span: &Range<usize>, reads: &Reads, problems: &mut Problems) -> Option<usize> {
    let Some(index) = reads.position(name) else {
        let hint = suggestion(name, &reads.names(), "declare it under `reads`, or use one of");
        problems.error(span, format!("`{}` is not a fact that this action reads", shorten(name)), hint);
        return None;
    };
    if reads.reads.get(index).is_some_and(|read| read.ty.as_str() == AGENT) {
        let message = "an action cannot write to an agent";
        problems.error(span, message, "roles, standing, org and trust are given by operators");
        return None;
    }
    if reads.reads.get(index).is_some_and(|read| APPROVED.contains(&read.ty.as_str())) {
        let message = "an action cannot write to what an admin has approved";
        problems.error(span, message, "tools and their guards are approved with `countersign mcp approve`");
        return None;
    }
    Some(index)
}

fn refuse_attribute(target: &Target<'_>, read: usize, reads: &Reads, problems: &mut Problems) {
    let ty = reads.reads.get(read).map(|read| read.ty.to_string()).unwrap_or_default();
    let names: Vec<&str> = reads.schemas.get(read).into_iter().flat_map(|s| s.keys()).map(SmolStr::as_str).collect();
    let message = format!("fact type `{ty}` has no attribute `{}`", shorten(&target.attribute));
    problems.error(&target.span, message, suggestion(&target.attribute, &names, "use one of"));
}

/// Whatever may not exist yet must get every required attribute.
fn complete(sets: &BTreeMap<usize, BTreeMap<SmolStr, Option<Expression>>>, reads: &Reads, problems: &mut Problems) {
    for (index, set) in sets {
        let (Some(read), Some(schema), Some(span)) =
            (reads.reads.get(*index), reads.schemas.get(*index), reads.spans.get(*index))
        else {
            continue;
        };
        if read.presence == Presence::Required {
            continue;
        }
        let missing = schema.iter().filter(|(name, field)| field.required && !set.contains_key(*name));
        let missing: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        if let Some(first) = missing.first() {
            let names = super::diagnostic::list(&missing);
            let message = format!("`{}` may not exist yet, but `set` does not give it {names}", read.name);
            let key = if read.name == "resource" { (*first).to_owned() } else { format!("\"{}.{first}\"", read.name) };
            problems.error(span, message, format!("give every required attribute of `{}`: {key} = \"…\"", read.ty));
        }
    }
}

fn deletes<'a>(
    source: &'a str,
    action: &mut Table<'a>,
    reads: &Reads,
    sets: &BTreeMap<usize, BTreeMap<SmolStr, Option<Expression>>>,
    problems: &mut Problems,
) -> Vec<usize> {
    let mut deletes = Vec::new();
    let Some((_, node)) = action.get("delete") else {
        return deletes;
    };
    for item in array(node, "`delete`", problems).unwrap_or_default() {
        let Some(text) = string(source, item, "an element of `delete`", problems) else {
            continue;
        };
        let Some(index) = written(text.value, &text.content(), reads, problems) else {
            continue;
        };
        let required = reads.reads.get(index).is_some_and(|read| read.presence == Presence::Required);
        if !required {
            let message = format!("`{}` may not exist, so it cannot be deleted", text.value);
            problems.error(
                &text.content(),
                message,
                "delete only facts that must exist (neither `optional` nor `create`)",
            );
        } else if sets.contains_key(&index) {
            let message = format!("`{}` is both set and deleted", text.value);
            problems.error(&text.content(), message, "remove one of them");
        } else if deletes.contains(&index) {
            problems.error(&text.content(), format!("`{}` is deleted twice", text.value), "remove one of them");
        } else {
            deletes.push(index);
        }
    }
    deletes
}
