//! The steps: what can happen next, in every state.

use super::Protocol;
use super::config::{Bug, Delays, Operator};
use super::state::{Claim, Feed, Halt, Line, State, Status, Worker};

/// One step. Numbers are those of actions, or of claims where it says so. [`super::traces`] says how each maps to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// An agent submits its action, and it is decided.
    Submit(usize),
    /// The time of a waiting action is up: it is rejected or, where it has cooled, cancelled.
    TimeUp(usize),
    /// Cooling is over: the action is decided again.
    Dispatch(usize),
    /// All that was decided becomes durable. Only where entries become durable in batches.
    Sync,
    /// A worker begins an attempt; under a halt, nothing leaves and the call is settled.
    Send(usize),
    /// No byte could be sent until the deadline: failed.
    NotSent(usize),
    /// The network loses a request.
    Lose(usize, Request),
    /// The network duplicates a request.
    Duplicate(usize),
    /// A request arrives, and the outside answers so.
    Deliver(usize, Request, Answer),
    /// The answer reaches the worker: settled or failed.
    Reply(usize),
    /// The worker's time is up: the request or the reply is late or lost.
    GiveUp(usize),
    /// No attempt is left, or the deadline is there, and no one knows: in doubt.
    Doubt(usize),
    /// `absent_after` has passed since the call came into doubt.
    AbsentAfter(usize),
    /// The probe finds out, and the call is settled.
    Probe(usize),
    /// An operator resolves a doubt.
    Resolve(usize, Resolution),
    /// The claim of this number is announced.
    Announce(usize),
    /// The claim of this number expires.
    Expire(usize),
    /// The claim of this number is withdrawn.
    Withdraw(usize),
    /// The feed arrives.
    Feed,
    /// An operator halts everything.
    Halt,
    /// An operator resumes.
    Resume,
    /// The gate dies, and is opened again.
    Crash,
}

/// Which request of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// The one whose answer is waited for.
    Current,
    /// One whose worker has given up or died, or a duplicate.
    Late,
}

/// What the outside answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It did it, now or before.
    Done,
    /// It did not, and will not.
    Refused,
}

/// What an operator says about a call in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// It happened.
    Settled,
    /// It did not.
    Failed,
}

