//! When each open session was used last. An agent keeps only so many, and none that it has not used for a day: clients that end without
//! a word leave theirs open, and what was read in a session is held in memory.
//!
//! It follows from the ledger which sessions are open. When they were used is only in memory: after a restart all were used just now. That
//! a session is closed is an entry like any other.

use countersign_core::ids::AgentId;
use countersign_core::session::{SESSION, Session, SessionId};
use countersign_core::state::State;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The most open sessions of an agent. Whoever has more opens one for each call, and those used longest ago are of no use to anyone.
pub const SESSIONS_PER_AGENT_MAX: usize = 1024;
/// How long a session stays open that no one uses, in ledger milliseconds: longer than anyone thinks about one call.
const UNUSED_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The most that are closed when one is opened, so that opening one stays quick.
const CLOSED_AT_ONCE_MAX: usize = 16;

/// How many sessions an agent may have opened, or gone on in, and not used since. Each is an entry, and any active agent may open one, also
/// one that no pact lets do anything. A fleet of gateways that starts at once opens one each, and reads or acts in it.
pub const IDLE_SESSIONS_MAX: u64 = 128;
/// After how long one of them counts no longer, in ledger milliseconds.
pub const IDLE_SESSION_MS: u64 = 10_000;

/// When the open sessions of each agent were used last, and how many it opens and does not use.
#[derive(Debug, Default)]
pub(crate) struct SessionUses(Mutex<HashMap<AgentId, OfAgent>>);

#[derive(Debug, Default)]
struct OfAgent {
    open: HashMap<SessionId, Use>,
    /// When the last of those that count counts no longer, in ledger milliseconds.
    counts_until_ms: u64,
}

/// An open session.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// When it was used last, in ledger milliseconds.
    at_ms: u64,
    /// Whether it served nothing yet since it was opened, or gone on in.
    is_idle: bool,
}

impl OfAgent {
    /// One counts no longer: it served, or was not opened after all.
    fn give_back(&mut self) {
        self.counts_until_ms = self.counts_until_ms.saturating_sub(IDLE_SESSION_MS);
    }
}

impl SessionUses {
    /// Those of a state that was opened just now.
    pub(crate) fn of(state: &State, now_ms: u64) -> Self {
        let uses = Self::default();
        let sessions = state.facts.iter().filter(|fact| fact.id.ty().as_str() == SESSION);
        let open = sessions.filter_map(|fact| Session::read(fact.id.id().parse().ok()?, Arc::clone(fact)));
        open.for_each(|session| uses.note(&session.agent, session.id, now_ms, false));
        uses
    }

    /// Counts one more session that an agent is about to open or to go on in; false where it is one too many.
    pub(crate) fn begin(&self, agent: &AgentId, now_ms: u64) -> bool {
        let mut uses = self.0.lock();
        let of_agent = uses.entry(agent.clone()).or_default();
        let until_ms = of_agent.counts_until_ms.max(now_ms).saturating_add(IDLE_SESSION_MS);
        let may_begin = until_ms.saturating_sub(now_ms) <= IDLE_SESSIONS_MAX * IDLE_SESSION_MS;
        if may_begin {
            of_agent.counts_until_ms = until_ms;
        }
        may_begin
    }

    /// What was begun did not come to an entry.
    pub(crate) fn give_back(&self, agent: &AgentId, now_ms: u64) {
        let mut uses = self.0.lock();
        let Some(of_agent) = uses.get_mut(agent) else { return };
        of_agent.give_back();
        // An agent that does not exist leaves nothing behind.
        if of_agent.open.is_empty() && of_agent.counts_until_ms <= now_ms {
            uses.remove(agent);
        }
    }

    /// A session was opened, or gone on in.
    pub(crate) fn opened(&self, agent: &AgentId, session: SessionId, now_ms: u64) {
        self.note(agent, session, now_ms, true);
    }

    fn note(&self, agent: &AgentId, session: SessionId, at_ms: u64, is_idle: bool) {
        self.0.lock().entry(agent.clone()).or_default().open.insert(session, Use { at_ms, is_idle });
    }

    /// A session is used, if it is open.
    pub(crate) fn used(&self, agent: &AgentId, session: SessionId, now_ms: u64) {
        if let Some(used) = self.0.lock().get_mut(agent).and_then(|of_agent| of_agent.open.get_mut(&session)) {
            used.at_ms = now_ms;
        }
    }

