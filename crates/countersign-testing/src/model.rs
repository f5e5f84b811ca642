//! The protocol of fences and calls (docs/adr/0011) as a model that is small enough to be looked at whole.
//!
//! Three actions, two facts, claims, a feed, a halt, a network that delays, loses and duplicates, an outside, and a gate that
//! crashes at any point. The checker goes through every state that can be reached and looks at the properties in each
//! (I1, I5, I6, and that every effect ends). A [`Bug`] plants a mistake, so that the tests can show that the checker would
//! notice. Nothing here calls the engine, and nothing of the engine is copied: this says what is meant.
//!
//! What is left out, and why that is sound, is in docs/model.md.

mod check;
mod config;
mod gate;
mod line;
pub mod property;
pub mod readings;
mod scenario;
mod state;
mod step;
mod trace;

pub use check::{Report, check, check_guard};
pub use config::{Bug, ClaimSpec, Config, Delays, Fact, Operator, Spec};
pub use gate::Code;
pub use scenario::{bugs, scenarios, sweep};
pub use state::{Action, Claim, Feed, Halt, Ledger, Line, Service, State, Status, Value, Worker};
pub use step::{Answer, Request, Resolution, Step};
pub use trace::{shortest, traces};

/// The model of one configuration.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// What there is, and how much may happen.
    pub config: Config,
}

impl Protocol {
    /// The model of a configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    fn has(&self, bug: Bug) -> bool {
        self.config.bug == Some(bug)
    }

    fn spec(&self, action: usize) -> &Spec {
        &self.config.actions[action]
    }
}

impl stateright::Model for Protocol {
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
