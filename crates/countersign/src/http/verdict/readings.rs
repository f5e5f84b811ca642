//! What a verdict says about the readings that an action rests on. The differences are made here from what the ledger keeps, by the
//! same function that decided whether they can be told whole.

use crate::http::sessions::outdated;
use countersign_api::{AnsweringTool, Change, ChangedReading, CountedReading, RefusedReading, RestsOn};
use countersign_core::call::EffectId;
use countersign_core::decision::Decision;
use countersign_core::difference::{self, Pair, TOLD_BYTES_MAX, tell};
use countersign_core::ids::FactId;
use countersign_core::pact::Mode;
use countersign_core::reason::{self, ReadingRef, Reason, UnusableReading};
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
    let refused_for = decision.blocked().map(|reason| refused_for(gate, reason)).unwrap_or_default();
    let changed = Vec::new();
    Some(RestsOn { rested_on, counted, not_rechecked, reread_ms: None, refused_for, changed, outdated })
}

/// The readings that a reason is about, other than that they read differently.
fn refused_for(gate: &Gate, reason: &Reason) -> Vec<RefusedReading> {
    let of = |it: &ReadingRef| {
        let held = gate.fact(&it.fact).and_then(|fact| Held::of(&fact));
        let arguments = held.map(|held| as_sent(&held.reading.place.arguments).into_owned());
        RefusedReading { upstream: Some(it.upstream.to_string()), tool: it.tool.to_string(), arguments }
    };
    // As a pact names tools: with their server, or without.
    let named = |name: &str| {
        let (upstream, tool) = name.split_once('/').map_or((None, name), |(upstream, tool)| (Some(upstream), tool));
        RefusedReading { upstream: upstream.map(ToOwned::to_owned), tool: tool.to_owned(), arguments: None }
    };
    match reason {
        Reason::ReadingRequired { tools } => tools.iter().map(|tool| named(tool)).collect(),
        Reason::ReadingStale { readings, .. } => readings.iter().map(of).collect(),
        Reason::ReadingUnread { readings } => readings.iter().map(|it| of(&it.reading)).collect(),
        Reason::ReadingUnusable { readings } => {
            let of =
                |it: &UnusableReading| RefusedReading { upstream: Some(it.upstream.to_string()), ..named(&it.tool) };
            readings.iter().map(of).collect()
        }
        _ => Vec::new(),
    }
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
    let Some(reason) = dispatch.decision.reason() else { return Ok(()) };
    let Reason::ReadingChanged { readings } = reason else {
        rests_on.refused_for = refused_for(gate, reason);
        return Ok(());
    };
    let shown = |fact: &FactId| dispatch.rereads.iter().find(|reread| reread.fact == *fact).map(|it| &*it.shown);
    let shown = |changed: &reason::ChangedReading| shown(&changed.reading.fact).unwrap_or_default();
    rests_on.changed = readings.iter().map(|it| with_told(gate, it, &told, shown(it))).collect();
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

/// A reading that a reason names, with what is told of it, or shown.
fn with_told(
    gate: &Gate,
    changed: &reason::ChangedReading,
    told: &[ChangedReading],
    shown: &[difference::Change],
) -> ChangedReading {
    let held = gate.fact(&changed.reading.fact).and_then(|fact| Held::of(&fact));
    let arguments = held.map(|held| as_sent(&held.reading.place.arguments).into_owned()).unwrap_or_default();
    let volatile = changed.volatile.iter().map(ToString::to_string).collect();
    let (upstream, tool) = (changed.reading.upstream.to_string(), changed.reading.tool.to_string());
    let is_it = |it: &&ChangedReading| (&it.upstream, &it.tool, &it.arguments) == (&upstream, &tool, &arguments);
    match told.iter().find(is_it) {
        Some(told) => ChangedReading { volatile, ..told.clone() },
        None => {
            // A difference says nothing to one who may not have what it differs from.
            let unsure = changed.before.is_none();
            let shown = if unsure { Vec::new() } else { shown.iter().cloned().map(change).collect() };
            ChangedReading { upstream, tool, arguments, unsure, changes: shown, told: false, volatile }
        }
    }
}

fn pair(told: &Told) -> Pair<'_> {
    Pair {
        name_bytes: told.place.called_bytes(),
        before: told.before.as_deref(),
        after: told.after.as_deref().unwrap_or_default(),
        made: Some(told.changes.as_slice()).filter(|made| !made.is_empty()),
    }
}

fn changed(told: &[Told]) -> Vec<ChangedReading> {
    let pairs: Vec<_> = told.iter().map(pair).collect();
    let differences = tell(&pairs, TOLD_BYTES_MAX);
    told.iter().zip(differences).map(|(told, difference)| on_the_wire(&told.place, difference)).collect()
}

/// What differs, as it is told.
pub fn changes(difference: difference::Difference) -> Vec<Change> {
    difference.changes.into_iter().map(change).collect()
}

fn change(change: difference::Change) -> Change {
    let difference::Change { path, before, after } = change;
    Change { path, before, after }
}

fn on_the_wire(place: &Place, difference: difference::Difference) -> ChangedReading {
    let is_whole = difference.is_whole;
    ChangedReading {
        upstream: place.upstream.to_string(),
        tool: place.tool.to_string(),
        arguments: as_sent(&place.arguments).into_owned(),
        unsure: false,
        changes: changes(difference),
        told: is_whole,
        volatile: Vec::new(),
    }
}
