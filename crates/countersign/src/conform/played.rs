//! The demo's schedules, played over HTTP: AG-097's scenarios and the $4,800 refund with its relatives.
//!
//! Agents take their turns as in the demo, with keys of their own, and no clock is moved: the gaps are as short as the network allows.
//! What is judged is the state that the gate is left in, by the demo's own rule for harm, the ledger, and the book of the payment
//! service.

use super::gate::{Agent, Subject, entry_of, failed, passed};
use super::names;
use crate::client::Call;
use crate::demo::rows::Rows;
use crate::demo::scenarios::{self, Scenario};
use crate::demo::schedule::{self, Deed, Step, World};
use crate::demo::unguarded::Service;
use anyhow::{Context as _, Result, bail, ensure};
use countersign_api::{ClaimEntered, ClaimRequest, EffectState, Verdict};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a claim of an earlier schedule may last: its own time, and some more.
const UNCLAIMED_WITHIN: Duration = Duration::from_secs(60);

/// A schedule on a gate.
struct Play<'a> {
    subject: &'a Subject,
    scenario: &'static Scenario,
    /// The call that cools.
    cooling: Mutex<Option<(u64, String)>>,
}

/// What an action came to.
enum Outcome {
    /// Nothing to judge.
    Quiet,
    /// Went through, or is on its way.
    Passed,
    /// Was stopped, in this entry, for these reasons.
    Stopped { entry: u64, word: &'static str, reasons: Vec<String>, gap_ms: Option<u64> },
}

/// Plays the scenario of an id, and judges it.
pub fn play(subject: &Subject, id: &str) -> Result<Json> {
    let scenario = scenarios::ALL.into_iter().find(|scenario| scenario.id == id);
    let scenario = scenario.with_context(|| format!("the demo has no scenario {id}"))?;
    let before = Rows::parse(scenario.facts)?;
    let harm = would_harm(scenario, &before)?;
    let calls = if has_call(scenario) { Some(subject.own()?.calls()) } else { None };
    let play = Play { subject, scenario, cooling: Mutex::default() };
    play.prepare()?;
    let outcomes = schedule::play(scenario.steps, &play)?;
    let after = play.rows()?;
    if let Some(harm) = (scenario.harm)(&before, &after) {
        bail!("with the gate as without it: {harm}");
    }
    if let Some(calls) = calls {
        ensure!(subject.own()?.calls() == calls, "the payment service was called");
    }
    let mut stopped = outcomes.into_iter().filter_map(|outcome| match outcome {
        Outcome::Stopped { entry, word, reasons, gap_ms } => Some((entry, word, reasons, gap_ms)),
        Outcome::Quiet | Outcome::Passed => None,
    });
    let (entry, word, reasons, gap_ms) = stopped.next().context("no action was stopped")?;
    ensure!(stopped.next().is_none(), "an action was stopped that was in time");
    ensure!(!reasons.is_empty(), "entry {entry} gives no reason");
    let recorded = subject.entry(entry)?;
    ensure!(recorded.leaf("verdict") == "rejected", "entry {entry} does not say `rejected`: {}", recorded.leaf);
    Ok(json!({"entry": entry, "verdict": word, "reasons": reasons, "gap_ms": gap_ms, "without": harm}))
}

/// The harm that the schedule does where nothing stops it; a schedule that does none shows nothing.
fn would_harm(scenario: &'static Scenario, before: &Rows) -> Result<String> {
    let judged = before.clone();
    let service = Service::new(before.clone(), move |rows| (scenario.harm)(&judged, rows));
    schedule::play(scenario.steps, &service)?;
    service.harm().context("the schedule does no harm without a gate, so it shows nothing")
}

fn has_call(scenario: &Scenario) -> bool {
    scenario.pact.source.contains(".call]")
}

impl Play<'_> {
    /// The pact, and every fact of the schedule as it is at the start.
    fn prepare(&self) -> Result<()> {
        self.subject.publish(&self.scenario.pact)?;
        for fact in self.facts() {
            match self.scenario.facts.iter().find(|(named, _)| *named == fact) {
                Some((_, value)) => drop(self.subject.feed(fact, &serde_json::from_str(value)?)?),
                None => self.subject.delete(fact)?,
            }
            self.await_unclaimed(fact)?;
        }
        Ok(())
    }

