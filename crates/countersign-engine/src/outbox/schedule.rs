//! What is to be done next, and when: dispatches that have cooled, attempts, probes.

use super::Inner;
use super::run::Work;
use super::turns::Ready;
use crate::gate::LogError;
use crate::request::{Refusal, Request};
use crate::stream::{Follower, effect_of};
use countersign_core::call::{Call, EffectId};
use countersign_core::effect::Phase;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select};
use smol_str::SmolStr;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many entries are looked at before tasks have their turn.
const AT_ONCE: usize = 1024;
/// How often the scheduler looks whether it is to end.
const ROUND: Duration = Duration::from_millis(50);
/// How long after a refused dispatch it is tried again: the gate's clock may be a little behind.
pub(super) const DISPATCH_AGAIN: Duration = Duration::from_millis(2);
/// The first wait before a probe; each further one is twice as long.
const PROBE_FIRST: Duration = Duration::from_millis(200);
/// The longest wait before a probe.
const PROBE_LONGEST: Duration = Duration::from_secs(30);

/// What may be on its way for an effect.
const CALL: &str = "call";
const PROBE: &str = "probe";

/// Something to be done at some time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Decide again what has cooled.
    Dispatch(EffectId),
    /// The same of what rests on readings, where the gate found that it was not yet due.
    DispatchAsRead(EffectId),
    /// Try a call, or try it again.
    Attempt(Work),
    /// Find out about a doubt; how many probes there were before.
    Probe(EffectId, u32),
}

pub(super) struct Schedule {
    inner: Arc<Inner>,
    queues: BTreeMap<SmolStr, Sender<Work>>,
    /// Where calls go that rest on readings, when it is their turn.
    as_read: Sender<Ready>,
    due: BinaryHeap<Reverse<(Instant, Task)>>,
    /// Effects whose call or probe is on its way, so that none is made twice.
    taken: BTreeSet<(u64, &'static str)>,
}

impl Schedule {
    pub(super) fn new(inner: Arc<Inner>, queues: BTreeMap<SmolStr, Sender<Work>>, as_read: Sender<Ready>) -> Self {
        Self { inner, queues, as_read, due: BinaryHeap::new(), taken: BTreeSet::new() }
    }

