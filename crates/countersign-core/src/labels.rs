//! Where content comes from: which types of facts have labels, and which labels agents were shown.
//!
//! A label says something of the origin of content, such as `untrusted`. It belongs to the agent that was shown the content, because
//! security must not depend on reconnecting: whatever session an agent opens next has the labels of its last day. A session keeps
//! those that it has for as long as it is open. All of it follows from the leaves of entries, so no erasure takes a label off (I3).

mod content;
mod told;

pub use content::of_attribute as content_of_attribute;
pub(crate) use content::of_attribute;
pub use content::{AttributeLabels, content_of_fact, content_of_place, content_of_tool, terms_of_tool, unknown_label};
pub(crate) use told::of_reads;
pub use told::{context_of, shown_by_settlement, shown_in, told};

use crate::ids::{AgentId, FactType, PactName};
use crate::limits::{LABEL_CHARS_MAX, LABEL_KEPT_MS, LABEL_RENEWED_MS, LABELS_MAX};
use crate::pact::{FactSource, Pact};
use crate::screen;
use crate::session::SessionId;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// Labels, by name.
pub type LabelSet = BTreeSet<SmolStr>;

/// What comes from someone who may mean harm.
pub const UNTRUSTED: &str = "untrusted";
/// What must not reach everyone.
pub const CONFIDENTIAL: &str = "confidential";
/// What screening finds in labelled content.
const OF_SCREENING: [&str; 5] =
    [screen::HIDDEN, screen::INJECTION, screen::LOOKALIKE, screen::OVERSIZED, screen::SECRET];
/// The type of the facts that say on which terms a tool is approved, among them its labels.
pub const TOOL: &str = "McpTool";
/// The same of a server: its labels are those of everything that is read there.
pub const SERVER: &str = "McpServer";

/// Whether a label says what screening found.
pub fn is_of_screening(label: &str) -> bool {
    OF_SCREENING.contains(&label)
}

static NONE: LazyLock<LabelSet> = LazyLock::new(LabelSet::new);

/// Checks the name of a label.
///
/// # Errors
/// What is wrong with it.
pub fn check_label(name: &str) -> Result<(), String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_:".contains(c);
    let is_begun = name.starts_with(|c: char| c.is_ascii_lowercase());
    match is_begun && name.len() <= LABEL_CHARS_MAX && name.chars().all(is_part) {
        true => Ok(()),
        false => Err(format!(
            "`{}` is not the name of a label: it has a small letter and then small letters, digits, `-`, `_` and `:`, at most \
             {LABEL_CHARS_MAX} in all",
            name.chars().take(80).collect::<String>()
        )),
    }
}

/// When an agent was last shown something with each label.
pub type LastShown = BTreeMap<SmolStr, u64>;

/// What one agent was shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfAgent {
    /// In any session or outside of one.
    pub anywhere: LastShown,
    /// In each session that is open, or known when it was opened.
    pub sessions: BTreeMap<SessionId, LastShown>,
    /// Sessions that a front end opened clean, and when: what was shown before does not count in them.
    pub clean: BTreeMap<SessionId, u64>,
}

/// The labels of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// All names that a pact has ever declared, and those that every gate has. They stand in leaves, so none goes away.
    names: LabelSet,
    /// The labels of what facts of a type say, unless an action wrote it.
    types: BTreeMap<FactType, LabelSet>,
    /// Those of types whose facts are read elsewhere, with where that is.
    sources: Vec<(Arc<FactSource>, LabelSet)>,
    /// Those types whose values are clean wherever else they stand, and where those are that are read elsewhere.
    trusted: BTreeSet<FactType>,
    trusted_sources: Vec<Arc<FactSource>>,
    agents: BTreeMap<AgentId, OfAgent>,
    /// Whose the sessions are in which something was shown.
    owners: BTreeMap<SessionId, AgentId>,
}

impl Default for Labels {
    fn default() -> Self {
        let names = [CONFIDENTIAL, UNTRUSTED].into_iter().chain(OF_SCREENING).map(SmolStr::new_static).collect();
        Self {
            names,
            types: BTreeMap::new(),
            sources: Vec::new(),
            trusted: BTreeSet::new(),
            trusted_sources: Vec::new(),
            agents: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }
}

impl Labels {
    /// The names that there are.
    pub fn names(&self) -> &LabelSet {
        &self.names
    }

