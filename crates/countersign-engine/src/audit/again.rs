//! Entries derived again: each as it should have been, from its recorded inputs and the state in front of it.

use super::effects;
use super::fault::{Fault, RestsOn};
use super::observations;
use super::sessions;
use crate::delegation::reduce_for;
use crate::identity::meaning;
use countersign_core::action::{Action, ActionRequest};
use countersign_core::decide::{Approval, GroupBlocked, Grouping, Snapshot, approve, decide, decide_group};
use countersign_core::decision::{Decision, ReadVersion, Write};
use countersign_core::denial::check_denials;
use countersign_core::fact::version_in_tag;
use countersign_core::identity::{Role, authorise, first_operator, role_to_feed};
use countersign_core::limits::{BATCH_ACTIONS_MAX, GROUP_ACTIONS_MAX};
use countersign_core::record::{Approved, Context, Decided, Entry, Event, Grouped};
use countersign_core::state::State;
use countersign_core::value::Value;
use std::sync::Arc;

/// The entry as it should have been, from its recorded inputs.
pub(super) fn again(entry: &Entry, state: &State, origin: &str) -> Result<Entry, Fault> {
    if let Some(signed) = entry.auth.signed() {
        meaning::check(signed, entry, state)?;
    }
    check_authority(entry, state)?;
    check_custody(entry, state)?;
    check_place(entry, state)?;
    let Entry { index, time_ms, by, auth, event, .. } = entry;
    let mut again = match event {
        Event::Action(recorded) => {
            check_chain(&recorded.action, origin)?;
            decided_again(entry, state, state)?
        }
        Event::Approval(_) | Event::Dispatch(_) => decided_again(entry, state, state)?,
        Event::Feed { write, held: None } => {
            Event::Feed { write: state.feed(&write.fact, write.value.clone()), held: None }
        }
        Event::Feed { held: Some(held), .. } => effects::released_again(*held, state)?,
        Event::Settle(settle) => effects::settled_again(*time_ms, settle, state)?,
        Event::Claim { .. } | Event::Extension { .. } | Event::Withdrawal { .. } => {
            effects::claimed_again(entry, state)?
        }
        Event::Session { writes } => sessions::session_again(entry, writes, state)?,
        Event::Reading { .. } => sessions::read_again(entry, event, state)?,
        Event::Observation(observation) => observations::observed_again(entry, observation, state)?,
        Event::Group(recorded) => {
            recorded.actions.iter().try_for_each(|action| check_chain(action, origin))?;
            decided_again(entry, state, state)?
        }
        // What they say is an input, and whether they may say it was asked above.
        Event::Genesis { .. }
        | Event::Pact(_)
        | Event::Held { .. }
        | Event::Confirm { .. }
        | Event::Erasure { .. }
        | Event::Clock { .. }
        | Event::Refusal { .. }
        | Event::Expiry { .. }
        | Event::Halt { .. }
        | Event::Resume { .. }
        | Event::Denials(_)
        | Event::Rotation { .. }
        | Event::Batch { .. }
        | Event::Done(_)
        | Event::Erased(_) => event.clone(),
    };
    give_tags(again.writes_mut(), event.writes());
    let context = Context::default();
    Ok(Entry { index: *index, time_ms: *time_ms, by: by.clone(), auth: auth.clone(), context, event: again })
}

/// What `decide` makes of an entry, on the facts, budgets and fences of `snapshot`. What was parked or cools is the state's.
pub(super) fn decided_again(entry: &Entry, state: &State, snapshot: &dyn Snapshot) -> Result<Event, Fault> {
    match &entry.event {
        Event::Action(recorded) => {
            let action = recorded.action.clone();
            let decision = decide(&action, snapshot, entry.time_ms);
            Ok(Event::Action(Box::new(Decided { action, decision })))
        }
        Event::Approval(recorded) => Ok(Event::Approval(Box::new(approved_again(entry, recorded, state, snapshot)?))),
        Event::Dispatch(recorded) => effects::dispatched_again(entry.time_ms, recorded, state, snapshot),
        Event::Group(recorded) => Ok(Event::Group(Box::new(grouped_again(entry, recorded, snapshot)?))),
        other => Err(format!("an entry of kind `{}` is not decided", other.kind()).into()),
    }
}

