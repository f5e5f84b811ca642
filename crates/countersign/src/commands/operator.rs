//! `countersign operator`: who may run the gate.

use super::identity::{KeySource, Who, line, registered, rotated, stood};
use super::{Connection, Outcome};
use crate::client::Call;
use crate::config::Config;
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use countersign_api::OperatorList;
use countersign_core::identity::Role;
use serde_json::json;

/// Register operators, and change who they are
///
/// Roles imply nothing: publisher publishes pacts, feeder feeds facts, reviewer decides reviews, auditor reads payloads, admin
/// registers agents and operators, halts, erases and confirms the clock. It takes the key of an operator with the role admin.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    New(NewArgs),
    List(ListArgs),
    Rotate(RotateArgs),
    /// Revoke an operator: nothing it asks for is done any more
    Revoke(StandingArgs),
    /// Let a revoked operator work again
    Activate(StandingArgs),
}

/// Make a key and register it as a new operator's
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign operator new ci --role publisher --key admin.key
  countersign operator new ada --role auditor --role reviewer --public-key did:key:z6Mk…")]
pub struct NewArgs {
    /// The operator's name
    #[arg(value_name = "NAME")]
    name: String,
    /// A role; may be repeated
    #[arg(long, value_name = "ROLE", required = true, value_parser = PossibleValuesParser::new(Role::ALL.map(Role::as_str)))]
    role: Vec<String>,
    #[command(flatten)]
    source: KeySource,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// List all operators
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign operator list --key admin.key")]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Give an operator a new key; the one before it still counts for a while
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign operator rotate admin --overlap 1h --key-file admin.new.key --key admin.key"
)]
pub struct RotateArgs {
    /// The operator's name
    #[arg(value_name = "NAME")]
    name: String,
    /// For how long both keys count: 30s, 15m, 1h; 0 ends the old one at once
    #[arg(long, value_name = "TIME", default_value = "1h")]
    overlap: String,
    #[command(flatten)]
    source: KeySource,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Change an operator's standing
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign operator revoke ci --key admin.key")]
pub struct StandingArgs {
    /// The operator's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs one of them.
pub fn run(command: &OperatorCommand, config: &Config) -> Result<Outcome> {
    match command {
        OperatorCommand::New(args) => new(args, config),
        OperatorCommand::List(args) => list(args, config),
        OperatorCommand::Rotate(args) => {
            let client = args.connection.client(config)?;
            rotated(&who(&args.name, args.json), client, &args.source, &args.overlap)
        }
        OperatorCommand::Revoke(args) => standing(args, config, "revoked"),
        OperatorCommand::Activate(args) => standing(args, config, "active"),
    }
}

fn new(args: &NewArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let value = json!({"roles": args.role, "standing": "active"});
    registered(&who(&args.name, args.json), client, &args.source, value.as_object().cloned().unwrap_or_default())
}

fn who(name: &str, json: bool) -> Who<'_> {
    Who { ty: "Operator", name, json }
}

fn standing(args: &StandingArgs, config: &Config, standing: &str) -> Result<Outcome> {
    stood(&who(&args.name, args.json), args.connection.client(config)?, standing)
}

fn list(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let list: OperatorList = client.call(Call::get("/v1/operators"))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&list)?);
        return Ok(Outcome::Yes);
    }
    if list.operators.is_empty() {
        note("There are no operators: this gate is open, and listens on loopback only.");
    }
    for operator in &list.operators {
        say(line(operator));
    }
    Ok(Outcome::Yes)
}
