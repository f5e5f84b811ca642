//! Budgets on observing: how many distinct facts of a type an agent, or the agents of an organisation together, may be shown in a window of
//! time (MASS-12).
//!
//! Ten agents that each look at a part know the whole together, so what counts is counted for all of them. What was counted is ordinary
//! state: an entry says it before anything is handed out, and the fold keeps it until its window ends. Facts are kept as digests of their
//! ids, 16 bytes each, whatever an id has.

use crate::disclose::counting_grants;
use crate::ids::{AgentId, Digest, FactId, FactType, PactName};
use crate::limits::OBSERVING_COUNTED_MAX;
use crate::pact::{ObservingBudget, Together};
use crate::state::ReadState;
use crate::utc::{Span, Utc};
use crate::value::{Attributes, Value};
use smol_str::SmolStr;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Who shares what is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharer {
    /// One agent.
    Agent(AgentId),
    /// All agents of an organisation; those without one share the empty name.
    Org(SmolStr),
}

impl fmt::Display for Sharer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "agent `{agent}`"),
            Self::Org(org) => write!(f, "the agents of organisation `{org}` together"),
        }
    }
}

/// A budget on observing, of one who shares it. Budgets of one pact on one type differ in who shares them, or in their windows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObservingKey {
    pub pact: PactName,
    /// The type of the facts that count.
    pub ty: FactType,
    pub sharer: Sharer,
    /// How long a window is.
    pub per_ms: u64,
}

impl ObservingKey {
    /// When the window with this number ends, in ledger milliseconds.
    pub fn ends_ms(&self, window: u64) -> u64 {
        window.saturating_add(1).saturating_mul(self.per_ms)
    }

    fn window(&self, now_ms: u64) -> u64 {
        now_ms / self.per_ms.max(1)
    }
}

/// What one entry counts to one budget: facts that are new to its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    pub key: ObservingKey,
    pub window: u64,
    pub facts: Vec<FactId>,
}

impl Count {
    /// Until when it counts, in ledger milliseconds.
    pub fn until_ms(&self) -> u64 {
        self.key.ends_ms(self.window)
    }
}

/// Why an agent is shown no more facts for now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObservingExceeded {
    /// A budget has no room for them.
    #[error(
        "pact `{}` lets {} observe {distinct} distinct facts of type {} per {}, {used} are counted, and {asked} more were asked for; the \
         window ends at {}",
        .key.pact, .key.sharer, .key.ty, Span(.key.per_ms), Utc(*ends_ms)
    )]
    Budget {
        key: ObservingKey,
        /// How many distinct facts a window has room for.
        distinct: u64,
        /// How many are counted.
        used: u64,
        /// How many more were asked for.
        asked: u64,
        ends_ms: u64,
    },
    /// The gate keeps as many counted facts as it has room for.
    #[error("the gate counts {OBSERVING_COUNTED_MAX} observed facts in open windows, and has no room for more")]
    Full,
}

impl ObservingExceeded {
    /// The type of facts that there is no room for; empty where that is any.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Budget { key, .. } => key.ty.as_str(),
            Self::Full => "",
        }
    }
}

/// How facts are kept that were counted.
pub type Counted = [u8; 16];

/// What was counted to one budget in its latest window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestWindow {
    /// When it ends, in ledger milliseconds.
    pub ends_ms: u64,
    /// The facts that were counted in it.
    pub facts: Arc<BTreeSet<Counted>>,
}

/// What was counted in windows that may be open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observing {
    latest: BTreeMap<ObservingKey, LatestWindow>,
    /// The same budgets by the ends of their windows: those that end first come first.
    ends: BTreeSet<(u64, ObservingKey)>,
    /// How many facts are counted in all.
    total: usize,
}

fn counted(fact: &FactId) -> Counted {
    let Digest(digest) = Digest::of(fact.to_string().as_bytes());
    let (half, _) = digest.split_at(16);
    // A digest has twice as many bytes.
    half.try_into().unwrap_or_default()
}

impl Observing {
    /// What was counted to each budget.
    pub fn latest(&self) -> impl Iterator<Item = (&ObservingKey, &LatestWindow)> {
        self.latest.iter()
    }

    /// How many facts were counted to a budget, in the window that ends then.
    fn used(&self, key: &ObservingKey, ends_ms: u64) -> usize {
        self.latest.get(key).filter(|held| held.ends_ms == ends_ms).map_or(0, |held| held.facts.len())
    }

    /// Whether a fact was counted to a budget, in the window that ends then.
    fn has(&self, key: &ObservingKey, ends_ms: u64, fact: &Counted) -> bool {
        self.latest.get(key).is_some_and(|held| held.ends_ms == ends_ms && held.facts.contains(fact))
    }

    /// Takes down what an entry counts. Windows that have ended are dropped.
    pub(crate) fn count(&mut self, counts: &[Count], at_ms: u64) {
        if counts.is_empty() {
            return;
        }
        while let Some((_, ended)) = self.ends.first().filter(|(ends_ms, _)| *ends_ms <= at_ms).cloned() {
            self.remove(&ended);
        }
        for count in counts.iter().filter(|count| count.until_ms() > at_ms) {
            let (key, ends_ms) = (&count.key, count.until_ms());
            match self.latest.get(key).map(|held| held.ends_ms.cmp(&ends_ms)) {
                Some(Ordering::Greater) => continue,
                Some(Ordering::Less) => self.remove(key),
                Some(Ordering::Equal) | None => {}
            }
            let held =
                self.latest.entry(key.clone()).or_insert_with(|| LatestWindow { ends_ms, facts: Arc::default() });
            let before = held.facts.len();
            Arc::make_mut(&mut held.facts).extend(count.facts.iter().map(counted));
            self.total = self.total.saturating_add(held.facts.len().saturating_sub(before));
            self.ends.insert((ends_ms, key.clone()));
        }
    }

