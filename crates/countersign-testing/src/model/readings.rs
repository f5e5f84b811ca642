//! The guard that compares what was read (docs/adr/0025) as a model that is small enough to be looked at whole.
//!
//! Two clients with a session each, two places to read at, up to three writes, a gateway that reads ahead while calls run, turns, a
//! network that delays and loses, strangers who change things past the gate, and a gate that crashes. What a client knew when it sent a
//! write is followed beside the protocol, and is what the properties are about: the gate only knows what it entered.
//!
//! As beside it, nothing here calls the engine and nothing of the engine is copied: this says what is meant.

mod after;
mod config;
pub mod property;
mod scenario;
mod state;
mod step;

pub use config::{Bug, Config, Spec};
pub use scenario::{bugs, scenarios};
pub use state::{Client, Held, Phase, Read, State, Write};
pub use step::Step;

/// The model of one configuration.
#[derive(Debug, Clone)]
pub struct Guard {
    /// What there is, and how much may happen.
    pub config: Config,
}

impl Guard {
    /// The model of a configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    fn has(&self, bug: Bug) -> bool {
        self.config.bug == Some(bug)
    }

    /// The session that a client reads and writes in.
    fn session(&self, client: usize) -> usize {
        if self.has(Bug::SharedPool) { 0 } else { client }
    }
}

impl stateright::Model for Guard {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.config)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        self.steps(state, steps);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        Some(self.after(state, step))
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        self.expected()
    }
}
