//! Several actions of one agent under one signature: a batch, in which each is decided on its own, or an atomic group, in which all
//! commit or none.
//!
//! The whole comes in one request and has one answer. The entry of the batch comes first and keeps the signature; the entries of its
//! actions refer to it.

use super::{Batch, Joint, Sequenced, Sequencer, draw_tags};
use crate::commit::GROUP_BYTES_MAX;
use crate::idempotency::{Known, Lookup, Seen, Sought, Window};
use crate::request::{ActMany, Answer, Refusal, Reply};
use countersign_core::action::Action;
use countersign_core::decide::{GroupBlocked, Grouping, decide_group};
use countersign_core::decision::Decision;
use countersign_core::identity::Auth;
use countersign_core::ids::{ActionId, AgentId};
use countersign_core::labels::context_of;
use countersign_core::record::{Context, Decided, Encoder, Entry, Event, Grouped};
use parking_lot::Mutex;
use std::sync::Arc;

/// The answers to the actions of a batch, as they come in.
struct Gathered {
    answers: Vec<Option<Result<Answer, Refusal>>>,
    missing: usize,
    reply: Option<Reply>,
}

/// A reply for each of several actions. The last of them to be answered hands all answers to `reply`.
fn gather(count: usize, reply: Reply) -> impl Iterator<Item = Reply> {
    let answers = (0..count).map(|_| None).collect();
    let gathered = Arc::new(Mutex::new(Gathered { answers, missing: count, reply: Some(reply) }));
    (0..count).map(move |at| {
        let gathered = Arc::clone(&gathered);
        let each: Reply = Box::new(move |answer| {
            let mut gathered = gathered.lock();
            if let Some(place) = gathered.answers.get_mut(at) {
                *place = Some(answer);
            }
            gathered.missing = gathered.missing.saturating_sub(1);
            if gathered.missing > 0 {
                return;
            }
            let answers = std::mem::take(&mut gathered.answers);
            let reply = gathered.reply.take();
            drop(gathered);
            if let Some(reply) = reply {
                let all = answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(Refusal::unanswered())));
                reply(Ok(Answer::Many(all.collect())));
            }
        });
        each
    })
}

impl Sequencer {
    /// Decides several actions, each on its own and in their order, or all of them as one.
    pub(super) fn act_many(
        &mut self,
        batch: &mut Batch,
        keys: &mut Window,
        (many, known): (ActMany, &Known),
        reply: Reply,
        now_ms: u64,
    ) {
        if many.is_atomic {
            return self.act_as_group(batch, keys, (many, known), reply, now_ms);
        }
        let ActMany { by, auth, ids, actions, is_atomic } = many;
        // Entered only if an action of it is: one that was sent again in whole leaves nothing.
        let mut waiting = Some((by, auth, Event::Batch { actions: ids, is_atomic }));
        let mut entry = None;
        let replies = gather(actions.len(), reply);
        for (place, (mut action, reply)) in actions.into_iter().zip(replies).enumerate() {
            let sought = known.of(place);
            if waiting.is_some() && self.is_new(keys, &action, sought, now_ms) {
                entry = Some(self.state.next_entry);
                if let Some((by, auth, event)) = waiting.take() {
                    self.enter(batch, now_ms, by, auth, event, None);
                }
            }
            action.batch = entry;
            self.act(batch, keys, (Box::new(action), sought), reply, now_ms, None);
        }
    }

    /// Whether an action will be decided, now or when a fence is freed.
    fn is_new(&self, keys: &Window, action: &Action, sought: Sought, now_ms: u64) -> bool {
        self.known(keys, action, sought, now_ms) == Lookup::New
            && keys.of_agent(action.agent.smol(), now_ms) < self.keys_per_agent
    }

    /// Decides a group: all of its actions commit, in one storage batch, or one entry says which of them was rejected.
    fn act_as_group(
        &mut self,
        batch: &mut Batch,
        keys: &mut Window,
        (many, known): (ActMany, &Known),
        reply: Reply,
        now_ms: u64,
    ) {
        let before = match self.known_in_group(keys, (&many, known), now_ms) {
            Ok(before) => before,
            Err(refusal) => return batch.refuse(reply, refusal),
        };
        if !before.is_empty() {
            let latest = before.into_iter().map(|entry| Ok(self.state.latest_of(entry)));
            return batch.answers.extend(gather(many.actions.len(), reply).zip(latest));
        }
        let ActMany { by, auth, ids, mut actions, .. } = many;
        for action in &mut actions {
            action.auth = self.state.with_custody(action.auth.clone());
        }
        match self.decide_group(&actions, now_ms) {
            Ok(decisions) => {
                let entries = self.group_entries((by, auth), ids, actions.into_iter().zip(decisions), now_ms);
                self.enter_group(batch, keys, entries, reply);
            }
            Err(blocked) => {
                let GroupBlocked { failed, decision } = *blocked;
                for action in &actions {
                    let seen = Seen::new(&action.id, self.state.next_entry, now_ms);
                    keys.insert(action.agent.smol(), action.key, seen);
                }
                let event = Event::Group(Box::new(Grouped { actions, failed, decision }));
                self.enter(batch, now_ms, by, auth, event, Some(reply));
            }
        }
    }