    fn remove(&mut self, key: &ObservingKey) {
        if let Some(held) = self.latest.remove(key) {
            self.ends.remove(&(held.ends_ms, key.clone()));
            self.total = self.total.saturating_sub(held.facts.len());
        }
    }

    /// Puts back what a snapshot holds of one budget.
    pub fn restore(&mut self, key: ObservingKey, ends_ms: u64, facts: BTreeSet<Counted>) {
        self.remove(&key);
        self.total = self.total.saturating_add(facts.len());
        self.ends.insert((ends_ms, key.clone()));
        self.latest.insert(key, LatestWindow { ends_ms, facts: Arc::new(facts) });
    }

    /// How many facts are counted in windows that are open: those that have ended make room.
    fn open_total(&self, now_ms: u64) -> usize {
        let ended = self.ends.iter().take_while(|(ends_ms, _)| *ends_ms <= now_ms);
        self.total.saturating_sub(ended.filter_map(|(_, key)| self.latest.get(key)).map(|held| held.facts.len()).sum())
    }
}

/// Who shares what an agent counts to a budget.
fn sharer(state: &dyn ReadState, agent: &AgentId, together: Together) -> Sharer {
    match together {
        Together::Agent => Sharer::Agent(agent.clone()),
        Together::Org => {
            let own = state.current(&FactId::of_agent(agent)).and_then(|fact| fact.value.as_ref());
            match own.and_then(|own| own.get("org")) {
                Some(Value::String(org)) => Sharer::Org(org.clone()),
                _ => Sharer::Org(SmolStr::default()),
            }
        }
    }
}

/// The budgets that count when an agent is shown a fact: of each grant that shows it to the agent. `None` as its value where that is not
/// known, because the fact lives elsewhere; then every grant counts that could hold.
fn budgets<'a>(
    state: &'a dyn ReadState,
    agent: &AgentId,
    fact: &FactId,
    value: Option<Option<&Attributes>>,
) -> Vec<(ObservingKey, &'a ObservingBudget)> {
    let is_counted = |grant: &&crate::pact::Grant| !grant.budgets.is_empty();
    // Most types have none, and most observations are asked about none.
    if !state.pacts().values().filter_map(|pact| pact.observe.get(fact.ty())).flatten().any(|grant| is_counted(&grant))
    {
        return Vec::new();
    }
    let grants = counting_grants(state, agent, fact, value);
    let of_grant = |(pact, grant): (&PactName, &'a crate::pact::Grant)| {
        let key = |budget: &'a ObservingBudget| {
            let sharer = sharer(state, agent, budget.by);
            (ObservingKey { pact: pact.clone(), ty: fact.ty().clone(), sharer, per_ms: budget.per_ms }, budget)
        };
        grant.budgets.iter().map(key).collect::<Vec<_>>()
    };
    grants.into_iter().flat_map(of_grant).collect()
}

/// A fact that an agent is to be shown.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub fact: &'a FactId,
    /// Its value; the outer `None` where it lives elsewhere.
    pub value: Option<Option<&'a Attributes>>,
}

/// What an entry must count before an agent is shown these facts; nothing where all of them were counted, or none is to be.
///
/// # Errors
/// If a budget has no room for them.
pub fn count(
    state: &dyn ReadState,
    agent: &AgentId,
    facts: &[Asked<'_>],
    now_ms: u64,
) -> Result<Vec<Count>, ObservingExceeded> {
    let observing = state.observing();
    let mut counts: BTreeMap<ObservingKey, (Count, u64)> = BTreeMap::new();
    for asked in facts {
        for (key, budget) in budgets(state, agent, asked.fact, asked.value) {
            let window = key.window(now_ms);
            if !observing.has(&key, key.ends_ms(window), &counted(asked.fact)) {
                let new = || (Count { key: key.clone(), window, facts: Vec::new() }, budget.distinct);
                counts.entry(key.clone()).or_insert_with(new).0.facts.push(asked.fact.clone());
            }
        }
    }
    let mut more = 0usize;
    for (key, (count, distinct)) in &counts {
        let ends_ms = count.until_ms();
        let (used, asked) = (len(observing.used(key, ends_ms)), len(count.facts.len()));
        if used.saturating_add(asked) > *distinct {
            return Err(ObservingExceeded::Budget { key: key.clone(), distinct: *distinct, used, asked, ends_ms });
        }
        more = more.saturating_add(count.facts.len());
    }
    if more > 0 && observing.open_total(now_ms).saturating_add(more) > OBSERVING_COUNTED_MAX {
        return Err(ObservingExceeded::Full);
    }
    Ok(counts.into_values().map(|(count, _)| count).collect())
}

fn len(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Whether an agent may be told of a fact without that being counted: no budget counts it, or it was counted. What is told of a decision
/// must not be a way round a budget.
pub fn may_be_told(state: &dyn ReadState, agent: &AgentId, fact: &FactId) -> bool {
    let is_elsewhere = state.catalogue().source(fact.ty()).is_some();
    let value = || state.current(fact).and_then(|fact| fact.value.as_ref());
    let budgets = budgets(state, agent, fact, (!is_elsewhere).then(value));
    let digest = if budgets.is_empty() { return true } else { counted(fact) };
    // In its latest window: one that has ended and was not followed by another shows nothing that the agent has not seen.
    let latest = |key: &ObservingKey| state.observing().latest.get(key);
    budgets.iter().all(|(key, _)| latest(key).is_some_and(|held| held.facts.contains(&digest)))
}