/// Whether someone could do what the entry says, at its place. Nothing that is erased excuses that they could not: who is who, and who may
/// do what, is never erased.
fn check_authority(entry: &Entry, state: &State) -> Result<(), String> {
    let Entry { index, time_ms, by, auth, event, .. } = entry;
    let role = match event {
        // An audit reads entries whole, and does not ask about those that it cannot read. Agents are asked where it is decided again.
        Event::Action(_)
        | Event::Observation(_)
        | Event::Claim { .. }
        | Event::Extension { .. }
        | Event::Withdrawal { .. }
        | Event::Done(_)
        | Event::Erased(_) => return Ok(()),
        Event::Batch { actions, is_atomic } => return check_size(actions.len(), *is_atomic),
        Event::Group(group) => return check_size(group.actions.len(), true),
        Event::Genesis { .. }
        | Event::Clock { confirmed: false, .. }
        | Event::Dispatch(_)
        | Event::Session { .. }
        | Event::Reading { .. }
        | Event::Expiry { .. } => {
            return effects::by_the_gate(entry);
        }
        Event::Feed { held: Some(_), .. } => return effects::by_the_gate(entry),
        Event::Denials(denied) => {
            check_denials(denied, *time_ms)?;
            return effects::by_the_gate(entry);
        }
        // A settlement is the gate's own, unless a person resolved a doubt.
        Event::Settle(_) if effects::by_the_gate(entry).is_ok() => return Ok(()),
        // A log that begins identified names its first admin itself, right after its beginning and never again.
        Event::Feed { write, held: None } if *index == FIRST_ADMIN && state.is_identified() => {
            return check_first_admin(entry, write);
        }
        Event::Feed { write, held: None } => {
            state.keys().check(&write.fact, write.value.as_ref()).map_err(|refused| refused.to_string())?;
            role_to_feed(&write.fact)
        }
        Event::Held { fact, value } => {
            state.keys().check(fact, value.as_ref()).map_err(|refused| refused.to_string())?;
            role_to_feed(fact)
        }
        Event::Confirm { fact, .. } => role_to_feed(fact),
        Event::Pact(_) => Role::Publisher,
        Event::Approval(_) | Event::Refusal { .. } | Event::Settle(_) => Role::Reviewer,
        Event::Halt { scope, reason } => {
            state.halts.check_halt(scope, reason).map_err(|refused| refused.to_string())?;
            Role::Admin
        }
        Event::Resume { scope, reason } => {
            state.halts.check_resume(scope, reason).map_err(|refused| refused.to_string())?;
            Role::Admin
        }
        Event::Erasure { .. } | Event::Clock { .. } | Event::Rotation { .. } => Role::Admin,
    };
    authorise(state, by, auth, role, *time_ms).map_err(|refused| refused.to_string())
}

/// The entry that names the first admin of a log that begins identified.
const FIRST_ADMIN: u64 = 1;

fn check_first_admin(entry: &Entry, write: &Write) -> Result<(), String> {
    effects::by_the_gate(entry)?;
    let key = match write.value.as_ref().and_then(|value| value.get("key")) {
        Some(Value::String(key)) => key.parse().ok(),
        _ => None,
    };
    match key.map(|key| first_operator(&key)) {
        Some((fact, value)) if fact == write.fact && Some(&value) == write.value.as_ref() => Ok(()),
        _ => Err("the log begins identified, and this entry does not name its first admin".to_owned()),
    }
}

/// Whether the entry says rightly who held the key that signed.
fn check_custody(entry: &Entry, state: &State) -> Result<(), String> {
    let held = state.with_custody(entry.auth.clone());
    if held == entry.auth {
        return Ok(());
    }
    let (says, held) = (entry.auth.as_str(), held.as_str());
    Err(format!("it says `auth: {says}`, and who held the key then makes it `{held}`"))
}

/// Whether what the entry speaks of was there, and as it says.
fn check_place(entry: &Entry, state: &State) -> Result<(), Fault> {
    let Entry { time_ms, event, .. } = entry;
    match event {
        Event::Held { fact, .. } if !state.must_hold(fact) => {
            Err(Fault::on(RestsOn::Fences)(format!("{fact} was not fenced, but its feed was held")))
        }
        Event::Feed { write, held: None } if state.must_hold(&write.fact) => {
            Err(format!("{} was fenced, but was fed", write.fact).into())
        }
        Event::Confirm { fact, tag, version } if state.confirmable(fact, *version) != Some(*tag) => {
            let what = format!("{fact} was confirmed at version {version}, but was not at that version");
            Err(Fault::on(RestsOn::Fact(fact.clone()))(what))
        }
        Event::Expiry { review } => {
            let expired = state.reviews.check_expired(*review, *time_ms).map_err(|refused| refused.to_string());
            expired.map_err(Fault::on(RestsOn::Review(review.0)))
        }
        Event::Refusal { review, .. } => {
            let waiting = state.reviews.waiting(*review, *time_ms).map_err(|refused| refused.to_string());
            waiting.map(drop).map_err(Fault::on(RestsOn::Review(review.0)))
        }
        Event::Settle(settle) if effects::by_the_gate(entry).is_err() => effects::check_resolved(settle, state),
        _ => Ok(()),
    }
}

