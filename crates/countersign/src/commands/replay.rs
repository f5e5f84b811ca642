//! `countersign replay`: what other pacts would have said.

use super::pact::{PactFile, read_all};
use super::{Failure, Folder, Outcome, audit, verify};
use crate::config::Config;
use crate::data::LogFolder;
use crate::terminal::{advance, note, progress, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_core::ids::PactName;
use countersign_core::pact::Pact;
use countersign_engine::audit::{Difference, Outcome as Decided, ReplayReport, replay};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Ask which past verdicts would differ under other pacts
///
/// Decides every recorded action again under the pacts in a folder, each on the facts as they were recorded at its own place in
/// the ledger, and lists the verdicts that would differ. Nothing cascades: an action that would have been rejected still has its
/// recorded effects on the facts of those after it. Writes nothing. Use it before you publish a stricter pact.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign replay --pacts pacts-next/ --data countersign-data
  countersign replay --pacts pacts-next/ --json | jq '.differing | length'

Exit codes: 0 replayed, whatever differs; 1 a pact has problems or the log is broken; 3 it cannot be read")]
pub struct ReplayArgs {
    /// The pacts to decide by: a folder or a file; may be repeated
    #[arg(long, required = true, value_name = "DIR")]
    pacts: Vec<PathBuf>,
    #[command(flatten)]
    folder: Folder,
    /// The log's public key, or a file that holds it [default: log.vkey in the data folder]
    #[arg(long, value_name = "KEY|FILE")]
    key: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Replays.
pub fn run(args: &ReplayArgs, config: &Config) -> Result<Outcome> {
    let pacts = pacts(&args.pacts)?;
    let folder = LogFolder::find(&config.data(args.folder.data.as_deref()))?;
    let key = args.key.as_deref().map_or_else(|| folder.public_key(), verify::key)?;
    let bar = progress(folder.expected_size(), "replaying");
    let done = replay(&folder.disk()?, &key, &pacts, &mut |entries| advance(&bar, entries));
    bar.finish_and_clear();
    let report = done.map_err(audit::broken)?;
    if args.json {
        say_json(&to_json(&report));
    } else {
        show(&report);
    }
    Ok(Outcome::Yes)
}

fn pacts(paths: &[PathBuf]) -> Result<BTreeMap<PactName, Arc<Pact>>> {
    let files = read_all(paths)?;
    if let Some(file) = files.iter().find(|file| !PactFile::is_sound(file)) {
        return Err(Failure::no(format!("{} has problems", file.path.display()))
            .hint(format!("see them with `countersign pact check {}`", file.path.display()))
            .into());
    }
    // Sorted by version, so that of several versions the latest counts.
    let mut pacts: Vec<_> = files.into_iter().filter_map(|file| file.pact).collect();
    pacts.sort_by_key(|pact| pact.version);
    Ok(pacts.into_iter().map(|pact| (pact.name.clone(), pact)).collect())
}

fn show(report: &ReplayReport) {
    for Difference { entry, pact, action, agent, recorded, replayed } in &report.differing {
        say(format_args!("entry {entry}: {agent} {pact}/{action}: {} -> {}", line(recorded), line(replayed)));
    }
    say(format_args!("{} of {} verdicts would differ", report.differing.len(), report.actions));
    if report.other_pacts > 0 {
        note(format_args!("{} actions are of pacts that were not given and keep their verdict.", report.other_pacts));
    }
    if report.erased > 0 {
        note(format_args!("{} actions cannot be decided again: their payloads were erased.", report.erased));
    }
}

fn line(outcome: &Decided) -> String {
    let mut text = outcome.verdict.clone();
    if let Some(code) = &outcome.code {
        text.push_str(&format!(" ({code}"));
        if !outcome.failed.is_empty() {
            text.push_str(&format!(": {}", outcome.failed.join(", ")));
        }
        text.push(')');
    }
    text
}

fn to_json(report: &ReplayReport) -> Value {
    let outcome =
        |outcome: &Decided| json!({"verdict": outcome.verdict, "code": outcome.code, "failed": outcome.failed});
    let differing = report.differing.iter().map(|difference| {
        json!({"entry": difference.entry, "pact": difference.pact.as_str(), "action": difference.action,
            "agent": difference.agent, "recorded": outcome(&difference.recorded), "replayed": outcome(&difference.replayed)})
    });
    json!({"actions": report.actions, "erased": report.erased, "other_pacts": report.other_pacts,
        "differing": differing.collect::<Vec<_>>()})
}
