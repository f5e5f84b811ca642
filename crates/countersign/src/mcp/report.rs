//! What a ledger says about tools: which calls were refused, or would have been in shadow mode, and why; what was read, and whether a
//! write ever rested on it. From that, what an admin might approve otherwise.
//!
//! It reads entries and decides nothing. What it proposes is for a person to judge.

mod propose;
mod readings;

pub use propose::Proposal;

use self::readings::Readings;
use super::gate::{AS_READ, FACT_TYPE, PACT_NAME, SHADOW_TYPE};
use countersign_core::call::{FoundCode, Outcome};
use countersign_core::code::Code;
use countersign_core::decision::Decision;
use countersign_core::ids::FactId;
use countersign_core::pact::{Mode, SendRule};
use countersign_core::reason::Reason;
use countersign_core::record::{Decided, Dispatch, Entry, Event, Settle};
use countersign_core::session::{READING, SESSION, SessionId};
use countersign_core::value::Value;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How many entries are named for one reason.
const ENTRIES_MAX: usize = 5;

/// What a ledger says.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Entries read.
    pub entries: u64,
    /// Entries of which nothing is known, because their payload was erased.
    pub erased: u64,
    /// Sessions that were opened.
    pub sessions: u64,
    /// What was called, by server and tool.
    pub calls: BTreeMap<String, Calls>,
    /// What was read, by server and tool.
    pub readings: BTreeMap<String, Read>,
    /// Whether anything was let pass that would have been refused.
    pub is_shadowed: bool,
    /// Whether more is, as far as the ledger says: an admin's word, a pact, or the settings that the latest call came with.
    pub shadow_in_force: bool,
    /// What might be approved otherwise.
    pub proposals: Vec<Proposal>,
}

/// The calls of one tool that may change something.
#[derive(Debug, Default, Serialize)]
pub struct Calls {
    /// All of them.
    pub calls: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Those that were made although they would have been refused.
    pub would_refuse: u64,
    /// Those that would have been refused and were not made either: nothing could be sent.
    pub not_made: u64,
    /// Those that were let go and did not happen for another reason: a server that could not be reached, an error of a tool.
    pub failed: u64,
    /// Those of which no one knows whether they happened.
    pub in_doubt: u64,
    /// Why, for those that were refused and those that would have been.
    pub reasons: Vec<Because>,
    /// Whether some passed that no guard and no pact decided on.
    pub unguarded: bool,
}

/// One reason, with how often it was given.
#[derive(Debug, Default, Serialize)]
pub struct Because {
    pub code: String,
    /// Whether these calls were made all the same: in shadow mode.
    pub made: bool,
    /// In a sentence.
    pub message: String,
    /// How many calls.
    pub calls: u64,
    /// How many of these only for a change that had been a reason before, which a refusal would have told.
    pub again: u64,
    /// The first entries that say so.
    pub entries: Vec<u64>,
}

/// The readings of one tool.
#[derive(Debug, Default, Serialize)]
pub struct Read {
    /// How often it was read for an agent.
    pub readings: u64,
    /// In how many sessions.
    pub sessions: u64,
    /// How many writes rested on it.
    pub rested_on: u64,
    /// How many of these found it changed.
    pub changed: u64,
}

/// A call that rests on readings.
struct AsRead {
    tool: String,
    rests_on: Vec<(FactId, u64)>,
    /// Why it would have been refused when it was asked for.
    shadowed: Option<Reason>,
    /// Whether it was counted as one that would have been refused.
    is_counted: bool,
    /// Whether it was counted as one in doubt.
    in_doubt: bool,
}

/// Reads a ledger, entry by entry.
#[derive(Default)]
pub struct Collector {
    report: Report,
    readings: Readings,
    /// Calls that rest on readings, by the entry of their intent.
    effects: HashMap<u64, AsRead>,
    /// The tools that actions of pacts call.
    mapped: HashMap<(String, String), String>,
    /// The tools that are approved as those that only read.
    read_only: BTreeSet<String>,
    /// Versions of readings that were found changed before.
    known: HashSet<(FactId, u64)>,
    /// Until when servers are only watched, in ledger milliseconds.
    watched: BTreeMap<String, u64>,
    /// The pacts that have an action in shadow mode.
    shadowing: BTreeSet<String>,
    /// Whether the latest call that no pact maps came with settings that let it pass.
    lets_pass: bool,
    /// The time of the latest entry.
    time_ms: u64,
}