    /// A claim of an earlier schedule on the same fact must be over.
    fn await_unclaimed(&self, fact: &str) -> Result<()> {
        let deadline = Instant::now() + UNCLAIMED_WITHIN;
        while self.subject.fact(fact)?.is_some_and(|found| found.claim.is_some()) {
            ensure!(Instant::now() < deadline, "{fact} is claimed by another");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Every fact that the schedule speaks of.
    fn facts(&self) -> BTreeSet<&'static str> {
        let read = self.scenario.steps.iter().flat_map(|step| match &step.deed {
            Deed::Read { facts, .. } | Deed::Claim { facts, .. } => *facts,
            _ => &[],
        });
        self.scenario.facts.iter().map(|(fact, _)| *fact).chain(read.copied()).collect()
    }

    fn rows(&self) -> Result<Rows> {
        let mut rows = Rows::default();
        for fact in self.facts() {
            if let Some(Json::Object(value)) = self.subject.fact(fact)?.map(|found| found.value) {
                rows.insert(fact.to_owned(), value);
            }
        }
        Ok(rows)
    }

    /// The agent of a step. Each scenario has agents of its own: roles differ.
    fn agent(&self, step: &Step) -> Result<Arc<Agent>> {
        let role = self.scenario.agents.iter().find(|(agent, _)| *agent == step.agent);
        let (_, role) = role.with_context(|| format!("{} is no agent of the scenario", step.agent))?;
        self.subject.agent(&format!("{}-{}", self.scenario.id, step.agent), &[role])
    }

    fn stopped(&self, verdict: &Verdict) -> Result<Outcome> {
        let mut reasons: Vec<String> = failed(verdict).into_iter().map(str::to_owned).collect();
        if reasons.is_empty() {
            reasons.extend(verdict.code.clone());
        }
        Ok(Outcome::Stopped { entry: entry_of(verdict)?, word: "rejected", reasons, gap_ms: verdict.gap_ms })
    }

    fn cooled(&self) -> Result<Outcome> {
        let cooling = self.cooling.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (intent, effect) = cooling.context("nothing cools, so nothing can be dispatched")?;
        let ended = self.subject.ended(&effect)?;
        if ended.state != EffectState::Failed {
            return Ok(Outcome::Passed);
        }
        let entries = self.subject.entries_from(intent)?;
        let dispatch = entries.iter().find(|entry| {
            entry.leaf("kind") == "dispatch" && entry.leaf.get("effect").and_then(Json::as_u64) == Some(intent)
        });
        let dispatch = dispatch.with_context(|| format!("{effect} failed without a dispatch"))?;
        let reasons = ended.failed.into_iter().map(|failed| failed.precondition).collect();
        let gap_ms = dispatch.payload.pointer("/decision/gap_ms").and_then(Json::as_u64);
        Ok(Outcome::Stopped { entry: dispatch.index, word: "cancelled", reasons, gap_ms })
    }
}

impl World for Play<'_> {
    /// The tokens that an agent carries.
    type Mind = Vec<String>;
    type Outcome = Outcome;

    fn perform(&self, step: &Step, tokens: &mut Vec<String>) -> Result<Outcome> {
        match &step.deed {
            Deed::Think => {}
            Deed::Read { facts, .. } => tokens.push(self.agent(step)?.observe(facts.iter().copied())?),
            Deed::Feed { fact, value } => drop(self.subject.feed(fact, &serde_json::from_str(value)?)?),
            Deed::Claim { facts, for_ms, reason } => {
                let facts = facts.iter().map(|fact| Ok(names::fact(fact)?.to_string())).collect::<Result<_>>()?;
                let request = ClaimRequest { facts, for_ms: *for_ms, reason: (*reason).to_owned() };
                let _: ClaimEntered = self.agent(step)?.call(Call::post("/v1/claims").json(&request)?)?;
            }
            Deed::Cooled => return self.cooled(),
            Deed::Act { action, params, .. } => {
                let params = serde_json::from_str(params)?;
                let verdict = self.agent(step)?.act(self.scenario.pact.name, action, &params, tokens)?;
                if !passed(&verdict) {
                    return self.stopped(&verdict);
                }
                if let Some(effect) = &verdict.effect {
                    let cooling = Some((entry_of(&verdict)?, effect.clone()));
                    *self.cooling.lock().unwrap_or_else(PoisonError::into_inner) = cooling;
                }
                return Ok(Outcome::Passed);
            }
        }
        Ok(Outcome::Quiet)
    }
}
