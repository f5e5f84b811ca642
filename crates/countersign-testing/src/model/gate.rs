//! The sequencer's half: deciding, fences, claims, the feed, and what a settlement sets free. One call is one entry, or none.

use super::Protocol;
use super::config::{Bug, Fact};
use super::state::{Claim, Feed, Halt, Ledger, State, Status, Worker, Wrong};

/// Why an action does not hold, first reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A halt stands.
    Halted,
    /// The claim that it names does not stand.
    ClaimLost,
    /// A fact that it reads is claimed by someone else.
    FactClaimed,
    /// A fence stands in its way.
    FactFenced,
    /// A fact that it reads is not open.
    PreconditionFailed,
}

impl Protocol {
    /// Decides an action on a ledger: `None` where it holds.
    #[must_use]
    pub fn decide(&self, ledger: &Ledger, action: usize) -> Option<Code> {
        let again = ledger.actions[action].status == Status::Cooling;
        let wrong = self.wrong(ledger, action);
        if again && self.has(Bug::NotDecidedAgain) {
            return None;
        }
        if wrong.halted && !(again && self.has(Bug::HaltNotCheckedAtDispatch)) {
            return Some(Code::Halted);
        }
        if wrong.claim_lost && !self.has(Bug::LostClaimStillGood) {
            return Some(Code::ClaimLost);
        }
        if wrong.claimed && !(again && self.has(Bug::ClaimNotCheckedAtDispatch)) {
            return Some(Code::FactClaimed);
        }
        if Fact::ALL.into_iter().any(|fact| self.kept_out(ledger, action, fact)) {
            return Some(Code::FactFenced);
        }
        wrong.precondition.then_some(Code::PreconditionFailed)
    }

    /// What is wrong with an action at this place, apart from fences.
    fn wrong(&self, ledger: &Ledger, action: usize) -> Wrong {
        let spec = self.spec(action);
        let reads = |fact: Fact| spec.reads[fact as usize];
        let claims = self.config.claims.iter().zip(ledger.claims);
        let mut standing = claims.filter(|(_, claim)| *claim == Claim::Standing).map(|(claim, _)| claim);
        Wrong {
            precondition: Fact::ALL.into_iter().any(|fact| reads(fact) && !ledger.fact(fact).open),
            claimed: standing.any(|claim| claim.holder != action && reads(claim.fact)),
            outdated: Fact::ALL.into_iter().any(|fact| reads(fact) && self.is_held(ledger, fact)),
            claim_lost: spec.names.is_some_and(|claim| ledger.claims[claim] != Claim::Standing),
            halted: ledger.halt == Halt::Standing,
        }
    }

    /// Whether a fence of another call on a fact stands in an action's way: a writer's always, anyone's while a feed is held
    /// there, and a call's if the other sets.
    fn kept_out(&self, ledger: &Ledger, action: usize, fact: Fact) -> bool {
        let spec = self.spec(action);
        if !spec.reads[fact as usize] || (spec.call && self.has(Bug::SettersShareFence)) {
            return false;
        }
        let others = (0..ledger.actions.len()).filter(|other| *other != action);
        let mut fences = others.filter(|other| ledger.actions[*other].fenced && self.spec(*other).reads[fact as usize]);
        let is_held = self.is_held(ledger, fact) && (spec.call || !self.has(Bug::HeldFeedReliedOn));
        fences.any(|other| spec.sets_fact(fact) || is_held || (spec.call && self.spec(other).sets_fact(fact)))
    }

    /// Whether a feed of a fact waits for a fence to end.
    fn is_held(&self, ledger: &Ledger, fact: Fact) -> bool {
        ledger.feed == Feed::Held && self.config.feed.is_some_and(|(fed, _)| fed == fact)
    }

    pub(super) fn submit(&self, state: &mut State, action: usize) {
        match self.decide(&state.tip, action) {
            None => self.take_effect(state, action),
            Some(Code::FactFenced | Code::FactClaimed) if self.spec(action).waits => state.waiting.push(action),
            Some(_) => state.tip.actions[action].status = Status::Rejected,
        }
    }

    pub(super) fn dispatch(&self, state: &mut State, action: usize) {
        match self.decide(&state.tip, action) {
            None => self.take_effect(state, action),
            Some(Code::FactFenced | Code::FactClaimed) if self.spec(action).waits => state.waiting.push(action),
            Some(_) => state.tip.actions[action].status = Status::Cancelled,
        }
    }

