//! Which values agents were shown with labels: kept in memory for each agent, and looked for in the parameters of its actions (L5).
//!
//! Everything that is handed out passes here before it is. What an index holds is lost when the gate ends, and so is that of an agent that
//! was not heard of for long; then everything that the agent was shown counts as carried (R10), for as long as the labels count. Nothing
//! here is part of a decision: what is found becomes an input of the action's entry, and replays and audits read it there.

use super::{Gate, ShownFact};
use crate::request::{Request, Settlement};
use countersign_core::action::Action;
use countersign_core::call::EffectId;
use countersign_core::decide::{Snapshot as _, in_force};
use countersign_core::decision::{Decision, Verdict};
use countersign_core::fact::Fact;
use countersign_core::ids::AgentId;
use countersign_core::json::{JsonRef, Members};
use countersign_core::labels::{
    LabelSet, Labels, OfAgent, content_of_attribute, content_of_fact, content_of_place, shown_by_settlement, told,
};
use countersign_core::limits::{LABEL_KEPT_MS, LABEL_RENEWED_MS};
use countersign_core::node::Node;
use countersign_core::pact::ActionType;
use countersign_core::screen::Screen;
use countersign_core::session::{Place, Reading, Session, SessionId, words_in};
use countersign_core::tainted::{Index, Search, Tainted, Trusted};
use parking_lot::{Mutex, RwLock};
use smol_str::SmolStr;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// Of how many agents values are kept; of more, those that were heard of last.
const AGENTS_MAX: usize = 1024;
/// How many sessions of one agent have their words at hand.
const WORDS_MAX: usize = 16;

static SCREEN: LazyLock<Screen> = LazyLock::new(Screen::default);

/// What one agent was shown, by value.
#[derive(Debug, Default)]
struct Shown {
    index: Index,
    /// Content of sources that a pact trusts.
    trusted: Trusted,
    /// The user's own words in a session, by the version of the session that has them.
    words: BTreeMap<SessionId, (u64, Arc<Trusted>)>,
}

#[derive(Debug, Default)]
struct Kept {
    used_ms: AtomicU64,
    shown: RwLock<Shown>,
}

/// What agents were shown, by value.
#[derive(Debug, Default)]
pub(crate) struct ShownValues(Mutex<HashMap<AgentId, Arc<Kept>>>);

impl ShownValues {
    fn find(&self, agent: &AgentId, now_ms: u64) -> Option<Arc<Kept>> {
        let kept = self.0.lock().get(agent).cloned()?;
        kept.used_ms.store(now_ms, Ordering::Relaxed);
        Some(kept)
    }

    /// That of an agent. Where it is new, everything counts as carried that its agent was shown before.
    fn of(&self, agent: &AgentId, labels: &Labels, now_ms: u64) -> Arc<Kept> {
        if let Some(kept) = self.find(agent, now_ms) {
            return kept;
        }
        let mut agents = self.0.lock();
        if agents.len() >= AGENTS_MAX && !agents.contains_key(agent) {
            let oldest = agents.iter().min_by_key(|(_, kept)| kept.used_ms.load(Ordering::Relaxed));
            if let Some(oldest) = oldest.map(|(agent, _)| agent.clone()) {
                agents.remove(&oldest);
            }
        }
        let kept = agents.entry(agent.clone()).or_insert_with(|| {
            let mut shown = Shown::default();
            for (label, until_ms) in labels.agents().get(agent).into_iter().flat_map(known_until) {
                shown.index.add_unknown(&LabelSet::from([label]), until_ms);
            }
            Arc::new(Kept { used_ms: AtomicU64::new(now_ms), shown: RwLock::new(shown) })
        });
        Arc::clone(kept)
    }
}

/// The labels of what an agent was shown, and until when they count.
fn known_until(of_agent: &OfAgent) -> Vec<(SmolStr, u64)> {
    let anywhere = of_agent.anywhere.iter().map(|(label, at_ms)| (label.clone(), kept_until(*at_ms)));
    // Those of a session count until it is closed, which no one tells this place.
    let in_sessions = of_agent.sessions.values().flat_map(|shown| shown.keys()).map(|label| (label.clone(), u64::MAX));
    anywhere.chain(in_sessions).collect()
}

