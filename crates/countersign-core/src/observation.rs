//! Observations that are entries: what an agent was shown and when, so that others can be told (MASS-11).
//!
//! An observation writes nothing, so nothing but the agent's token says that it was made. One that is attested is an entry: its payload
//! holds what was shown, and nothing of what was withheld, so that the agent may hand it to anyone, with the salt and the receipt that
//! prove it. What it holds follows from the state in front of it, but for facts that live elsewhere, which are inputs: an audit derives it
//! again (I3).

use crate::disclose::{Disclosed, could_show, disclose_value, withheld};
use crate::fact::{Fact, Version};
use crate::fence::check_standing;
use crate::identity::Auth;
use crate::ids::{AgentId, FactId, Tag};
use crate::limits::{ATTESTED_BYTES_MAX, READS_MAX};
use crate::observing::{Asked, Count, ObservingExceeded, count};
use crate::state::{ReadState, State};
use crate::value::Attributes;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an agent was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// When facts that live elsewhere began to be read, in ledger milliseconds; `None` where none was.
    pub began_ms: Option<u64>,
    /// What counts to budgets on observing with this entry.
    pub counts: Vec<Count>,
    /// The facts, in the order asked for; none where it is an entry only because of what it counts.
    pub facts: Vec<Seen>,
}

/// One fact as an agent saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub fact: FactId,
    /// What stands for it in leaves; `None` for one that never was, or lives elsewhere.
    pub tag: Option<Tag>,
    /// Its version. `None` for a fact that lives elsewhere and of which something was withheld: the digest would let others guess that.
    pub version: Option<Version>,
    /// What of its value was shown; `None` where it had none.
    pub value: Option<Attributes>,
    /// The attributes that were named and not shown.
    pub withheld: Vec<SmolStr>,
}

/// Facts that live elsewhere, as they were read for an observation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalFacts {
    /// When reading began, in ledger milliseconds; `None` where nothing was read.
    pub began_ms: Option<u64>,
    /// What was read; `None` for what is not there.
    pub facts: BTreeMap<FactId, Option<Arc<Fact>>>,
}

/// Why an observation cannot be an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObservationRefusal {
    /// The agent may not ask for anything now.
    #[error("{0}")]
    Agent(String),
    /// No grant shows it these facts. Whether they exist is not said.
    #[error("{agent} may not observe {}", .facts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    NotObservable { agent: AgentId, facts: Vec<FactId> },
    /// A budget on observing has no room for what it asks for.
    #[error("{agent} may not observe this now: {exceeded}")]
    Exceeded { agent: AgentId, exceeded: Box<ObservingExceeded> },
    /// What it would be shown is more than an entry keeps of an observation.
    #[error("what is shown has {0} bytes; an observation that is attested has at most {ATTESTED_BYTES_MAX}")]
    TooLong(usize),
}

impl Seen {
    /// A fact as an agent sees it; `None` if not at all.
    pub fn of(state: &dyn ReadState, agent: &AgentId, id: &FactId, fact: Option<&Arc<Fact>>) -> Option<Self> {
        let value = fact.and_then(|fact| fact.value.as_ref());
        let disclosed = Some(disclose_value(state, agent, id, value)).filter(Disclosed::is_observable)?;
        let withheld = if value.is_some() { withheld(state, id.ty(), &disclosed) } else { Vec::new() };
        let version = fact.map_or(Version::NONE, |fact| fact.current());
        let is_guessable = version.digest().is_some() && !withheld.is_empty();
        Some(Self {
            fact: id.clone(),
            tag: fact.filter(|fact| !fact.written.is_external()).map(|fact| fact.tag),
            version: (!is_guessable).then_some(version),
            value: value.map(|value| value.only(|name| disclosed.shows(name))),
            withheld,
        })
    }
}

