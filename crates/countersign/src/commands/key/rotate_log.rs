//! `countersign key rotate-log`: the key that the gate itself signs the log with.

use crate::client::Call;
use crate::commands::{Connection, OPERATOR, Outcome};
use crate::config::Config;
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_api::{LogKeyRotated, LogKeyRotation};

/// Replace the key that signs the log
///
/// The gate makes a new key; its private half never leaves it. The rotation is a ledger entry that names the new key, under a
/// checkpoint that both keys sign, so anyone who holds the old public key can follow from it to the new one. From then on only the
/// new key signs: anything signed later with the old one is detected. Prints the new public key; hand it out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign key rotate-log --reason 'yearly'
  countersign key rotate-log --data countersign-data --reason 'a backup was lost'    while no server runs on the folder

The reason is kept for ever: do not put personal data into it.")]
pub struct RotateLogArgs {
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs it.
pub fn run(args: &RotateLogArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let rotation = LogKeyRotation { reason: args.reason.clone() };
    let call = Call::post("/v1/keys/log/rotate").agent(&args.by).json(&rotation)?;
    let rotated: LogKeyRotated = client.call(call)?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&rotated)?);
        return Ok(Outcome::Yes);
    }
    note(format_args!("Rotated in entry {}, signed by both keys. The log's public key from now on:", rotated.entry));
    say(rotated.log_key);
    note(
        "\nNext:\n  back up the folder `keys` again, and hand out the new public key\n  anyone who holds the old one finds the new one \
         with it: countersign verify",
    );
    Ok(Outcome::Yes)
}
