//! `countersign clock`: when the wall clock has stepped.

use super::{Connection, OPERATOR, Outcome};
use crate::client::Call;
use crate::config::Config;
use crate::terminal::{say, say_json, time};
use anyhow::Result;
use clap::{Args, Subcommand};
use countersign_api::ClockConfirmed;

/// Confirm the wall clock after it stepped
#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    Confirm(ConfirmArgs),
}

/// Say that the wall clock is right
///
/// Ledger time never goes back and never jumps by itself. When the wall clock moves more than five seconds away from it, the
/// gate is not ready until the clock is corrected, or an operator confirms it. The confirmation is a ledger entry.
///
/// If the clock is ahead, ledger time follows it at once. If it is behind, ledger time runs a tenth slower. The gate then accepts
/// `halt add`, `halt lift` and this command at once, and everything else when the clock has passed its earlier readings.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  date -u && countersign clock confirm")]
pub struct ConfirmArgs {
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
pub fn run(command: &ClockCommand, config: &Config) -> Result<Outcome> {
    let ClockCommand::Confirm(args) = command;
    let client = args.connection.client(config)?;
    let confirmed: ClockConfirmed = client.call(Call::post("/v1/clock/confirm").agent(&args.by))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&confirmed)?);
    } else {
        say(format_args!("confirmed in entry {}; ledger time is {}", confirmed.entry, time(confirmed.now)));
    }
    Ok(Outcome::Yes)
}
