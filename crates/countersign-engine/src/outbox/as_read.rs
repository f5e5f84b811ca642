//! Calls that rest on readings: take the turn, read again, have it decided, call, read once more what the call may have changed,
//! settle; all on one thread, which is started when it is the call's turn, and holds the turn from the first to the last.

mod turn;

use super::panics::{attempting, reading};
use super::run::{Judging, Work};
use super::turns::Turn;
use super::{Adapter, Attempt, Inner, Job, LATE_AFTER, ToolAnswer};
use crate::request::{Answer, DispatchAsRead, Refusal, Request, Settlement};
use countersign_core::call::{EffectId, Evidence, Found, FoundCode, Measured, Outcome};
use countersign_core::decide::{ReadRest, beside, target};
use countersign_core::difference::{Difference, Pair, TOLD_BYTES_MAX, paths, tell};
use countersign_core::effect::{Effect, Flight, Phase};
use countersign_core::ids::{Digest, FactId};
use countersign_core::pact::Mode;
use countersign_core::record::{Event, Judged};
use countersign_core::session::{Held, Reading, Reread};
use crossbeam_channel::bounded;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many readings are made at a time.
const AT_ONCE: usize = 8;
/// How long readings are made again for one call, all together: others wait meanwhile. What is under way then may end.
const REREAD_WITHIN: Duration = Duration::from_secs(10);
/// How many paths are named that differ by themselves.
const VOLATILE_MAX: usize = 8;

/// A reading that was made again.
struct Again {
    held: Held,
    began: Instant,
    answer: Result<ToolAnswer, Found>,
    took_ms: u64,
    volatile: Vec<SmolStr>,
}

impl Again {
    /// One that was not made.
    fn not_made(held: Held, why: Found) -> Self {
        Self { held, began: Instant::now(), answer: Err(why), took_ms: 0, volatile: Vec::new() }
    }

    fn is_same(&self) -> bool {
        self.answer.as_ref().is_ok_and(|answer| {
            Digest::of(answer.compared.as_bytes()) == self.held.digest
                && answer.projection == self.held.reading.projection
        })
    }

    fn reading(&self, at_ms: u64) -> Option<Reading> {
        let ToolAnswer { compared, projection, .. } = self.answer.as_ref().ok()?;
        Some(Reading {
            place: self.held.reading.place.clone(),
            at_ms,
            digest: Digest::of(compared.as_bytes()),
            projection: projection.clone(),
            content: Some(compared.into()),
            changes: Vec::new(),
            found: Default::default(),
        })
    }

    /// What it reads now, where it could be read.
    fn compared(&self) -> Option<&str> {
        self.answer.as_ref().ok().map(|answer| answer.compared.as_str())
    }

    /// Before and after, to be told. What it read right before may be at hand where what is kept of it is not.
    fn pair<'a>(&'a self, before: Option<&'a str>) -> Pair<'a> {
        let Reading { place, content, .. } = &self.held.reading;
        let (before, after) = (content.as_deref().or(before), self.compared().unwrap_or_default());
        Pair { name_bytes: place.called_bytes(), before, after, made: None }
    }
}

/// How these differ, in what a refusal or a result has room for.
fn differences<'a>(changed: impl Iterator<Item = (&'a Again, Option<&'a str>)>) -> Vec<Difference> {
    let pairs: Vec<_> = changed.map(|(again, before)| again.pair(before)).collect();
    tell(&pairs, TOLD_BYTES_MAX)
}

/// Why no more is read, where that is so: something could not be, or it took too long.
fn given_up(again: &[Again], until: Instant) -> Option<Found> {
    let unread = again.iter().find(|again| again.answer.is_err());
    match unread {
        Some(Again { held, .. }) => Some(FoundCode::ReadBefore.about(held.reading.place.tool_name())),
        None => (Instant::now() >= until).then(|| FoundCode::ReadTooLong.number(REREAD_WITHIN.as_secs())),
    }
}

impl Inner {
    /// Whether calls of its action type are made whatever their readings say.
    fn is_watched(&self, effect: &Effect) -> bool {
        let view = self.gate.view();
        let kind = view.rest.pacts.get(&effect.action.pact).and_then(|pact| pact.actions.get(&effect.action.action));
        kind.is_some_and(|kind| kind.mode == Mode::Shadow)
    }

