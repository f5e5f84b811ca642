//! What an agent may see: the grants of all published pacts, evaluated for one agent and one fact as they are now.
//!
//! Withholding is done when something is shown or answered, never when it is decided: `decide` and the ledger work on
//! whole facts, so that what an agent may see has no influence on what is right. Fails closed (I4): an agent that is not
//! registered or not active, a condition that cannot be evaluated, and a fact without a grant all show nothing.

use crate::decision::PactRef;
use crate::expression::{Base, Expression, Input, Mention, Source};
use crate::fence::{Claim, may_claim};
use crate::ids::{ActionName, AgentId, FactId, FactType, PactName};
use crate::observing::may_be_told;
use crate::pact::{ActionType, Grant, Pact, SendRule, TemplatePart};
use crate::session::{READING, SESSION};
use crate::state::ReadState;
use crate::value::{Attributes, Value};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What of one fact an agent may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disclosed {
    /// Nothing, not even whether there is such a fact.
    Nothing,
    /// That it is there or not, its version, and these attributes.
    Attributes(BTreeSet<SmolStr>),
    /// All of it.
    Whole,
}

impl Disclosed {
    /// Whether the fact can be observed at all.
    pub fn is_observable(&self) -> bool {
        *self != Self::Nothing
    }

    /// Whether an attribute is shown.
    pub fn shows(&self, attribute: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Attributes(shown) => shown.contains(attribute),
            Self::Whole => true,
        }
    }
}

/// What an agent may see of a fact now. The grants of all pacts add up; its own `Agent` fact an agent sees whole.
pub fn disclose(state: &dyn ReadState, agent: &AgentId, id: &FactId) -> Disclosed {
    let value = state.current(id).and_then(|fact| fact.value.as_ref());
    disclose_value(state, agent, id, value)
}

/// What an agent may see of a fact that has this value, wherever it lives.
pub fn disclose_value(state: &dyn ReadState, agent: &AgentId, id: &FactId, of: Option<&Attributes>) -> Disclosed {
    let own = FactId::of_agent(agent);
    if *id == own {
        return Disclosed::Whole;
    }
    let value = |id: &FactId| state.current(id).and_then(|fact| fact.value.as_ref());
    let Some(subject) = Subject::new(&own, value(&own), id, of) else {
        return Disclosed::Nothing;
    };
    let grants = state.pacts().values().filter_map(|pact| pact.observe.get(id.ty())).flatten();
    let mut shown = BTreeSet::new();
    for grant in grants.filter(|grant| subject.holds(&grant.who)) {
        shown.extend(grant.attributes.iter().cloned());
    }
    if shown.is_empty() { Disclosed::Nothing } else { Disclosed::Attributes(shown) }
}

/// Whether an agent could see something of a fact, whatever its value is: asked before an external fact is read for it.
pub fn could_disclose(state: &dyn ReadState, agent: &AgentId, id: &FactId) -> bool {
    let own = FactId::of_agent(agent);
    let is_active_agent =
        || Subject::new(&own, state.current(&own).and_then(|fact| fact.value.as_ref()), id, None).is_some();
    if *id == own { is_active_agent() } else { could_show(state, agent, id).is_some() }
}

/// What an agent could see of a fact that lives elsewhere, whatever its value is; `None` where that is nothing.
pub fn could_show(state: &dyn ReadState, agent: &AgentId, id: &FactId) -> Option<Disclosed> {
    let own = FactId::of_agent(agent);
    let value = state.current(&own).and_then(|fact| fact.value.as_ref());
    let subject = Subject::new(&own, value, id, None)?;
    let grants = state.pacts().values().filter_map(|pact| pact.observe.get(id.ty())).flatten();
    let could = grants.filter(|grant| subject.could_hold(&grant.who));
    let shown: BTreeSet<SmolStr> = could.flat_map(|grant| grant.attributes.iter().cloned()).collect();
    (!shown.is_empty()).then_some(Disclosed::Attributes(shown))
}

/// The grants that show a fact to an agent, with their pacts; those that could, where its value is not known. Its own fact no grant shows.
pub(crate) fn counting_grants<'a>(
    state: &'a dyn ReadState,
    agent: &AgentId,
    id: &FactId,
    value: Option<Option<&Attributes>>,
) -> Vec<(&'a PactName, &'a Grant)> {
    let own = FactId::of_agent(agent);
    let principal = state.current(&own).and_then(|fact| fact.value.as_ref());
    let subject = Subject::new(&own, principal, id, value.flatten()).filter(|_| *id != own);
    let Some(subject) = subject else { return Vec::new() };
    let shows = |grant: &&Grant| match value {
        Some(_) => subject.holds(&grant.who),
        None => subject.could_hold(&grant.who),
    };
    let of_pact = |(name, pact): (&'a PactName, &'a Arc<Pact>)| {
        let grants = pact.observe.get(id.ty()).into_iter().flatten();
        grants.map(move |grant| (name, grant)).collect::<Vec<_>>()
    };
    state.pacts().iter().flat_map(of_pact).filter(|(_, grant)| shows(grant)).collect()
}

