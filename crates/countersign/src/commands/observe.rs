//! `countersign observe`: what an agent is shown, sealed.

use super::fact::value_line;
use super::{Connection, Failure, Outcome, fact_word};
use crate::client::{Call, Client};
use crate::config::Config;
use crate::terminal::{note, say, say_json, time};
use anyhow::Result;
use clap::Args;
use countersign_api::{ObserveRequest, ObserveResponse};
use countersign_core::utc::Span;

/// Show facts to an agent and seal what was shown
///
/// Prints the facts and an observation token. The token says which versions the agent saw and when; the agent sends it along
/// with the action that it decides on, so that the gate can tell what changed in between. It is sealed: an agent can carry
/// it, not forge or alter it, and no other agent can use it. Observing writes nothing.
///
/// An agent is shown what the pacts grant it under [observe]; attributes that are not granted are named as withheld.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign observe --key refund-1.key 'Account::\"42\"'
  TOKEN=$(countersign observe --key refund-1.key Account::42 --token)
  countersign act --key refund-1.key --pact billing --action refund account=42 amount=4800 --observation $TOKEN")]
pub struct ObserveArgs {
    /// The agent that is shown the facts, in an open gate; elsewhere it is the one whose --key signs
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// The facts, each as 'Type::"id"' or Type::id
    #[arg(required = true, value_name = "FACT")]
    facts: Vec<String>,
    /// Print the token and nothing else
    #[arg(long, conflicts_with = "json")]
    token: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Observes.
pub fn run(args: &ObserveArgs, config: &Config) -> Result<Outcome> {
    let agent = agent(args.agent.as_deref(), &args.connection, config)?;
    let client = args.connection.client(config)?;
    let shown = observe(&client, &agent, &args.facts)?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&shown)?);
        return Ok(Outcome::Yes);
    }
    if !args.token {
        for fact in &shown.facts {
            match &fact.value {
                Some(value) => {
                    let version = fact.version.map_or_else(|| "external".to_owned(), |it| format!("version {it}"));
                    note(format_args!("{} {version}  {}", fact.fact, value_line(value)));
                }
                None => note(format_args!("{} does not exist", fact.fact)),
            }
            if !fact.withheld.is_empty() {
                note(format_args!("  withheld: {}", fact.withheld.join(", ")));
            }
            if let Some(written) = fact.written_at {
                let age = Span(shown.observed_at.saturating_sub(written));
                note(format_args!("  written {age} before, at {}", time(written)));
            }
        }
        note(format_args!("Observed at {}, position {}. The token:", time(shown.observed_at), shown.position));
    }
    say(&shown.observation);
    Ok(Outcome::Yes)
}

/// Observes facts as an agent.
pub fn observe(client: &Client, agent: &str, facts: &[String]) -> Result<ObserveResponse> {
    let facts = facts.iter().map(|fact| Ok(fact_word(fact)?.to_string())).collect::<Result<_>>()?;
    let request = ObserveRequest { facts, answers: false, session: None };
    client.call(Call::post("/v1/observe").agent(agent).json(&request)?.reading())
}

/// The agent that a command acts as. Where there is a key, who signs is who acts, and no name is sent.
pub fn agent(flag: Option<&str>, connection: &Connection, config: &Config) -> Result<String> {
    match flag.or(config.agent.as_deref()) {
        Some(agent) => Ok(agent.to_owned()),
        None if connection.key_file(config).is_some() => Ok(String::new()),
        None => Err(Failure::usage("no agent is named")
            .hint("sign as it with --key; in an open gate, name it with --agent, COUNTERSIGN_AGENT or `agent` in countersign.toml")
            .into()),
    }
}
