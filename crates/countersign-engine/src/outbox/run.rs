//! One attempt at a call, or one probe of a doubt, and what follows from what it found.

use super::panics::{attempting, probing};
use super::schedule::Task;
use super::turns::Ask;
use super::{Adapter, Attempt, FactAsRead, Inner, Job, Judge, LATE_AFTER, LastTry, Leave, Probed};
use crate::gate::Gate;
use crate::request::{Refusal, Request, Settlement};
use countersign_core::call::{EffectId, Evidence, Found, FoundCode, Measured, Outcome, Send};
use countersign_core::decide::{judge, stop_on, touches};
use countersign_core::effect::{Effect, EffectRefusal, Flight, Phase};
use countersign_core::ids::FactId;
use countersign_core::pact::{Atomicity, FactSchema};
use countersign_core::reason::Reason;
use countersign_core::record::Judged;
use parking_lot::Mutex;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first wait before another attempt; each further one is twice as long.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
/// The longest wait before another attempt.
const AGAIN_LONGEST: Duration = Duration::from_secs(5);

/// What a worker is to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Work {
    pub(super) effect: EffectId,
    kind: Kind,
    /// Attempts or probes made before.
    before: u32,
    /// Attempts of which nobody knows what they did.
    unknown: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Try the call.
    Call,
    /// Find out what became of a call that a crash interrupted.
    Recover,
    /// Find out about a doubt.
    Probe,
}

impl Work {
    /// The first attempt; of one that was found under way, the first is to find out.
    pub(super) fn first(effect: EffectId, is_found: bool) -> Self {
        let kind = if is_found { Kind::Recover } else { Kind::Call };
        Self { effect, kind, before: 0, unknown: 0 }
    }

    pub(super) fn probe(effect: EffectId, before: u32) -> Self {
        Self { effect, kind: Kind::Probe, before, unknown: 0 }
    }

    fn again(self, unknown: u32) -> Self {
        Self { kind: Kind::Call, before: self.before.saturating_add(1), unknown, ..self }
    }
}

impl Inner {
    /// Does what is to be done, unless the effect has moved on meanwhile.
    pub(super) fn carry_out(&self, work: Work) {
        if let Some(cause) = self.gate.lost_log() {
            // Nothing that it finds out could be entered. The next gate on this log finds the effect where it is.
            return Self::log_lost(work.effect, &cause);
        }
        let Some((effect, flight)) = self.flight(&work) else {
            return self.gate.tried().forget(work.effect);
        };
        let Some(adapter) = self.adapters.get(&flight.dispatched.call.adapter) else {
            return self.without_adapter(work);
        };
        let _busy = self.busy();
        match work.kind {
            Kind::Probe => self.probe(work, &effect, &flight, &**adapter),
            Kind::Call | Kind::Recover => self.attempt(work, &effect, &flight, &**adapter),
        }
    }

    /// The effect with its dispatch, if it is where the work expects it.
    fn flight(&self, work: &Work) -> Option<(Effect, Arc<Flight>)> {
        let view = self.gate.view();
        let effect = view.rest.effects.find(work.effect).ok()?;
        let flight = match (&effect.phase, work.kind) {
            (Phase::Dispatched(flight), Kind::Call | Kind::Recover) | (Phase::InDoubt { flight, .. }, Kind::Probe) => {
                flight
            }
            _ => return None,
        };
        Some((effect.clone(), Arc::clone(flight)))
    }