fn kept_until(at_ms: u64) -> u64 {
    at_ms.saturating_add(LABEL_KEPT_MS).saturating_add(LABEL_RENEWED_MS)
}

/// The labels that screening gives content: of labelled content alone.
pub(super) fn screened(labels: &LabelSet, content: &str) -> LabelSet {
    if labels.is_empty() {
        return LabelSet::new();
    }
    SCREEN.json(content).labels().iter().map(|label| SmolStr::new_static(label)).collect()
}

impl Gate {
    /// Notes that an agent is about to be shown content with labels: what it was shown before is told apart from that.
    pub(super) fn will_show(&self, agent: &AgentId) {
        let now_ms = self.now_ms();
        self.shared.shown_values.of(agent, self.view().labels(), now_ms);
    }

    /// The one place where content becomes known that is handed out to an agent: a reading, a fact, an answer, a difference or a message. To
    /// be called before it is handed out, and as long as the agent may not have its labels yet.
    pub fn note_shown(&self, agent: &AgentId, labels: &LabelSet, content: &str) {
        if labels.is_empty() {
            return;
        }
        let now_ms = self.now_ms();
        let kept = self.shared.shown_values.of(agent, self.view().labels(), now_ms);
        let mut shown = kept.shown.write();
        shown.index.make_room(now_ms.saturating_sub(LABEL_KEPT_MS + LABEL_RENEWED_MS));
        shown.index.add(labels, content, now_ms, kept_until(now_ms));
    }

    /// The same of content of which only the labels are known.
    fn note_unknown(&self, agent: &AgentId, labels: &LabelSet) {
        let now_ms = self.now_ms();
        let kept = self.shared.shown_values.of(agent, self.view().labels(), now_ms);
        kept.shown.write().index.add_unknown(labels, kept_until(now_ms));
    }

    /// Notes content of a source that a pact trusts, and what the source was asked with: values in it are clean from now on.
    pub(super) fn note_trusted(&self, agent: &AgentId, content: &str, asked: &str) {
        let now_ms = self.now_ms();
        let kept = self.shared.shown_values.of(agent, self.view().labels(), now_ms);
        kept.shown.write().trusted.add_but(content, asked);
    }

    /// Notes what a tool answered to an agent.
    pub(super) fn note_answer(&self, agent: &AgentId, place: &Place, labels: &LabelSet, answer: &str) {
        self.note_shown(agent, labels, answer);
        if labels.is_empty() && self.view().labels().is_trusted_tool(&place.upstream, &place.tool) {
            self.note_trusted(agent, answer, &place.arguments);
        }
    }

    /// Notes the attributes of a fact that an agent is shown.
    pub(super) fn note_fact(&self, agent: &AgentId, fact: &Fact, is_shown: impl Fn(&str) -> bool) {
        let mut noted = Vec::new();
        let is_trusted = {
            let view = self.view();
            for (name, value) in fact.value.iter().flat_map(countersign_core::value::Attributes::iter) {
                if is_shown(name) {
                    noted.push((content_of_attribute(view.labels(), fact, name).clone(), value.to_json().to_string()));
                }
            }
            view.labels().is_trusted(fact.id.ty())
        };
        for (labels, says) in noted {
            self.note_shown(agent, &labels, &says);
            if is_trusted && labels.is_empty() {
                self.note_trusted(agent, &says, fact.id.id());
            }
        }
        // What names it is said by whoever wrote it, and mostly by the agent that asks.
    }