impl Collector {
    /// Takes in the next entry.
    pub fn entry(&mut self, entry: &Entry) {
        self.report.entries = self.report.entries.saturating_add(1);
        self.time_ms = entry.time_ms;
        match &entry.event {
            Event::Pact(pact) => {
                // The gateway's own watches what an admin has put into shadow mode.
                let shadows = pact.actions.values().any(|action| action.mode == Mode::Shadow);
                match shadows && pact.name.as_str() != PACT_NAME {
                    true => self.shadowing.insert(pact.name.to_string()),
                    false => self.shadowing.remove(pact.name.as_str()),
                };
                for (name, action) in &pact.actions {
                    if let Some(call) = &action.call
                        && let SendRule::Tool { tool, .. } = &call.send
                    {
                        let tool = format!("{}/{tool}", call.adapter);
                        self.mapped.insert((pact.name.to_string(), name.to_string()), tool);
                    }
                }
            }
            Event::Feed { write, .. } if write.fact.ty().as_str() == FACT_TYPE => {
                let value = write.value.as_ref();
                match value.and_then(|value| value.get("read_only")) == Some(&Value::Bool(true)) {
                    true => self.read_only.insert(write.fact.id().to_owned()),
                    false => self.read_only.remove(write.fact.id()),
                };
                let text = |name: &str| value.and_then(|value| value.get(name)) == Some(&Value::String(AS_READ.into()));
                self.readings.guarded(write.fact.id(), text("guard"));
            }
            Event::Feed { write, .. } if write.fact.ty().as_str() == SHADOW_TYPE => {
                match write.value.as_ref().map(|value| value.get("until")) {
                    None => drop(self.watched.remove(write.fact.id())),
                    Some(until) => {
                        let until = until.and_then(|until| match until {
                            Value::Long(until) => u64::try_from(*until).ok(),
                            _ => None,
                        });
                        self.watched.insert(write.fact.id().to_owned(), until.unwrap_or(u64::MAX));
                    }
                }
            }
            // The others of this kind are gone on in, or closed, or note which tool has answered.
            Event::Session { writes }
                if writes.first().is_some_and(|write| write.fact.id().parse() == Ok(SessionId(entry.index))) =>
            {
                self.report.sessions = self.report.sessions.saturating_add(1);
            }
            Event::Reading { writes, effect } => {
                let fact = writes
                    .first()
                    .map(|write| countersign_core::state::written(write, (entry.index, entry.time_ms), &entry.by));
                fact.iter().for_each(|fact| self.readings.read(fact, effect.is_some()));
            }
            Event::Action(decided) => self.decided(entry.index, decided),
            Event::Dispatch(dispatch) => self.dispatched(entry.index, dispatch),
            Event::Settle(settle) => {
                let judged = settle.judged.as_ref();
                // What is decided on facts as they are read right before the call is decided here.
                let blocked = judged.and_then(|judged| judged.blocked.as_ref()).or(settle.stopped.as_ref());
                let shadowed = judged.and_then(|judged| judged.shadowed.as_ref());
                if let (Some(reason), Some(effect)) = (blocked.or(shadowed), self.effects.get(&settle.effect.0)) {
                    let tool = effect.tool.clone();
                    self.because(&tool, reason, entry.index, blocked.is_some(), false);
                }
                self.settled(settle, blocked.is_some());
            }
            Event::Erased(_) => self.report.erased = self.report.erased.saturating_add(1),
            _ => {}
        }
    }

    fn decided(&mut self, index: u64, decided: &Decided) {
        let (action, decision) = (&decided.action, &decided.decision);
        let params = action.params();
        let text = |name: &str| params.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        let name = (action.pact.to_string(), action.action.to_string());
        let tool = match (name.0.as_str(), name.1.as_str()) {
            (PACT_NAME, "write" | "watch") => format!("{}/{}", text("server"), text("name")),
            (PACT_NAME, "call") => text("tool").to_owned(),
            _ => match self.mapped.get(&name) {
                Some(tool) => tool.clone(),
                None => return,
            },
        };
        if name.0 == PACT_NAME && name.1 == "call" {
            return self.passed(index, &tool, text("unmapped"), decision);
        }
        let calls = self.report.calls.entry(tool.clone()).or_default();
        calls.calls = calls.calls.saturating_add(1);
        if let Some(reason) = decision.blocked() {
            return self.because(&tool, reason, index, true, false);
        }
        let of = |ty: &'static str| decision.reads.iter().filter(move |read| read.fact.ty().as_str() == ty);
        let rests_on: Vec<_> = of(READING).map(|read| (read.fact.clone(), read.version)).collect();
        let shadowed = decision.shadowed.as_deref().cloned();
        if let (Some(reason), None) = (&shadowed, of(SESSION).next()) {
            self.because(&tool, reason, index, false, false);
        }
        let is_counted = shadowed.is_some() && of(SESSION).next().is_none();
        self.effects.insert(index, AsRead { tool, rests_on, shadowed, is_counted, in_doubt: false });
    }

    /// A call that the gateway passed on, or would have.
    fn passed(&mut self, index: u64, tool: &str, unmapped: &str, decision: &Decision) {
        if self.read_only.contains(tool) {
            return;
        }
        self.lets_pass = unmapped == "shadow";
        let calls = self.report.calls.entry(tool.to_owned()).or_default();
        calls.calls = calls.calls.saturating_add(1);
        if let Some(reason) = decision.blocked() {
            let is_unguarded = reason.failed().iter().any(|failed| &*failed.id == "reads-only-or-let-pass");
            calls.unguarded |= is_unguarded;
            return self.because(tool, reason, index, true, false);
        }
        calls.unguarded = true;
        if unmapped == "shadow" {
            calls.would_refuse = calls.would_refuse.saturating_add(1);
            self.report.is_shadowed = true;
            let message = "no pact maps it, and it is not guarded".to_owned();
            count(calls, (Code::PreconditionFailed.as_str(), true), message, index, false);
        }
    }

