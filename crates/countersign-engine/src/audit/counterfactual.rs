//! Replay under other pacts: which past verdicts would differ, each on its recorded facts, with no cascade.

use super::again::check_chain;
use super::{AuditError, walk_entries};
use crate::fold::Fold;
use crate::storage::Walk;
use countersign_core::action::Action;
use countersign_core::decide::{Approval, Snapshot, approve, decide};
use countersign_core::decision::{BudgetKey, Decision, PactRef};
use countersign_core::fact::Fact;
use countersign_core::fence::Fences;
use countersign_core::halt::Halts;
use countersign_core::ids::{AgentId, FactId, PactName};
use countersign_core::labels::Labels;
use countersign_core::pact::Pact;
use countersign_core::record::{Approved, Decided, Entry, Event};
use countersign_core::review::Reviews;
use countersign_core::state::State;
use countersign_ledger::checkpoint::LogKey;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a replay found.
#[derive(Debug, Default)]
pub struct ReplayReport {
    /// Actions and approvals decided again.
    pub actions: u64,
    /// Actions that could not be, because their payload is erased.
    pub erased: u64,
    /// Actions of pacts that were not given; they keep their verdict.
    pub other_pacts: u64,
    /// Verdicts that would differ.
    pub differing: Vec<Difference>,
}

/// A verdict that would differ.
#[derive(Debug)]
pub struct Difference {
    pub entry: u64,
    pub pact: PactName,
    /// The action type.
    pub action: String,
    /// Who acted.
    pub agent: String,
    /// What was decided.
    pub recorded: Outcome,
    /// What would have been.
    pub replayed: Outcome,
}

/// A verdict with its code and failed preconditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: String,
    /// The code, unless committed.
    pub code: Option<String>,
    /// The failed preconditions.
    pub failed: Vec<String>,
}

/// Recorded facts under other pacts.
struct WithPacts<'a> {
    state: &'a State,
    pacts: &'a BTreeMap<PactName, Arc<Pact>>,
}

impl Snapshot for WithPacts<'_> {
    fn fact(&self, id: &FactId) -> Option<&Arc<Fact>> {
        self.state.fact(id)
    }
    fn pact(&self, name: &PactName) -> Option<&Arc<Pact>> {
        // What is decided again is under a pact that was given; another one is asked for only as the owner of a budget.
        self.pacts.get(name).or_else(|| self.state.pact(name))
    }
    fn version_floor(&self) -> u64 {
        self.state.version_floor()
    }
    fn origin(&self) -> &str {
        self.state.origin()
    }
    fn next_entry(&self) -> u64 {
        self.state.next_entry()
    }
    fn budget_used(&self, budget: &BudgetKey, window: u64) -> i64 {
        self.state.budget_used(budget, window)
    }
    fn is_identified(&self) -> bool {
        self.state.is_identified()
    }
    fn halts(&self) -> &Halts {
        self.state.halts()
    }
    fn reviews(&self) -> &Reviews {
        self.state.reviews()
    }
    fn fences(&self) -> &Fences {
        self.state.fences()
    }
    fn effects_at_capacity(&self, agent: &AgentId) -> bool {
        self.state.effects_at_capacity(agent)
    }
    fn labels(&self) -> &Labels {
        self.state.labels()
    }
}

/// Decides every recorded action again under the given pacts; `progress` is told the entries done.
pub fn replay(
    log: &dyn Walk,
    key: &LogKey,
    pacts: &BTreeMap<PactName, Arc<Pact>>,
    progress: &mut dyn FnMut(u64),
) -> Result<ReplayReport, AuditError> {
    let mut report = ReplayReport::default();
    let mut fold = Fold::default();
    let replayed = AtomicU64::new(0);
    walk_entries(log, key, &replayed, progress, |recorded| {
        let entry = &recorded.read.entry;
        let under = WithPacts { state: &fold.state, pacts };
        match &entry.event {
            Event::Action(decided) => compare(&mut report, entry, decided, key.origin(), &under),
            Event::Approval(approved) => compare_approval(&mut report, entry, approved, &under),
            Event::Erased(leaf) => report.erased += u64::from(leaf.action.is_some()),
            _ => {}
        }
        fold.apply(&recorded.read)?;
        replayed.store(fold.position, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(report)
}

fn compare(report: &mut ReplayReport, entry: &Entry, decided: &Decided, origin: &str, under: &WithPacts<'_>) {
    let Decided { action, decision } = decided;
    if check_chain(action, origin).is_err() {
        return;
    }
    if !under.pacts.contains_key(&action.pact) {
        report.other_pacts += 1;
        return;
    }
    let replayed = outcome(&decide(action, under, entry.time_ms));
    note(report, entry.index, decision, action, replayed);
}

/// Decides a parked action again as its reviewer approved it: as if the given pact had been the one in force when it was shown.
/// What was shown is waived by name, so far as the given pact lets it be.
fn compare_approval(report: &mut ReplayReport, entry: &Entry, approved: &Approved, under: &WithPacts<'_>) {
    // One that was void did nothing, and nothing followed from it.
    if approved.is_void() {
        return;
    }
    let Approved { mut shown, until_ms, decision, .. } = approved.clone();
    let Ok(parked) = under.state.reviews.waiting(shown.review, entry.time_ms) else {
        // The parked action was erased, or the log is not one of this gate, which an audit says.
        report.erased += 1;
        return;
    };
    let Some(pact) = under.pacts.get(&parked.action.pact) else {
        report.other_pacts += 1;
        return;
    };
    shown.pact = PactRef { name: pact.name.clone(), version: pact.version, hash: pact.hash };
    let approval = Approval { by: &entry.by, shown: &shown, until_ms };
    let replayed =
        approve(&approval, parked, under, entry.time_ms).map_or_else(|_| void(), |decision| outcome(&decision));
    note(report, entry.index, &decision, &parked.action, replayed);
}

/// An approval that would have been void: nothing would have been done.
fn void() -> Outcome {
    Outcome { verdict: "void".to_owned(), code: None, failed: Vec::new() }
}

fn note(report: &mut ReplayReport, entry: u64, decision: &Decision, action: &Action, replayed: Outcome) {
    report.actions += 1;
    let recorded = outcome(decision);
    if recorded != replayed {
        report.differing.push(Difference {
            entry,
            pact: action.pact.clone(),
            action: action.action.to_string(),
            agent: action.agent.to_string(),
            recorded,
            replayed,
        });
    }
}

fn outcome(decision: &Decision) -> Outcome {
    let blocked = decision.blocked().or(decision.shadowed.as_deref());
    let failed = blocked.iter().flat_map(|blocked| blocked.failed()).map(|failed| failed.id.to_string());
    Outcome {
        verdict: decision.verdict.as_str().to_owned(),
        code: blocked.map(|blocked| blocked.code().to_string()),
        failed: failed.collect(),
    }
}
