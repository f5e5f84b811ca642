//! Writes that are guarded as read: which readings they rest on, and whether those read the same right before the call.
//!
//! At the intent the readings of the session are noted with their versions: those and no later ones are what the agent had seen. At
//! the dispatch each is compared with what was read again, which is a recorded input.

use super::{Deciding, Snapshot, Stage};
use crate::action::Action;
use crate::carried::Index;
use crate::decimal::unmarked;
use crate::decision::{Decision, ReadVersion};
use crate::effect::Effect;
use crate::fact::Fact;
use crate::ids::{Digest, FactId};
use crate::pact::{AsRead, CARRIED, Mode, SendRule};
use crate::reason::{ChangedReading, ReadingRef, Reason, UnreadReading};
use crate::session::{Held, READING, Reread, Session, as_sent};
use crate::value::Value;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The fact that a decision read, at its version.
fn version_of(fact: &Arc<Fact>) -> ReadVersion {
    ReadVersion { fact: fact.id.clone(), version: fact.version(), tag: Some(fact.tag) }
}

/// A fact that was not there.
fn absent(fact: FactId) -> ReadVersion {
    ReadVersion { fact, version: 0, tag: None }
}

/// The readings of a session that a guard counts.
fn counted(guard: &AsRead, session: &Session, snapshot: &dyn Snapshot) -> Vec<(Arc<Fact>, Held)> {
    let held = session.readings().filter_map(|fact| {
        let fact = snapshot.fact(&fact)?;
        Some((Arc::clone(fact), Held::of(fact)?))
    });
    held.filter(|(_, held)| guard.counts(&held.reading.place)).collect()
}

