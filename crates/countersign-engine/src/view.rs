//! What readers see: the state at the last synced position, and nothing later.

mod questions;

pub use questions::Counts;

use countersign_core::decide::Snapshot;
use countersign_core::decision::BudgetKey;
use countersign_core::fact::Fact;
use countersign_core::fence::Fences;
use countersign_core::halt::Halts;
use countersign_core::ids::{AgentId, FactId, PactName};
use countersign_core::pact::Pact;
use countersign_core::review::Reviews;
use countersign_core::state::State;
use countersign_ledger::tree::TileTree;
use std::sync::Arc;

/// The state at a synced position.
#[derive(Debug, Default)]
pub struct View {
    /// Facts, pacts and budgets.
    pub(crate) state: State,
    /// How many entries it covers.
    pub position: u64,
    /// The time of the last of them.
    pub time_ms: u64,
    /// The tree over their leaves.
    pub tree: TileTree,
    /// The checkpoint that covers them.
    pub checkpoint: Arc<str>,
    /// Whether the wall clock has stepped and waits for confirmation.
    pub clock_stepped: bool,
}

impl Snapshot for View {
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
}
