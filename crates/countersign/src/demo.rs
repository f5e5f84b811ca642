//! The demo: races lost without the gate and won with it.
//!
//! Every scenario is one schedule, played twice: on a service that checks and acts in separate steps, and through a real
//! gate with a real ledger. What is printed is what happened: harm is computed from the end state, and verdict, reasons, gap
//! and entry are the gate's own answer. Only time is arranged (see [`schedule`]).

mod guarded;
pub mod rows;
pub mod scenarios;
pub mod schedule;
mod screen;
pub mod unguarded;

use crate::data::DataFolder;
use crate::hinted::{OrHinted, hinted};
use crate::terminal::{Stream, colours};
use anyhow::{Context, Result};
use countersign_core::code::Code;
use countersign_core::decision::{Decision, Verdict};
use guarded::GatedWorld;
use rows::Rows;
use scenarios::Scenario;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// The origin of the demo's log.
const ORIGIN: &str = "countersign.example/demo";

/// Watch agents race for one account, without the gate and with it
///
/// Plays ten scenarios in a few seconds: a $4,800 refund against a freeze that has landed, that is announced, and that comes
/// while the payout cools; a dismissed employee, a price that moves, a swapped source account, a dose for failing kidneys, a
/// grant against a revocation, two spends on one balance, and write skew. Each is played on a plain service that checks first
/// and acts later, and then through a real gate, with what it answered.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  countersign demo
  countersign demo --scenario CONC-2
  countersign demo --once --json --data race

Exit codes: 0 every race does harm without the gate and none with it, 1 otherwise, 3 the demo could not run")]
pub struct DemoArgs {
    /// Accepted for compatibility; the demo always runs once and exits
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object per line for each scenario (`id`, `unguarded_harm`, `verdict`, `failed`, `gap_ms`, `entry`)
    /// and nothing else on standard output
    #[arg(long)]
    pub json: bool,
    /// Run only this scenario
    #[arg(long, value_name = "ID", value_parser = clap::builder::PossibleValuesParser::new(scenarios::IDS))]
    pub scenario: Option<String>,
    /// Make the gate's data folder here and keep it, for `countersign verify` and `countersign audit`. Without it, the demo
    /// uses a temporary folder and removes it
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// What came of one scenario in both worlds.
struct Report {
    scenario: &'static Scenario,
    unguarded: Vec<unguarded::Outcome>,
    unguarded_harm: Option<String>,
    guarded: Vec<guarded::Outcome>,
    guarded_harm: Option<String>,
    entry: u64,
    decision: Decision,
}

/// One scenario as a program reads it.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    unguarded_harm: bool,
    verdict: &'a str,
    failed: Vec<&'a str>,
    gap_ms: Option<u64>,
    entry: u64,
}

