//! Observations, derived again: what was shown is what the facts were at the entry's place, and what the agent might see of them.

use super::fault::{Fault, RestsOn};
use countersign_core::ids::FactId;
use countersign_core::observation::{Observation, ObservationRefusal};
use countersign_core::record::{Entry, Event};
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
    let rest = Observation { began_ms: recorded.began_ms, facts: rest };
    if !rest.facts.is_empty() {
        let made = again(&rest).map_err(|refusal| refusal.to_string())?;
        let differing = rest.facts.iter().zip(&made.facts).filter(|(said, made)| said != made);
        facts.extend(differing.map(|(said, _)| said.fact.clone()).collect::<Vec<FactId>>());
    }
    Err(Fault::on(RestsOn::Shown(facts))(what))
}
