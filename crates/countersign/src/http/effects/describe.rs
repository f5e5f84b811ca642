//! What is known of an effect, put together from the state and from its entries.

use super::super::error::HttpError;
use super::super::verdict;
use countersign_api::{Effect, EffectState, LastTry, UndoWith};
use countersign_core::action::{Action, ActionRequest};
use countersign_core::call::{EffectId, Outcome, external_key};
use countersign_core::decision::{Decision, Dispatched};
use countersign_core::effect::{self, EffectRefusal, Phase};
use countersign_core::ids::{ActionId, ActionName, AgentId, Digest, FactId, PactName};
use countersign_core::pact::{ActionType, SendRule};
use countersign_core::record::{Entry, Event, shown_call};
use countersign_engine::gate::{Gate, LogError};
use countersign_engine::request::Refusal;
use serde_json::Value;

/// Why an effect cannot be described.
pub enum Described {
    /// There is none, or not any more.
    Refused(EffectRefusal),
    /// Its entries cannot be read.
    Log(LogError),
}

impl From<LogError> for Described {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<Described> for HttpError {
    fn from(described: Described) -> Self {
        match described {
            Described::Refused(refusal) => Refusal::Effect(refusal).into(),
            Described::Log(error) => error.into(),
        }
    }
}

/// What is known of an effect: in words, for those who may see all of it, and what withholding needs.
pub struct Told {
    pub effect: Effect,
    fences: Vec<FactId>,
    /// The entries that it was told by.
    entries: Vec<u64>,
}

impl Told {
    /// The entries that it was told by, first the one that it began with.
    pub fn entries(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().copied()
    }
}

/// What an effect began with, and where it is.
struct Known<'a> {
    id: EffectId,
    state: EffectState,
    /// The id of its action.
    action: ActionId,
    /// The action as it was sent; `None` where it was erased.
    sent: Option<&'a Action>,
    agent: &'a AgentId,
    pact: Option<&'a PactName>,
    at_ms: u64,
    dispatch_at_ms: Option<u64>,
    dispatched: Option<&'a Dispatched>,
    /// The entry of its dispatch, where that is known.
    dispatch: Option<u64>,
    /// What became of it, by the latest entry that speaks of it, if that is a later one than those.
    latest: Option<&'a Entry>,
}

/// Everything that is known of an effect: of one under way as the state has it, of one that has ended as its entries say.
pub fn describe(gate: &Gate, id: EffectId) -> Result<Told, Described> {
    let found = gate.view().effect(id).cloned();
    match found {
        Ok(effect) => of_open(gate, &effect),
        Err(EffectRefusal::Ended { how, entry, .. }) => of_ended(gate, id, how, entry),
        Err(refusal) => Err(Described::Refused(refusal)),
    }
}

fn of_open(gate: &Gate, effect: &effect::Effect) -> Result<Told, Described> {
    let (state, dispatch_at_ms) = match effect.phase {
        Phase::Cooling { dispatch_at_ms } => (EffectState::Cooling, Some(dispatch_at_ms)),
        Phase::Dispatched(_) => (EffectState::Dispatched, None),
        Phase::InDoubt { .. } => (EffectState::InDoubt, None),
    };
    let flight = effect.flight();
    let dispatch = flight.map(|flight| flight.entry);
    let is_later = effect.latest != effect.id.0 && Some(effect.latest) != dispatch;
    let latest = if is_later { Some(gate.read_log(effect.latest)?.decode()?) } else { None };
    let known = Known {
        id: effect.id,
        state,
        action: effect.action.id,
        sent: Some(&effect.action),
        agent: &effect.action.agent,
        pact: Some(&effect.action.pact),
        at_ms: effect.at_ms,
        dispatch_at_ms,
        dispatched: flight.map(|flight| &flight.dispatched),
        dispatch,
        latest: latest.as_ref(),
    };
    Ok(known.told(gate))
}

fn of_ended(gate: &Gate, id: EffectId, how: Outcome, entry: u64) -> Result<Told, Described> {
    let stored = gate.read_log(id.0)?;
    let leaf = stored.leaf()?;
    let intent = stored.decode()?;
    let latest = if entry == id.0 { None } else { Some(gate.read_log(entry)?.decode()?) };
    let sent = match &intent.event {
        Event::Action(decided) => Some(&*decided.action),
        Event::Approval(approved) => Some(&*approved.action),
        _ => None,
    };
    // Of an approval, a leaf names the reviewer. Who acted stands in the settlement too.
    let settled_for = match latest.as_ref().map(|latest| &latest.event) {
        Some(Event::Settle(settle)) => Some(&settle.agent),
        _ => None,
    };
    let known = Known {
        id,
        state: if how == Outcome::Settled { EffectState::Settled } else { EffectState::Failed },
        action: leaf.action.ok_or_else(|| stored.damaged("it names no action"))?,
        sent,
        agent: sent.map(|sent| &sent.agent).or(settled_for).unwrap_or(&leaf.by),
        pact: sent.map(|sent| &sent.pact).or(leaf.pact.as_ref().map(|pact| &pact.name)),
        at_ms: leaf.time,
        dispatch_at_ms: None,
        dispatched: intent.event.decision().and_then(Decision::dispatched),
        dispatch: None,
        latest: latest.as_ref(),
    };
    Ok(known.told(gate))
}

