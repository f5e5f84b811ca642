//! How many observations may wait for facts outside at a time: each holds a thread until somebody else answers.

use countersign_core::ids::AgentId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// So many of one agent.
const PER_AGENT: usize = 8;
/// So many in all: half of the threads that may wait stay for those who read the ledger.
const IN_ALL: usize = 48;

/// The observations that wait.
#[derive(Debug, Default)]
pub struct ExternalReads(Mutex<HashMap<AgentId, usize>>);

/// A place among them; dropping it gives it back.
#[derive(Debug)]
pub struct Reading {
    reads: Arc<ExternalReads>,
    agent: AgentId,
}

impl ExternalReads {
    /// A place, if there is one for this agent.
    pub fn begin(self: &Arc<Self>, agent: &AgentId) -> Option<Reading> {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_agent = under_way.get(agent).copied().unwrap_or(0);
        if of_agent >= PER_AGENT || under_way.values().sum::<usize>() >= IN_ALL {
            return None;
        }
        under_way.insert(agent.clone(), of_agent + 1);
        Some(Reading { reads: Arc::clone(self), agent: agent.clone() })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut under_way = self.reads.0.lock().unwrap_or_else(PoisonError::into_inner);
        match under_way.get_mut(&self.agent) {
            Some(of_agent) if *of_agent > 1 => *of_agent -= 1,
            _ => drop(under_way.remove(&self.agent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_agent_has_so_many_and_leaves_the_others_theirs() {
        let reads = Arc::new(ExternalReads::default());
        let agent = |number: usize| AgentId::new(format!("agent-{number}")).unwrap();
        let mut taken: Vec<_> = (0..PER_AGENT).map(|_| reads.begin(&agent(0)).unwrap()).collect();
        assert!(reads.begin(&agent(0)).is_none());
        let other = reads.begin(&agent(1)).unwrap();
        taken.pop();
        assert!(reads.begin(&agent(0)).is_some(), "a place that was given back");
        drop((taken, other));
        assert!(reads.0.lock().unwrap().is_empty(), "nothing is kept of those that are done");
        let all: Vec<_> = (0..2 * IN_ALL).filter_map(|number| reads.begin(&agent(number))).collect();
        assert_eq!(all.len(), IN_ALL);
    }
}
