//! What a verdict says about the readings that an action rests on. The differences are made here from what the ledger keeps, by the
//! same function that decided whether they can be told whole.

use crate::http::sessions::outdated;
use countersign_api::{AnsweringTool, Change, ChangedReading, CountedReading, RestsOn};
use countersign_core::call::EffectId;
use countersign_core::decision::Decision;
use countersign_core::difference::{self, Pair, TOLD_BYTES_MAX, tell};
use countersign_core::ids::FactId;
use countersign_core::pact::Mode;
use countersign_core::reason::{self, Reason};
use countersign_core::record::{Entry, Event, Kind};
use countersign_core::session::{Held, Place, READING, SESSION, SessionId, as_sent, not_rechecked};
use countersign_engine::gate::{Gate, LogError, Told};

/// How many entries in front of a settlement its dispatch is looked for.
const LOOKED_BACK_MAX: u64 = 1024;

/// How many readings are named that counted, and the longest arguments that they are named with.
const COUNTED_MAX: usize = 16;
const ARGUMENTS_BYTES_MAX: usize = 128;

/// What an action rests on, by the decision on its intent; `None` where it is not guarded as read.
pub(super) fn of_intent(gate: &Gate, decision: &Decision) -> Option<RestsOn> {
    let of = |ty: &'static str| decision.reads.iter().filter(move |read| read.fact.ty().as_str() == ty);
    let session = of(SESSION).next()?;
    let id: SessionId = session.fact.id().parse().ok()?;
    let outdated = gate.outdated(id).iter().map(outdated).collect();
    let answered = gate.fact(&session.fact).map(|fact| not_rechecked(&fact, session.version)).unwrap_or_default();
    let not_rechecked = answered.iter().filter_map(|tool| tool.split_once('/')).map(answering).collect();
    let rested_on = u64::try_from(of(READING).count()).unwrap_or(u64::MAX);
    let place = |fact: &FactId| Some(Held::of(gate.fact(fact)?.as_ref())?.reading.place);
    let counted = of(READING).filter_map(|read| place(&read.fact)).take(COUNTED_MAX).map(counted).collect();
    Some(RestsOn { rested_on, counted, not_rechecked, reread_ms: None, changed: Vec::new(), outdated })
}

fn answering((upstream, tool): (&str, &str)) -> AnsweringTool {
    AnsweringTool { upstream: upstream.to_owned(), tool: tool.to_owned() }
}

fn counted(place: Place) -> CountedReading {
    let Place { upstream, tool, arguments } = place;
    let arguments = Some(arguments.to_string()).filter(|arguments| arguments.len() <= ARGUMENTS_BYTES_MAX);
    CountedReading { upstream: upstream.to_string(), tool: tool.to_string(), arguments }
}

/// Adds what an entry that follows says of them.
pub(super) fn follow(gate: &Gate, rests_on: &mut RestsOn, effect: EffectId, latest: &Entry) -> Result<(), LogError> {
    let told = changed(&gate.told_before(effect, latest.index)?);
    let Event::Dispatch(dispatch) = &latest.event else {
        if let Event::Settle(settle) = &latest.event {
            rests_on.reread_ms = settle.evidence.measured.as_ref().and_then(|measured| measured.reread_ms);
        }
        rests_on.changed = told;
        return Ok(());
    };
    let took = dispatch.rereads.iter().fold(0_u64, |sum, reread| sum.saturating_add(reread.took_ms));
    rests_on.reread_ms = Some(took).filter(|_| !dispatch.rereads.is_empty());
    let Some(Reason::ReadingChanged { readings }) = dispatch.decision.reason() else { return Ok(()) };
    rests_on.changed = readings.iter().map(|reading| with_told(gate, reading, &told)).collect();
    Ok(())
}

/// Why a guarded call would not have gone off, were its action type not in shadow mode: its dispatch says so, which is some entries in
/// front of its settlement.
pub(super) fn shadowed(gate: &Gate, intent: &Entry, settled: u64) -> Result<Option<Reason>, LogError> {
    let Event::Action(decided) = &intent.event else { return Ok(None) };
    let is_watched = {
        let view = gate.view();
        let kind = view.pacts().find(|pact| pact.name == decided.action.pact);
        let kind = kind.and_then(|pact| pact.actions.get(&decided.action.action));
        kind.is_some_and(|kind| kind.mode == Mode::Shadow && kind.guard.is_some())
    };
    if !is_watched {
        return Ok(None);
    }
    let first = settled.saturating_sub(LOOKED_BACK_MAX).max(intent.index.saturating_add(1));
    for at in (first..settled).rev() {
        let stored = gate.read_log(at)?;
        let leaf = stored.leaf()?;
        if leaf.kind == Kind::Dispatch && leaf.effect == Some(intent.index) {
            let entry = stored.decode()?;
            return Ok(entry.event.decision().and_then(|decision| decision.shadowed.as_deref().cloned()));
        }
    }
    Ok(None)
}

/// A reading that a reason names, with what is told of it.
fn with_told(gate: &Gate, changed: &reason::ChangedReading, told: &[ChangedReading]) -> ChangedReading {
    let held = gate.fact(&changed.reading.fact).and_then(|fact| Held::of(&fact));
    let arguments = held.map(|held| as_sent(&held.reading.place.arguments).into_owned()).unwrap_or_default();
    let volatile = changed.volatile.iter().map(ToString::to_string).collect();
    let (upstream, tool) = (changed.reading.upstream.to_string(), changed.reading.tool.to_string());
    let is_it = |it: &&ChangedReading| (&it.upstream, &it.tool, &it.arguments) == (&upstream, &tool, &arguments);
    match told.iter().find(is_it) {
        Some(told) => ChangedReading { volatile, ..told.clone() },
        None => ChangedReading { upstream, tool, arguments, changes: Vec::new(), told: false, volatile },
    }
}

fn pair(told: &Told) -> Pair<'_> {
    Pair {
        name_bytes: told.place.called_bytes(),
        before: told.before.as_deref(),
        after: told.after.as_deref().unwrap_or_default(),
    }
}

fn changed(told: &[Told]) -> Vec<ChangedReading> {
    let pairs: Vec<_> = told.iter().map(pair).collect();
    let differences = tell(&pairs, TOLD_BYTES_MAX);
    told.iter().zip(differences).map(|(told, difference)| on_the_wire(&told.place, difference)).collect()
}

/// What differs, as it is told.
pub fn changes(difference: difference::Difference) -> Vec<Change> {
    let change = |change: difference::Change| {
        let difference::Change { path, before, after } = change;
        Change { path, before, after }
    };
    difference.changes.into_iter().map(change).collect()
}

fn on_the_wire(place: &Place, difference: difference::Difference) -> ChangedReading {
    let is_whole = difference.is_whole;
    ChangedReading {
        upstream: place.upstream.to_string(),
        tool: place.tool.to_string(),
        arguments: as_sent(&place.arguments).into_owned(),
        changes: changes(difference),
        told: is_whole,
        volatile: Vec::new(),
    }
}
