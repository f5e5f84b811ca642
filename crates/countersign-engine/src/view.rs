//! What readers see: the state at the last synced position, and nothing later.
//!
//! There is one table of facts, the sequencer's, which is ahead of what is synced by what is on its way. Readers look into the same
//! table as of their position. Everything else is small, and readers have it for themselves.

mod live;
mod questions;

pub(crate) use live::Pin;
pub use live::{Live, Pinned};
pub use questions::Counts;

use countersign_core::decide::Snapshot;
use countersign_core::decision::BudgetKey;
use countersign_core::fact::Fact;
use countersign_core::fence::Fences;
use countersign_core::halt::Halts;
use countersign_core::ids::{AgentId, FactId, PactName};
use countersign_core::observing::Observing;
use countersign_core::pact::Pact;
use countersign_core::pact::catalogue::Catalogue;
use countersign_core::review::Reviews;
use countersign_core::state::{FactMap, ReadState, State};
use countersign_ledger::tree::TileTree;
use parking_lot::{RwLock, RwLockReadGuard};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// The state at a synced position, but for the facts; those of agents and operators are here too, because every request asks for them.
#[derive(Debug, Default)]
pub struct View {
    /// Pacts, budgets, halts and all that is under way.
    pub(crate) rest: State,
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

/// The whole state at a synced position, while a reader holds it.
///
/// The table of facts is locked when the first fact is asked for. Held only briefly: the sequencer waits for readers of facts,
/// and the commit stage for all readers. One thread holds one at a time.
pub struct Synced<'a> {
    view: RwLockReadGuard<'a, View>,
    live: &'a RwLock<State>,
    locked: OnceCell<RwLockReadGuard<'a, State>>,
    whole: OnceCell<State>,
}

impl<'a> Synced<'a> {
    /// Holds what is synced now.
    pub fn new(view: &'a RwLock<View>, live: &'a RwLock<State>) -> Self {
        // In this order: while a view is held, nothing that it needs is released.
        Self { view: view.read(), live, locked: OnceCell::new(), whole: OnceCell::new() }
    }

    fn live(&self) -> &State {
        self.locked.get_or_init(|| self.live.read())
    }

    /// The facts of one shard of the table.
    pub(crate) fn shard(&self, shard: usize) -> impl Iterator<Item = &Arc<Fact>> {
        self.live().facts.shard_as_of(shard, self.view.position)
    }

    /// The table of facts as it is now, ahead of what is synced: for those who put it back to an earlier position themselves.
    pub(crate) fn facts_ahead(&self) -> (&FactMap, u64) {
        let live = self.live();
        (&live.facts, live.next_entry)
    }

    /// A copy of the whole state, for what compares it: the simulator, the bench and tests.
    pub fn whole_state(&self) -> &State {
        self.whole.get_or_init(|| self.view.rest.with_facts_of(self.live(), self.view.position))
    }
}

impl Deref for Synced<'_> {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl ReadState for Synced<'_> {
    fn current(&self, id: &FactId) -> Option<&Arc<Fact>> {
        let View { rest, position, .. } = &*self.view;
        match rest.facts.keeps(id) {
            true => rest.facts.get(id),
            false => self.live().facts.get_as_of(id, *position),
        }
    }
    fn pacts(&self) -> &BTreeMap<PactName, Arc<Pact>> {
        &self.view.rest.pacts
    }
    fn catalogue(&self) -> &Catalogue {
        &self.view.rest.catalogue
    }
    fn observing(&self) -> &Observing {
        &self.view.rest.observing
    }
}

impl Snapshot for Synced<'_> {
    fn fact(&self, id: &FactId) -> Option<&Arc<Fact>> {
        self.current(id)
    }
    fn pact(&self, name: &PactName) -> Option<&Arc<Pact>> {
        self.rest.pact(name)
    }
    fn version_floor(&self) -> u64 {
        self.rest.version_floor()
    }
    fn origin(&self) -> &str {
        self.rest.origin()
    }
    fn next_entry(&self) -> u64 {
        self.rest.next_entry()
    }
    fn budget_used(&self, budget: &BudgetKey, window: u64) -> i64 {
        self.rest.budget_used(budget, window)
    }
    fn is_identified(&self) -> bool {
        self.rest.is_identified()
    }
    fn halts(&self) -> &Halts {
        self.rest.halts()
    }
    fn reviews(&self) -> &Reviews {
        self.rest.reviews()
    }
    fn fences(&self) -> &Fences {
        self.rest.fences()
    }
    fn effects_at_capacity(&self, agent: &AgentId) -> bool {
        self.rest.effects_at_capacity(agent)
    }
}
