//! Observations that are entries, and what proves an entry to others (MASS-11).
//!
//! A third party trusts neither the agent nor, without the log's key, the gate. It is handed the receipt of the entry, which proves the
//! leaf, and the salt and the payload that the leaf commits to. The same three prove what any other entry holds.

use super::{ExternalFacts, Gate, LogError, NotObservable, Observe, ShownFact};
use crate::request::{Answer, Entered, Refusal, Request};
use crate::storage::ReadLog as _;
use crate::token::{Length, Observation as Sealed};
use countersign_core::action::Observed;
use countersign_core::denial::DenialCode;
use countersign_core::fact::{Fact, Version};
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::observation::{ExternalFacts as Read, ObservationRefusal, Seen};
use countersign_core::record::Event;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The facts of an observation as the sequencer found them, whole and in the order asked for.
pub type FoundFacts = Arc<OnceLock<Vec<Option<Arc<Fact>>>>>;

/// What opens the commitment of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub salt: [u8; 16],
    /// The payload as it is stored: text.
    pub payload: String,
}

/// Why an observation was not attested. Nothing was shown.
#[derive(Debug, thiserror::Error)]
pub enum NotAttested {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// An observation that is an entry.
#[derive(Debug)]
pub struct Attested {
    pub shown: Observe,
    pub entered: Entered,
    pub opening: Opening,
}

impl Gate {
    /// Shows facts to an agent and enters what it was shown: as it is at the entry's own place. Waits for the disk.
    ///
    /// # Errors
    /// If the agent may not be shown all of it, or it cannot be entered.
    pub fn observe_attested(
        &self,
        (agent, auth): (AgentId, Auth),
        ids: Vec<FactId>,
        outside: &ExternalFacts,
    ) -> Result<Attested, NotAttested> {
        // Who has no right costs no place in the queue.
        if let Err(NotObservable { agent, facts }) = self.may_observe(&agent, &ids) {
            return Err(Refusal::from(ObservationRefusal::NotObservable { agent, facts }).into());
        }
        let found = FoundFacts::default();
        let external = Box::new(outside.to_core());
        let request = Request::Observe { agent: agent.clone(), auth, ids, external, found: Arc::clone(&found) };
        let entered = match self.call(request) {
            Ok(Answer::Entered(entered)) => entered,
            Ok(_) => return Err(Refusal::unanswered().into()),
            Err(refusal) => {
                if let Refusal::Observation(ObservationRefusal::NotObservable { facts, .. }) = &refusal {
                    let asked = facts.first().map_or("", |fact| fact.ty().as_str());
                    self.deny(&agent, DenialCode::NotObservable, asked);
                }
                return Err(refusal.into());
            }
        };
        let opening = self.opening(entered.entry.index)?;
        let Event::Observation(observation) = &entered.entry.event else { return Err(Refusal::unanswered().into()) };
        let found = found.get().map(Vec::as_slice).unwrap_or_default();
        let observed_at_ms = observation.began_ms.unwrap_or(entered.entry.time_ms);
        let position = entered.entry.index;
        let observed = |(seen, fact): (&Seen, &Option<Arc<Fact>>)| Observed {
            fact: seen.fact.clone(),
            version: fact.as_ref().map_or(Version::NONE, |fact| fact.current()),
            at_ms: observed_at_ms,
            value: fact.as_ref().and_then(|fact| fact.value.clone()),
        };
        let facts = observation.facts.iter().zip(found);
        let sealed = Sealed { agent, position, observed: facts.clone().map(observed).collect() };
        let withheld = observation.facts.iter().any(|seen| !seen.withheld.is_empty());
        let token = self.seal(&sealed, if withheld { Length::Padded } else { Length::Exact });
        let shown = {
            let view = self.view();
            let shown = |(seen, fact): (&Seen, &Option<Arc<Fact>>)| ShownFact {
                id: seen.fact.clone(),
                version: fact.as_ref().map_or(Version::NONE, |fact| fact.current()),
                value: seen.value.clone(),
                withheld: seen.withheld.clone(),
                written_at_ms: fact.as_ref().map(|fact| fact.written.at_ms),
                atomicity: view.rest.atomicity_on(seen.fact.ty()),
                answer: outside.answer_to(&seen.fact).filter(|_| seen.withheld.is_empty()),
            };
            facts.map(shown).collect()
        };
        self.shared.counters.observed.fetch_add(1, Ordering::Relaxed);
        Ok(Attested { shown: Observe { token, observed_at_ms, position, facts: shown }, entered, opening })
    }

    /// What opens the commitment of an entry.
    ///
    /// # Errors
    /// If it cannot be read, or its payload is erased.
    pub fn opening(&self, index: u64) -> Result<Opening, LogError> {
        // Asked first, because it compares the payload with its leaf.
        let stored = self.read_log(index)?;
        let content = self.shared.log.read_entry(index)?.content;
        let gone = || LogError::Damaged(index, "its payload is erased".to_owned());
        let (salt, payload) = content.ok_or_else(gone)?;
        let payload = String::from_utf8(payload).map_err(|error| stored.damaged(error))?;
        Ok(Opening { salt, payload })
    }
}

impl ExternalFacts {
    fn to_core(&self) -> Read {
        let facts = self.each().map(|(id, fact)| (id.clone(), fact.cloned())).collect();
        Read { began_ms: self.began_ms(), facts }
    }
}
