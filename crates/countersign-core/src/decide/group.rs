//! Atomic groups: several actions of one agent that commit all together or not at all.
//!
//! They are decided in their order, each on the state as those before it would leave it. That state is an overlay: nothing is
//! written until the last of them has been decided. Because nothing may come between them, and nothing may be left over when one of
//! them fails, none may call something external, wait for a fence, or act under a claim, and what would go to a person is a rejection.

use super::{Snapshot, decide};
use crate::action::Action;
use crate::code::Code;
use crate::decision::{BudgetKey, Charge, Decision, ReadVersion, Verdict};
use crate::fact::Fact;
use crate::fence::Fences;
use crate::halt::Halts;
use crate::ids::{AgentId, FactId, PactName};
use crate::labels::Labels;
use crate::pact::Pact;
use crate::reason::{NotGroupable, Reason};
use crate::review::Reviews;
use crate::state::after;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A group on its way: the state as its actions so far would leave it.
pub struct Grouping<'a> {
    base: &'a dyn Snapshot,
    now_ms: u64,
    next_entry: u64,
    facts: HashMap<FactId, Arc<Fact>>,
    charged: BTreeMap<(BudgetKey, u64), i64>,
    /// What was read of the ledger itself, each fact once.
    reads: Vec<ReadVersion>,
}

/// Why a group is rejected as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBlocked {
    /// The place of the action that was rejected, from 0.
    pub failed: usize,
    /// Its decision: why, on everything that the group had read of the ledger until then.
    pub decision: Decision,
}

/// Decides a group at the place of one entry. `None` if all of its actions would commit.
pub fn decide_group(actions: &[Action], snapshot: &dyn Snapshot, now_ms: u64) -> Option<GroupBlocked> {
    // Whatever the group itself changed is told as of the one entry that it becomes.
    let mut group = Grouping::new(snapshot, snapshot.next_entry(), now_ms);
    for (failed, action) in actions.iter().enumerate() {
        match group.decide(action) {
            Ok(decision) => group.assume(action, &decision),
            Err(decision) => return Some(GroupBlocked { failed, decision: *decision }),
        }
    }
    None
}

/// Why an action cannot be part of a group, whatever is decided on it.
pub fn not_groupable(action: &Action, snapshot: &dyn Snapshot) -> Option<NotGroupable> {
    let kind = snapshot.pact(&action.pact).and_then(|pact| pact.actions.get(&action.action));
    match kind {
        Some(kind) if kind.call.is_some() => Some(NotGroupable::Call),
        Some(kind) if kind.wait_ms > 0 => Some(NotGroupable::Wait),
        _ => action.claim.map(|_| NotGroupable::Claim),
    }
}

impl<'a> Grouping<'a> {
    /// A group whose first action gets this entry.
    pub fn new(base: &'a dyn Snapshot, next_entry: u64, now_ms: u64) -> Self {
        let (facts, charged, reads) = (HashMap::new(), BTreeMap::new(), Vec::new());
        Self { base, now_ms, next_entry, facts, charged, reads }
    }

    /// The next action gets the next entry: those of a group that commits have entries of their own.
    pub fn advance(&mut self) {
        self.next_entry = self.next_entry.saturating_add(1);
    }

    /// Decides the next action; the error is a rejection of the whole group.
    pub fn decide(&mut self, action: &Action) -> Result<Decision, Box<Decision>> {
        let decision = decide(action, &*self, self.now_ms);
        for read in &decision.reads {
            if !self.facts.contains_key(&read.fact) && !self.reads.iter().any(|known| known.fact == read.fact) {
                self.reads.push(read.clone());
            }
        }
        let why = not_groupable(action, self.base).map(|why| Reason::NotInGroup { action: action.action.clone(), why });
        let is_before = |code: Code| code < Code::NotInGroup;
        let blocked =
            match (&decision.verdict, why) {
                (Verdict::Rejected(blocked) | Verdict::Review { blocked, .. }, Some(why)) => {
                    if is_before(blocked.code()) { blocked.clone() } else { why }
                }
                (_, Some(why)) => why,
                (Verdict::Rejected(blocked) | Verdict::Review { blocked, .. }, None) => blocked.clone(),
                (Verdict::Committed, None) => return Ok(decision),
                // Whatever makes a call says so in its pact, and is found above.
                (Verdict::InFlight(_), None) => {
                    Reason::NotInGroup { action: action.action.clone(), why: NotGroupable::Call }
                }
            };
        let reads = std::mem::take(&mut self.reads);
        Err(Box::new(Decision { reads, ..decision.rejected(blocked) }))
    }

    /// Goes on as if this action of the group had committed.
    pub fn assume(&mut self, action: &Action, decision: &Decision) {
        for write in &decision.writes {
            let before = self.fact(&write.fact).cloned();
            let place = (self.next_entry, self.now_ms);
            let made = after(before.as_deref(), write, place, &action.agent, None);
            self.facts.insert(write.fact.clone(), Arc::new(made));
        }
        for Charge { budget, window, amount } in &decision.charges {
            let held = self.charged.entry((budget.clone(), *window)).or_default();
            *held = held.saturating_add(*amount);
        }
    }
}

impl Snapshot for Grouping<'_> {
    fn fact(&self, id: &FactId) -> Option<&Arc<Fact>> {
        self.facts.get(id).or_else(|| self.base.fact(id))
    }
    fn pact(&self, name: &PactName) -> Option<&Arc<Pact>> {
        self.base.pact(name)
    }
    fn version_floor(&self) -> u64 {
        self.base.version_floor()
    }
    fn origin(&self) -> &str {
        self.base.origin()
    }
    fn next_entry(&self) -> u64 {
        self.next_entry
    }
    fn budget_used(&self, budget: &BudgetKey, window: u64) -> i64 {
        let charged = self.charged.get(&(budget.clone(), window)).copied().unwrap_or(0);
        self.base.budget_used(budget, window).saturating_add(charged)
    }
    fn is_identified(&self) -> bool {
        self.base.is_identified()
    }
    fn halts(&self) -> &Halts {
        self.base.halts()
    }
    fn reviews(&self) -> &Reviews {
        self.base.reviews()
    }
    fn fences(&self) -> &Fences {
        self.base.fences()
    }
    fn effects_at_capacity(&self, agent: &AgentId) -> bool {
        self.base.effects_at_capacity(agent)
    }
    fn labels(&self) -> &Labels {
        self.base.labels()
    }
}
