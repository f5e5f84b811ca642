//! Sessions, readings, and dispatches of what rests on readings, at their place in the order.

use super::{Batch, Sequencer};
use crate::request::{DispatchAsRead, Reply, Settlement};
use countersign_core::call::EffectId;
use countersign_core::code::Code;
#[cfg(not(feature = "sabotage"))]
use countersign_core::decide;
use countersign_core::decide::target;
use countersign_core::decision::Decision;
use countersign_core::effect::EffectRefusal;
use countersign_core::fence::{check_holder, check_reader};
use countersign_core::decide::Snapshot as _;
use countersign_core::identity::{Auth, NoAuthority, Role, WhyNot};
use countersign_core::ids::{AgentId, FactId};
use countersign_core::labels::{LabelSet, content_of_place};
use countersign_core::record::{Dispatch, Event};
use countersign_core::session::{self, Attached, Reading, Reread, Session, SessionId, SessionName, SessionRefusal};
use smol_str::SmolStr;

impl Sequencer {
    /// Opens a session of an agent.
    pub(super) fn open_session(
        &mut self,
        batch: &mut Batch,
        (agent, auth): (&AgentId, &Auth),
        reply: Reply,
        now_ms: u64,
    ) {
        if let Err(refusal) = check_holder(&self.state, agent, auth, now_ms) {
            return batch.refuse(reply, refusal);
        }
        let writes = session::open(agent, self.state.next_entry, &*self.state);
        self.enter(batch, now_ms, AgentId::gate(), Auth::None, Event::Session { writes }, Some(reply));
    }

