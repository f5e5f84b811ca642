//! Putting back what a snapshot holds: what entries made, without the entries.
//!
//! Where an entry is needed whole, as for an action that waits for a person, a snapshot holds the entry, and it is applied.

use super::{BudgetUse, HeldFeed, State};
use crate::call::EffectId;
use crate::decision::BudgetKey;
use crate::effect::Context;
use crate::fact::Fact;
use crate::ids::AgentId;
use crate::labels::{LabelSet, OfAgent};
use crate::pact::Pact;
use std::collections::BTreeMap;
use std::sync::Arc;

impl State {
    /// Puts a fact back.
    pub fn restore_fact(&mut self, fact: Fact) {
        self.put(Arc::new(fact));
    }

    /// Puts back what a budget holds.
    pub fn restore_budget(&mut self, budget: BudgetKey, held: BudgetUse) {
        self.budgets.insert(budget, held);
    }

    /// Puts back a pact that was current, whatever its version.
    ///
    /// # Errors
    /// Why its fact types do not fit those of the others.
    pub fn restore_pact(&mut self, pact: &Arc<Pact>) -> Result<(), Vec<String>> {
        self.catalogue.admit(pact)?;
        self.publish(pact);
        Ok(())
    }

    /// Puts back a feed that waits for a fence to end.
    pub fn restore_held(&mut self, entry: u64, feed: HeldFeed) {
        self.hold(entry, feed);
    }

    /// Puts back which agents were shown what, and which names of labels there are. Instead of what was put back before: the entries of
    /// what is under way are applied again, and may be older.
    pub fn restore_labels(&mut self, names: LabelSet, agents: BTreeMap<AgentId, OfAgent>) {
        self.labels.restore(names, agents);
    }

    /// Puts back what a dispatch was decided on: it may have changed since.
    pub fn restore_context(&mut self, effect: EffectId, context: Context) {
        self.effects.restore_context(effect, context);
    }
}
