//! Observations, derived again: what was shown is what the facts were at the entry's place, and what the agent might see of them.

use super::Unknown;
use super::fault::{Fault, RestsOn};
use super::taint::Taint;
use countersign_core::ids::FactId;
use countersign_core::observation::{Observation, ObservationRefusal};
use countersign_core::pact::ObservingBudget;
use countersign_core::record::{Entry, Event, Kind, Leaf};
use countersign_core::state::State;

/// What the entry must say was shown. Facts that live elsewhere are inputs.
pub(super) fn observed_again(entry: &Entry, recorded: &Observation, state: &State) -> Result<Event, Fault> {
    let again = |observation: &Observation| observation.again(state, (&entry.by, &entry.auth), entry.time_ms);
    let refusal = match again(recorded) {
        Ok(again) => return Ok(Event::Observation(Box::new(again))),
        Err(refusal) => refusal,
    };
    let what = refusal.to_string();
    let ObservationRefusal::NotObservable { mut facts, .. } = refusal else { return Err(what.into()) };
    // Whether a grant holds may rest on the value of its fact, and that may be gone. What else was shown is judged all the same.
    let rest = recorded.facts.iter().filter(|seen| !facts.contains(&seen.fact)).cloned().collect();
    let rest = Observation { began_ms: recorded.began_ms, counts: recorded.counts.clone(), facts: rest };
    if !rest.facts.is_empty() {
        let made = again(&rest).map_err(|refusal| refusal.to_string())?;
        let differing = rest.facts.iter().zip(&made.facts).filter(|(said, made)| said != made);
        facts.extend(differing.map(|(said, _)| said.fact.clone()).collect::<Vec<FactId>>());
    }
    Err(Fault::on(RestsOn::Shown(facts))(what))
}

/// What erased observations may have counted to budgets on observing: it is not erased before its window has ended, so only what is decided
/// again in that window is in doubt.
#[derive(Debug, Default)]
pub(super) struct Uncounted(Vec<(u64, u64)>);

impl Uncounted {
    /// An entry is erased; the state is the one in front of it.
    pub(super) fn erased(&mut self, leaf: &Leaf, state: &State) {
        if leaf.kind != Kind::Observation {
            return;
        }
        let grants = state.pacts.values().flat_map(|pact| pact.observe.values()).flatten();
        let ends_ms = |budget: &ObservingBudget| {
            let per_ms = budget.per_ms.max(1);
            (leaf.time / per_ms).saturating_add(1).saturating_mul(per_ms)
        };
        if let Some(until_ms) = grants.flat_map(|grant| &grant.budgets).map(ends_ms).max() {
            self.0.push((leaf.index, until_ms));
        }
    }

    /// The erased entry that may have counted something in a window that is open at this time.
    pub(super) fn at(&self, time_ms: u64) -> Option<u64> {
        self.0.iter().find(|(_, until_ms)| time_ms < *until_ms).map(|(entry, _)| *entry)
    }
}

/// Why an observation that came out differently cannot be judged, if what it rests on is erased.
pub(super) fn excuse(
    entry: &Entry,
    (said, made): (&Observation, &Observation),
    state: &State,
    taint: &mut Taint,
    uncounted: &Uncounted,
) -> Option<(u64, Unknown)> {
    let mut since = None;
    // Counted before, by an entry that is erased; or whether it counts rests on the value of the fact, and that is gone.
    for fact in said.counts_beyond(made) {
        since = Some((taint.may_be_gone(fact, state)?, Unknown::Value));
    }
    for fact in made.counts_beyond(said) {
        let counted = uncounted.at(entry.time_ms).map(|entry| (entry, Unknown::Charges));
        since = Some(counted.or_else(|| Some((taint.may_be_gone(fact, state)?, Unknown::Value)))?);
    }
    if (said.began_ms, &said.facts) != (made.began_ms, &made.facts) {
        since = Some((taint.excuse_seen(said, made, state)?, Unknown::Value));
    }
    since
}
