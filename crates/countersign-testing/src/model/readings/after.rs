//! The state after a step.

use super::config::Bug;
use super::state::{Phase, Read, State, Write};
use super::step::is_in;
use super::{Client, Guard, Spec, Step};

const PLACES: [usize; 2] = [0, 1];

impl Guard {
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
            Step::Kill => self.kill(&mut next),
            Step::GoOnWithRead(client, place) => self.go_on_with_read(&mut next, client, place),
        }
        next
    }

    /// The writes of a client that are not over, as bits.
    fn open_writes(&self, state: &State, client: usize) -> u8 {
        let own = (0..self.config.writes.len()).filter(|number| self.config.writes[*number].client == client);
        let is_known = |write: &Write| write.is_open() && !write.left_behind;
        own.filter(|number| is_known(&state.writes[*number])).fold(0, |bits, number| bits | 1 << number)
    }

    fn arrive(&self, state: &mut State, number: usize) {
        let client = self.config.writes[number].client;
        let (after, clients) = (self.open_writes(state, client), state.clients);
        let own = (0..self.config.writes.len()).filter(|other| self.config.writes[*other].client == client);
        let untold = own.filter(|other| state.writes[*other].result).fold(after, |bits, other| bits | 1 << other);
        let is_unknown = self.has_left_behind(state, client);
        let write = &mut state.writes[number];
        (write.after, write.untold, write.phase) = (after, untold, Phase::Arrived);
        // What a call under way changes may be told to no one.
        write.unsure = PLACES.map(|place| if is_unknown { 2 } else { self.unsure(&clients[client], place) });
    }

    /// How many answers about a place may not have reached a client.
    fn unsure(&self, client: &Client, place: usize) -> u8 {
        let on_the_way = u8::from(match client.reads[place] {
            Read::None => false,
            Read::Asked(_) => !self.has(Bug::MarksReadsLate),
            Read::Answered(_) | Read::Entered(..) => true,
        });
        let lost = if self.has(Bug::CountsLostAnswers) { 0 } else { client.lost[place] };
        (on_the_way + lost).min(2)
    }

    /// Whether a call is under way that a gateway asked for which was killed.
    fn has_left_behind(&self, state: &State, client: usize) -> bool {
        let own = (0..self.config.writes.len()).filter(|number| self.config.writes[*number].client == client);
        let mut writes = own.map(|number| &state.writes[number]);
        !self.has(Bug::FollowsWithoutCalls) && writes.any(|write| write.left_behind && write.is_open())
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
        (write.phase, write.turn) = (Phase::Refused, false);
        self.tell(state, number);
    }

    /// The result of a write goes to the gateway that asked for it.
    fn tell(&self, state: &mut State, number: usize) {
        let write = &mut state.writes[number];
        write.result = !write.left_behind;
        if write.left_behind && !self.has(Bug::FollowsWithoutCalls) {
            self.lose_all(state, self.config.writes[number].client);
        }
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
        (write.phase, write.turn) = (Phase::Settled, false);
        self.tell(state, number);
    }

    fn doubt(&self, state: &mut State, number: usize) {
        let write = &mut state.writes[number];
        // The result of what a crash interrupted went with the crash.
        write.result |= write.phase == Phase::Sent && !write.left_behind;
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

    /// The gateway of the first client is gone, with all that it knew. The one that its client starts goes on in the session: it does not
    /// know what had arrived, and what the first had asked for and the gate has not entered is refused there.
    fn kill(&self, state: &mut State) {
        state.kills -= 1;
        let session = state.sessions[self.session(0)];
        for place in PLACES {
            let client = &mut state.clients[0];
            if self.has(Bug::EntersReadsOfTheKilled)
                && matches!(client.reads[place], Read::Asked(_) | Read::Answered(_))
            {
                client.left_behind[place] = Some(client.reads[place]);
            }
            client.end_read(place, false);
            client.lost[place] =
                if self.has(Bug::FollowsAsDelivered) { 0 } else { 2 * u8::from(session[place].is_some()) };
        }
        let goes_on = self.has(Bug::IntendsWritesOfTheKilled);
        for number in (0..self.config.writes.len()).filter(|number| self.config.writes[*number].client == 0) {
            let write = &mut state.writes[number];
            match write.phase {
                Phase::New => continue,
                Phase::Piped => write.phase = Phase::Failed,
                Phase::Arrived if !goes_on => write.phase = Phase::Failed,
                _ => {}
            }
            (write.result, write.left_behind) = (false, true);
        }
    }

    fn go_on_with_read(&self, state: &mut State, client: usize, place: usize) {
        let behind = state.clients[client].left_behind[place];
        state.clients[client].left_behind[place] = match behind {
            Some(Read::Asked(_)) => Some(Read::Answered(state.server[place])),
            Some(Read::Answered(value)) => {
                state.keep(self.session(client), place, value);
                None
            }
            _ => None,
        };
    }
}
