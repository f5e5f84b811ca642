//! `countersign postgres`: prepares a database for facts of the user's own.

use super::{Exit, Failure, Outcome};
use crate::adapters::postgres::settings::Settings;
use crate::adapters::postgres::setup::{SetupError, Step, Wanted, plan, run as set_up, script};
use crate::config::Config;
use crate::config::adapters::AdapterSettings;
use crate::terminal::{note, say, say_exactly, say_json};
use anyhow::Result;
use clap::{Args, Subcommand};
use std::str::FromStr as _;

/// Prepare a PostgreSQL database that facts live in
#[derive(Debug, Subcommand)]
pub enum PostgresCommand {
    Init(InitArgs),
}

/// Make the receipts, and a role for agents that cannot write past the gate
///
/// Makes the schema and the table of receipts, gives the gate's user its rights, and takes the right to write guarded tables from
/// everyone and from the agents' role. Everything is one transaction and can be run again. At the end the server is asked what the
/// agents' role may do; if it can still write, nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign postgres init --adapter bank
  countersign postgres init --adapter bank --agents agents --guard accounts --guard payouts --as-env OWNER_URL
  countersign postgres init --adapter bank --guard bank.accounts --print > init.sql")]
pub struct InitArgs {
    /// The adapter, by its name in the settings
    #[arg(long, value_name = "NAME")]
    adapter: String,
    /// The role of agents; made if it is not there
    #[arg(long, value_name = "ROLE")]
    agents: Option<String>,
    /// A table that only the gate writes; can be given more than once
    #[arg(long, value_name = "TABLE")]
    guard: Vec<String>,
    /// Connect with the URL in this environment variable, and not as the gate: for the owner of the tables
    #[arg(long, value_name = "NAME")]
    as_env: Option<String>,
    /// Show the SQL instead of running it
    #[arg(long, conflicts_with = "as_env")]
    print: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "print")]
    json: bool,
}

/// Runs it.
pub fn run(command: &PostgresCommand, config: &Config) -> Result<Outcome> {
    let PostgresCommand::Init(args) = command;
    let settings = settings(&args.adapter, config)?;
    let wanted = Wanted { agents: args.agents.clone(), guard: args.guard.clone() };
    if args.print {
        let steps = plan(&settings, &wanted).map_err(refused)?;
        say_exactly(script(&steps).trim_end());
        return Ok(Outcome::Yes);
    }
    let steps = set_up(&settings, owner(args)?, &wanted).map_err(refused)?;
    if args.json {
        let done: Vec<&str> = steps.iter().map(|step| step.what.as_str()).collect();
        say_json(&serde_json::json!({ "adapter": args.adapter, "schema": settings.schema, "done": done }));
    } else {
        steps.iter().for_each(show);
        if args.agents.is_none() || args.guard.is_empty() {
            note("hint: --agents and --guard make the gate the only way in for agents");
        }
    }
    Ok(Outcome::Yes)
}

fn show(step: &Step) {
    say(format_args!("done: {}", step.what));
}

fn settings(name: &str, config: &Config) -> Result<Settings> {
    match config.adapters.get(name) {
        Some(AdapterSettings::Postgres(settings)) => {
            Settings::open(name, settings, &|variable| std::env::var(variable).ok())
        }
        Some(_) => Err(Failure::usage(format!("adapter `{name}` is not of kind `postgres`"))
            .hint("name one whose table has kind = \"postgres\"")
            .into()),
        None => Err(Failure::usage(format!("the settings name no adapter `{name}`"))
            .hint(format!("add [adapters.{name}] with kind = \"postgres\" and url to countersign.toml"))
            .into()),
    }
}

/// Whom to connect as, if not as the gate.
fn owner(args: &InitArgs) -> Result<Option<tokio_postgres::Config>> {
    let Some(variable) = &args.as_env else { return Ok(None) };
    let url = std::env::var(variable).map_err(|_| {
        Failure::usage(format!("the environment variable {variable} is not set"))
            .hint("set it to the URL of the tables' owner")
    })?;
    // The text that was refused is not quoted: it can hold a password.
    let config = tokio_postgres::Config::from_str(&url).map_err(|_| {
        Failure::usage(format!("{variable} does not hold the URL of a PostgreSQL database"))
            .hint("it looks like postgres://user@host/database")
    })?;
    Ok(Some(config))
}

fn refused(error: SetupError) -> anyhow::Error {
    let exit = match error {
        SetupError::Table(_) => Exit::Usage,
        SetupError::StillWrites { .. } => Exit::No,
        SetupError::Step { .. } | SetupError::Connect(_) => Exit::Cannot,
    };
    Failure::of(exit, error).into()
}
