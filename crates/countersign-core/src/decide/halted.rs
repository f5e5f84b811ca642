//! Whether an action is in a halted scope. Asked first of all, in shadow mode too: a halt stops what happens, not what is
//! enforced.

use super::Snapshot;
use crate::action::Action;
use crate::decision::{Decision, PactRef, ReadVersion};
use crate::halt::{Halt, Scope};
use crate::ids::{AgentId, FactId, PactName};
use crate::reason::{Reason, Since};
use crate::value::Value;

/// The rejection of an action in a halted scope.
pub(super) fn halted(action: &Action, snapshot: &dyn Snapshot, pact: &PactRef) -> Option<Decision> {
    let mut decision = Decision::refused(Some(pact.clone()), halt_on(action, snapshot)?);
    // Which org an agent belongs to is a fact, and so part of what was read.
    decision.reads = action
        .members()
        .filter_map(|agent| snapshot.fact(&FactId::of_agent(agent)))
        .map(|fact| ReadVersion { fact: fact.id.clone(), version: fact.version(), tag: Some(fact.tag) })
        .collect();
    Some(decision)
}

/// Why an action is halted now, if it is.
pub(super) fn halt_on(action: &Action, snapshot: &dyn Snapshot) -> Option<Reason> {
    if snapshot.halts().is_empty() {
        return None;
    }
    let (scope, halt) = halt_of(action, snapshot)?;
    let since = Since { entry: halt.entry, at: halt.at_ms, by: halt.by.clone() };
    Some(Reason::Halted { scope, since, why: halt.reason.as_ref().into() })
}

/// The halt that an action falls under; the widest first.
fn halt_of<'a>(action: &Action, snapshot: &'a dyn Snapshot) -> Option<(Scope, &'a Halt)> {
    halt_among(&action.pact, || action.members(), snapshot)
}

/// The halt of a pact, or of one of these agents or their orgs; the widest first.
pub(super) fn halt_among<'a, 'm, M: Iterator<Item = &'m AgentId>>(
    pact: &PactName,
    members: impl Fn() -> M,
    snapshot: &'a dyn Snapshot,
) -> Option<(Scope, &'a Halt)> {
    let halts = snapshot.halts();
    let org_of = |agent: &AgentId| {
        let fact = snapshot.fact(&FactId::of_agent(agent))?;
        match fact.value.as_ref()?.get("org")? {
            Value::String(org) => Some(Scope::Org(org.clone())),
            _ => None,
        }
    };
    let scopes = [Scope::All, Scope::Pact(pact.clone())].into_iter();
    // Whose halt stops it: the one who acts, and everyone on whose behalf.
    let scopes = scopes.chain(members().filter_map(org_of));
    let mut scopes = scopes.chain(members().map(|agent| Scope::Agent(agent.clone())));
    scopes.find_map(|scope| halts.get(&scope).map(|halt| (scope, halt)))
}
