//! `countersign halt`: stop agents, list what is stopped, and let it run again.

use super::{Connection, Failure, OPERATOR, Outcome};
use crate::client::Call;
use crate::config::Config;
use crate::terminal::{Paint, Stream, Tone, inline, note, say, say_json, time};
use anyhow::Result;
use clap::{Args, Subcommand};
use countersign_api::{HaltEntered, HaltList, HaltRequest};

/// Stop an agent, a pact, an org or everything, and lift halts again
#[derive(Debug, Subcommand)]
pub enum HaltCommand {
    Add(AddArgs),
    List(ListArgs),
    Lift(LiftArgs),
}

/// Stop an agent, a pact, an org or everything
///
/// The halt is a ledger entry and overtakes everything in the queue: no action in its scope commits in a later entry until the
/// halt is lifted. It works even when the gate's queue is full.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign halt add --agent refund-1 --reason 'paying twice'
  countersign halt add --all --reason 'incident 4711'")]
pub struct AddArgs {
    #[command(flatten)]
    stop: StopArgs,
    /// Allow a name that does not exist yet
    #[arg(long)]
    allow_unknown: bool,
}

/// Lift a halt
///
/// Lifts the halt of exactly the scope you name: an agent stays stopped while its org, its pact or everything is halted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign halt lift --agent refund-1 --reason 'fixed'")]
pub struct LiftArgs {
    #[command(flatten)]
    stop: StopArgs,
}

#[derive(Debug, Args)]
struct StopArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Why; rejections quote it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ScopeArgs {
    /// This agent, and every delegation chain it belongs to
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Everything under this pact
    #[arg(long, value_name = "NAME")]
    pact: Option<String>,
    /// Every agent of this org
    #[arg(long, value_name = "NAME")]
    org: Option<String>,
    /// Every action
    #[arg(long)]
    all: bool,
}

impl ScopeArgs {
    fn scope(&self) -> String {
        let named = [("agent", &self.agent), ("pact", &self.pact), ("org", &self.org)];
        let named = named.into_iter().find_map(|(kind, name)| Some(format!("{kind}:{}", name.as_ref()?)));
        named.unwrap_or_else(|| "all".to_owned())
    }
}

/// List what is halted: since when, by whom and why
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign halt list\n  countersign halt list --json")]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs it.
pub fn run(command: &HaltCommand, config: &Config) -> Result<Outcome> {
    match command {
        HaltCommand::Add(args) => add(args, config),
        HaltCommand::List(args) => list(args, config),
        HaltCommand::Lift(args) => lift(args, config),
    }
}

/// A halt that matches nothing is still in force, but it is reported as what it most likely is: a typo.
fn add(args: &AddArgs, config: &Config) -> Result<Outcome> {
    let entered = enter(&args.stop, config, "/v1/halts")?;
    if entered.matches != Some(0) || args.allow_unknown {
        return told(&args.stop, &entered, "halted", "nothing that it covers commits after that entry");
    }
    let HaltEntered { scope, entry, .. } = &entered;
    if args.stop.json {
        say_json(&serde_json::to_value(&entered)?);
    }
    let message = format!(
        "`{scope}` matches no agent, pact or organisation: NOTHING RUNNING WAS STOPPED (the halt is in entry {entry})"
    );
    let mut failure = Failure::no(message);
    if let Some(closest) = &entered.closest {
        let kind = scope.split(':').next().unwrap_or_default();
        failure = failure.hint(format!("did you mean `countersign halt add --{kind} {closest} --reason …`?"));
    }
    Err(failure
        .hint("`countersign agent list` and `countersign pact list` have the names; `countersign halt add --all` stops everything")
        .hint("add --allow-unknown if the name does not exist yet; `countersign halt lift` takes the halt back")
        .into())
}

fn lift(args: &LiftArgs, config: &Config) -> Result<Outcome> {
    let entered = enter(&args.stop, config, "/v1/halts/resume")?;
    told(&args.stop, &entered, "lifted the halt of", "`countersign halt list` shows what is still halted")
}

fn enter(args: &StopArgs, config: &Config, path: &str) -> Result<HaltEntered> {
    let client = args.connection.client(config)?;
    let request = HaltRequest { scope: args.scope.scope(), reason: args.reason.clone() };
    let entered = client.call(Call::post(path).agent(&args.by).json(&request)?)?;
    client.close()?;
    Ok(entered)
}

fn told(args: &StopArgs, entered: &HaltEntered, done: &str, rest: &str) -> Result<Outcome> {
    if args.json {
        say_json(&serde_json::to_value(entered)?);
    } else {
        say(format_args!("{done} {} in entry {}; {rest}", entered.scope, entered.entry));
    }
    Ok(Outcome::Yes)
}

fn list(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let list: HaltList = client.call(Call::get("/v1/halts"))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&list)?);
        return Ok(Outcome::Yes);
    }
    let paint = Paint::of(Stream::Out);
    for halt in &list.halts {
        let scope = paint.word(Tone::Bad, &halt.scope);
        say(format_args!(
            "{scope} since entry {} at {}, by {}: {}",
            halt.epoch,
            time(halt.at),
            halt.by,
            inline(&halt.reason)
        ));
    }
    for effect in &list.in_flight {
        say(format_args!("in flight: entry {}, {} under {}", effect.entry, effect.agent, effect.pact));
    }
    if list.halts.is_empty() {
        note("Nothing is halted.");
    }
    Ok(Outcome::Yes)
}
