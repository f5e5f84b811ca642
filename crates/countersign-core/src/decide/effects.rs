//! What a committed action does: the new values of facts, and the charges to budgets.

use super::Deciding;
use crate::decision::{BudgetKey, Charge, Write};
use crate::expression::{EvalError, Expression, Inputs};
use crate::ids::AgentId;
use crate::limits::FACT_BYTES_MAX;
use crate::pact::{Budget, BudgetBy, Change, Limit, Measure, WriteRule};
use crate::reason::{EffectProblem, Reason};
use crate::value::{Attributes, Value};
use smol_str::SmolStr;

impl Deciding<'_> {
    /// The writes; every value is computed from the facts as they were before the action.
    pub(super) fn effects(&self, inputs: &Inputs<'_>) -> Result<Vec<Write>, Reason> {
        self.kind.writes.iter().filter_map(|rule| self.write(rule, inputs).transpose()).collect()
    }

    fn write(&self, rule: &WriteRule, inputs: &Inputs<'_>) -> Result<Option<Write>, Reason> {
        let Some(resolved) = self.reads.get(rule.read) else {
            return Ok(None);
        };
        let (value, labels) = match &rule.change {
            // Deleting what is not there is done already.
            Change::Delete if resolved.live().is_none() => return Ok(None),
            Change::Delete => (None, None),
            Change::Set(sets) => {
                let value = self.new_value(rule.read, sets, inputs)?;
                let labels = self.labels_after(rule, sets, |name| value.get(name).cloned());
                (Some(value), labels)
            }
        };
        Ok(Some(Write {
            fact: resolved.id.clone(),
            tag: resolved.record.map(|fact| fact.tag),
            version: resolved
                .record
                .map_or_else(|| self.snapshot.version_floor(), |_| resolved.version())
                .saturating_add(1),
            value,
            previous_entry: resolved.record.map(|fact| fact.written.entry),
            labels,
        }))
    }

    fn new_value(
        &self,
        read: usize,
        sets: &[(SmolStr, Expression)],
        inputs: &Inputs<'_>,
    ) -> Result<Attributes, Reason> {
        let name = || self.kind.reads.get(read).map(|read| read.name.clone()).unwrap_or_default();
        let invalid = |attribute: &SmolStr, error: EvalError| {
            let why = EffectProblem::Set { read: name(), attribute: attribute.clone(), error };
            Reason::EffectInvalid { why }
        };
        let mut changes = Vec::with_capacity(sets.len());
        for (attribute, expression) in sets {
            let value = expression.value(inputs).map_err(|why| invalid(attribute, why))?;
            let in_range = |value: &Value| !matches!(value, Value::Long(_)) || value.is(&crate::value::ValueType::Long);
            if !in_range(&value) {
                // The number itself may be made of what the agent must not see.
                return Err(invalid(attribute, EvalError::OutOfRange));
            }
            changes.push((attribute.clone(), value));
        }
        let before =
            self.reads.get(read).and_then(|r| r.live()).and_then(|fact| fact.value.clone()).unwrap_or_default();
        let after = before.with(changes);
        // Most facts are far from the limit, and need not be written out to know it.
        let bytes = if after.bytes_bound() > FACT_BYTES_MAX { after.bytes() } else { 0 };
        if bytes > FACT_BYTES_MAX {
            let why = EffectProblem::FactTooLarge { read: name(), bytes: bytes as u64 };
            return Err(Reason::EffectInvalid { why });
        }
        Ok(after)
    }

    pub(super) fn check_budgets(&self) -> Result<(), Reason> {
        // Charged at the dispatch already.
        if self.is_judgement() {
            return Ok(());
        }
        for budget in &self.kind.budgets {
            let limit = self.limit(budget);
            for charge in self.charges_to(budget, limit) {
                let used = self.snapshot.budget_used(&charge.budget, charge.window);
                let total = used.checked_add(charge.amount);
                if charge.amount < 0 || total.is_none_or(|total| total > limit.max) {
                    return Err(Reason::BudgetExceeded {
                        budget: budget.id.clone(),
                        agent: charge.budget.agent.filter(|_| self.action.chain.is_some()),
                        used,
                        max: limit.max,
                        amount: charge.amount,
                        ends_at: charge.window.saturating_add(1).saturating_mul(limit.per_ms),
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) fn charges(&self) -> Vec<Charge> {
        self.kind.budgets.iter().flat_map(|budget| self.charges_to(budget, self.limit(budget))).collect()
    }

    /// A budget's limit. No pact is published that charges what its owner does not define, nor an owner that drops what others charge;
    /// if one were, nothing could be charged (I4).
    fn limit(&self, budget: &Budget) -> Limit {
        let found = budget.limit(|owner| self.snapshot.pact(owner).map(AsRef::as_ref));
        found.copied().unwrap_or(Limit { max: -1, per_ms: 1, by: BudgetBy::All })
    }

    /// What the action charges to a budget: to one that all share once, to agents' own once for every member of its delegation.
    fn charges_to(&self, budget: &Budget, limit: Limit) -> impl Iterator<Item = Charge> {
        let (chain, alone) = match (limit.by, &self.action.chain) {
            (BudgetBy::All, _) => (None, None),
            (BudgetBy::Agent, Some(chain)) => (Some(chain), None),
            (BudgetBy::Agent, None) => (None, Some(&self.action.agent)),
        };
        let agents = chain.into_iter().flat_map(|chain| chain.agents()).chain(alone).map(Some);
        let all = (limit.by == BudgetBy::All).then_some(None);
        agents.chain(all).map(move |agent| self.charge(budget, limit, agent))
    }

    fn charge(&self, budget: &Budget, limit: Limit, agent: Option<&AgentId>) -> Charge {
        let amount = match &budget.measure {
            Measure::Count => 1,
            Measure::Sum(param) => match self.params.get(param) {
                Some(Value::Long(amount)) => *amount,
                _ => 0,
            },
        };
        Charge {
            budget: BudgetKey {
                pact: budget.owner().unwrap_or(&self.action.pact).clone(),
                action: budget.owner().is_none().then(|| self.kind.name.clone()),
                id: budget.id.clone(),
                agent: agent.cloned(),
            },
            window: self.now_ms.checked_div(limit.per_ms).unwrap_or(0),
            amount,
        }
    }
}
