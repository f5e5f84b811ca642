//! The state of a gate: the fold of its ledger, kept in memory.
//!
//! State changes only by [`State::apply`], one entry after the other, whether the entry was just decided, is read back
//! after a restart, or is audited years later. There is no other writer, so state and ledger cannot disagree. A snapshot puts back
//! what such entries made (`restore`).

mod apply;
mod erased;
mod facts;
mod restore;

pub(crate) use apply::after;
pub use apply::written;
pub use erased::EntrySet;
pub use facts::{FactMap, SHARDS};

use crate::decide::Snapshot;
use crate::decision::{BudgetKey, Write};
use crate::effect::Effects;
use crate::fact::Fact;
use crate::fence::Fences;
use crate::halt::Halts;
use crate::identity::{Auth, Keys, is_held_by_gateway};
use crate::ids::{AgentId, FactId, FactType, PactName, Tag};
use crate::observing::Observing;
use crate::pact::budgets::named::disagreements;
use crate::pact::catalogue::Catalogue;
use crate::pact::{Atomicity, Budget, Pact};
use crate::review::Reviews;
use crate::value::Attributes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The current facts, pacts, budgets and halts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// The log's name, which no other log has.
    pub origin: Arc<str>,
    /// The number of the next entry.
    pub next_entry: u64,
    pub facts: FactMap,
    /// The highest version of a fact that was erased with its id. New facts begin above it: an observation or a version that
    /// someone noted before an erasure never fits what comes after.
    pub version_floor: u64,
    /// The pacts by name, each at its current version.
    pub pacts: BTreeMap<PactName, Arc<Pact>>,
    /// The fact types of all pacts.
    pub catalogue: Arc<Catalogue>,
    /// What each budget's latest window holds.
    pub budgets: BTreeMap<BudgetKey, BudgetUse>,
    /// Which key is whose.
    keys: Keys,
    /// What is halted.
    pub halts: Halts,
    /// What waits for a person.
    pub reviews: Reviews,
    /// The fences that stand.
    pub fences: Fences,
    /// The effects under way.
    pub effects: Effects,
    /// Feeds that wait for a steady fence to end, by their entries.
    pub held: BTreeMap<u64, HeldFeed>,
    /// The entries whose payloads an erasure names. Nothing of them is shown any more, whatever the disk holds.
    pub erased: EntrySet,
    /// What was counted to budgets on observing.
    pub observing: Observing,
}

/// Everything that a state is made of. Whoever keeps states takes this apart without `..`, so that a new part does not compile until
/// it is said what becomes of it.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// See [`State::origin`].
    pub origin: &'a Arc<str>,
    /// See [`State::next_entry`].
    pub next_entry: u64,
    /// See [`State::facts`].
    pub facts: &'a FactMap,
    /// See [`State::version_floor`].
    pub version_floor: u64,
    /// See [`State::pacts`].
    pub pacts: &'a BTreeMap<PactName, Arc<Pact>>,
    /// See [`State::catalogue`].
    pub catalogue: &'a Arc<Catalogue>,
    /// See [`State::budgets`].
    pub budgets: &'a BTreeMap<BudgetKey, BudgetUse>,
    /// Which key is whose.
    pub keys: &'a Keys,
    /// See [`State::halts`].
    pub halts: &'a Halts,
    /// See [`State::reviews`].
    pub reviews: &'a Reviews,
    /// See [`State::fences`].
    pub fences: &'a Fences,
    /// See [`State::effects`].
    pub effects: &'a Effects,
    /// See [`State::held`].
    pub held: &'a BTreeMap<u64, HeldFeed>,
    /// See [`State::erased`].
    pub erased: &'a EntrySet,
    /// See [`State::observing`].
    pub observing: &'a Observing,
}

impl State {
    pub fn parts(&self) -> Parts<'_> {
        let Self {
            origin,
            next_entry,
            facts,
            version_floor,
            pacts,
            catalogue,
            budgets,
            keys,
            halts,
            reviews,
            fences,
            effects,
            held,
            erased,
            observing,
        } = self;
        let (next_entry, version_floor) = (*next_entry, *version_floor);
        Parts {
            origin,
            next_entry,
            facts,
            version_floor,
            pacts,
            catalogue,
            budgets,
            keys,
            halts,
            reviews,
            fences,
            effects,
            held,
            erased,
            observing,
        }
    }
}

/// A feed that waits for a steady fence to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldFeed {
    pub fact: FactId,
    /// Its new value; `None` deletes.
    pub value: Option<Attributes>,
    /// Who fed it.
    pub by: AgentId,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
}