    /// The entries of a group that was decided before; none if all of it is new. What is neither cannot be decided as one.
    fn known_in_group(
        &self,
        keys: &Window,
        (many, sought): (&ActMany, &Known),
        now_ms: u64,
    ) -> Result<Vec<u64>, Refusal> {
        let mut known = Vec::new();
        for (at, action) in many.actions.iter().enumerate() {
            match self.known(keys, action, sought.of(at), now_ms) {
                Lookup::Other(entry) => return Err(Refusal::KeyReused(entry)),
                Lookup::Same(entry) if known.len() == at => known.push(entry),
                Lookup::Same(entry) => return Err(Refusal::GroupRepeats { at: at + 1, entry }),
                Lookup::New => {}
            }
        }
        match known.last() {
            Some(entry) if known.len() < many.actions.len() => {
                return Err(Refusal::GroupRepeats { at: known.len(), entry: *entry });
            }
            _ => {}
        }
        let more = u32::try_from(many.actions.len() - known.len()).unwrap_or(u32::MAX);
        if more > 0 && keys.of_agent(many.by.smol(), now_ms).saturating_add(more) > self.keys_per_agent {
            return Err(Refusal::TooManyKeys(many.by.clone(), self.keys_per_agent));
        }
        Ok(known)
    }

    /// Decides the actions of a group in their order, each on what those before would leave.
    fn decide_group(&mut self, actions: &[Action], now_ms: u64) -> Result<Vec<Decision>, Box<GroupBlocked>> {
        let Self { state, random, .. } = self;
        // The entry of the batch comes first.
        let mut group = Grouping::new(&**state, state.next_entry.saturating_add(1), now_ms);
        let mut decisions = Vec::with_capacity(actions.len());
        for (failed, action) in actions.iter().enumerate() {
            match group.decide(action) {
                Ok(mut decision) => {
                    draw_tags(random, &mut decision.writes);
                    group.assume(action, &decision);
                    group.advance();
                    decisions.push(decision);
                }
                // Once more, at the place of the one entry that it becomes: that is how an audit decides it.
                Err(decision) => {
                    let blocked = decide_group(actions, &**state, now_ms);
                    return Err(Box::new(blocked.unwrap_or(GroupBlocked { failed, decision: *decision })));
                }
            }
        }
        Ok(decisions)
    }

    fn group_entries(
        &self,
        (by, auth): (AgentId, Auth),
        ids: Vec<ActionId>,
        decided: impl Iterator<Item = (Action, Decision)>,
        time_ms: u64,
    ) -> Vec<Entry> {
        let first = self.state.next_entry;
        let entry = |index, auth, event| {
            let (by, context) = (by.clone(), Context::default());
            Entry { index, time_ms, by, auth, context, event }
        };
        let batch = entry(first, self.state.with_custody(auth), Event::Batch { actions: ids, is_atomic: true });
        let actions = decided.zip(first.saturating_add(1)..).map(|((mut action, decision), index)| {
            action.batch = Some(first);
            entry(index, action.auth.clone(), Event::Action(Box::new(Decided { action: Box::new(action), decision })))
        });
        std::iter::once(batch).chain(actions).collect()
    }

    /// Enters a group that commits. What does not fit one commit is not decided at all.
    fn enter_group(&mut self, batch: &mut Batch, keys: &mut Window, entries: Vec<Entry>, reply: Reply) {
        let mut encoder = Encoder::default();
        let bytes = entries.iter().map(|entry| encoder.payload(entry).len()).sum();
        if bytes > GROUP_BYTES_MAX {
            return batch.refuse(reply, Refusal::GroupTooLarge(bytes));
        }
        let replies = std::iter::once(None).chain(gather(entries.len().saturating_sub(1), reply).map(Some));
        let mut joint = Joint::First(bytes);
        for (mut entry, reply) in entries.into_iter().zip(replies) {
            keys.note(&entry);
            entry.context = context_of(&entry.event, &*self.state, entry.time_ms);
            self.state.apply(&entry);
            batch.entries.push(Sequenced { entry: Arc::new(entry), joint, reply });
            joint = Joint::Next;
        }
    }
}
