//! `countersign agent`: who may act, as facts of their own.

use super::identity::{KeySource, Who, changed, line, registered, rotated, stood, text};
use super::{Connection, Outcome};
use crate::client::Call;
use crate::config::Config;
use crate::terminal::{count, note, say, say_json, time};
use anyhow::Result;
use clap::{Args, Subcommand};
use countersign_api::routes::DAYS_MAX;
use countersign_api::{AgentList, UnusedRights};
use countersign_core::identity::GATEWAY;
use serde_json::{Value, json};

/// Register agents, and change who they are
///
/// An agent is a fact, Agent::"NAME", with its public key, organisation, roles, standing and trust. What is changed here holds
/// from the next commit on, also for what is on its way. It takes the key of an operator with the role admin.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    New(NewArgs),
    List(ListArgs),
    Unused(UnusedArgs),
    Set(SetArgs),
    Rotate(RotateArgs),
    /// Revoke an agent: nothing it asks for commits any more
    #[command(after_help = "Examples:\n  countersign agent revoke refund-1 --key admin.key")]
    Revoke(StandingArgs),
    /// Quarantine an agent until it is activated again
    #[command(after_help = "Examples:\n  countersign agent quarantine refund-1 --key admin.key")]
    Quarantine(StandingArgs),
    /// Let a quarantined or revoked agent act again
    #[command(after_help = "Examples:\n  countersign agent activate refund-1 --key admin.key")]
    Activate(StandingArgs),
}

/// Make a key and register it as a new agent's
///
/// The private key is made here, in a file that only you can read, and goes nowhere; the gate is given the public name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign agent new refund-1 --org acme --role refunder --key admin.key
  countersign agent new fraud-1 --org acme --role analyst --public-key did:key:z6Mk…
  countersign agent new coder-1 --org acme --held-by-gateway --key admin.key        for `countersign mcp serve --agent coder-1`")]
pub struct NewArgs {
    /// The agent's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The organisation that answers for it
    #[arg(long, value_name = "ORG")]
    org: String,
    /// A role, for pacts to ask for; may be repeated
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// Its trust, for pacts to ask for
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(i64).range(0..=1000))]
    trust: i64,
    #[command(flatten)]
    source: KeySource,
    /// Its key is for a gateway, which signs for it: entries say `auth: gateway`, not that the agent signed
    #[arg(long)]
    held_by_gateway: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// List all agents
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign agent list --key admin.key")]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// List what agents could do and have not done for long
///
/// An agent could do what the pacts let it do by its roles and its trust. Listed is what none of its actions was of, whatever their
/// verdicts were; what it passed on by a delegation counts as its own. What it could not do for all of that time is left out. The gate
/// reads that much of its log. It takes the key of an operator with the role auditor or admin.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign agent unused --key admin.key
  countersign agent unused --days 90 --json --key admin.key

`countersign agent set NAME --role ROLE` takes the other roles away.")]
pub struct UnusedArgs {
    /// For how many days
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=DAYS_MAX))]
    days: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Change an agent's roles, trust or organisation
///
/// What is not named stays as it is; `--role` replaces all roles.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign agent set refund-1 --trust 700 --key admin.key
  countersign agent set refund-1 --role refunder --role analyst --key admin.key")]
#[group(id = "change", multiple = true, required = true, args = ["role", "no_roles", "trust", "org"])]
pub struct SetArgs {
    /// The agent's name
    #[arg(value_name = "NAME")]
    name: String,
    /// A role that it has from now on; may be repeated
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// It has no role from now on
    #[arg(long, conflicts_with = "role")]
    no_roles: bool,
    /// Its trust from now on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=1000))]
    trust: Option<i64>,
    /// The organisation that answers for it from now on
    #[arg(long, value_name = "ORG")]
    org: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Give an agent a new key; the one before it still counts for a while
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign agent rotate refund-1 --overlap 1h --key-file refund-1.new.key --key admin.key"
)]
pub struct RotateArgs {
    /// The agent's name
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

/// Change an agent's standing
#[derive(Debug, Args)]
pub struct StandingArgs {
    /// The agent's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs one of them.
pub fn run(command: &AgentCommand, config: &Config) -> Result<Outcome> {
    match command {
        AgentCommand::New(args) => new(args, config),
        AgentCommand::List(args) => list(args, config),
        AgentCommand::Unused(args) => unused(args, config),
        AgentCommand::Set(args) => set(args, config),
        AgentCommand::Rotate(args) => {
            let client = args.connection.client(config)?;
            rotated(&who(&args.name, args.json), client, &args.source, &args.overlap)
        }
        AgentCommand::Revoke(args) => standing(args, config, "revoked"),
        AgentCommand::Quarantine(args) => standing(args, config, "quarantined"),
        AgentCommand::Activate(args) => standing(args, config, "active"),
    }
}

fn new(args: &NewArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let value = json!({"org": args.org, "roles": args.role, "standing": "active", "trust": args.trust});
    let mut value = value.as_object().cloned().unwrap_or_default();
    if args.held_by_gateway {
        value.insert("held_by".to_owned(), json!(GATEWAY));
    }
    registered(&who(&args.name, args.json), client, &args.source, value)
}

fn set(args: &SetArgs, config: &Config) -> Result<Outcome> {
    let roles = (args.no_roles || !args.role.is_empty()).then(|| json!(args.role));
    let named =
        [("roles", roles), ("trust", args.trust.map(|it| json!(it))), ("org", args.org.as_ref().map(|it| json!(it)))];
    let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    changed(&who(&args.name, args.json), args.connection.client(config)?, named)
}

fn who(name: &str, json: bool) -> Who<'_> {
    Who { ty: "Agent", name, json }
}

fn standing(args: &StandingArgs, config: &Config, standing: &str) -> Result<Outcome> {
    stood(&who(&args.name, args.json), args.connection.client(config)?, standing)
}

fn unused(args: &UnusedArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let unused: UnusedRights = client.call(Call::get(format!("/v1/agents/unused?days={}", args.days)))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&unused)?);
        return Ok(Outcome::Yes);
    }
    let days = count(args.days, "day", "days");
    if unused.rights.is_empty() {
        note(format_args!("Every right that an agent has had for {days} was used, or there is none."));
    }
    for right in &unused.rights {
        let held = time(right.held_since);
        let maybe = right.maybe_used_in.map(|entry| format!("; entry {entry} may have used it, its payload is erased"));
        let maybe = maybe.unwrap_or_default();
        say(format_args!(
            "{}  {}.{}  not used for {days}; roles as they are since {held}{maybe}",
            right.agent, right.pact, right.action
        ));
    }
    Ok(Outcome::Yes)
}

fn list(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let list: AgentList = client.call(Call::get("/v1/agents"))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&list)?);
        return Ok(Outcome::Yes);
    }
    if list.agents.is_empty() {
        note("There are no agents; make one with `countersign agent new`.");
    }
    for agent in &list.agents {
        let (org, trust) = (text(agent, "org"), agent.value.get("trust").unwrap_or(&Value::Null));
        let held = if text(agent, "held_by") == GATEWAY { "  key held by a gateway" } else { "" };
        say(format_args!("{}  trust {trust}  {org}{held}", line(agent)));
    }
    Ok(Outcome::Yes)
}
