//! Entries derived again: each as it should have been, from its recorded inputs and the state in front of it.

use super::effects;
use crate::delegation::reduce_for;
use crate::identity::meaning;
use countersign_core::action::{Action, ActionRequest};
use countersign_core::decide::{Approval, approve, decide};
use countersign_core::decision::Write;
use countersign_core::denial::check_denials;
use countersign_core::fact::version_in_tag;
use countersign_core::identity::{Auth, Role, authorise, role_to_feed};
use countersign_core::ids::FactId;
use countersign_core::record::{Approved, Decided, Entry, Event};
use countersign_core::state::State;
use std::sync::Arc;

/// The entry as it should have been, from its recorded inputs.
pub(super) fn again(entry: &Entry, state: &State, origin: &str) -> Result<Entry, String> {
    if let Some(signed) = entry.auth.signed() {
        meaning::check(signed, &entry.event)?;
    }
    check_authority(entry, state)?;
    let Entry { index, time_ms, by, auth, context, event } = entry;
    let held = state.with_custody(auth.clone());
    if held != *auth {
        return Err(format!(
            "it says `auth: {}`, and who held the key then makes it `{}`",
            auth.as_str(),
            held.as_str()
        ));
    }
    let mut again = match event {
        Event::Action(recorded) => {
            check_chain(&recorded.action, origin)?;
            let action = recorded.action.clone();
            let decision = decide(&action, state, *time_ms);
            Event::Action(Box::new(Decided { action, decision }))
        }
        Event::Approval(recorded) => Event::Approval(Box::new(approved_again(entry, recorded, state)?)),
        Event::Dispatch(recorded) => effects::dispatched_again(*time_ms, recorded.effect, state)?,
        Event::Feed { write, held: None } => {
            Event::Feed { write: state.feed(&write.fact, write.value.clone()), held: None }
        }
        Event::Feed { held: Some(held), .. } => effects::released_again(*held, state)?,
        Event::Settle(settle) => effects::settled_again(*time_ms, settle, state)?,
        Event::Claim { .. } | Event::Extension { .. } | Event::Withdrawal { .. } => {
            effects::claimed_again(entry, state)?
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
        | Event::Done(_)
        | Event::Erased(_) => event.clone(),
    };
    give_tags(again.writes_mut(), event.writes());
    Ok(Entry {
        index: *index,
        time_ms: *time_ms,
        by: by.clone(),
        auth: auth.clone(),
        context: context.clone(),
        event: again,
    })
}

/// Whether an operator could do what the entry says, at its place. What the gate did itself needs nobody.
fn check_authority(entry: &Entry, state: &State) -> Result<(), String> {
    let Entry { time_ms, by, auth, event, .. } = entry;
    let role = match event {
        Event::Action(_) | Event::Genesis { .. } | Event::Clock { confirmed: false, .. } => {
            return Ok(());
        }
        // An audit reads entries whole, and does not ask about those that it cannot read.
        Event::Done(_) | Event::Erased(_) => return Ok(()),
        Event::Dispatch(_) | Event::Feed { held: Some(_), .. } => return effects::by_the_gate(entry),
        Event::Denials(denied) => {
            check_denials(denied, *time_ms)?;
            return effects::by_the_gate(entry);
        }
        // A settlement is the gate's own, unless a person resolved a doubt.
        Event::Settle(_) if effects::by_the_gate(entry).is_ok() => return Ok(()),
        Event::Settle(settle) => {
            effects::check_resolved(settle, state)?;
            Role::Reviewer
        }
        // Agents are asked where the claim is derived again.
        Event::Claim { .. } | Event::Extension { .. } | Event::Withdrawal { .. } => return Ok(()),
        Event::Held { fact, .. } => {
            if !state.must_hold(fact) {
                return Err(format!("{fact} was not fenced, but its feed was held"));
            }
            role_to_feed(fact)
        }
        Event::Feed { write, held: None } => {
            if state.must_hold(&write.fact) {
                return Err(format!("{} was fenced, but was fed", write.fact));
            }
            check_condition(auth, &write.fact, state)?;
            state.keys().check(&write.fact, write.value.as_ref()).map_err(|refused| refused.to_string())?;
            role_to_feed(&write.fact)
        }
        Event::Confirm { fact, tag, version } => {
            if state.confirmable(fact, *version) != Some(*tag) {
                return Err(format!("{fact} was confirmed at version {version}, but was not at that version"));
            }
            role_to_feed(fact)
        }
        Event::Pact(_) => Role::Publisher,
        Event::Approval(_) => Role::Reviewer,
        Event::Expiry { review } => {
            state.reviews.check_expired(*review, *time_ms).map_err(|refused| refused.to_string())?;
            return effects::by_the_gate(entry);
        }
        Event::Refusal { review, .. } => {
            state.reviews.waiting(*review, *time_ms).map_err(|refused| refused.to_string())?;
            Role::Reviewer
        }
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

/// Whether the version was current that the signed request asked for with `If-Match`.
fn check_condition(auth: &Auth, fact: &FactId, state: &State) -> Result<(), String> {
    let Some(tag) = auth.signed().and_then(|signed| signed.if_match.as_deref()) else { return Ok(()) };
    let current = state.facts.get(fact).map_or(0, |fact| fact.version());
    match version_in_tag(tag) {
        Some(version) if version == current => Ok(()),
        _ => Err(format!("it was to hold only for version {tag} of {fact}, which was at {current}")),
    }
}

/// An approval decided again: the parked action under what its reviewer was shown.
fn approved_again(entry: &Entry, recorded: &Approved, state: &State) -> Result<Approved, String> {
    let Approved { shown, until_ms, .. } = recorded.clone();
    let approval = Approval { by: &entry.by, shown: &shown, until_ms };
    let parked = state.reviews.waiting(shown.review, entry.time_ms).map_err(|refused| refused.to_string())?;
    let decision = match approve(&approval, parked, state, entry.time_ms) {
        Ok(decision) => decision,
        Err(void) => void.decision.ok_or_else(|| void.refusal.to_string())?,
    };
    Ok(Approved { action: Arc::clone(&parked.action), shown, until_ms, decision })
}

/// Tags of new facts are drawn at random when they are written: a recorded input.
fn give_tags(writes: &mut [Write], recorded: &[Write]) {
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