impl Observation {
    /// What an agent is shown of these facts, in this state.
    ///
    /// # Errors
    /// If it may not be shown all of them, or that is more than an entry keeps.
    pub fn make(
        state: &State,
        (agent, auth): (&AgentId, &Auth),
        ids: &[FactId],
        external: &ExternalFacts,
        now_ms: u64,
    ) -> Result<Self, ObservationRefusal> {
        check_standing(state, agent, auth, now_ms).map_err(|refused| ObservationRefusal::Agent(refused.to_string()))?;
        let (mut facts, mut refused) = (Vec::with_capacity(ids.len()), Vec::new());
        for id in ids {
            let read = external.facts.get(id);
            let is_elsewhere = state.catalogue().source(id.ty()).is_some();
            // Whether a fact lives elsewhere may have changed since it was asked for. Then nothing was read.
            let seen = match read {
                Some(read) if is_elsewhere => Seen::of(state, agent, id, read.as_ref()),
                None if !is_elsewhere => Seen::of(state, agent, id, state.current(id)),
                _ => None,
            };
            match seen {
                Some(seen) => facts.push(seen),
                None => refused.push(id.clone()),
            }
        }
        if !refused.is_empty() {
            return Err(ObservationRefusal::NotObservable { agent: agent.clone(), facts: refused });
        }
        let asked: Vec<Asked<'_>> = ids.iter().map(|id| asked(state, id)).collect();
        let counts = count(state, agent, &asked, now_ms).map_err(exceeded(agent))?;
        Ok(Self { began_ms: external.began_ms, counts, facts })
    }

    /// The observation as its entry keeps it: whole where it is attested, or else only what it counts. `None` where it need not be one.
    ///
    /// # Errors
    /// If it is more than an entry keeps.
    pub fn to_enter(&self, attest: bool) -> Result<Option<Self>, ObservationRefusal> {
        match self.bytes() {
            _ if !attest && self.counts.is_empty() => Ok(None),
            _ if !attest => Ok(Some(Self { began_ms: None, counts: self.counts.clone(), facts: Vec::new() })),
            bytes if bytes > ATTESTED_BYTES_MAX => Err(ObservationRefusal::TooLong(bytes)),
            _ => Ok(Some(self.clone())),
        }
    }

