//! What an approver is shown: whole definitions, what has changed in them, what becomes of each tool, and which of them count as reading.

use super::changes::changes;
use super::facts::current;
use super::{Planned, Terms};
use crate::client::{Call, Client};
use crate::commands::screened::found_in_json;
use crate::commands::{Connection, fact_path, is_refused_as};
use crate::config::Config;
use crate::mcp::draft::only_reads;
use crate::mcp::gate::{AS_READ, tool_fact};
use crate::mcp::settings::Guard;
use crate::mcp::shell::word;
use crate::mcp::tool::Tool;
use crate::terminal::{inline, note, say};
use anyhow::{Context as _, Result};
use countersign_api::{ErrorCode, FactResponse};
use serde_json::{Value, json};

/// The gate to ask how tools are approved now; `None`, with a word about it, where it does not say. To read definitions takes no gate.
pub(super) fn approved_now(connection: &Connection, config: &Config) -> Option<Client> {
    let asked = connection.client(config).and_then(|client| {
        let nothing = tool_fact("none", "none")?;
        match client.call_once::<FactResponse>(Call::get(fact_path(&nothing))) {
            Err(error) if !is_refused_as(&error, ErrorCode::FactNotFound) => Err(error),
            _ => Ok(client),
        }
    });
    let unknown = |error: &anyhow::Error| note(format_args!("note: how they are approved now is not shown: {error}"));
    asked.inspect_err(unknown).ok()
}

/// What has changed in a definition since it was approved.
pub(super) fn show_changes(before: Option<&FactResponse>, tool: &Tool) -> Result<()> {
    match before.and_then(|before| before.value.get("text")).and_then(Value::as_str) {
        Some(old) => {
            say("    changed since it was approved:");
            changes(old, &pretty(tool)?).iter().for_each(|line| say(format_args!("    {line}")));
        }
        None => note("    changed since it was approved; that definition was too long to be kept"),
    }
    Ok(())
}

/// What becomes of each tool, in one place at the end of what scrolls by.
pub(super) fn show_plan(upstream: &str, planned: &[Planned<'_>], is_known: bool) {
    let width = planned.iter().map(|it| inline(&it.tool.name).chars().count()).max().unwrap_or_default();
    say(format_args!("\n{upstream}:"));
    for it in planned {
        let Planned { tool, terms, before, .. } = it;
        let since = match before {
            None if !is_known => "",
            None => "new",
            Some(_) if it.is_redefined() => "changed",
            Some(_) => "approved before",
        };
        let line = format!("  {:width$}  {:31}  {since}", inline(&tool.name), terms.kind());
        say(line.trim_end());
    }
}

/// Says which tools count as reading where others are guarded by that, and what it means where none does.
pub(super) fn note_guard(client: &Client, upstream: &str, tools: &[Tool], approved: &[(&Tool, Terms)]) -> Result<()> {
    let (mut reads, mut by_name, mut writes): (Vec<String>, Vec<String>, Vec<String>) = Default::default();
    for tool in tools.iter().filter(|tool| tool.unfit.is_none()) {
        let terms = approved.iter().find(|(it, _)| it.name == tool.name).map(|(_, terms)| terms);
        let (is_reading, is_by_name) = match terms {
            Some(terms) => (terms.reads && terms.guard == Some(Guard::AsRead), terms.by_name),
            None => {
                let value = current(client, &tool_fact(upstream, &tool.name)?)?.map(|found| found.value);
                let has = |name: &str, wanted: Value| value.as_ref().and_then(|value| value.get(name)) == Some(&wanted);
                (has("read_only", json!(true)) && has("guard", json!(AS_READ)), false)
            }
        };
        let list = if is_by_name {
            &mut by_name
        } else if is_reading {
            &mut reads
        } else {
            &mut writes
        };
        list.push(tool.name.clone());
    }
    let shown = |names: &[String]| inline(&names.join(", "));
    if !reads.is_empty() {
        note(format_args!("{upstream}: read, and compared before a guarded tool runs: {}", shown(&reads)));
    }
    if !by_name.is_empty() {
        note(format_args!(
            "{upstream}: read by their names alone, and compared too: {}. If one of them changes something: countersign mcp approve \
             {upstream} --writes TOOL",
            shown(&by_name)
        ));
    }
    if reads.is_empty() && by_name.is_empty() && !writes.is_empty() {
        let guess: Vec<String> = tools.iter().filter(|tool| only_reads(tool)).map(|tool| word(&tool.name)).collect();
        let guess = if guess.is_empty() { "TOOL".to_owned() } else { guess.join(",") };
        note(format_args!(
            "warning: {upstream}: no tool counts as reading, so no write is ever refused. Name those that only read: countersign mcp \
             approve {upstream} --guard as-read --reads {guess}"
        ));
    }
    Ok(())
}

/// Shows all that is approved: a model reads every string of a definition, so its approver must be able to.
pub(super) fn show(id: &str, tool: &Tool, terms: &Terms) -> Result<()> {
    say(format_args!("{}  ({})", inline(id), terms.kind()));
    let text = |name: &str| tool.member(name).and_then(|text| serde_json::from_str::<String>(text.get()).ok());
    for line in text("description").or_else(|| text("title")).unwrap_or_default().trim().lines() {
        say(format_args!("    {line}"));
    }
    for line in pretty(tool)?.lines() {
        say(format_args!("    | {line}"));
    }
    if let Some(found) = found_in_json(tool.raw().get()) {
        note(format_args!("    it screens as {found}: read it with care, a model does what it says"));
    }
    if tool.unfit.is_none() {
        terms.show(tool);
    }
    if !tool.definition.is_empty() {
        say(format_args!("    definition {}", tool.definition));
    }
    Ok(())
}

/// A whole definition, to be read. Twins and unreadable definitions are refused, so this is the one reading that the hash is of.
pub(super) fn pretty(tool: &Tool) -> Result<String> {
    let whole: Value = serde_json::from_str(tool.raw().get()).context("a definition is no JSON")?;
    Ok(serde_json::to_string_pretty(&whole)?)
}
