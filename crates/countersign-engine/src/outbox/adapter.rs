//! What carries calls out. Adapters live outside of the engine; they know the wire and no rules.

use countersign_core::call::{Call, EffectId, Evidence, ExternalRead, Found, FoundCode, Send};
use countersign_core::ids::FactId;
use countersign_core::pact::FactSchema;
use countersign_core::reason::Reason;
use countersign_core::session::Place;
use countersign_core::value::Attributes;
use smol_str::SmolStr;
use std::sync::Arc;

/// Carries out calls of one kind to one place. Called on a worker's thread, where it may block.
pub trait Adapter: std::marker::Send + Sync {
    /// Tries a call once. Must come back within the call's timeout and a little.
    fn attempt(&self, job: &Job<'_>) -> Attempt;

    /// Finds out whether a call happened, by its probe.
    fn probe(&self, job: &Job<'_>) -> Probed;

    /// Finds out what became of a call whose attempt a crash interrupted, where the outside keeps a receipt that tells.
    fn recover(&self, job: &Job<'_>) -> Attempt {
        let _ = job;
        Attempt::Unknown(Evidence::of(FoundCode::Interrupted.alone()))
    }

    /// Whether the outside keeps a receipt under the call's key, so that an attempt and a probe always know what earlier attempts
    /// did: what is refused then never happened, and a doubt is probed without a word in the pact.
    fn keeps_receipts(&self) -> bool {
        false
    }

    /// Reads a fact outside for an observation: without a lock, and promising nothing about later.
    fn observe(&self, read: &ExternalRead, schema: &FactSchema) -> Result<Reading, Found> {
        let _ = schema;
        Err(FoundCode::ReadsNoFacts.about(&read.adapter))
    }

    /// Reads what a tool answers, or what a resource holds, for a reading.
    fn read(&self, place: &Place) -> Result<ToolAnswer, Found> {
        Err(FoundCode::ReadsNoTools.about(&place.upstream))
    }

    /// What of an answer of a tool is compared with what it reads later, and by which rules; `None` where no one approved that.
    fn compared(&self, place: &Place, answer: &str) -> Option<(String, SmolStr)> {
        let _ = (place, answer);
        None
    }

    /// Whether a call of which no one knows what it did may still have its effect, by what speaks for that.
    fn may_still_act(&self, evidence: &Evidence) -> bool {
        let _ = evidence;
        true
    }

    /// Whether a tool does what cannot be undone: then what it rests on must be read again after a refusal, whatever was told.
    fn is_destructive(&self, tool: &str) -> bool {
        let _ = tool;
        false
    }

    /// How many calls may be under way at a time.
    fn concurrency(&self) -> usize;

    /// Told before anything is carried out how to look at facts of the ledger: what operators have approved is there.
    fn connect(&self, facts: FactReader) {
        let _ = facts;
    }
}

/// Gives the value that a fact of the ledger has at the moment.
pub type FactReader = Arc<dyn Fn(&FactId) -> Option<Attributes> + std::marker::Send + Sync>;

/// A call to be carried out.
pub struct Job<'a> {
    /// Which.
    pub effect: EffectId,
    /// What is sent, how long it may take, how it is probed.
    pub call: &'a Call,
    /// The idempotency key for the outside.
    pub key: &'a str,
    /// Which attempt this is; the first is 1.
    pub attempt: u32,
    /// Decides the action on facts outside, and says whether it may still leave.
    pub judge: &'a dyn Judge,
}

impl Job<'_> {
    /// Why nothing may leave now: it must not any more, or its time is over. Asked as the last thing before the first byte.
    pub fn held_back(&self) -> Option<Found> {
        held_back(self.judge)
    }
}

fn held_back(judge: &(impl Judge + ?Sized)) -> Option<Found> {
    judge.stopped().map(|reason| FoundCode::Stopped.about(reason.code())).or_else(|| judge.barred())
}

