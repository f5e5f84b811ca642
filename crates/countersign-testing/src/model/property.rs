//! What must hold in every state, and what must be met somewhere so that this means something.

use super::config::{Bug, Fact, Operator};
use super::state::{Action, Claim, Feed, State, Status, Worker};
use super::{Code, Protocol};
use stateright::Property;

type Rule = Property<Protocol>;

/// I1: whatever the outside did, a durable dispatch stands for it, and its preconditions held at that place.
pub const I1_DISPATCHED: &str = "I1: no effect outside without a durable dispatch";
/// I1: whatever was committed or dispatched held at its own place.
pub const I1_HELD: &str = "I1: preconditions held at the place of the entry";
/// I1 and I5 together, seen from outside.
pub const I1_JUSTIFIED: &str = "I1: when the outside does it, what it was decided on still stands";
/// I5, the steady half.
pub const I5_STEADY: &str = "I5: a fact under a steady fence changes only by its own settlement";
/// I5, the changing half.
pub const I5_CHANGING: &str = "I5: a fact under somebody else's claim is not relied on";
/// I5: a feed that is held has announced itself.
pub const I5_FED: &str = "I5: a fact is not relied on while a feed of it is held";
/// I6.
pub const I6_ONCE: &str = "I6: the outside does it at most once";
/// Two calls that set one fact.
pub const SETTERS: &str = "a call that sets a fact is alone in flight on it";
/// What `settled` says is true.
pub const SETTLED: &str = "settled means that the outside did it";
/// What `failed` says is true, now and later.
pub const FAILED: &str = "failed means that the outside never does it";
/// Fencing tokens.
pub const LATE_WRITE: &str = "a late write under a lost claim is refused";
/// Priorities.
pub const PRIORITY: &str = "a claim gives way to a higher one only";
/// Halts, at the sequencer.
pub const HALT_ENTRY: &str = "nothing takes effect after a halt and before its resume";
/// Halts, at the worker.
pub const HALT_BYTE: &str = "no first byte leaves under a durable halt";
/// No one is left waiting for nothing.
pub const WAITING: &str = "whoever waits is blocked";
/// Nothing hangs.
pub const ENDS: &str = "where nothing can happen any more, everything has ended";

impl Protocol {
    /// The properties of this configuration: all that must always hold, and the states that it must reach.
    pub(super) fn expected(&self) -> Vec<Rule> {
        let mut all = always();
        all.extend(self.sometimes());
        all
    }

    fn sometimes(&self) -> Vec<Rule> {
        let config = &self.config;
        let any = |what: fn(&super::Spec) -> bool| config.actions.iter().any(what);
        let mut all = vec![
            Rule::sometimes("a call is settled", |_, state| any_status(state, Status::Settled)),
            Rule::sometimes("a call fails", |_, state| any_status(state, Status::Failed)),
            Rule::sometimes("a call is in doubt", |_, state| any_status(state, Status::InDoubt)),
            Rule::sometimes("the outside did it and the gate does not know", |_, state| {
                each(state).any(|(action, number)| action.status == Status::InDoubt && state.outside[number].did > 0)
            }),
            Rule::sometimes("a request is still under way when its call is in doubt", |_, state| {
                each(state).any(|(action, number)| action.status == Status::InDoubt && state.lines[number].late > 0)
            }),
        ];
        let mut meets = |applies: bool, name, condition: fn(&Self, &State) -> bool| {
            all.extend(applies.then(|| Rule::sometimes(name, condition)));
        };
        meets(config.crashes > 0, "a crash leaves a dispatched call", |model, state| {
            let recovered = |line: &super::Line| line.worker == Worker::Unknown(1);
            state.crashes < model.config.crashes && state.lines.iter().any(recovered)
        });
        meets(any(|spec| spec.cooling), "a call is cancelled while it cools", |_, state| {
            any_status(state, Status::Cancelled)
        });
        meets(any(|spec| spec.idempotent), "two requests of one call are under way", |_, state| {
            state.lines.iter().any(|line| line.request && line.late > 0)
        });
        meets(any(|spec| spec.waits), "somebody waits", |_, state| !state.waiting.is_empty());
        meets(config.feed.is_some(), "a feed is held", |_, state| state.tip.feed == Feed::Held);
        meets(config.halt, "an action is halted", |model, state| stopped(model, state, Code::Halted));
        meets(!config.claims.is_empty(), "a claim stands in the way", |model, state| {
            stopped(model, state, Code::FactClaimed)
        });
        meets(any(|spec| spec.names.is_some()), "a late write meets its lost claim", |model, state| {
            stopped(model, state, Code::ClaimLost)
        });
        let reads_shared = |fact: Fact| config.actions.iter().filter(|spec| spec.reads[fact as usize]).count() > 1;
        let fences_meet = any(|spec| spec.call) && any(|spec| spec.sets.is_some()) && reads_shared(Fact::A);
        meets(fences_meet, "a fence stands in the way", |model, state| stopped(model, state, Code::FactFenced));
        all
    }

    /// Whether a call that is in doubt stays so forever, because no one is there who could find out.
    fn stays_in_doubt(&self, number: usize) -> bool {
        self.config.operator == Operator::Away && !self.spec(number).probe
    }

