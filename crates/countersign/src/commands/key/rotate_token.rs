//! `countersign key rotate-token`: the key that the gate seals observation tokens with.

use crate::commands::{Folder, Outcome};
use crate::config::Config;
use crate::data::DataFolder;
use crate::terminal::{note, say, say_json, time};
use anyhow::Result;
use clap::Args;
use serde_json::json;

/// Replace the key that seals observation tokens
///
/// While no server runs on the folder. What was sealed with the old key is good for 24 hours more, so that no one who is
/// thinking has to look again; then the old key opens nothing. If the old key may be in other hands, remove its file, which is
/// named below: what it sealed is then refused at once. Nothing in the ledger depends on either key.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign key rotate-token --data countersign-data")]
pub struct RotateTokenArgs {
    #[command(flatten)]
    folder: Folder,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &RotateTokenArgs, config: &Config) -> Result<Outcome> {
    let folder = DataFolder::find(&config.data(args.folder.data.as_deref()))?;
    let rotated = folder.rotate_token_key()?;
    if args.json {
        say_json(&json!({"key": rotated.key, "old_key": rotated.old_key, "until": rotated.until_ms}));
        return Ok(Outcome::Yes);
    }
    say(format_args!("tokens are sealed with key {} from the next start on", rotated.key));
    note(format_args!(
        "What key {} sealed is good until {}; then remove `keys/token.old-{}`, or let the next rotation do it.",
        rotated.old_key,
        time(rotated.until_ms),
        rotated.old_key
    ));
    Ok(Outcome::Yes)
}
