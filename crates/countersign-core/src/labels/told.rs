//! The labels of what an agent is told of its actions: the values that reasons quote, and what calls answer.

use super::content::{content_of_fact, content_of_place, content_of_tool, of_attribute, of_terms};
use super::{LabelSet, SERVER, TOOL};
use crate::action::Action;
use crate::call::Send;
use crate::decide::Snapshot;
use crate::decision::{Decision, Verdict};
use crate::effect::Effect;
use crate::ids::{AgentId, FactId};
use crate::pact::SendRule;
use crate::reason::Reason;
use crate::record::{Context, Event, Given, Judged};
use crate::session::{Held, READING, Session, SessionId};

/// The labels of what the agent of an action is told with this decision or, where a call follows, with what comes of it.
pub fn told(action: &Action, decision: &Decision, snapshot: &dyn Snapshot) -> LabelSet {
    let mut told = LabelSet::new();
    for reason in decision.blocked().into_iter().chain(decision.shadowed.as_deref()) {
        told.extend(quoted(reason, decision, snapshot));
    }
    let is_rejected = matches!(decision.verdict, Verdict::Rejected(_));
    for read in &decision.reads {
        // A refusal tells how a reading differs, and nothing of a tool that was not called.
        if !is_rejected || read.fact.ty().as_str() == READING {
            told.extend(of_what_is_used(&read.fact, snapshot));
        }
    }
    if is_rejected {
        return told;
    }
    let pact = snapshot.pact(&action.pact);
    let call = pact.and_then(|pact| pact.actions.get(&action.action)).and_then(|kind| kind.call.as_ref());
    let Some(call) = call else { return told };
    // What stops it later is told with values of what it reads.
    told.extend(of_reads(decision, snapshot));
    if let SendRule::Tool { tool, .. } = &call.send {
        told.extend(content_of_tool(&call.adapter, tool, snapshot));
    }
    told
}

/// The labels of everything that a decision read.
pub(crate) fn of_reads(decision: &Decision, snapshot: &dyn Snapshot) -> LabelSet {
    decision.reads.iter().flat_map(|read| of_whole(&read.fact, snapshot)).collect()
}

/// The labels of all that a fact says, wherever it lives.
fn of_whole(id: &FactId, snapshot: &dyn Snapshot) -> LabelSet {
    match snapshot.fact(id) {
        Some(fact) => content_of_fact(snapshot.labels(), fact, |_| true),
        None => snapshot.labels().of_type(id.ty()).clone(),
    }
}

/// The labels of what comes of using a tool, a server or a reading: they are not what its fact says, but what it stands for.
fn of_what_is_used(id: &FactId, snapshot: &dyn Snapshot) -> LabelSet {
    let Some(fact) = snapshot.fact(id) else { return LabelSet::new() };
    match id.ty().as_str() {
        TOOL | SERVER => fact.value.iter().flat_map(|terms| of_terms(terms, snapshot.labels())).collect(),
        READING => Held::of(fact).map(|held| content_of_place(&held.reading.place, snapshot)).unwrap_or_default(),
        _ => LabelSet::new(),
    }
}

/// The labels of the values that a reason quotes.
fn quoted(reason: &Reason, decision: &Decision, snapshot: &dyn Snapshot) -> LabelSet {
    if let Reason::ApprovalOutdated { .. } = reason {
        return of_reads(decision, snapshot);
    }
    let reads = reason.failed().iter().flat_map(|failed| &failed.reads);
    let labels = reads.flat_map(|read| match (snapshot.fact(&read.fact), &read.attribute) {
        (Some(fact), Some(name)) => of_attribute(snapshot.labels(), fact, name).clone(),
        // Whether there is a fact says nothing that a label is for.
        (_, None) => LabelSet::new(),
        (None, Some(_)) => snapshot.labels().of_type(read.fact.ty()).clone(),
    });
    labels.collect()
}

/// The labels of what its agent is told with the settlement of a call.
pub fn shown_by_settlement(effect: &Effect, judged: Option<&Judged>, snapshot: &dyn Snapshot) -> LabelSet {
    let Some(flight) = effect.flight() else { return LabelSet::new() };
    let mut shown = LabelSet::new();
    let call = &flight.dispatched.call;
    let sent = judged.and_then(|judged| judged.send.as_ref()).or(call.send.as_ref());
    if let Some(Send::Tool { tool, .. }) = sent {
        shown.extend(content_of_tool(&call.adapter, tool, snapshot));
    }
    for (fact, _) in judged.into_iter().flat_map(|judged| &judged.facts) {
        shown.extend(snapshot.labels().of_type(fact.ty()).iter().cloned());
    }
    if judged.is_some_and(|judged| judged.blocked.is_some()) {
        shown.extend(flight.context.iter().flat_map(|context| &context.labels).cloned());
    }
    shown
}

/// What the leaf of an entry says of labels: those that it shows its agent and that the agent did not have.
pub fn context_of(event: &Event, snapshot: &dyn Snapshot, now_ms: u64) -> Context {
    let (action, decision) = match event {
        Event::Action(decided) => (&*decided.action, &decided.decision),
        Event::Group(group) => match group.actions.get(group.failed) {
            Some(action) => (action, &group.decision),
            None => return Context::default(),
        },
        _ => return Context::default(),
    };
    let told = told(action, decision, snapshot);
    if told.is_empty() {
        return Context::default();
    }
    shown_in((&action.agent, action.session.map(|session| session.id)), &told, snapshot, now_ms)
}

/// The context of an entry that shows an agent content with these labels; nothing where none of them is new.
pub fn shown_in(
    (agent, session): (&AgentId, Option<SessionId>),
    labels: &LabelSet,
    snapshot: &dyn Snapshot,
    now_ms: u64,
) -> Context {
    // What is shown in a session that is not the agent's is shown outside of any.
    let session = session.filter(|session| Session::of(*session, agent, snapshot).is_ok());
    if !snapshot.labels().grows(agent, session, labels, now_ms) {
        return Context::default();
    }
    let session = session.map(|session| smol_str::format_smolstr!("{session}"));
    let labels = labels.iter().cloned().collect();
    // No gate has more names of labels than a leaf has room for.
    Context::new(Given { session, labels, ..Given::default() }).unwrap_or_default()
}