    fn has_ended(&self, state: &State) -> bool {
        let ended = |(action, number): (&Action, usize)| match action.status {
            Status::New | Status::Cooling | Status::Dispatched => false,
            Status::InDoubt => self.stays_in_doubt(number),
            Status::Rejected | Status::Committed | Status::Cancelled | Status::Settled | Status::Failed => true,
        };
        let feed = self.config.feed.is_none() || state.tip.feed == Feed::Applied;
        each(state).all(ended) && feed && state.waiting.is_empty() && state.tip == state.durable
    }
}

fn always() -> Vec<Rule> {
    vec![
        Rule::always(I1_DISPATCHED, |_, state| {
            let mut outside = state.outside.iter().zip(&state.durable.actions);
            outside.all(|(outside, action)| outside.did == 0 || action.status.was_dispatched())
        }),
        Rule::always(I1_HELD, |_, state| each(state).all(|(action, _)| !action.wrong.precondition)),
        Rule::always(I1_JUSTIFIED, |_, state| state.outside.iter().all(|outside| !outside.unjustified)),
        Rule::always(I5_STEADY, |model, state| {
            each(state).all(|(action, number)| !action.status.in_flight() || model.stands(state, number))
        }),
        Rule::always(I5_CHANGING, |_, state| each(state).all(|(action, _)| !action.wrong.claimed)),
        Rule::always(I5_FED, |_, state| each(state).all(|(action, _)| !action.wrong.outdated)),
        Rule::always(I6_ONCE, |_, state| state.outside.iter().all(|outside| outside.did <= 1)),
        Rule::always(SETTERS, setters_are_alone),
        Rule::always(SETTLED, |_, state| {
            each(state).all(|(action, number)| action.status != Status::Settled || state.outside[number].did > 0)
        }),
        Rule::always(FAILED, |_, state| {
            each(state).all(|(action, number)| action.status != Status::Failed || state.outside[number].did == 0)
        }),
        Rule::always(LATE_WRITE, |_, state| each(state).all(|(action, _)| !action.wrong.claim_lost)),
        Rule::always(PRIORITY, |_, state| !state.tip.priority_broken),
        Rule::always(HALT_ENTRY, |_, state| each(state).all(|(action, _)| !action.wrong.halted)),
        Rule::always(HALT_BYTE, |_, state| !state.sent_under_halt),
        Rule::always(WAITING, |model, state| {
            state.waiting.iter().all(|action| model.decide(&state.tip, *action).is_some())
        }),
        Rule::always(ENDS, |model, state| {
            let mut steps = Vec::new();
            model.has_ended(state) || {
                model.steps(state, &mut steps);
                !steps.is_empty()
            }
        }),
    ]
}

fn each(state: &State) -> impl Iterator<Item = (&Action, usize)> {
    state.tip.actions.iter().zip(0..)
}

fn any_status(state: &State, status: Status) -> bool {
    each(state).any(|(action, _)| action.status == status)
}

fn setters_are_alone(model: &Protocol, state: &State) -> bool {
    Fact::ALL.into_iter().all(|fact| {
        let calls = each(state)
            .filter(|(action, number)| action.status.in_flight() && model.spec(*number).reads[fact as usize]);
        let (count, sets) = calls
            .fold((0, false), |(count, sets), (_, number)| (count + 1, sets || model.spec(number).sets_fact(fact)));
        count <= 1 || !sets
    })
}

/// Whether someone who could be decided now would be stopped for this reason.
fn stopped(model: &Protocol, state: &State, code: Code) -> bool {
    each(state).any(|(action, number)| {
        let named = model.spec(number).names.is_none_or(|claim| state.durable.claims[claim] != Claim::New);
        let undecided = matches!(action.status, Status::New | Status::Cooling) && named;
        undecided && model.decide(&state.tip, number) == Some(code)
    })
}

impl Bug {
    /// The properties of which it breaks at least one, in the scenario that it is planted in.
    #[must_use]
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::ForgetFence | Self::SettersShareFence | Self::FreeFencesInDoubt => {
                &[I1_JUSTIFIED, I5_STEADY, SETTERS]
            }
            Self::FeedNotHeld | Self::WriteAtDispatch => &[I5_STEADY],
            Self::HeldFeedReliedOn => &[I5_FED],
            Self::SendBeforeDurable => &[I1_DISPATCHED],
            Self::NotDecidedAgain => &[I1_HELD],
            Self::ClaimNotCheckedAtDispatch => &[I5_CHANGING],
            Self::HaltNotCheckedAtDispatch => &[HALT_ENTRY],
            Self::HaltNotSeenByWorker => &[HALT_BYTE],
            Self::RetryNonIdempotent | Self::FreshKey | Self::RecoveryResends => &[I6_ONCE],
            Self::HaltedRetryFails | Self::RefusedRetryFails | Self::UnknownIsFailed | Self::AbsentAtOnce => &[FAILED],
            Self::UnknownIsSettled => &[SETTLED],
            Self::HeldFeedForgotten => &[ENDS, I5_FED],
            Self::RecoveryForgets => &[ENDS],
            Self::LostClaimStillGood => &[LATE_WRITE],
            Self::PriorityIgnored => &[PRIORITY],
            Self::WaiterForgotten => &[WAITING],
        }
    }
}
