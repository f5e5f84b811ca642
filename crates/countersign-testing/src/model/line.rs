//! The worker's half: attempts, the network between the worker and the outside, and the outside itself.

use super::Protocol;
use super::config::Bug;
use super::state::{Halt, State, Status, Worker};
use super::step::{Answer, Request, take};

impl Protocol {
    /// Looks at the durable halts and sends, or settles the call without having sent.
    pub(super) fn send(&self, state: &mut State, action: usize) {
        let halted = state.durable.halt == Halt::Standing;
        let attempts = match state.lines[action].worker {
            Worker::Unknown(attempts) => attempts,
            _ => 0,
        };
        if halted && !self.has(Bug::HaltNotSeenByWorker) {
            // Only where nothing left before is it known that nothing happened.
            let known = attempts == 0 || self.has(Bug::HaltedRetryFails);
            self.settle(state, action, if known { Status::Failed } else { Status::InDoubt });
            return;
        }
        state.sent_under_halt |= halted;
        state.lines[action].worker = Worker::Trying(attempts + 1);
        state.lines[action].request = true;
    }

    /// A request arrives, and the outside does it, has done it before, or refuses.
    pub(super) fn deliver(&self, state: &mut State, action: usize, request: Request, answer: Answer) {
        take(&mut state.lines[action], request);
        if request == Request::Current {
            state.lines[action].reply = Some(answer);
        }
        let justified = self.stands(state, action);
        let outside = &mut state.outside[action];
        let known = outside.did > 0 && self.spec(action).idempotent && !self.has(Bug::FreshKey);
        match answer {
            Answer::Done if known => {}
            Answer::Done => {
                outside.did += 1;
                outside.unjustified |= !justified;
            }
            Answer::Refused => outside.refused = !self.config.refusals_forgotten,
        }
    }

    /// Whether a call is in flight, and every fact that it reads is as it was at its dispatch.
    pub(super) fn stands(&self, state: &State, action: usize) -> bool {
        let entry = &state.tip.actions[action];
        let mut reads = self.spec(action).reads.into_iter().zip(entry.relied).zip(&state.tip.facts);
        entry.status.in_flight() && reads.all(|((reads, relied), now)| !reads || relied == now.version)
    }

    pub(super) fn reply(&self, state: &mut State, action: usize) {
        // What is refused now says nothing about an earlier attempt of which no one knows.
        let is_first = state.lines[action].worker == Worker::Trying(1);
        let outcome = match state.lines[action].reply.take() {
            Some(Answer::Done) => Status::Settled,
            Some(Answer::Refused) if is_first || self.has(Bug::RefusedRetryFails) => Status::Failed,
            Some(Answer::Refused) | None => Status::InDoubt,
        };
        self.settle(state, action, outcome);
    }

    pub(super) fn doubt(&self, state: &mut State, action: usize) {
        let outcome = match self.config.bug {
            Some(Bug::UnknownIsFailed) => Status::Failed,
            Some(Bug::UnknownIsSettled) => Status::Settled,
            _ => Status::InDoubt,
        };
        self.settle(state, action, outcome);
    }
}
