//! `countersign claim`: announcing that facts are about to change.

use super::observe::agent;
use super::{Connection, Outcome, fact_word};
use crate::client::{Call, escape};
use crate::config::Config;
use crate::terminal::{inline, note, say, say_json, time};
use anyhow::Result;
use clap::{Args, Subcommand};
use countersign_api::{ClaimEntered, ClaimExtension, ClaimList, ClaimRequest};
use serde_json::json;

/// Announce that facts are about to change
///
/// While a claim holds, no other agent's action relies on its facts: it is rejected with who announced the change and
/// when, or waits. A claim ends by itself; its holder sends it along with the action that was announced, and is refused if it came
/// too late.
#[derive(Debug, Subcommand)]
pub enum ClaimCommand {
    New(NewArgs),
    Extend(ExtendArgs),
    Withdraw(WithdrawArgs),
    List(ListArgs),
}

/// Announce a change of facts
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign claim new 'Account::\"42\"' --for 5s --reason 'reported as stolen' --key fraud-1.key
  countersign act --key fraud-1.key --claim clm_812 --pact billing --action freeze account=42")]
pub struct NewArgs {
    /// The facts
    #[arg(value_name = "FACT", required = true)]
    facts: Vec<String>,
    /// For how long, such as 500ms, 5s or 1m
    #[arg(long = "for", value_name = "TIME")]
    time: String,
    /// Why; those kept waiting are told
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    who: Who,
}

/// Extend a claim, up to the longest time that the pact allows
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign claim extend clm_812 --for 5s --key fraud-1.key")]
pub struct ExtendArgs {
    /// The claim, such as clm_812
    #[arg(value_name = "CLAIM")]
    claim: String,
    /// For how long from now
    #[arg(long = "for", value_name = "TIME")]
    time: String,
    #[command(flatten)]
    who: Who,
}

/// Withdraw a claim
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign claim withdraw clm_812 --key fraud-1.key")]
pub struct WithdrawArgs {
    /// The claim, such as clm_812
    #[arg(value_name = "CLAIM")]
    claim: String,
    #[command(flatten)]
    who: Who,
}

/// List the claims that hold now
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign claim list --json")]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Who {
    /// The agent, in an open gate; elsewhere it is the one whose --key signs
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs it.
pub fn run(command: &ClaimCommand, config: &Config) -> Result<Outcome> {
    match command {
        ClaimCommand::New(args) => {
            let facts = args.facts.iter().map(|fact| Ok(fact_word(fact)?.to_string()));
            let request = ClaimRequest {
                facts: facts.collect::<Result<_>>()?,
                for_ms: super::duration(&args.time)?,
                reason: args.reason.clone(),
            };
            entered(&args.who, config, |call| call.json(&request), "/v1/claims")
        }
        ClaimCommand::Extend(args) => {
            let request = ClaimExtension { for_ms: super::duration(&args.time)? };
            let path = format!("/v1/claims/{}/extend", escape(&args.claim));
            entered(&args.who, config, |call| call.json(&request), &path)
        }
        ClaimCommand::Withdraw(args) => {
            let path = format!("/v1/claims/{}/withdraw", escape(&args.claim));
            entered(&args.who, config, |call| call.json(&json!({})), &path)
        }
        ClaimCommand::List(args) => list(args, config),
    }
}

fn entered(who: &Who, config: &Config, with: impl FnOnce(Call) -> Result<Call>, path: &str) -> Result<Outcome> {
    let agent = agent(who.agent.as_deref(), &who.connection, config)?;
    let client = who.connection.client(config)?;
    let entered: ClaimEntered = client.call(with(Call::post(path).agent(&agent))?)?;
    client.close()?;
    if who.json {
        say_json(&serde_json::to_value(&entered)?);
        return Ok(Outcome::Yes);
    }
    match entered.expires_at {
        Some(at) => {
            say(format_args!("{} holds until {}, in entry {}", entered.claim, time(at), entered.entry));
            for fact in &entered.facts {
                say(format_args!("  {fact}"));
            }
            note(format_args!("Send it along: `countersign act --claim {} …`", entered.claim));
        }
        None => say(format_args!("{} has ended, in entry {}", entered.claim, entered.entry)),
    }
    Ok(Outcome::Yes)
}

fn list(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let list: ClaimList = client.call(Call::get("/v1/claims"))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&list)?);
        return Ok(Outcome::Yes);
    }
    for claim in &list.claims {
        let facts = claim.facts.join(", ");
        say(format_args!("{}  {}  until {}  {facts}", claim.claim, claim.by, time(claim.expires_at)));
        if let Some(reason) = &claim.reason {
            say(format_args!("    {}", inline(reason)));
        }
    }
    if list.claims.is_empty() {
        note("No change is announced.");
    }
    Ok(Outcome::Yes)
}
