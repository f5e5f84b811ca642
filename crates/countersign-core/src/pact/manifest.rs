//! The preconditions of every action type as a document for people (AG-097-4.1).
//!
//! Markdown, derived from the loaded pact and nothing else, so the document cannot say more than the gate does.

mod calls;

use super::catalogue::AGENT;
use super::{
    ActionType, Atomicity, BudgetBy, Change, Grant, Limit, LimitRule, Measure, Mode, NamedBudget, Normaliser,
    ObservingBudget, OnFail, Pact, Params, Presence, Read, Require, TemplatePart, Together,
};
use crate::expression::{Base, Mention};
use crate::value::{FieldType, ValueType};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Writes the manifest of a pact.
pub fn manifest(pact: &Pact) -> String {
    let mut out = format!("# Pact `{}`, version {}\n\nSHA-256 `{}`\n", pact.name, pact.version, pact.hash);
    if let Some(doc) = &pact.doc {
        let _ = write!(out, "\n{doc}\n");
    }
    out.push_str("\n## Facts\n\n| type | attributes | atomicity |\n|---|---|---|\n");
    for (ty, schema) in &pact.facts {
        let attributes: Vec<String> =
            schema.iter().map(|(name, field)| format!("`{name}`: {}", typed(field))).collect();
        let source = pact.sources.get(ty);
        let atomicity = pact.atomicity_on(ty).unwrap_or(Atomicity::Atomic).as_str();
        let outside = source.map_or_else(String::new, |source| format!(", external, in `{}`", source.adapter));
        let confirmed = pact.max_staleness.get(ty);
        let confirmed = confirmed.map(|ms| format!(", confirmed by its source at most {} ago", duration(*ms)));
        let confirmed = confirmed.unwrap_or_default();
        let _ = writeln!(out, "| `{ty}` | {} | {atomicity}{outside}{confirmed} |", or_dash(&attributes.join(", ")));
    }
    write_grants(&mut out, pact);
    calls::write_claims(&mut out, pact);
    write_named_budgets(&mut out, pact);
    for action in pact.actions.values() {
        write_action(&mut out, action);
    }
    out
}

fn write_grants(out: &mut String, pact: &Pact) {
    out.push_str("\n## Who may observe what\n\n");
    if pact.observe.values().all(Vec::is_empty) {
        out.push_str("This pact lets no one observe anything.\n");
        return;
    }
    out.push_str("What is not granted is withheld; grants of other pacts add to these.\n\n");
    out.push_str("| facts | attributes | shown to | why |\n|---|---|---|---|\n");
    for (ty, grants) in &pact.observe {
        for Grant { who, attributes, budgets, doc } in grants {
            let attributes: Vec<String> = attributes.iter().map(|name| format!("`{name}`")).collect();
            let doc = cell(doc.as_deref().unwrap_or_default());
            let attributes = attributes.join(", ");
            let shown_to: String = budgets.iter().map(observing).collect();
            let _ = writeln!(out, "| `{ty}` | {attributes} | {}{shown_to} | {} |", code(who.text()), or_dash(&doc));
        }
    }
}

fn observing(budget: &ObservingBudget) -> String {
    let by = match budget.by {
        Together::Agent => "each agent",
        Together::Org => "all agents of an organisation together",
    };
    format!("; to {by} at most {} distinct facts per {}", budget.distinct, duration(budget.per_ms))
}

fn write_action(out: &mut String, action: &ActionType) {
    let _ = write!(out, "\n## Action `{}`\n", action.name);
    if let Some(doc) = &action.doc {
        let _ = write!(out, "\n{doc}\n");
    }
    let mode = match action.mode {
        Mode::Enforce => "enforce: a failed precondition stops the action",
        Mode::Shadow => "**shadow**: a failed precondition is recorded and does not stop the action",
    };
    let _ = write!(out, "\n- Mode: {mode}\n- Who may do it: {}\n", code(action.allow.text()));
    if let Some(trust) = action.min_trust {
        let _ = writeln!(out, "- Least trust of the agent: {trust}");
    }
    if action.require_observation {
        out.push_str("- Every fact it reads must have been observed before\n");
    }
    write_params(out, &action.params);
    write_reads(out, action);
    write_preconditions(out, action);
    write_budgets(out, action);
    write_writes(out, action);
    calls::write_call(out, action);
}