/// Says why a call may not leave now, if it may not: what [`Job::held_back`] says, for whoever writes the first byte elsewhere and
/// later, once there is a connection that takes it.
#[derive(Clone)]
pub struct Leave(Arc<dyn Fn() -> Option<Found> + std::marker::Send + Sync>);

impl Leave {
    /// Asks this.
    pub fn new(held_back: impl Fn() -> Option<Found> + std::marker::Send + Sync + 'static) -> Self {
        Self(Arc::new(held_back))
    }

    /// Why it may not leave now.
    pub fn held_back(&self) -> Option<Found> {
        (self.0)()
    }
}

impl std::fmt::Debug for Leave {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Leave")
    }
}

/// Decides, between reading and acting.
pub trait Judge {
    /// Why the call must not leave any more, if so: a halt, a revocation, a key or a delegation that is no longer good. Asked for
    /// each attempt, as the last thing before the first byte, or before what makes it count.
    fn stopped(&self) -> Option<Reason>;

    /// Why nothing may leave now whatever the action is: the call's deadline has passed, with which what the action relied on is too
    /// old, or the ledger takes no more entries, so that nobody would hear of what was done. Asked where `stopped` is: opening a line
    /// to the other side takes time.
    fn barred(&self) -> Option<Found> {
        None
    }

    /// The same two questions, to be asked elsewhere and later; as they are answered now, unless the judge can be asked then.
    fn leave(&self) -> Leave {
        let now = held_back(self);
        Leave::new(move || now.clone())
    }

    /// The attributes of a fact's type: what is read outside must fit them.
    fn schema(&self, fact: &FactId) -> FactSchema;

    /// Decides the action on what was read outside, one for each of the call's outside reads and in their order. Gives what is
    /// to be sent. It is pure and never blocks: rows may be locked, and the thread may be driving the connection to them.
    fn judge(&self, read: &[FactAsRead]) -> Result<Send, Reason>;

    /// When it last decided, in ledger milliseconds; `None` before the first time.
    fn judged_at_ms(&self) -> Option<u64> {
        None
    }

    /// The connection over which what the call rests on was read: it goes over that one, or not at all.
    fn connection(&self) -> Option<u64> {
        None
    }

    /// Told what the other side answered where that is too long for an entry: whoever waits for the call still gets all of it.
    fn answered(&self, answer: String) {
        let _ = answer;
    }

    /// Takes up what was decided before a crash, from a receipt that says what was read and when.
    fn recall(&self, read: &[FactAsRead], at_ms: u64) {
        let _ = (read, at_ms);
    }
}

/// A fact as it was read outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactAsRead {
    pub fact: FactId,
    /// Its value; `None` where there is none.
    pub value: Option<Attributes>,
}

/// What reading a fact for an observation gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its value; `None` where there is none.
    pub value: Option<Attributes>,
    /// What the outside answered, whole, as JSON; only tools give one.
    pub answer: Option<String>,
}

impl Reading {
    /// A value, from an outside whose answer says no more than that.
    pub fn of(value: Option<Attributes>) -> Self {
        Self { value, answer: None }
    }
}

/// What a tool answered to a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAnswer {
    /// All of it, as it was sent.
    pub answer: String,
    /// What of it is compared with what it reads later, in one form.
    pub compared: String,
    /// Which rules said what is compared.
    pub projection: SmolStr,
    /// The connection that it came over: one that was lost since is another.
    pub connection: u64,
}

/// What an attempt found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// The outside says that it did it.
    Done(Evidence),
    /// The outside says that it did not, and will not.
    Refused(Evidence),
    /// The action no longer holds on what was read outside, and nothing was done.
    Blocked(Box<Reason>),
    /// Nothing left the building.
    NotSent(Evidence),
    /// Something left, and no clear answer came.
    Unknown(Evidence),
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// It happened.
    There(Evidence),
    /// There is no trace of it.
    Absent(Evidence),
    /// The probe gave no clear answer.
    Unknown(Evidence),
}
