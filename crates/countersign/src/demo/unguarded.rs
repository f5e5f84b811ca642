//! A service without a gate: a table behind a lock, where an agent checks in one step and acts in a later one.
//!
//! Nothing here is weakened for the show. Every read and every write is atomic by itself, which is what most frameworks
//! give an agent; what is missing is that check and use are one step.

use super::rows::Rows;
use super::schedule::{Deed, Step, World};
use anyhow::Result;
use std::sync::{Mutex, PoisonError};

/// What, if any, harm the end state shows.
type Harm = Box<dyn Fn(&Rows) -> Option<String> + Sync>;

pub struct Service {
    rows: Mutex<Rows>,
    harm: Harm,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing that anyone else can see.
    Quiet,
    /// The check passed, or did not.
    Checked(bool),
    /// The agent's own earlier check had failed, so it did not act.
    HeldBack,
    /// Done, and harmless so far.
    Done,
    /// Done, and this is the step that did the harm.
    Harmed,
}

/// What an agent remembers: whether one of its checks failed.
#[derive(Debug, Default)]
pub struct Mind {
    doubts: bool,
}

impl Service {
    /// A service with these rows, and what counts as harm in them.
    pub fn new(rows: Rows, harm: impl Fn(&Rows) -> Option<String> + Sync + 'static) -> Self {
        Self { rows: Mutex::new(rows), harm: Box::new(harm) }
    }

    /// The harm in the rows as they are.
    pub fn harm(&self) -> Option<String> {
        (self.harm)(&self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, change: impl FnOnce(&mut Rows) -> Result<()>) -> Result<Outcome> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let before = (self.harm)(&rows).is_some();
        change(&mut rows)?;
        let after = (self.harm)(&rows).is_some();
        Ok(if after && !before { Outcome::Harmed } else { Outcome::Done })
    }
}

impl World for Service {
    type Mind = Mind;
    type Outcome = Outcome;

    fn perform(&self, step: &Step, mind: &mut Mind) -> Result<Outcome> {
        match &step.deed {
            Deed::Think | Deed::Claim { .. } | Deed::Cooled => Ok(Outcome::Quiet),
            Deed::Read { check, .. } => {
                let passed = check(&self.rows.lock().unwrap_or_else(PoisonError::into_inner));
                mind.doubts |= !passed;
                Ok(Outcome::Checked(passed))
            }
            Deed::Act { .. } if mind.doubts => Ok(Outcome::HeldBack),
            Deed::Act { effect, .. } => self.write(|rows| {
                effect(rows);
                Ok(())
            }),
            Deed::Feed { fact, value } => self.write(|rows| rows.put(fact, value)),
        }
    }
}