    fn as_read(&self, id: EffectId, turn: Turn) {
        // What ends here cools still, and is refused at the next start.
        if self.gate.lost_log().is_some() {
            return;
        }
        // Asked now: a doubt may be resolved before this call is made, and its call may have its effect beside it all the same.
        let beside = self.doubts_beside(id);
        let Some((target, tool)) = self.place(id) else {
            // Its pact has it no longer. To decide it says so, and ends it: no one else would.
            drop(self.dispatch_as_read(id, &[], false));
            return;
        };
        let Some(rested_on) = self.rested_on(id) else { return };
        let until = Instant::now() + REREAD_WITHIN;
        let mut again = self.read_all(rested_on, None, until);
        self.look_twice(&mut again, until);
        // Frameworks retry blindly, so telling is not enough before what cannot be undone; and once a person has decided, the agent may
        // have gone on, and never ask what became of it.
        let adapter = self.adapters.get(&target).zip(tool);
        let is_destructive = adapter.is_some_and(|(adapter, tool)| adapter.is_destructive(&tool));
        let is_telling = !is_destructive && !self.is_approved(id);
        let Some(flight) = self.dispatch_as_read(id, &again, is_telling) else { return };
        self.send_as_read(id, &flight, turn, (&again, beside));
    }

    /// The calls in doubt whose turn it was given.
    fn doubts_beside(&self, id: EffectId) -> Vec<EffectId> {
        let view = self.gate.view();
        let Ok(effect) = view.rest.effects.cooling(id) else { return Vec::new() };
        beside(effect, &view, ReadRest { effects: &view.rest.effects, pacts: &view.rest.pacts })
    }

    /// Where an effect calls, and which tool.
    fn place(&self, id: EffectId) -> Option<(SmolStr, Option<SmolStr>)> {
        let view = self.gate.view();
        let effect = view.rest.effects.cooling(id).ok()?;
        target(&effect.action, &view)
    }

    /// Whether a person approved an effect that cools.
    fn is_approved(&self, id: EffectId) -> bool {
        self.gate.view().rest.effects.cooling(id).is_ok_and(|effect| effect.approval.is_some())
    }

    /// What it rests on, as the session has it now that the turn is taken.
    fn rested_on(&self, id: EffectId) -> Option<Vec<Held>> {
        let view = self.gate.view();
        let effect = view.rest.effects.cooling(id).ok()?;
        Some(effect.rests_on.iter().filter_map(|(fact, _)| Held::of(view.fact(fact)?)).collect())
    }

    /// Reads each once, several at a time. Where one cannot be read the rest need not be: the call is refused anyway, and others wait for
    /// its turn.
    fn read_all(&self, held: Vec<Held>, after: Option<EffectId>, until: Instant) -> Vec<Again> {
        if let [_] | [] = held.as_slice() {
            return held.into_iter().map(|held| self.read_again(held, after)).collect();
        }
        let mut again = Vec::with_capacity(held.len());
        for some in held.chunks(AT_ONCE) {
            if let Some(why) = given_up(&again, until) {
                again.extend(some.iter().map(|held| Again::not_made(held.clone(), why.clone())));
                continue;
            }
            std::thread::scope(|scope| {
                let reads: Vec<_> =
                    some.iter().map(|held| (held, scope.spawn(move || self.read_again(held.clone(), after)))).collect();
                again.extend(reads.into_iter().map(|(held, read)| {
                    // A thread that panicked has read nothing; the panic hook has said so.
                    read.join().unwrap_or_else(|_| Again::not_made(held.clone(), FoundCode::Panicked.alone()))
                }));
            });
        }
        again
    }

    fn read_again(&self, held: Held, after: Option<EffectId>) -> Again {
        let began = Instant::now();
        let place = &held.reading.place;
        let answer = match self.adapters.get(&place.upstream) {
            Some(adapter) => reading(|| adapter.read(place)),
            None => Err(FoundCode::NoAdapter.about(&place.upstream)),
        };
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let again = Again { held, began, answer, took_ms, volatile: Vec::new() };
        if let Some(reading) = again.reading(self.gate.now_ms()) {
            self.gate.latest_readings().note(&reading, after);
        }
        again
    }