    fn attempt(&self, work: Work, effect: &Effect, flight: &Flight, adapter: &dyn Adapter) {
        let call = &flight.dispatched.call;
        if self.gate.now_ms() > call.deadline_ms && work.kind == Kind::Call {
            let last = self.gate.tried().last(work.effect);
            let late = || Evidence::of(FoundCode::Late.alone());
            let evidence = last.map_or_else(late, |last| Evidence { is_late: true, ..last.found });
            return self.give_up(work, evidence, None);
        }
        // What an earlier attempt did is asked first where there is a receipt to ask for; there the adapter asks what stops it.
        let is_asked_first = work.unknown > 0 && adapter.keeps_receipts();
        if work.kind == Kind::Call
            && !is_asked_first
            && let Some(stopped) = self.stopped(effect)
        {
            return self.stop(work, Evidence::of(FoundCode::Stopped.about(stopped.code())), None);
        }
        let judging = Judging::new(&self.gate, effect, call.deadline_ms);
        let job = Job { effect: work.effect, call, key: &flight.key, attempt: work.before + 1, judge: &judging };
        let found = match work.kind {
            Kind::Recover => attempting(|| adapter.recover(&job)),
            _ => match self.in_turn(effect, adapter, &job) {
                Some(found) => found,
                // The gate ends; what was not sent is found again at the next start.
                None => return,
            },
        };
        let judged = judging.judged();
        // What is refused now says nothing about an earlier attempt of which nobody knows, unless there is a receipt to ask for.
        let is_certain = work.unknown == 0 || adapter.keeps_receipts();
        match found {
            Attempt::Done(evidence) => self.settle(work, Outcome::Settled, evidence, judged),
            Attempt::Refused(evidence) if is_certain => self.settle(work, Outcome::Failed, evidence, judged),
            Attempt::Blocked(blocked) if judged.as_ref().is_none_or(|judged| judged.blocked.is_none()) => {
                let evidence = Evidence::of(FoundCode::Stopped.about(blocked.code()));
                let work = if is_certain { Work { unknown: 0, ..work } } else { work };
                self.stop(work, evidence, judged);
            }
            Attempt::Blocked(blocked) if is_certain => {
                let evidence = Evidence::of(FoundCode::Blocked.about(blocked.code()));
                self.settle(work, Outcome::Failed, evidence, judged);
            }
            Attempt::Refused(evidence) => self.settle(work, Outcome::InDoubt, evidence, judged),
            Attempt::Blocked(blocked) => {
                self.settle(work, Outcome::InDoubt, Evidence::of(FoundCode::Blocked.about(blocked.code())), judged);
            }
            Attempt::NotSent(evidence) => {
                if self.stopped(effect).is_some() {
                    return self.stop(work, evidence, judged);
                }
                tracing::warn!(effect = %work.effect, cause = %evidence.words(), "the call could not be sent");
                self.note(&work, &evidence);
                let unknown = work.unknown;
                self.again(work, unknown, call.deadline_ms);
            }
            Attempt::Unknown(evidence) => {
                let unknown = work.unknown.saturating_add(1);
                if unknown <= call.retries {
                    let cause = evidence.words();
                    tracing::warn!(effect = %work.effect, cause, "it is unknown whether it happened: it is repeated");
                    self.note(&work, &evidence);
                    return self.again(work, unknown, call.deadline_ms);
                }
                self.settle(work, Outcome::InDoubt, evidence, judged);
            }
        }
    }

    /// Tries a call in its turn, where it is known what it may change.
    fn in_turn(&self, effect: &Effect, adapter: &dyn Adapter, job: &Job<'_>) -> Option<Attempt> {
        let touches = {
            let view = self.gate.view();
            touches(&effect.action, &view, &view.rest.pacts).unwrap_or_default()
        };
        if touches.is_empty() {
            return Some(self.timed(effect, adapter, job));
        }
        let ask = Ask { effect: effect.id, agent: effect.action.agent.clone(), touches, thread_at: None };
        let turn = match self.turns.take(ask, || self.is_ending())? {
            Ok(turn) => turn,
            Err(holder) => {
                let at = FoundCode::TurnAt.about(&holder.server).with_number(self.since_ms(holder.since));
                let held = Found::not_sent(FoundCode::TurnTaken.about(holder.effect).and_because(at));
                return Some(Attempt::NotSent(Evidence::of(held)));
            }
        };
        let found = self.timed(effect, adapter, job);
        if matches!(&found, Attempt::Unknown(evidence) if adapter.may_still_act(evidence)) {
            turn.keep_for(LATE_AFTER);
        }
        Some(found)
    }

    /// Tries a call. Where facts are read right before it that someone past the gate can still change, that time is measured.
    fn timed(&self, effect: &Effect, adapter: &dyn Adapter, job: &Job<'_>) -> Attempt {
        let began = Instant::now();
        let mut found = attempting(|| adapter.attempt(job));
        let (Attempt::Done(evidence) | Attempt::Refused(evidence) | Attempt::Unknown(evidence)) = &mut found else {
            return found;
        };
        let is_rechecked = {
            let view = self.gate.view();
            let pact = view.rest.pacts.get(&effect.action.pact);
            let kind = pact.and_then(|pact| pact.actions.get(&effect.action.action));
            kind.is_some_and(|kind| kind.atomicity() == Atomicity::Rechecked)
        };
        if is_rechecked && !job.call.outside.is_empty() {
            let window_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let servers: BTreeSet<&SmolStr> = job.call.outside.iter().map(|read| &read.adapter).collect();
            servers.into_iter().for_each(|server| self.gate.windows().note(server, window_ms));
            evidence.measured = Some(Box::new(Measured { reread_ms: None, window_ms: Some(window_ms) }));
        }
        found
    }

