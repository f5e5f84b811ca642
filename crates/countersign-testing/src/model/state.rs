//! A state of the model: what is durable, what the sequencer has decided, the workers with their network, and the outside.

use super::config::{Config, Fact};

/// Everything at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// What the durable entries say: what a crash leaves, and what workers and readers see.
    pub durable: Ledger,
    /// What the sequencer has decided so far, durable or not.
    pub tip: Ledger,
    /// For each action, its worker and what is under way between it and the outside. Lost in a crash, but for the requests.
    pub lines: [Line; 3],
    /// For each action, what the outside has done.
    pub outside: [Service; 3],
    /// Who waits for a fence or a claim, in the order of arrival. Lost in a crash.
    pub waiting: Vec<usize>,
    /// How many crashes are left.
    pub crashes: u8,
    /// How many duplicates are left.
    pub duplicates: u8,
    /// Whether a byte left although a durable halt stood. Kept for the property only.
    pub sent_under_halt: bool,
}

impl State {
    /// The first state: both facts open, nothing submitted.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            durable: Ledger::default(),
            tip: Ledger::default(),
            lines: <[Line; 3]>::default(),
            outside: <[Service; 3]>::default(),
            waiting: Vec::new(),
            crashes: config.crashes,
            duplicates: config.duplicates,
            sent_under_halt: false,
        }
    }
}

/// The fold of a number of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ledger {
    pub facts: [Value; 2],
    pub actions: [Action; 3],
    pub claims: [Claim; 2],
    pub feed: Feed,
    pub halt: Halt,
    /// Whether a claim lost its fact to one that is no higher. Kept for the property only.
    pub priority_broken: bool,
}

impl Ledger {
    /// The value of a fact.
    pub(super) fn fact(&self, fact: Fact) -> Value {
        self.facts[fact as usize]
    }

    /// Writes a fact.
    pub(super) fn write(&mut self, fact: Fact, open: bool) {
        let value = &mut self.facts[fact as usize];
        *value = Value { version: value.version + 1, open };
    }
}

/// The value of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value {
    pub version: u8,
    /// What preconditions look at.
    pub open: bool,
}

impl Default for Value {
    fn default() -> Self {
        Self { version: 1, open: true }
    }
}

/// What the ledger says about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Action {
    /// How far it is.
    pub status: Status,
    /// Whether its steady fences stand.
    pub fenced: bool,
    /// The versions that its dispatch was decided on; zeros before it and after the settlement.
    pub relied: [u8; 2],
    /// What was wrong at the place where it took effect. Kept for the properties only, and worked out apart from the decision.
    pub wrong: Wrong,
}

/// How far an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Status {
    /// Not submitted, or not decided yet.
    #[default]
    New,
    /// It did not hold.
    Rejected,
    /// It held, and had no call.
    Committed,
    /// Its intent is there, its dispatch is not.
    Cooling,
    /// It did not hold any more at its dispatch: `failed` without a dispatch.
    Cancelled,
    /// Its dispatch is there.
    Dispatched,
    /// No one knows whether the outside did it.
    InDoubt,
    /// The outside did it.
    Settled,
    /// The outside did not and will not do it.
    Failed,
}

impl Status {
    /// Whether it was dispatched and is not settled.
    #[must_use]
    pub fn in_flight(self) -> bool {
        matches!(self, Self::Dispatched | Self::InDoubt)
    }

    /// Whether there is a dispatch.
    #[must_use]
    pub fn was_dispatched(self) -> bool {
        self.in_flight() || matches!(self, Self::Settled | Self::Failed)
    }
}

/// What was wrong at the place where an action took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Wrong {
    /// A precondition did not hold.
    pub precondition: bool,
    /// A fact that it reads was claimed by someone else.
    pub claimed: bool,
    /// A feed of a fact that it reads was held.
    pub outdated: bool,
    /// The claim that it names did not stand.
    pub claim_lost: bool,
    /// A halt stood.
    pub halted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Claim {
    /// Not announced.
    #[default]
    New,
    /// It stands.
    Standing,
    /// It expired, was withdrawn or lost its fact.
    Ended,
    /// A claim that is no lower stood on the fact.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Feed {
    /// Not there yet.
    #[default]
    New,
    /// An entry that waits for a settlement.
    Held,
    Applied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Halt {
    /// There was none.
    #[default]
    None,
    /// It stands.
    Standing,
    /// It was lifted.
    Resumed,
}

/// A worker, and what is under way between it and the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Line {
    pub worker: Worker,
    /// Whether the request of the current attempt is under way.
    pub request: bool,
    /// How many requests are under way whose worker has given up on them.
    pub late: u8,
    /// What the outside answered to the current attempt.
    pub reply: Option<super::Answer>,
    /// Whether `absent_after` has passed since the call came into doubt.
    pub waited: bool,
}

impl Line {
    /// Whether a request is under way.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.request || self.late > 0
    }

    /// No one listens any more: the request goes on without its worker, and its reply finds no one.
    pub(super) fn hang_up(&mut self) {
        self.late += u8::from(self.request);
        self.request = false;
        self.reply = None;
    }
}

/// What a worker knows about its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Worker {
    /// It has no call.
    #[default]
    Idle,
    /// No byte has left.
    Fresh,
    /// It listens for the answer to this attempt.
    Trying(u8),
    /// So many attempts have ended, and no one knows what became of them.
    Unknown(u8),
}

/// What the outside has done for an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Service {
    /// How often it did it.
    pub did: u8,
    /// Whether it refused, for good.
    pub refused: bool,
    /// Whether it did it when what the dispatch relied on no longer stood. Kept for the property only.
    pub unjustified: bool,
}
