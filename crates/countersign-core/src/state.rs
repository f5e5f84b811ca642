//! The state of a gate: the fold of its ledger, kept in memory.
//!
//! State changes only by [`State::apply`], one entry after the other, whether the entry was just decided, is read back
//! after a restart, or is audited years later. There is no other writer, so state and ledger cannot disagree.

mod facts;
mod take_in;

pub use facts::{FactMap, SHARDS};

use crate::action::Action;
use crate::decide::Snapshot;
use crate::decision::{BudgetKey, Charge, Write};
use crate::effect::Effects;
use crate::fact::{Fact, Written};
use crate::fence::Fences;
use crate::halt::Halts;
use crate::identity::{Auth, Keys, is_held_by_gateway};
use crate::ids::{AgentId, FactId, FactType, PactName, Tag};
use crate::pact::catalogue::{AGENT, Catalogue, OPERATOR};
use crate::pact::{Atomicity, Pact};
use crate::review::Reviews;
use crate::value::Attributes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The current facts, pacts, budgets and halts.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The facts.
    pub facts: FactMap,
    /// The highest version of a fact that was erased with its id. New facts begin above it: an observation or a version that
    /// somebody noted before an erasure never fits what comes after.
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
}

/// A feed that waits for a steady fence to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldFeed {
    /// The fact.
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
    /// The window.
    pub window: u64,
    /// What it holds.
    pub used: i64,
    /// The entry that last charged it, so that a charge is never applied twice.
    pub entry: u64,
}

/// What one entry changes.
#[derive(Debug)]
pub struct Change<'a> {
    /// The entry.
    pub entry: u64,
    /// Its time.
    pub time_ms: u64,
    /// Who caused it.
    pub by: &'a AgentId,
    /// The facts it writes.
    pub writes: &'a [Write],
    /// Where their source says what they are, when it did; `None` for what actions write.
    pub confirmed_at_ms: Option<u64>,
    /// The budgets it charges.
    pub charges: &'a [Charge],
}

/// Why a pact cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// This very text is published already.
    #[error("pact `{name}` version {version} is published already, with the same content")]
    Unchanged {
        /// The pact.
        name: PactName,
        /// Its version.
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
        /// The version.
        version: u64,
    },
    /// The fact types disagree with other pacts.
    #[error("the fact types disagree with what is published: {}", .0.join("; "))]
    Types(Vec<String>),
}

impl State {
    /// Applies the writes and charges of one entry, and hands on each new version of a fact. Applying an entry twice
    /// changes nothing, which is what lets a snapshot be taken while entries go on.
    pub fn apply(&mut self, change: &Change<'_>, mut changed: impl FnMut(&Arc<Fact>)) {
        for write in change.writes {
            if let Some(fact) = self.facts.after(change, write) {
                self.put(Arc::clone(&fact));
                changed(&fact);
            }
        }
        self.charge(change);
    }

    /// Puts a version of a fact in the place of the one before.
    pub fn put(&mut self, fact: Arc<Fact>) {
        if matches!(fact.id.ty().as_str(), AGENT | OPERATOR) {
            self.keys.put(self.facts.get(&fact.id).map(AsRef::as_ref), &fact);
        }
        self.facts.put(fact);
    }

    /// The entry that says what has become of the action of an entry: of one that was parked, what ended it; of one with a
    /// call, how far that has come.
    pub fn latest_of(&self, entry: u64) -> u64 {
        let current = self.reviews.ended_in(entry).unwrap_or(entry);
        self.effects.latest(current).unwrap_or(current)
    }

    /// How a sender was authenticated, told by who holds its key at this place in the order.
    pub fn held(&self, auth: Auth) -> Auth {
        let Some(signed) = auth.signed() else { return auth };
        let fact = self.keys.holder(&signed.key).and_then(|holder| self.facts.get(&holder.fact()));
        let by_gateway = fact.is_some_and(|fact| is_held_by_gateway(fact));
        auth.held(by_gateway)
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

    /// Whether an operator was ever named. Until then the gate is open and authenticates nobody; from then on it takes
    /// nothing unsigned.
    pub fn is_identified(&self) -> bool {
        self.keys.is_identified()
    }

    /// Applies the charges of one entry.
    pub fn charge(&mut self, change: &Change<'_>) {
        for charge in change.charges {
            let held = match self.budgets.get(&charge.budget) {
                Some(held) if held.entry >= change.entry => continue,
                Some(held) if held.window == charge.window => held.used,
                // What is given back to a window that has closed is of no use to the next.
                _ if charge.amount < 0 => continue,
                _ => 0,
            };
            let used = held.saturating_add(charge.amount);
            let budget = BudgetUse { window: charge.window, used, entry: change.entry };
            self.budgets.insert(charge.budget.clone(), budget);
        }
    }

    /// Parks an action read back from its entry: values that the entry left out are those of the facts as they stood,
    /// where the action read them.
    pub fn park_again(&mut self, entry: u64, time_ms: u64, mut action: Action, was_read: impl Fn(&Fact) -> bool) {
        self.fill_observed(&mut action, was_read);
        self.reviews.park(entry, time_ms, Arc::new(action));
    }

    /// Gives an action read back from its entry the observed values that the entry left out.
    pub fn fill_observed(&self, action: &mut Action, was_read: impl Fn(&Fact) -> bool) {
        for observed in &mut action.observed {
            let current = self.facts.get(&observed.fact).filter(|fact| observed.is_held_as(fact));
            if let Some(fact) = current.filter(|fact| was_read(fact)) {
                observed.value.clone_from(&fact.value);
            }
        }
    }

    /// Checks that a pact may be published now.
    pub fn check_publish(&self, pact: &Pact) -> Result<Arc<Catalogue>, PublishError> {
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
        self.catalogue.admit(pact).map(Arc::new).map_err(PublishError::Types)
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

    /// Makes a pact the current one of its name. The ledger says that it was checked.
    pub fn publish(&mut self, pact: Arc<Pact>, catalogue: Arc<Catalogue>) {
        self.pacts.insert(pact.name.clone(), pact);
        self.catalogue = catalogue;
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
}

impl FactMap {
    /// The version that a write makes; `None` where it is there already.
    fn after(&self, change: &Change<'_>, write: &Write) -> Option<Arc<Fact>> {
        let before = self.get(&write.fact);
        if before.is_some_and(|fact| fact.version() >= write.version) {
            return None;
        }
        let (entry, version, at_ms) = (change.entry, write.version, change.time_ms);
        let written = Arc::new(Written { entry, version, at_ms, by: change.by.clone() });
        let tag = write.tag.unwrap_or(Tag([0; 12]));
        let before = before.map(AsRef::as_ref);
        let mut after = Fact::after(before, write.fact.clone(), tag, write.value.clone(), Arc::clone(&written));
        match change.confirmed_at_ms {
            None => {}
            Some(confirmed_at_ms) if confirmed_at_ms == at_ms => after.confirmed = Some(written),
            Some(at_ms) => after.confirmed = Some(Arc::new(Written { at_ms, ..(*written).clone() })),
        }
        Some(Arc::new(after))
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
    fn is_full_of_effects(&self, agent: &AgentId) -> bool {
        self.effects.is_full_for(agent)
    }
}
