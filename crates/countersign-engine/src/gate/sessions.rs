//! Sessions for those who read in them: opened, read in, closed; and what was told of changes.

use super::{Gate, LogError, Observe, WhyUnread};
use crate::outbox::{Adapters, ToolAnswer};
use crate::request::{Answer, Refusal, Request};
use countersign_core::call::{EffectId, ExternalHow, ExternalRead, FoundCode};
use countersign_core::canonical::Canonical;
use countersign_core::decide::{external_read, target};
use countersign_core::denial::DenialCode;
use countersign_core::difference::Change;
use countersign_core::effect::Effect;
use countersign_core::fence::check_reader;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Digest};
use countersign_core::labels::LabelSet;
use countersign_core::record::{Entry, Event, Kind};
use countersign_core::session::{Attached, Held, Place, Reading, Session, SessionId, SessionName};
use countersign_core::state::written;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::sync::Arc;

/// What was read, once it is durable.
#[derive(Debug)]
pub struct ReadIn {
    /// What the tool answered.
    pub answer: ToolAnswer,
    /// The entry that keeps it.
    pub entry: u64,
    /// Whether it does: a session keeps so many, and says of others only which tool it was.
    pub is_kept: bool,
    /// When it was read, in ledger milliseconds.
    pub at_ms: u64,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum NotReadIn {
    /// The gate refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server, or the way to it, does not answer. That is no reading.
    #[error(transparent)]
    NoAnswer(#[from] WhyUnread),
}

/// How far back a call may have ended of which is told who goes on in its session, in ledger milliseconds. As long as that is done.
const ENDED_WITHIN_MS: u64 = 10 * 60 * 1000;
/// How many calls that ended last are looked at for it.
const ENDED_LOOKED_AT: usize = 256;
/// The most of them that are told.
const ENDED_TOLD: usize = 8;

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedCall {
    /// Its effect.
    pub effect: EffectId,
    /// Its server and tool, where it has one.
    pub tool: Option<(SmolStr, SmolStr)>,
}

/// A reading whose change was told with a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Where it was read.
    pub place: Place,
    /// What was compared before; `None` where it was not kept.
    pub before: Option<SmolStr>,
    /// What is compared now.
    pub after: Option<SmolStr>,
    /// What was told of the difference, where one of the two was not kept.
    pub changes: Vec<Change>,
}

impl Gate {
    /// Opens a session of an agent.
    ///
    /// # Errors
    /// If the agent may not act, or the gate takes nothing.
    pub fn open_session(&self, agent: AgentId, auth: Auth) -> Result<SessionName, Refusal> {
        match self.begin_session(&agent, Request::OpenSession { agent: agent.clone(), auth })? {
            Answer::Entered(entered) => {
                let (session, now_ms) = (SessionId(entered.entry.index), entered.entry.time_ms);
                self.shared.session_uses.opened(&agent, session, now_ms);
                self.close_unused(&agent, now_ms);
                Ok(session.first_name())
            }
            _ => Err(Refusal::unanswered()),
        }
    }

    /// Opens a session for an agent, as a front end, with what the user said and what the session is for.
    ///
    /// # Errors
    /// If the front end may not, what is attached does not fit, or the gate takes nothing.
    pub fn open_session_for(
        &self,
        (by, auth): (AgentId, Auth),
        agent: AgentId,
        attached: Attached,
    ) -> Result<SessionName, Refusal> {
        match self.call(Request::OpenSessionFor { by, auth, agent: agent.clone(), attached })? {
            Answer::Entered(entered) => {
                let session = SessionId(entered.entry.index);
                self.shared.session_uses.opened(&agent, session, entered.entry.time_ms);
                Ok(session.first_name())
            }
            _ => Err(Refusal::unanswered()),
        }
    }

    /// Adds what the user said to a session, as a front end.
    ///
    /// # Errors
    /// If the front end may not, there is no such session, or it has no room for more.
    pub fn say_in(&self, (by, auth): (AgentId, Auth), session: SessionName, words: Vec<SmolStr>) -> Result<(), Refusal> {
        self.call(Request::Say { by, auth, session, words }).map(drop)
    }

    /// Enters that a session is opened, or gone on in, unless its agent did that too often of late and used none of them.
    fn begin_session(&self, agent: &AgentId, request: Request) -> Result<Answer, Refusal> {
        let (uses, now_ms) = (&self.shared.session_uses, self.now_ms());
        if !uses.begin(agent, now_ms) {
            self.deny(agent, DenialCode::RateLimited, "/v1/sessions");
            return Err(Refusal::IdleSessions(agent.clone()));
        }
        self.call(request).inspect_err(|_| uses.give_back(agent, now_ms))
    }