impl Protocol {
    /// Every step that can be taken in a state.
    pub fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        for action in 0..self.config.actions.len() {
            self.steps_of_gate(state, action, steps);
            self.steps_of_worker(state, action, steps);
            self.steps_of_network(state, action, steps);
            self.steps_in_doubt(state, action, steps);
        }
        for claim in 0..self.config.claims.len() {
            // No one who is halted announces or withdraws anything; time goes on.
            let is_halted = state.tip.halt == Halt::Standing;
            match state.tip.claims[claim] {
                Claim::New if !is_halted => steps.push(Step::Announce(claim)),
                Claim::Standing if !is_halted => steps.extend([Step::Expire(claim), Step::Withdraw(claim)]),
                Claim::Standing => steps.push(Step::Expire(claim)),
                Claim::New | Claim::Ended | Claim::Refused => {}
            }
        }
        if self.config.feed.is_some() && state.tip.feed == Feed::New {
            steps.push(Step::Feed);
        }
        match state.tip.halt {
            Halt::None if self.config.halt => steps.push(Step::Halt),
            Halt::Standing => steps.push(Step::Resume),
            Halt::None | Halt::Resumed => {}
        }
        if state.tip != state.durable {
            steps.push(Step::Sync);
        }
        if state.crashes > 0 {
            steps.push(Step::Crash);
        }
    }

    fn steps_of_gate(&self, state: &State, action: usize, steps: &mut Vec<Step>) {
        match state.tip.actions[action].status {
            Status::New | Status::Cooling if state.waiting.contains(&action) => steps.push(Step::TimeUp(action)),
            // No one can name a claim before its entry is durable and its holder was told.
            Status::New if self.spec(action).names.is_none_or(|claim| state.durable.claims[claim] != Claim::New) => {
                steps.push(Step::Submit(action));
            }
            Status::Cooling => steps.push(Step::Dispatch(action)),
            _ => {}
        }
    }

    fn steps_of_worker(&self, state: &State, action: usize, steps: &mut Vec<Step>) {
        let durable = state.durable.actions[action].status == Status::Dispatched || self.has(Bug::SendBeforeDurable);
        if state.tip.actions[action].status != Status::Dispatched || !durable {
            return;
        }
        let line = &state.lines[action];
        match line.worker {
            Worker::Idle => {}
            Worker::Fresh => steps.extend([Step::Send(action), Step::NotSent(action)]),
            Worker::Trying(_) => {
                steps.extend(line.reply.map(|_| Step::Reply(action)));
                steps.push(Step::GiveUp(action));
            }
            Worker::Unknown(attempts) => {
                if attempts < self.attempts_max(action) {
                    steps.push(Step::Send(action));
                }
                steps.push(Step::Doubt(action));
            }
        }
    }

    fn attempts_max(&self, action: usize) -> u8 {
        if self.has(Bug::RetryNonIdempotent) { 2 } else { self.spec(action).attempts }
    }

    fn steps_of_network(&self, state: &State, action: usize, steps: &mut Vec<Step>) {
        let line = &state.lines[action];
        for (request, there) in [(Request::Current, line.request), (Request::Late, line.late > 0)] {
            if there {
                steps.push(Step::Lose(action, request));
                self.deliveries(state, action, request, steps);
            }
        }
        let may_be_doubled = self.spec(action).idempotent || self.config.duplicates_all;
        if line.busy() && state.duplicates > 0 && may_be_doubled {
            steps.push(Step::Duplicate(action));
        }
    }

    fn deliveries(&self, state: &State, action: usize, request: Request, steps: &mut Vec<Step>) {
        let outside = &state.outside[action];
        let refuses = self.config.refuses || outside.refused;
        let does = !outside.refused;
        let known = outside.did > 0 && self.spec(action).idempotent;
        if does {
            steps.push(Step::Deliver(action, request, Answer::Done));
        }
        if refuses && !known {
            steps.push(Step::Deliver(action, request, Answer::Refused));
        }
    }

    fn steps_in_doubt(&self, state: &State, action: usize, steps: &mut Vec<Step>) {
        let in_doubt = |status: Status| status == Status::InDoubt;
        if !in_doubt(state.tip.actions[action].status) || !in_doubt(state.durable.actions[action].status) {
            return;
        }
        let (line, did) = (&state.lines[action], state.outside[action].did > 0);
        if self.spec(action).probe {
            let all_arrived = self.config.delays == Delays::Unbounded || !line.busy();
            if !line.waited && all_arrived {
                steps.push(Step::AbsentAfter(action));
            }
            if did || line.waited || self.has(Bug::AbsentAtOnce) {
                steps.push(Step::Probe(action));
            }
        }
        let says = |resolution| Step::Resolve(action, resolution);
        match self.config.operator {
            Operator::Away => {}
            Operator::Careful if did => steps.push(says(Resolution::Settled)),
            Operator::Careful if line.busy() => {}
            Operator::Careful => steps.push(says(Resolution::Failed)),
            Operator::Guessing => steps.extend([says(Resolution::Settled), says(Resolution::Failed)]),
        }
    }

    /// The state after a step. The step must be one of [`Self::steps`].
    #[must_use]
    pub fn after(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Submit(action) => self.submit(&mut next, action),
            Step::TimeUp(action) => Self::time_up(&mut next, action),
            Step::Dispatch(action) => self.dispatch(&mut next, action),
            Step::Sync => next.durable = next.tip,
            Step::Send(action) => self.send(&mut next, action),
            Step::NotSent(action) => self.settle(&mut next, action, Status::Failed),
            Step::Lose(action, request) => take(&mut next.lines[action], request),
            Step::Duplicate(action) => {
                next.lines[action].late += 1;
                next.duplicates -= 1;
            }
            Step::Deliver(action, request, answer) => self.deliver(&mut next, action, request, answer),
            Step::Reply(action) => self.reply(&mut next, action),
            Step::GiveUp(action) => give_up(&mut next.lines[action]),
            Step::Doubt(action) => self.doubt(&mut next, action),
            Step::AbsentAfter(action) => next.lines[action].waited = true,
            Step::Probe(action) => {
                let found = if next.outside[action].did > 0 { Status::Settled } else { Status::Failed };
                self.settle(&mut next, action, found);
            }
            Step::Resolve(action, Resolution::Settled) => self.settle(&mut next, action, Status::Settled),
            Step::Resolve(action, Resolution::Failed) => self.settle(&mut next, action, Status::Failed),
            Step::Announce(claim) => self.announce(&mut next, claim),
            Step::Expire(claim) => {
                // Ledger time does not go back in a crash, so what expired stays expired whatever was durable.
                if next.durable.claims[claim] == Claim::Standing {
                    next.durable.claims[claim] = Claim::Ended;
                }
                self.end_claim(&mut next, claim);
            }
            Step::Withdraw(claim) => self.end_claim(&mut next, claim),
            Step::Feed => self.feed(&mut next),
            Step::Halt => next.tip.halt = Halt::Standing,
            Step::Resume => next.tip.halt = Halt::Resumed,
            Step::Crash => self.crash(&mut next),
        }
        if !self.config.batches {
            next.durable = next.tip;
        }
        next
    }
}

/// Takes a request off the network.
pub(super) fn take(line: &mut Line, request: Request) {
    match request {
        Request::Current => line.request = false,
        Request::Late => line.late -= 1,
    }
}

fn give_up(line: &mut Line) {
    if let Worker::Trying(attempts) = line.worker {
        line.worker = Worker::Unknown(attempts);
    }
    line.hang_up();
}
