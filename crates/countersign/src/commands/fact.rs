//! `countersign fact`: reading facts, and feeding them as an operator.

use super::{Connection, Failure, OPERATOR, Outcome, fact_id, fact_path, text_of};
use crate::client::{Call, Client, escape};
use crate::config::Config;
use crate::mcp::gate::{FACT_TYPE as TOOL_TYPE, SERVER_TYPE};
use crate::terminal::{note, say, say_json, say_json_text, time};
use anyhow::Result;
use clap::{Args, Subcommand};
use countersign_api::{
    FactConfirm, FactConfirmed, FactList, FactPut, FactResponse, FactWritten, HeldFeed, HistoryResponse,
};
use countersign_core::ids::FactId;
use serde_json::{Map, Value};

/// Read and feed facts, as an operator
///
/// A fact is one versioned entity of shared state, such as Account::"42" with its attributes. Agents see facts through
/// `countersign observe` and change them only through actions; operators read and feed them here. Every write is a new version and a
/// ledger entry.
#[derive(Debug, Subcommand)]
pub enum FactCommand {
    List(ListArgs),
    Get(GetArgs),
    Put(PutArgs),
    Confirm(ConfirmArgs),
    Delete(DeleteArgs),
}

/// List the facts of a type, by id
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign fact list Account\n  countersign fact list Account --json | jq .value.status"
)]
pub struct ListArgs {
    /// The type
    #[arg(value_name = "TYPE")]
    ty: String,
    /// How many to print at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
    /// Print one JSON object for each fact, on a line of its own
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Print a fact as it is now, or all its versions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign fact get Account 42
  countersign fact get 'Account::\"42\"' --history --json")]
pub struct GetArgs {
    /// The fact, as TYPE ID or as 'Type::"id"'
    #[arg(required = true, num_args = 1..=2, value_names = ["TYPE", "ID"])]
    fact: Vec<String>,
    /// Print its versions, newest first
    #[arg(long)]
    history: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Write a fact as an operator
///
/// The value is a JSON object with all attributes; those left out are gone afterwards. With --if-match the write happens
/// only if the fact is still at that version, so that two operators cannot overwrite each other unseen.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign fact put Account 42 '{\"status\":\"active\",\"balance\":900000,\"owner\":\"ada\"}'
  countersign fact put Agent refund-1 '{\"roles\":[\"refunder\"],\"standing\":\"active\",\"org\":\"acme\",\"trust\":700}'
  countersign fact put Account 42 @account.json
  countersign fact put Account 42 --if-match 7 '{\"status\":\"frozen\",\"balance\":900000,\"owner\":\"ada\"}'")]
pub struct PutArgs {
    /// The fact, as TYPE ID or as 'Type::"id"', then its value: JSON, @FILE, or - for standard input
    #[arg(required = true, num_args = 2..=3, value_names = ["TYPE", "ID", "JSON"])]
    fact: Vec<String>,
    /// Write only if the fact is at this version; 0 if it must not exist
    #[arg(long, value_name = "VERSION")]
    if_match: Option<u64>,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Confirm a fact as its source: it is still so
///
/// Makes an entry and no new version, so whatever agents have observed of the fact stays good. Pacts with `max_staleness` rely on
/// a fact only for so long after its source has fed or confirmed it. Name the version that you have looked at; without --version
/// the one that is current is shown and confirmed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign fact confirm Price tea --version 7
  countersign fact confirm 'Price::\"tea\"' --json")]
pub struct ConfirmArgs {
    /// The fact, as TYPE ID or as 'Type::"id"'
    #[arg(required = true, num_args = 1..=2, value_names = ["TYPE", "ID"])]
    fact: Vec<String>,
    /// The version that is confirmed; refused if the fact is at another by now
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Delete a fact as an operator
///
/// The fact keeps its version, so that it can never come back as an old one. Its history stays in the ledger; to remove
/// that too, see `countersign ledger erase`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign fact delete Account 42 --if-match 8")]
pub struct DeleteArgs {
    /// The fact, as TYPE ID or as 'Type::"id"'
    #[arg(required = true, num_args = 1..=2, value_names = ["TYPE", "ID"])]
    fact: Vec<String>,
    /// Delete only if the fact is at this version
    #[arg(long, value_name = "VERSION")]
    if_match: Option<u64>,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs one of them.
pub fn run(command: &FactCommand, config: &Config) -> Result<Outcome> {
    match command {
        FactCommand::List(args) => list(args, config),
        FactCommand::Get(args) => get(args, config),
        FactCommand::Put(args) => put(args, config),
        FactCommand::Confirm(args) => confirm(args, config),
        FactCommand::Delete(args) => delete(args, config),
    }
}

fn list(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let (mut left, mut after) = (args.limit, String::new());
    while left > 0 {
        let path = format!("/v1/facts/{}?limit={}{after}", escape(&args.ty), left.min(256));
        let FactList { facts, next_after } = client.call(Call::get(path))?;
        left = left.saturating_sub(facts.len());
        for fact in &facts {
            if args.json {
                say_json_text(&serde_json::to_string(fact)?);
            } else {
                say(format_args!("{} version {}: {}", fact.fact, fact.version, value_line(&fact.value)));
            }
        }
        match next_after {
            Some(id) => after = format!("&after={}", escape(&id)),
            None => left = 0,
        }
    }
    client.close()?;
    Ok(Outcome::Yes)
}

fn get(args: &GetArgs, config: &Config) -> Result<Outcome> {
    let fact = fact_id(&args.fact)?;
    if args.history {
        return history(args, &fact, config);
    }
    let client = args.connection.client(config)?;
    let found: FactResponse = client.call(Call::get(fact_path(&fact)))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&found)?);
        return Ok(Outcome::Yes);
    }
    let FactResponse { version, written_at, written_by, entry, .. } = &found;
    note(format_args!("{fact} version {version}, written by {written_by} at {} in entry {entry}", time(*written_at)));
    say_json_text(&serde_json::to_string_pretty(&found.value)?);
    if let (Some(at), Some(by)) = (found.confirmed_at.filter(|at| at != written_at), &found.confirmed_by) {
        note(format_args!("Last confirmed by {by} at {}", time(at)));
    }
    note_fences(&found);
    Ok(Outcome::Yes)
}

fn confirm(args: &ConfirmArgs, config: &Config) -> Result<Outcome> {
    let fact = fact_id(&args.fact)?;
    let client = args.connection.client(config)?;
    let version = match args.version {
        Some(version) => version,
        None => {
            let found: FactResponse = client.call(Call::get(fact_path(&fact)))?;
            note(format_args!("{fact} version {}: {}", found.version, value_line(&found.value)));
            found.version
        }
    };
    let call = Call::post(format!("{}/confirm", fact_path(&fact))).agent(&args.by);
    let confirmed: FactConfirmed = client.call(call.json(&FactConfirm { version })?)?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&confirmed)?);
        return Ok(Outcome::Yes);
    }
    say(format_args!("confirmed {fact} version {version} in entry {}", confirmed.entry));
    Ok(Outcome::Yes)
}