    /// The facts that it counts to some budget, and another does not.
    pub fn counts_beyond<'a>(&'a self, other: &Self) -> Vec<&'a FactId> {
        let same = |count: &Count| other.counts.iter().find(|it| (&it.key, it.window) == (&count.key, count.window));
        let beyond = |count: &'a Count| {
            let same = same(count);
            count
                .facts
                .iter()
                .filter(move |fact| same.is_none_or(|same| !same.facts.contains(fact)))
                .collect::<Vec<_>>()
        };
        self.counts.iter().flat_map(beyond).collect()
    }

    /// The tag and version of a fact of the ledger that was shown.
    pub fn version_of(&self, fact: &FactId) -> Option<(Tag, u64)> {
        let seen = self.facts.iter().find(|seen| seen.fact == *fact)?;
        Some((seen.tag?, seen.version?.number()?))
    }

    /// How many bytes what was shown has, at the most.
    fn bytes(&self) -> usize {
        self.facts.iter().filter_map(|seen| seen.value.as_ref()).map(Attributes::bytes_bound).sum()
    }

    /// What an entry must hold that says it was shown this: the same, derived again. What was read elsewhere is an input.
    ///
    /// # Errors
    /// If the agent could not be shown this, whatever was read.
    pub fn again(
        &self,
        state: &State,
        (agent, auth): (&AgentId, &Auth),
        now_ms: u64,
    ) -> Result<Self, ObservationRefusal> {
        if self.facts.is_empty() {
            return self.counted_again(state, (agent, auth), now_ms);
        }
        let is_elsewhere = |seen: &Seen| state.catalogue().source(seen.fact.ty()).is_some();
        let ids: Vec<FactId> =
            self.facts.iter().filter(|seen| !is_elsewhere(seen)).map(|seen| seen.fact.clone()).collect();
        let none = ExternalFacts::default();
        let mut here = Self::make(state, (agent, auth), &ids, &none, now_ms)?.facts.into_iter();
        let wrong = |what: &str| Err(ObservationRefusal::Agent(what.to_owned()));
        let mut facts = Vec::with_capacity(self.facts.len());
        for seen in &self.facts {
            if is_elsewhere(seen) {
                if !could_see(state, agent, seen) {
                    let (agent, facts) = (agent.clone(), vec![seen.fact.clone()]);
                    return Err(ObservationRefusal::NotObservable { agent, facts });
                }
                facts.push(seen.clone());
            } else {
                facts.extend(here.next());
            }
        }
        let named = self.facts.iter().enumerate();
        let repeats = named.into_iter().any(|(at, seen)| self.facts.iter().skip(at + 1).any(|it| it.fact == seen.fact));
        match self.began_ms {
            _ if self.facts.len() > READS_MAX || repeats => wrong("it shows no facts, too many, or one twice"),
            began_ms if began_ms.is_some() != self.facts.iter().any(is_elsewhere) => {
                wrong("it does not say rightly whether something was read elsewhere")
            }
            Some(began_ms) if began_ms > now_ms => wrong("something was read after it was shown"),
            _ if self.bytes() > ATTESTED_BYTES_MAX => Err(ObservationRefusal::TooLong(self.bytes())),
            began_ms => {
                let asked: Vec<Asked<'_>> = self.facts.iter().map(|seen| asked(state, &seen.fact)).collect();
                let counts = count(state, agent, &asked, now_ms).map_err(exceeded(agent))?;
                Ok(Self { began_ms, counts, facts })
            }
        }
    }

    /// The same where the entry says only what counts: which facts were asked for that were counted before, it does not say.
    fn counted_again(
        &self,
        state: &State,
        (agent, auth): (&AgentId, &Auth),
        now_ms: u64,
    ) -> Result<Self, ObservationRefusal> {
        check_standing(state, agent, auth, now_ms).map_err(|refused| ObservationRefusal::Agent(refused.to_string()))?;
        let mut facts: Vec<&FactId> = Vec::new();
        for fact in self.counts.iter().flat_map(|count| &count.facts) {
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
        if facts.is_empty() || facts.len() > READS_MAX {
            return Err(ObservationRefusal::Agent("it counts no facts, or too many".to_owned()));
        }
        let asked: Vec<Asked<'_>> = facts.into_iter().map(|id| asked(state, id)).collect();
        let counts = count(state, agent, &asked, now_ms).map_err(exceeded(agent))?;
        Ok(Self { began_ms: None, counts, facts: Vec::new() })
    }
}

/// A fact as it is asked about by budgets on observing.
fn asked<'a>(state: &'a State, fact: &'a FactId) -> Asked<'a> {
    let is_elsewhere = state.catalogue().source(fact.ty()).is_some();
    let value = || state.current(fact).and_then(|fact| fact.value.as_ref());
    Asked { fact, value: (!is_elsewhere).then(value) }
}

fn exceeded(agent: &AgentId) -> impl FnOnce(ObservingExceeded) -> ObservationRefusal {
    |exceeded| ObservationRefusal::Exceeded { agent: agent.clone(), exceeded: Box::new(exceeded) }
}

/// Whether an agent could be shown this of a fact that lives elsewhere, whatever its whole value was.
fn could_see(state: &State, agent: &AgentId, seen: &Seen) -> bool {
    let Some(could) = could_show(state, agent, &seen.fact) else { return false };
    let types = state.catalogue().types().get(seen.fact.ty());
    let is_known = |name: &SmolStr| types.is_some_and(|types| types.contains_key(name));
    let Some(value) = &seen.value else {
        return seen.version == Some(Version::NONE) && seen.withheld.is_empty() && seen.tag.is_none();
    };
    let is_told = |name: &SmolStr| !seen.withheld.contains(name);
    let shown = types.into_iter().flat_map(|types| types.keys()).filter(|name| is_told(name));
    let version = seen.withheld.is_empty().then(|| Version::Content(value.content_digest()));
    seen.tag.is_none()
        && seen.version == version
        && seen.withheld.is_sorted_by(|a, b| a < b)
        && seen.withheld.iter().all(is_known)
        && value.iter().all(|(name, _)| is_known(name) && is_told(name))
        && shown.into_iter().all(|name| could.shows(name))
}
