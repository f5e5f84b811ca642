//! `countersign halt`, `resume` and `halts`: the power to stop.

use super::{Connection, Failure, OPERATOR, Outcome};
use crate::client::Call;
use crate::config::Config;
use crate::terminal::{Paint, Stream, Tone, inline, note, say, say_json, time};
use anyhow::Result;
use clap::Args;
use countersign_api::{HaltEntered, HaltList, HaltRequest};

/// Stop an agent, a pact, an org or everything
///
/// The halt is a ledger entry and goes past everything that has queued: no action of the scope commits in a later entry until
/// it is resumed. It works while the gate's queue is full.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign halt --agent refund-1 --reason 'paying twice'
  countersign halt --all --reason 'incident 4711'
  countersign halts                     what is halted, since when, by whom and why")]
pub struct HaltArgs {
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
#[command(after_help = "Examples:\n  countersign resume --agent refund-1 --reason 'fixed'")]
pub struct ResumeArgs {
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
    /// This agent, and whatever it is a member of the acting chain of
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

/// List what is halted
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign halts --json")]
pub struct HaltsArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Halts. What matches nothing is in force all the same, and is told as what it most likely is: a slip of the keyboard.
pub fn halt(args: &HaltArgs, config: &Config) -> Result<Outcome> {
    let entered = enter(&args.stop, config, "/v1/halts")?;
    if entered.matches != Some(0) || args.allow_unknown {
        return told(&args.stop, &entered, "halted", "nothing that it covers commits after that");
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
        failure = failure.hint(format!("did you mean it? countersign halt --{kind} {closest} --reason …"));
    }
    Err(failure
        .hint("`countersign agent list` and `countersign pact list` have the names; `countersign halt --all` stops everything")
        .hint("add --allow-unknown if it is meant for something to come; `countersign resume` takes it back")
        .into())
}

/// Resumes.
pub fn resume(args: &ResumeArgs, config: &Config) -> Result<Outcome> {
    let entered = enter(&args.stop, config, "/v1/halts/resume")?;
    told(&args.stop, &entered, "resumed", "see `countersign halts` for what is still halted")
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

/// Lists halts.
pub fn list(args: &HaltsArgs, config: &Config) -> Result<Outcome> {
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