impl Deciding<'_> {
    /// Whether only those readings count whose values the action carries: its pact says so, or the approval of the tool that its
    /// parameters name.
    fn is_carried(&self, guard: &AsRead) -> bool {
        let is_any_tool = || matches!(&self.kind.call, Some(call) if matches!(call.send, SendRule::AnyTool { .. }));
        let resource = || self.reads.first().and_then(super::Resolved::live)?.value.as_ref()?.get("rests_on");
        guard.carried || is_any_tool() && matches!(resource(), Some(Value::String(word)) if word == CARRIED)
    }

    /// Of the readings that a guard counts, those that this action rests on.
    fn rested_on(&self, guard: &AsRead, mut readings: Vec<(Arc<Fact>, Held)>) -> Vec<(Arc<Fact>, Held)> {
        if !self.is_carried(guard) {
            return readings;
        }
        let mut index = Index::new(self.kind.params.enumerations());
        // Latest first: what there is no room for is the oldest.
        readings
            .sort_by(|(_, one), (_, other)| (other.reading.at_ms, &other.fact).cmp(&(one.reading.at_ms, &one.fact)));
        for (_, held) in &readings {
            if index.is_full() {
                index.add_unknown(&held.fact);
                continue;
            }
            index.add_names(&held.fact, &as_sent(&held.reading.place.arguments));
            // Where the agent may know what was read before, that is what its write carries, and only this is kept.
            let is_known = rested_on(self.action, held, held.version).is_some();
            match held.reading.content.as_ref().filter(|_| is_known) {
                Some(content) => index.add(&held.fact, content),
                None => index.add_unknown(&held.fact),
            }
        }
        let carried = index.carried(&unmarked(&self.action.params()));
        readings.retain(|(_, held)| carried.contains(&held.fact) || guard.must(&held.reading.place));
        readings
    }

    /// What the action read beside the facts that its pact names: its session, and the readings that it rests on.
    pub(super) fn session_reads(&self) -> Vec<ReadVersion> {
        // At the dispatch they are those that the intent noted, which `compare` adds.
        let (Some(guard), Stage::Intent(noted)) = (&self.kind.guard, self.stage) else { return Vec::new() };
        let Ok(session) = self.session() else {
            let fact = self.action.session.and_then(|session| session.id.fact());
            let found = |fact: FactId| self.snapshot.fact(&fact).map(version_of).unwrap_or_else(|| absent(fact));
            return fact.map(found).into_iter().collect();
        };
        if let Some(noted) = noted {
            let current =
                noted.iter().map(|(fact, _)| self.snapshot.fact(fact).map_or_else(|| absent(fact.clone()), version_of));
            return std::iter::once(version_of(&session.fact)).chain(current).collect();
        }
        let counted = self.rested_on(guard, counted(guard, &session, self.snapshot));
        let counted: BTreeSet<FactId> = counted.into_iter().map(|(fact, _)| fact.id.clone()).collect();
        let readings = session.readings().filter_map(|fact| match self.snapshot.fact(&fact) {
            Some(found) => counted.contains(&fact).then(|| version_of(found)),
            // Only where it is erased: an audit then says that what rests on it cannot be verified.
            None => Some(absent(fact)),
        });
        std::iter::once(version_of(&session.fact)).chain(readings).collect()
    }

    /// Time since the oldest of the readings among what was read.
    pub(super) fn readings_gap_ms(&self, reads: &[ReadVersion]) -> Option<u64> {
        let made_at = |read: &ReadVersion| {
            let fact = self.snapshot.fact(&read.fact).filter(|fact| fact.id.ty().as_str() == READING)?;
            match fact.value.as_ref()?.get("at") {
                Some(Value::Long(at_ms)) => u64::try_from(*at_ms).ok(),
                _ => None,
            }
        };
        reads.iter().filter_map(made_at).min().map(|oldest_ms| self.now_ms.saturating_sub(oldest_ms))
    }

    /// Whether a reading counts: what was made after the action was asked for, while it waited for a person, does not.
    fn is_noted(&self, reading: &FactId) -> bool {
        match self.stage {
            Stage::Intent(Some(noted)) => noted.iter().any(|(fact, _)| fact == reading),
            _ => true,
        }
    }

    pub(super) fn session(&self) -> Result<Session, Reason> {
        let name = self.action.session;
        let name = name.ok_or_else(|| Reason::SessionRequired { action: self.kind.name.clone() })?;
        let found = match self.stage {
            // Who was cut off asks for nothing more: whoever went on in the session was shown something else.
            Stage::Intent(None) => Session::named(name, &self.action.agent, self.snapshot),
            // What it rests on was noted when it was asked for.
            _ => Session::of(name.id, &self.action.agent, self.snapshot),
        };
        found.map_err(|_| Reason::SessionNotOpen { session: name })
    }

    /// Whether there is a session, and in it what the pact asks for.
    pub(super) fn check_session(&self) -> Result<(), Reason> {
        let Some(guard) = &self.kind.guard else { return Ok(()) };
        if self.is_judgement() {
            return Ok(());
        }
        let session = self.session()?;
        // What was read after it was asked for does not count for it.
        if matches!(self.stage, Stage::Intent(None)) && session.is_beyond(|place| guard.counts(place)) {
            return Err(Reason::TooManyReadings { session: session.id });
        }
        let readings = counted(guard, &session, self.snapshot);
        let has_arrived = |held: &Held| some_has_arrived(self.action, held);
        let is_read =
            |tool: &&SmolStr| readings.iter().any(|(_, it)| guard.names(tool, &it.reading.place) && has_arrived(it));
        let missing: Vec<SmolStr> = guard.must_read.iter().filter(|tool| !is_read(tool)).cloned().collect();
        if !missing.is_empty() {
            return Err(Reason::ReadingRequired { tools: missing });
        }
        self.check_reading_values()?;
        let Some(stale_after) = guard.stale_after_ms else { return Ok(()) };
        let readings =
            self.rested_on(guard, readings.into_iter().filter(|(fact, _)| self.is_noted(&fact.id)).collect());
        let is_stale = |held: &Held| self.now_ms.saturating_sub(held.reading.at_ms) > stale_after;
        let stale = readings.iter().filter(|(_, held)| is_stale(held)).map(|(_, held)| refer(held));
        let stale: Vec<ReadingRef> = stale.collect();
        if stale.is_empty() { Ok(()) } else { Err(Reason::ReadingStale { readings: stale, stale_after }) }
    }
}

fn refer(held: &Held) -> ReadingRef {
    let place = &held.reading.place;
    ReadingRef { fact: held.fact.clone(), upstream: place.upstream.clone(), tool: place.tool.clone() }
}

/// Decides whether the readings that an effect rests on read the same, and notes that they were read.
pub(super) fn compare(
    effect: &Effect,
    rereads: &[Reread],
    mut decision: Decision,
    snapshot: &dyn Snapshot,
    now_ms: u64,
) -> Decision {
    let pact = snapshot.pact(&effect.action.pact);
    let Some(kind) = pact.and_then(|pact| pact.actions.get(&effect.action.action)) else { return decision };
    if kind.guard.is_none() {
        return decision;
    }
    let current =
        effect.rests_on.iter().map(|(fact, _)| snapshot.fact(fact).map_or_else(|| absent(fact.clone()), version_of));
    decision.reads.extend(current);
    let since_ms = now_ms.saturating_sub(effect.at_ms);
    decision.gap_ms = decision.gap_ms.max(effect.gap_ms.map(|gap_ms| gap_ms.saturating_add(since_ms)));
    // What was told is entered before this is decided once more. That it has changed says more than that it was read again.
    if matches!(decision.blocked(), Some(Reason::ReadingUnusable { .. }))
        && let Err(reason) = differing(effect, rereads, snapshot)
    {
        return decision.rejected(reason);
    }
    if decision.dispatched().is_none() {
        return decision;
    }
    if let Some(reason) = not_carried_out(effect, rereads) {
        return decision.rejected(reason);
    }
    match (differing(effect, rereads, snapshot), kind.mode) {
        (Ok(()), _) => decision,
        // What would have blocked earlier is told in preference.
        (Err(reason), Mode::Shadow) => Decision { shadowed: decision.shadowed.or(Some(Box::new(reason))), ..decision },
        (Err(reason), Mode::Enforce) => decision.rejected(reason),
    }
}

