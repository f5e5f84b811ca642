//! `countersign review`: what waits for a person, and deciding it.

use super::screened::{found, found_in_json, safe};
use super::{Connection, Failure, OPERATOR, Outcome, verdict};
use crate::client::{Call, Client, escape};
use crate::config::Config;
use crate::terminal::{Paint, Stream, Tone, note, say, say_json, time};
use anyhow::Result;
use clap::{Args, Subcommand};
use countersign_api::{
    ApproveRequest, Change, RefuseRequest, Refused, ReviewFact, ReviewList, ReviewReading, ReviewShown, Verdict,
};
use serde_json::Value;
use std::io::{BufRead as _, IsTerminal as _};

/// Decide what waits for a person
#[derive(Debug, Subcommand)]
pub enum ReviewCommand {
    List(ListArgs),
    Show(ShowArgs),
    Approve(ApproveArgs),
    Refuse(RefuseArgs),
}

/// List the actions that wait for a person
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign review list --json")]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Show an action that waits: its parameters whole, and the facts as they were observed and as they are now
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign review show rev_813")]
pub struct ShowArgs {
    #[command(flatten)]
    which: Which,
}

/// Approve an action: show it, ask, and have it done if nothing that it rests on has changed
///
/// The approval waives exactly the preconditions that are shown to have failed. Everything else is decided again at that
/// instant; if anything that a condition reads is not as it was shown, the approval is void, and nothing is done.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign review approve rev_813\n  countersign review approve rev_813 --yes")]
pub struct ApproveArgs {
    #[command(flatten)]
    which: Which,
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(long)]
    yes: bool,
}

/// Refuse an action
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign review refuse rev_813 --reason 'the customer has withdrawn'")]
pub struct RefuseArgs {
    #[command(flatten)]
    which: Which,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Debug, Args)]
struct Which {
    /// The review, such as rev_813
    #[arg(value_name = "REVIEW")]
    review: String,
    /// The reviewer
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Which {
    fn path(&self) -> String {
        format!("/v1/reviews/{}", escape(&self.review))
    }

    fn shown(&self, client: &Client) -> Result<ReviewShown> {
        client.call(Call::get(self.path()).agent(&self.by))
    }
}

/// Runs it.
pub fn run(command: &ReviewCommand, config: &Config) -> Result<Outcome> {
    match command {
        ReviewCommand::List(args) => list(args, config),
        ReviewCommand::Show(args) => {
            let client = args.which.connection.client(config)?;
            let shown = args.which.shown(&client)?;
            client.close()?;
            if args.which.json {
                say_json(&serde_json::to_value(&shown)?);
            } else {
                show(&shown)?;
            }
            Ok(Outcome::Yes)
        }
        ReviewCommand::Approve(args) => approve(args, config),
        ReviewCommand::Refuse(args) => {
            let client = args.which.connection.client(config)?;
            let request = RefuseRequest { reason: args.reason.clone() };
            let path = format!("{}/refuse", args.which.path());
            let refused: Refused = client.call(Call::post(path).agent(&args.which.by).json(&request)?)?;
            client.close()?;
            if args.which.json {
                say_json(&serde_json::to_value(&refused)?);
            } else {
                say(format_args!("refused {} in entry {}", refused.review, refused.entry));
            }
            Ok(Outcome::Yes)
        }
    }
}

fn list(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let list: ReviewList = client.call(Call::get("/v1/reviews"))?;
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&list)?);
        return Ok(Outcome::Yes);
    }
    for review in &list.reviews {
        say(format_args!(
            "{}  {} does {}.{}, since {}, until {}",
            review.review,
            review.agent,
            review.pact,
            review.action,
            time(review.at),
            time(review.expires_at)
        ));
    }
    if list.reviews.is_empty() {
        note("Nothing waits for a person.");
    }
    Ok(Outcome::Yes)
}

