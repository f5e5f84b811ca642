//! What a model has in it, and how much may happen in it.

/// One of the two facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The first.
    A,
    /// The second.
    B,
}

impl Fact {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];
}

/// What one of the three actions is. It is submitted once, by an agent of its own, and requires every fact that it reads to
/// be open.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Which facts it reads.
    pub reads: [bool; 2],
    /// Which of them it sets, and whether the fact is open afterwards.
    pub sets: Option<(Fact, bool)>,
    /// Whether it calls the outside.
    pub call: bool,
    /// Whether there is time between its intent and its dispatch.
    pub cooling: bool,
    /// How many attempts a life of the gate may make; more than one only where the call is idempotent.
    pub attempts: u8,
    /// Whether the outside does it once for each key.
    pub idempotent: bool,
    /// Whether a probe can tell if it happened.
    pub probe: bool,
    /// Whether it waits for a fence or a claim instead of being rejected.
    pub waits: bool,
    /// The claim that it names.
    pub names: Option<usize>,
}

impl Spec {
    /// An action that changes facts in the gate and nothing else.
    #[must_use]
    pub fn plain(reads: &[Fact]) -> Self {
        let mut spec = Self {
            reads: [false; 2],
            sets: None,
            call: false,
            cooling: false,
            attempts: 1,
            idempotent: false,
            probe: false,
            waits: false,
            names: None,
        };
        for fact in reads {
            spec.reads[*fact as usize] = true;
        }
        spec
    }

    /// An action that calls the outside.
    #[must_use]
    pub fn call(reads: &[Fact]) -> Self {
        Self { call: true, ..Self::plain(reads) }
    }

    /// Which sets a fact that it reads, and leaves it open.
    #[must_use]
    pub fn sets(mut self, fact: Fact) -> Self {
        self.reads[fact as usize] = true;
        Self { sets: Some((fact, true)), ..self }
    }

    /// Which closes a fact that it reads, so that nothing that requires it commits any more.
    #[must_use]
    pub fn closes(mut self, fact: Fact) -> Self {
        self.reads[fact as usize] = true;
        Self { sets: Some((fact, false)), ..self }
    }

    /// With time between intent and dispatch.
    #[must_use]
    pub fn cooling(self) -> Self {
        Self { cooling: true, ..self }
    }

    /// With a second attempt where no one knows what became of the first.
    #[must_use]
    pub fn idempotent(self) -> Self {
        Self { idempotent: true, attempts: 2, ..self }
    }

    /// With a probe.
    #[must_use]
    pub fn probe(self) -> Self {
        Self { probe: true, ..self }
    }

    /// Which waits for fences and claims.
    #[must_use]
    pub fn waits(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Which names a claim.
    #[must_use]
    pub fn names(self, claim: usize) -> Self {
        Self { names: Some(claim), ..self }
    }

    /// Whether it sets a fact.
    pub(super) fn sets_fact(&self, fact: Fact) -> bool {
        self.sets.is_some_and(|(set, _)| set == fact)
    }
}

/// A claim that may be announced once.
#[derive(Debug, Clone, Copy)]
pub struct ClaimSpec {
    pub fact: Fact,
    /// The action whose agent holds it.
    pub holder: usize,
    pub priority: u8,
}

/// Who resolves doubts by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// No one.
    Away,
    /// Someone who looks at the outside's books and says `failed` only when nothing is under way any more.
    Careful,
    /// Someone who guesses.
    Guessing,
}

/// How long a request can be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delays {
    /// Shorter than `absent_after`: when that has passed, every request has arrived or is lost.
    Bounded,
    /// Longer than `absent_after` at times.
    Unbounded,
}

/// A model's parts and bounds.
#[derive(Debug, Clone)]
pub struct Config {
    /// What it is called in reports.
    pub name: &'static str,
    pub actions: [Spec; 3],
    /// The claims, two at most.
    pub claims: Vec<ClaimSpec>,
    /// A feed that may come once: the fact, and whether it is open afterwards.
    pub feed: Option<(Fact, bool)>,
    /// Whether there may be a halt, and a resume.
    pub halt: bool,
    /// How often the gate may crash.
    pub crashes: u8,
    /// How many requests the network may duplicate; only idempotent ones, unless `duplicates_all`.
    pub duplicates: u8,
    /// Whether the network also duplicates calls that are not idempotent.
    pub duplicates_all: bool,
    /// Whether the outside may refuse.
    pub refuses: bool,
    /// Whether a refusal is forgotten, so that the same call may be done when it arrives again.
    pub refusals_forgotten: bool,
    /// Whether entries become durable in batches, after a step of their own. Otherwise each is durable at once.
    pub batches: bool,
    /// Who resolves doubts by hand.
    pub operator: Operator,
    /// How long a request can be under way.
    pub delays: Delays,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

impl Config {
    /// Three actions and nothing that disturbs them.
    #[must_use]
    pub fn new(name: &'static str, actions: [Spec; 3]) -> Self {
        Self {
            name,
            actions,
            claims: Vec::new(),
            feed: None,
            halt: false,
            crashes: 0,
            duplicates: 0,
            duplicates_all: false,
            refuses: false,
            refusals_forgotten: false,
            batches: false,
            operator: Operator::Careful,
            delays: Delays::Bounded,
            bug: None,
        }
    }
}

/// A mistake that an implementation could make. Each must be found by the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A dispatch takes no fence.
    ForgetFence,
    /// Calls that set a fact share its fence.
    SettersShareFence,
    /// Fences end when a call is in doubt.
    FreeFencesInDoubt,
    /// A feed is applied although the fact is fenced.
    FeedNotHeld,
    /// An action without a call relies on a fact although a feed of it is held.
    HeldFeedReliedOn,
    /// A held feed is not applied after the settlement.
    HeldFeedForgotten,
    /// The writes of a call are applied with its dispatch.
    WriteAtDispatch,
    /// The first byte leaves before the dispatch is durable.
    SendBeforeDurable,
    /// A dispatch after cooling is not decided again.
    NotDecidedAgain,
    /// A dispatch after cooling does not look at claims.
    ClaimNotCheckedAtDispatch,
    /// A dispatch after cooling does not look at halts.
    HaltNotCheckedAtDispatch,
    /// The worker does not look at halts before its first byte.
    HaltNotSeenByWorker,
    /// A second attempt that is halted counts as `failed`, although the first may have happened.
    HaltedRetryFails,
    /// A second attempt that is refused counts as `failed`, although the first may still be done.
    RefusedRetryFails,
    /// A call that is not idempotent is tried again.
    RetryNonIdempotent,
    /// Each attempt has a key of its own.
    FreshKey,
    /// An unknown outcome counts as `failed`.
    UnknownIsFailed,
    /// An unknown outcome counts as `settled`.
    UnknownIsSettled,
    /// `Absent` counts before `absent_after` has passed.
    AbsentAtOnce,
    /// After a crash, a dispatched call is forgotten.
    RecoveryForgets,
    /// After a crash, a dispatched call is taken for one whose first byte has not left.
    RecoveryResends,
    /// An action that names a claim is not asked whether it still stands.
    LostClaimStillGood,
    /// A claim takes a fact from a claim with a higher priority.
    PriorityIgnored,
    /// Anyone who waits is not tried again when a fence ends.
    WaiterForgotten,
}