    /// Remembers the last failed attempt, for anyone who asks why it takes so long.
    fn note(&self, work: &Work, evidence: &Evidence) {
        let (at_ms, number) = (self.gate.now_ms(), work.before.saturating_add(1));
        self.gate.tried().note(
            work.effect,
            LastTry { at_ms, number, found: Evidence { result: None, receipt: None, ..evidence.clone() } },
        );
    }

    /// Nothing more is sent. What never left has failed; otherwise nobody knows.
    fn give_up(&self, work: Work, evidence: Evidence, judged: Option<Judged>) {
        let outcome = if work.unknown == 0 { Outcome::Failed } else { Outcome::InDoubt };
        self.settle(work, outcome, evidence, judged);
    }

    /// Why an effect must not leave now, by what is synced.
    fn stopped(&self, effect: &Effect) -> Option<Reason> {
        stop_on(&effect.action, effect.approval.as_deref(), &self.gate.view(), self.gate.now_ms())
    }

    /// Nothing more is sent, because it must not leave; the sequencer says why. What was lifted meanwhile is tried again.
    fn stop(&self, work: Work, evidence: Evidence, judged: Option<Judged>) {
        let outcome = if work.unknown == 0 { Outcome::Failed } else { Outcome::InDoubt };
        let settlement = Settlement { is_stopped: true, ..settlement(&work, outcome, evidence, judged) };
        let (later, unknown) = (self.later.clone(), work.unknown);
        let effect = work.effect;
        self.submit(settlement, move |error| match error {
            Refusal::Effect(EffectRefusal::NotStopped(_)) => {
                let task = Task::Attempt(work.again(unknown));
                drop(later.send((Instant::now() + AGAIN_FIRST, task)));
            }
            error => Self::log_lost(effect, &error),
        });
    }

    fn again(&self, work: Work, unknown: u32, deadline_ms: u64) {
        let doubled = AGAIN_FIRST.saturating_mul(1_u32.checked_shl(work.before).unwrap_or(u32::MAX));
        // Past the deadline it is given up, and its fences must not stand a moment longer.
        let left_ms = deadline_ms.saturating_sub(self.gate.now_ms()).saturating_add(1);
        let wait = doubled.min(AGAIN_LONGEST).min(Duration::from_millis(left_ms));
        self.later(wait, Task::Attempt(work.again(unknown)));
    }

    fn probe(&self, work: Work, effect: &Effect, flight: &Flight, adapter: &dyn Adapter) {
        let call = &flight.dispatched.call;
        let absent_after_ms = match &call.probe {
            Some(probe) => probe.absent_after_ms,
            None if adapter.keeps_receipts() => 0,
            None => return,
        };
        let judging = Judging::new(&self.gate, effect, call.deadline_ms);
        let job = Job { effect: work.effect, call, key: &flight.key, attempt: work.before + 1, judge: &judging };
        // The doubt began when the last attempt ended.
        let Phase::InDoubt { since_ms, .. } = effect.phase else { return };
        let settles_ms = since_ms.saturating_add(absent_after_ms);
        let now_ms = self.gate.now_ms();
        match probing(|| adapter.probe(&job)) {
            Probed::There(evidence) => {
                let judged = judging.judged();
                self.settle(work, Outcome::Settled, evidence, judged);
            }
            // Asked when it was already late enough: an answer from before says nothing.
            Probed::Absent(evidence) if now_ms >= settles_ms => self.settle(work, Outcome::Failed, evidence, None),
            Probed::Absent(evidence) => {
                self.note(&work, &evidence);
                self.probe_again(work.effect, work.before);
            }
            Probed::Unknown(evidence) => {
                tracing::warn!(effect = %work.effect, cause = %evidence.words(), "the probe gave no clear answer");
                self.note(&work, &evidence);
                self.probe_again(work.effect, work.before);
            }
        }
    }

    /// A call whose adapter the settings do not name cannot be sent.
    pub(super) fn without_adapter(&self, work: Work) {
        let Some((_, flight)) = self.flight(&work) else { return };
        let adapter = &flight.dispatched.call.adapter;
        let evidence = Evidence::of(FoundCode::NoAdapter.about(adapter));
        match work.kind {
            // Nobody can find out; the doubt stays for a person.
            Kind::Probe => {}
            Kind::Recover => self.settle(work, Outcome::InDoubt, evidence, None),
            Kind::Call => self.give_up(work, evidence, None),
        }
    }

    fn settle(&self, work: Work, outcome: Outcome, evidence: Evidence, judged: Option<Judged>) {
        let effect = work.effect;
        self.submit(settlement(&work, outcome, evidence, judged), move |error| Self::log_lost(effect, &error));
    }