    fn dispatched(&mut self, index: u64, dispatch: &Dispatch) {
        let Some(effect) = self.effects.get(&dispatch.effect.0) else { return };
        let (tool, rests_on) = (effect.tool.clone(), effect.rests_on.clone());
        let decision = &dispatch.decision;
        let reason = decision.blocked().or(decision.shadowed.as_deref()).or(effect.shadowed.as_ref()).cloned();
        let changed: BTreeSet<&FactId> = match &reason {
            Some(Reason::ReadingChanged { readings }) => readings.iter().map(|it| &it.reading.fact).collect(),
            _ => BTreeSet::new(),
        };
        for (fact, version) in &rests_on {
            self.readings.rested_on((fact, *version), changed.contains(fact));
        }
        for reread in dispatch.rereads.iter().filter(|reread| !reread.volatile.is_empty()) {
            self.readings.differed_twice(&reread.fact, &reread.volatile);
        }
        let Some(reason) = &reason else { return };
        let of_changed = rests_on.iter().filter(|(fact, _)| changed.contains(fact));
        let mut is_new = changed.is_empty();
        for one in of_changed {
            is_new |= self.known.insert(one.clone());
        }
        let is_refused = decision.blocked().is_some();
        self.because(&tool, reason, index, is_refused, !is_new);
        if let Some(effect) = self.effects.get_mut(&dispatch.effect.0) {
            effect.is_counted |= !is_refused;
        }
    }

    /// What a call came to. What was counted as made was not, where nothing was sent.
    fn settled(&mut self, settle: &Settle, is_refused: bool) {
        let Some(effect) = self.effects.get_mut(&settle.effect.0) else { return };
        let calls = self.report.calls.entry(effect.tool.clone()).or_default();
        if std::mem::replace(&mut effect.in_doubt, settle.outcome == Outcome::InDoubt) {
            calls.in_doubt = calls.in_doubt.saturating_sub(1);
        }
        calls.in_doubt = calls.in_doubt.saturating_add(u64::from(effect.in_doubt));
        if settle.outcome != Outcome::Failed || is_refused {
            return;
        }
        if effect.is_counted && !was_sent(settle.evidence.found.code) {
            effect.is_counted = false;
            calls.would_refuse = calls.would_refuse.saturating_sub(1);
            calls.not_made = calls.not_made.saturating_add(1);
            return;
        }
        calls.failed = calls.failed.saturating_add(1);
    }

    fn because(&mut self, tool: &str, reason: &Reason, index: u64, is_refused: bool, is_again: bool) {
        let calls = self.report.calls.entry(tool.to_owned()).or_default();
        let sum = if is_refused { &mut calls.refused } else { &mut calls.would_refuse };
        *sum = sum.saturating_add(1);
        self.report.is_shadowed |= !is_refused;
        count(calls, (reason.code().as_str(), !is_refused), self.readings.said(reason), index, is_again);
    }

    /// What was found, as of now; in a trial, with how it was started.
    pub fn finish(self, now_ms: u64, trial: Option<&[String]>) -> Report {
        let Self { mut report, readings, watched, shadowing, lets_pass, time_ms, .. } = self;
        let now_ms = now_ms.max(time_ms);
        let is_watched = watched.values().any(|until| *until > now_ms);
        report.shadow_in_force = is_watched || lets_pass || !shadowing.is_empty();
        report.readings = readings.report();
        report.proposals = propose::proposals(&report, &readings, trial);
        report
    }
}

/// Whether something left, by what was found of a call that failed.
fn was_sent(found: FoundCode) -> bool {
    use FoundCode as Code;
    let unsent = [
        Code::Blocked,
        Code::Late,
        Code::LogLost,
        Code::NoAdapter,
        Code::NotApproved,
        Code::NotSent,
        Code::Resting,
        Code::Stopped,
        Code::Unreachable,
        Code::Unread,
        Code::Unsendable,
        Code::WrongKind,
    ];
    !unsent.contains(&found)
}

fn count(calls: &mut Calls, (code, made): (&str, bool), message: String, index: u64, is_again: bool) {
    let is_same = |reason: &Because| reason.code == code && reason.made == made && reason.message == message;
    let at = calls.reasons.iter().position(is_same);
    let at = at.unwrap_or_else(|| {
        calls.reasons.push(Because { code: code.to_owned(), made, message, ..Because::default() });
        calls.reasons.len().saturating_sub(1)
    });
    let Some(reason) = calls.reasons.get_mut(at) else { return };
    reason.calls = reason.calls.saturating_add(1);
    reason.again = reason.again.saturating_add(u64::from(is_again));
    if reason.entries.len() < ENTRIES_MAX {
        reason.entries.push(index);
    }
}
