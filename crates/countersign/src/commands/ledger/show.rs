//! `countersign ledger show`: one entry in full.

use crate::client::Call;
use crate::commands::{Connection, Outcome, delegation};
use crate::config::Config;
use crate::terminal::{note, say, say_json, say_json_text};
use anyhow::Result;
use clap::Args;
use countersign_api::{EntryResponse, ReceiptResponse};
use serde_json::Value;

/// Print an entry: its public leaf, and its payload unless it was erased
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign ledger show 812
  countersign ledger show 812 --json
  countersign ledger show 812 --receipt > entry-812.receipt    keep it for `countersign verify --against`")]
pub struct ShowArgs {
    /// The entry's index
    #[arg(value_name = "INDEX")]
    index: u64,
    /// Print its receipt and nothing else: leaf, inclusion proof and checkpoint
    #[arg(long, conflicts_with = "json")]
    receipt: bool,
    /// Print one JSON object on one line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs it.
pub fn run(args: &ShowArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let path = format!("/v1/ledger/entries/{}", args.index);
    if args.receipt {
        let ReceiptResponse { receipt, .. } = client.call(Call::get(format!("/v1/ledger/receipts/{}", args.index)))?;
        client.close()?;
        say(receipt);
        return Ok(Outcome::Yes);
    }
    let entry: EntryResponse = client.call(Call::get(path))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&entry)?);
        return Ok(Outcome::Yes);
    }
    note(format_args!("Entry {}: the leaf, which is public", entry.index));
    say_json_text(&pretty(entry.leaf.get())?);
    match &entry.payload {
        Some(payload) => {
            if let Some(line) = signed(&entry) {
                note(line);
            }
            note("The payload, which can be erased");
            say_json_text(&pretty(payload.get())?);
            delegation::show_recorded(payload.get());
        }
        None => note("Its payload was erased; the leaf still commits to it."),
    }
    Ok(Outcome::Yes)
}

/// Who signed it with which key, if anyone did.
fn signed(entry: &EntryResponse) -> Option<String> {
    let leaf: Value = serde_json::from_str(entry.leaf.get()).ok()?;
    let payload: Value = serde_json::from_str(entry.payload.as_ref()?.get()).ok()?;
    let signed = payload.get("signed")?;
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
    Some(format!(
        "Signed by {} with the key {}: {} {} at {}; `countersign verify` checks it again",
        text(&leaf, "by"),
        text(signed, "key"),
        text(signed, "method"),
        text(signed, "path"),
        text(signed, "authority")
    ))
}

fn pretty(json: &str) -> Result<String> {
    Ok(serde_json::to_string_pretty(&serde_json::from_str::<Value>(json)?)?)
}
