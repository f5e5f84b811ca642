//! `countersign effect`: external calls, their state, resolving those in doubt, and undoing them.

mod undo;

use super::verdict::show_failed;
use super::{Connection, OPERATOR, Outcome};
use crate::client::{Call, escape};
use crate::config::Config;
use crate::terminal::{Paint, Stream, Tone, inline, note, say, say_json, time};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use countersign_api::{Effect, EffectList, EffectState, LastTry, ResolveRequest, Resolved};

/// Follow, resolve and undo external calls
#[derive(Debug, Subcommand)]
pub enum EffectCommand {
    List(ListArgs),
    Show(ShowArgs),
    Resolve(ResolveArgs),
    Undo(undo::UndoArgs),
}

/// List the effects under way: cooling, dispatched or in doubt
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign effect list\n  countersign effect list --in-doubt --json")]
pub struct ListArgs {
    /// Only those in doubt: it is unknown whether they happened
    #[arg(long)]
    in_doubt: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Show one effect: where it is, what was sent, what came of it, and what it keeps fenced
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign effect show eff_813
  countersign effect show eff_813 --wait 10s

Exit codes with --wait: 0 settled, 5 in doubt, 6 still under way, 7 failed")]
pub struct ShowArgs {
    /// Wait until it ends or is in doubt, and set the exit code: 10, 10s; at most 1m
    #[arg(long, value_name = "TIME", value_parser = super::wait_seconds)]
    wait: Option<u32>,
    #[command(flatten)]
    which: Which,
}

/// Say what became of an effect that is in doubt
///
/// Ask the other side first: what you say is recorded in the ledger under your name, and ends the fences. Nothing is sent again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign effect resolve eff_813 settled --reason 'the bank confirms the transfer by phone'
  countersign effect resolve eff_813 failed --reason 'not in the statement of the next day'")]
pub struct ResolveArgs {
    #[command(flatten)]
    which: Which,
    /// Whether it happened
    #[arg(value_name = "OUTCOME")]
    outcome: Outcomes,
    /// How that is known
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// How a doubt ends.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Outcomes {
    /// It happened
    Settled,
    /// It did not happen, and will not
    Failed,
}

#[derive(Debug, Args)]
struct Which {
    /// The effect, such as eff_813
    #[arg(value_name = "EFFECT")]
    effect: String,
    /// The operator, in an open gate
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs it.
pub fn run(command: &EffectCommand, config: &Config) -> Result<Outcome> {
    match command {
        EffectCommand::List(args) => list(args, config),
        EffectCommand::Show(args) => {
            let call = Call::get(format!("/v1/effects/{}", escape(&args.which.effect)));
            let wait_ms = u64::from(args.wait.unwrap_or(0)) * 1000;
            let state = answer(&args.which, config, call.waiting_ms(wait_ms))?;
            Ok(args.wait.map_or(Outcome::Yes, |_| state.into()))
        }
        EffectCommand::Resolve(args) => {
            let outcome = match args.outcome {
                Outcomes::Settled => Resolved::Settled,
                Outcomes::Failed => Resolved::Failed,
            };
            let request = ResolveRequest { outcome, reason: args.reason.clone() };
            let path = format!("/v1/effects/{}/resolve", escape(&args.which.effect));
            answer(&args.which, config, Call::post(path).json(&request)?)?;
            Ok(Outcome::Yes)
        }
        EffectCommand::Undo(args) => undo::run(args, config),
    }
}

fn answer(which: &Which, config: &Config, call: Call) -> Result<EffectState> {
    let client = which.connection.client(config)?;
    let effect: Effect = client.call(call.agent(&which.by))?;
    client.close()?;
    if which.json {
        say_json(&serde_json::to_value(&effect)?);
    } else {
        show(&effect);
    }
    Ok(effect.state)
}

fn list(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let mut list: EffectList = client.call(Call::get("/v1/effects"))?;
    client.close()?;
    list.effects.retain(|effect| !args.in_doubt || effect.state == EffectState::InDoubt);
    if args.json {
        say_json(&serde_json::to_value(&list)?);
        return Ok(Outcome::Yes);
    }
    for effect in &list.effects {
        say(headline(effect, Paint::of(Stream::Out)));
    }
    if list.effects.is_empty() {
        note("Nothing is under way.");
    }
    Ok(Outcome::Yes)
}

fn headline(effect: &Effect, paint: Paint) -> String {
    let tone = match effect.state {
        EffectState::Settled => Tone::Good,
        EffectState::InDoubt | EffectState::Failed => Tone::Bad,
        EffectState::Cooling | EffectState::Dispatched => Tone::Warn,
    };
    let state = paint.word(tone, effect.state.as_str());
    let Effect { effect: name, agent, pact, action, at, .. } = effect;
    format!("{name}  {state}  {pact}.{action} by {agent} at {}", time(*at))
}

fn show(effect: &Effect) {
    say(headline(effect, Paint::of(Stream::Out)));
    if let Some(at) = effect.dispatch_at {
        say(format_args!("  cools until {}, then it is decided again", time(at)));
    }
    if let Some(adapter) = &effect.adapter {
        say(format_args!("  carried out by {adapter}"));
    }
    say(format_args!("  idempotency key {}", effect.idempotency_key));
    if let Some(send) = effect.call.as_ref().and_then(|call| call.get("send")) {
        say(format_args!("  sends {send}"));
    }
    if let Some(evidence) = &effect.evidence {
        say(format_args!("  {} (attempts: {})", inline(&evidence.summary), evidence.attempts));
        if let Some(result) = &evidence.result {
            say(format_args!("  answered {result}"));
        }
    }
    if let Some(LastTry { at, number, found }) = &effect.last_try {
        let what = if effect.state == EffectState::InDoubt { "probe" } else { "attempt" };
        say(format_args!("  {what} {number} at {} was not conclusive: {found}", time(*at)));
    }
    if let (Some(code), Some(message)) = (&effect.code, &effect.message) {
        say(format_args!("  {code}: {}", inline(message)));
    }
    for failed in &effect.failed {
        show_failed(failed, Paint::of(Stream::Out));
    }
    if !effect.fences.is_empty() {
        say(format_args!("  keeps fenced: {}", effect.fences.join(", ")));
    }
    for entry in &effect.held_feeds {
        say(format_args!("  holds up the feed of entry {entry}: `countersign ledger show {entry}`"));
    }
    match effect.probed {
        Some(true) => note("It is probed until its outcome is known; you do not have to do anything."),
        Some(false) => note(format_args!(
            "Find out whether it happened, and say so: {}",
            countersign_core::reason::resolving(&effect.effect)
        )),
        None => note(format_args!("See `countersign ledger show {}`.", effect.entry)),
    }
    if effect.undo_with.is_some() {
        note(format_args!("`countersign effect undo {}` undoes it.", effect.effect));
    }
}