    /// An action that holds commits, begins to cool, or is dispatched.
    fn take_effect(&self, state: &mut State, action: usize) {
        let spec = *self.spec(action);
        let (wrong, versions) = (self.wrong(&state.tip, action), state.tip.facts.map(|fact| fact.version));
        let entry = &mut state.tip.actions[action];
        if spec.cooling && entry.status == Status::New {
            entry.status = Status::Cooling;
            return;
        }
        entry.wrong = wrong;
        if spec.call {
            entry.status = Status::Dispatched;
            entry.fenced = !self.has(Bug::ForgetFence);
            entry.relied = versions;
            state.lines[action].worker = Worker::Fresh;
        } else {
            entry.status = Status::Committed;
        }
        let now = !spec.call || self.has(Bug::WriteAtDispatch);
        if let Some((fact, open)) = spec.sets.filter(|_| now) {
            state.tip.write(fact, open);
        }
    }

    /// An entry that says what became of a call.
    pub(super) fn settle(&self, state: &mut State, action: usize, outcome: Status) {
        state.lines[action].worker = Worker::Idle;
        let entry = &mut state.tip.actions[action];
        entry.status = outcome;
        if outcome == Status::InDoubt {
            entry.fenced &= !self.has(Bug::FreeFencesInDoubt);
        } else {
            entry.fenced = false;
            entry.relied = [0; 2];
            state.lines[action].waited = false;
        }
        let sets = self.spec(action).sets.filter(|_| outcome == Status::Settled && !self.has(Bug::WriteAtDispatch));
        if let Some((fact, open)) = sets {
            state.tip.write(fact, open);
        }
        // A doubt frees nothing, so no one has a turn.
        if !state.tip.actions[action].fenced {
            self.freed(state);
        }
    }

    /// Right after an entry that may have ended a fence: the held feed first, then anyone who waits, in the order of arrival.
    fn freed(&self, state: &mut State) {
        if state.tip.feed == Feed::Held && !self.has(Bug::HeldFeedForgotten) {
            self.feed(state);
        }
        if self.has(Bug::WaiterForgotten) {
            return;
        }
        for action in std::mem::take(&mut state.waiting) {
            match state.tip.actions[action].status {
                Status::Cooling => self.dispatch(state, action),
                _ => self.submit(state, action),
            }
        }
    }

    /// Anyone who has waited for long enough does not hold.
    pub(super) fn time_up(state: &mut State, action: usize) {
        state.waiting.retain(|waiting| *waiting != action);
        let status = &mut state.tip.actions[action].status;
        *status = if *status == Status::Cooling { Status::Cancelled } else { Status::Rejected };
    }

    pub(super) fn feed(&self, state: &mut State) {
        let Some((fact, open)) = self.config.feed else { return };
        let mut fences = self.config.actions.iter().zip(&state.tip.actions);
        let fenced = fences.any(|(spec, action)| action.fenced && spec.reads[fact as usize]);
        if fenced && !self.has(Bug::FeedNotHeld) {
            state.tip.feed = Feed::Held;
        } else {
            state.tip.feed = Feed::Applied;
            state.tip.write(fact, open);
        }
    }

    pub(super) fn announce(&self, state: &mut State, claim: usize) {
        let spec = self.config.claims[claim];
        let claims = self.config.claims.iter().zip(state.tip.claims).enumerate();
        let standing = claims.filter(|(_, (other, now))| *now == Claim::Standing && other.fact == spec.fact);
        let other = standing.map(|(number, (other, _))| (number, other.priority)).next();
        if let Some((other, priority)) = other {
            if priority >= spec.priority && !self.has(Bug::PriorityIgnored) {
                state.tip.claims[claim] = Claim::Refused;
                return;
            }
            state.tip.priority_broken |= priority >= spec.priority;
            state.tip.claims[other] = Claim::Ended;
        }
        state.tip.claims[claim] = Claim::Standing;
        // The holder of the new claim may have waited for the old one.
        self.freed(state);
    }

    pub(super) fn end_claim(&self, state: &mut State, claim: usize) {
        state.tip.claims[claim] = Claim::Ended;
        self.freed(state);
    }

    /// What was not durable is gone, and with it every worker. A dispatched call counts as tried, because its entry cannot say
    /// whether bytes left.
    pub(super) fn crash(&self, state: &mut State) {
        state.crashes -= 1;
        state.tip = state.durable;
        state.waiting.clear();
        for (line, action) in state.lines.iter_mut().zip(&state.durable.actions) {
            line.hang_up();
            line.waited = false;
            line.worker = match action.status {
                Status::Dispatched if self.has(Bug::RecoveryForgets) => Worker::Idle,
                Status::Dispatched if self.has(Bug::RecoveryResends) => Worker::Fresh,
                Status::Dispatched => Worker::Unknown(1),
                _ => Worker::Idle,
            };
        }
    }
}
