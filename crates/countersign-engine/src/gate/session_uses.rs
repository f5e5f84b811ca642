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

/// When the open sessions of each agent were used last, in ledger milliseconds.
#[derive(Debug, Default)]
pub(crate) struct SessionUses(Mutex<HashMap<AgentId, HashMap<SessionId, u64>>>);

impl SessionUses {
    /// Those of a state that was opened just now.
    pub(crate) fn of(state: &State, now_ms: u64) -> Self {
        let uses = Self::default();
        let sessions = state.facts.iter().filter(|fact| fact.id.ty().as_str() == SESSION);
        let open = sessions.filter_map(|fact| Session::read(fact.id.id().parse().ok()?, Arc::clone(fact)));
        open.for_each(|session| uses.opened(&session.agent, session.id, now_ms));
        uses
    }

    /// A session was opened.
    pub(crate) fn opened(&self, agent: &AgentId, session: SessionId, now_ms: u64) {
        self.0.lock().entry(agent.clone()).or_default().insert(session, now_ms);
    }

    /// A session is used, if it is open.
    pub(crate) fn used(&self, agent: &AgentId, session: SessionId, now_ms: u64) {
        if let Some(used) = self.0.lock().get_mut(agent).and_then(|sessions| sessions.get_mut(&session)) {
            *used = now_ms;
        }
    }

    /// A session was closed.
    pub(crate) fn closed(&self, agent: &AgentId, session: SessionId) {
        let mut uses = self.0.lock();
        let Some(sessions) = uses.get_mut(agent) else { return };
        sessions.remove(&session);
        if sessions.is_empty() {
            uses.remove(agent);
        }
    }

    /// Those of an agent that are to be closed: of more than are kept the ones used longest ago, and what was not used for long.
    pub(crate) fn over(&self, agent: &AgentId, now_ms: u64) -> Vec<SessionId> {
        let uses = self.0.lock();
        let Some(sessions) = uses.get(agent) else { return Vec::new() };
        let too_many = sessions.len().saturating_sub(SESSIONS_PER_AGENT_MAX);
        let is_unused = |used: u64| now_ms.saturating_sub(used) > UNUSED_MS_MAX;
        if too_many == 0 && !sessions.values().any(|used| is_unused(*used)) {
            return Vec::new();
        }
        let mut by_use: Vec<(u64, SessionId)> = sessions.iter().map(|(session, used)| (*used, *session)).collect();
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
}
