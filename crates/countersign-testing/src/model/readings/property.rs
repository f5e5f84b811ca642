//! What must hold in every state, and what must be met somewhere so that this means something.

use super::Guard;
use super::config::Bug;
use super::state::{Phase, Read, State, Write};
use stateright::Property;

type Rule = Property<Guard>;

/// The promise: what a client knew of what a write rests on is what is there when the server does it. What excuses: a change past the
/// gate after it was read again, a mark that says that a call in doubt may come in between, and being that call.
pub const FRESH: &str = "no write is done on a reading that has changed";
/// The same from outside, by what was read and what is there in the end.
pub const SERIAL: &str = "some order of the writes explains what each rested on and what is there";
/// R6: an agent can tell its own changes from those of others.
pub const OWN: &str = "what a result tells as the write's own change was changed by it";
/// R2: what counts was told, and what was told counts.
pub const TOLD: &str = "what counts as read is what the client was told last";
/// R4 and R5.
pub const IN_TURN: &str = "nothing that arrives in time is done outside its turn";
/// M6: an agent alone is never in its own way.
pub const ALONE: &str = "an agent that no one disturbs is never refused";
/// Nothing hangs.
pub const ENDS: &str = "where nothing can happen any more, every write is over";

impl Guard {
    /// The properties of this configuration: all that must always hold, and the states that it must reach.
    pub(super) fn expected(&self) -> Vec<Rule> {
        let mut all = vec![
            Rule::always(FRESH, |_, state| state.writes.iter().all(|write| !write.stale)),
            Rule::always(SERIAL, Self::is_serial),
            Rule::always(OWN, |_, state| state.writes.iter().all(|write| !write.claims_others)),
            Rule::always(TOLD, |model, state| (0..2).all(|client| model.is_told(state, client))),
            Rule::always(IN_TURN, |model, state| model.config.late || state.writes.iter().all(|write| !write.was_late)),
            Rule::always(ALONE, |model, state| {
                !model.config.is_quiet() || !any(state, |it| it.phase == Phase::Refused)
            }),
            Rule::always(ENDS, Self::has_ended),
        ];
        all.extend(self.sometimes());
        all
    }

    fn sometimes(&self) -> Vec<Rule> {
        let config = &self.config;
        let mut all = vec![
            Rule::sometimes("a write is settled that rests on a reading", |_, state| {
                any(state, |it| it.phase == Phase::Settled && it.basis != [None; 2])
            }),
            Rule::sometimes("a result tells the write's own change", |_, state| {
                any(state, |it| it.phase == Phase::Settled && it.told != [None; 2])
            }),
        ];
        let mut meets = |applies: bool, name, condition: fn(&Self, &State) -> bool| {
            all.extend(applies.then(|| Rule::sometimes(name, condition)));
        };
        meets(!config.is_quiet(), "a write is refused, and told why", |_, state| {
            any(state, |it| it.phase == Phase::Refused && it.told != [None; 2])
        });
        meets(!config.is_quiet(), "a write is settled by a client that was refused before", |_, state| {
            any(state, |it| it.phase == Phase::Refused) && any(state, |it| it.phase == Phase::Settled)
        });
        meets(config.pipelines, "a write arrives while an answer is on its way", |_, state| {
            any(state, |it| it.phase == Phase::Arrived && it.unsure != [0; 2])
        });
        meets(config.losses > 0, "an answer is lost", |_, state| state.clients.iter().any(|it| it.lost != [0; 2]));
        meets(config.doubts, "a call in doubt is done", |_, state| {
            any(state, |it| it.phase == Phase::InDoubt && it.done)
        });
        meets(config.late, "a write is done beside a call in doubt", |_, state| any(state, |it| it.beside && it.done));
        meets(config.late, "a call is done when its turn was given back", |_, state| any(state, |it| it.was_late));
        meets(config.strangers > 0, "someone comes in between a read and the call", |_, state| {
            any(state, |it| it.done && it.touched != [false; 2])
        });
        meets(config.kills > 0, "a write is settled whose gateway was killed", |_, state| {
            any(state, |it| it.phase == Phase::Settled && it.left_behind)
        });
        meets(config.kills > 0, "a write is settled by a gateway that goes on in a session", |_, state| {
            state.kills == 0
                && any(state, |it| it.phase == Phase::Settled && !it.left_behind && it.rests_on != [None; 2])
        });
        meets(config.crashes > 0, "a crash leaves a call of which no one knows", |_, state| {
            any(state, |it| it.phase == Phase::Cut)
        });
        all
    }