/// An approval decided again: the parked action under what its reviewer was shown.
fn approved_again(
    entry: &Entry,
    recorded: &Approved,
    state: &State,
    snapshot: &dyn Snapshot,
) -> Result<Approved, Fault> {
    let Approved { shown, until_ms, .. } = recorded.clone();
    let approval = Approval { by: &entry.by, shown: &shown, until_ms };
    let parked = state.reviews.waiting(shown.review, entry.time_ms).map_err(|refused| refused.to_string());
    let parked = parked.map_err(Fault::on(RestsOn::Review(shown.review.0)))?;
    let decision = match approve(&approval, parked, snapshot, entry.time_ms) {
        Ok(decision) => decision,
        Err(void) => void.decision.ok_or_else(|| void.refusal.to_string())?,
    };
    Ok(Approved { action: Arc::clone(&parked.action), shown, until_ms, decision })
}

/// Whether a gate takes so many actions at once.
fn check_size(actions: usize, is_atomic: bool) -> Result<(), String> {
    let most = if is_atomic { GROUP_ACTIONS_MAX } else { BATCH_ACTIONS_MAX };
    match (1..=most).contains(&actions) {
        true => Ok(()),
        false => Err(format!("it has {actions} actions; the limit is {most}")),
    }
}

/// A rejected group decided again, as a whole.
fn grouped_again(entry: &Entry, recorded: &Grouped, snapshot: &dyn Snapshot) -> Result<Grouped, Fault> {
    if let Some(GroupBlocked { failed, decision }) = decide_group(&recorded.actions, snapshot, entry.time_ms) {
        return Ok(Grouped { actions: recorded.actions.clone(), failed, decision });
    }
    let what = "every action of the group would have committed, and it was rejected".to_owned();
    // What is erased since may have been why: what they read is decided again, and not taken from the entry.
    let (actions, failed) = (recorded.actions.clone(), recorded.failed);
    let Some(decision) = committed(&actions, failed, snapshot, entry.time_ms) else { return Err(what.into()) };
    let again = Event::Group(Box::new(Grouped { actions, failed, decision }));
    Err(Fault::on(RestsOn::Decision(Box::new(again)))(what))
}

/// What is decided on the action at a place of a group that would commit, on everything that the group has read until then.
fn committed(actions: &[Action], at: usize, snapshot: &dyn Snapshot, now_ms: u64) -> Option<Decision> {
    let mut group = Grouping::new(snapshot, snapshot.next_entry(), now_ms);
    let mut reads: Vec<ReadVersion> = Vec::new();
    for (place, action) in actions.iter().enumerate() {
        let decision = group.decide(action).ok()?;
        let is_new = |read: &&ReadVersion| reads.iter().all(|known| known.fact != read.fact);
        let new: Vec<ReadVersion> = decision.reads.iter().filter(is_new).cloned().collect();
        reads.extend(new);
        if place == at {
            return Some(Decision { reads, ..decision });
        }
        group.assume(action, &decision);
    }
    None
}

/// Whether the version in front of a feed is the one that its signed request asked for with `If-Match`.
pub(super) fn check_condition(recorded: &Entry, again: &Entry) -> Result<(), String> {
    let (Some(signed), Event::Feed { write, held: None }) = (recorded.auth.signed(), &again.event) else {
        return Ok(());
    };
    let Some(tag) = signed.if_match.as_deref() else { return Ok(()) };
    let current = if write.previous_entry.is_some() { write.version.saturating_sub(1) } else { 0 };
    match version_in_tag(tag) {
        Some(version) if version == current => Ok(()),
        _ => Err(format!("it was to hold only for version {tag} of {}, which was at {current}", write.fact)),
    }
}

/// Tags of new facts are drawn at random when they are written: a recorded input.
pub(super) fn give_tags(writes: &mut [Write], recorded: &[Write]) {
    for write in writes.iter_mut().filter(|write| write.tag.is_none()) {
        write.tag = recorded.iter().find(|recorded| recorded.fact == write.fact).and_then(|recorded| recorded.tag);
    }
}

/// Signatures are verified again, and the chain must be the token's: no other can have been recorded in its place.
pub(super) fn check_chain(action: &Action, origin: &str) -> Result<(), String> {
    if !action.is_delegated && action.chain.is_none() {
        return Ok(());
    }
    let request = ActionRequest::parse(&action.body).map_err(|error| format!("the recorded body: {error}"))?;
    let chain = request.delegation.as_deref().map(|token| reduce_for(token, origin)).transpose();
    if chain.map_err(|error| error.to_string())?.as_ref() != action.chain.as_deref() {
        return Err("the recorded chain is not that of the delegation in the body".to_owned());
    }
    Ok(())
}
