//! Turns at external servers: who may change what is there, and who relies on it meanwhile.
//!
//! In memory only: after a restart, the turns of what had not settled are taken again. All turns that one call needs are taken at
//! once, so no two wait for each other. Agents take their turns one after the other, however many calls one of them waits with; within
//! that order whoever waits to change something goes before those who come later and only rely on it. No thread waits here, and no
//! call waits for longer than it is told to.

use countersign_core::call::EffectId;
use countersign_core::decide::{Touch, meets};
use countersign_core::ids::AgentId;
use crossbeam_channel::{RecvTimeoutError, Sender, unbounded};
use parking_lot::Mutex;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often one who waits on a thread looks whether it is to end.
const ROUND: Duration = Duration::from_millis(50);
/// How long a call waits for its turn. Less than the gateway waits for a verdict, so that its client is told who has the turn.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// How many calls of one agent, and of all together, wait for a turn at a time.
const WAITING_PER_AGENT_MAX: usize = 64;
const WAITING_MAX: usize = 512;
/// How many calls that rest on readings are made at one server at a time: slow ones hold up the others of that server, and no other's.
const THREADS_PER_SERVER: usize = 16;

/// A turn that is asked for.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) effect: EffectId,
    pub(super) agent: AgentId,
    pub(super) touches: Vec<Touch>,
    /// Where it is called, of a call that needs one of the threads that there are for that server. One that waits for a thread must not
    /// have its turn already: it would keep others from theirs for as long.
    pub(super) thread_at: Option<SmolStr>,
}

/// What becomes of it.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) effect: EffectId,
    /// The turn, or who had it for too long.
    pub(super) got: Result<Turn, Holder>,
}

/// Who is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) effect: EffectId,
    pub(super) server: SmolStr,
    pub(super) since: Instant,
    /// Whether its call is over and may still have its effect.
    pub(super) lingers: bool,
}

/// The turns of all servers.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// The round of whoever was let in last.
    round: u64,
    /// The latest round that each agent waits in.
    rounds: HashMap<AgentId, u64>,
    /// By round, and within one in the order in which they came.
    waiting: Vec<Waiter>,
    held: Vec<Taken>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    round: u64,
    ask: Ask,
    since: Instant,
    to: Sender<Ready>,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    effect: EffectId,
    touches: Vec<Touch>,
    thread_at: Option<SmolStr>,
    since: Instant,
    /// Until when, of one that no call holds any more.
    until: Option<Instant>,
}

/// What is to be told to those who waited, once nothing is locked.
type Told = Vec<(Sender<Ready>, EffectId, Result<u64, Holder>)>;

/// A turn. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

impl Turns {
    /// Asks for a turn, which is sent when it is there; or who has it, when that takes too long.
    pub(super) fn ask(self: &Arc<Self>, ask: Ask, to: &Sender<Ready>) {
        let now = Instant::now();
        let told = {
            let mut inner = self.0.lock();
            inner.enter(ask, to.clone(), now);
            inner.look(now)
        };
        self.tell(told);
    }