    /// What was shown to agents, by agent.
    pub fn agents(&self) -> &BTreeMap<AgentId, OfAgent> {
        &self.agents
    }

    /// Whether nothing has a label on this gate, and nothing had one.
    pub fn is_unused(&self) -> bool {
        self.types.is_empty() && self.agents.is_empty() && self.trusted.is_empty()
    }

    /// Checks that a pact does not bring more names than a gate has room for.
    ///
    /// # Errors
    /// How many there would be.
    pub fn check(&self, pact: &Pact) -> Result<(), usize> {
        let all = self.names.union(&names_in(pact)).count();
        if all > LABELS_MAX { Err(all) } else { Ok(()) }
    }

    /// Takes over what the current pacts declare.
    pub(crate) fn declare(&mut self, pacts: &BTreeMap<PactName, Arc<Pact>>) {
        (self.types, self.sources) = (BTreeMap::new(), Vec::new());
        (self.trusted, self.trusted_sources) = (BTreeSet::new(), Vec::new());
        for pact in pacts.values() {
            self.names.extend(names_in(pact));
            for (ty, labels) in &pact.labels {
                self.types.entry(ty.clone()).or_default().extend(labels.iter().cloned());
            }
        }
        for (ty, source) in pacts.values().flat_map(|pact| &pact.sources) {
            if let Some(labels) = self.types.get(ty) {
                self.sources.push((Arc::clone(source), labels.clone()));
            }
        }
        // What one pact calls untrusted, another does not make trusted.
        let is_trusted = |ty: &&FactType| self.types.get(*ty).is_none_or(|labels| !labels.contains(UNTRUSTED));
        self.trusted = pacts.values().flat_map(|pact| &pact.trusted).filter(is_trusted).cloned().collect();
        let sources = pacts.values().flat_map(|pact| &pact.sources).filter(|(ty, _)| self.trusted.contains(*ty));
        self.trusted_sources = sources.map(|(_, source)| Arc::clone(source)).collect();
    }

    /// Whether values of facts of a type are clean wherever else they stand.
    pub fn is_trusted(&self, ty: &FactType) -> bool {
        self.trusted.contains(ty)
    }

    /// Whether a tool is read for facts of such a type.
    pub fn is_trusted_tool(&self, upstream: &str, tool: &str) -> bool {
        self.trusted_sources.iter().any(|source| source.is_tool(upstream, tool))
    }

    /// The labels of facts of a type.
    pub fn of_type(&self, ty: &FactType) -> &LabelSet {
        self.types.get(ty).unwrap_or(&NONE)
    }

    /// The labels of facts that a tool is read for.
    fn read_by(&self, upstream: &str, tool: &str) -> LabelSet {
        let read = self.sources.iter().filter(|(source, _)| source.is_tool(upstream, tool));
        read.flat_map(|(_, labels)| labels).cloned().collect()
    }

    /// What an agent knows the origin of in a session, or outside of one: what it was shown there, and anywhere within the last day.
    pub fn in_force(&self, agent: &AgentId, session: Option<SessionId>, now_ms: u64) -> LabelSet {
        let Some(of_agent) = self.agents.get(agent) else { return LabelSet::new() };
        let own = session.and_then(|session| of_agent.sessions.get(&session)).into_iter().flat_map(BTreeMap::keys);
        let since_ms = session.and_then(|session| of_agent.clean.get(&session)).copied().unwrap_or(0);
        let counts = |at_ms: u64| is_kept(at_ms, now_ms) && at_ms >= since_ms;
        let recent = of_agent.anywhere.iter().filter(|(_, at_ms)| counts(**at_ms)).map(|(label, _)| label);
        own.chain(recent).cloned().collect()
    }

