//! `countersign pact publish`.

use super::problems;
use super::source::PactFile;
use crate::client::{Call, escape};
use crate::commands::{Connection, OPERATOR, Outcome, is_refused_as};
use crate::config::Config;
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_api::{ErrorCode, PactPublished, PactResponse, PactSummary};
use serde_json::json;
use std::path::PathBuf;

/// Publish a pact: from its entry on, actions are decided by it
///
/// The version must be one above the published one. Publishing the same text again does nothing. The same version with other
/// content is refused, and so is a pact whose fact types disagree with those of other pacts. Actions that are on their way are
/// decided by the version that is current when they take effect.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign pact publish billing.toml
  countersign pact publish billing.toml --data countersign-data     without a server")]
pub struct PublishArgs {
    /// The pact
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The very text is in force: there is nothing to do, and nothing is written.
fn unchanged(args: &PublishArgs, PactSummary { name, version, hash, .. }: &PactSummary) -> Result<Outcome> {
    if args.json {
        say_json(&json!({"name": name, "version": version, "hash": hash, "unchanged": true}));
    } else {
        say(format_args!("{name} version {version} is already published with this very text; nothing was written"));
    }
    Ok(Outcome::Yes)
}

/// Publishes.
pub fn run(args: &PublishArgs, config: &Config) -> Result<Outcome> {
    let file = PactFile::read(&args.file)?;
    problems::show(&file);
    if !file.is_sound() {
        note(format_args!("{} was not published.", args.file.display()));
        return Ok(Outcome::No);
    }
    let shown: Vec<String> = file.problems.iter().map(|problem| problem.message.clone()).collect();
    let client = args.connection.client(config)?;
    let call = Call::post("/v1/pacts").agent(&args.by).body("application/toml", file.text.into_bytes());
    let published: Result<PactPublished> = client.call(call);
    if let Err(error) = &published
        && is_refused_as(error, ErrorCode::PactConflict)
        && let Some(pact) = file.pact.as_ref()
    {
        // Where there is none of this name, or it cannot be read, the refusal says more than that.
        let current = client.call::<PactResponse>(Call::get(format!("/v1/pacts/{}", escape(pact.name.as_str()))));
        if let Some(current) = current.ok().filter(|current| current.pact.hash == pact.hash.to_string()) {
            client.close()?;
            return unchanged(args, &current.pact);
        }
    }
    let published = published?;
    client.close()?;
    // What only the gate can know; the rest was shown above.
    let is_shown = |message: &str| shown.iter().any(|shown| shown == message);
    for warning in published.warnings.iter().filter(|warning| !is_shown(&warning.message)) {
        note(format_args!("warning: line {}: {}", warning.line, warning.message));
        if let Some(hint) = &warning.hint {
            note(format_args!("hint: {hint}"));
        }
    }
    if args.json {
        say_json(&serde_json::to_value(&published)?);
    } else {
        let PactPublished { name, version, entry, hash, .. } = &published;
        say(format_args!("published {name} version {version} in entry {entry}, sha256 {hash}"));
    }
    Ok(Outcome::Yes)
}