/// What stands in the way of using a fact.
fn note_fences(found: &FactResponse) {
    if !found.fenced_by.is_empty() {
        let effects = found.fenced_by.join(", ");
        note(format_args!("In flight and relying on it: {effects}. It cannot change until that has ended."));
    }
    for HeldFeed { entry, at, by, value } in &found.held {
        let value = value.as_ref().map_or_else(|| "deleted".to_owned(), value_line);
        note(format_args!(
            "A feed by {by} at {} waits for that, and until then no action relies on the fact: {value}",
            time(*at)
        ));
        note(format_args!("See `countersign ledger show {entry}`."));
    }
    if let Some(claim) = &found.claim {
        note(format_args!("{claim} announces a change of it; see `countersign claim list`."));
    }
}

fn history(args: &GetArgs, fact: &FactId, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let path = format!("{}/history", fact_path(fact));
    let mut page: HistoryResponse = client.call(Call::get(&path))?;
    let mut all = page.clone();
    while let Some(before) = page.next_before {
        page = client.call(Call::get(format!("{path}?before={before}")))?;
        all.versions.append(&mut page.versions);
        (all.next_before, all.erased_at_entry) = (page.next_before, page.erased_at_entry);
    }
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&all)?);
        return Ok(Outcome::Yes);
    }
    note(format_args!("{fact}, newest version first"));
    for version in &all.versions {
        let value = version.value.as_ref().map_or_else(|| "deleted".to_owned(), value_line);
        let (number, entry, by) = (version.version, version.entry, &version.written_by);
        say(format_args!("{number:>6}  {}  entry {entry:<6} {by:<12}  {value}", time(version.written_at)));
    }
    if let Some(entry) = all.erased_at_entry {
        note(format_args!("Older versions cannot be shown: the payload of entry {entry} was erased."));
    }
    Ok(Outcome::Yes)
}