/// What an agent may see of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownClaim<'a> {
    /// Its facts, as far as the agent may observe them; never none.
    pub facts: Vec<&'a FactId>,
    /// Why it was made, for its holder and for those who may claim such facts themselves.
    pub reason: Option<&'a str>,
}

/// What an agent may see of a claim; `None` if nothing. That a fact is claimed, and by whom, is part of what can be observed of
/// it. The reason is free text, and may say what the fact's values do not.
pub fn disclose_claim<'a>(state: &dyn ReadState, agent: &AgentId, claim: &'a Claim) -> Option<ShownClaim<'a>> {
    let is_own = claim.by == *agent;
    let is_shown = |fact: &&FactId| is_own || disclose(state, agent, fact).is_observable();
    let facts: Vec<&FactId> = claim.facts.iter().filter(is_shown).collect();
    let knows_why = is_own || facts.iter().any(|fact| may_claim(state, agent, fact));
    (!facts.is_empty()).then(|| ShownClaim { facts, reason: knows_why.then_some(&*claim.reason) })
}

/// The attributes of a type that an agent is not shown. Told by the type and not by the fact: whether an optional
/// attribute is there is part of what is withheld.
pub fn withheld(state: &dyn ReadState, ty: &FactType, disclosed: &Disclosed) -> Vec<SmolStr> {
    let types = state.catalogue().types().get(ty);
    let names = types.into_iter().flat_map(|attributes| attributes.keys());
    names.filter(|name| !disclosed.shows(name)).cloned().collect()
}

fn is_active(principal: &Attributes) -> bool {
    matches!(principal.get("standing"), Some(Value::String(standing)) if standing == "active")
}

/// An active agent, and the fact that it wants to see or to claim.
pub(crate) struct Subject<'a> {
    own: &'a FactId,
    principal: &'a Attributes,
    id: &'a FactId,
    value: Option<&'a Attributes>,
}

impl<'a> Subject<'a> {
    /// `None` for an agent that is not registered or not active.
    pub(crate) fn new(
        own: &'a FactId,
        principal: Option<&'a Attributes>,
        id: &'a FactId,
        value: Option<&'a Attributes>,
    ) -> Option<Self> {
        let principal = principal.filter(|principal| is_active(principal))?;
        Some(Self { own, principal, id, value })
    }

    /// Whether a rule about agents and facts lets it.
    pub(crate) fn holds(&self, who: &Expression) -> bool {
        let of_fact = |(base, _): (Base, &SmolStr)| matches!(base, Base::Read(_));
        // What does not depend on the fact comes first: anyone who has no right costs the same whether or not there is such a fact.
        let could_hold = self.could_hold(who);
        if !could_hold || !who.attributes().any(of_fact) {
            return could_hold;
        }
        // Of a fact that is not there nothing can be known, so a condition on its attributes must not tell the two apart.
        self.value.is_some() && who.holds(&who.inputs(self)).unwrap_or(false)
    }

    /// Whether a rule could let it, whatever the value of the fact is.
    fn could_hold(&self, who: &Expression) -> bool {
        let is_known = |mention: &Mention| !matches!(mention, Mention::Attribute(Base::Read(_), _));
        who.could_hold(&who.inputs(self), &is_known)
    }
}

impl Source for Subject<'_> {
    fn input(&self, mention: &Mention) -> Option<Input<'_>> {
        match mention {
            // No one observes for another: the actor is the principal.
            Mention::Entity(Base::Principal | Base::Actor) => Some(Input::Fact(Cow::Borrowed(self.own))),
            Mention::Entity(Base::Read(_)) => Some(Input::Fact(Cow::Borrowed(self.id))),
            Mention::Attribute(Base::Principal | Base::Actor, name) => self.principal.get(name).map(Input::Value),
            Mention::Attribute(Base::Read(_), name) => self.value.and_then(|value| value.get(name)).map(Input::Value),
            // The loader refuses everything else; were it there, it would be absent and the condition would err.
            _ => None,
        }
    }
}

/// What an agent may be told of the action that it asked for.
pub struct Disclosure<'a> {
    state: &'a dyn ReadState,
    agent: &'a AgentId,
    /// Facts that the agent did not name itself, and whose ids are made of attributes that it may not see.
    hidden: Vec<FactId>,
    /// Whether the agent may see all that a call was rendered from.
    shows_sent: bool,
}

/// The action type that an action was decided by, as an entry names it.
#[derive(Debug, Clone, Copy)]
pub struct DecidedBy<'a> {
    pub pact: &'a PactRef,
    /// The action type.
    pub action: &'a ActionName,
}

impl<'a> Disclosure<'a> {
    /// What `agent` may be told of an action that was decided by `by` and read `reads`: the members of its delegation, its
    /// own fact, then the facts in the order of the action type.
    pub fn new(state: &'a dyn ReadState, agent: &'a AgentId, by: Option<DecidedBy<'_>>, reads: &[FactId]) -> Self {
        let mut disclosure = Self { state, agent, hidden: Vec::new(), shows_sent: false };
        let kind = by.and_then(|by| disclosure.kind(by));
        // What it read in its session it has seen, and no call is rendered from it.
        let is_of_session = |fact: &&FactId| [SESSION, READING].contains(&fact.ty().as_str());
        let reads: Vec<FactId> = reads.iter().filter(|fact| !is_of_session(fact)).cloned().collect();
        disclosure.hidden = disclosure.hide(kind, &reads);
        disclosure.shows_sent = disclosure.hidden.is_empty() && disclosure.sees_sent(kind, &reads);
        disclosure
    }

