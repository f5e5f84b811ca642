//! Reading: observations, facts and their history, all at synced positions.

use super::Gate;
use super::outside::LogError;
use crate::token::Observation;
use countersign_core::action::Observed;
use countersign_core::fact::Fact;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::record::{Leaf, decode};
use countersign_core::value::Attributes;
use rand_chacha::rand_core::Rng as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An answer to an observation.
#[derive(Debug)]
pub struct Observe {
    /// The sealed token.
    pub token: String,
    /// When, in ledger milliseconds.
    pub observed_at_ms: u64,
    /// The ledger position shown.
    pub position: u64,
    /// The facts, in the order asked for.
    pub facts: Vec<Shown>,
}

/// One fact as it was shown.
#[derive(Debug)]
pub struct Shown {
    /// The fact.
    pub id: FactId,
    /// Its current version; `None` where there is none.
    pub fact: Option<Arc<Fact>>,
}

/// One version of a fact in its history.
#[derive(Debug)]
pub struct Version {
    /// The version.
    pub version: u64,
    /// Its value; `None` where it deleted the fact.
    pub value: Option<Attributes>,
    /// When it was written.
    pub written_at_ms: u64,
    /// Who wrote it.
    pub written_by: AgentId,
    /// In which entry.
    pub entry: u64,
}

/// Why history ends early.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Gate {
    /// Shows facts to an agent and seals what was shown. Writes nothing.
    pub fn observe(&self, agent: AgentId, ids: Vec<FactId>) -> Observe {
        // Time is read before the facts: an observation is never younger than what it shows.
        let observed_at_ms = self.now_ms();
        let (position, facts) = {
            let view = self.view();
            let shown = ids.into_iter().map(|id| {
                let fact = view.state.facts.get(&id).cloned();
                Shown { id, fact }
            });
            (view.position, shown.collect::<Vec<_>>())
        };
        let observed = facts.iter().map(|shown| Observed {
            fact: shown.id.clone(),
            version: shown.fact.as_ref().map_or(0, |fact| fact.version()),
            at_ms: observed_at_ms,
            value: shown.fact.as_ref().and_then(|fact| fact.value.clone()),
        });
        let observation = Observation { agent, position, observed: observed.collect() };
        let mut nonce = [0; 24];
        self.shared.nonces.lock().fill_bytes(&mut nonce);
        let token = self.shared.sealer.seal(&observation, nonce);
        self.shared.counters.observed.fetch_add(1, Ordering::Relaxed);
        Observe { token, observed_at_ms, position, facts }
    }

    /// The current version of a fact.
    pub fn fact(&self, id: &FactId) -> Option<Arc<Fact>> {
        self.view().state.facts.get(id).cloned()
    }

    /// The versions of a fact, newest first, at most `limit`, from below `before` on. Ends early at a version that was
    /// erased; the second part of the answer says so.
    pub fn history(&self, id: &FactId, before: u64, limit: usize) -> Result<(Vec<Version>, Option<u64>), HistoryError> {
        let mut versions = Vec::new();
        let mut next = self.fact(id).map(|fact| fact.written.entry);
        while let Some(entry) = next {
            if versions.len() >= limit {
                break;
            }
            let stored = self.read_log(entry)?;
            let Some(payload) = &stored.payload else { return Ok((versions, Some(entry))) };
            let unreadable = |error: countersign_core::record::DecodeError| LogError::Damaged(entry, error.to_string());
            let leaf = Leaf::decode(&stored.leaf).map_err(unreadable)?;
            let decoded = decode(&leaf, payload).map_err(unreadable)?;
            let Some(write) = decoded.writes().iter().find(|write| write.fact == *id) else { break };
            next = write.previous_entry;
            if write.version < before {
                versions.push(Version {
                    version: write.version,
                    value: write.value.clone(),
                    written_at_ms: leaf.time,
                    written_by: leaf.by().map_err(unreadable)?,
                    entry,
                });
            }
        }
        Ok((versions, None))
    }
}