/// What a budget holds in its latest window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUse {
    pub window: u64,
    /// What it holds.
    pub used: i64,
    /// The entry that last charged it, so that a charge is never applied twice.
    pub entry: u64,
}

/// Why a pact cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// This very text is published already.
    #[error("pact `{name}` version {version} is published already, with the same content")]
    Unchanged {
        /// The pact.
        name: PactName,
        version: u64,
    },
    /// The version does not follow.
    #[error("pact `{name}` is at version {current}; the next must be {}, not {given}", .current + 1)]
    Version {
        /// The pact.
        name: PactName,
        /// The current version; 0 where there is none.
        current: u64,
        /// The version that was given.
        given: u64,
    },
    /// The same version with other content.
    #[error("pact `{name}` version {version} is published already, with other content; raise the version to {}", .version + 1)]
    Content {
        /// The pact.
        name: PactName,
        version: u64,
    },
    /// The fact types disagree with other pacts.
    #[error("the fact types disagree with what is published: {}", .0.join("; "))]
    Types(Vec<String>),
    /// Its budgets, or what it charges to those of others, disagree with other pacts.
    #[error("the budgets disagree with what is published: {}", .0.join("; "))]
    Budgets(Vec<String>),
}

impl State {
    /// The entry that says what has become of the action of an entry: of one that was parked, what ended it; of one with a
    /// call, how far that has come.
    pub fn latest_of(&self, entry: u64) -> u64 {
        let current = self.reviews.ended_in(entry).unwrap_or(entry);
        self.effects.latest(current).unwrap_or(current)
    }

    /// The same without the facts, but for those of agents and operators: what readers keep for themselves, who find all other facts
    /// in the one table that there is.
    pub fn without_facts(&mut self) -> Self {
        let facts = std::mem::take(&mut self.facts);
        let identities = facts.of_identities();
        let rest = Self { facts: identities, ..self.clone() };
        self.facts = facts;
        rest
    }

    /// The state as of a position, with the facts of another that is further.
    pub fn with_facts_of(&self, further: &Self, position: u64) -> Self {
        Self { facts: further.facts.as_of(position), ..self.clone() }
    }

    /// How a sender was authenticated, told by who holds its key at this place in the order.
    pub fn with_custody(&self, auth: Auth) -> Auth {
        let Some(key) = auth.key() else { return auth };
        let fact = self.keys.holder(key).and_then(|holder| self.facts.get(&holder.fact()));
        let by_gateway = fact.is_some_and(|fact| is_held_by_gateway(fact));
        auth.with_custody(by_gateway)
    }

    /// How strong decisions on facts of a type are: by the weakest action type of any pact that reads one.
    pub fn atomicity_on(&self, ty: &FactType) -> Atomicity {
        // What lives in the ledger needs no look at the pacts.
        let Some(source) = self.catalogue.source(ty) else { return Atomicity::Atomic };
        let of_pacts = self.pacts.values().filter_map(|pact| pact.atomicity_on(ty));
        of_pacts.min().unwrap_or(source.atomicity())
    }

    /// Which key is whose.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether an operator was ever named. Until then the gate is open and authenticates no one; from then on it takes
    /// nothing unsigned.
    pub fn is_identified(&self) -> bool {
        self.keys.is_identified()
    }

    /// Checks that a pact may be published now.
    pub fn check_publish(&self, pact: &Pact) -> Result<(), PublishError> {
        let name = pact.name.clone();
        let current = self.pacts.get(&pact.name);
        let version = current.map_or(0, |current| current.version);
        match current {
            Some(current) if current.hash == pact.hash => return Err(PublishError::Unchanged { name, version }),
            Some(_) if version == pact.version => return Err(PublishError::Content { name, version }),
            _ if pact.version != version.saturating_add(1) => {
                return Err(PublishError::Version { name, current: version, given: pact.version });
            }
            _ => {}
        }
        self.check_sources(pact).map_err(PublishError::Types)?;
        self.check_budgets(pact).map_err(PublishError::Budgets)?;
        self.catalogue.admit(pact).map(drop).map_err(PublishError::Types)
    }

    /// Facts of one type are read in one way, whichever pact declares them: otherwise one publisher could change what the agents of
    /// another's pact are shown, and by whom.
    fn check_sources(&self, pact: &Pact) -> Result<(), Vec<String>> {
        let others = self.pacts.values().filter(|other| other.name != pact.name);
        let disagrees = |other: &Arc<Pact>| {
            let shared = pact
                .facts
                .keys()
                .find(|ty| other.facts.contains_key(*ty) && other.sources.get(*ty) != pact.sources.get(*ty))?;
            Some(format!(
                "pact `{}` reads facts of type `{shared}` in another way; declare `source` exactly as it does, or rename the type",
                other.name
            ))
        };
        let refusals: Vec<String> = others.filter_map(disagrees).collect();
        if refusals.is_empty() { Ok(()) } else { Err(refusals) }
    }