    /// Closes sessions of an agent that are too many, or have not been used for long. One whose calls are under way stays.
    fn close_unused(&self, agent: &AgentId, now_ms: u64) {
        let over = self.shared.session_uses.over(agent, now_ms);
        for session in over.into_iter().filter(|session| self.calls_open_in(*session).is_empty()) {
            let name = Session::of(session, agent, &self.view()).map(|session| session.name());
            let Ok(name) = name else {
                // Closed already.
                self.shared.session_uses.closed(agent, session);
                continue;
            };
            if let Err(error) = self.close_session(name, agent.clone()) {
                tracing::debug!(%error, %session, "a session that no one uses was not closed");
            }
        }
    }

    /// Goes on in a session of an agent that was cut off. From now on nothing is read or asked for under the names that it had.
    ///
    /// # Errors
    /// If there is no such session, it belongs to another, or the agent may not act.
    pub fn follow_session(&self, session: SessionId, agent: AgentId, auth: Auth) -> Result<SessionName, Refusal> {
        let request = Request::FollowSession { session, agent: agent.clone(), auth };
        let Answer::Entered(entered) = self.begin_session(&agent, request)? else {
            return Err(Refusal::unanswered());
        };
        self.shared.session_uses.opened(&agent, session, entered.entry.time_ms);
        let write = entered.entry.event.writes().first();
        let written =
            write.map(|write| written(write, (entered.entry.index, entered.entry.time_ms), &entered.entry.by));
        let name = written.and_then(|fact| Session::read(session, Arc::new(fact))).map(|session| session.name());
        name.ok_or_else(Refusal::unanswered)
    }

    /// Whether a session is open, and of this agent.
    pub fn is_session_of(&self, session: SessionId, agent: &AgentId) -> bool {
        Session::of(session, agent, &self.view()).is_ok()
    }

    /// Everything that was read in a session. Which of it an agent knows depends on what has reached it.
    pub fn places_read(&self, session: SessionId) -> Vec<Place> {
        let view = self.view();
        let Ok(session) = Session::find(session, &view) else { return Vec::new() };
        session.readings().filter_map(|fact| Some(Held::of(view.fact(&fact)?)?.reading.place)).collect()
    }

    /// The calls under way that were asked for in a session.
    pub fn calls_open_in(&self, session: SessionId) -> Vec<EffectId> {
        let view = self.view();
        let is_of = |(_, effect): &(EffectId, &Effect)| effect.action.session.is_some_and(|it| it.id == session);
        view.effects_open().filter(is_of).map(|(id, _)| id).collect()
    }

    /// The calls that were asked for in a session and have ended lately, oldest first. Who goes on in the session may not know of them.
    pub fn calls_ended_in(&self, session: SessionId) -> Vec<EndedCall> {
        let since_ms = self.now_ms().saturating_sub(ENDED_WITHIN_MS);
        let mut ended: Vec<(EffectId, u64)> =
            self.view().effects_ended().filter(|(effect, _)| effect.0 > session.0).collect();
        ended.sort_unstable_by_key(|(_, entry)| std::cmp::Reverse(*entry));
        let is_late = |(_, entry): &(EffectId, u64)| {
            let leaf = self.read_log(*entry).and_then(|stored| stored.leaf());
            leaf.is_ok_and(|leaf| leaf.time >= since_ms)
        };
        let asked_for_in = |(effect, _): (EffectId, u64)| {
            let intent = self.read_log(effect.0).and_then(|stored| stored.decode()).ok()?;
            let Event::Action(decided) = &intent.event else { return None };
            if decided.action.session?.id != session {
                return None;
            }
            let tool = target(&decided.action, &self.view()).and_then(|(upstream, tool)| Some((upstream, tool?)));
            Some(EndedCall { effect, tool })
        };
        let ended = ended.into_iter().take(ENDED_LOOKED_AT).take_while(is_late);
        let mut found: Vec<EndedCall> = ended.filter_map(asked_for_in).take(ENDED_TOLD).collect();
        found.reverse();
        found
    }

    /// Closes a session of an agent.
    ///
    /// # Errors
    /// If there is none of this name, or it belongs to another.
    pub fn close_session(&self, session: SessionName, agent: AgentId) -> Result<(), Refusal> {
        self.call(Request::CloseSession { session, agent: agent.clone() })?;
        self.shared.session_uses.closed(&agent, session.id);
        Ok(())
    }