    /// Notes facts that an agent is about to be shown, and has what is labelled screened; the labels that this finds.
    pub(super) fn note_observed<'a>(
        &self,
        agent: &AgentId,
        labels: &LabelSet,
        shown: impl Iterator<Item = (&'a ShownFact, &'a Option<Arc<Fact>>)>,
    ) -> LabelSet {
        let mut found = LabelSet::new();
        if !labels.is_empty() {
            self.will_show(agent);
        }
        for (shown, fact) in shown.filter_map(|(shown, fact)| Some((shown, fact.as_ref()?))) {
            let is_shown = |name: &str| shown.value.as_ref().is_some_and(|value| value.get(name).is_some());
            let mut of_fact = content_of_fact(self.view().labels(), fact, is_shown);
            if !of_fact.is_empty() {
                let value = shown.value.as_ref().map(|value| value.to_json().to_string());
                let said = value.iter().chain(&shown.answer);
                found.extend(said.flat_map(|said| screened(&of_fact, said)));
                of_fact.extend(found.iter().cloned());
            }
            self.note_fact(agent, fact, is_shown);
            // What a tool answered says more than its fact.
            if let Some(answer) = &shown.answer {
                self.note_shown(agent, &of_fact, answer);
            }
        }
        found
    }

    /// Notes the facts that a decision read and of which its agent is told: reasons quote them.
    pub fn note_told(&self, action: &Action, decision: &Decision) {
        if decision.blocked().is_none() && decision.shadowed.is_none() {
            return self.note_relayed(action, decision);
        }
        for read in &decision.reads {
            let fact = self.view().fact(&read.fact).cloned();
            if let Some(fact) = fact {
                self.note_fact(&action.agent, &fact, |_| true);
            }
        }
    }

    /// Notes that a gateway will pass on what a tool answers that is not guarded: the gate does not see it, so it is not known.
    fn note_relayed(&self, action: &Action, decision: &Decision) {
        // What the gate's own worker calls is noted when it has answered.
        if !matches!(decision.verdict, Verdict::Committed) {
            return;
        }
        let labels = told(action, decision, &self.view());
        if !labels.is_empty() {
            self.note_unknown(&action.agent, &labels);
        }
    }

    /// Notes what the gate itself found out and is about to enter, before anyone is told; and has it screened.
    pub(super) fn note_own(&self, request: &mut Request) {
        match request {
            Request::Settle(settlement) => self.note_settlement(settlement),
            Request::SettleAsRead { settlement, fresh } => {
                self.note_settlement(settlement);
                self.note_fresh(settlement.effect, fresh);
            }
            Request::DispatchAsRead(dispatch) => self.note_fresh(dispatch.effect, &mut dispatch.fresh),
            _ => {}
        }
    }

    fn agent_of(&self, effect: EffectId) -> Option<AgentId> {
        self.view().rest.effects.find(effect).ok().map(|effect| effect.action.agent.clone())
    }

    fn note_fresh(&self, effect: EffectId, fresh: &mut [Reading]) {
        let Some(agent) = self.agent_of(effect) else { return };
        for reading in fresh {
            self.note_reading(&agent, reading, None);
        }
    }

    /// Notes a reading before it is kept and told: what is compared of it, and all that was answered where that is at hand.
    pub(super) fn note_reading(&self, agent: &AgentId, reading: &mut Reading, answer: Option<&str>) {
        let mut labels = content_of_place(&reading.place, &self.view());
        if labels.is_empty() {
            if let Some(answer) = answer {
                self.note_answer(agent, &reading.place, &labels, answer);
            }
            return;
        }
        self.will_show(agent);
        let content = answer.or(reading.content.as_deref());
        reading.found = content.map(|content| screened(&labels, content)).unwrap_or_default();
        labels.extend(reading.found.iter().cloned());
        match content {
            Some(content) => self.note_shown(agent, &labels, content),
            None => self.note_unknown(agent, &labels),
        }
        if let Some(compared) = reading.content.as_deref().filter(|compared| content != Some(*compared)) {
            self.note_shown(agent, &labels, compared);
        }
    }

    fn note_settlement(&self, settlement: &mut Settlement) {
        let found = {
            let view = self.view();
            let Ok(effect) = view.rest.effects.find(settlement.effect) else { return };
            let labels = shown_by_settlement(effect, settlement.judged.as_ref(), &view);
            (effect.action.agent.clone(), labels)
        };
        let (agent, mut labels) = found;
        if labels.is_empty() {
            return;
        }
        self.will_show(&agent);
        let evidence = &settlement.evidence;
        let long = evidence.unkept.and_then(|_| self.long_answers().of(settlement.effect));
        let said =
            [evidence.result.as_deref(), evidence.found.said.as_deref(), evidence.receipt.as_deref(), long.as_deref()];
        let said: Vec<&str> = said.into_iter().flatten().collect();
        settlement.found = said.iter().flat_map(|said| screened(&labels, said)).collect();
        labels.extend(settlement.found.iter().cloned());
        said.iter().for_each(|said| self.note_shown(&agent, &labels, said));
        if evidence.is_cut || evidence.unkept.is_some() && long.is_none() {
            self.note_unknown(&agent, &labels);
        }
        // What was read elsewhere and blocked it is told with its values.
        for (_, value) in settlement.judged.iter().flat_map(|judged| &judged.facts) {
            match value {
                Some(value) => self.note_shown(&agent, &labels, &value.to_json().to_string()),
                None => continue,
            }
        }
    }

    /// The parameters of an action that carry values which its agent, or whoever it acts for, was shown with labels.
    pub(super) fn tainted(
        &self,
        action: &Action,
        params: &Members<'_>,
        kind: Option<&ActionType>,
        now_ms: u64,
    ) -> Tainted {
        let mut found = Tainted::new();
        let (members, words, in_force) = {
            let view = self.view();
            let labels = view.labels();
            // Nothing that has labels was shown to anyone, and nothing will be that no one notes before.
            if labels.is_unused() {
                return found;
            }
            let of = |member| (member == &action.agent, self.shared.shown_values.of(member, labels, now_ms));
            let members: Vec<(bool, Arc<Kept>)> = action.members().map(of).collect();
            let session = action.session.and_then(|name| Session::of(name.id, &action.agent, &view).ok());
            let words = session.and_then(|session| {
                let fact = view.fact(&session.id.words()?)?;
                Some((session.id, fact.version(), words_in(fact)))
            });
            (members, words, in_force(action, &view, now_ms))
        };
        for (is_own, kept) in members {
            if kept.shown.read().index.is_empty(now_ms) {
                continue;
            }
            let words = words.as_ref().filter(|(_, _, words)| is_own && !words.is_empty());
            let words = words.map(|(session, version, words)| kept.words(*session, *version, words));
            let shown = kept.shown.read();
            let of_source = &shown.trusted;
            let trusted = [of_source, words.as_deref().unwrap_or(of_source)];
            let mut search = Search::new(&shown.index, &trusted, now_ms).in_force(&in_force);
            for (name, value) in params {
                // A word from a list says nothing of where it came from.
                if kind.is_none_or(|kind| !kind.params.is_listed(name)) {
                    search.param(name);
                    look(value, &mut search);
                }
            }
            for (param, labels) in search.finish() {
                found.entry(param).or_default().extend(labels);
            }
        }
        found
    }
}