fn write_params(out: &mut String, params: &Params) {
    out.push_str("\n### Parameters\n\n");
    if params.types.is_empty() {
        out.push_str("None.\n");
        return;
    }
    out.push_str("| parameter | type | bounds |\n|---|---|---|\n");
    for (name, field) in &params.types {
        let property = params.lowered.get("properties").and_then(|properties| properties.get(name.as_str()));
        let _ = writeln!(out, "| `{name}` | {} | {} |", cell(&typed(field)), or_dash(&cell(&bounds(property))));
    }
}

/// What a property says beyond its type, as it stands in the schema.
fn bounds(property: Option<&Json>) -> String {
    let Some(Json::Object(property)) = property else {
        return String::new();
    };
    let shown = property.iter().filter(|(key, _)| {
        !key.starts_with("x-")
            && !matches!(
                key.as_str(),
                "type" | "title" | "examples" | "$comment" | "deprecated" | "additionalProperties"
            )
    });
    let bounds: Vec<String> = shown
        .map(|(key, value)| match (key.as_str(), value) {
            ("description", Json::String(text)) => text.clone(),
            _ => format!("{key} `{value}`"),
        })
        .collect();
    bounds.join("; ")
}

fn write_reads(out: &mut String, action: &ActionType) {
    out.push_str(
        "\n### Facts it reads\n\n| name | fact | must exist | attributes used | atomicity |\n|---|---|---|---|---|\n",
    );
    for (index, read) in action.reads.iter().enumerate() {
        let presence = match read.presence {
            Presence::Required => "yes",
            Presence::Optional => "no",
            Presence::Create => "must not: the action creates it",
        };
        let unchanged = if read.unchanged { ", unchanged since it was observed" } else { "" };
        let used = attributes_used(action, index).join(", ");
        let template = code(&template(read, &action.reads));
        let atomicity = action.atomicity_on(read).as_str();
        let _ = writeln!(
            out,
            "| `{}` | {template} | {presence}{unchanged} | {} | {atomicity} |",
            read.name,
            or_dash(&used)
        );
    }
    let mut of_agent = agent_attributes_used(action, Base::Principal);
    if action.min_trust.is_some() && !of_agent.iter().any(|name| name == "`trust`") {
        of_agent.push("`trust`".to_owned());
    }
    let _ =
        writeln!(out, "| `principal` | the agent's own `{AGENT}` | yes | {} | atomic |", or_dash(&of_agent.join(", ")));
    let of_actor = agent_attributes_used(action, Base::Actor);
    if !of_actor.is_empty() {
        let _ =
            writeln!(out, "| `actor` | the acting agent's own `{AGENT}` | yes | {} | atomic |", of_actor.join(", "));
    }
}

fn agent_attributes_used(action: &ActionType, of: Base) -> Vec<String> {
    let attributes = action.attributes().filter(|(base, _)| *base == of);
    let used: BTreeSet<String> = attributes.map(|(_, attribute)| format!("`{attribute}`")).collect();
    used.into_iter().collect()
}

fn attributes_used(action: &ActionType, read: usize) -> Vec<String> {
    let now = action.attributes().filter(|(base, _)| *base == Base::Read(read));
    let mut used: BTreeSet<String> = now.map(|(_, attribute)| format!("`{attribute}`")).collect();
    for (_, mention) in action.expressions().flat_map(|expression| expression.mentions()) {
        if let Mention::Observed(at, attribute) = mention
            && *at == read
        {
            used.insert(format!("`{attribute}` as observed"));
        }
    }
    used.into_iter().collect()
}

/// A template as the author would write it.
pub(super) fn template(read: &Read, reads: &[Read]) -> String {
    let mut out = format!("{}::\"", read.ty);
    for part in &read.template {
        match part {
            TemplatePart::Literal(text) => {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                out.push_str(&text.replace('{', "{{").replace('}', "}}"));
            }
            TemplatePart::Param { name, normalisers } => {
                let _ = write!(out, "{{{name}{}}}", piped(normalisers));
            }
            TemplatePart::Attribute { read, attribute, normalisers } => {
                let name = reads.get(*read).map_or("", |read| read.name.as_str());
                let _ = write!(out, "{{{name}.{attribute}{}}}", piped(normalisers));
            }
        }
    }
    out.push('"');
    out
}

fn piped(normalisers: &[Normaliser]) -> String {
    normalisers.iter().map(|one| format!("|{}", one.name())).collect()
}

