//! Reading: observations, facts and their history, all at synced positions.

use super::Gate;
use super::log_reader::LogError;
use crate::outbox::{Adapters, Reading};
use crate::token::{Length, Observation};
use crate::view::Synced;
use countersign_core::action::Observed;
use countersign_core::call::Found;
use countersign_core::decide::{external_fact, external_read};
use countersign_core::denial::DenialCode;
use countersign_core::disclose::{self, disclose_value};
use countersign_core::fact::{Fact, Version};
use countersign_core::ids::{AgentId, FactId};
use countersign_core::observation::Seen;
use countersign_core::pact::Atomicity;
use countersign_core::record::{Entry, Event};
use countersign_core::state::SHARDS;
use countersign_core::value::Attributes;
use rand_chacha::rand_core::Rng as _;
use smol_str::SmolStr;
use std::collections::BTreeMap;
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
    pub facts: Vec<ShownFact>,
}

/// One fact as it was shown.
#[derive(Debug)]
pub struct ShownFact {
    /// The fact.
    pub id: FactId,
    pub version: Version,
    /// What the agent may see of its value; `None` where there is none.
    pub value: Option<Attributes>,
    /// The attributes of its type that the agent may not see.
    pub withheld: Vec<SmolStr>,
    /// When this version was written; `None` where there never was one. Of a fact outside, when it was read.
    pub written_at_ms: Option<u64>,
    /// How strong a decision on it is.
    pub atomicity: Atomicity,
    /// What the outside answered when it was read, whole; only of facts outside of which the agent may see everything.
    pub answer: Option<String>,
}

/// An agent asked for facts that no grant lets it observe. Whether they exist is not said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{agent} may not observe {}", .facts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
pub struct NotObservable {
    pub agent: AgentId,
    pub facts: Vec<FactId>,
}

/// Facts outside as they were read.
#[derive(Debug, Default)]
pub struct ExternalFacts {
    /// When reading began, in ledger milliseconds; `None` where nothing was read.
    began_ms: Option<u64>,
    facts: BTreeMap<FactId, ExternalFact>,
}

impl ExternalFacts {
    /// When reading began, in ledger milliseconds; `None` where nothing was read.
    pub(super) fn began_ms(&self) -> Option<u64> {
        self.began_ms
    }

    /// Each fact that was read; `None` for what is not there.
    pub(super) fn each(&self) -> impl Iterator<Item = (&FactId, Option<&Arc<Fact>>)> {
        self.facts.iter().map(|(id, read)| (id, read.fact.as_ref()))
    }

    /// What was answered when a fact was read, whole.
    pub(super) fn answer_to(&self, id: &FactId) -> Option<String> {
        self.facts.get(id)?.answer.clone()
    }

    /// What was read; `None` for what is not there.
    pub(super) fn values(&self) -> Vec<(FactId, Option<Attributes>)> {
        let value = |read: &ExternalFact| read.fact.as_ref().and_then(|fact| fact.value.clone());
        self.facts.iter().map(|(id, read)| (id.clone(), value(read))).collect()
    }
}

/// A fact outside as it was read.
#[derive(Debug)]
struct ExternalFact {
    /// `None` where it is not there.
    fact: Option<Arc<Fact>>,
    answer: Option<String>,
}

/// A fact outside could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fact} could not be read: {why}")]
pub struct NotRead {
    pub fact: FactId,
    pub why: WhyUnread,
}

/// Why nothing was read outside. The gate's own reasons are told apart from what others said, whose words may imitate them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyUnread {
    /// The gate's settings name no such adapter.
    #[error("the gate has no adapter or MCP server `{0}`")]
    NoAdapter(SmolStr),
    /// The fact's source cannot have a fact of this id.
    #[error("its source has no fact of this id; check how the pact builds it")]
    NoSource,
    /// The adapter, or what is behind it, says why.
    #[error("{0}")]
    Said(Box<Found>),
}

