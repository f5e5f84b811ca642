//! `countersign delegation`: making a delegation, and showing it hop by hop.

mod new;

use super::{Exit, Failure, Outcome};
use crate::config::Config;
use crate::terminal::{note, say, say_json, time};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use countersign_core::canonical::Canonical;
use countersign_core::delegation::{Chain, Limit, Scope};
use countersign_engine::delegation::reduce;
use serde_json::Value;
use std::fmt::Display;

/// Give part of an agent's right to another agent
#[derive(Debug, Subcommand)]
pub enum DelegationCommand {
    New(Box<new::NewArgs>),
    Show(ShowArgs),
}

/// Print a delegation hop by hop: who gave what to whom, under which keys
///
/// Verifies every signature, and that each hop is signed by the agent that received the right. Works offline, so it cannot tell
/// which agents are active or whose keys these are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign delegation show dlg1.…
  countersign delegation show @refunds.dlg --json")]
pub struct ShowArgs {
    /// The delegation, or @FILE
    #[arg(value_name = "TOKEN")]
    token: String,
    /// Print one JSON object, as it is in an entry
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(command: &DelegationCommand, config: &Config) -> Result<Outcome> {
    match command {
        DelegationCommand::New(args) => new::run(args, config),
        DelegationCommand::Show(args) => show(args),
    }
}

fn show(args: &ShowArgs) -> Result<Outcome> {
    let chain = reduced(&token(&args.token)?)?;
    if args.json {
        say_json(&recorded(&chain)?);
        return Ok(Outcome::Yes);
    }
    say(lines(&chain).join("\n"));
    Ok(Outcome::Yes)
}

/// A delegation given as it is, or as @FILE.
pub fn token(given: &str) -> Result<String> {
    let Some(path) = given.strip_prefix('@') else { return Ok(given.to_owned()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("{path} cannot be read"))?;
    Ok(text.trim().to_owned())
}

/// The chain of a token, verified.
pub fn reduced(token: &str) -> Result<Chain> {
    Ok(reduce(token).map_err(|error| Failure::of(Exit::No, error).hint("ask its delegator for a new one"))?)
}

fn recorded(chain: &Chain) -> Result<Value> {
    let mut out = Canonical::new();
    chain.write(&mut out);
    Ok(serde_json::from_str(out.as_str())?)
}

/// Prints the chain of an entry's payload beside it, hop by hop.
pub fn show_recorded(payload: &str) {
    let Ok(payload) = serde_json::from_str::<Value>(payload) else { return };
    if let Some(chain) = payload.get("chain").and_then(Chain::from_recorded) {
        note("Under this delegation");
        lines(&chain).iter().for_each(note);
    }
}

/// A chain for people.
pub fn lines(chain: &Chain) -> Vec<String> {
    let mut lines = vec![format!("at the gate {} and no other", chain.gate())];
    for ((from, key), (number, _, hop)) in chain.members().zip(chain.numbered()) {
        lines.push(format!("hop {number}: {from} ({}) to {} ({})", key.as_str(), hop.to, hop.key.as_str()));
        lines.extend(scope(hop).into_iter().map(|line| format!("    {line}")));
    }
    lines
}

fn scope(hop: &Scope) -> Vec<String> {
    let mut lines = Vec::new();
    match &hop.actions {
        Some(actions) => lines.push(format!("actions: {}", list(actions.iter().map(|(p, a)| format!("{p}.{a}"))))),
        None => lines.push("actions: any".to_owned()),
    }
    for (name, Limit { max, one_of }) in &hop.limits {
        lines.extend(max.map(|max| format!("{name}: at most {max}")));
        lines.extend(one_of.as_ref().map(|values| format!("{name}: {}", list(values.iter()))));
    }
    lines.extend(hop.facts.as_ref().map(|facts| format!("facts: {}", list(facts.iter()))));
    lines.extend(hop.expires_at_ms.map(|at_ms| format!("expires at {}", time(at_ms))));
    lines.push(match hop.depth {
        0 => "may not be passed on".to_owned(),
        1 => "may be passed on once".to_owned(),
        depth => format!("may be passed on {depth} times"),
    });
    lines
}

fn list(items: impl Iterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
