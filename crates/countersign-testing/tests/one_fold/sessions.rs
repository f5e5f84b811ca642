//! Sessions and readings in random histories.

use super::History;
use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_core::effect::Effect;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Digest, FactId};
use countersign_core::session::{Held, Place, Reading, Reread, SESSION, Session, SessionName};
use countersign_engine::request::{DispatchAsRead, Request, Settlement};

/// Where something is read.
pub(super) fn place(number: u64) -> Place {
    Place { upstream: "shop".into(), tool: "get_stock".into(), arguments: format!("{{\"item\":{number}}}").into() }
}

/// The readings that an effect rests on; `None` where it is not guarded as read.
pub(super) fn rests_on(effect: &Effect) -> Option<Vec<FactId>> {
    let is_guarded = effect.action.action.as_str() == "move";
    is_guarded.then(|| effect.rests_on.iter().map(|(fact, _)| fact.clone()).collect())
}

impl History {
    /// A session of an agent that is open, and the facts of its readings.
    pub(super) fn session(&mut self, agent: &AgentId) -> Option<(SessionName, Vec<FactId>)> {
        let view = self.parts.view();
        let state = view.whole_state();
        let sessions = state.facts.iter().filter(|fact| fact.id.ty().as_str() == SESSION);
        let mut found: Vec<Session> =
            sessions.filter_map(|fact| Session::of(fact.id.id().parse().ok()?, agent, state).ok()).collect();
        found.sort_by_key(|session| session.id);
        let found: Vec<_> = found.iter().map(|session| (session.name(), session.readings().collect())).collect();
        drop(view);
        self.pick(&found)
    }

    /// Opens, goes on in, reads in or closes a session.
    pub(super) fn read(&mut self) {
        let (agent, auth) = (self.agent(), Auth::None);
        let request = match (self.rng.below(7), self.session(&agent)) {
            (0, _) | (_, None) => Request::OpenSession { agent, auth },
            (1, Some((session, _))) => Request::CloseSession { session, agent },
            (2, Some((session, _))) => Request::FollowSession { session: session.id, agent, auth },
            (_, Some((session, _))) => {
                let reading = Box::new(self.reading());
                Request::Read { session, agent, auth, reading }
            }
        };
        self.enter(request);
    }

    /// Shows an agent something with labels, in a session or outside of one.
    pub(super) fn show(&mut self) {
        let agent = self.agent();
        let session = self.session(&agent).map(|(session, _)| session).filter(|_| self.rng.below(2) == 0);
        let labels = self.pick(&[&["untrusted"][..], &["confidential"], &["confidential", "from-outside"]]).unwrap();
        let (labels, from) = (labels.iter().map(|label| (*label).into()).collect(), vec!["Mail::\"1\"".into()]);
        self.enter(Request::Labels { agent, session: session.map(|session| session.id), labels, from });
    }

    pub(super) fn reading(&mut self) -> Reading {
        let content = format!("{{\"stock\":{}}}", self.rng.below(3));
        Reading {
            place: place(self.rng.below(3)),
            at_ms: self.parts.view().time_ms,
            digest: Digest::of(content.as_bytes()),
            projection: "".into(),
            content: (self.rng.below(4) > 0).then(|| content.into()),
            changes: Vec::new(),
            found: Default::default(),
        }
    }

    /// What the readings of an effect read now: most of them the same.
    pub(super) fn dispatch_as_read(&mut self, effect: EffectId, rests_on: &[FactId]) {
        let (mut rereads, mut fresh) = (Vec::new(), Vec::new());
        for fact in rests_on {
            let held = Held::of(self.parts.view().whole_state().facts.get(fact).unwrap());
            let Some(held) = held else { continue };
            let mut reading = self.reading();
            reading.place = held.reading.place.clone();
            if self.rng.below(3) > 0 {
                (reading.digest, reading.content) = (held.digest, held.reading.content.clone());
            }
            let is_read = self.rng.below(5) > 0;
            let told = reading.digest != held.digest && self.rng.below(2) == 0;
            rereads.push(Reread {
                digest: is_read.then_some(reading.digest),
                fact: fact.clone(),
                projection: "".into(),
                took_ms: 1,
                told,
                shown: Vec::new(),
                volatile: Vec::new(),
                why: (!is_read).then(|| Box::new(FoundCode::NoAnswerWithin.number(10_000))),
                held: None,
            });
            fresh.push(reading);
        }
        let request = DispatchAsRead { effect, rereads, fresh };
        self.enter(Request::DispatchAsRead(Box::new(request)));
    }

    /// Settles a call that changed something of what was read.
    pub(super) fn settle_as_read(&mut self, effect: EffectId) {
        let (outcome, fresh) = (Outcome::Settled, vec![self.reading()]);
        let evidence = Evidence::of(FoundCode::Resolved.said("so they say"));
        let settlement = Box::new(Settlement {
            effect,
            outcome,
            evidence,
            judged: None,
            is_stopped: false,
            found: Default::default(),
            beside: Vec::new(),
        });
        self.enter(Request::SettleAsRead { settlement, fresh });
    }
}
