//! `countersign pact list`.

use crate::client::Call;
use crate::commands::{Connection, Outcome};
use crate::config::Config;
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_api::PactList;

/// Print the published pacts, each at its current version
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign pact list --json | jq '.pacts[].name'")]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Lists.
pub fn run(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let list: PactList = client.call(Call::get("/v1/pacts"))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&list)?);
        return Ok(Outcome::Yes);
    }
    if list.pacts.is_empty() {
        note("No pact is published; see `countersign pact publish --help`.");
    }
    for pact in &list.pacts {
        say(format_args!("{} version {}  {}", pact.name, pact.version, pact.actions.join(", ")));
        if let Some(doc) = &pact.doc {
            say(format_args!("  {doc}"));
        }
    }
    Ok(Outcome::Yes)
}
