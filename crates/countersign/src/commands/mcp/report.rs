//! `countersign mcp report`.

use super::trial::kept;
use crate::commands::{Failure, Folder, Outcome, audit, verify};
use crate::config::Config;
use crate::data::LogFolder;
use crate::mcp::report::{Because, Calls, Collector, Read, Report};
use crate::mcp::shell::word;
use crate::terminal::{count, inline, note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_core::record::{Entry, Leaf};
use countersign_engine::audit::AuditError;
use countersign_engine::fold::walk_options;
use countersign_engine::storage::Walk as _;
use countersign_ledger::tree::Frontier;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Say which calls of tools were refused, or would have been in shadow mode, and what to approve
///
/// Reads the ledger and says for each tool how often it was called, how often it was refused or would have been, and why; what was
/// read, and whether a write ever rested on it. Then it proposes commands: paths that differ whenever they are read, readings that no
/// write used, tools that nothing guards. Approve what you agree with, and turn shadow mode off: unmapped = "deny" in countersign.toml and
/// `countersign mcp approve`, or `mcp try` without --shadow.
///
/// Without --data it reads the data folder that is here, or else the trial that was started in this folder.
///
/// Reads without taking the folder, so that it can run beside a gate, and while an agent has the folder open.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign mcp report                            of the gate in countersign-data, or of the trial that was started here
  countersign mcp report --json | jq .proposals     what it proposes, for a program

Exit codes: 0 reported, 1 the log is broken, 3 it cannot be read")]
pub struct ReportArgs {
    #[command(flatten)]
    folder: Folder,
    /// The log's public key, or a file that holds it [default: log.vkey in the data folder]
    #[arg(long, value_name = "KEY|FILE")]
    key: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reports.
pub fn run(args: &ReportArgs, config: &Config) -> Result<Outcome> {
    let data = data(args, config)?;
    let folder = LogFolder::find(&data)?;
    let trial = kept::started(&data);
    let report = of_folder(&folder, args.key.as_deref(), trial.as_deref())?;
    if args.json {
        say_json(&serde_json::to_value(&report)?);
    } else {
        show(&report);
    }
    Ok(Outcome::Yes)
}

/// The folder to report on: the one that is named, the gate's, or that of the trial that was started here.
fn data(args: &ReportArgs, config: &Config) -> Result<PathBuf> {
    let usual = config.data(args.folder.data.as_deref());
    if args.folder.data.is_some() || config.data.is_some() || usual.exists() {
        return Ok(usual);
    }
    match kept::found().as_slice() {
        [] => Err(Failure::cannot(format!("there is no {} here, and no trial was started here", usual.display()))
            .hint("name the data folder of a gate with --data; `countersign mcp try` prints that of a trial")
            .into()),
        [trial] => {
            note(format_args!("Of the trial in {}", trial.display()));
            Ok(trial.clone())
        }
        several => {
            let all = |failure: Failure, trial: &PathBuf| {
                failure.hint(format!("countersign mcp report --data {}", word(&trial.display().to_string())))
            };
            let failure = Failure::usage("several trials were started here");
            Err(several.iter().fold(failure, all).into())
        }
    }
}

fn of_folder(folder: &LogFolder, key: Option<&str>, trial: Option<&[String]>) -> Result<Report> {
    let key = key.map_or_else(|| folder.public_key(), verify::key)?;
    let mut collector = Collector::default();
    let walked = folder.disk()?.walk(walk_options(&key), Frontier::new(), &mut |placed| {
        for found in placed.entries() {
            collector.entry(&Entry::decode(Leaf::decode(found.leaf)?, found.payload)?);
        }
        Ok(())
    });
    walked.map_err(|error| audit::broken(AuditError::Storage(error)))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(collector.finish(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), trial))
}

fn show(report: &Report) {
    let readings = report.readings.values().map(|read| read.readings).sum();
    say(format_args!(
        "{}, {}, {}",
        count(report.entries, "entry", "entries"),
        count(report.sessions, "session", "sessions"),
        count(readings, "reading", "readings")
    ));
    if report.erased > 0 {
        note(format_args!("{} were erased, and are not in this.", count(report.erased, "entry", "entries")));
    }
    report.calls.iter().for_each(|(tool, calls)| show_calls(tool, calls));
    if !report.readings.is_empty() {
        say("\nRead:");
    }
    for (tool, Read { readings, sessions, rested_on, changed }) in &report.readings {
        let read = if *readings == 1 { "once".to_owned() } else { format!("{readings} times") };
        let sessions = count(*sessions, "session", "sessions");
        let rested = match rested_on {
            0 => "no write rested on it".to_owned(),
            _ => format!("{} rested on it, {changed} found it changed", count(*rested_on, "write", "writes")),
        };
        say(format_args!("  {}: {read} in {sessions}; {rested}", inline(tool)));
    }
    if !report.proposals.is_empty() {
        say("\nSuggestions:");
    }
    for proposal in &report.proposals {
        say(format_args!("  {}", inline(proposal.run.as_ref().unwrap_or(&proposal.tool))));
        say(format_args!("      {}", proposal.says()));
    }
    if report.is_shadowed && report.shadow_in_force {
        say(
            "\nTo refuse from now on what would have been refused: unmapped = \"deny\" under [mcp] in countersign.toml and then \
             `countersign mcp approve`, which ends shadow mode at the gate; or `mcp try` without --shadow; or mode = \"enforce\" in a \
             pact.",
        );
    }
}

fn show_calls(tool: &str, calls: &Calls) {
    let Calls { calls: all, refused, would_refuse, not_made, failed, in_doubt, reasons, .. } = calls;
    let mut said = vec![count(*all, "call", "calls")];
    if *refused > 0 {
        said.push(format!("{refused} refused"));
    }
    if *would_refuse > 0 {
        said.push(format!("{would_refuse} went through that would have been refused"));
    }
    if *not_made > 0 {
        said.push(format!("{not_made} that would have been refused and could not be sent either"));
    }
    if *failed > 0 {
        said.push(format!("{failed} failed"));
    }
    if *in_doubt > 0 {
        said.push(format!("{in_doubt} in doubt"));
    }
    say(format_args!("\n{}: {}", inline(tool), said.join(", ")));
    for Because { message, calls, again, entries, code, made } in reasons {
        let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
        let more = if u64::try_from(entries.len()).is_ok_and(|named| named < *calls) { ", …" } else { "" };
        let again = match again {
            0 => String::new(),
            1 => "; 1 of them repeats an earlier refusal".to_owned(),
            again => format!("; {again} of them repeat an earlier refusal"),
        };
        let what = if *made { "would have been refused" } else { "refused" };
        say(format_args!(
            "  {calls} × {what}: {} ({code}, entry {}{more}{again})",
            inline(message),
            entries.join(", ")
        ));
    }
}
