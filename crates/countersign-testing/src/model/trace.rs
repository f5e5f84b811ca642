//! Ways through the model, to drive the engine along.

use super::{Config, Protocol, State, Step};
use crate::disk::SplitMix;
use std::collections::HashSet;

/// Random ways of steps that `may` be taken, `count` of them from one seed. Each goes on until there is no such step: where
/// every step may be taken, to a state in which nothing can happen any more.
///
/// A way is a script for the engine with a simulated disk and an adapter that does as it is told. Each step maps to one thing
/// that a test does, and the ledger after it is that of [`Protocol::after`]:
///
/// | step | with the engine |
/// |---|---|
/// | `Submit`, `TimeUp` | send the action; let the ledger's time go on until its wait is over |
/// | `Dispatch` | let the ledger's time go on until cooling is over |
/// | `Sync` | let the disk finish its sync; only in scenarios with `batches` |
/// | `Send` | let the adapter's `attempt` go on; under a halt it hears so from its judge and answers `NotSent` |
/// | `NotSent` | let `attempt` answer that nothing was done |
/// | `Deliver`, `Lose`, `Duplicate` | nothing: the outside does it, loses it, gets it twice |
/// | `Reply` | let `attempt` answer `Done` or `Refused`, as the outside did |
/// | `GiveUp` | nothing yet: what follows tells the engine |
/// | `Doubt` | let `attempt` or `recover` answer `Unknown`, as often as there are attempts left |
/// | `AbsentAfter` | let the ledger's time go on by `absent_after` |
/// | `Probe` | let `probe` answer `There` or `Absent`, as the outside is |
/// | `Resolve` | send the operator's resolution |
/// | `Announce`, `Expire`, `Withdraw` | send the claim; let its time go on; withdraw it |
/// | `Feed`, `Halt`, `Resume` | send it |
/// | `Crash` | cut the power, let the gate go, open another on what the disk kept |
#[must_use]
pub fn traces(config: &Config, seed: u64, count: usize, may: impl Fn(&State, &Step) -> bool) -> Vec<Vec<Step>> {
    let model = Protocol::new(config.clone());
    let mut rng = SplitMix::new(seed);
    (0..count).map(|_| walk(&model, &mut rng, &may)).collect()
}

fn walk(model: &Protocol, rng: &mut SplitMix, may: &impl Fn(&State, &Step) -> bool) -> Vec<Step> {
    let mut state = State::new(&model.config);
    let mut way = Vec::new();
    let mut steps = Vec::new();
    loop {
        steps.clear();
        model.steps(&state, &mut steps);
        steps.retain(|step| may(&state, step));
        let chosen = usize::try_from(rng.below(steps.len() as u64)).unwrap_or(0);
        let Some(step) = steps.get(chosen) else { return way };
        state = model.after(&state, *step);
        way.push(*step);
    }
}

/// Shortest ways to the first `states` distinct states, without those that are the beginning of another.
#[must_use]
pub fn shortest(config: &Config, states: usize) -> Vec<Vec<Step>> {
    let model = Protocol::new(config.clone());
    let first = State::new(&model.config);
    let mut seen = HashSet::from([first.clone()]);
    // Each state that was found: the one before it, the step between them, and whether it has a state after it.
    let mut found: Vec<(usize, Option<Step>, bool)> = vec![(0, None, false)];
    let mut queue = vec![first];
    let mut next = 0;
    while let Some(state) = queue.get(next).cloned() {
        let mut steps = Vec::new();
        model.steps(&state, &mut steps);
        for step in steps {
            let after = model.after(&state, step);
            if seen.len() < states && seen.insert(after.clone()) {
                found[next].2 = true;
                found.push((next, Some(step), false));
                queue.push(after);
            }
        }
        next += 1;
    }
    let ends = (0..found.len()).filter(|number| !found[*number].2);
    ends.map(|end| way_to(&found, end)).collect()
}

fn way_to(found: &[(usize, Option<Step>, bool)], mut end: usize) -> Vec<Step> {
    let mut way = Vec::new();
    while let (before, Some(step), _) = found[end] {
        way.push(step);
        end = before;
    }
    way.reverse();
    way
}
