//! The schedule of a scenario, and the two kinds of world it is played in.
//!
//! Each agent runs on a thread of its own with a mind of its own, and takes its turn when the schedule says so: the race is
//! lost or won the same way every time, and no one sleeps. Time is moved by hand, wall and monotonic together, so that a
//! gap of 45 seconds is 45,000 ms of ledger time and no time of the reader's.

use super::rows::Rows;
use anyhow::Result;
use countersign_engine::clock::Clock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// One step of one agent.
#[derive(Debug)]
pub struct Step {
    /// When, from the start of the scenario.
    pub at_ms: u64,
    /// Who.
    pub agent: &'static str,
    /// What happens, for the reader.
    pub says: &'static str,
    /// What happens, for the world.
    pub deed: Deed,
}

/// What a step does.
#[derive(Debug)]
pub enum Deed {
    /// Nothing that anyone else can see.
    Think,
    /// Reads facts and checks what it is about to rely on.
    Read {
        /// The facts, for the gate.
        facts: &'static [&'static str],
        /// The check, as an agent without a gate makes it.
        check: fn(&Rows) -> bool,
    },
    /// Acts on what was read before.
    Act {
        /// The action type.
        action: &'static str,
        /// Its parameters, as JSON.
        params: &'static str,
        /// What a service without a gate does when it is told to.
        effect: fn(&mut Rows),
    },
    /// Announces that facts are about to change; without a gate there is no one to tell.
    Claim {
        facts: &'static [&'static str],
        /// For how long.
        for_ms: u64,
        /// Why.
        reason: &'static str,
    },
    /// A call has cooled and is decided again; without a gate it left long ago.
    Cooled,
    /// Something outside writes a fact.
    Feed {
        fact: &'static str,
        /// Its whole new value, as JSON.
        value: &'static str,
    },
}

/// A world in which a schedule can be played.
pub trait World: Sync {
    /// What an agent carries from step to step.
    type Mind: Default;
    /// What came of a step.
    type Outcome: Send;
    /// Does one step.
    fn perform(&self, step: &Step, mind: &mut Self::Mind) -> Result<Self::Outcome>;
}

/// Plays a schedule: one thread for each agent, turns in the order of the steps. Gives what came of each step.
pub fn play<W: World>(steps: &[Step], world: &W) -> Result<Vec<W::Outcome>> {
    let baton = Baton::default();
    let outcomes = Mutex::new(Vec::with_capacity(steps.len()));
    let agents: BTreeSet<&str> = steps.iter().map(|step| step.agent).collect();
    std::thread::scope(|scope| {
        for agent in agents {
            let (baton, outcomes) = (&baton, &outcomes);
            scope.spawn(move || {
                let mut mind = W::Mind::default();
                for (turn, step) in steps.iter().enumerate().filter(|(_, step)| step.agent == agent) {
                    let _held = baton.take(turn);
                    let outcome = world.perform(step, &mut mind);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

/// Whose turn it is.
#[derive(Default)]
struct Baton {
    turn: Mutex<usize>,
    passed: Condvar,
}

impl Baton {
    /// Waits for a turn. It ends when the answer is dropped, also by a panic: no one waits forever.
    fn take(&self, turn: usize) -> Held<'_> {
        let mut now = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while *now != turn {
            now = self.passed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        Held(self)
    }
}

struct Held<'a>(&'a Baton);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.0.turn.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.passed.notify_all();
    }
}

/// A clock whose hands are moved.
#[derive(Debug)]
pub struct Hands {
    started_ms: u64,
    passed_ms: AtomicU64,
    /// By how much the wall clock has been set away from what has passed.
    wall_off_ms: AtomicI64,
}

impl Hands {
    /// A clock that stands at this wall time.
    pub fn at(wall_ms: u64) -> Self {
        Self { started_ms: wall_ms, passed_ms: AtomicU64::new(0), wall_off_ms: AtomicI64::new(0) }
    }

    /// Moves the hands forward to a wall time; they never go back.
    pub fn move_to(&self, wall_ms: u64) {
        self.passed_ms.fetch_max(wall_ms.saturating_sub(self.started_ms), Ordering::SeqCst);
    }

    /// Lets time pass, on both clocks.
    pub fn pass(&self, ms: u64) {
        self.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the wall clock forward, or back, while no time passes.
    pub fn set_wall_by(&self, ms: i64) {
        self.wall_off_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn wall_ms(&self) -> u64 {
        let wall_ms = self.started_ms.saturating_add(self.monotonic_ms());
        wall_ms.saturating_add_signed(self.wall_off_ms.load(Ordering::SeqCst))
    }
    fn monotonic_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;
    impl World for Echo {
        type Mind = u64;
        type Outcome = (u64, u64);
        fn perform(&self, step: &Step, mind: &mut u64) -> Result<(u64, u64)> {
            anyhow::ensure!(step.at_ms != 13, "unlucky");
            *mind += 1;
            Ok((step.at_ms, *mind))
        }
    }

    fn step(at_ms: u64, agent: &'static str) -> Step {
        Step { at_ms, agent, says: "", deed: Deed::Think }
    }

    #[test]
    fn agents_take_turns_and_keep_their_own_minds() {
        let steps = [step(0, "a"), step(1, "b"), step(2, "a"), step(3, "b"), step(4, "b")];
        assert_eq!(play(&steps, &Echo).ok(), Some(vec![(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)]));
    }

    #[test]
    fn a_step_that_fails_ends_the_play_with_its_error_and_nobody_waits_for_ever() {
        let steps = [step(0, "a"), step(13, "b"), step(14, "a")];
        assert_eq!(play(&steps, &Echo).map_err(|error| error.to_string()), Err("unlucky".to_owned()));
    }

    #[test]
    fn hands_move_together_and_never_back() {
        let hands = Hands::at(1_000);
        hands.move_to(46_000);
        hands.move_to(2_000);
        assert_eq!((hands.wall_ms(), hands.monotonic_ms()), (46_000, 45_000));
        hands.pass(1_000);
        hands.set_wall_by(-40_000);
        assert_eq!((hands.wall_ms(), hands.monotonic_ms()), (7_000, 46_000));
    }
}