impl Known<'_> {
    fn told(&self, gate: &Gate) -> Told {
        let Self { id, state, dispatched, latest, .. } = *self;
        let is_open = matches!(state, EffectState::Dispatched | EffectState::InDoubt);
        let call = dispatched.map(|dispatched| &dispatched.call);
        let fenced = dispatched.filter(|_| is_open).map(|dispatched| dispatched.fenced.as_slice()).unwrap_or_default();
        let fences: Vec<FactId> = fenced.iter().map(|fence| fence.fact.clone()).collect();
        let blocked = latest.and_then(|latest| verdict::blocked_by(&latest.event)).map(verdict::in_words);
        let (code, message, failed) = match blocked {
            Some(blocked) => (Some(blocked.code), Some(blocked.message), blocked.failed),
            None => (None, None, Vec::new()),
        };
        let evidence = match latest.map(|latest| &latest.event) {
            Some(Event::Settle(settle)) => Some(verdict::evidence(&settle.evidence)),
            _ => None,
        };
        let last_try = gate.tried().last(id).filter(|_| is_open);
        let undo = call.and_then(|call| call.undo.clone()).or_else(|| self.undone_by(gate));
        let is_probed = || call.is_some_and(|call| call.probe.is_some()) || self.keeps_receipts(gate);
        let later = self.dispatch.into_iter().chain(latest.map(|latest| latest.index)).filter(|entry| *entry != id.0);
        let entries: Vec<u64> = std::iter::once(id.0).chain(later).collect();
        let effect = Effect {
            effect: id.to_string(),
            state,
            entry: entries.last().copied().unwrap_or(id.0),
            agent: self.agent.to_string(),
            pact: self.pact.map(ToString::to_string).unwrap_or_default(),
            action: self.sent.map(|sent| sent.action.to_string()).unwrap_or_default(),
            at: self.at_ms,
            dispatch_at: self.dispatch_at_ms,
            idempotency_key: external_key(gate.origin(), id, &self.action),
            adapter: call.map(|call| call.adapter.to_string()),
            call: call.map(shown_call),
            fences: fences.iter().map(ToString::to_string).collect(),
            held_feeds: gate.view().feeds_waiting_for(id),
            probed: (state == EffectState::InDoubt).then(is_probed),
            last_try: last_try.map(|last| LastTry { at: last.at_ms, number: last.number, found: last.found.words() }),
            evidence,
            code,
            message,
            failed,
            undo_with: undo
                .as_ref()
                .filter(|_| state == EffectState::Settled)
                .and_then(|undo| self.undo_with(gate, undo)),
            undo: undo.map(|undo| undo.to_string()),
        };
        Told { effect, fences, entries }
    }

    /// Whether the other side keeps receipts, which are asked about a doubt without a word in the pact.
    fn keeps_receipts(&self, gate: &Gate) -> bool {
        let is_sql =
            |kind: &ActionType| matches!(kind.call.as_ref().map(|call| &call.send), Some(SendRule::Sql { .. }));
        self.sent.and_then(|sent| action_type(gate, &sent.pact, &sent.action, is_sql)).unwrap_or(false)
    }

    /// The action type that undoes the action, by the pact as it is now: where the call cooled and has ended, the entry of its dispatch
    /// is not at hand, and what undoes it is decided under today's pact anyway.
    fn undone_by(&self, gate: &Gate) -> Option<ActionName> {
        let Action { pact, action, .. } = self.sent?;
        action_type(gate, pact, action, |kind| Some(kind.call.as_ref()?.undo.as_ref()?.0.clone()))?
    }

    /// What the effect is undone with: its own parameters, as far as the other action type takes them, and a key that follows from
    /// its own. A key that followed from the effect's number alone could be guessed, and with it the parameters, which the public
    /// leaf has a hash of.
    fn undo_with(&self, gate: &Gate, undo: &ActionName) -> Option<UndoWith> {
        let Self { id, sent, .. } = self;
        let sent = (*sent)?;
        let request = ActionRequest::parse(&sent.body).ok()?;
        let key = request.idempotency_key.as_str();
        let digest = Digest::of(format!("countersign undo\0{id}\0{key}").as_bytes()).to_string();
        let Value::Object(mut params) = sent.params() else { return None };
        // What the pact no longer has is rejected with a verdict that says so.
        if let Some(types) = action_type(gate, &sent.pact, undo, |kind| kind.params.types.clone()) {
            params.retain(|name, _| types.keys().any(|taken| taken == name));
        }
        Some(UndoWith { idempotency_key: format!("undo-{}", digest.get(..32)?), params })
    }
}

/// The same as its agent may know it: without what was sent and read, and without ids that are made of what is withheld. By the very
/// entries that it was told by: what came later is not told either.
pub fn for_its_agent(gate: &Gate, told: Told) -> Result<Effect, LogError> {
    let Told { mut effect, fences, entries } = told;
    let entries = entries.into_iter().map(|entry| gate.read_log(entry)).collect::<Result<Vec<_>, _>>()?;
    verdict::withhold_effect(gate, &mut effect, fences, &entries)?;
    Ok(effect)
}

/// Something of an action type of a pact, as it is now.
fn action_type<T>(gate: &Gate, pact: &PactName, action: &ActionName, of: impl FnOnce(&ActionType) -> T) -> Option<T> {
    let view = gate.view();
    view.pact(pact)?.actions.get(action).map(of)
}