fn write_preconditions(out: &mut String, action: &ActionType) {
    out.push_str("\n### Preconditions\n\nAll must hold at the instant the action takes effect.\n\n");
    out.push_str("| id | condition | observation at most | otherwise | why |\n|---|---|---|---|---|\n");
    for Require { id, doc, that, stale_after_ms, max_staleness_ms, on_fail } in &action.require {
        let stale = stale_after_ms.map_or_else(|| "any age".to_owned(), |ms| format!("{} old", duration(ms)));
        let confirmed = max_staleness_ms.map(|ms| format!("; confirmed by its source at most {} ago", duration(ms)));
        let stale = stale + &confirmed.unwrap_or_default();
        let otherwise = match on_fail {
            OnFail::Reject => "rejected",
            OnFail::Review => "a person decides",
            OnFail::RejectAlways => "rejected, in shadow mode too",
        };
        let doc = cell(doc.as_deref().unwrap_or_default());
        let _ = writeln!(out, "| `{id}` | {} | {stale} | {otherwise} | {} |", code(that.text()), or_dash(&doc));
    }
}

fn write_budgets(out: &mut String, action: &ActionType) {
    if action.budgets.is_empty() {
        return;
    }
    out.push_str("\n### Budgets\n\n| id | adds up | at most | per | shared by |\n|---|---|---|---|---|\n");
    for budget in &action.budgets {
        let what = match &budget.measure {
            Measure::Count => "actions".to_owned(),
            Measure::Sum(param) => format!("`{param}`"),
        };
        let rest = match &budget.limit {
            LimitRule::Own(Limit { max, per_ms, by }) => {
                let by = match by {
                    BudgetBy::Agent => "each agent has its own",
                    BudgetBy::All => "all agents under the pact",
                };
                format!("{max} | {} | {by}", duration(*per_ms))
            }
            LimitRule::Named(owner) => format!("as pact `{owner}` says | | all that charge it"),
        };
        let _ = writeln!(out, "| `{}` | {what} | {rest} |", budget.id);
    }
}

fn write_named_budgets(out: &mut String, pact: &Pact) {
    if pact.budgets.is_empty() {
        return;
    }
    out.push_str(
        "\n## Named budgets\n\n| name | adds up | at most | per | shared by | why |\n|---|---|---|---|---|---|\n",
    );
    for (name, NamedBudget { doc, is_count, scale, limit }) in &pact.budgets {
        let what = match scale {
            _ if *is_count => "actions".to_owned(),
            Some(scale) => format!("money with {scale} digits behind its point, in its smallest unit"),
            None => "a parameter of each".to_owned(),
        };
        let by = match limit.by {
            BudgetBy::Agent => "all that an agent charges to it",
            BudgetBy::All => "all that charge it",
        };
        let (doc, per) = (cell(doc.as_deref().unwrap_or_default()), duration(limit.per_ms));
        let _ = writeln!(out, "| `{name}` | {what} | {} | {per} | {by} | {} |", limit.max, or_dash(&doc));
    }
}

fn write_writes(out: &mut String, action: &ActionType) {
    out.push_str("\n### What it writes\n\n");
    match (&action.call, action.writes.is_empty()) {
        (None, true) => out.push_str("Nothing; its verdict is recorded.\n"),
        (Some(_), true) => out.push_str("Nothing here; see its call.\n"),
        (Some(_), false) => out.push_str("When its call is settled:\n\n"),
        (None, false) => {}
    }
    for write in &action.writes {
        let Some(read) = action.reads.get(write.read) else {
            continue;
        };
        match &write.change {
            Change::Delete => {
                let _ = writeln!(out, "- deletes `{}`", read.name);
            }
            Change::Set(set) => {
                if read.presence == Presence::Create {
                    let _ = writeln!(out, "- creates `{}`", read.name);
                }
                for (attribute, value) in set {
                    let _ = writeln!(out, "- `{}.{attribute}` becomes {}", read.name, code(value.text()));
                }
            }
        }
    }
}

fn typed(field: &FieldType) -> String {
    let ty = match &field.ty {
        ValueType::Record(_) => format!("`{}`", field.ty),
        plain => plain.to_string(),
    };
    if field.required { ty } else { format!("{ty}, optional") }
}

/// Milliseconds in the largest unit that divides them.
fn duration(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let unit = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

/// Text as it may stand in a cell of a table: on one line, without bars.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Code on one line; enough backticks round it that it can hold some itself.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", cell(text))
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}
