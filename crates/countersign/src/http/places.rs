//! Places of those that wait: so many of one agent, and so many in all. Anyone who waits holds a thread or a connection meanwhile, which
//! one agent must not be able to take from all others.

use countersign_core::ids::AgentId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Who waits.
#[derive(Debug)]
pub struct Places {
    per_agent: usize,
    in_all: usize,
    taken: Mutex<HashMap<AgentId, usize>>,
}

/// A place; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    agent: AgentId,
}

impl Places {
    /// Places for observations that read external facts: half of the threads that may wait stay for those who read the ledger.
    pub fn of_external_reads() -> Arc<Self> {
        Self::new(8, 48)
    }

    /// Places for requests that wait for an effect: far fewer than the connections that there are with 1,024 descriptors.
    pub fn of_waits() -> Arc<Self> {
        Self::new(64, 256)
    }

    /// Places for inboxes that are followed as they fill: each keeps a connection for as long as it is read.
    pub fn of_followed() -> Arc<Self> {
        Self::new(4, 128)
    }

    fn new(per_agent: usize, in_all: usize) -> Arc<Self> {
        Arc::new(Self { per_agent, in_all, taken: Mutex::default() })
    }

    /// A place, if there is one for this agent.
    pub fn begin(self: &Arc<Self>, agent: &AgentId) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_agent = taken.get(agent).copied().unwrap_or(0);
        if of_agent >= self.per_agent || taken.values().sum::<usize>() >= self.in_all {
            return None;
        }
        taken.insert(agent.clone(), of_agent + 1);
        Some(Place { places: Arc::clone(self), agent: agent.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.agent) {
            Some(of_agent) if *of_agent > 1 => *of_agent -= 1,
            _ => drop(taken.remove(&self.agent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_agent_has_so_many_and_leaves_the_others_theirs() {
        let (per_agent, in_all) = (8, 48);
        let places = Places::new(per_agent, in_all);
        let agent = |number: usize| AgentId::new(format!("agent-{number}")).unwrap();
        let mut taken: Vec<_> = (0..per_agent).map(|_| places.begin(&agent(0)).unwrap()).collect();
        assert!(places.begin(&agent(0)).is_none());
        let other = places.begin(&agent(1)).unwrap();
        taken.pop();
        assert!(places.begin(&agent(0)).is_some(), "a place that was given back");
        drop((taken, other));
        assert!(places.taken.lock().unwrap().is_empty(), "nothing is kept of those that are done");
        let all: Vec<_> = (0..2 * in_all).filter_map(|number| places.begin(&agent(number))).collect();
        assert_eq!(all.len(), in_all);
    }
}
