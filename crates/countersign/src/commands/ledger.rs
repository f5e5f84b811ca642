//! `countersign ledger`: the entries in order.

use super::{Connection, Outcome};
use crate::client::Call;
use crate::config::Config;
use crate::terminal::{note, say, say_json_text, time};
use anyhow::Result;
use clap::{Args, Subcommand};
use countersign_api::{EntriesResponse, EntryResponse};
use serde_json::Value;

/// How many entries are asked for at a time.
const PAGE: u64 = 100;

/// Read the ledger
#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    List(ListArgs),
}

/// Print entries in order, one a line
///
/// Each line has the index, the time, the kind, who caused it, and what it is about. Without --from it prints the latest.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign ledger list
  countersign ledger list --from 0 --limit 1000 --json | jq .leaf.kind")]
pub struct ListArgs {
    /// The first entry to print
    #[arg(long, value_name = "INDEX")]
    from: Option<u64>,
    /// How many to print at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,
    /// Print one JSON object for each entry, on a line of its own
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs it.
pub fn run(command: &LedgerCommand, config: &Config) -> Result<Outcome> {
    let LedgerCommand::List(args) = command;
    let client = args.connection.client(config)?;
    let page = |from: u64, limit: u64| -> Result<EntriesResponse> {
        client.call(Call::get(format!("/v1/ledger/entries?start={from}&limit={limit}")))
    };
    let mut start = match args.from {
        Some(from) => from,
        None => page(0, 1)?.size.saturating_sub(args.limit),
    };
    let (mut left, mut size) = (args.limit, 0);
    while left > 0 {
        let EntriesResponse { entries, size: now, next } = page(start, left.min(PAGE))?;
        size = now;
        left = left.saturating_sub(u64::try_from(entries.len()).unwrap_or(u64::MAX));
        for entry in &entries {
            match args.json {
                true => say_json_text(&serde_json::to_string(entry)?),
                false => say(line(entry)?),
            }
        }
        let Some(next) = next.filter(|_| !entries.is_empty()) else { break };
        start = next;
    }
    client.close()?;
    if !args.json {
        note(format_args!("The ledger has {size} entries."));
    }
    Ok(Outcome::Yes)
}

fn line(entry: &EntryResponse) -> Result<String> {
    let leaf: Value = serde_json::from_str(entry.leaf.get())?;
    let payload: Value = entry.payload.as_ref().map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get()))?;
    let text = |name: &str| leaf.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let at = leaf.get("time").and_then(Value::as_u64).unwrap_or_default();
    let mut about = Vec::new();
    if let Some(verdict) = leaf.get("verdict").and_then(Value::as_str) {
        about.push(verdict.to_owned());
    }
    if let Some(pact) = leaf.get("pact").and_then(Value::as_object) {
        let field = |name| pact.get(name).map(Value::to_string).unwrap_or_default();
        about.push(format!("{} v{}", field("name").trim_matches('"'), field("version")));
    }
    for write in payload.get("writes").and_then(Value::as_array).into_iter().flatten() {
        let fact = write.get("fact").and_then(Value::as_str).unwrap_or_default();
        about.push(format!("{fact} v{}", write.get("version").and_then(Value::as_u64).unwrap_or_default()));
    }
    if let Some(erased) = leaf.get("erased").and_then(Value::as_array) {
        about.push(format!("erased {}", erased.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")));
    }
    if entry.payload.is_none() {
        about.push("(payload erased)".into());
    }
    Ok(format!("{:>6}  {}  {:<8} {:<14} {}", entry.index, time(at), text("kind"), text("by"), about.join("  ")))
}
