//! Goes through every state of a configuration.

use super::readings::{self, Guard};
use super::{Config, Protocol, Step};
use stateright::{Checker, HasDiscoveries, Model, Path, Property};
use std::fmt;
use std::hash::Hash;

/// What a check found.
#[derive(Debug)]
pub struct Report<S = Step> {
    /// The configuration.
    pub name: &'static str,
    /// How many states there are. Fewer where the check ended with the first broken property.
    pub states: usize,
    /// How many steps were taken to find them.
    pub steps: usize,
    /// How many steps the longest of the shortest ways has.
    pub depth: usize,
    /// The properties that do not hold, each with a way to a state in which it does not.
    pub broken: Vec<(&'static str, Vec<S>)>,
    /// What should be met somewhere and is not.
    pub missed: Vec<&'static str>,
}

impl<S> Report<S> {
    /// The way to a state in which a property does not hold.
    #[must_use]
    pub fn counterexample(&self, property: &str) -> Option<&[S]> {
        self.broken.iter().find(|(name, _)| *name == property).map(|(_, way)| way.as_slice())
    }
}

impl<S: fmt::Debug> fmt::Display for Report<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, states, steps, depth, .. } = self;
        write!(out, "{name}: {states} states, {steps} steps, depth {depth}")?;
        for missed in &self.missed {
            write!(out, "\n  not met: {missed}")?;
        }
        for (broken, way) in &self.broken {
            write!(out, "\n  does not hold: {broken}\n    {way:?}")?;
        }
        Ok(())
    }
}

/// Looks at every state of a configuration; with `to_the_end` false, only until a property is found broken.
#[must_use]
pub fn check(config: Config, to_the_end: bool) -> Report {
    let until = if to_the_end { HasDiscoveries::All } else { HasDiscoveries::AnyFailures };
    checked(config.name, Protocol::new(config), until)
}

/// The same for the guard that compares what was read; with a bug, only until what it breaks is found broken.
#[must_use]
pub fn check_guard(config: readings::Config) -> Report<readings::Step> {
    let breaks = config.bug.map(|bug| HasDiscoveries::AnyOf(bug.breaks().iter().copied().collect()));
    checked(config.name, Guard::new(config), breaks.unwrap_or(HasDiscoveries::All))
}

fn checked<M>(name: &'static str, model: M, finish: HasDiscoveries) -> Report<M::Action>
where
    M: Model + Send + Sync + 'static,
    M::State: fmt::Debug + Clone + PartialEq + Hash + Send + Sync,
    M::Action: fmt::Debug + Copy + PartialEq + Send + Sync,
{
    let checker = model.checker().finish_when(finish).spawn_bfs().join();
    let found = checker.discoveries();
    let mut broken = Vec::new();
    let mut missed = Vec::new();
    for property in checker.model().properties() {
        match (property.expectation.discovery_is_failure(), found.get(property.name)) {
            (true, Some(path)) => broken.push((property.name, until(&property, checker.model(), path))),
            (false, None) => missed.push(property.name),
            (true, None) | (false, Some(_)) => {}
        }
    }
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    Report { name, states, steps, depth: checker.max_depth(), broken, missed }
}

/// The steps of a way until the property is broken. The checker keeps the last way that it found, which may go on for long
/// after that.
fn until<M: Model>(property: &Property<M>, model: &M, path: &Path<M::State, M::Action>) -> Vec<M::Action>
where
    M::State: Clone + PartialEq,
    M::Action: Copy + PartialEq,
{
    let whole = path.clone().into_vec();
    let holds = whole.iter().take_while(|(state, _)| (property.condition)(model, state));
    holds.filter_map(|(_, step)| *step).collect()
}
