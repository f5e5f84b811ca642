//! `countersign audit`: every entry decided again.

use super::{Exit, Failure, Folder, Outcome, verify};
use crate::config::Config;
use crate::data::LogFolder;
use crate::terminal::{Paint, Stream, Tone, advance, count, note, progress, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_engine::audit::{AuditError, AuditReport, audit};
use countersign_engine::storage::StorageError;
use serde_json::json;

/// Decide every entry again, and compare byte for byte
///
/// Replays the ledger from its start through the same `decide` and compares each verdict with the recorded one. Reads without
/// taking the folder, so that it can run beside a gate. Entries whose payload was erased, or that depend on one, are reported
/// as unverifiable, with the erasure that made them so.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign audit --data countersign-data --key gate.vkey

Exit codes: 0 every entry came out the same or was erased, 1 an entry differs or the log is broken, 3 it cannot be read")]
pub struct AuditArgs {
    #[command(flatten)]
    folder: Folder,
    /// The log's public key, or a file that holds it [default: log.vkey in the data folder]
    #[arg(long, value_name = "KEY|FILE")]
    key: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Audits.
pub fn run(args: &AuditArgs, config: &Config) -> Result<Outcome> {
    let folder = LogFolder::find(&config.data(args.folder.data.as_deref()))?;
    let key = args.key.as_deref().map_or_else(|| folder.public_key(), verify::key)?;
    let bar = progress(folder.expected_size(), "auditing");
    let done = audit(&folder.disk()?, &key, &mut |entries| advance(&bar, entries));
    bar.finish_and_clear();
    let report = done.map_err(broken)?;
    let is_same = report.differing_count == 0;
    if args.json {
        say_json(&to_json(&report, is_same));
    } else {
        show(&report, is_same);
    }
    Ok(if is_same { Outcome::Yes } else { Outcome::No })
}

/// A log that cannot be read is one thing, a log that does not hold another.
pub fn broken(error: AuditError) -> anyhow::Error {
    match error {
        AuditError::Storage(error @ StorageError::Io { .. }) => error.into(),
        AuditError::Storage(error) => Failure::of(Exit::No, error).hint("see `countersign verify`").into(),
    }
}

fn show(report: &AuditReport, is_same: bool) {
    let paint = Paint::of(Stream::Out);
    let word = if is_same { paint.word(Tone::Good, "same") } else { paint.word(Tone::Bad, "differs") };
    let unverifiable = u64::try_from(report.unverifiable.len()).unwrap_or(u64::MAX);
    say(format_args!(
        "{word}: {} read, {} decided again with the same bytes, {} differing, {unverifiable} unverifiable",
        count(report.entries, "entry", "entries"),
        report.verified,
        report.differing_count
    ));
    for differing in &report.differing {
        say(format_args!("  entry {} differs: {}", differing.entry, differing.what));
    }
    for entry in &report.unverifiable {
        let erased = entry.erased_by.map_or_else(|| "erased".to_owned(), |by| format!("erased by {by}"));
        let unknown = entry.unknown.as_str();
        say(format_args!(
            "  entry {} is unverifiable: {unknown} is not known, since entry {} was {erased}",
            entry.entry, entry.depends_on
        ));
    }
    verify::say_put_back(&report.put_back);
    if report.torn_tail {
        note("note: after the last whole batch follow bytes that were never acknowledged");
    }
}

fn to_json(report: &AuditReport, is_same: bool) -> serde_json::Value {
    let differing = report.differing.iter().map(|entry| json!({"entry": entry.entry, "what": entry.what}));
    let unverifiable = report.unverifiable.iter();
    let unverifiable = unverifiable.map(|entry| {
        json!({"entry": entry.entry, "depends_on": entry.depends_on, "erased_by": entry.erased_by,
            "unknown": entry.unknown.as_str()})
    });
    json!({"ok": is_same, "entries": report.entries, "verified": report.verified,
        "differing_count": report.differing_count, "differing": differing.collect::<Vec<_>>(),
        "unverifiable": unverifiable.collect::<Vec<_>>(), "torn_tail": report.torn_tail,
        "put_back": report.put_back.iter().map(|(entry, _)| entry).collect::<Vec<_>>()})
}