    /// The same for one who waits on a thread; `None` if it is to end first.
    pub(super) fn take(self: &Arc<Self>, ask: Ask, is_ending: impl Fn() -> bool) -> Option<Result<Turn, Holder>> {
        let effect = ask.effect;
        let (to, ready) = unbounded();
        self.ask(ask, &to);
        loop {
            match ready.recv_timeout(ROUND) {
                Ok(ready) => return Some(ready.got),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if is_ending() => {
                    self.0.lock().waiting.retain(|waiter| waiter.ask.effect != effect);
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => self.look(),
            }
        }
    }

    /// Lets in whose turn it is by now, and tells those who have waited for too long. To be called now and then: nothing else says
    /// that time has passed.
    pub(super) fn look(self: &Arc<Self>) {
        let told = self.0.lock().look(Instant::now());
        self.tell(told);
    }

    /// Takes a turn at once for something that may still be on its way from an earlier life, for as long as that may be.
    pub(super) fn linger(&self, effect: EffectId, touches: Vec<Touch>, how_long: Duration) {
        let mut inner = self.0.lock();
        let (number, since) = (inner.number(), Instant::now());
        inner.held.push(Taken { number, effect, touches, thread_at: None, since, until: Some(since + how_long) });
    }

    /// What became of a call is known: its turn lingers no longer.
    pub(super) fn over(self: &Arc<Self>, effect: EffectId) {
        let told = {
            let mut inner = self.0.lock();
            let before = inner.held.len();
            inner.held.retain(|taken| taken.effect != effect || taken.until.is_none());
            if inner.held.len() == before { Vec::new() } else { inner.look(Instant::now()) }
        };
        self.tell(told);
    }

    fn tell(self: &Arc<Self>, told: Told) {
        for (to, effect, got) in told {
            let got = got.map(|number| Turn { turns: Arc::clone(self), number });
            // Whoever has gone meanwhile drops the turn with it.
            drop(to.send(Ready { effect, got }));
        }
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    fn enter(&mut self, ask: Ask, to: Sender<Ready>, now: Instant) {
        let latest = self.rounds.get(&ask.agent).copied().unwrap_or(0);
        let round = latest.saturating_add(1).max(self.round);
        self.rounds.insert(ask.agent.clone(), round);
        let number = self.number();
        let at = self.waiting.partition_point(|waiter| waiter.round <= round);
        self.waiting.insert(at, Waiter { number, round, ask, since: now, to });
    }

    /// Who is let in, and who is told that it takes too long.
    fn look(&mut self, now: Instant) -> Told {
        self.held.retain(|taken| taken.until.is_none_or(|until| now < until));
        let mut told = Vec::new();
        let mut at = 0;
        while let Some(waiter) = self.waiting.get(at) {
            let is_free = self.in_the_way(waiter).is_none() && self.has_thread(waiter);
            // Who has no thread is passed by: it would keep others waiting for as long as the calls of its server take.
            let is_before = |other: &Waiter| meets(&waiter.ask.touches, &other.ask.touches) && self.has_thread(other);
            let is_first = || !self.waiting.iter().take(at).any(is_before);
            if is_free && is_first() {
                let Waiter { number, round, ask, to, .. } = self.waiting.remove(at);
                self.round = self.round.max(round);
                told.push((to, ask.effect, Ok(number)));
                let Ask { effect, touches, thread_at, .. } = ask;
                self.held.push(Taken { number, effect, touches, thread_at, since: now, until: None });
                continue;
            }
            match self.too_long(at, waiter, now) {
                Some(holder) => {
                    let Waiter { ask, to, .. } = self.waiting.remove(at);
                    told.push((to, ask.effect, Err(holder)));
                }
                None => at += 1,
            }
        }
        let (round, waiting) = (self.round, &self.waiting);
        self.rounds.retain(|agent, latest| *latest > round || waiting.iter().any(|waiter| waiter.ask.agent == *agent));
        told
    }

    /// Who keeps a call waiting for longer than it may, if that can be told by now.
    fn too_long(&self, at: usize, waiter: &Waiter, now: Instant) -> Option<Holder> {
        let taken = self.in_the_way(waiter);
        let ends = waiter.since + WAIT_MAX;
        // What lingers says until when: a call that cannot be made in time is not kept waiting in silence.
        let is_late = now >= ends || taken.and_then(|taken| taken.until).is_some_and(|until| until > ends);
        let others = || self.waiting.iter().take(at);
        let of_agent = || others().filter(|other| other.ask.agent == waiter.ask.agent).count();
        let is_one_too_many = at >= WAITING_MAX || of_agent() >= WAITING_PER_AGENT_MAX;
        if !is_late && !is_one_too_many {
            return None;
        }
        let server = waiter.ask.touches.first().map(|touch| touch.server.clone()).unwrap_or_default();
        let before = || others().find(|other| meets(&waiter.ask.touches, &other.ask.touches));
        Some(match (taken, before()) {
            (Some(Taken { effect, touches, since, until, .. }), _) => {
                let met = |touch: &&Touch| meets(std::slice::from_ref(touch), touches);
                let server = waiter.ask.touches.iter().find(met).map_or(server, |touch| touch.server.clone());
                Holder { effect: *effect, server, since: *since, lingers: until.is_some() }
            }
            (None, None) if !self.has_thread(waiter) => self.longest(waiter),
            (None, Some(other)) => Holder { effect: other.ask.effect, server, since: other.since, lingers: false },
            (None, None) => Holder { effect: waiter.ask.effect, server, since: waiter.since, lingers: false },
        })
    }

    /// Whether one of the threads for its server is free.
    fn has_thread(&self, waiter: &Waiter) -> bool {
        waiter.ask.thread_at.is_none() || self.at_its_server(waiter).count() < THREADS_PER_SERVER
    }

    /// The calls that have threads at the same server.
    fn at_its_server<'a>(&'a self, waiter: &'a Waiter) -> impl Iterator<Item = &'a Taken> {
        self.held.iter().filter(|taken| taken.until.is_none() && taken.thread_at == waiter.ask.thread_at)
    }

    /// The call that has had its thread at the same server for longest.
    fn longest(&self, waiter: &Waiter) -> Holder {
        let server = waiter.ask.thread_at.clone().unwrap_or_default();
        let taken = self.at_its_server(waiter).min_by_key(|taken| taken.since);
        let (effect, since) = taken.map_or((waiter.ask.effect, waiter.since), |taken| (taken.effect, taken.since));
        Holder { effect, server, since, lingers: false }
    }

    /// What is held that keeps a call from being made. An effect is not in its own way: a call that is repeated under its key is the same.
    fn in_the_way(&self, waiter: &Waiter) -> Option<&Taken> {
        let ask = &waiter.ask;
        self.held.iter().find(|taken| taken.effect != ask.effect && meets(&ask.touches, &taken.touches))
    }
}

impl Turn {
    /// Keeps the turn for some time without anyone: what was sent may still have its effect. Where it was only relied on, nothing can
    /// change by it, and others go on.
    pub(super) fn keep_for(self, how_long: Duration) {
        let mut inner = self.turns.0.lock();
        if let Some(taken) = inner.held.iter_mut().find(|taken| taken.number == self.number) {
            taken.touches.retain(|touch| touch.changes);
            taken.until = Some(Instant::now() + how_long);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let told = {
            let mut inner = self.turns.0.lock();
            inner.held.retain(|taken| taken.number != self.number || taken.until.is_some());
            inner.look(Instant::now())
        };
        self.turns.tell(told);
    }
}

#[cfg(test)]
mod tests;