    /// Reads a tool for an agent, and keeps what it answered in the agent's session before anyone is told.
    ///
    /// # Errors
    /// If the agent or its session may not, or there is no answer.
    pub fn read_in(
        &self,
        (session, agent, auth): (SessionName, AgentId, Auth),
        place: Place,
        adapters: &Adapters,
    ) -> Result<ReadIn, NotReadIn> {
        self.may_read_in((session, &agent, &auth))?;
        // What a pact shows of such facts holds for every way to read them.
        if !self.is_shown_whole(&place) {
            let why = FoundCode::ObservedInstead.about(place.tool_name());
            return Err(WhyUnread::Said(Box::new(why)).into());
        }
        let adapter = adapters.get(&place.upstream);
        let adapter = adapter.ok_or_else(|| WhyUnread::NoAdapter(place.upstream.clone()))?;
        // Time is read first: from here on it may change without anyone here knowing.
        let at_ms = self.now_ms();
        let answer = adapter.read(&place).map_err(|why| WhyUnread::Said(Box::new(why)))?;
        let (entry, is_kept) =
            self.keep((session, agent, auth), place, at_ms, (&answer.compared, &answer.projection), &answer.answer)?;
        Ok(ReadIn { answer, entry, at_ms, is_kept })
    }

    /// Whether an agent may read in a session now. Asked before anything is sent, and again at the entry's own place.
    ///
    /// # Errors
    /// If the agent may not act, or the session is not open or another's.
    pub fn may_read_in(&self, (session, agent, auth): (SessionName, &AgentId, &Auth)) -> Result<(), Refusal> {
        let (now_ms, view) = (self.now_ms(), self.view());
        check_reader(&view.rest, agent, auth, now_ms)?;
        Session::named(session, agent, &view)?;
        self.shared.session_uses.used(agent, session.id, now_ms);
        Ok(())
    }

    /// Whether no pact reads facts from a place, or those that do show all of every such fact to everyone.
    fn is_shown_whole(&self, place: &Place) -> bool {
        let view = self.view();
        view.rest.pacts.values().all(|pact| {
            let from_there = pact.sources.iter().filter(|(_, source)| source.is_tool(&place.upstream, &place.tool));
            from_there.into_iter().all(|(ty, _)| pact.shows_whole(ty))
        })
    }

    /// Keeps what tools answered to an observation as readings of a session. Only what the agent is shown whole: what is withheld is not
    /// told by a difference later. A tool that no operator approved to be compared gives no reading.
    ///
    /// # Errors
    /// If it cannot be kept; then it must not be handed out.
    pub fn keep_observed(
        &self,
        (session, agent, auth): (SessionName, AgentId, Auth),
        observed: &Observe,
        adapters: &Adapters,
    ) -> Result<(), NotReadIn> {
        for shown in &observed.facts {
            let Some(answer) = shown.answer.as_deref().filter(|_| shown.withheld.is_empty()) else { continue };
            let source = self.view().rest.catalogue.source(shown.id.ty()).cloned();
            let how = source.as_ref().and_then(|source| external_read(source, &shown.id));
            let Some(ExternalRead { adapter, how: ExternalHow::Tool { tool, arguments, .. }, .. }) = how else {
                continue;
            };
            let mut canonical = Canonical::new();
            canonical.json(&arguments);
            let place = Place { upstream: adapter, tool, arguments: canonical.as_str().into() };
            let compared = adapters.get(&place.upstream).and_then(|adapter| adapter.compared(&place, answer));
            let Some((compared, projection)) = compared else { continue };
            let who = (session, agent.clone(), auth.clone());
            self.keep(who, place, observed.observed_at_ms, (&compared, &projection), answer)?;
        }
        Ok(())
    }

    /// Enters what was read; the entry, and whether it keeps it. Where the session has as many readings as are kept, the entry says only
    /// that a tool was read beyond those.
    fn keep(
        &self,
        (session, agent, auth): (SessionName, AgentId, Auth),
        place: Place,
        at_ms: u64,
        (compared, projection): (&str, &SmolStr),
        answer: &str,
    ) -> Result<(u64, bool), Refusal> {
        let (digest, content) = (Digest::of(compared.as_bytes()), Some(compared.into()));
        let (projection, changes, found) = (projection.clone(), Vec::new(), LabelSet::new());
        let mut reading = Reading { place, at_ms, digest, projection, content, changes, found };
        self.note_reading(&agent, &mut reading, Some(answer));
        self.latest_readings().note(&reading, None);
        match self.call(Request::Read { session, agent: agent.clone(), auth, reading: Box::new(reading) })? {
            Answer::Entered(entered) => {
                self.shared.session_uses.served(&agent, session.id);
                Ok((entered.entry.index, held(&entered.entry, None).is_some()))
            }
            _ => Err(Refusal::unanswered()),
        }
    }