    /// Tries every order of what was done. Only where nothing came past the gate or outside its turn.
    fn is_serial(&self, state: &State) -> bool {
        let disturbs = |write: &Write| write.was_late || write.beside;
        if self.config.strangers > 0 || any(state, disturbs) {
            return true;
        }
        let done: Vec<usize> = (0..self.config.writes.len()).filter(|number| state.writes[*number].done).collect();
        self.explains(state, [0; 2], &done)
    }

    fn explains(&self, state: &State, now: [u8; 2], left: &[usize]) -> bool {
        if left.is_empty() {
            return now == state.server;
        }
        left.iter().any(|number| {
            let basis = state.writes[*number].basis;
            let is_as_read = (0..2).all(|place| basis[place].is_none_or(|basis| basis == now[place]));
            let mut next = now;
            next[self.config.writes[*number].target] = 1 + *number as u8;
            let rest: Vec<usize> = left.iter().copied().filter(|other| other != number).collect();
            is_as_read && self.explains(state, next, &rest)
        })
    }

    /// Whether a client for which nothing is under way knows what its session has, but for what was lost.
    fn is_told(&self, state: &State, number: usize) -> bool {
        let client = &state.clients[number];
        let own = (0..self.config.writes.len()).filter(|write| self.config.writes[*write].client == number);
        let is_busy = |write: &Write| write.is_open() || write.result;
        if client.reads != [Read::None; 2] || own.into_iter().any(|write| is_busy(&state.writes[write])) {
            return true;
        }
        let session = state.sessions[self.session(number)];
        let held = |place: usize| session[place].map(|held| (held.version, held.value));
        (0..2).all(|place| client.lost[place] > 0 || held(place) == client.knows[place])
    }

    fn has_ended(&self, state: &State) -> bool {
        let is_over = |number: usize| {
            let write = &state.writes[number];
            matches!(write.phase, Phase::Settled | Phase::Failed | Phase::Refused) && !write.turn && !write.result
        };
        let mut steps = Vec::new();
        self.steps(state, &mut steps);
        !steps.is_empty() || (0..self.config.writes.len()).all(is_over)
    }
}

fn any(state: &State, is_met: impl Fn(&Write) -> bool) -> bool {
    state.writes.iter().any(is_met)
}

impl Bug {
    /// The properties that it is meant to break; one of them must be found broken.
    #[must_use]
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::RefreshesUncompared => &[OWN],
            Self::GivesTurnBackAtOnce => &[IN_TURN],
            Self::NotRefreshed => &[ALONE],
            Self::CutCountsAsTold => &[TOLD],
            Self::CountsLateDelivery
            | Self::MarksReadsLate
            | Self::EntersReadsOfTheKilled
            | Self::IntendsWritesOfTheKilled
            | Self::FollowsAsDelivered
            | Self::FollowsWithoutCalls
            | Self::ReadOvertakesWrite
            | Self::CountsUndeliveredTelling
            | Self::CountsLostAnswers
            | Self::CountsErrors
            | Self::DeliveryClearsLaterLosses
            | Self::SharedPool
            | Self::NotMarkedBeside
            | Self::MarkedAtDispatch
            | Self::NotCompared
            | Self::ReadsBeforeTurn
            | Self::ReliesWithoutTurn
            | Self::RestartForgetsTurns
            | Self::RestsOnLatest
            | Self::TellsFromUnknown => &[FRESH],
        }
    }
}
