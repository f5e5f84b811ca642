//! What is known of an effect, put together from its entries.

use super::super::error::HttpError;
use super::super::verdict;
use countersign_api::{Effect, EffectState, Evidence, LastTry, UndoWith};
use countersign_core::call::{EffectId, Outcome, external_key};
use countersign_core::effect::{EffectRefusal, Phase};
use countersign_core::ids::{ActionName, Digest, PactName};
use countersign_core::pact::{ActionType, SendRule};
use countersign_core::reason::Reason;
use countersign_core::record::Event;
use countersign_engine::gate::{Gate, LogError, StoredEntry};
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

/// Where an effect is, by what is durable.
fn place(gate: &Gate, id: EffectId) -> Result<(EffectState, u64, Option<u64>), EffectRefusal> {
    let view = gate.view();
    match view.effect(id) {
        Ok(effect) => {
            let state = match effect.phase {
                Phase::Cooling { .. } => EffectState::Cooling,
                Phase::Dispatched(_) => EffectState::Dispatched,
                Phase::InDoubt { .. } => EffectState::InDoubt,
            };
            Ok((state, effect.latest, effect.flight().map(|flight| flight.entry)))
        }
        Err(EffectRefusal::Ended { how: Outcome::Settled, entry, .. }) => Ok((EffectState::Settled, entry, None)),
        Err(EffectRefusal::Ended { entry, .. }) => Ok((EffectState::Failed, entry, None)),
        Err(refusal) => Err(refusal),
    }
}

/// What a settlement rests on; nothing where its payload is erased.
fn evidence(entry: &StoredEntry) -> Option<Evidence> {
    match entry.decode().ok()?.event {
        Event::Settle(settle) => Some(verdict::evidence(&settle.evidence)),
        _ => None,
    }
}

/// Everything that is known of an effect, read from its entries.
pub fn describe(gate: &Gate, id: EffectId) -> Result<Effect, Described> {
    let (state, latest, dispatch) = place(gate, id).map_err(Described::Refused)?;
    let intent = gate.read_log(id.0)?;
    let leaf = intent.leaf()?;
    let action = leaf.action.ok_or_else(|| intent.damaged("it names no action"))?;
    let begun = Payload::of(&intent);
    let dispatched = match dispatch.filter(|dispatch| *dispatch != id.0) {
        Some(dispatch) => Payload::of(&gate.read_log(dispatch)?),
        None => begun.clone(),
    };
    let (ended, evidence) = match latest == id.0 {
        true => (Payload::default(), None),
        false => {
            let entry = gate.read_log(latest)?;
            (Payload::of(&entry), evidence(&entry))
        }
    };
    let body = Payload(begun.text("/body").and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default());
    let call = dispatched.at("/effect/call");
    let blocked = ended.at("/blocked").or_else(|| ended.at("/decision/blocked"));
    let agent = begun.text("/agent").unwrap_or_else(|| leaf.by.to_string());
    let blocked = blocked.and_then(|blocked| serde_json::from_value::<Reason>(blocked.clone()).ok());
    let told = blocked.as_ref().map(verdict::in_words);
    let is_open = matches!(state, EffectState::Dispatched | EffectState::InDoubt);
    let fences = dispatched.at("/effect/fences").and_then(Value::as_array).filter(|_| is_open);
    let last_try = gate.tried().last(id).filter(|_| is_open);
    let fenced = |fence: &Value| fence.get("fact")?.as_str().map(str::to_owned);
    let dispatch_at = begun.at("/effect/dispatch_at").and_then(Value::as_u64);
    let undo = dispatched.text("/effect/call/undo").or_else(|| undone_by(gate, &body));
    let is_settled = state == EffectState::Settled;
    Ok(Effect {
        effect: id.to_string(),
        state,
        entry: latest,
        agent,
        pact: body.text("/pact").unwrap_or_default(),
        action: body.text("/action").unwrap_or_default(),
        at: leaf.time,
        dispatch_at: dispatch_at.filter(|_| state == EffectState::Cooling),
        idempotency_key: external_key(gate.origin(), id, &action),
        adapter: dispatched.text("/effect/call/adapter"),
        call: call.cloned(),
        fences: fences.into_iter().flatten().filter_map(fenced).collect(),
        held_feeds: held_up(gate, id),
        probed: (state == EffectState::InDoubt)
            .then(|| call.is_some_and(|call| call.get("probe").is_some()) || keeps_receipts(gate, &body)),
        last_try: last_try.map(|last| LastTry { at: last.at_ms, number: last.number, found: last.found.words() }),
        evidence,
        code: told.as_ref().map(|told| told.code.clone()),
        message: told.as_ref().map(|told| told.message.clone()),
        failed: told.map(|told| told.failed).unwrap_or_default(),
        undo_with: undo.as_ref().filter(|_| is_settled).and_then(|undo| undo_with(gate, id, &body, undo)),
        undo,
    })
}

