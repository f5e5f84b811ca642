//! What a model has in it, and how much may happen in it.

/// A write that a client makes once.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Whose it is: client 0 or 1.
    pub client: usize,
    /// The place that it changes.
    pub target: usize,
    /// Which places it rests on, where the client has read them.
    pub counts: [bool; 2],
}

impl Spec {
    /// A write that rests on everything that was read.
    #[must_use]
    pub fn of(client: usize, target: usize) -> Self {
        Self { client, target, counts: [true; 2] }
    }

    /// Which rests on one place only.
    #[must_use]
    pub fn resting_on(self, place: usize) -> Self {
        Self { counts: [place == 0, place == 1], ..self }
    }
}

/// A model's parts and bounds.
#[derive(Debug, Clone)]
pub struct Config {
    /// What it is called in reports.
    pub name: &'static str,
    /// The writes, three at most.
    pub writes: Vec<Spec>,
    /// The server that each place is at.
    pub servers: [usize; 2],
    /// How often each client may read each place.
    pub reads: [[u8; 2]; 2],
    /// Whether a client sends more before it has an answer.
    pub pipelines: bool,
    /// How often someone changes the first place past the gate.
    pub strangers: u8,
    /// How many answers of the gateway may be lost on their way to the client.
    pub losses: u8,
    /// How often the gate may crash.
    pub crashes: u8,
    /// How often the gateway of the first client may be killed. The client starts another, which goes on in its session.
    pub kills: u8,
    /// Whether calls may go without an answer.
    pub doubts: bool,
    /// Whether a request may still arrive when its turn was given back.
    pub late: bool,
    /// Whether a difference may be too long to be told.
    pub cuts: bool,
    /// Whether a message may be on its way to the gateway while an answer passes it by.
    pub slow_pipe: bool,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

impl Config {
    /// These writes, and nothing that disturbs them.
    #[must_use]
    pub fn new(name: &'static str, writes: &[Spec]) -> Self {
        Self {
            name,
            writes: writes.to_vec(),
            servers: [0; 2],
            reads: [[1; 2]; 2],
            pipelines: false,
            strangers: 0,
            losses: 0,
            crashes: 0,
            kills: 0,
            doubts: false,
            late: false,
            cuts: false,
            slow_pipe: false,
            bug: None,
        }
    }

    /// Whether one client alone does one thing after the other, and nothing disturbs it.
    pub(super) fn is_quiet(&self) -> bool {
        let is_alone = self.writes.iter().all(|write| write.client == 0);
        is_alone
            && !self.pipelines
            && self.strangers + self.losses + self.crashes + self.kills == 0
            && !self.doubts
            && !self.cuts
    }
}

/// A mistake that an implementation could make. Each must be found by the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// After an own write, readings are made again that were not compared before it.
    RefreshesUncompared,
    /// What counts as delivered is looked at when the write is passed on, not when it arrives.
    CountsLateDelivery,
    /// A read counts as under way from when it is passed on, not from when it arrives: it may wait for a list of tools before that.
    MarksReadsLate,
    /// A read that a killed gateway asked for is entered though another gateway goes on in the session.
    EntersReadsOfTheKilled,
    /// A write that a killed gateway asked for is passed on though another gateway goes on in the session.
    IntendsWritesOfTheKilled,
    /// What was read in a session that is gone on in counts as delivered.
    FollowsAsDelivered,
    /// A gateway that goes on in a session knows nothing of the calls under way in it.
    FollowsWithoutCalls,
    /// A read that arrived after a write is made before the write is passed on.
    ReadOvertakesWrite,
    /// What another answer tells counts, though that answer was on its way when the write arrived.
    CountsUndeliveredTelling,
    /// What a lost answer held counts as read.
    CountsLostAnswers,
    /// An answer that arrives clears losses that came after it was asked for.
    DeliveryClearsLaterLosses,
    /// An answer that a crash turned into an error counts as delivered.
    CountsErrors,
    /// Two clients read and write in one session.
    SharedPool,
    /// A turn is given back before the settlement, and later writes do not say so.
    NotMarkedBeside,
    /// Whether a write is beside a call in doubt is looked at when it is dispatched, not when it takes its turn: the doubt may have been
    /// resolved in between, after the call came between the reading and the dispatch.
    MarkedAtDispatch,
    /// A turn is given back as soon as a call is in doubt.
    GivesTurnBackAtOnce,
    /// What is read again is not compared.
    NotCompared,
    /// What was read again before the turn was taken is compared.
    ReadsBeforeTurn,
    /// A turn is at the server that is called, and not at those that are relied on.
    ReliesWithoutTurn,
    /// A restart forgets the turns of what had not settled.
    RestartForgetsTurns,
    /// A write rests on the versions of its dispatch, not of its intent.
    RestsOnLatest,
    /// A difference that was cut counts as told.
    CutCountsAsTold,
    /// A difference is told from what the session has, though the client may not have it.
    TellsFromUnknown,
    /// Readings are not made again after an own write.
    NotRefreshed,
}
