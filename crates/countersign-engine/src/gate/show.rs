//! Observations that are entries: because their agents ask for it (MASS-11), or because they count to a budget (MASS-12); and what proves
//! an entry to others.
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
use countersign_core::observation::{ExternalFacts as Read, Observation, ObservationRefusal, Seen};
use countersign_core::observing::{Asked, count};
use countersign_core::state::ReadState as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// What the sequencer found for an observation, at its place.
#[derive(Debug)]
pub struct Found {
    /// What the agent is shown.
    pub observation: Observation,
    /// The facts, whole, in the same order: the token seals them.
    pub facts: Vec<Option<Arc<Fact>>>,
    /// The position shown, and when.
    pub position: u64,
    pub at_ms: u64,
}

/// Where the sequencer puts that.
pub type FoundFacts = Arc<OnceLock<Found>>;

/// What opens the commitment of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub salt: [u8; 16],
    /// The payload as it is stored: text.
    pub payload: String,
}

/// Why nothing was shown.
#[derive(Debug, thiserror::Error)]
pub enum NotShown {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl From<NotObservable> for NotShown {
    fn from(NotObservable { agent, facts }: NotObservable) -> Self {
        Self::Refused(ObservationRefusal::NotObservable { agent, facts }.into())
    }
}

/// What proves what an agent was shown.
#[derive(Debug)]
pub struct Attested {
    pub entered: Entered,
    pub opening: Opening,
}

impl Gate {
    /// Whether showing these facts to an agent now counts to a budget, so that it means waiting for the disk.
    pub fn counts_observing(&self, agent: &AgentId, ids: &[FactId]) -> bool {
        let now_ms = self.now_ms();
        let view = self.view();
        let asked = |fact| {
            let is_elsewhere = view.rest.catalogue.source(FactId::ty(fact)).is_some();
            let value = || view.current(fact).and_then(|fact| fact.value.as_ref());
            Asked { fact, value: (!is_elsewhere).then(value) }
        };
        let asked: Vec<Asked<'_>> = ids.iter().map(asked).collect();
        count(&view, agent, &asked, now_ms).map_or(true, |counts| !counts.is_empty())
    }

    /// Shows facts to an agent. What counts to a budget, and what is to be attested, is an entry first: durable before anything is handed
    /// out. Both wait for the disk.
    ///
    /// # Errors
    /// If the agent may not be shown all of it, or it cannot be entered.
    pub fn show(
        &self,
        (agent, auth): (AgentId, Auth),
        ids: Vec<FactId>,
        outside: &ExternalFacts,
        attest: bool,
    ) -> Result<(Observe, Option<Attested>), NotShown> {
        // Who has no right costs no place in the queue.
        self.may_observe(&agent, &ids)?;
        if !attest && !self.counts_observing(&agent, &ids) {
            return Ok((self.observe_with(agent, ids, outside)?, None));
        }
        let (found, external) = (FoundFacts::default(), Box::new(outside.to_core()));
        let request = Request::Observe { agent: agent.clone(), auth, ids, external, attest, found: Arc::clone(&found) };
        let answer = self.call(request).inspect_err(|refusal| self.deny_observing(&agent, refusal))?;
        let found = found.get().ok_or_else(Refusal::unanswered)?;
        let attested = match answer {
            Answer::Entered(entered) if attest => {
                let opening = self.opening(entered.entry.index)?;
                Some(Attested { entered, opening })
            }
            _ => None,
        };
        Ok((self.seal_found(agent, found, outside), attested))
    }

    fn deny_observing(&self, agent: &AgentId, refusal: &Refusal) {
        let Refusal::Observation(refusal) = refusal else { return };
        match refusal {
            ObservationRefusal::NotObservable { facts, .. } => {
                let asked = facts.first().map_or("", |fact| fact.ty().as_str());
                self.deny(agent, DenialCode::NotObservable, asked);
            }
            ObservationRefusal::Exceeded { exceeded, .. } => {
                self.deny(agent, DenialCode::ObservingExceeded, exceeded.type_name());
            }
            ObservationRefusal::Agent(_) | ObservationRefusal::TooLong(_) => {}
        }
    }

    /// The answer to an observation that the sequencer made.
    fn seal_found(&self, agent: AgentId, found: &Found, outside: &ExternalFacts) -> Observe {
        let Found { observation, facts, position, at_ms } = found;
        let (position, observed_at_ms) = (*position, observation.began_ms.unwrap_or(*at_ms));
        let observed = |(seen, fact): (&Seen, &Option<Arc<Fact>>)| Observed {
            fact: seen.fact.clone(),
            version: fact.as_ref().map_or(Version::NONE, |fact| fact.current()),
            at_ms: observed_at_ms,
            value: fact.as_ref().and_then(|fact| fact.value.clone()),
        };
        let facts = observation.facts.iter().zip(facts);
        let withheld = observation.facts.iter().any(|seen| !seen.withheld.is_empty());
        let length = if withheld { Length::Padded } else { Length::Exact };
        let token = self.seal(&Sealed { agent, position, observed: facts.clone().map(observed).collect() }, length);
        let facts = {
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
        Observe { token, observed_at_ms, position, facts }
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