/// One version of a fact in its history.
#[derive(Debug)]
pub struct PastVersion {
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
    #[error("{0}")]
    Log(#[from] LogError),
}

impl Gate {
    /// Shows facts to an agent, as far as the published pacts let it see them, and seals what they are. Writes nothing, so what counts to
    /// a budget is refused: see [`Self::show`].
    ///
    /// The token holds the facts whole, so that a decision can tell what changed; it is sealed, and does not show them.
    pub fn observe(&self, agent: AgentId, ids: Vec<FactId>) -> Result<Observe, NotObservable> {
        self.observe_with(agent, ids, &ExternalFacts::default())
    }

    /// Refuses what no grant could let an agent observe, before anything is read for it.
    pub fn may_observe(&self, agent: &AgentId, ids: &[FactId]) -> Result<(), NotObservable> {
        let refused: Vec<FactId> = {
            let view = self.view();
            let may = |id: &&FactId| match view.rest.catalogue.source(id.ty()) {
                Some(_) => disclose::could_disclose(&view, agent, id),
                None => disclose::disclose(&view, agent, id).is_observable(),
            };
            ids.iter().filter(|id| !may(id)).cloned().collect()
        };
        if refused.is_empty() { Ok(()) } else { Err(self.not_observable(agent.clone(), refused)) }
    }

    /// Reads those of the facts that live outside, for an observation. Waits for whoever keeps them.
    pub fn read_external(&self, ids: &[FactId], adapters: &Adapters) -> Result<ExternalFacts, NotRead> {
        let mut read = ExternalFacts::default();
        for id in ids {
            let (source, schema) = {
                let view = self.view();
                let schema = view.rest.catalogue.types().get(id.ty()).cloned().unwrap_or_default();
                (view.rest.catalogue.source(id.ty()).cloned(), schema)
            };
            let Some(source) = source else { continue };
            let not_read = |why: WhyUnread| NotRead { fact: id.clone(), why };
            let adapter = adapters.get(&source.adapter);
            let adapter = adapter.ok_or_else(|| not_read(WhyUnread::NoAdapter(source.adapter.clone())))?;
            // Time is read first: from here on the value may change without anybody here knowing.
            let now_ms = self.now_ms();
            read.began_ms.get_or_insert(now_ms);
            let how = external_read(&source, id).ok_or_else(|| not_read(WhyUnread::NoSource))?;
            let said = |why: Found| not_read(WhyUnread::Said(Box::new(why)));
            let Reading { value, answer } = adapter.observe(&how, &schema).map_err(said)?;
            if let Some(value) = &value {
                value.check(&schema).map_err(|error| said(error.into()))?;
            }
            let by = AgentId::new(source.adapter.as_str()).unwrap_or_else(|_| AgentId::gate());
            let fact = value.map(|value| external_fact(id, &value, &by, now_ms));
            read.facts.insert(id.clone(), ExternalFact { fact, answer });
        }
        Ok(read)
    }

    /// Whether an agent may be told that a fact could not be read, and why: only if a grant shows the fact whatever its value is.
    /// Others must not find out by an error whether there is such a fact.
    pub fn may_be_told_of(&self, agent: &AgentId, id: &FactId) -> bool {
        disclose_value(&self.view(), agent, id, None).is_observable()
    }

    /// Shows facts to an agent; those that live outside as they were read right before.
    pub(super) fn observe_with(
        &self,
        agent: AgentId,
        ids: Vec<FactId>,
        outside: &ExternalFacts,
    ) -> Result<Observe, NotObservable> {
        if self.counts_observing(&agent, &ids) {
            return Err(self.not_observable(agent, ids));
        }
        // Time is read before the facts: an observation is never younger than what it shows.
        let observed_at_ms = outside.began_ms.unwrap_or_else(|| self.now_ms());
        let (position, facts, observed) = {
            let view = self.view();
            let (mut facts, mut observed, mut refused) = (Vec::with_capacity(ids.len()), Vec::new(), Vec::new());
            for id in ids {
                let read = outside.facts.get(&id);
                let fact = read.map_or_else(|| view.fact(&id), |read| read.fact.as_ref());
                let answer = read.and_then(|read| read.answer.clone());
                match show(&view, &agent, &id, fact, answer) {
                    Some(shown) => {
                        let value = fact.and_then(|fact| fact.value.clone());
                        observed.push(Observed { fact: id, version: shown.version, at_ms: observed_at_ms, value });
                        facts.push(shown);
                    }
                    None => refused.push(id),
                }
            }
            if !refused.is_empty() {
                drop(view);
                return Err(self.not_observable(agent, refused));
            }
            (view.position, facts, observed)
        };
        let withheld = facts.iter().any(|shown| !shown.withheld.is_empty());
        let length = if withheld { Length::Padded } else { Length::Exact };
        let token = self.seal(&Observation { agent, position, observed }, length);
        self.shared.counters.observed.fetch_add(1, Ordering::Relaxed);
        Ok(Observe { token, observed_at_ms, position, facts })
    }