    fn submit(&self, settlement: Settlement, refused: impl FnOnce(Refusal) + std::marker::Send + 'static) {
        let effect = settlement.effect;
        let reply = Box::new(move |answer| match answer {
            Err(error @ Refusal::Effect(EffectRefusal::NotStopped(_))) => refused(error),
            // Ended meanwhile, by a person: their word stands.
            Ok(_) | Err(Refusal::Effect(_) | Refusal::Closed) => {}
            Err(error) => refused(error),
        });
        if let Err(error) = self.gate.submit_own(Request::Settle(Box::new(settlement)), reply) {
            Self::log_lost(effect, &error);
        }
    }
}

fn settlement(work: &Work, outcome: Outcome, mut evidence: Evidence, judged: Option<Judged>) -> Settlement {
    evidence.attempts = work.before.saturating_add(1);
    Settlement {
        effect: work.effect,
        outcome,
        evidence,
        judged,
        is_stopped: false,
        found: Default::default(),
        beside: Vec::new(),
    }
}

/// Why nothing may leave now, whatever the action is.
fn barred(gate: &Gate, deadline_ms: u64) -> Option<Found> {
    let late = || (gate.now_ms() > deadline_ms).then(|| FoundCode::Late.alone());
    gate.lost_log().map(|_| FoundCode::LogLost.alone()).or_else(late)
}

/// Decides for a worker, and remembers what on.
pub(super) struct Judging<'a> {
    gate: &'a Arc<Gate>,
    effect: &'a Effect,
    deadline_ms: u64,
    judged: Mutex<Option<Judged>>,
    connection: Option<u64>,
}

impl<'a> Judging<'a> {
    pub(super) fn new(gate: &'a Arc<Gate>, effect: &'a Effect, deadline_ms: u64) -> Self {
        Self { gate, effect, deadline_ms, judged: Mutex::new(None), connection: None }
    }

    /// What was decided, and on what.
    pub(super) fn judged(self) -> Option<Judged> {
        self.judged.into_inner()
    }

    /// For a call over the connection that its readings came over.
    pub(super) fn on(self, connection: Option<u64>) -> Self {
        Self { connection, ..self }
    }
}

impl Judge for Judging<'_> {
    fn stopped(&self) -> Option<Reason> {
        stop_on(&self.effect.action, self.effect.approval.as_deref(), &self.gate.view(), self.gate.now_ms())
    }

    fn barred(&self) -> Option<Found> {
        barred(self.gate, self.deadline_ms)
    }

    fn leave(&self) -> Leave {
        // Not held: a message that waits must not keep a gate open that has ended.
        let gate = Arc::downgrade(self.gate);
        let (action, approval) = (Arc::clone(&self.effect.action), self.effect.approval.clone());
        let deadline_ms = self.deadline_ms;
        Leave::new(move || {
            let Some(gate) = gate.upgrade() else { return Some(Found::not_sent(FoundCode::GateEnded.alone())) };
            let stopped = stop_on(&action, approval.as_deref(), &gate.view(), gate.now_ms());
            stopped.map(|reason| FoundCode::Stopped.about(reason.code())).or_else(|| barred(&gate, deadline_ms))
        })
    }

    fn schema(&self, fact: &FactId) -> FactSchema {
        self.gate.view().rest.catalogue.types().get(fact.ty()).cloned().unwrap_or_default()
    }

    fn judge(&self, read: &[FactAsRead]) -> Result<Send, Reason> {
        let at_ms = self.gate.now_ms();
        let facts: Vec<_> = read.iter().map(|outside| (outside.fact.clone(), outside.value.clone())).collect();
        let decided = judge(self.effect, &facts, at_ms);
        *self.judged.lock() = Some(Judged::new(at_ms, facts, decided.clone()));
        decided.map(|cleared| cleared.send)
    }

    fn connection(&self) -> Option<u64> {
        self.connection
    }

    fn answered(&self, answer: String) {
        self.gate.long_answers().keep(self.effect.id, answer);
    }

    fn judged_at_ms(&self) -> Option<u64> {
        self.judged.lock().as_ref().map(|judged| judged.at_ms)
    }

    fn recall(&self, read: &[FactAsRead], at_ms: u64) {
        let facts: Vec<_> = read.iter().map(|outside| (outside.fact.clone(), outside.value.clone())).collect();
        // What does not come out the same again is not claimed; the receipt still says that it happened.
        if let Ok(cleared) = judge(self.effect, &facts, at_ms) {
            *self.judged.lock() = Some(Judged::new(at_ms, facts, Ok(cleared)));
        }
    }
}
