//! `countersign init`: a new data folder.

use super::{Folder, Outcome};
use crate::config::Config;
use crate::data::DataFolder;
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::Args;
use serde_json::json;

/// The origin of a log whose operator named none; good enough for one machine.
const ORIGIN: &str = "countersign.local/log";

/// Make a data folder with its keys
///
/// The folder will hold the ledger and the two secret keys of a gate: one signs the log, one seals observations. Prints the
/// log's public key. Give that key to whoever should be able to check the log: with it, `countersign verify` trusts nobody.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign init
  countersign init --data gate-data --origin gate.example.com/log")]
pub struct InitArgs {
    #[command(flatten)]
    folder: Folder,
    /// The log's name, which no other log may have: a host and a path, without a scheme
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_ORIGIN", hide_env_values = true)]
    origin: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Makes the folder.
pub fn run(args: &InitArgs, config: &Config) -> Result<Outcome> {
    let data = config.data(args.folder.data.as_deref());
    let origin = args.origin.as_deref().or(config.origin.as_deref()).unwrap_or(ORIGIN);
    let folder = DataFolder::create(&data, origin)?;
    let key = folder.log_key()?.to_string();
    let shown = data.display();
    if args.json {
        say_json(&json!({"data": data, "origin": folder.origin, "log_key": key}));
        return Ok(Outcome::Yes);
    }
    note(format_args!("Made {shown} for the log {}. Its public key, also in {shown}/log.vkey:", folder.origin));
    say(key);
    note(format_args!(
        "\nNext:\n  keep {shown}/keys secret and backed up; hand out the public key\n  countersign serve --data {shown}\n  \
         countersign pact publish my-pact.toml"
    ));
    Ok(Outcome::Yes)
}
