//! What can happen next in a state.

use super::Guard;
use super::config::Bug;
use super::state::{Held, Phase, Read, State, Write};

/// One step. The first number is that of a client or a write, the second that of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A client's read arrives at the gateway.
    Ask(usize, usize),
    /// The server answers it.
    Read(usize, usize),
    /// It is entered in the session.
    Enter(usize, usize),
    /// Its answer reaches the client.
    Deliver(usize, usize),
    /// Its answer is lost on the way.
    LoseAnswer(usize, usize),
    /// A client sends a write, on what it knows.
    Write(usize),
    /// The write arrives at the gateway.
    Arrive(usize),
    /// The gateway passes it on, and its intent is entered.
    Intend(usize),
    /// It takes its turn.
    TakeTurn(usize),
    /// A place that it rests on is read again.
    ReadAgain(usize, usize),
    /// Decided: it is sent, or refused and the difference told if that is true.
    Dispatch(usize, bool),
    /// The server does it.
    Execute(usize),
    /// The network loses its request.
    LoseRequest(usize),
    /// The server's answer reaches the worker.
    Reply(usize),
    /// What it may have changed is read once more.
    Refresh(usize),
    /// What was read is entered, and the settlement; the turn ends.
    Settle(usize),
    /// No answer came: in doubt.
    Doubt(usize),
    /// The turn of a call in doubt is given back.
    GiveBack(usize),
    /// A person finds out what became of a call in doubt.
    Resolve(usize),
    /// The result reaches the client.
    Result(usize),
    /// The result is lost on the way.
    LoseResult(usize),
    /// Someone changes a place past the gate.
    Change(usize),
    /// The gate dies, and is opened again.
    Crash,
    /// The gateway of the first client is killed, and another goes on in its session.
    Kill,
    /// The gate goes on with a read that a killed gateway had asked for. Only by mistake.
    GoOnWithRead(usize, usize),
}

const PLACES: [usize; 2] = [0, 1];

/// Whether a number is among some bits.
pub(super) fn is_in(bits: u8, number: usize) -> bool {
    bits & (1 << number) != 0
}