/// Prints what a reviewer decides on, in its safe form; nothing is shortened.
fn show(shown: &ReviewShown) -> Result<()> {
    let paint = Paint::of(Stream::Out);
    let summary = &shown.summary;
    let pact = &shown.pact_ref;
    say(format_args!(
        "{}: {} does {} under {} version {}",
        paint.word(Tone::Strong, &summary.review),
        summary.agent,
        summary.action,
        pact.name,
        pact.version
    ));
    if !shown.chain.is_empty() {
        say(format_args!("  on behalf of: {}", shown.chain.join(" -> ")));
    }
    let params = serde_json::to_string_pretty(&shown.params)?;
    say(format_args!("  parameters: {}", params.lines().map(safe).collect::<Vec<_>>().join("\n  ")));
    warn(paint, found_in_json(&shown.params.to_string()));
    shown.readings.iter().for_each(|reading| show_reading(paint, reading));
    // A reading is shown above, and not by its digest.
    let is_reading = |fact: &&ReviewFact| fact.fact.starts_with("Reading::");
    for fact in shown.facts.iter().filter(|fact| !is_reading(fact)) {
        let value = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "absent".to_owned(), |value| safe(&value.to_string()))
        };
        match &fact.digest {
            Some(_) => say(format_args!("  {} as read just now: {}", fact.fact, value(&fact.value))),
            None => say(format_args!("  {} version {}: {}", fact.fact, fact.version, value(&fact.value))),
        }
        warn(paint, fact.value.as_ref().and_then(|value| found_in_json(&value.to_string())));
        match fact.observed_version {
            Some(version) if version == fact.version => say("      as the agent observed it"),
            Some(version) => {
                say(format_args!("      the agent observed version {version}: {}", value(&fact.observed_value)));
            }
            None if fact.observed_at.is_some() => {
                say(format_args!("      the agent observed {}", value(&fact.observed_value)));
            }
            None => say("      the agent had not observed it"),
        }
    }
    for failed in &shown.waives {
        say(format_args!("  {} {} would be waived", paint.word(Tone::Warn, "!"), failed.precondition));
        say(format_args!("      that: {}", failed.that));
    }
    if let Some(blocked) = &shown.blocked {
        say(format_args!("  {} it could not be approved now: {blocked}", paint.word(Tone::Bad, "✗")));
    }
    say(format_args!("  waits until {}", time(summary.expires_at)));
    Ok(())
}

/// Says what screening found in what stands above.
fn warn(paint: Paint, found: Option<String>) {
    if let Some(found) = found {
        say(format_args!("      {} it screens as {found}", paint.word(Tone::Warn, "!")));
    }
}

/// What the agent had read when it asked.
fn show_reading(paint: Paint, reading: &ReviewReading) {
    let ReviewReading { upstream, tool, arguments, read_at, content, cut, read_again, changes } = reading;
    let name = safe(&format!("{upstream}/{tool} {arguments}"));
    let shown = match (content, cut) {
        (Some(content), true) => format!("{} (cut)", safe(content)),
        (Some(content), false) => safe(content),
        (None, _) => "an answer that is not kept".to_owned(),
    };
    say(format_args!("  the agent had read {name} at {}: {shown}", time(*read_at)));
    warn(paint, content.as_deref().and_then(found));
    if *read_again {
        say("      it was read again since and reads differently, so the agent has to ask again");
    }
    for Change { path, before, after } in changes {
        let value = |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".to_owned(), safe);
        say(format_args!("      {}: {} → {}", safe(path), value(before), value(after)));
    }
}

fn approve(args: &ApproveArgs, config: &Config) -> Result<Outcome> {
    let client = args.which.connection.client(config)?;
    let shown = args.which.shown(&client)?;
    if !args.which.json {
        show(&shown)?;
    }
    if !args.yes && !confirmed(&args.which.review)? {
        client.close()?;
        note("Nothing was approved.");
        return Ok(Outcome::No);
    }
    let request = ApproveRequest { shown: shown.shown, expires_in_ms: None };
    let path = format!("{}/approve", args.which.path());
    let answer: Verdict = client.call(Call::post(path).agent(&args.which.by).json(&request)?)?;
    client.close()?;
    if args.which.json {
        say_json(&serde_json::to_value(&answer)?);
    } else {
        verdict::show(&answer);
    }
    Ok(answer.verdict.into())
}

fn confirmed(review: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("there is no terminal to ask on whether to approve {review}"))
            .hint("add --yes if what is shown above is what you approve")
            .into());
    }
    note(format_args!("Approve {review}? Type yes:"));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == "yes")
}
