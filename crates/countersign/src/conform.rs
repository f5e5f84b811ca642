//! `countersign conform`: a procedure for each requirement that is claimed as met, run against a gate.
//!
//! Each goes through the public interface, with keys of its own, and judges from the attacked side: the state that the gate is left in,
//! the ledger, the book of the service that would have been called. The rows and their words are in `requirements.toml`, which is also
//! what docs/requirements.md is made from.

mod approvals;
mod attacks;
mod clauses;
mod evidence;
mod forgery;
mod gate;
mod names;
mod own;
mod played;
mod races;
mod requirements;
mod screen;
mod sweep;
mod time;
mod tools;

use crate::commands::Failure;
use crate::key_file;
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use gate::{Subject, Unavailable};
use requirements::{Claim, Row};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::ExitCode;
use sweep::Sweep;

/// Test a gate against the requirements that it is claimed to meet
///
/// Starts a gate of its own on loopback, in a temporary folder, with a payment service and an MCP server beside it, and runs a procedure
/// for each AG-097, CONC and TOOL id that docs/requirements.md claims as met: it changes what an action was decided on, races it, forges
/// and replays requests, sets the clock, kills the gate and alters its log. What counts is what the service, the server, the ledger and
/// the facts say afterwards. Takes half a minute.
///
/// With --target it tests a gate that you run. It needs the key of an operator with the roles admin, publisher, feeder and auditor, and
/// leaves things behind there: pacts named conform-…, fact types named Conform…, and agents named conform-…. What needs a gate of its
/// own (a payment service, an MCP server, a clock, a kill, the log's files) is then not_yet.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign conform
  countersign conform --only AG-097-8.1 CONC-3 --json
  countersign conform --report                                one line for each action type of the example pacts
  countersign conform --target http://127.0.0.1:8420 --key admin.key

States: pass, fail, and not_yet for what this version does not claim, claims in part, or cannot show on this gate.
Exit codes: 0 nothing failed, 1 something did, 3 it could not be run")]
pub struct ConformArgs {
    /// Run only these ids
    #[arg(long, value_name = "ID", num_args = 1..)]
    only: Vec<String>,
    /// Print one JSON object per line for each id (`id`, `state`, `evidence`) and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Print one line for each action type of the example pacts instead (AG-097-T)
    #[arg(long, conflicts_with = "only")]
    report: bool,
    /// Test the gate at this address, which runs already
    #[arg(long, value_name = "URL", requires = "key")]
    target: Option<String>,
    /// Be the MCP server that procedures on tools use, with its shelf in this folder, and nothing else
    #[arg(long, value_name = "DIR", hide = true, exclusive = true)]
    shelf: Option<PathBuf>,
    /// The key of an operator of that gate
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_KEY", hide_env_values = true)]
    key: Option<PathBuf>,
}

/// What was found of one requirement.
#[derive(Debug, Serialize)]
struct Finding {
    id: &'static str,
    state: State,
    evidence: Json,
}

/// Whether a requirement is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Pass,
    Fail,
    NotYet,
}

/// What procedures have: the gate, and the sweep, which is made when it is first asked for.
struct Bench {
    subject: Subject,
    sweep: OnceCell<Result<Sweep, String>>,
}

impl Bench {
    fn new(subject: Subject) -> Self {
        Self { subject, sweep: OnceCell::new() }
    }

    fn sweep(&self) -> Result<&Sweep> {
        let swept = self.sweep.get_or_init(|| sweep::run(&self.subject).map_err(|error| format!("{error:#}")));
        swept.as_ref().map_err(|error| anyhow!("the sweep could not be made: {error}"))
    }
}

type Procedure = fn(&Bench) -> Result<Json>;