    /// Seals what an agent was shown.
    pub(super) fn seal(&self, observation: &Observation, length: Length) -> String {
        let mut nonce = [0; 24];
        self.shared.nonces.lock().fill_bytes(&mut nonce);
        self.shared.sealer.seal(observation, length, nonce)
    }

    /// Counts a denied observation. Which facts were asked for stays with the caller: an id may be personal data.
    pub(crate) fn not_observable(&self, agent: AgentId, facts: Vec<FactId>) -> NotObservable {
        self.deny(&agent, DenialCode::NotObservable, facts.first().map_or("", |fact| fact.ty().as_str()));
        NotObservable { agent, facts }
    }

    /// The current version of a fact.
    pub fn fact(&self, id: &FactId) -> Option<Arc<Fact>> {
        self.view().fact(id).cloned()
    }

    /// Looks at every fact of a type, deleted ones among them, in no order. Writers are held up for one shard at a time.
    pub fn each_fact_of(&self, ty: &str, mut look: impl FnMut(&Arc<Fact>)) {
        for shard in 0..SHARDS {
            self.view().shard(shard).filter(|fact| fact.id.ty().as_str() == ty).for_each(&mut look);
        }
    }

    /// The versions of a fact, newest first, at most `limit`, from below `before` on. Ends early at a version that was
    /// erased; the second part of the answer says so.
    ///
    /// The walk always starts at the newest version: each entry knows the one before, and nothing else does. An index of
    /// all versions would be kept in memory for every fact, for a question that is asked about few of them; a page deep
    /// in a long history costs one read for each version above it instead.
    pub fn history(
        &self,
        id: &FactId,
        before: u64,
        limit: usize,
    ) -> Result<(Vec<PastVersion>, Option<u64>), HistoryError> {
        let mut versions = Vec::new();
        let mut next = self.fact(id).map(|fact| fact.written.entry);
        while let Some(entry) = next {
            if versions.len() >= limit {
                break;
            }
            let stored = self.read_log(entry)?;
            if stored.payload.is_none() {
                return Ok((versions, Some(entry)));
            }
            let decoded = stored.decode()?;
            let Some(write) = decoded.event.writes().iter().find(|write| write.fact == *id) else { break };
            next = write.previous_entry;
            if write.version < before {
                versions.push(PastVersion {
                    version: write.version,
                    value: write.value.clone(),
                    written_at_ms: decoded.time_ms,
                    written_by: self.writer(&decoded)?,
                    entry,
                });
            }
        }
        Ok((versions, None))
    }

    /// Who wrote what an entry wrote, by the log alone; see `State::apply`.
    fn writer(&self, entry: &Entry) -> Result<AgentId, LogError> {
        match &entry.event {
            Event::Settle(settle) => Ok(settle.agent.clone()),
            Event::Feed { held: Some(held), .. } => Ok(self.read_log(*held)?.leaf()?.by),
            _ => Ok(entry.by.clone()),
        }
    }
}

/// A fact as an agent may see it; `None` if not at all.
fn show(
    state: &Synced<'_>,
    agent: &AgentId,
    id: &FactId,
    fact: Option<&Arc<Fact>>,
    answer: Option<String>,
) -> Option<ShownFact> {
    let Seen { fact: id, value, withheld, .. } = Seen::of(state, agent, id, fact)?;
    Some(ShownFact {
        version: fact.map_or(Version::NONE, |fact| fact.current()),
        value,
        // An answer holds everything, so only who may see everything gets it.
        answer: answer.filter(|_| withheld.is_empty()),
        withheld,
        written_at_ms: fact.map(|fact| fact.written.at_ms),
        atomicity: state.rest.atomicity_on(id.ty()),
        id,
    })
}
