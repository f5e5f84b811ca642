//! Sessions and readings, derived again: what was read is an input, and what it wrote follows from it.

use super::fault::{Fault, RestsOn};
use countersign_core::call::EffectId;
use countersign_core::decision::Write;
use countersign_core::ids::{AgentId, Digest, FactId};
use countersign_core::labels::terms_of_tool;
use countersign_core::pact::SendRule;
use countersign_core::record::{Entry, Event};
use countersign_core::session::{self, Held, READING, Session, SessionId};
use countersign_core::state::{State, written};
use countersign_core::value::Value;

/// A session that was opened or closed.
pub(super) fn session_again(entry: &Entry, writes: &[Write], state: &State) -> Result<Event, Fault> {
    let first = writes.first().ok_or_else(|| "it writes nothing".to_owned())?;
    let id: SessionId = first.fact.id().parse().map_err(|error| format!("{error}"))?;
    let Some(value) = &first.value else {
        let session = Session::find(id, state).map_err(|refused| refused.to_string());
        let session = session.map_err(Fault::on(RestsOn::Session(id.0)))?;
        return Ok(Event::Session { writes: session::close(&session, state) });
    };
    let agent = match value.get("agent") {
        Some(Value::String(agent)) => AgentId::new(agent.clone()).map_err(|error| error.to_string())?,
        _ => return Err("it opens a session of no agent".to_owned().into()),
    };
    Ok(Event::Session { writes: session::open(&agent, entry.index, state) })
}

/// A reading: its answer is an input, and of one that is told with an outcome whether that could be told.
pub(super) fn read_again(entry: &Entry, event: &Event, state: &State) -> Result<Event, Fault> {
    let Event::Reading { writes, effect } = event else { return Err("it is no reading".to_owned().into()) };
    let first = writes.first().filter(|write| write.fact.ty().as_str() == READING);
    let first = first.ok_or_else(|| "it writes no reading".to_owned())?;
    let (id, held) = (Held::session(&first.fact), held_in(entry, first));
    let (Some(id), Some(held)) = (id, held) else { return Err("it writes no reading".to_owned().into()) };
    let session = Session::find(id, state).map_err(|refused| refused.to_string());
    let session = session.map_err(Fault::on(RestsOn::Session(id.0)))?;
    let content = held.reading.content.as_deref();
    if content.is_some_and(|content| Digest::of(content.as_bytes()) != held.digest) {
        return Err("its digest is not that of what was read".to_owned().into());
    }
    if let Some(effect) = effect {
        check_told(*effect, &held, state)?;
    }
    let writes = session::read(&session, &held.reading, state).map_err(|refused| refused.to_string())?;
    Ok(Event::Reading { writes, effect: *effect })
}

/// What takes the place of a reading without having been asked for is told with the outcome of a write that rests on it, and in full.
fn check_told(id: EffectId, held: &Held, state: &State) -> Result<(), Fault> {
    let effect = state.effects.find(id).map_err(|refused| refused.to_string());
    let effect = effect.map_err(Fault::on(RestsOn::Effect(id.0)))?;
    if effect.action.session != Held::session(&held.fact) {
        return Err(format!("{id} is not of its session").into());
    }
    match session::told(effect, std::slice::from_ref(&held.reading), state).as_slice() {
        [true] => Ok(()),
        _ => Err(Fault::on(RestsOn::Fact(held.fact.clone()))(format!("what it changes is not told in full with {id}"))),
    }
}

/// The facts that say on which terms the tool is approved whose labels an entry says.
pub(super) fn terms(entry: &Entry, state: &State) -> Vec<FactId> {
    let action = match &entry.event {
        Event::Reading { writes, .. } => {
            let held = writes.first().and_then(|write| held_in(entry, write));
            let terms = held.map(|held| terms_of_tool(&held.reading.place.upstream, &held.reading.place.tool));
            return terms.into_iter().flatten().collect();
        }
        Event::Action(decided) => &*decided.action,
        _ => return Vec::new(),
    };
    let kind = state.pacts.get(&action.pact).and_then(|pact| pact.actions.get(&action.action));
    match kind.and_then(|kind| kind.call.as_ref()).map(|call| (&call.adapter, &call.send)) {
        Some((adapter, SendRule::Tool { tool, .. })) => terms_of_tool(adapter, tool).collect(),
        _ => Vec::new(),
    }
}

/// The reading that a write holds.
fn held_in(entry: &Entry, write: &Write) -> Option<Held> {
    Held::of(&written(write, (entry.index, entry.time_ms), &entry.by))
}