impl Guard {
    /// Every step that can be taken in a state.
    pub fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        for client in 0..2 {
            for place in PLACES {
                self.steps_of_read(state, client, place, steps);
            }
        }
        for number in 0..self.config.writes.len() {
            self.steps_of_gateway(state, number, steps);
            self.steps_of_worker(state, number, steps);
            self.steps_of_doubt(state, number, steps);
        }
        if state.strangers > 0 {
            steps.push(Step::Change(0));
        }
        if state.crashes > 0 {
            steps.push(Step::Crash);
        }
        if state.kills > 0 {
            steps.push(Step::Kill);
        }
    }

    fn steps_of_read(&self, state: &State, number: usize, place: usize, steps: &mut Vec<Step>) {
        let client = &state.clients[number];
        steps.extend(client.left_behind[place].map(|_| Step::GoOnWithRead(number, place)));
        match client.reads[place] {
            Read::None if client.left[place] > 0 && self.may_send(state, number) => {
                steps.push(Step::Ask(number, place));
            }
            Read::Asked(after) if self.may_pass(state, after) || self.has(Bug::ReadOvertakesWrite) => {
                steps.push(Step::Read(number, place));
            }
            Read::Answered(_) => steps.push(Step::Enter(number, place)),
            Read::Entered(..) => {
                steps.push(Step::Deliver(number, place));
                steps.extend((state.losses > 0).then_some(Step::LoseAnswer(number, place)));
            }
            Read::None | Read::Asked(_) => {}
        }
    }

    fn steps_of_gateway(&self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let write = &state.writes[number];
        match write.phase {
            Phase::New if self.may_send(state, self.config.writes[number].client) => steps.push(Step::Write(number)),
            Phase::Piped => steps.push(Step::Arrive(number)),
            Phase::Arrived if self.may_pass(state, write.after) => steps.push(Step::Intend(number)),
            _ => {}
        }
        if write.result {
            steps.push(Step::Result(number));
            steps.extend((state.losses > 0).then_some(Step::LoseResult(number)));
        }
    }

    fn steps_of_worker(&self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let write = &state.writes[number];
        let unread =
            || PLACES.into_iter().filter(|place| write.rests_on[*place].is_some() && write.reread[*place].is_none());
        match write.phase {
            Phase::Intended => {
                if self.is_free_for(state, number) {
                    steps.push(Step::TakeTurn(number));
                }
                if self.has(Bug::ReadsBeforeTurn) {
                    steps.extend(unread().map(|place| Step::ReadAgain(number, place)));
                }
            }
            Phase::Turn if unread().next().is_some() => {
                steps.extend(unread().map(|place| Step::ReadAgain(number, place)));
            }
            Phase::Turn => {
                steps.push(Step::Dispatch(number, true));
                if self.config.cuts && !self.changed(state, number).is_empty() {
                    steps.push(Step::Dispatch(number, false));
                }
            }
            Phase::Sent if write.done => steps.push(Step::Reply(number)),
            Phase::Answered => steps.push(Step::Refresh(number)),
            Phase::Refreshed => steps.push(Step::Settle(number)),
            _ => {}
        }
        if write.request {
            steps.push(Step::Execute(number));
            if self.config.doubts {
                steps.push(Step::LoseRequest(number));
            }
        }
    }

    fn steps_of_doubt(&self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let write = &state.writes[number];
        let is_gone = self.config.late || !write.request;
        match write.phase {
            Phase::Sent if self.config.doubts => steps.push(Step::Doubt(number)),
            Phase::Cut => steps.push(Step::Doubt(number)),
            Phase::InDoubt => {
                if write.turn && is_gone {
                    steps.push(Step::GiveBack(number));
                }
                if !write.request {
                    steps.push(Step::Resolve(number));
                }
            }
            _ => {}
        }
    }

    /// Whether a client sends something now.
    fn may_send(&self, state: &State, client: usize) -> bool {
        let own = |number: &usize| self.config.writes[*number].client == client;
        let is_waited_for = |write: &Write| write.is_open() && !write.left_behind;
        let waits = |write: &Write| is_waited_for(write) || write.phase == Phase::Piped || write.result;
        self.config.pipelines
            || (state.clients[client].reads == [Read::None; 2]
                && !(0..self.config.writes.len()).filter(own).any(|number| waits(&state.writes[number])))
    }

    /// Whether the writes are over that something arrived after.
    fn may_pass(&self, state: &State, after: u8) -> bool {
        (0..3).filter(|number| is_in(after, *number)).all(|number| !state.writes[number].is_open())
    }

    /// The servers that a write relies on beside the one that it calls.
    fn relies_on(&self, write: &Write) -> u8 {
        if self.has(Bug::ReliesWithoutTurn) {
            return 0;
        }
        let servers = PLACES.into_iter().filter(|place| write.rests_on[*place].is_some());
        servers.fold(0, |servers, place| servers | 1 << self.config.servers[place])
    }

    pub(super) fn conflict(&self, state: &State, one: usize, other: usize) -> bool {
        let (a, b) = (&state.writes[one], &state.writes[other]);
        let at = |number: usize| self.config.servers[self.config.writes[number].target];
        at(one) == at(other) || is_in(self.relies_on(a), at(other)) || is_in(self.relies_on(b), at(one))
    }

    fn is_free_for(&self, state: &State, number: usize) -> bool {
        let others = (0..self.config.writes.len()).filter(|other| *other != number && state.writes[*other].turn);
        others.into_iter().all(|other| !self.conflict(state, number, other))
    }

    /// What a write rests on of a place: that of the version which its intent noted, as far as it is known that the client knew it.
    pub(super) fn rested_on(&self, held: Held, version: u8, unsure: u8) -> Option<u8> {
        if self.has(Bug::RestsOnLatest) {
            return Some(held.value);
        }
        match (held.version - version, unsure) {
            (0, 1) if held.before.is_none() => Some(held.value),
            // Each version that the client may have known last held the same.
            (since, 0 | 1) if since + unsure <= held.same => Some(held.value),
            (1, 0) => held.before,
            _ => None,
        }
    }

    /// Whether the client of a write is known to have what its session has of a place, so that a difference can be told.
    pub(super) fn is_known(&self, write: &Write, place: usize, held: Held) -> bool {
        // What rests on nothing of this place is told from what the session has.
        let is_sure = write.unsure[place] == 0 || held.before == Some(held.value);
        let rested_on = |version| is_sure && self.rested_on(held, version, write.unsure[place]) == Some(held.value);
        self.has(Bug::TellsFromUnknown) || write.rests_on[place].is_none_or(rested_on)
    }

    /// Whether a call is in doubt that may still come in between, because its turn was given back.
    pub(super) fn is_marked(&self, state: &State, number: usize) -> bool {
        let others = (0..self.config.writes.len()).filter(|other| *other != number);
        others.into_iter().any(|other| {
            let write = &state.writes[other];
            write.phase == Phase::InDoubt && !write.turn && self.conflict(state, number, other)
        })
    }

    /// The places that a write rests on and that read differently now.
    pub(super) fn changed(&self, state: &State, number: usize) -> Vec<usize> {
        let write = &state.writes[number];
        if self.has(Bug::NotCompared) {
            return Vec::new();
        }
        let session = self.session(self.config.writes[number].client);
        let differs = |place: &usize| match (write.rests_on[*place], state.sessions[session][*place]) {
            (Some(version), Some(held)) => self.rested_on(held, version, write.unsure[*place]) != write.reread[*place],
            _ => false,
        };
        PLACES.into_iter().filter(differs).collect()
    }
}