    /// Whether an entry has to say that these are shown: one of them is new, or it was said too long ago to say it for a day from now.
    pub fn grows(&self, agent: &AgentId, session: Option<SessionId>, labels: &LabelSet, now_ms: u64) -> bool {
        let of_agent = self.agents.get(agent);
        let is_told = |label: &SmolStr| {
            let Some(of_agent) = of_agent else { return false };
            // What is shown elsewhere counts in clean sessions too, from when it is shown there.
            let cleaned_ms = of_agent.clean.values().max().copied().unwrap_or(0);
            let is_recent =
                |at_ms: &u64| now_ms.saturating_sub(*at_ms) < LABEL_RENEWED_MS && *at_ms >= cleaned_ms;
            let in_session =
                |session: SessionId| of_agent.sessions.get(&session).is_some_and(|shown| shown.contains_key(label));
            of_agent.anywhere.get(label).is_some_and(is_recent) && session.is_none_or(in_session)
        };
        !labels.iter().all(is_told)
    }

    /// An agent is shown labelled content.
    pub(crate) fn note(&mut self, agent: &AgentId, session: Option<SessionId>, labels: &[SmolStr], at_ms: u64) {
        let of_agent = self.agents.entry(agent.clone()).or_default();
        of_agent.anywhere.retain(|_, shown_ms| is_kept(*shown_ms, at_ms));
        let put = |shown: &mut LastShown| {
            for label in labels {
                let last = shown.entry(label.clone()).or_default();
                *last = at_ms.max(*last);
            }
        };
        put(&mut of_agent.anywhere);
        if let Some(session) = session {
            put(of_agent.sessions.entry(session).or_default());
            self.owners.insert(session, agent.clone());
        }
    }

    /// A session begins with what its agent was shown within the last day, and keeps that. So does one that is gone on in, with what it has.
    pub(crate) fn open(&mut self, agent: &AgentId, session: SessionId, at_ms: u64) {
        let Some(of_agent) = self.agents.get_mut(agent) else { return };
        let recent = of_agent.anywhere.iter().filter(|(_, shown_ms)| is_kept(**shown_ms, at_ms));
        let recent: LastShown = recent.map(|(label, shown_ms)| (label.clone(), *shown_ms)).collect();
        if recent.is_empty() {
            return;
        }
        let shown = of_agent.sessions.entry(session).or_default();
        for (label, shown_ms) in recent {
            let last = shown.entry(label).or_default();
            *last = shown_ms.max(*last);
        }
        self.owners.insert(session, agent.clone());
    }

    /// A session begins clean: a front end says that nothing counts in it which its agent was shown before.
    pub(crate) fn open_clean(&mut self, agent: &AgentId, session: SessionId, at_ms: u64) {
        let of_agent = self.agents.entry(agent.clone()).or_default();
        // What was noted in the same millisecond counts, be it from before: it is not known to be.
        of_agent.clean.insert(session, at_ms);
        self.owners.insert(session, agent.clone());
    }

    /// A session has ended.
    pub(crate) fn close(&mut self, session: SessionId) {
        let agent = self.owners.remove(&session);
        if let Some(of_agent) = agent.and_then(|agent| self.agents.get_mut(&agent)) {
            of_agent.sessions.remove(&session);
            of_agent.clean.remove(&session);
        }
    }

    /// Puts back what a snapshot holds of names and agents. Types follow from pacts.
    pub(crate) fn restore(&mut self, names: LabelSet, agents: BTreeMap<AgentId, OfAgent>) {
        self.names.extend(names);
        let sessions = |(agent, of_agent): (&AgentId, &OfAgent)| {
            let sessions = of_agent.sessions.keys().chain(of_agent.clean.keys());
            let sessions = sessions.map(|session| (*session, agent.clone()));
            sessions.collect::<Vec<_>>()
        };
        self.owners = agents.iter().flat_map(sessions).collect();
        self.agents = agents;
    }
}

/// Whether what was shown at a time still counts outside of the session that it was shown in. It is said again only after a while, so it
/// counts for that much longer than a day.
fn is_kept(shown_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(shown_ms) < LABEL_KEPT_MS.saturating_add(LABEL_RENEWED_MS)
}

fn names_in(pact: &Pact) -> LabelSet {
    pact.labels.values().flatten().cloned().collect()
}

#[cfg(test)]
mod tests;