fn put(args: &PutArgs, config: &Config) -> Result<Outcome> {
    let (value, fact) = args.fact.split_last().ok_or_else(|| Failure::usage("no value is given"))?;
    let fact = fact_id(fact)?;
    let value = countersign_core::json::parse_object_exact(&text_of(value)?).map_err(|error| {
        Failure::usage(format!("the value is not acceptable JSON: {error}"))
            .hint("write an object with every attribute, in single quotes: '{\"status\":\"active\"}'")
    })?;
    let client = args.connection.client(config)?;
    note_dropped_guard(&client, &fact, &value);
    let call = if_match(Call::put(fact_path(&fact)).agent(&args.by), args.if_match).json(&FactPut { value })?;
    let written: FactWritten = client.call(call)?;
    client.close()?;
    show_written(&written, args.json, "written")
}

/// Says so where what is put is no longer guarded: a fact is put as a whole, and what is left out is gone.
fn note_dropped_guard(client: &Client, fact: &FactId, value: &Map<String, Value>) {
    if ![TOOL_TYPE, SERVER_TYPE].contains(&fact.ty().as_str()) || value.contains_key("guard") {
        return;
    }
    let before = client.call::<FactResponse>(Call::get(fact_path(fact)));
    // Whoever may feed it and not read it, or puts the first one, is told nothing.
    let guard = before.ok().and_then(|before| before.value.get("guard").cloned());
    if let Some(guard) = guard.filter(|guard| !guard.is_null()) {
        note(format_args!(
            "{fact} was guarded, and is not any more: this value has no guard. To keep it, put it again with \"guard\": {guard}"
        ));
    }
}

fn delete(args: &DeleteArgs, config: &Config) -> Result<Outcome> {
    let fact = fact_id(&args.fact)?;
    let client = args.connection.client(config)?;
    let call = if_match(Call::delete(fact_path(&fact)).agent(&args.by), args.if_match);
    let written: FactWritten = client.call(call)?;
    client.close()?;
    show_written(&written, args.json, "deleted")
}

fn if_match(call: Call, version: Option<u64>) -> Call {
    match version {
        Some(version) => call.header("if-match", format!("\"{version}\"")),
        None => call,
    }
}

fn show_written(written: &FactWritten, json: bool, what: &str) -> Result<Outcome> {
    if json {
        say_json(&serde_json::to_value(written)?);
        return Ok(Outcome::Yes);
    }
    match written.version {
        Some(version) => say(format_args!("{what} {} version {version} in entry {}", written.fact, written.entry)),
        None => {
            say(format_args!("held {} in entry {}: not {what} yet", written.fact, written.entry));
            note(waits(written));
        }
    }
    Ok(Outcome::Yes)
}

/// What a held feed waits for.
pub fn waits(written: &FactWritten) -> String {
    let FactWritten { fact, waits_for, .. } = written;
    match waits_for.as_slice() {
        // It ended while the answer was on its way.
        [] => format!("What it waited for has ended; `countersign fact get '{fact}'` shows it."),
        [effect, ..] => format!(
            "In flight and relying on it: {}. The feed is written right after that has ended; until then no action relies on {fact}. \
             `countersign effect show {effect}` says how far it is, and what to do if it is in doubt.",
            waits_for.join(", ")
        ),
    }
}

/// A value on one line: `status: "active", balance: 900000`.
pub fn value_line(value: &Value) -> String {
    match value.as_object() {
        Some(object) => object.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", "),
        None => value.to_string(),
    }
}