/// The same as its agent may know it: without what was sent and read, and without ids that are made of what is withheld.
pub fn for_its_agent(gate: &Gate, id: EffectId, mut effect: Effect) -> Result<Effect, Described> {
    let (_, latest, dispatch) = place(gate, id).map_err(Described::Refused)?;
    let mut entries = vec![id.0];
    entries.extend(dispatch.into_iter().chain([latest]).filter(|entry| *entry != id.0));
    let entries = entries.into_iter().map(|entry| gate.read_log(entry)).collect::<Result<Vec<_>, _>>()?;
    verdict::withhold_effect(gate, &mut effect, &entries)?;
    Ok(effect)
}

/// The feeds that wait for an effect.
fn held_up(gate: &Gate, id: EffectId) -> Vec<u64> {
    gate.view().feeds_waiting_for(id)
}

/// Whether the other side keeps receipts, which are asked about a doubt without a word in the pact.
fn keeps_receipts(gate: &Gate, body: &Payload) -> bool {
    let sql = |action: &ActionType| matches!(action.call.as_ref().map(|call| &call.send), Some(SendRule::Sql { .. }));
    body.text("/action").and_then(|action| action_type(gate, body, &action, sql)).unwrap_or(false)
}

/// The action type that undoes an action, by the pact as it is now: where the call cooled and has ended, the entry of its dispatch
/// is not at hand, and what undoes it is decided under today's pact anyway.
fn undone_by(gate: &Gate, body: &Payload) -> Option<String> {
    action_type(gate, body, &body.text("/action")?, |action| {
        action.call.as_ref()?.undo.as_ref().map(|(undo, _)| undo.to_string())
    })?
}

/// What an effect is undone with: its own parameters, as far as the other action type takes them, and a key that follows from
/// its own. A key that followed from the effect's number alone could be guessed, and with it the parameters, which the public
/// leaf has a hash of.
fn undo_with(gate: &Gate, id: EffectId, body: &Payload, undo: &str) -> Option<UndoWith> {
    let key = body.text("/idempotency_key")?;
    let digest = Digest::of(format!("countersign undo\0{id}\0{key}").as_bytes()).to_string();
    let mut params = body.at("/params")?.as_object()?.clone();
    let types = action_type(gate, body, undo, |action| action.params.types.clone());
    // What the pact no longer has is rejected with a verdict that says so.
    if let Some(types) = types {
        params.retain(|name, _| types.keys().any(|taken| taken == name));
    }
    Some(UndoWith { idempotency_key: format!("undo-{}", digest.get(..32)?), params })
}

/// Something of an action type in the pact of an action, as it is now.
fn action_type<T>(gate: &Gate, body: &Payload, action: &str, of: impl FnOnce(&ActionType) -> T) -> Option<T> {
    let (pact, action) = (PactName::new(body.text("/pact")?).ok()?, ActionName::new(action).ok()?);
    let view = gate.view();
    view.pact(&pact)?.actions.get(&action).map(of)
}

/// The payload of an entry; what was erased says nothing.
#[derive(Default, Clone)]
struct Payload(Value);

impl Payload {
    fn of(stored: &StoredEntry) -> Self {
        let read = stored.show().ok().and_then(|shown| serde_json::from_str(&shown.payload?).ok());
        Self(read.unwrap_or_default())
    }

    fn at(&self, place: &str) -> Option<&Value> {
        self.0.pointer(place)
    }

    fn text(&self, place: &str) -> Option<String> {
        self.at(place)?.as_str().map(str::to_owned)
    }
}
