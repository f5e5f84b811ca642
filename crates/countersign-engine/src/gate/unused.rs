//! Rights that were not used for long (MASS-13): what an agent could do, and has not asked for.
//!
//! What an agent could do follows from its fact and the pacts as they are now. What it asked for is read from the entries of that time: the
//! action type stands in payloads, so it is looked for there and kept nowhere. Whoever asks pays for reading so much of the log.

use super::{Gate, LogError};
use countersign_core::action::Action;
use countersign_core::decide::rights;
use countersign_core::ids::{ActionName, AgentId, FactId, PactName};
use countersign_core::pact::catalogue::AGENT;
use countersign_core::record::{Entry, Event};
use countersign_core::value::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How many entries are read at once.
const AT_ONCE: u64 = 256;

/// An action type that an agent could do, and did not ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedRight {
    pub agent: AgentId,
    pub pact: PactName,
    pub action: ActionName,
    /// Since when the agent has the roles that it has, in ledger milliseconds.
    pub held_since_ms: u64,
    /// An action of this agent under this pact whose payload is erased: it may have been of this type.
    pub maybe_used_in: Option<u64>,
}

/// What was found of a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedRights {
    /// Since when, in ledger milliseconds.
    pub since_ms: u64,
    /// How many entries were read.
    pub entries: u64,
    /// By agent, pact and action type.
    pub rights: Vec<UnusedRight>,
}

/// What was asked for.
#[derive(Default)]
struct Uses {
    used: BTreeSet<(AgentId, PactName, ActionName)>,
    /// Of erased payloads no one knows which action type it was.
    erased: BTreeMap<(AgentId, PactName), u64>,
    /// Pacts that were published first in this time: no one had a right under them for all of it.
    new: BTreeSet<PactName>,
}

impl Uses {
    /// Every member of a chain uses its own right.
    fn action(&mut self, action: &Action) {
        let members = action.chain.iter().flat_map(|chain| chain.agents());
        for agent in members.chain([&action.agent]) {
            self.used.insert((agent.clone(), action.pact.clone(), action.action.clone()));
        }
    }

    fn entry(&mut self, entry: &Entry) {
        match &entry.event {
            Event::Action(decided) => self.action(&decided.action),
            Event::Group(group) => group.actions.iter().for_each(|action| self.action(action)),
            Event::Pact(pact) if pact.version == 1 => drop(self.new.insert(pact.name.clone())),
            Event::Erased(leaf) => {
                if let Some(pact) = &leaf.pact {
                    self.erased.insert((leaf.by.clone(), pact.name.clone()), leaf.index);
                }
            }
            _ => {}
        }
    }
}

impl Gate {
    /// The rights of active agents that none of their actions used in so long. One that an agent has had for less is not told, nor one
    /// under a pact that is newer. Reads that much of the log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn unused_rights(&self, for_ms: u64) -> Result<UnusedRights, LogError> {
        let (now_ms, end) = (self.now_ms(), self.view().position);
        let since_ms = now_ms.saturating_sub(for_ms);
        let start = self.first_since(since_ms, end)?;
        let mut uses = Uses::default();
        let mut at = start;
        while at < end {
            let read = self.read_log_range(at, AT_ONCE.min(end - at))?;
            let Some(last) = read.last() else { break };
            at = last.index.saturating_add(1);
            for stored in read {
                uses.entry(&stored.decode()?);
            }
        }
        let mut agents = Vec::new();
        self.each_fact_of(AGENT, |fact| {
            let standing = fact.value.as_ref().and_then(|value| value.get("standing"));
            if matches!(standing, Some(Value::String(standing)) if standing == "active") {
                agents.extend(AgentId::new(fact.id.id()).map(|agent| (agent, fact.changed("roles").at_ms)));
            }
        });
        agents.sort();
        let mut unused = Vec::new();
        for (agent, held_since_ms) in agents.into_iter().filter(|(_, held_since_ms)| *held_since_ms <= since_ms) {
            // One agent at a time: no one waits for the report as a whole.
            let view = self.view();
            if view.fact(&FactId::of_agent(&agent)).is_none() {
                continue;
            }
            for pact in view.pacts().filter(|pact| !uses.new.contains(&pact.name)) {
                for action in rights(&agent, pact, &view, now_ms) {
                    let right = (agent.clone(), pact.name.clone(), action.clone());
                    if uses.used.contains(&right) {
                        continue;
                    }
                    let (agent, pact, action) = right;
                    let maybe_used_in = uses.erased.get(&(agent.clone(), pact.clone())).copied();
                    unused.push(UnusedRight { agent, pact, action, held_since_ms, maybe_used_in });
                }
            }
        }
        Ok(UnusedRights { since_ms, entries: end - start, rights: unused })
    }

    /// The first entry from this time on: ledger time never goes back.
    fn first_since(&self, since_ms: u64, end: u64) -> Result<u64, LogError> {
        let (mut low, mut high) = (0, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.read_log(middle)?.leaf()?.time < since_ms { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}