    /// Something was read in a session, or is to be done in it by an agent that may.
    pub(crate) fn served(&self, agent: &AgentId, session: SessionId) {
        let mut uses = self.0.lock();
        let Some(of_agent) = uses.get_mut(agent) else { return };
        let used = of_agent.open.get_mut(&session);
        if used.is_some_and(|used| std::mem::take(&mut used.is_idle)) {
            of_agent.give_back();
        }
    }

    /// A session was closed.
    pub(crate) fn closed(&self, agent: &AgentId, session: SessionId) {
        if let Some(of_agent) = self.0.lock().get_mut(agent) {
            of_agent.open.remove(&session);
        }
    }

    /// Those of an agent that are to be closed: of more than are kept the ones used longest ago, and what was not used for long.
    pub(crate) fn over(&self, agent: &AgentId, now_ms: u64) -> Vec<SessionId> {
        let uses = self.0.lock();
        let Some(OfAgent { open, .. }) = uses.get(agent) else { return Vec::new() };
        let too_many = open.len().saturating_sub(SESSIONS_PER_AGENT_MAX);
        let is_unused = |used: u64| now_ms.saturating_sub(used) > UNUSED_MS_MAX;
        if too_many == 0 && !open.values().any(|used| is_unused(used.at_ms)) {
            return Vec::new();
        }
        let mut by_use: Vec<(u64, SessionId)> = open.iter().map(|(session, used)| (used.at_ms, *session)).collect();
        by_use.sort_unstable();
        let over = by_use.into_iter().enumerate().filter(|(at, (used, _))| *at < too_many || is_unused(*used));
        over.map(|(_, (_, session))| session).take(CLOSED_AT_ONCE_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_closed_first_and_what_is_used_stays() {
        let (uses, agent) = (SessionUses::default(), AgentId::new("a").unwrap());
        for at in 0..=SESSIONS_PER_AGENT_MAX as u64 {
            uses.opened(&agent, SessionId(at), at);
        }
        uses.used(&agent, SessionId(0), 9_000);
        assert_eq!(uses.over(&agent, 10_000), [SessionId(1)]);
        uses.closed(&agent, SessionId(1));
        assert!(uses.over(&agent, 10_000).is_empty());
        uses.used(&agent, SessionId(1), 10_000);
        assert!(uses.over(&agent, 10_000).is_empty(), "it is closed");
        assert!(uses.over(&AgentId::new("b").unwrap(), 10_000).is_empty());
        assert_eq!(uses.over(&agent, UNUSED_MS_MAX + 5), [2, 3, 4].map(SessionId));
    }

    #[test]
    fn sessions_that_serve_nothing_are_few_and_one_that_serves_costs_nothing() {
        let (uses, agent) = (SessionUses::default(), AgentId::new("a").unwrap());
        for at in 0..IDLE_SESSIONS_MAX {
            assert!(uses.begin(&agent, 5_000));
            uses.opened(&agent, SessionId(at), 5_000);
        }
        assert!(!uses.begin(&agent, 5_000));
        assert!(uses.begin(&AgentId::new("b").unwrap(), 5_000), "another has its own");
        assert!(!uses.begin(&agent, 14_999));
        assert!(uses.begin(&agent, 15_000), "one in ten seconds");
        assert!(!uses.begin(&agent, 15_000));
        // Serving twice in one session does not make room for two, nor does closing it.
        uses.served(&agent, SessionId(7));
        uses.served(&agent, SessionId(7));
        uses.closed(&agent, SessionId(8));
        assert_eq!([uses.begin(&agent, 15_000), uses.begin(&agent, 15_000)], [true, false]);
        uses.give_back(&agent, 15_000);
        assert_eq!([uses.begin(&agent, 15_000), uses.begin(&agent, 15_000)], [true, false]);
        // Whoever uses every session opens as many as it likes.
        let reader = AgentId::new("c").unwrap();
        for at in 0..10 * IDLE_SESSIONS_MAX {
            assert!(uses.begin(&reader, 5_000), "{at}");
            uses.opened(&reader, SessionId(at), 5_000);
            uses.served(&reader, SessionId(at));
        }
        let stranger = AgentId::new("d").unwrap();
        assert!(uses.begin(&stranger, 5_000));
        uses.give_back(&stranger, 5_000);
        assert!(!uses.0.lock().contains_key(&stranger));
    }
}
