//! Calls that rest on readings, until it is their turn: who asks for it, the thread that is started then, and what is not carried out.

use super::super::schedule::{DISPATCH_AGAIN, Task};
use super::super::turns::{Ask, Holder, Ready};
use super::Inner;
use crate::request::{DispatchAsRead, Refusal, Request};
use countersign_core::call::EffectId;
use countersign_core::decide::{target, touched_by_reading, touches};
use countersign_core::effect::Phase;
use countersign_core::session::{Held, HeldTurn, Reread};
use crossbeam_channel::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long after no thread could be started for a call it is tried again.
const THREAD_AGAIN: Duration = Duration::from_secs(1);

impl Inner {
    /// Whether an effect that cools rests on readings.
    pub(in crate::outbox) fn is_as_read(&self, id: EffectId) -> bool {
        let view = self.gate.view();
        let Ok(effect) = view.rest.effects.cooling(id) else { return false };
        let pact = view.rest.pacts.get(&effect.action.pact);
        let kind = pact.and_then(|pact| pact.actions.get(&effect.action.action));
        kind.is_some_and(|kind| kind.guard.is_some())
    }

    /// Whether an effect that cools was to go off by now.
    pub(in crate::outbox) fn is_due(&self, id: EffectId, now_ms: u64) -> bool {
        let view = self.gate.view();
        let Ok(effect) = view.rest.effects.cooling(id) else { return false };
        matches!(effect.phase, Phase::Cooling { dispatch_at_ms } if dispatch_at_ms <= now_ms)
    }

    /// Carries it out, unless it has moved on meanwhile.
    fn carry_as_read(&self, ready: Ready) {
        let Ready { effect, got } = ready;
        match got {
            _ if self.cut_off.lock().remove(&effect.0) => self.refuse(effect, None),
            Ok(turn) => self.as_read(effect, turn),
            Err(holder) => self.refuse(effect, Some(&holder)),
        }
    }

    /// Starts a thread that carries it out. There are never more than whose turn it can be.
    pub(in crate::outbox) fn start_as_read(self: &Arc<Self>, ready: Ready) {
        let (effect, inner, busy) = (ready.effect, Arc::clone(self), self.busy());
        let watched = self.gate.watched("as-read");
        let carry = move || {
            // Dropped last: whoever waits for it finds that nothing holds the gate any more.
            let _busy = busy;
            let (inner, _watched) = (inner, watched);
            inner.carry_as_read(ready);
        };
        if let Err(error) = std::thread::Builder::new().name(format!("as-read-{}", effect.0)).spawn(carry) {
            tracing::error!(%effect, %error, "no thread can be started for the call; it is tried again");
            self.later(THREAD_AGAIN, Task::DispatchAsRead(effect));
        }
    }

    /// Asks for the turn of a write: what its call may change, and what was read that it rests on.
    pub(in crate::outbox) fn ask_turn(&self, id: EffectId, to: &Sender<Ready>) {
        let ask = {
            let view = self.gate.view();
            let Ok(effect) = view.rest.effects.cooling(id) else { return };
            let pacts = || view.rest.pacts.values().map(|pact| &**pact);
            let held = effect.rests_on.iter().filter_map(|(fact, _)| Held::of(view.fact(fact)?));
            // What does not run needs no turn of its own, and must not wait for one to be told.
            let is_cut_off = self.cut_off.lock().contains(&id.0);
            let own = touches(&effect.action, &view, &view.rest.pacts).unwrap_or_default();
            let read = held.map(|held| touched_by_reading(&held.reading.place, pacts()));
            let touches = if is_cut_off { Vec::new() } else { own.into_iter().chain(read).collect() };
            let thread_at = target(&effect.action, &view).map(|(server, _)| server).filter(|_| !is_cut_off);
            Ask { effect: id, agent: effect.action.agent.clone(), touches, thread_at }
        };
        self.turns.ask(ask, to);
    }

    /// Refuses a write that was waiting when the gate ended. Its client was told nothing and may have made the call again: it must
    /// not run by itself. The same where it did not get its turn.
    fn refuse(&self, id: EffectId, holder: Option<&Holder>) {
        let session = self.gate.view().rest.effects.cooling(id).ok().and_then(|effect| effect.action.session);
        let Some(fact) = session.and_then(|session| session.id.fact()) else { return };
        let held = holder.map(|holder| HeldTurn {
            effect: holder.effect,
            in_doubt: holder.lingers,
            server: holder.server.clone(),
            since: self.since_ms(holder.since),
        });
        let request = DispatchAsRead { effect: id, rereads: vec![Reread::none(fact, held)], fresh: Vec::new() };
        match self.enter(Request::DispatchAsRead(Box::new(request))) {
            Ok(_) | Err(Refusal::Closed) => {}
            Err(Refusal::Effect(_)) => {
                if holder.is_none() {
                    self.cut_off.lock().insert(id.0);
                }
                self.again_if_early(id);
            }
            Err(error) => Self::log_lost(id, &error),
        }
    }

    /// Tries a dispatch again that was refused although the effect still cools: the gate's clock was behind, and nothing else will.
    pub(super) fn again_if_early(&self, id: EffectId) {
        if self.gate.view().rest.effects.cooling(id).is_ok() {
            self.later(DISPATCH_AGAIN, Task::DispatchAsRead(id));
        }
    }

    /// An instant of this life as ledger time.
    pub(in crate::outbox) fn since_ms(&self, since: Instant) -> u64 {
        let elapsed = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.gate.now_ms().saturating_sub(elapsed)
    }
}
