//! `countersign observe`: what an agent is shown, sealed.

use super::fact::value_line;
use super::{Connection, Failure, Outcome, fact_word};
use crate::client::{Call, Client};
use crate::config::Config;
use crate::hinted::{OrHinted as _, hinted};
use crate::terminal::{note, say, say_json, time};
use anyhow::Result;
use clap::Args;
use countersign_api::{ObserveRequest, ObserveResponse};
use countersign_core::utc::Span;
use std::path::PathBuf;

/// Show facts to an agent and seal what was shown
///
/// Prints the facts and an observation token. The token says which versions the agent saw and when; the agent sends it along
/// with the action that it decides on, so that the gate can tell what changed in between. It is sealed: an agent can carry
/// it, not forge or alter it, and no other agent can use it. Observing writes nothing, unless it is to be attested: then an entry
/// of the ledger says what was shown, and with --proof a third party can check that, with the log's public key alone.
///
/// An agent is shown what the pacts grant it under [observe]; attributes that are not granted are named as withheld.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign observe --key refund-1.key 'Account::\"42\"'
  TOKEN=$(countersign observe --key refund-1.key Account::42 --token)
  countersign observe --key refund-1.key Account::42 --attest --proof shown.json
  countersign act --key refund-1.key --pact billing --action refund account=42 amount=4800 --observation $TOKEN")]
pub struct ObserveArgs {
    /// The agent that is shown the facts, in an open gate; elsewhere it is the one whose --key signs
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// The facts, each as 'Type::"id"' or Type::id
    #[arg(required = true, value_name = "FACT")]
    facts: Vec<String>,
    /// Have what is shown entered in the ledger, so that it can be proved to others; says in which entry
    #[arg(long)]
    attest: bool,
    /// Write what proves it to this file; `countersign verify --attested` checks it
    #[arg(long, value_name = "FILE", requires = "attest")]
    proof: Option<PathBuf>,
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
    let shown = observe_or_attest(&client, &agent, &args.facts, args.attest)?;
    client.close()?;
    if let (Some(path), Some(attested)) = (&args.proof, &shown.attested) {
        let text = serde_json::to_string_pretty(attested)? + "\n";
        std::fs::write(path, text).or_hinted(|| {
            let (entry, name) = (attested.entry, path.display());
            hinted!("cannot write {name}; the observation is entry {entry}"; "name a file that can be written, and attest again")
        })?;
    }
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
        if let Some(attested) = &shown.attested {
            note(format_args!("Attested: entry {} says what was shown.", attested.entry));
        }
        note(format_args!("Observed at {}, position {}. The token:", time(shown.observed_at), shown.position));
    }
    say(&shown.observation);
    Ok(Outcome::Yes)
}

/// Observes facts as an agent.
pub fn observe(client: &Client, agent: &str, facts: &[String]) -> Result<ObserveResponse> {
    observe_or_attest(client, agent, facts, false)
}

fn observe_or_attest(client: &Client, agent: &str, facts: &[String], attest: bool) -> Result<ObserveResponse> {
    let facts = facts.iter().map(|fact| Ok(fact_word(fact)?.to_string())).collect::<Result<_>>()?;
    let request = ObserveRequest { facts, answers: false, attest, session: None };
    let call = Call::post("/v1/observe").agent(agent).json(&request)?;
    // One that is attested writes an entry, and each attempt one of its own.
    client.call(if attest { call } else { call.reading() })
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