    /// Whether the agent may see all that the action's call was rendered from. What the other side answers may repeat any of it.
    pub fn shows_sent(&self) -> bool {
        self.shows_sent
    }

    fn sees_sent(&self, kind: Option<&ActionType>, reads: &[FactId]) -> bool {
        let own = FactId::of_agent(self.agent);
        let Some(at) = reads.iter().position(|id| *id == own) else { return false };
        let (agents, reads) = reads.split_at(at + 1);
        let Some(call) = kind.and_then(|kind| kind.call.as_ref()) else {
            // It is no longer known what was sent.
            return agents.iter().chain(reads).all(|fact| *fact == own || self.shows_whole(fact));
        };
        call.sends().flat_map(SendRule::attributes).all(|(base, attribute)| {
            let from = match base {
                Base::Actor => Some(&own),
                Base::Principal => agents.first(),
                Base::Read(read) => reads.get(read),
            };
            from.is_some_and(|from| self.shows(from, attribute))
        })
    }

    /// Whether the agent is shown an attribute of a fact.
    pub fn shows(&self, fact: &FactId, attribute: &str) -> bool {
        disclose(self.state, self.agent, fact).shows(attribute) && may_be_told(self.state, self.agent, fact)
    }

    /// Whether the agent is shown all that a fact can have.
    pub fn shows_whole(&self, fact: &FactId) -> bool {
        let disclosed = disclose(self.state, self.agent, fact);
        let is_whole = disclosed.is_observable() && withheld(self.state, fact.ty(), &disclosed).is_empty();
        is_whole && may_be_told(self.state, self.agent, fact)
    }

    /// The agent that is told.
    pub fn agent(&self) -> &AgentId {
        self.agent
    }

    /// What stands for a fact whose id the agent must not learn; `None` where it may.
    pub fn masked(&self, fact: &FactId) -> Option<FactId> {
        if !self.hidden.contains(fact) {
            return None;
        }
        FactId::new(fact.ty().clone(), "…").ok()
    }

    /// A text from outside, such as what an adapter said, without the ids that the agent must not learn.
    pub fn masked_text(&self, text: &str) -> String {
        let hidden = self.hidden.iter().filter_map(|fact| Some((fact.to_string(), self.masked(fact)?.to_string())));
        hidden.fold(text.to_owned(), |text, (id, instead)| text.replace(&id, &instead))
    }

    /// The action type, if it is still the one that is published.
    fn kind(&self, by: DecidedBy<'_>) -> Option<&'a ActionType> {
        let pact = self.state.pacts().get(&by.pact.name)?;
        pact.actions.get(by.action).filter(|_| pact.hash == by.pact.hash)
    }

    /// Whether an agent may know all of these ids whatever it is granted: they are its own fact, and at most one more, whose id is made
    /// of parameters alone. Most actions read no others, and need no look at the grants.
    pub fn hides_none_of(agent: &AgentId, reads: &[FactId]) -> bool {
        reads.len() <= 2 && reads.first().is_none_or(|first| *first == FactId::of_agent(agent))
    }

    fn hide(&self, kind: Option<&ActionType>, reads: &[FactId]) -> Vec<FactId> {
        if Self::hides_none_of(self.agent, reads) {
            return Vec::new();
        }
        let own = FactId::of_agent(self.agent);
        // The agents come first, members of a delegation among them; the last of them is the one who acts.
        let Some(at) = reads.iter().position(|id| *id == own) else {
            // Which of them the agent named is not known.
            return reads.to_vec();
        };
        let reads = reads.get(at + 1..).unwrap_or_default();
        let of_kind = kind.filter(|kind| {
            let same = |(read, id): (&crate::pact::Read, &FactId)| read.ty == *id.ty();
            reads.len() <= kind.reads.len() && kind.reads.iter().zip(reads).all(same)
        });
        let is_hidden = |at: usize| match of_kind {
            Some(kind) => kind.reads.get(at).is_none_or(|read| {
                read.template.iter().any(|part| match part {
                    TemplatePart::Attribute { read, attribute, .. } => {
                        reads.get(*read).is_none_or(|from| !self.shows(from, attribute))
                    }
                    TemplatePart::Literal(_) | TemplatePart::Param { .. } => false,
                })
            }),
            // It is no longer known how the ids were made; only the first is for certain made of parameters alone.
            None => at > 0,
        };
        let (hidden, told): (Vec<_>, Vec<_>) = reads.iter().enumerate().partition(|(at, _)| is_hidden(*at));
        hidden
            .into_iter()
            .filter(|(_, id)| **id != own && !told.iter().any(|(_, other)| other == id))
            .map(|(_, id)| id.clone())
            .collect()
    }
}