impl Kept {
    /// The user's own words in a session, by what they say.
    fn words(&self, session: SessionId, version: u64, words: &[SmolStr]) -> Arc<Trusted> {
        if let Some((_, words)) = self.shown.read().words.get(&session).filter(|(of, _)| *of == version) {
            return Arc::clone(words);
        }
        let mut trusted = Trusted::default();
        words.iter().for_each(|words| trusted.add(words));
        let trusted = Arc::new(trusted);
        let mut shown = self.shown.write();
        if shown.words.len() >= WORDS_MAX {
            shown.words.pop_first();
        }
        shown.words.insert(session, (version, Arc::clone(&trusted)));
        trusted
    }
}

/// Looks at everything that a parameter says.
fn look(value: &JsonRef<'_>, search: &mut Search<'_>) {
    match value {
        JsonRef::Null | JsonRef::Bool(_) => {}
        JsonRef::Integer(number) => search.text(&number.to_string()),
        JsonRef::Decimal(number) => search.text(number),
        JsonRef::String(text) => {
            search.text(text);
            // Arguments are passed on as the text of JSON.
            if text.starts_with(['{', '['])
                && let Some(node) = Node::parse(text)
            {
                look_in(&node, search);
            }
        }
        JsonRef::Array(items) => items.iter().for_each(|item| look(item, search)),
        JsonRef::Object(members) => {
            for (name, value) in members {
                search.text(name);
                look(value, search);
            }
        }
    }
}

fn look_in(node: &Node, search: &mut Search<'_>) {
    match node {
        Node::Null | Node::Bool(_) => {}
        Node::Number(number) => search.text(number),
        Node::Text(text) => search.text(text),
        Node::List(items) => items.iter().for_each(|item| look_in(item, search)),
        Node::Object(members) => {
            for (name, value) in members {
                search.text(name);
                look_in(value, search);
            }
        }
    }
}
