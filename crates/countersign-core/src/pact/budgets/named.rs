//! Named budgets: defined once, by the pact that owns them, and charged by action types of that pact and of others.
//!
//! The owner alone says how much, per which window and for whom, so there is never a second opinion to reconcile. What can disagree is
//! whether the budget exists and what it adds up; a publication that would make pacts disagree on that is refused.

use super::{Budget, Measure, limit};
use crate::decimal::MONEY_SCALE_MAX;
use crate::ids::{ActionName, PactName};
use crate::limits::NAMED_BUDGETS_MAX;
use crate::pact::diagnostic::{Disagreement, Problems, suggestion};
use crate::pact::source::{Table, Text, shorten, table};
use crate::pact::{BudgetBy, LimitRule, NamedBudget, Pact};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// Who may share a named budget.
const BY: [(&str, BudgetBy); 2] = [("agent", BudgetBy::Agent), ("all", BudgetBy::All)];

/// The named budgets of the pact that is being read.
#[derive(Debug, Default)]
pub(in crate::pact) struct Named {
    /// The pact's own name, if it has a sound one.
    pub(in crate::pact) pact: Option<PactName>,
    /// What it defines. `None` where the definition is unsound, and nothing sensible could be said about its use.
    defined: BTreeMap<SmolStr, Option<NamedBudget>>,
}

impl Named {
    /// The sound definitions.
    pub(in crate::pact) fn into_defined(self) -> BTreeMap<SmolStr, NamedBudget> {
        self.defined.into_iter().filter_map(|(name, budget)| Some((name, budget?))).collect()
    }
}

/// Reads `[budget.NAME]`.
pub(in crate::pact) fn define(
    source: &str,
    root: &mut Table<'_>,
    pact: Option<PactName>,
    problems: &mut Problems,
) -> Named {
    let mut named = Named { pact, defined: BTreeMap::new() };
    let Some((span, declared)) = root.table("budget", problems) else { return named };
    if declared.len() > NAMED_BUDGETS_MAX {
        let message = format!("a pact defines at most {NAMED_BUDGETS_MAX} budgets, this one has {}", declared.len());
        problems.error(&span, message, "split it into several pacts");
        return named;
    }
    for (key, node) in declared {
        let name = match ActionName::new(key.get_ref().as_ref()) {
            Ok(name) => name.smol().clone(),
            Err(error) => {
                problems.error(&key.span(), error.to_string(), "rename the budget: [budget.outflow]");
                continue;
            }
        };
        let what = format!("budget `{name}`");
        let Some(body) = table(node, &what, problems) else { continue };
        let mut body = Table::new(source, body, key.span(), what);
        let before = problems.errors();
        let doc = body.doc(problems);
        let is_count = body.flag("count", problems);
        let scale =
            body.integer("scale", 0..=i64::from(MONEY_SCALE_MAX), problems).and_then(|scale| u8::try_from(scale).ok());
        let limit = limit(&mut body, &BY, "by = \"all\" for all agents together", problems);
        body.finish(problems);
        let is_sound = problems.errors() == before;
        let budget = limit.filter(|_| is_sound).map(|limit| NamedBudget { doc, is_count, scale, limit });
        named.defined.insert(name, budget);
    }
    named
}

/// Where the limit of a budget is that an action type charges by its name. What another pact defines is looked at when this one is
/// published.
pub(super) fn charged(
    name: &Text<'_>,
    of: Option<&Text<'_>>,
    charged: (&Measure, Option<u8>),
    named: &Named,
    problems: &mut Problems,
) -> Option<LimitRule> {
    if let Some(of) = of {
        let owner = match PactName::new(of.value) {
            Ok(owner) => owner,
            Err(error) => {
                problems.error(&of.content(), error.to_string(), "write the name of the pact that defines the budget");
                return None;
            }
        };
        if named.pact.as_ref() != Some(&owner) {
            return Some(LimitRule::Named(owner));
        }
    }
    let Some(defined) = named.defined.get(name.value) else {
        let names: Vec<&str> = named.defined.keys().map(SmolStr::as_str).collect();
        let hint = match names.is_empty() {
            true => format!("define it as [budget.{}], or say whose it is: of = \"PACT\"", shorten(name.value)),
            false => suggestion(name.value, &names, "define it, say whose it is with `of`, or use one of"),
        };
        problems.error(&name.content(), format!("this pact defines no budget `{}`", shorten(name.value)), hint);
        return None;
    };
    if let Some(why) = defined.as_ref().and_then(|defined| misfit(defined, charged)) {
        let hint = match (defined, charged) {
            (Some(NamedBudget { is_count: false, scale: None, .. }), (Measure::Sum(_), Some(scale))) => {
                format!("what it adds up is money: add `scale = {scale}` to [budget.{}]", shorten(name.value))
            }
            _ => FIT_HINT.to_owned(),
        };
        problems.error(&name.content(), format!("budget `{}` {why}", name.value), hint);
        return None;
    }
    named.pact.clone().map(LimitRule::Named)
}

const FIT_HINT: &str = "a budget adds up one kind of thing; make the two agree, or use another budget";

/// Why an action type cannot charge a budget as it does.
fn misfit(budget: &NamedBudget, (measure, scale): (&Measure, Option<u8>)) -> Option<&'static str> {
    match (budget.is_count, measure) {
        (false, Measure::Sum(_)) if budget.scale != scale => {
            Some("adds up money of another scale, or no money: its `scale` is not that of the parameter")
        }
        (true, Measure::Sum(_)) => Some("counts actions, so nothing can be summed in it"),
        (false, Measure::Count) => Some("adds up a parameter, so actions cannot be counted in it"),
        (true, Measure::Count) | (false, Measure::Sum(_)) => None,
    }
}

/// What a pact charges that its owner, if there is one, does not define so.
pub fn disagreements(pact: &Pact, owner: &PactName, owned: Option<&Pact>) -> Vec<Disagreement> {
    let charged = pact.actions.values().flat_map(|action| action.budgets.iter().map(move |budget| (action, budget)));
    let of_owner = charged.filter(|(_, budget)| budget.owner() == Some(owner));
    let disagreement = |(action, budget): (&crate::pact::ActionType, &Budget)| {
        let what = format!("action `{}` of pact `{}` charges budget `{}`", action.name, pact.name, budget.id);
        let Some(owned) = owned else {
            let message = format!("{what} of pact `{owner}`, which is not published");
            return Some(Disagreement::new(message, format!("publish `{owner}` first")));
        };
        let Some(defined) = owned.budgets.get(&budget.id) else {
            let message = format!("{what}, which version {} of pact `{owner}` does not define", owned.version);
            return Some(Disagreement::new(message, "define it there, or stop charging it first"));
        };
        let why = misfit(defined, (&budget.measure, budget.scale))?;
        let message = format!("{what}, but in version {} of pact `{owner}` it {why}", owned.version);
        Some(Disagreement::new(message, FIT_HINT))
    };
    of_owner.filter_map(disagreement).collect()
}
