//! Those that wait for a fence to end. They hold nothing; each is decided again when a fence was freed, in the order in which they
//! came, and rejected when its time is up.

use super::{Batch, Sequencer};
use crate::idempotency::{Sought, Window};
use crate::request::{Refusal, Reply, Request, Submission};
use countersign_core::action::Action;
use countersign_core::call::EffectId;
use countersign_core::code::Code;
use countersign_core::decide::Snapshot as _;
use countersign_core::decision::Decision;
use countersign_core::ids::AgentId;
use std::collections::{HashMap, VecDeque};

/// Most that wait at a time; past it, what is in front of a fence is rejected at once.
const WAITERS_MAX: usize = 4096;

/// Most of one agent, its actions and its calls that have cooled; past it, what is in front of a fence is rejected at once. So no one
/// takes the places of others.
const WAITERS_PER_AGENT_MAX: usize = 64;

/// What waits.
pub(super) enum Waits {
    /// An action, to be decided, and what was found under its key.
    Action(Box<Action>, Sought),
    /// An effect that has cooled, to be dispatched, and whose it is.
    Dispatch(EffectId, AgentId),
}

impl Waits {
    /// Whose place it takes.
    fn agent(&self) -> &AgentId {
        match self {
            Self::Action(action, _) => &action.agent,
            Self::Dispatch(_, agent) => agent,
        }
    }
}

/// Someone that waits.
pub(super) struct Waiter {
    pub(super) what: Waits,
    pub(super) reply: Reply,
    /// Since when it waits.
    pub(super) since_ms: u64,
    /// When to look again although no one freed anything: a claim may have run out.
    pub(super) wakes_at_ms: u64,
}

/// Those that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct FenceWaiters {
    waiters: VecDeque<Waiter>,
    /// How many of each agent wait.
    by_agent: HashMap<AgentId, usize>,
    freed: bool,
}

impl FenceWaiters {
    pub(super) fn enter(&mut self, waiter: Waiter) {
        *self.by_agent.entry(waiter.what.agent().clone()).or_default() += 1;
        self.waiters.push_back(waiter);
    }

    /// A fence has ended.
    pub(super) fn free(&mut self) {
        self.freed = true;
    }

    pub(super) fn is_freed(&self) -> bool {
        self.freed
    }

    fn is_full_for(&self, agent: &AgentId) -> bool {
        self.waiters.len() >= WAITERS_MAX || self.by_agent.get(agent).is_some_and(|few| *few >= WAITERS_PER_AGENT_MAX)
    }

    /// Empties the room.
    fn take(&mut self) -> VecDeque<Waiter> {
        self.by_agent.clear();
        std::mem::take(&mut self.waiters)
    }

    /// When someone must be looked after at the latest.
    fn wakes_at_ms(&self) -> Option<u64> {
        self.waiters.iter().map(|waiter| waiter.wakes_at_ms).min()
    }
}

impl Sequencer {
    /// When someone that waits must be looked after although nothing was freed, or a review expires.
    pub fn wakes_at_ms(&self) -> Option<u64> {
        let expires_at_ms = self.state.reviews.first().map(|(_, at_ms)| at_ms.saturating_add(1));
        self.waiting.wakes_at_ms().into_iter().chain(expires_at_ms).min()
    }

    /// How many wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.waiters.len() as u64
    }

    /// Tells everyone that waits that the gate ends.
    pub fn abandon_waiting(&mut self) {
        for waiter in self.waiting.take() {
            (waiter.reply)(Err(Refusal::Closed));
        }
    }

    /// Until when something blocked waits, in its own right or as a call that has cooled; `None` where it does not.
    pub(super) fn waits(&self, action: &Action, decision: &Decision, since_ms: u64, now_ms: u64) -> Option<u64> {
        if !is_fenced(decision) || self.waiting.is_full_for(&action.agent) {
            return None;
        }
        let until_ms = since_ms.saturating_add(self.wait_ms(action));
        (now_ms < until_ms).then_some(until_ms)
    }

    /// When a waiter is looked after: when its time is up, or when a claim on what it reads runs out.
    pub(super) fn wakes_at(&self, decision: &Decision, until_ms: u64, now_ms: u64) -> u64 {
        let claims = decision.reads.iter().filter_map(|read| self.state.fences.claim_on(&read.fact, now_ms));
        claims.map(|(_, claim)| claim.expires_at_ms).chain([until_ms]).min().unwrap_or(until_ms)
    }

    /// Gives everyone that waits a turn, if a fence was freed or someone's time has come.
    pub(super) fn try_waiting(&mut self, batch: &mut Batch, keys: &mut Window, now_ms: u64) {
        let is_due = self.waiting.wakes_at_ms().is_some_and(|wakes_at_ms| wakes_at_ms <= now_ms);
        if !std::mem::take(&mut self.waiting.freed) && !is_due {
            return;
        }
        for waiter in self.waiting.take() {
            // Anyone who must wait on enters the room again, behind those who came before.
            let Waiter { what, reply, since_ms, .. } = waiter;
            match what {
                // It has waited longer than the window goes back.
                Waits::Action(action, sought) if sought.as_of < keys.start() => {
                    let again = Submission::new(Request::Act(action), reply);
                    batch.again.push(Submission { since_ms: Some(since_ms), ..again });
                }
                Waits::Action(action, sought) => {
                    self.act(batch, keys, (action, sought), reply, now_ms, Some(since_ms));
                }
                Waits::Dispatch(effect, _) => self.dispatch(batch, effect, reply, now_ms, Some(since_ms)),
            }
        }
    }

    fn wait_ms(&self, action: &Action) -> u64 {
        let kind = self.state.pact(&action.pact).and_then(|pact| pact.actions.get(&action.action));
        kind.map_or(0, |kind| kind.wait_ms)
    }
}

/// Whether a fence is in the way, and nothing else.
fn is_fenced(decision: &Decision) -> bool {
    decision.blocked().is_some_and(|blocked| matches!(blocked.code(), Code::FactClaimed | Code::FactFenced))
}