    /// A budget that several pacts charge is defined by one of them: what it defines and what the others charge must fit.
    fn check_budgets(&self, pact: &Pact) -> Result<(), Vec<String>> {
        let charged = pact.actions.values().flat_map(|action| &action.budgets).filter_map(Budget::owner);
        let owners: BTreeSet<&PactName> = charged.filter(|owner| **owner != pact.name).collect();
        let owned =
            owners.into_iter().flat_map(|owner| disagreements(pact, owner, self.pacts.get(owner).map(AsRef::as_ref)));
        let others = self.pacts.values().filter(|other| other.name != pact.name);
        let charging = others.flat_map(|other| disagreements(other, &pact.name, Some(pact)));
        let refusals: Vec<String> = owned.chain(charging).collect();
        if refusals.is_empty() { Ok(()) } else { Err(refusals) }
    }

    /// The write that feeding a value to a fact makes.
    pub fn feed(&self, id: &FactId, value: Option<Attributes>) -> Write {
        let before = self.facts.get(id);
        Write {
            fact: id.clone(),
            tag: before.map(|fact| fact.tag),
            version: before.map_or(self.version_floor, |fact| fact.version()).saturating_add(1),
            value,
            previous_entry: before.map(|fact| fact.written.entry),
        }
    }

    /// The tag of a fact whose source may confirm it at this version: it is here, and at that version now.
    pub fn confirmable(&self, id: &FactId, version: u64) -> Option<Tag> {
        let fact = self.facts.get(id).filter(|fact| fact.value.is_some() && fact.version() == version)?;
        Some(fact.tag)
    }

    /// The oldest held feed whose fact no call relies on any more.
    pub fn next_released(&self) -> Option<(u64, &HeldFeed)> {
        let mut feeds = self.held.iter().map(|(entry, held)| (*entry, held));
        feeds.find(|(_, held)| !self.fences.is_steady(&held.fact))
    }

    /// The feeds of a fact that wait, oldest first, with their entries.
    pub fn held_feeds(&self, fact: &FactId) -> impl Iterator<Item = (u64, &HeldFeed)> {
        let feeds = self.held.iter().map(|(entry, held)| (*entry, held));
        feeds.filter(move |(_, held)| held.fact == *fact)
    }

    /// Whether a feed of this fact must wait: a call relies on the fact, or an earlier feed waits already.
    pub fn must_hold(&self, fact: &FactId) -> bool {
        self.fences.is_steady(fact) || self.fences.is_held(fact)
    }
}

/// What readers may ask of a state, wherever its facts are kept.
pub trait ReadState {
    /// The current version of a fact; deleted ones included.
    fn current(&self, id: &FactId) -> Option<&Arc<Fact>>;
    /// The pacts by name, each at its current version.
    fn pacts(&self) -> &BTreeMap<PactName, Arc<Pact>>;
    /// The fact types of all pacts, and where their facts live.
    fn catalogue(&self) -> &Catalogue;
    /// What was counted to budgets on observing.
    fn observing(&self) -> &Observing;
}

impl ReadState for State {
    fn current(&self, id: &FactId) -> Option<&Arc<Fact>> {
        self.facts.get(id)
    }
    fn pacts(&self) -> &BTreeMap<PactName, Arc<Pact>> {
        &self.pacts
    }
    fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }
    fn observing(&self) -> &Observing {
        &self.observing
    }
}

impl Snapshot for State {
    fn fact(&self, id: &FactId) -> Option<&Arc<Fact>> {
        self.facts.get(id)
    }
    fn pact(&self, name: &PactName) -> Option<&Arc<Pact>> {
        self.pacts.get(name)
    }
    fn version_floor(&self) -> u64 {
        self.version_floor
    }
    fn origin(&self) -> &str {
        &self.origin
    }
    fn next_entry(&self) -> u64 {
        self.next_entry
    }
    fn budget_used(&self, budget: &BudgetKey, window: u64) -> i64 {
        self.budgets.get(budget).filter(|held| held.window == window).map_or(0, |held| held.used)
    }
    fn is_identified(&self) -> bool {
        self.keys.is_identified()
    }
    fn halts(&self) -> &Halts {
        &self.halts
    }
    fn reviews(&self) -> &Reviews {
        &self.reviews
    }
    fn fences(&self) -> &Fences {
        &self.fences
    }
    fn effects_at_capacity(&self, agent: &AgentId) -> bool {
        self.effects.is_full_for(agent)
    }
}
