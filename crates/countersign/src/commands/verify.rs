//! `countersign verify`: the log, judged offline by its key and by what others hold of it.
//!
//! Reads without taking the folder, so that it can run beside a gate, and needs nothing of the folder but the log itself (I7).

mod attested;

use super::{Exit, Failure, Folder, Outcome};
use crate::config::Config;
use crate::data::LogFolder;
use crate::hinted::{OrHinted as _, hinted};
use crate::terminal::{Paint, Report, Stream, Tone, advance, count, note, progress, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_core::record::Leaf;
use countersign_engine::fold::{named_key, walk_options};
use countersign_engine::identity::stored;
use countersign_engine::storage::{Place, StorageError, WalkEnd, walk};
use countersign_ledger::checkpoint::{KeyChain, KeyError, LogKey};
use countersign_ledger::receipt::{PREFIX, Receipt};
use countersign_ledger::tree::Frontier;
use countersign_ledger::verify::{Broken, Evidence, LogVerifier, Summary};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Check the log offline: structure, hashes, signatures, and what you hold of it
///
/// Reads every entry and rebuilds the tree from the leaves. Checks every checkpoint's signature with the log's key, which must be
/// or have been the one you give; every payload against the commitment in its leaf; and the signature of every agent or operator
/// against the entry it signed. With --against, also checks that the log still contains what your checkpoint or receipt says: that
/// is how you find a history that was rewritten and signed again. Reports exactly where a log breaks. Needs no server and no
/// secret, and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign verify --data countersign-data --log-key gate.vkey
  countersign verify --log-key gate.vkey --against checkpoint-from-may.txt --against entry-812.receipt
  countersign verify --log-key gate.vkey --attested shown.json

`countersign init` prints the log's key. Get it from someone you trust, not from the folder you check.
Exit codes: 0 the log holds, 1 it is broken, disagrees with what you hold, or has a payload that an erasure names, 3 it cannot be read")]
pub struct VerifyArgs {
    #[command(flatten)]
    folder: Folder,
    /// The log's public key, or a file that holds it
    #[arg(long, value_name = "KEY|FILE")]
    log_key: String,
    /// A checkpoint or receipt that the log must agree with: a file, or the receipt itself; may be repeated
    #[arg(long, value_name = "FILE|RECEIPT", num_args = 1..)]
    against: Vec<String>,
    /// Check only what `countersign observe --attest --proof` wrote: which agent was shown what, and when; needs no log
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    attested: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a walk over the log counted besides the summary.
struct Found {
    summary: Summary,
    erased: u64,
    signed: u64,
    gateway: u64,
    end: WalkEnd,
}

/// Why the log does not hold.
struct Flaw {
    place: Option<Place>,
    problem: Report,
}

/// Verifies.
pub fn run(args: &VerifyArgs, config: &Config) -> Result<Outcome> {
    let key = key(&args.log_key)?;
    if let Some(path) = &args.attested {
        return attested::run(path, &key, args.json);
    }
    let folder = LogFolder::find(&config.data(args.folder.data.as_deref()))?;
    let held = args.against.iter().map(|given| Held::read(given)).collect::<Result<Vec<_>>>()?;
    #[cfg(feature = "sabotage")]
    if crate::sabotage::control() == Some(countersign_engine::sabotage::Control::Verification) {
        say_json(&json!({"ok": true}));
        return Ok(Outcome::Yes);
    }
    match judge(&folder, &key, &held)? {
        Ok(found) => {
            show(&found, args.json);
            Ok(if found.end.put_back.is_empty() { Outcome::Yes } else { Outcome::No })
        }
        Err(flaw) if args.json => {
            say_json(&flaw.to_json());
            Ok(Outcome::No)
        }
        Err(flaw) => Err(Failure::of_report(Exit::No, flaw.problem).into()),
    }
}

/// How many entries a log has, if it holds under its key; what is wrong with it otherwise.
pub fn entries(folder: &LogFolder, key: &LogKey) -> Result<Result<u64, Report>> {
    let judged = judge(folder, key, &[])?;
    Ok(judged.map(|found| found.summary.size).map_err(|flaw| flaw.problem))
}

/// Judges the log alone, or against what is held. The outer error is that it cannot be read, the inner that it does not hold.
fn judge(folder: &LogFolder, key: &LogKey, held: &[Held]) -> Result<Result<Found, Flaw>> {
    let mut verifier = LogVerifier::new(key.clone());
    if !held.is_empty() {
        // Which key vouches for what is held depends on its size, so the log is read for its keys first: a replaced key that
        // was stolen must not be able to accuse the log.
        let keys = match read_keys(folder, key)? {
            Ok(keys) => keys,
            Err(flaw) => return Ok(Err(flaw)),
        };
        let evidence = held.iter().map(|held| held.open(&keys)).collect::<Result<Vec<_>>>()?;
        verifier.expect(evidence).map_err(|broken| Failure::of(Exit::No, broken))?;
    }
    examine(folder, key, verifier)
}

/// A log's public key, given as text or as a file.
pub fn key(given: &str) -> Result<LogKey> {
    let text = match std::fs::read_to_string(given) {
        Ok(text) => text,
        Err(_) if given.contains('+') => given.to_owned(),
        Err(error) => {
            return Err(Failure::cannot(format!("cannot read the key file {given}: {error}"))
                .hint("name the file that holds the log's public key, or give the key itself: ORIGIN+ID+KEY")
                .into());
        }
    };
    let parsed = text.trim().parse::<LogKey>();
    Ok(parsed.map_err(|error: KeyError| {
        Failure::usage(format!("this is not a log's public key: {error}"))
            .hinted_by(&error)
            .hint("it looks like gate.example.com/log+1a2b3c4d+…, as `countersign init` prints it")
    })?)
}

/// A checkpoint or receipt that the caller kept, not yet checked with any key.
struct Held {
    name: String,
    text: String,
    receipt: Option<Receipt>,
}

impl Held {
    fn read(given: &str) -> Result<Self> {
        let (name, text) = if given.starts_with(PREFIX) {
            ("the receipt".to_owned(), given.to_owned())
        } else {
            let text = std::fs::read_to_string(given).or_hinted(|| {
                hinted!("cannot read {given}"; "name a file that holds a checkpoint or a receipt, or give the receipt itself")
            })?;
            let name = Path::new(given).file_name().map(|name| name.to_string_lossy().into_owned());
            (name.unwrap_or_else(|| given.to_owned()), text)
        };
        let trimmed = text.trim();
        let receipt = if trimmed.starts_with(PREFIX) {
            Some(Receipt::decode(trimmed))
        } else if trimmed.starts_with("c2sp.org/tlog-proof") {
            Some(Receipt::from_tlog_proof(&text))
        } else {
            None
        };
        let receipt = receipt.transpose().map_err(|error| not_of_this_log(&name, error))?;
        Ok(Self { name, text, receipt })
    }

    fn open(&self, keys: &KeyChain) -> Result<Evidence> {
        let Self { name, text, receipt } = self;
        Ok(match receipt {
            Some(receipt) => Evidence::receipt(name, receipt, keys).map_err(|error| not_of_this_log(name, error))?,
            None => Evidence::checkpoint(name, text, keys).map_err(|error| not_of_this_log(name, error))?,
        })
    }
}

fn not_of_this_log(name: &str, error: impl std::error::Error + 'static) -> Failure {
    Failure::no(format!("{name} is not of this log: {error}")).hinted_by(&error)
}

/// The keys that the log has had.
fn read_keys(folder: &LogFolder, key: &LogKey) -> Result<Result<KeyChain, Flaw>> {
    match walk(&folder.disk()?, walk_options(key), Frontier::new(), &mut |_| Ok(())) {
        Ok(end) => Ok(Ok(end.keys)),
        Err(error @ StorageError::Io { .. }) => Err(error.into()),
        Err(error) => Ok(Err(Flaw::of(error))),
    }
}

/// Walks the log; the outer error is that it cannot be read, the inner that it does not hold.
fn examine(folder: &LogFolder, key: &LogKey, mut verifier: LogVerifier) -> Result<Result<Found, Flaw>> {
    let disk = folder.disk()?;
    let bar = progress(folder.expected_size(), "verifying");
    let (mut erased, mut signed, mut gateway) = (0, 0, 0);
    let mut signatures = stored::Signatures::default();
    let walked = walk(&disk, walk_options(key), Frontier::new(), &mut |placed| {
        verifier.at_offset(placed.offset);
        for entry in placed.entries() {
            verifier.entry(entry.index, entry.leaf)?;
            named_key(entry.leaf)?.into_iter().for_each(|key| verifier.names_key(key));
            erased += u64::from(entry.payload.is_none());
            let leaf = Leaf::decode(entry.leaf)?;
            let checked = signatures.check(&leaf, entry.payload, key.origin());
            let checked = checked.map_err(|source| format!("entry {}: {source}", entry.index))?;
            signed += u64::from(checked == stored::Checked::Verified);
            gateway += u64::from(checked == stored::Checked::VerifiedOfGateway);
        }
        verifier.checkpoint(std::str::from_utf8(placed.batch.note())?)?;
        advance(&bar, verifier.size());
        Ok(())
    });
    bar.finish_and_clear();
    let end = match walked {
        Ok(end) => end,
        Err(error @ StorageError::Io { .. }) => return Err(error.into()),
        Err(error) => return Ok(Err(Flaw::of(error))),
    };
    let size = end.end.clone();
    Ok(verifier
        .finish()
        .map(|summary| Found { summary, erased, signed, gateway, end })
        .map_err(|broken: Broken| Flaw { place: size, problem: Report::of_cause(&broken) }))
}

impl Flaw {
    fn of(error: StorageError) -> Self {
        let place = match &error {
            StorageError::Corrupt { place, .. }
            | StorageError::ShorterThanAnchor { place, .. }
            | StorageError::Fold { place, .. } => Some(place.clone()),
            _ => None,
        };
        let problem = match error {
            // The verifier's message is complete; it names the place too.
            StorageError::Fold { place, source } => {
                let Report { message, hints, .. } = Report::of_cause(&*source);
                Report { message: format!("in {}: {message}", place.segment), code: None, hints }
            }
            other => Report::of_cause(&other),
        };
        Self { place, problem }
    }

    fn to_json(&self) -> Value {
        let place = self.place.as_ref();
        let place = place.map(|place| json!({"segment": place.segment, "offset": place.offset, "entry": place.index}));
        json!({"ok": false, "problem": self.problem.message, "hint": self.problem.hints.first(), "place": place})
    }
}

/// Payloads that are there although an erasure names them.
pub fn say_put_back(put_back: &[(u64, u64)]) {
    for (entry, erasure) in put_back {
        say(format_args!("  entry {entry} has its payload, although entry {erasure} erased it"));
    }
    if !put_back.is_empty() {
        note(
            "hint: an erasure was interrupted, or an old copy of a file was put back; stop the gate, remove the `.snap` files and start \
             it: it then reads the whole log and erases what its erasures name",
        );
    }
}

fn show(found: &Found, json: bool) {
    let Found { summary, erased, signed, gateway, end } = found;
    if json {
        let tail = end.tail.as_ref();
        let tail =
            tail.map(|tail| json!({"segment": tail.place.segment, "offset": tail.place.offset, "bytes": tail.bytes}));
        let put_back: Vec<_> =
            end.put_back.iter().map(|(entry, erasure)| json!({"entry": entry, "erased_by": erasure})).collect();
        say_json(
            &json!({"ok": put_back.is_empty(), "put_back": put_back, "origin": summary.origin, "size": summary.size,
            "root": summary.root.to_string(),
            "checkpoints": summary.checkpoints, "segments": end.segments, "evidence": summary.evidence, "erased": erased,
            "signatures": signed, "gateway_signatures": gateway, "torn_tail": tail, "rotations": summary.keys.rotations(),
            "log_key": summary.keys.current().to_string()}),
        );
        return;
    }
    let paint = Paint::of(Stream::Out);
    let entries = count(summary.size, "entry", "entries");
    let checkpoints = count(summary.checkpoints, "checkpoint", "checkpoints");
    say(format_args!("{} {}: {entries}, {checkpoints}", paint.word(Tone::Good, "holds"), summary.origin));
    say(format_args!("  root {}", summary.root));
    if summary.keys.rotations() > 0 {
        let rotations = count(u64::try_from(summary.keys.rotations()).unwrap_or_default(), "rotation", "rotations");
        say(format_args!(
            "  {rotations} of its key, each signed by both; the current one is {}",
            summary.keys.current()
        ));
    }
    if summary.evidence > 0 {
        let pieces = u64::try_from(summary.evidence).unwrap_or_default();
        say(format_args!(
            "  agrees with {} that you hold",
            count(pieces, "checkpoint or receipt", "checkpoints and receipts")
        ));
    }
    if *signed > 0 {
        say(format_args!("  {} of agents and operators verified", count(*signed, "signature", "signatures")));
    }
    if *gateway > 0 {
        let signatures = count(*gateway, "signature", "signatures");
        say(format_args!("  {signatures} of gateways verified, which prove nothing of the agents they signed for"));
    }
    if *erased > 0 {
        say(format_args!(
            "  {} erased; the leaves still commit to them",
            count(*erased, "payload was", "payloads were")
        ));
    }
    say_put_back(&end.put_back);
    if let Some(tail) = &end.tail {
        note(format_args!(
            "note: after the last whole batch, {} bytes in {} that were never acknowledged: {}",
            tail.bytes, tail.place, tail.reason
        ));
    }
    if summary.evidence == 0 {
        note(
            "note: with --against and a checkpoint that you kept, a log that was rewritten and signed again is found too",
        );
    }
}