/// The procedure of each id that has one.
const PROCEDURES: &[(&str, Procedure)] = &[
    ("AG-097-4.1", |bench| over_tools_too(bench, clauses::documented, tools::clauses::documented)),
    ("AG-097-4.2", |bench| over_tools_too(bench, clauses::current, tools::current)),
    ("AG-097-4.3", |bench| over_tools_too(bench, clauses::told, tools::told)),
    ("AG-097-4.4", |bench| over_tools_too(bench, races::atomic, tools::atomic)),
    ("AG-097-4.5", |bench| {
        let entries = sweep::judged(bench.sweep()?, |swept| &swept.recorded)?;
        let recorded = json!({"rejections": entries.len(), "entries": sweep::span(&entries)});
        over_tools_too(bench, |_| Ok(recorded), tools::clauses::recorded)
    }),
    ("AG-097-4.6", |bench| over_tools_too(bench, clauses::not_skipped, tools::clauses::not_skipped)),
    ("AG-097-4.7", |bench| {
        let threshold = |_: &Subject| Ok(json!({"threshold": time::threshold()?}));
        of_our_own(bench, || over_tools_too(bench, threshold, tools::clauses::stale))
    }),
    ("AG-097-4.8", |bench| over_tools_too(bench, clauses::optimistic, tools::clauses::beside)),
    ("AG-097-4.11", |bench| over_tools_too(bench, clauses::asked_ahead, tools::clauses::warned)),
    ("AG-097-8.1", |bench| {
        let entries = sweep::judged(bench.sweep()?, |swept| &swept.changed)?;
        let back = attacks::changed_back(&bench.subject)?;
        Ok(json!({"preconditions": entries.len(), "entries": sweep::span(&entries), "changed_back": back}))
    }),
    ("AG-097-8.2", |bench| races::swept(&bench.subject)),
    ("AG-097-8.3", |bench| of_our_own(bench, || attacks::refused(&bench.subject))),
    ("AG-097-8.4", |bench| of_our_own(bench, time::clocks)),
    ("AG-097-8.5", |bench| sweep::load_bearing(&bench.subject, bench.sweep()?)),
    ("AG-097-8.6", |bench| {
        of_our_own(bench, || {
            let entries = sweep::judged(bench.sweep()?, |swept| &swept.recorded)?;
            let lasting = evidence::lasting()?;
            Ok(json!({"rejections": entries.len(), "entries": sweep::span(&entries), "lasting": lasting}))
        })
    }),
    ("AG-097-A", |bench| played::play(&bench.subject, "AG-097-A")),
    ("AG-097-B", |bench| played::play(&bench.subject, "AG-097-B")),
    ("AG-097-C", |bench| played::play(&bench.subject, "AG-097-C")),
    ("AG-097-D", |bench| played::play(&bench.subject, "AG-097-D")),
    ("AG-097-T", |bench| sweep::no_window(bench.sweep()?)),
    ("CONC-1", |bench| races::unsplit(&bench.subject)),
    ("CONC-2", |bench| played::play(&bench.subject, "CONC-2")),
    ("CONC-3", |bench| played::play(&bench.subject, "CONC-3")),
    ("CONC-4", |bench| played::play(&bench.subject, "CONC-4")),
    ("CONC-5", |bench| played::play(&bench.subject, "CONC-5")),
    ("CONC-6", |bench| played::play(&bench.subject, "CONC-6")),
    ("CONC-7", |bench| played::play(&bench.subject, "CONC-7")),
    ("CONC-8", |bench| approvals::raced(&bench.subject)),
    ("TOOL-1", |bench| of_our_own(bench, tools::guarded)),
];

/// Runs a procedure on actions that a pact models, and where the gate is our own another on tools that none does.
fn over_tools_too(
    bench: &Bench,
    run: impl FnOnce(&Subject) -> Result<Json>,
    over_tools: fn() -> Result<Json>,
) -> Result<Json> {
    let mut evidence = run(&bench.subject)?;
    if bench.subject.own().is_ok() {
        let members = evidence.as_object_mut().context("the evidence has no room for what tools show")?;
        members.insert("tools".to_owned(), over_tools()?);
    }
    Ok(evidence)
}