    /// Reads what has changed once more: what differs again differs by itself, or because it is read. So what reads the same at that
    /// server is read once more before it: a tool may say when another was called last.
    fn look_twice(&self, again: &mut [Again], until: Instant) {
        let is_changed = |again: &&Again| again.answer.is_ok() && !again.is_same();
        let server = |again: &Again| again.held.reading.place.upstream.clone();
        let servers: BTreeSet<SmolStr> = again.iter().filter(is_changed).map(server).collect();
        let (mut same, mut held) = (Vec::new(), Vec::new());
        for (at, again) in again.iter().enumerate().filter(|(_, it)| it.is_same() && servers.contains(&server(it))) {
            same.push(at);
            held.push(again.held.clone());
        }
        // What it answers now is what counts: what is read first may have changed while the rest was read.
        for (at, second) in same.into_iter().zip(self.read_all(held, None, until)) {
            let Some(first) = again.get_mut(at) else { continue };
            let took_ms = first.took_ms.saturating_add(second.took_ms);
            *first = Again { took_ms, ..second };
        }
        for first in again.iter_mut().filter(|again| again.answer.is_ok() && !again.is_same()) {
            if Instant::now() >= until {
                return;
            }
            let second = self.read_again(first.held.clone(), None);
            if let (Ok(one), Ok(other)) = (&first.answer, &second.answer)
                && one.compared != other.compared
            {
                first.volatile =
                    paths(&one.compared, &other.compared, VOLATILE_MAX).into_iter().map(SmolStr::from).collect();
            }
            first.began = second.began;
            first.took_ms = first.took_ms.saturating_add(second.took_ms);
            first.answer = second.answer;
        }
    }

    /// Has it decided on what was read; the dispatch, if it goes off.
    fn dispatch_as_read(&self, effect: EffectId, again: &[Again], is_telling: bool) -> Option<Arc<Flight>> {
        let now_ms = self.gate.now_ms();
        let changed: Vec<&Again> = again.iter().filter(|again| again.answer.is_ok() && !again.is_same()).collect();
        let differences = differences(changed.iter().map(|again| (*again, None)));
        let difference = |fact: &FactId| {
            let of = changed.iter().zip(&differences).find(|(it, _)| it.held.fact == *fact);
            of.map(|(_, difference)| difference)
        };
        let rereads = again.iter().map(|again| {
            let answer = again.answer.as_ref();
            let difference = difference(&again.held.fact);
            let told = is_telling && difference.is_some_and(|difference| difference.is_whole);
            // What has to be read again all the same is shown as far as there is room.
            let shown = difference.filter(|_| !told).map(|it| it.changes.clone()).unwrap_or_default();
            Reread {
                digest: answer.ok().map(|answer| Digest::of(answer.compared.as_bytes())),
                fact: again.held.fact.clone(),
                projection: answer.map(|answer| answer.projection.clone()).unwrap_or_default(),
                took_ms: again.took_ms,
                told,
                shown,
                volatile: again.volatile.clone(),
                held: None,
                why: answer.err().map(|why| Box::new(why.clone().bounded())),
            }
        });
        let fresh = changed.iter().filter_map(|again| again.reading(now_ms)).collect();
        let request = DispatchAsRead { effect, rereads: rereads.collect(), fresh };
        match self.enter(Request::DispatchAsRead(Box::new(request))) {
            Ok(Answer::Entered(entered)) => match &entered.entry.event {
                Event::Dispatch(dispatch) if dispatch.decision.dispatched().is_some() => {}
                _ => return None,
            },
            Ok(_) | Err(Refusal::Closed) => return None,
            Err(Refusal::Effect(_)) => {
                self.again_if_early(effect);
                return None;
            }
            Err(error) => {
                Self::log_lost(effect, &error);
                return None;
            }
        }
        let view = self.gate.view();
        match &view.rest.effects.find(effect).ok()?.phase {
            Phase::Dispatched(flight) => Some(Arc::clone(flight)),
            _ => None,
        }
    }

    /// Hands in what the gate itself found out, and waits for the answer.
    fn enter(&self, request: Request) -> Result<Answer, Refusal> {
        let (answer, answered) = bounded(1);
        // Whoever waits is this thread.
        self.gate.submit_own(request, Box::new(move |result| drop(answer.send(result))))?;
        answered.recv().unwrap_or_else(|_| Err(Refusal::unanswered()))
    }

