//! Claims, dispatches, settlements and released feeds, derived again.

use countersign_core::call::EffectId;
use countersign_core::decide;
use countersign_core::effect::Phase;
use countersign_core::fence::{ClaimRefusal, Granted, check_holder, extend_claim, grant_claim, own_claim};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::record::{Dispatch, Entry, Event, Judged, Settle};
use countersign_core::state::State;
use countersign_core::utc::Utc;

/// What the gate does by itself nobody else can have done.
pub(super) fn by_the_gate(entry: &Entry) -> Result<(), String> {
    if entry.by == AgentId::gate() && entry.auth == Auth::None {
        return Ok(());
    }
    Err(format!("an entry of kind `{}` is the gate's own, not {}'s", entry.event.kind(), entry.by))
}

/// A cooling effect, decided again.
pub(super) fn dispatched_again(time_ms: u64, id: EffectId, state: &State) -> Result<Event, String> {
    let effect = state.effects.cooling(id).map_err(|refused| refused.to_string())?;
    if let Phase::Cooling { dispatch_at_ms } = effect.phase
        && time_ms < dispatch_at_ms
    {
        return Err(format!("{id} was to cool until {}", Utc(dispatch_at_ms)));
    }
    let decision = decide::dispatch(effect, state, time_ms);
    Ok(Event::Dispatch(Box::new(Dispatch { effect: id, decision })))
}

/// A settlement: what it writes and gives back follows from the dispatch, what was judged is judged again, and what was stopped must
/// be stopped.
pub(super) fn settled_again(time_ms: u64, settle: &Settle, state: &State) -> Result<Event, String> {
    let effect = state.effects.settling(settle.effect, settle.outcome).map_err(|refused| refused.to_string())?;
    let (writes, charges) = effect.settlement(settle.outcome);
    let judged = settle.judged.as_ref().map(|judged| {
        let Judged { at_ms, facts, .. } = judged.clone();
        let decided = decide::judge(effect, &facts, at_ms);
        Judged::new(at_ms, facts, decided)
    });
    let stopped = match settle.stopped {
        None => None,
        Some(_) => match decide::stop_on(&effect.action, effect.approval.as_deref(), state, time_ms) {
            None => return Err(format!("nothing stopped {}, and it was settled as stopped", settle.effect)),
            stopped => stopped,
        },
    };
    let agent = effect.action.agent.clone();
    Ok(Event::Settle(Box::new(Settle { agent, judged, stopped, writes, charges, ..settle.clone() })))
}

/// A person resolves only what is in doubt.
pub(super) fn check_resolved(settle: &Settle, state: &State) -> Result<(), String> {
    let effect = state.effects.find(settle.effect).map_err(|refused| refused.to_string())?;
    match effect.phase {
        Phase::InDoubt { .. } => Ok(()),
        _ => Err(format!("{} was {}, and a person resolved it", settle.effect, effect.phase.as_str())),
    }
}

/// A feed that was held and whose fence has ended.
pub(super) fn released_again(held: u64, state: &State) -> Result<Event, String> {
    match state.next_released() {
        Some((entry, feed)) if entry == held => {
            Ok(Event::Feed { write: state.feed(&feed.fact, feed.value.clone()), held: Some(entry) })
        }
        _ => Err(format!("no feed of entry {held} was to be released")),
    }
}

/// A claim, granted again.
pub(super) fn claimed_again(entry: &Entry, state: &State) -> Result<Event, String> {
    let Entry { time_ms, by, auth, event, .. } = entry;
    let again = || {
        check_holder(state, by, auth, *time_ms)?;
        match event {
            Event::Claim { facts, expires_at_ms, reason, .. } => {
                // How long was asked for is not recorded; as long as was granted is enough to grant the same.
                let for_ms = expires_at_ms.saturating_sub(*time_ms);
                let Granted { expires_at_ms, until_ms, priority } =
                    grant_claim(state, by, facts, for_ms, reason, *time_ms)?;
                let (facts, reason) = (facts.clone(), reason.clone());
                Ok(Event::Claim { facts, expires_at_ms, until_ms, priority, reason })
            }
            Event::Extension { claim, expires_at_ms } => {
                let for_ms = expires_at_ms.saturating_sub(*time_ms);
                let expires_at_ms = extend_claim(state, by, *claim, for_ms, *time_ms)?;
                Ok(Event::Extension { claim: *claim, expires_at_ms })
            }
            Event::Withdrawal { claim } => {
                own_claim(state, by, *claim, *time_ms)?;
                Ok(event.clone())
            }
            other => Err(ClaimRefusal::Agent(format!("an entry of kind `{}` is no claim", other.kind()))),
        }
    };
    again().map_err(|refused| refused.to_string())
}