/// Runs the demo.
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    let temporary = match &args.data {
        Some(_) => None,
        None => Some(
            tempfile::tempdir()
                .or_hinted(|| hinted!("no temporary folder can be made"; "name a folder with --data"))?,
        ),
    };
    let root = match (&args.data, &temporary) {
        (Some(root), _) => root.clone(),
        (None, Some(folder)) => folder.path().join("data"),
        (None, None) => return Err(anyhow::Error::from(hinted!("the demo has no folder"; "name one with --data"))),
    };
    let reports = play_all(&DataFolder::create(&root, ORIGIN)?, args.scenario.as_deref())?;
    let mut out = std::io::stdout().lock();
    if args.json {
        write_json(&mut out, &reports)?;
    } else {
        out.write_all(screen::draw(&reports, args.data.as_deref(), colours(Stream::Out)).as_bytes())?;
    }
    out.flush()?;
    let as_it_should = reports.iter().all(Report::is_as_it_should);
    Ok(if as_it_should { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays the scenarios asked for, in both worlds, on one gate.
fn play_all(data: &DataFolder, only: Option<&str>) -> Result<Vec<Report>> {
    let world = GatedWorld::open(data)?;
    let chosen = scenarios::ALL.into_iter().filter(|scenario| only.is_none_or(|id| id == scenario.id));
    let reports = chosen.map(|scenario| play_one(scenario, &world)).collect::<Result<_>>()?;
    world.close()?;
    Ok(reports)
}

fn play_one(scenario: &'static Scenario, world: &GatedWorld) -> Result<Report> {
    let before = Rows::parse(scenario.facts)?;
    let judged = before.clone();
    let service = unguarded::Service::new(before.clone(), move |rows| (scenario.harm)(&judged, rows));
    let mut unguarded = schedule::play(scenario.steps, &service)?;

    let prepared = world.prepare(scenario)?;
    let guarded = schedule::play(scenario.steps, &prepared)?;
    blame(&mut unguarded, &guarded);
    let decided = |outcome: &guarded::Outcome| match outcome {
        guarded::Outcome::Decided(entry, decision) | guarded::Outcome::Dispatched(entry, decision) => {
            Some((*entry, Decision::clone(decision)))
        }
        _ => None,
    };
    let mut last = guarded.iter().rev().filter_map(decided);
    // What was stopped; if nothing was, what came last.
    let stopped = last.clone().find(|(_, decision)| decision.blocked().is_some());
    let (entry, decision) =
        stopped.or_else(|| last.next()).with_context(|| format!("nothing was decided in {}", scenario.id))?;
    Ok(Report {
        scenario,
        unguarded,
        unguarded_harm: service.harm(),
        guarded,
        guarded_harm: (scenario.harm)(&before, &world.rows()),
        entry,
        decision,
    })
}

/// Moves the mark of harm to the action that did it. Harm is found in the state, so it shows with the step that completes it, and that
/// may be the freeze that came too late and not the payout before it. The one at fault is the one that the gate does not let through.
fn blame(unguarded: &mut [unguarded::Outcome], guarded: &[guarded::Outcome]) {
    let is_stopped = |outcome: &guarded::Outcome| match outcome {
        guarded::Outcome::Decided(_, decision) => !matches!(decision.verdict, Verdict::Committed),
        _ => false,
    };
    let Some(at) = guarded.iter().position(is_stopped) else { return };
    if unguarded.contains(&unguarded::Outcome::Harmed) {
        for (step, outcome) in unguarded.iter_mut().enumerate() {
            match outcome {
                _ if step == at => *outcome = unguarded::Outcome::Harmed,
                unguarded::Outcome::Harmed => *outcome = unguarded::Outcome::Done,
                _ => {}
            }
        }
    }
}

fn write_json(out: &mut impl Write, reports: &[Report]) -> Result<()> {
    for report in reports {
        serde_json::to_writer(&mut *out, &report.line())?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

impl Report {
    /// The race is lost without the gate; with it, the late action is rejected for a reason, everything before it commits, and
    /// no harm is done.
    fn is_as_it_should(&self) -> bool {
        let rejected = matches!(&self.decision.verdict, Verdict::Rejected(_)) && !self.reasons().is_empty();
        let others_committed = self.guarded.iter().all(|outcome| match outcome {
            guarded::Outcome::Decided(entry, decision) | guarded::Outcome::Dispatched(entry, decision) => {
                *entry == self.entry || decision.blocked().is_none()
            }
            _ => true,
        });
        self.unguarded_harm.is_some() && self.guarded_harm.is_none() && rejected && others_committed
    }

    /// The ids of the preconditions that failed.
    fn failed(&self) -> Vec<&str> {
        let failed = self.decision.blocked().map_or(&[][..], |blocked| blocked.failed());
        failed.iter().map(|failed| failed.id.as_str()).collect()
    }

    /// Why the late action was stopped: the preconditions that failed, or that a change was announced.
    fn reasons(&self) -> Vec<&str> {
        let announced = self.decision.blocked().filter(|blocked| blocked.code() == Code::FactClaimed);
        announced.map_or_else(|| self.failed(), |blocked| vec![blocked.code().as_str()])
    }

    /// What became of the late action, in a word.
    fn word(&self) -> &'static str {
        let is_dispatch = self
            .guarded
            .iter()
            .any(|outcome| matches!(outcome, guarded::Outcome::Dispatched(entry, _) if *entry == self.entry));
        if is_dispatch { "cancelled" } else { self.decision.verdict.as_str() }
    }

    fn line(&self) -> Line<'_> {
        Line {
            id: self.scenario.id,
            unguarded_harm: self.unguarded_harm.is_some(),
            verdict: self.word(),
            failed: self.failed(),
            gap_ms: self.decision.gap_ms,
            entry: self.entry,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]
mod tests {
    use super::*;

    fn played() -> (tempfile::TempDir, DataFolder, Vec<Report>) {
        let folder = tempfile::tempdir().unwrap();
        let data = DataFolder::create(&folder.path().join("data"), ORIGIN).unwrap();
        let reports = play_all(&data, None).unwrap();
        (folder, data, reports)
    }

    #[test]
    fn every_race_is_lost_without_the_gate_and_won_with_it() {
        let (_folder, data, reports) = played();
        let lines: Vec<_> = reports.iter().map(|r| (r.scenario.id, r.failed(), r.decision.gap_ms)).collect();
        let expected = [
            ("CONC-2", vec!["account-is-active"], Some(150)),
            ("CONC-3", vec![], Some(150)),
            ("CONC-4", vec!["account-is-active"], Some(2_150)),
            ("AG-097-A", vec!["employee-is-active"], Some(45_000)),
            ("AG-097-B", vec!["within-mandate-ceiling", "price-within-two-percent"], Some(3_000)),
            ("AG-097-C", vec!["source-is-owned-by-requester"], Some(12_000)),
            ("AG-097-D", vec!["kidneys-clear-the-dose"], Some(120_000)),
            ("CONC-5", vec!["member-was-not-revoked"], Some(150)),
            ("CONC-6", vec!["balance-covers-amount"], Some(150)),
            ("CONC-7", vec!["colleague-stays-on-call"], Some(150)),
        ];
        assert_eq!(lines, expected);
        for report in &reports {
            assert!(report.is_as_it_should(), "{}", report.scenario.id);
            // The mark is on what the gate stops, never on the freeze or revocation that it lets through.
            for (plain, gated) in report.unguarded.iter().zip(&report.guarded) {
                let is_through = match gated {
                    guarded::Outcome::Decided(_, decision) => matches!(decision.verdict, Verdict::Committed),
                    _ => true,
                };
                assert_eq!(*plain == unguarded::Outcome::Harmed, !is_through, "{}", report.scenario.id);
            }
        }
        // The folder is an ordinary one: a gate on the machine's own clock opens it and is ready.
        let (gate, opened) = data.open(data.options()).unwrap();
        assert!(!opened.created);
        assert_eq!(gate.view().position, reports.last().unwrap().entry + 1);
        assert_eq!(gate.not_ready(), None);
    }

    #[test]
    fn a_page_fits_its_width_and_has_colours_only_when_asked() {
        let (_folder, _, reports) = played();
        let page = screen::draw(&reports, None, false);
        println!("{page}");
        for line in page.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
            assert!(!line.contains('\u{1b}'), "{line:?}");
        }
        assert!(screen::draw(&reports, None, true).contains("\u{1b}[31m"));
    }

    #[test]
    fn a_gate_that_lets_harm_through_would_be_seen() {
        let (_folder, _, mut reports) = played();
        let report = reports.first_mut().unwrap();
        report.guarded_harm = Some("made up".to_owned());
        assert!(!report.is_as_it_should());
        report.guarded_harm = None;
        report.unguarded_harm = None;
        assert!(!report.is_as_it_should());
    }
}
