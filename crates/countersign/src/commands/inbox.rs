//! `countersign inbox`: the messages that wait for an agent.

use super::observe::agent;
use super::{Connection, Outcome, screened};
use crate::client::{Call, Client, escape};
use crate::config::Config;
use crate::terminal::{inline, note, say, say_json, time};
use anyhow::Result;
use clap::{Args, Subcommand};
use countersign_api::{AcknowledgeRequest, Acknowledged, InboxPage, ReceivedMessage};
use serde_json::json;
use std::collections::BTreeSet;

/// How long one request of `follow` waits for the next message.
const FOLLOW_WAIT_MS: u64 = 30_000;

/// Read and acknowledge the messages that wait for an agent
///
/// Agents send messages by acting: an action type with `deliver` in its pact. A message stays in its recipient's inbox, and is shown
/// again under the same name, until it is acknowledged.
#[derive(Debug, Subcommand)]
pub enum InboxCommand {
    List(ListArgs),
    Follow(FollowArgs),
    Ack(AckArgs),
}

/// List the messages that wait, oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign inbox list --key report-1.key
  countersign inbox list --after msg_813 --json --key report-1.key")]
pub struct ListArgs {
    /// Only those behind this one
    #[arg(long, value_name = "MESSAGE")]
    after: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    limit: Option<u64>,
    #[command(flatten)]
    who: Who,
}

/// Show the messages that wait, and then each as it comes
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign inbox follow --json --key report-1.key")]
pub struct FollowArgs {
    /// Only those behind this one
    #[arg(long, value_name = "MESSAGE")]
    after: Option<String>,
    #[command(flatten)]
    who: Who,
}

/// Acknowledge messages that were handled: they do not come again
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign inbox ack msg_813 msg_815 --key report-1.key")]
pub struct AckArgs {
    /// The messages
    #[arg(value_name = "MESSAGE", required = true)]
    messages: Vec<String>,
    #[command(flatten)]
    who: Who,
}

#[derive(Debug, Args)]
struct Who {
    /// The agent, in an open gate; elsewhere it is the one whose --key signs
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// Print JSON: one object, or with `follow` one on each line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs it.
pub fn run(command: &InboxCommand, config: &Config) -> Result<Outcome> {
    match command {
        InboxCommand::List(args) => list(args, config),
        InboxCommand::Follow(args) => follow(args, config),
        InboxCommand::Ack(args) => acknowledge(args, config),
    }
}

fn list(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let agent = agent(args.who.agent.as_deref(), &args.who.connection, config)?;
    let client = args.who.connection.client(config)?;
    let page: InboxPage = client.call(page(&agent, args.after.as_deref(), args.limit))?;
    client.close()?;
    if args.who.json {
        say_json(&serde_json::to_value(&page)?);
        return Ok(Outcome::Yes);
    }
    page.messages.iter().for_each(show);
    match (&page.next, page.waiting) {
        (Some(next), waiting) => note(format_args!("{waiting} wait in all: add --after {next} for more.")),
        (None, 0) => note("No message waits."),
        (None, _) => {}
    }
    Ok(Outcome::Yes)
}

fn follow(args: &FollowArgs, config: &Config) -> Result<Outcome> {
    let agent = agent(args.who.agent.as_deref(), &args.who.connection, config)?;
    let client = args.who.connection.client(config)?;
    let mut after = args.after.clone();
    // Shown without their content: shown once more when that may be handed out.
    let mut withheld = BTreeSet::new();
    loop {
        let page: InboxPage = client.call(page(&agent, after.as_deref(), None).waiting_ms(FOLLOW_WAIT_MS))?;
        for message in &page.messages {
            told(message, args.who.json)?;
            if message.withheld.is_some() {
                withheld.insert(message.entry);
            }
            after = Some(message.message.clone());
        }
        if !withheld.is_empty() {
            again(&client, &agent, &mut withheld, args.who.json)?;
        }
    }
}

/// Shows what was withheld and no longer is.
fn again(client: &Client, agent: &str, withheld: &mut BTreeSet<u64>, json: bool) -> Result<()> {
    let mut after = withheld.first().and_then(|first| first.checked_sub(1)).map(|before| format!("msg_{before}"));
    loop {
        let page: InboxPage = client.call(page(agent, after.as_deref(), None))?;
        for message in page.messages.iter().filter(|message| message.withheld.is_none()) {
            if withheld.remove(&message.entry) {
                told(message, json)?;
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn acknowledge(args: &AckArgs, config: &Config) -> Result<Outcome> {
    let agent = agent(args.who.agent.as_deref(), &args.who.connection, config)?;
    let client = args.who.connection.client(config)?;
    let request = AcknowledgeRequest { messages: args.messages.clone() };
    // Naming a message again changes nothing, so it may be sent again.
    let call = Call::post("/v1/inbox/ack").agent(&agent).json(&request)?.reading();
    let acknowledged: Acknowledged = client.call(call)?;
    client.close()?;
    if args.who.json {
        say_json(&serde_json::to_value(&acknowledged)?);
        return Ok(Outcome::Yes);
    }
    if let Some(entry) = acknowledged.entry {
        say(format_args!("Acknowledged {}, in entry {entry}", acknowledged.acknowledged.join(", ")));
    }
    if !acknowledged.not_waiting.is_empty() {
        let names = acknowledged.not_waiting.join(", ");
        note(format_args!("Not in this inbox, or acknowledged before: {names}"));
    }
    Ok(Outcome::Yes)
}

fn page(agent: &str, after: Option<&str>, limit: Option<u64>) -> Call {
    let after = after.map(|after| format!("after={}", escape(after)));
    let query: Vec<String> = after.into_iter().chain(limit.map(|limit| format!("limit={limit}"))).collect();
    let path = if query.is_empty() { "/v1/inbox".to_owned() } else { format!("/v1/inbox?{}", query.join("&")) };
    Call::get(path).agent(agent)
}

fn told(message: &ReceivedMessage, json: bool) -> Result<()> {
    match json {
        true => say(serde_json::to_string(message)?),
        false => show(message),
    }
    Ok(())
}

fn show(message: &ReceivedMessage) {
    let action = match (&message.pact, &message.action) {
        (Some(pact), Some(action)) => format!("  {}.{action}", pact.name),
        _ => String::new(),
    };
    let for_whom = message.chain.first().map_or_else(String::new, |root| format!(" for {root}"));
    say(format_args!("{}  {}  from {}{for_whom}{action}", message.message, time(message.at), inline(&message.from)));
    match (&message.body, &message.withheld) {
        (Some(body), _) => {
            for (name, value) in body {
                let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                say(format_args!("    {name}: {}", inline(&value)));
            }
            // A note beside it: what a message says is never changed.
            if let Some(found) = screened::found_in_json(&json!(body).to_string()) {
                say(format_args!("    screening found: {found}"));
            }
        }
        (None, Some(withheld)) => say(format_args!("    withheld: {} ({})", withheld.code, inline(&withheld.what))),
        (None, None) => say("    erased"),
    }
}
