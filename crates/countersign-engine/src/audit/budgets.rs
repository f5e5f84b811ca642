//! What an audit no longer knows of budgets, because entries that may have charged them are erased.
//!
//! An entry is excused only if it comes out byte for byte as it is recorded once the budget holds what the entry says it held, or, where
//! it says nothing of that, nothing. And only until the windows that the erased entry may have charged are over.

use countersign_core::decide::{Grouping, Snapshot};
use countersign_core::decision::BudgetKey;
use countersign_core::fact::Fact;
use countersign_core::fence::Fences;
use countersign_core::halt::Halts;
use countersign_core::ids::{AgentId, FactId, PactName};
use countersign_core::labels::Labels;
use countersign_core::pact::Pact;
use countersign_core::reason::Reason;
use countersign_core::record::{Grouped, Leaf, LeafVerdict};
use countersign_core::review::Reviews;
use countersign_core::state::State;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was charged by erased entries.
#[derive(Debug, Default)]
pub(super) struct Charged {
    /// By the pact that has the budget; `None` where the leaf does not say which pact it was.
    pacts: BTreeMap<Option<PactName>, Charges>,
}

/// What an erased entry may have charged.
#[derive(Debug, Clone, Copy)]
struct Charges {
    /// The first such entry.
    since: u64,
    /// When the last of the windows is over.
    until_ms: u64,
}

impl Charged {
    /// An entry is erased; the state is the one in front of it.
    pub(super) fn erased(&mut self, leaf: &Leaf, state: &State) {
        if !matches!(leaf.verdict, Some(LeafVerdict::Committed | LeafVerdict::InFlight | LeafVerdict::Failed)) {
            return;
        }
        let named = leaf.pact.as_ref().map(|pact| &pact.name);
        for pact in state.pacts.values().filter(|held| named.is_none_or(|named| *named == held.name)) {
            for budget in pact.actions.values().flat_map(|action| &action.budgets) {
                let limit = budget.limit(|owner| state.pact(owner).map(AsRef::as_ref));
                let per_ms = limit.map_or(1, |limit| limit.per_ms.max(1));
                let until_ms = (leaf.time / per_ms).saturating_add(1).saturating_mul(per_ms);
                let owner = named.map(|named| budget.owner().unwrap_or(named).clone());
                let charges = self.pacts.entry(owner).or_insert(Charges { since: leaf.index, until_ms });
                charges.until_ms = charges.until_ms.max(until_ms);
            }
        }
    }

    /// Closed windows are known again.
    pub(super) fn passed(&mut self, time_ms: u64) {
        if !self.pacts.is_empty() {
            self.pacts.retain(|_, charges| time_ms < charges.until_ms);
        }
    }

    /// The erased entry that may have charged a budget that actions of a pact charge.
    pub(super) fn to(&self, pact: &PactName, state: &State) -> Option<u64> {
        let budgets = state.pact(pact).into_iter().flat_map(|pact| pact.actions.values()).flat_map(|it| &it.budgets);
        let owners = budgets.map(|budget| Some(budget.owner().unwrap_or(pact).clone())).chain([None]);
        owners.filter_map(|owner| self.pacts.get(&owner)).map(|charges| charges.since).min()
    }
}

/// A state whose budgets held what an entry says.
pub(super) struct Supposed<'a> {
    state: &'a State,
    /// The budget that the entry names, and what it held.
    said: Option<(&'a SmolStr, i64)>,
}

impl<'a> Supposed<'a> {
    pub(super) fn new(state: &'a State, recorded: Option<&'a Reason>) -> Self {
        let said = match recorded {
            Some(Reason::BudgetExceeded { budget, used, .. }) => Some((budget, *used)),
            _ => None,
        };
        Self { state, said }
    }

    /// The same for a group that was rejected: its own actions may have charged a part of what it says that the budget held.
    pub(super) fn of_group(state: &'a State, recorded: &'a Grouped, now_ms: u64) -> Self {
        let reason = recorded.decision.reason();
        let supposed = Self::new(state, reason);
        let (Some((named, used)), Some(Reason::BudgetExceeded { agent, .. })) = (supposed.said, reason) else {
            return supposed;
        };
        let is_it =
            |key: &BudgetKey| key.id == *named && agent.as_ref().is_none_or(|agent| key.agent.as_ref() == Some(agent));
        let mut charged = 0i64;
        let empty = Self::new(state, None);
        let mut group = Grouping::new(&empty, empty.next_entry(), now_ms);
        for action in recorded.actions.iter().take(recorded.failed) {
            let Ok(decision) = group.decide(action) else { break };
            let own = decision.charges.iter().filter(|charge| is_it(&charge.budget));
            charged = own.fold(charged, |sum, charge| sum.saturating_add(charge.amount));
            group.assume(action, &decision);
        }
        Self { state, said: Some((named, used.saturating_sub(charged))) }
    }
}

impl Snapshot for Supposed<'_> {
    fn fact(&self, id: &FactId) -> Option<&Arc<Fact>> {
        self.state.fact(id)
    }
    fn pact(&self, name: &PactName) -> Option<&Arc<Pact>> {
        self.state.pact(name)
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
    fn budget_used(&self, budget: &BudgetKey, _: u64) -> i64 {
        self.said.filter(|(named, _)| **named == budget.id).map_or(0, |(_, used)| used)
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