    /// `found` is what was under way when the gate ended: a call among it that was dispatched may have left.
    pub(super) fn run(mut self, found: &[EffectId], mut entries: Follower, tasks: &Receiver<(Instant, Task)>) {
        for effect in found {
            self.moved(*effect, true);
        }
        let mut is_failing = false;
        while !self.inner.is_ending() {
            let is_behind = match self.follow(&mut entries) {
                Ok(is_behind) => {
                    is_failing = false;
                    is_behind
                }
                // It stays where it is, and looks again in the next round.
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::error!(%error, "the outbox cannot read the log; what is under way waits");
                    }
                    false
                }
            };
            let wait = self.due.peek().map_or(ROUND, |Reverse((at, _))| at.saturating_duration_since(Instant::now()));
            let wait = if is_behind { Duration::ZERO } else { wait };
            select! {
                // What has arrived is looked at in the next round.
                recv(entries.arrivals()) -> _ => {}
                recv(tasks) -> task => match task {
                    Ok(task) => self.due.push(Reverse(task)),
                    Err(_) => return,
                },
                default(wait.min(ROUND)) => {}
            }
            // Turns that linger end by themselves, and those who wait for one do not wait for ever.
            self.inner.turns.look();
            let now = Instant::now();
            while self.due.peek().is_some_and(|Reverse((at, _))| *at <= now) {
                if let Some(Reverse((_, task))) = self.due.pop() {
                    self.start(task);
                }
            }
        }
    }

    /// Takes what is new in the log, some of it at a time. Says whether there is more.
    fn follow(&mut self, entries: &mut Follower) -> Result<bool, LogError> {
        for _ in 0..AT_ONCE {
            match entries.next_entry()? {
                None => return Ok(false),
                Some((_, entry)) => effect_of(&entry).into_iter().for_each(|effect| self.moved(effect, false)),
            }
        }
        Ok(true)
    }

    /// An effect has moved: see where it is, and do what follows.
    fn moved(&mut self, id: EffectId, is_found: bool) {
        self.inner.gate.tried().forget(id);
        let next = {
            let view = self.inner.gate.view();
            let Ok(effect) = view.rest.effects.find(id) else {
                self.inner.turns.over(id);
                for kind in [CALL, PROBE] {
                    self.taken.remove(&(id.0, kind));
                }
                return;
            };
            match &effect.phase {
                Phase::Cooling { dispatch_at_ms } => {
                    let wait = dispatch_at_ms.saturating_sub(self.inner.gate.now_ms());
                    Some((Duration::from_millis(wait), Task::Dispatch(id)))
                }
                Phase::Dispatched(_) if self.taken.insert((id.0, CALL)) => {
                    Some((Duration::ZERO, Task::Attempt(Work::first(id, is_found))))
                }
                Phase::InDoubt { flight, .. } if self.inner.can_probe(&flight.dispatched.call) => {
                    let is_new = self.taken.insert((id.0, PROBE));
                    is_new.then_some((PROBE_FIRST, Task::Probe(id, 0)))
                }
                Phase::Dispatched(_) | Phase::InDoubt { .. } => None,
            }
        };
        match next {
            Some((Duration::ZERO, task)) => self.start(task),
            Some((delay, task)) => self.due.push(Reverse((Instant::now() + delay, task))),
            None => {}
        }
    }

    fn start(&mut self, task: Task) {
        match task {
            Task::Dispatch(effect) => self.dispatch(effect),
            Task::DispatchAsRead(effect) => {
                self.taken.remove(&(effect.0, CALL));
                self.dispatch(effect);
            }
            Task::Attempt(work) => self.hand_over(work),
            Task::Probe(effect, before) => self.hand_over(Work::probe(effect, before)),
        }
    }

    fn dispatch(&mut self, effect: EffectId) {
        if self.inner.is_as_read(effect) {
            // By the gate's own clock: nothing is read again, and no turn is taken, for what would be refused as too early.
            if !self.inner.is_due(effect, self.inner.gate.now_ms()) {
                self.due.push(Reverse((Instant::now() + DISPATCH_AGAIN, Task::Dispatch(effect))));
                return;
            }
            // One thread carries it out from here on, its call included.
            if self.taken.insert((effect.0, CALL)) {
                self.inner.ask_turn(effect, &self.as_read);
            }
            return;
        }
        let inner = Arc::clone(&self.inner);
        let reply = Box::new(move |answer| match answer {
            Ok(_) | Err(Refusal::Closed | Refusal::Poisoned(_)) => {}
            // Not yet due by the gate's own clock; anything else says that it has moved on.
            Err(Refusal::Effect(_)) if inner.is_cooling(effect) => {
                inner.later(DISPATCH_AGAIN, Task::Dispatch(effect));
            }
            Err(_) => {}
        });
        if let Err(error) = self.inner.gate.submit_own(Request::Dispatch { effect }, reply) {
            Inner::log_lost(effect, &error);
        }
    }

    fn hand_over(&self, work: Work) {
        let adapter = {
            let view = self.inner.gate.view();
            let flight = view.rest.effects.find(work.effect).ok().and_then(|effect| effect.flight().cloned());
            flight.map(|flight| flight.dispatched.call.adapter.clone())
        };
        match adapter.and_then(|adapter| self.queues.get(&adapter)) {
            // The workers end after the scheduler.
            Some(queue) => drop(queue.send(work)),
            None => self.inner.without_adapter(work),
        }
    }
}

impl Inner {
    fn is_cooling(&self, effect: EffectId) -> bool {
        self.gate.view().rest.effects.cooling(effect).is_ok()
    }

    /// Whether somebody can be asked what became of a call.
    fn can_probe(&self, call: &Call) -> bool {
        call.probe.is_some() || self.adapters.get(&call.adapter).is_some_and(|adapter| adapter.keeps_receipts())
    }

    /// When a doubt is probed next.
    pub(super) fn probe_again(&self, effect: EffectId, before: u32) {
        let delay = PROBE_FIRST.saturating_mul(1_u32.checked_shl(before.saturating_add(1)).unwrap_or(u32::MAX));
        self.later(delay.min(PROBE_LONGEST), Task::Probe(effect, before.saturating_add(1)));
    }

    /// Takes calls that rest on readings until there are none any more.
    pub(super) fn work_as_read(self: &Arc<Self>, queued: &Receiver<Ready>) {
        loop {
            match queued.recv_timeout(ROUND) {
                Ok(ready) if !self.is_ending() => self.start_as_read(ready),
                Ok(_) | Err(RecvTimeoutError::Timeout) if !self.is_ending() => {}
                _ => return,
            }
        }
    }

    /// Takes work until there is none any more.
    pub(super) fn work(&self, queued: &Receiver<Work>) {
        loop {
            match queued.recv_timeout(ROUND) {
                Ok(work) if !self.is_ending() => self.carry_out(work),
                Ok(_) | Err(RecvTimeoutError::Timeout) if !self.is_ending() => {}
                _ => return,
            }
        }
    }
}