    /// What was read anew for an effect and entered right in front of this entry, which tells of it.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn told_before(&self, effect: EffectId, entry: u64) -> Result<Vec<Told>, LogError> {
        let mut told = Vec::new();
        let mut at = entry;
        while let Some(before) = at.checked_sub(1) {
            let stored = self.read_log(before)?;
            let leaf = stored.leaf()?;
            if leaf.kind != Kind::Reading || leaf.effect != Some(effect.0) {
                break;
            }
            if stored.payload.is_none() {
                break;
            }
            let read = stored.decode()?;
            let previous = read.event.writes().first().and_then(|write| write.previous_entry);
            let older = previous.map(|previous| self.held_in(previous, &read)).transpose()?.flatten();
            if let Some(held) = held(&read, None) {
                let before = older.and_then(|older| older.reading.content);
                let Reading { place, content: after, changes, .. } = held.reading;
                told.push(Told { place, before, after, changes });
            }
            at = before;
        }
        told.reverse();
        Ok(told)
    }

    /// The reading of the same name that an earlier entry holds; `None` where it is erased.
    fn held_in(&self, entry: u64, of: &Entry) -> Result<Option<Held>, LogError> {
        let stored = self.read_log(entry)?;
        // Of one that is erased, nothing is held.
        Ok(held(&stored.decode()?, Some(of)))
    }
}

/// The reading that an entry holds, of the same name as that of another where one is given.
fn held(entry: &Entry, of: Option<&Entry>) -> Option<Held> {
    let Event::Reading { writes, .. } = &entry.event else { return None };
    let wanted = of.and_then(|of| of.event.writes().first()).map(|write| &write.fact);
    let write = writes.iter().find(|write| wanted.is_none_or(|wanted| write.fact == *wanted))?;
    Held::of(&written(write, (entry.index, entry.time_ms), &entry.by))
}

/// A reading of a session that reads differently by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outdated {
    /// Where it was read.
    pub place: Place,
    /// When that was noticed, in ledger milliseconds.
    pub since_ms: u64,
    /// The effect after which it was noticed.
    pub after: Option<EffectId>,
}

/// What was read last at each place, in any session: it follows from the ledger, and is only kept to warn early.
#[derive(Debug, Default)]
pub(crate) struct LatestReadings(parking_lot::Mutex<HashMap<Digest, Latest>>);

#[derive(Debug, Clone, Copy)]
struct Latest {
    digest: Digest,
    since_ms: u64,
    after: Option<EffectId>,
}

/// How many places are remembered; when there are more, all are forgotten, and warnings begin anew.
const LATEST_MAX: usize = 65_536;

impl LatestReadings {
    /// Something was read.
    pub(crate) fn note(&self, reading: &Reading, after: Option<EffectId>) {
        let mut latest = self.0.lock();
        let name = reading.place.name();
        if latest.get(&name).is_some_and(|known| known.digest == reading.digest) {
            return;
        }
        if latest.len() >= LATEST_MAX {
            latest.clear();
        }
        latest.insert(name, Latest { digest: reading.digest, since_ms: reading.at_ms, after });
    }

    fn of(&self, name: &Digest) -> Option<Latest> {
        self.0.lock().get(name).copied()
    }
}

impl Gate {
    /// The readings of a session that were found to read differently since, by whoever.
    pub fn outdated(&self, session: SessionId) -> Vec<Outdated> {
        let view = self.view();
        let Ok(session) = Session::find(session, &view) else { return Vec::new() };
        let outdated = session.readings().filter_map(|fact| {
            let held = Held::of(view.fact(&fact)?)?;
            let latest = self.latest_readings().of(&held.reading.place.name())?;
            let is_newer = latest.digest != held.digest && latest.since_ms >= held.reading.at_ms;
            let Latest { since_ms, after, .. } = latest;
            is_newer.then_some(Outdated { place: held.reading.place, since_ms, after })
        });
        outdated.collect()
    }
}