    fn send_as_read(&self, id: EffectId, flight: &Flight, turn: Turn, (again, beside): (&[Again], Vec<EffectId>)) {
        let Some(adapter) = self.adapters.get(&flight.dispatched.call.adapter) else {
            return self.without_adapter(Work::first(id, false));
        };
        let Some(effect) = self.gate.view().rest.effects.find(id).ok().cloned() else { return };
        let connection = again.iter().filter(|it| it.held.reading.place.upstream == flight.dispatched.call.adapter);
        // The oldest: where some were read over a later one, the call goes over neither.
        let connection = connection.filter_map(|it| it.answer.as_ref().ok()).map(|answer| answer.connection).min();
        // What is only watched is made whatever was read, so it is held to no connection.
        let connection = connection.filter(|_| !self.is_watched(&effect));
        let (found, judged) = self.attempt_as_read(&effect, flight, connection, &**adapter);
        let is_sent = !matches!(&found, Attempt::NotSent(_) | Attempt::Blocked(_));
        let window = again.iter().map(|it| it.began.elapsed()).max().filter(|_| is_sent);
        let window_ms = window.map(|window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
        let servers: BTreeSet<&SmolStr> = again.iter().map(|it| &it.held.reading.place.upstream).collect();
        for (server, window_ms) in servers.into_iter().zip(window_ms.iter().cycle()) {
            self.gate.windows().note(server, *window_ms);
        }
        let is_answered = matches!(&found, Attempt::Refused(_));
        let is_late = matches!(&found, Attempt::Unknown(evidence) if adapter.may_still_act(evidence));
        let (outcome, evidence) = match found {
            Attempt::Done(evidence) => (Outcome::Settled, evidence),
            // Nothing was sent, and nothing is sent later by itself: the agent calls again if it still wants to.
            Attempt::Refused(evidence) | Attempt::NotSent(evidence) => (Outcome::Failed, evidence),
            Attempt::Blocked(blocked) => {
                let is_judged = judged.as_ref().is_some_and(|judged| judged.blocked.is_some());
                let why = if is_judged { FoundCode::Blocked } else { FoundCode::Stopped };
                (Outcome::Failed, Evidence::of(why.about(blocked.code())))
            }
            Attempt::Unknown(evidence) => (Outcome::InDoubt, evidence),
        };
        // What has answered, be it with an error, may have changed something. In doubt replaces nothing.
        let is_over = (outcome == Outcome::Settled || is_answered) && effect.approval.is_none();
        let fresh = if is_over { self.refreshed(id, again) } else { Vec::new() };
        let reread_ms = again.iter().fold(0_u64, |sum, it| sum.saturating_add(it.took_ms));
        let reread_ms = Some(reread_ms).filter(|_| !again.is_empty());
        let measured = Measured { reread_ms, window_ms };
        let measured = Some(measured).filter(|it| *it != Measured::default()).map(Box::new);
        let evidence = Evidence { attempts: 1, measured, ..evidence };
        let settlement = Box::new(Settlement {
            effect: id,
            outcome,
            evidence,
            judged,
            is_stopped: false,
            found: Default::default(),
            beside,
        });
        match self.enter(Request::SettleAsRead { settlement, fresh }) {
            Ok(_) | Err(Refusal::Effect(_) | Refusal::Closed) => {}
            Err(error) => Self::log_lost(id, &error),
        }
        if is_late {
            turn.keep_for(LATE_AFTER);
        }
    }

    fn attempt_as_read(
        &self,
        effect: &Effect,
        flight: &Flight,
        connection: Option<u64>,
        adapter: &dyn Adapter,
    ) -> (Attempt, Option<Judged>) {
        let call = &flight.dispatched.call;
        let judging = Judging::new(&self.gate, effect, call.deadline_ms).on(connection);
        let job = Job { effect: effect.id, call, key: &flight.key, attempt: 1, judge: &judging };
        if let Some(why) = job.held_back() {
            return (Attempt::NotSent(Evidence::of(why)), None);
        }
        let found = attempting(|| adapter.attempt(&job));
        (found, judging.judged())
    }

    /// Reads again what was compared right before the call. Only what is told in full takes the place of what the agent read.
    fn refreshed(&self, effect: EffectId, again: &[Again]) -> Vec<Reading> {
        // What was not compared equal is never refreshed: its change was not the call's alone.
        let held: Vec<Held> = again.iter().filter(|again| again.is_same()).map(|again| again.held.clone()).collect();
        let after = self.read_all(held, Some(effect), Instant::now() + REREAD_WITHIN);
        let changed: Vec<&Again> = after.iter().filter(|again| again.answer.is_ok() && !again.is_same()).collect();
        let now_ms = self.gate.now_ms();
        // Right before the call it was at hand whole, however little of it is kept.
        let before = |after: &Again| again.iter().find(|it| it.held.fact == after.held.fact).and_then(Again::compared);
        let differences = differences(changed.iter().map(|again| (*again, before(again))));
        let told = changed.iter().zip(differences).filter(|(_, difference)| difference.is_whole);
        let reading = |(again, Difference { changes, .. }): (&&Again, Difference)| {
            again.reading(now_ms).map(|reading| Reading { changes, ..reading })
        };
        told.filter_map(reading).collect()
    }
}