/// Runs what kills gates, sets clocks or reads files: never beside a gate that is someone else's.
fn of_our_own(bench: &Bench, run: impl FnOnce() -> Result<Json>) -> Result<Json> {
    bench.subject.own()?;
    run()
}

/// Runs it.
pub fn run(args: &ConformArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.shelf {
        return tools::shelf::serve(folder).map(|()| ExitCode::SUCCESS);
    }
    let rows = chosen(&args.only)?;
    let subject = match (&args.target, &args.key) {
        (Some(url), Some(key)) => Subject::at(url, key_file::read(key)?, None)?,
        _ => Subject::start()?,
    };
    let bench = Bench::new(subject);
    if args.report {
        let sweep = bench.sweep()?;
        screen::types(sweep, args.json)?;
        let is_well = sweep.iter().all(|swept| swept.is_well());
        return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let mut failed = false;
    let mut findings = Vec::new();
    for row in rows {
        let finding = examine(row, &bench);
        failed |= finding.state == State::Fail;
        screen::line(row, &finding, args.json)?;
        findings.push(finding);
    }
    if !args.json {
        screen::summary(&findings)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The rows that were asked for, in the order of the document.
fn chosen(only: &[String]) -> Result<Vec<&'static Row>> {
    let rows = requirements::procedural();
    for id in only {
        if !rows.iter().any(|row| row.id == *id) {
            let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
            return Err(Failure::usage(format!("there is no procedure for `{id}`"))
                .hint(format!("the ids are {}", ids.join(", ")))
                .into());
        }
    }
    Ok(rows.into_iter().filter(|row| only.is_empty() || only.contains(&row.id)).collect())
}

fn examine(row: &'static Row, bench: &Bench) -> Finding {
    let id = row.id.as_str();
    let procedure = PROCEDURES.iter().find(|(of, _)| *of == id).map(|(_, procedure)| procedure);
    let Some(procedure) = procedure else {
        let why = if row.shown.is_empty() { "nothing is claimed" } else { &row.shown };
        return Finding { id, state: State::NotYet, evidence: json!({"why": why}) };
    };
    let (state, evidence) = match (procedure(bench), row.state) {
        (Ok(evidence), Claim::Met) => (State::Pass, evidence),
        (Ok(evidence), _) => (State::NotYet, json!({"why": row.missing, "part": evidence})),
        (Err(error), _) if error.downcast_ref::<Unavailable>().is_some() => {
            (State::NotYet, json!({"why": error.root_cause().to_string()}))
        }
        (Err(error), _) => (State::Fail, json!({"problem": format!("{error:#}")})),
    };
    Finding { id, state, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Report;

    #[test]
    fn every_claim_has_a_procedure_and_every_procedure_a_claim() {
        let rows = requirements::procedural();
        for row in &rows {
            let has_procedure = PROCEDURES.iter().any(|(id, _)| *id == row.id);
            assert_eq!(row.conform.is_some(), has_procedure, "{}", row.id);
            assert!(has_procedure || row.state != Claim::Met, "{} is claimed as met, and nothing shows it", row.id);
            assert!(!has_procedure || row.state != Claim::NotYet, "{} has a procedure and claims nothing", row.id);
            let says_what_is_missing = row.missing.as_ref().is_some_and(|missing| missing.len() > 80);
            assert_eq!(row.state == Claim::Part, says_what_is_missing, "{} says what is missing", row.id);
        }
        for (id, _) in PROCEDURES {
            assert!(rows.iter().any(|row| row.id == *id), "{id} is no requirement");
        }
    }

    #[test]
    fn an_id_that_is_none_is_refused_with_those_that_are() {
        let error = Report::of_error(&chosen(&["AG-097-9".to_owned()]).unwrap_err()).to_string();
        assert!(error.contains("no procedure for `AG-097-9`") && error.contains("CONC-1"), "{error}");
        assert_eq!(chosen(&["CONC-2".to_owned()]).unwrap().len(), 1);
    }
}
