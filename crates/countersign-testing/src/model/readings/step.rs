//! What can happen next in a state, and the state after it.

use super::config::Bug;
use super::state::{Held, Phase, Read, State, Write};
use super::{Guard, Spec};

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
    }

    fn steps_of_read(&self, state: &State, number: usize, place: usize, steps: &mut Vec<Step>) {
        let client = &state.clients[number];
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
        let waits = |write: &Write| write.is_open() || write.phase == Phase::Piped || write.result;
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

    fn conflict(&self, state: &State, one: usize, other: usize) -> bool {
        let (a, b) = (&state.writes[one], &state.writes[other]);
        let at = |number: usize| self.config.servers[self.config.writes[number].target];
        at(one) == at(other) || is_in(self.relies_on(a), at(other)) || is_in(self.relies_on(b), at(one))
    }

    fn is_free_for(&self, state: &State, number: usize) -> bool {
        let others = (0..self.config.writes.len()).filter(|other| *other != number && state.writes[*other].turn);
        others.into_iter().all(|other| !self.conflict(state, number, other))
    }

    /// What a write rests on of a place: that of the version which its intent noted, as far as it is known that the client knew it.
    fn rested_on(&self, held: Held, version: u8, unsure: u8) -> Option<u8> {
        if self.has(Bug::RestsOnLatest) {
            return Some(held.value);
        }
        match (held.version - version, unsure) {
            (0, 0) => Some(held.value),
            (0, 1) => Some(held.value).filter(|value| held.before.is_none_or(|before| before == *value)),
            (1, 0) => held.before,
            _ => None,
        }
    }

    /// Whether the client of a write is known to have what its session has of a place, so that a difference can be told.
    fn is_known(&self, write: &Write, place: usize, held: Held) -> bool {
        // What rests on nothing of this place is told from what the session has.
        let is_sure = write.unsure[place] == 0 || held.before == Some(held.value);
        let rested_on = |version| is_sure && self.rested_on(held, version, write.unsure[place]) == Some(held.value);
        self.has(Bug::TellsFromUnknown) || write.rests_on[place].is_none_or(rested_on)
    }

    /// Whether a call is in doubt that may still come in between, because its turn was given back.
    fn is_marked(&self, state: &State, number: usize) -> bool {
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

    /// The state after a step. The step must be one of [`Self::steps`].
    #[must_use]
    pub fn after(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Ask(client, place) => {
                let open = self.open_writes(state, client);
                let client = &mut next.clients[client];
                client.left[place] -= 1;
                (client.reads[place], client.lost_before[place]) = (Read::Asked(open), client.lost[place]);
            }
            Step::Read(client, place) => next.clients[client].reads[place] = Read::Answered(state.server[place]),
            Step::Enter(client, place) => {
                let Read::Answered(value) = state.clients[client].reads[place] else { return next };
                let version = next.keep(self.session(client), place, value);
                next.clients[client].reads[place] = Read::Entered(version, value);
            }
            Step::Deliver(client, place) => {
                let Read::Entered(version, value) = state.clients[client].reads[place] else { return next };
                let client = &mut next.clients[client];
                client.learn(place, version, value);
                if self.has(Bug::DeliveryClearsLaterLosses) {
                    client.lost_before[place] = client.lost[place];
                }
                client.end_read(place, true);
            }
            Step::LoseAnswer(client, place) => {
                next.losses -= 1;
                next.clients[client].lost[place] += 1;
                next.clients[client].end_read(place, false);
            }
            Step::Write(number) => {
                let Spec { client, counts, .. } = self.config.writes[number];
                let knows = state.clients[client].knows;
                next.writes[number].basis =
                    PLACES.map(|place| knows[place].filter(|_| counts[place]).map(|(_, value)| value));
                next.writes[number].phase = Phase::Piped;
                if !self.config.slow_pipe {
                    self.arrive(&mut next, number);
                }
            }
            Step::Arrive(number) => self.arrive(&mut next, number),
            Step::Intend(number) => self.intend(&mut next, number),
            Step::TakeTurn(number) => {
                let is_marked_now = !matches!(self.config.bug, Some(Bug::MarkedAtDispatch | Bug::NotMarkedBeside));
                let beside = is_marked_now && self.is_marked(state, number);
                let write = &mut next.writes[number];
                (write.turn, write.phase, write.beside) = (true, Phase::Turn, beside);
            }
            Step::ReadAgain(number, place) => next.writes[number].reread[place] = Some(state.server[place]),
            Step::Dispatch(number, is_telling) => self.dispatch(&mut next, number, is_telling),
            Step::Execute(number) => self.execute(&mut next, number),
            Step::LoseRequest(number) => next.writes[number].request = false,
            Step::Reply(number) => next.writes[number].phase = Phase::Answered,
            Step::Refresh(number) => self.refresh(&mut next, number),
            Step::Settle(number) => self.settle(&mut next, number),
            Step::Doubt(number) => self.doubt(&mut next, number),
            Step::GiveBack(number) => next.writes[number].turn = false,
            Step::Resolve(number) => {
                let write = &mut next.writes[number];
                write.phase = if write.done { Phase::Settled } else { Phase::Failed };
                write.turn = false;
            }
            Step::Result(number) => {
                let client = &mut next.clients[self.config.writes[number].client];
                for place in PLACES {
                    // A difference says what there is only to one who knows what it differs from.
                    if let Some((version, value, from)) = state.writes[number].told[place]
                        && client.knows[place].is_some_and(|(_, known)| known == from)
                    {
                        client.learn(place, version, value);
                    }
                }
                next.writes[number].result = false;
            }
            Step::LoseResult(number) => {
                next.losses -= 1;
                next.writes[number].result = false;
                self.lose_all(&mut next, self.config.writes[number].client);
            }
            Step::Change(place) => {
                next.strangers -= 1;
                next.server[place] = 10 + next.strangers;
                for write in next.writes.iter_mut().filter(|write| write.is_open() || write.request) {
                    write.touched[place] |= write.reread[place].is_some();
                }
            }
            Step::Crash => self.crash(&mut next),
        }
        next
    }

    /// The writes of a client that are not over, as bits.
    fn open_writes(&self, state: &State, client: usize) -> u8 {
        let own = (0..self.config.writes.len()).filter(|number| self.config.writes[*number].client == client);
        own.filter(|number| state.writes[*number].is_open()).fold(0, |bits, number| bits | 1 << number)
    }

    fn arrive(&self, state: &mut State, number: usize) {
        let client = self.config.writes[number].client;
        let (after, clients) = (self.open_writes(state, client), state.clients);
        let own = (0..self.config.writes.len()).filter(|other| self.config.writes[*other].client == client);
        let untold = own.filter(|other| state.writes[*other].result).fold(after, |bits, other| bits | 1 << other);
        let write = &mut state.writes[number];
        (write.after, write.untold, write.phase) = (after, untold, Phase::Arrived);
        write.unsure = PLACES.map(|place| self.unsure(&clients[client], place));
    }

    /// How many answers about a place may not have reached a client.
    fn unsure(&self, client: &super::Client, place: usize) -> u8 {
        let on_the_way = u8::from(client.reads[place] != Read::None);
        let lost = if self.has(Bug::CountsLostAnswers) { 0 } else { client.lost[place] };
        (on_the_way + lost).min(2)
    }

    fn intend(&self, state: &mut State, number: usize) {
        let Spec { client, counts, .. } = self.config.writes[number];
        let session = state.sessions[self.session(client)];
        let told = |place: usize| {
            let untold = (0..3).filter(|other| is_in(state.writes[number].untold, *other));
            untold.filter(|other| state.writes[*other].told[place].is_some()).count()
        };
        let told = if self.has(Bug::CountsUndeliveredTelling) { [0; 2] } else { PLACES.map(told) };
        let now = PLACES.map(|place| self.unsure(&state.clients[client], place));
        let write = &mut state.writes[number];
        if self.has(Bug::CountsLateDelivery) {
            write.unsure = now;
        }
        write.unsure = PLACES.map(|place| (usize::from(write.unsure[place]) + told[place]).min(2) as u8);
        write.rests_on = PLACES.map(|place| session[place].filter(|_| counts[place]).map(|held| held.version));
        write.phase = Phase::Intended;
    }

    fn dispatch(&self, state: &mut State, number: usize, is_telling: bool) {
        let changed = self.changed(state, number);
        if changed.is_empty() {
            let is_beside = self.has(Bug::MarkedAtDispatch) && self.is_marked(state, number);
            let write = &mut state.writes[number];
            (write.phase, write.request) = (Phase::Sent, true);
            write.beside |= is_beside;
            return;
        }
        let session = self.session(self.config.writes[number].client);
        for place in changed {
            let (Some(value), Some(held)) = (state.writes[number].reread[place], state.sessions[session][place]) else {
                continue;
            };
            if is_telling && self.is_known(&state.writes[number], place, held) {
                let version = state.keep(session, place, value);
                state.writes[number].told[place] = Some((version, value, held.value));
            } else if self.has(Bug::CutCountsAsTold) {
                state.keep(session, place, value);
            }
        }
        let write = &mut state.writes[number];
        (write.phase, write.turn, write.result) = (Phase::Refused, false, true);
    }

    fn execute(&self, state: &mut State, number: usize) {
        let (server, write) = (state.server, &mut state.writes[number]);
        let is_stale =
            |place: usize| write.basis[place].is_some_and(|basis| basis != server[place]) && !write.touched[place];
        write.was_late = write.phase == Phase::InDoubt && !write.turn;
        write.stale = !write.was_late && !write.beside && PLACES.into_iter().any(is_stale);
        (write.request, write.done) = (false, true);
        state.server[self.config.writes[number].target] = 1 + number as u8;
    }

    fn refresh(&self, state: &mut State, number: usize) {
        let session = state.sessions[self.session(self.config.writes[number].client)];
        let server = state.server;
        let write = &mut state.writes[number];
        let is_read = |place: usize| match self.config.bug {
            Some(Bug::RefreshesUncompared) => session[place].is_some(),
            Some(Bug::NotRefreshed) => false,
            _ => write.reread[place].is_some(),
        };
        write.refreshed = PLACES.map(|place| is_read(place).then_some(server[place]));
        write.phase = Phase::Refreshed;
    }

    fn settle(&self, state: &mut State, number: usize) {
        let session = self.session(self.config.writes[number].client);
        for place in PLACES {
            let write = &state.writes[number];
            let (Some(value), Some(held)) = (write.refreshed[place], state.sessions[session][place]) else { continue };
            if write.reread[place].unwrap_or(held.value) == value || !self.is_known(write, place, held) {
                continue;
            }
            let is_own = value == 1 + number as u8 || write.touched[place] || write.beside;
            let version = state.keep(session, place, value);
            let write = &mut state.writes[number];
            write.told[place] = Some((version, value, held.value));
            write.claims_others |= !is_own;
        }
        let write = &mut state.writes[number];
        (write.phase, write.turn, write.result) = (Phase::Settled, false, true);
    }

    fn doubt(&self, state: &mut State, number: usize) {
        let write = &mut state.writes[number];
        // The result of what a crash interrupted went with the crash.
        write.result |= write.phase == Phase::Sent;
        write.phase = Phase::InDoubt;
        if self.has(Bug::GivesTurnBackAtOnce) {
            write.turn = false;
        }
    }

    /// What would have told of any place did not arrive.
    fn lose_all(&self, state: &mut State, client: usize) {
        for place in PLACES {
            if state.sessions[self.session(client)][place].is_some() && !self.has(Bug::CountsLostAnswers) {
                state.clients[client].lost[place] += 1;
            }
        }
    }

    /// The gateway lives on: what it waited for ends in an error. What the servers and the network do is not the gate's.
    fn crash(&self, state: &mut State) {
        state.crashes -= 1;
        for client in 0..2 {
            for place in PLACES {
                let client = &mut state.clients[client];
                if client.reads[place] != Read::None {
                    client.lost[place] += u8::from(!self.has(Bug::CountsErrors));
                    client.end_read(place, self.has(Bug::CountsErrors));
                }
            }
        }
        for number in 0..self.config.writes.len() {
            let write = &mut state.writes[number];
            if !write.is_open() {
                continue;
            }
            match write.phase {
                Phase::Sent | Phase::Answered | Phase::Refreshed => {
                    write.phase = Phase::Cut;
                    write.turn &= !self.has(Bug::RestartForgetsTurns);
                }
                Phase::Cut => {}
                // It was waiting: its client was told nothing, and it does not run by itself.
                _ => (write.phase, write.turn) = (Phase::Failed, false),
            }
            self.lose_all(state, self.config.writes[number].client);
        }
    }
}
