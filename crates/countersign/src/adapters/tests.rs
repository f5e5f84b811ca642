//! Adapters against real sockets and real processes.

mod command;
mod http;
mod http_reading;
mod http_tls;
mod service;

use countersign_core::call::{Call, EffectId, Evidence, Found, FoundCode, Probe, Send};
use countersign_core::halt::Scope;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::FactSchema;
use countersign_core::reason::{Reason, Since};
use countersign_core::value::{FieldType, ValueType};
use countersign_engine::outbox::{Adapter, Attempt, FactAsRead, Job, Judge, Probed};
use std::cell::{Cell, RefCell};

/// A judge that says what a test tells it to.
pub struct Told {
    /// The halt comes when it was asked so many times.
    halted_after: usize,
    asked: Cell<usize>,
    /// The deadline passes when it was asked so many times.
    late_after: usize,
    /// What it says to facts read outside.
    judged: Option<Send>,
    /// What it was shown.
    shown: RefCell<Vec<FactAsRead>>,
}

impl Told {
    /// Lets everything pass.
    pub fn free() -> Self {
        Self {
            halted_after: usize::MAX,
            asked: Cell::new(0),
            late_after: usize::MAX,
            judged: None,
            shown: RefCell::default(),
        }
    }

    /// Halts from the n-th question on.
    pub fn halted_after(asked: usize) -> Self {
        Self { halted_after: asked, ..Self::free() }
    }

    /// Late from the n-th question on.
    pub fn late_after(asked: usize) -> Self {
        Self { late_after: asked, ..Self::free() }
    }

    /// Lets a call pass on what was read.
    pub fn judging(send: Send) -> Self {
        Self { judged: Some(send), ..Self::free() }
    }
}

/// The type of the account that tests read.
pub fn account() -> FactSchema {
    let field = |ty, required| FieldType { ty, required };
    [("balance", field(ValueType::Long, true)), ("status", field(ValueType::String, false))]
        .map(|(name, field)| (name.into(), field))
        .into()
}

pub fn blocked(message: &str) -> Reason {
    Reason::Halted { scope: Scope::All, since: Since { entry: 1, at: 1, by: AgentId::gate() }, why: message.into() }
}

impl Judge for Told {
    fn stopped(&self) -> Option<Reason> {
        self.asked.set(self.asked.get() + 1);
        (self.asked.get() > self.halted_after).then(|| blocked("everything is halted"))
    }

    fn barred(&self) -> Option<Found> {
        (self.asked.get() > self.late_after).then(|| FoundCode::Late.alone())
    }

    fn schema(&self, _: &FactId) -> FactSchema {
        account()
    }

    fn judge(&self, read: &[FactAsRead]) -> Result<Send, Reason> {
        self.shown.replace(read.to_vec());
        self.judged.clone().ok_or_else(|| blocked("no longer holds"))
    }
}

/// A call of so many milliseconds.
pub fn call(send: Send, timeout_ms: u64) -> Call {
    Call {
        adapter: "payments".into(),
        send: Some(send),
        timeout_ms,
        retries: 0,
        deadline_ms: u64::MAX,
        probe: None,
        undo: None,
        outside: Vec::new(),
    }
}

pub const KEY: &str = "cs-00112233445566778899aabbccddeeff";

/// Tries a call once.
pub fn attempt(adapter: &dyn Adapter, call: &Call, judge: &dyn Judge) -> Attempt {
    adapter.attempt(&Job { effect: EffectId(1), call, key: KEY, attempt: 1, judge })
}

/// Probes by what is sent.
pub fn probe(adapter: &dyn Adapter, send: Send, timeout_ms: u64) -> Probed {
    let mut call = call(send.clone(), timeout_ms);
    call.probe = Some(Probe { send, absent_after_ms: 0, at: None });
    adapter.probe(&Job { effect: EffectId(1), call: &call, key: KEY, attempt: 1, judge: &Told::halted_after(0) })
}

/// What an attempt found, in a word, and its evidence.
pub fn found(attempt: Attempt) -> (&'static str, Evidence) {
    let found = match attempt {
        Attempt::Done(evidence) => ("done", evidence),
        Attempt::Refused(evidence) => ("refused", evidence),
        Attempt::NotSent(evidence) => ("not sent", evidence),
        Attempt::Unknown(evidence) => ("unknown", evidence),
        Attempt::Blocked(blocked) => return ("blocked", Evidence::of(FoundCode::Blocked.about(blocked.message()))),
    };
    holds_no_sentence(&found.1.found);
    found
}

/// What goes into an entry is codes and names: no sentence of the gate's own. What others said is kept by codes that quote them.
pub fn holds_no_sentence(found: &Found) {
    assert!(found.said.is_none() || found.code.quotes(), "{found:?}");
    let is_name = |about: &String| !about.contains(": ") && about.split_whitespace().count() <= 2;
    assert!(found.about.as_ref().is_none_or(is_name), "{found:?}");
    found.because.iter().for_each(|because| holds_no_sentence(because));
}

/// What a probe found, in a word, and its evidence.
pub fn probed(probed: Probed) -> (&'static str, Evidence) {
    let found = match probed {
        Probed::There(evidence) => ("there", evidence),
        Probed::Absent(evidence) => ("absent", evidence),
        Probed::Unknown(evidence) => ("unknown", evidence),
    };
    holds_no_sentence(&found.1.found);
    found
}

#[test]
fn requests_are_traced_nowhere() {
    // `ureq-proto` traces every byte of a request, and `tracing` would pick that up: it must not be compiled in.
    assert!(log::STATIC_MAX_LEVEL <= log::LevelFilter::Debug);
}
