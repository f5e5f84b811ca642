//! `countersign key rotate-token`: the key that the gate seals observation tokens with.

use crate::commands::{Folder, Outcome};
use crate::config::Config;
use crate::data::DataFolder;
use crate::terminal::{note, say, say_json, time};
use anyhow::Result;
use clap::Args;
use serde_json::json;

/// Replace the key that seals observation tokens, or make one where it is missing
///
/// While no server runs on the folder. Tokens sealed with the old key are good for 24 hours more, so agents that are still
/// deciding need not observe again. After that the old key no longer works. If the old key may be in other hands, remove its file, which is
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
    let old = rotated.old.as_ref();
    if args.json {
        let (old_key, until) = (old.map(|old| &old.key), old.map(|old| old.until_ms));
        say_json(&json!({"key": rotated.key, "old_key": old_key, "until": until}));
        return Ok(Outcome::Yes);
    }
    say(format_args!("tokens are sealed with key {} from the next start on", rotated.key));
    match old {
        Some(old) => note(format_args!(
            "What key {} sealed is good until {}; then remove `keys/token.old-{}`, or let the next rotation do it.",
            old.key,
            time(old.until_ms),
            old.key
        )),
        None => note("There was no key before it: observations from before are refused, and agents observe again."),
    }
    Ok(Outcome::Yes)
}