/// Why nothing was read again, so that nothing may be called in any mode: the write did not get its turn; or the gate ended while it
/// waited, its client was told nothing, and it must not run by itself.
fn not_carried_out(effect: &Effect, rereads: &[Reread]) -> Option<Reason> {
    let session = effect.action.session?;
    let fact = session.id.fact();
    let about = rereads.iter().find(|reread| fact.as_ref() == Some(&reread.fact))?;
    Some(match &about.held {
        Some(held) => Reason::TurnHeld { held: held.clone() },
        None => Reason::SessionNotOpen { session },
    })
}

fn differing(effect: &Effect, rereads: &[Reread], snapshot: &dyn Snapshot) -> Result<(), Reason> {
    let (mut unread, mut changed) = (Vec::new(), Vec::new());
    for (fact, version) in &effect.rests_on {
        let Some(held) = snapshot.fact(fact).and_then(|fact| Held::of(fact)) else {
            // It went with its session.
            return Err(effect.action.session.map_or_else(
                || Reason::SessionRequired { action: effect.action.action.clone() },
                |session| Reason::SessionNotOpen { session },
            ));
        };
        let reading = refer(&held);
        let reread = rereads.iter().find(|reread| reread.fact == *fact);
        let Some((reread, after)) = reread.and_then(|reread| Some((reread, reread.digest?))) else {
            unread.push(UnreadReading { reading, why: reread.and_then(|reread| reread.why.clone()) });
            continue;
        };
        let before = rested_on(&effect.action, &held, *version);
        let is_same = before == Some(after) && reread.projection == held.reading.projection;
        if !is_same {
            let (told, volatile) = (reread.told, reread.volatile.clone());
            changed.push(ChangedReading { reading, before, after, told, volatile });
        }
    }
    match (unread.is_empty(), changed.is_empty()) {
        (false, _) => Err(Reason::ReadingUnread { readings: unread }),
        (true, false) => Err(Reason::ReadingChanged { readings: changed }),
        (true, true) => Ok(()),
    }
}

/// The digest that the write rests on: that of the version that the intent noted. Where it is not known whether that version had
/// reached the agent, the one before it counts as well, and if they differ nothing is the same as both.
pub(crate) fn rested_on(action: &Action, held: &Held, version: u64) -> Option<Digest> {
    let since = held.version.checked_sub(version)?;
    match (since, unsure(action, held)) {
        // It was made once: the agent knows this content or none.
        (0, _) if held.before.is_none() => Some(held.digest),
        _ if has_arrived(action, held, version) => Some(held.digest),
        (1, 0) => held.before,
        // Read so often meanwhile, or so often without reaching the agent, that it is no longer known.
        _ => None,
    }
}

/// Whether the agent had what a reading holds now when the intent noted this version: each version that may have been the last to reach
/// it reads the same.
pub(super) fn has_arrived(action: &Action, held: &Held, version: u64) -> bool {
    let Some(since) = held.version.checked_sub(version) else { return false };
    match unsure(action, held) {
        0 => since <= held.repeats,
        1 => since.saturating_add(1) <= held.repeats,
        // Two answers, of which the agent may know neither.
        _ => false,
    }
}

/// Whether any answer has reached the agent, whichever.
fn some_has_arrived(action: &Action, held: &Held) -> bool {
    match unsure(action, held) {
        0 => true,
        1 => held.before.is_some(),
        _ => false,
    }
}

/// How many answers of a reading may not have reached the agent; two are as good as all.
fn unsure(action: &Action, held: &Held) -> usize {
    if action.unsure.is_empty() {
        return 0;
    }
    let name = held.name();
    action.unsure.iter().filter(|unsure| **unsure == name).count()
}

/// The readings among what a decision read, with the versions that they had.
pub(crate) fn readings_in(decision: &Decision) -> Vec<(FactId, u64)> {
    let readings = decision.reads.iter().filter(|read| read.fact.ty().as_str() == READING);
    readings.map(|read| (read.fact.clone(), read.version)).collect()
}
