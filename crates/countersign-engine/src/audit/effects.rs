//! Claims, dispatches, settlements and released feeds, derived again.

use super::fault::{Fault, RestsOn};
use crate::identity::meaning::claimed_for_ms;
use crate::sequence::beside_all;
use countersign_core::decide::{self, Snapshot};
use countersign_core::effect::Phase;
use countersign_core::fence::{ClaimId, ClaimRefusal, Granted, check_holder, extend_claim, grant_claim, own_claim};
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
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
pub(super) fn dispatched_again(
    time_ms: u64,
    recorded: &Dispatch,
    state: &State,
    snapshot: &dyn Snapshot,
) -> Result<Event, Fault> {
    let (id, rereads) = (recorded.effect, recorded.rereads.clone());
    let effect = state.effects.cooling(id).map_err(|refused| refused.to_string());
    let effect = effect.map_err(Fault::on(RestsOn::Effect(id.0)))?;
    if let Phase::Cooling { dispatch_at_ms } = effect.phase
        && time_ms < dispatch_at_ms
    {
        return Err(format!("{id} was to cool until {}", Utc(dispatch_at_ms)).into());
    }
    let decision = decide::dispatch(effect, &rereads, snapshot, time_ms);
    Ok(Event::Dispatch(Box::new(Dispatch { effect: id, rereads, decision })))
}

/// A settlement: what it writes and gives back follows from the dispatch, what was judged is judged again, and what was stopped must
/// be stopped.
pub(super) fn settled_again(time_ms: u64, settle: &Settle, state: &State) -> Result<Event, Fault> {
    let effect = state.effects.settling(settle.effect, settle.outcome).map_err(|refused| refused.to_string());
    let effect = effect.map_err(Fault::on(RestsOn::Effect(settle.effect.0)))?;
    let (writes, charges) = effect.settlement(settle.outcome);
    let judged = settle.judged.as_ref().map(|judged| {
        let Judged { at_ms, facts, .. } = judged.clone();
        let decided = decide::judge(effect, &facts, at_ms);
        Judged::new(at_ms, facts, decided)
    });
    let stopped = match settle.stopped {
        None => None,
        Some(_) => match decide::stop_on(&effect.action, effect.approval.as_deref(), state, time_ms) {
            None => return Err(format!("nothing stopped {}, and it was settled as stopped", settle.effect).into()),
            stopped => stopped,
        },
    };
    let agent = effect.action.agent.clone();
    // Of a reading that is erased, or went with its session, it is not known where it was read.
    let is_known = |fact: &FactId| state.facts.get(fact).is_some_and(|fact| fact.value.is_some());
    let beside = match effect.rests_on.iter().all(|(fact, _)| is_known(fact)) {
        true => beside_all(effect, settle.beside.clone(), state),
        false => settle.beside.clone(),
    };
    Ok(Event::Settle(Box::new(Settle { agent, judged, stopped, writes, charges, beside, ..settle.clone() })))
}

/// A person resolves only what is in doubt.
pub(super) fn check_resolved(settle: &Settle, state: &State) -> Result<(), Fault> {
    let effect = state.effects.find(settle.effect).map_err(|refused| refused.to_string());
    let effect = effect.map_err(Fault::on(RestsOn::Effect(settle.effect.0)))?;
    match effect.phase {
        Phase::InDoubt { .. } => Ok(()),
        // A doubt that is erased is one that the state does not know of.
        _ => {
            let what = format!("{} was {}, and a person resolved it", settle.effect, effect.phase.as_str());
            Err(Fault::on(RestsOn::Effect(settle.effect.0))(what))
        }
    }
}

/// A feed that was held and whose fence has ended.
pub(super) fn released_again(held: u64, state: &State) -> Result<Event, Fault> {
    match state.next_released() {
        Some((entry, feed)) if entry == held => {
            Ok(Event::Feed { write: state.feed(&feed.fact, feed.value.clone()), held: Some(entry) })
        }
        _ => Err(Fault::on(RestsOn::Held(held))(format!("no feed of entry {held} was to be released"))),
    }
}

/// A claim, granted again.
pub(super) fn claimed_again(entry: &Entry, state: &State) -> Result<Event, Fault> {
    let Entry { time_ms, by, auth, event, .. } = entry;
    // Who may announce a change is never erased.
    check_holder(state, by, auth, *time_ms).map_err(|refused| refused.to_string())?;
    // How long was asked for, the signed request says. Without one, as long as was granted is enough to grant the same.
    let for_ms = |expires_at_ms: &u64| match auth.signed() {
        Some(signed) => claimed_for_ms(signed),
        None => Ok(expires_at_ms.saturating_sub(*time_ms)),
    };
    match event {
        Event::Claim { facts, expires_at_ms, reason, .. } => {
            let granted = grant_claim(state, by, facts, for_ms(expires_at_ms)?, reason, *time_ms);
            let Granted { expires_at_ms, until_ms, priority } = granted.map_err(|refused| claim_fault(&refused))?;
            let (facts, reason) = (facts.clone(), reason.clone());
            Ok(Event::Claim { facts, expires_at_ms, until_ms, priority, reason })
        }
        Event::Extension { claim, expires_at_ms } => {
            let extended = extend_claim(state, by, *claim, for_ms(expires_at_ms)?, *time_ms);
            let extended = extended.map_err(|refused| refused.to_string());
            let expires_at_ms = extended.map_err(Fault::on(RestsOn::Claim(claim.0)))?;
            Ok(Event::Extension { claim: *claim, expires_at_ms })
        }
        Event::Withdrawal { claim } => {
            let own = own_claim(state, by, *claim, *time_ms).map_err(|refused| refused.to_string());
            own.map(|_| event.clone()).map_err(Fault::on(RestsOn::Claim(claim.0)))
        }
        other => Err(format!("an entry of kind `{}` is no claim", other.kind()).into()),
    }
}

/// Whether a claim may be announced can rest on the fact that it names, and on claims that took facts from others; everything else that
/// refuses one is never erased.
fn claim_fault(refused: &ClaimRefusal) -> Fault {
    let rests_on = match refused {
        ClaimRefusal::Held { entry, .. } => RestsOn::Claimed(Some(ClaimId(*entry))),
        ClaimRefusal::TooMany => RestsOn::Claimed(None),
        ClaimRefusal::NotAllowed { fact, .. } | ClaimRefusal::TooLong { fact, .. } => RestsOn::Fact(fact.clone()),
        _ => RestsOn::Nothing,
    };
    Fault { what: refused.to_string(), rests_on }
}