    /// Opens a session for an agent, as a front end. In an open gate no one is known, and an agent could say that it is one.
    pub(super) fn open_session_for(
        &mut self,
        batch: &mut Batch,
        (by, auth): (AgentId, Auth),
        (agent, attached): (&AgentId, &Attached),
        reply: Reply,
        now_ms: u64,
    ) {
        if let Err(refusal) = self.check_front_end(&by) {
            return batch.refuse(reply, refusal);
        }
        match session::open_for(agent, attached, self.state.next_entry, &*self.state) {
            Ok(writes) => self.enter(batch, now_ms, by, auth, Event::Session { writes }, Some(reply)),
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }

    /// Adds what the user said to a session.
    pub(super) fn say(
        &mut self,
        batch: &mut Batch,
        (by, auth): (AgentId, Auth),
        (name, words): (SessionName, &[SmolStr]),
        reply: Reply,
        now_ms: u64,
    ) {
        if let Err(refusal) = self.check_front_end(&by) {
            return batch.refuse(reply, refusal);
        }
        let session = Session::find(name.id, &*self.state);
        match session.and_then(|session| session::say(&session, words, &*self.state)) {
            Ok(writes) => self.enter(batch, now_ms, by, auth, Event::Session { writes }, Some(reply)),
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }

    fn check_front_end(&self, by: &AgentId) -> Result<(), NoAuthority> {
        match self.state.is_identified() {
            true => Ok(()),
            false => Err(NoAuthority { by: by.clone(), role: Role::FrontEnd, why: WhyNot::Unsigned }),
        }
    }

    /// Goes on in a session that was cut off. From its place on, nothing is read or asked for under the names before.
    pub(super) fn follow_session(
        &mut self,
        batch: &mut Batch,
        (id, agent, auth): (SessionId, &AgentId, &Auth),
        reply: Reply,
        now_ms: u64,
    ) {
        if let Err(refusal) = check_holder(&self.state, agent, auth, now_ms) {
            return batch.refuse(reply, refusal);
        }
        match Session::of(id, agent, &*self.state) {
            Ok(session) => {
                let writes = session::follow(&session, &*self.state);
                self.enter(batch, now_ms, AgentId::gate(), Auth::None, Event::Session { writes }, Some(reply));
            }
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }

    /// Closes a session of an agent; what was read in it counts no longer.
    pub(super) fn close_session(
        &mut self,
        batch: &mut Batch,
        (name, agent): (SessionName, &AgentId),
        reply: Reply,
        now_ms: u64,
    ) {
        match Session::named(name, agent, &*self.state) {
            Ok(session) => {
                let writes = session::close(&session, &*self.state);
                self.enter(batch, now_ms, AgentId::gate(), Auth::None, Event::Session { writes }, Some(reply));
            }
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }

    /// Keeps what a tool answered, before the agent is told.
    pub(super) fn read(
        &mut self,
        batch: &mut Batch,
        (name, agent, auth): (SessionName, &AgentId, &Auth),
        reading: &Reading,
        reply: Reply,
        now_ms: u64,
    ) {
        // Who was revoked or halted while the tool was read is not told what it said.
        if let Err(refusal) = check_reader(&self.state, agent, auth, now_ms) {
            return batch.refuse(reply, refusal);
        }
        let writes = Session::named(name, agent, &*self.state).and_then(|session| {
            match session::read(&session, reading, &*self.state) {
                // The agent is told all the same, and that it was is kept: no write rests on less than it knows.
                Err(SessionRefusal::Full(_)) => Ok(vec![session::read_beyond(&session, &reading.place, &*self.state)]),
                writes => writes,
            }
        });
        match writes {
            Ok(writes) => {
                self.show_readings(batch, (agent, name.id), [reading], now_ms);
                let event = Event::Reading { writes, effect: None };
                self.enter(batch, now_ms, AgentId::gate(), Auth::None, event, Some(reply));
            }
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }

    /// Enters the labels of what is read, in front of it.
    fn show_readings<'a>(
        &mut self,
        batch: &mut Batch,
        (agent, id): (&AgentId, SessionId),
        readings: impl IntoIterator<Item = &'a Reading>,
        now_ms: u64,
    ) {
        let (mut labels, mut from) = (LabelSet::new(), Vec::new());
        for Reading { place, found, .. } in readings {
            let of_place = content_of_place(place, &*self.state);
            labels.extend(found.iter().filter(|_| !of_place.is_empty()).cloned());
            labels.extend(of_place);
            from.push(place.tool_name().into());
        }
        self.show(batch, (agent, Some(id)), (&labels, from), None, now_ms);
    }

    /// Keeps what was read again in the turn of an effect and is told with its outcome. What is not told in full, or cannot be kept, is
    /// left out: the agent's older reading then stays the one that counts.
    fn refresh(&mut self, batch: &mut Batch, id: EffectId, readings: &[Reading], now_ms: u64) -> Vec<FactId> {
        let mut entered = Vec::new();
        let Ok(effect) = self.state.effects.find(id) else { return entered };
        let Some(session) = effect.action.session else { return entered };
        let agent = effect.action.agent.clone();
        let told = session::told(effect, readings, &*self.state);
        let shown = readings.iter().zip(&told).filter(|(_, is_told)| **is_told).map(|(reading, _)| reading);
        // In front of all of them: whoever tells of the entry that follows finds them there, one after the other.
        self.show_readings(batch, (&agent, session.id), shown, now_ms);
        for (reading, _) in readings.iter().zip(told).filter(|(_, is_told)| *is_told) {
            let writes = Session::find(session.id, &*self.state)
                .and_then(|session| session::read(&session, reading, &*self.state));
            let Ok(writes) =
                writes.inspect_err(|error: &SessionRefusal| tracing::warn!(effect = %id, %error, "not kept"))
            else {
                continue;
            };
            if session::keeps_told(&writes) {
                entered.extend(session.id.reading(&reading.place));
                let event = Event::Reading { writes, effect: Some(id) };
                self.enter(batch, now_ms, AgentId::gate(), Auth::None, event, None);
            }
        }
        entered
    }

    /// Notes which tool has answered, where that is told and is no reading: it is not asked again before later writes.
    fn note_answer(&mut self, batch: &mut Batch, settlement: &Settlement, now_ms: u64) {
        if settlement.evidence.result.is_none() && settlement.evidence.unkept.is_none() {
            return;
        }
        let writes = self.state.effects.find(settlement.effect).ok().and_then(|effect| {
            let (upstream, tool) = target(&effect.action, &*self.state)?;
            let session = Session::find(effect.action.session?.id, &*self.state).ok()?;
            Some(session::answered(&session, &format!("{upstream}/{}", tool?), &*self.state))
        });
        if let Some(writes) = writes.filter(|writes| !writes.is_empty()) {
            self.enter(batch, now_ms, AgentId::gate(), Auth::None, Event::Session { writes }, None);
        }
    }

    /// Settles a call. What is told with its outcome is entered right in front of it: whoever tells of the one finds the other there.
    pub(super) fn settle_as_read(
        &mut self,
        batch: &mut Batch,
        settlement: Settlement,
        fresh: &[Reading],
        reply: Reply,
        now_ms: u64,
    ) {
        // Ended meanwhile, by a person: then nothing is told, and nothing replaced.
        if self.state.effects.settling(settlement.effect, settlement.outcome).is_ok() {
            self.show_settlement(batch, &settlement, now_ms);
            self.note_answer(batch, &settlement, now_ms);
            self.refresh(batch, settlement.effect, fresh, now_ms);
        }
        self.settle(batch, settlement, reply, now_ms);
    }

    /// Decides an effect whose readings were just read again. It holds its turn, so it waits for no fence. What is told of a change is
    /// entered first, and the decision after it.
    pub(super) fn dispatch_as_read(&mut self, batch: &mut Batch, request: DispatchAsRead, reply: Reply, now_ms: u64) {
        let DispatchAsRead { effect: id, mut rereads, fresh } = request;
        let first = match self.decide_as_read(id, &rereads, now_ms) {
            Ok(first) => first,
            Err(refusal) => return batch.refuse(reply, refusal),
        };
        let is_changed = first.blocked().is_some_and(|blocked| blocked.code() == Code::ReadingChanged);
        let is_labelled = self.show_refusal(batch, id, &first, now_ms);
        let decision = if is_changed {
            let told = fresh.iter().filter(|reading| is_told(reading, &rereads)).cloned().collect::<Vec<_>>();
            let entered = self.refresh(batch, id, &told, now_ms);
            rereads.iter_mut().for_each(|reread| reread.told &= entered.contains(&reread.fact));
            self.decide_as_read(id, &rereads, now_ms).unwrap_or(first)
        } else if is_labelled {
            self.decide_as_read(id, &rereads, now_ms).unwrap_or(first)
        } else {
            first
        };
        let event = Event::Dispatch(Box::new(Dispatch { effect: id, rereads, decision }));
        self.enter(batch, now_ms, AgentId::gate(), Auth::None, event, Some(reply));
    }

    pub(super) fn decide_as_read(
        &mut self,
        id: EffectId,
        rereads: &[Reread],
        now_ms: u64,
    ) -> Result<Decision, EffectRefusal> {
        self.due(id, now_ms)?;
        let effect = self.state.effects.cooling(id)?;
        #[cfg(not(feature = "sabotage"))]
        let decision = decide::dispatch(effect, rereads, &*self.state, now_ms);
        #[cfg(feature = "sabotage")]
        let decision = self.sabotaged.dispatch(effect, rereads, &self.state, now_ms);
        Ok(decision)
    }
}

/// Whether what was read now is told in full.
fn is_told(reading: &Reading, rereads: &[Reread]) -> bool {
    let name = reading.place.name().to_string();
    let is_it = |reread: &&Reread| reread.fact.id().split_once('/').is_some_and(|(_, named)| named == name);
    rereads.iter().find(is_it).is_some_and(|reread| reread.told && reread.digest == Some(reading.digest))
}
