//! What can be asked of the sequencer, and what it answers.

use crate::commit::{BatchProof, GROUP_BYTES_MAX};
use crate::gate::{FoundFacts, IDLE_SESSION_MS, IDLE_SESSIONS_MAX};
use crate::idempotency::Known;
use crate::log_key::NextKey;
use countersign_core::action::Action;
use countersign_core::call::{EffectId, Evidence, Outcome};
use countersign_core::denial::Denied;
use countersign_core::effect::EffectRefusal;
use countersign_core::erase::{EraseTarget, InForce};
use countersign_core::fence::{ClaimId, ClaimRefusal};
use countersign_core::halt::{HaltError, Scope};
use countersign_core::identity::{Auth, Holder, KeyName, NoAuthority, Role, role_to_feed};
use countersign_core::ids::{ActionId, AgentId, FactId};
use countersign_core::limits::ERASED_MAX;
use countersign_core::observation::{ExternalFacts, ObservationRefusal};
use countersign_core::pact::Pact;
use countersign_core::record::{Entry, Judged};
use countersign_core::review::{ReviewId, ReviewRefusal, Shown};
use countersign_core::session::{Reading, Reread, SessionId, SessionName, SessionRefusal};
use countersign_core::state::PublishError;
use countersign_core::utc::Span;
use countersign_core::value::Attributes;
use std::sync::Arc;

/// One request to change something. Each that is accepted becomes one entry.
#[derive(Debug)]
pub enum Request {
    /// Decide an action.
    Act(Box<Action>),
    /// Decide several actions of one agent, which came under one signature.
    ActMany(Box<ActMany>),
    /// Feed a fact.
    Feed {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        fact: FactId,
        /// Its new value; `None` deletes.
        value: Option<Attributes>,
        /// The version it must have now; 0 for none.
        if_match: Option<u64>,
    },
    /// Confirm that a fact is still so, as its source.
    Confirm {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        fact: FactId,
        /// The version that is confirmed: the one that the source has looked at.
        version: u64,
    },
    /// Publish a pact.
    Publish {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        /// The pact, loaded.
        pact: Arc<Pact>,
    },
    /// Erase payloads.
    Erase {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        /// The entries, with what each wrote.
        targets: Vec<EraseTarget>,
        /// Why.
        reason: String,
    },
    /// Approve a parked action.
    Approve {
        /// The reviewer.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        /// What the reviewer was shown, from its token.
        shown: Box<Shown>,
        /// Until when the approval is good, in ledger milliseconds.
        until_ms: u64,
    },
    /// Refuse a parked action.
    Refuse {
        /// The reviewer.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        review: ReviewId,
        /// Why.
        reason: Arc<str>,
    },
    /// Stop a scope. Goes before everything that waits.
    Halt {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        /// What.
        scope: Scope,
        /// Why.
        reason: Arc<str>,
    },
    /// Let a scope go on. Goes before everything that waits.
    Resume {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        /// What.
        scope: Scope,
        /// Why.
        reason: Arc<str>,
    },
    /// Announce a change.
    Claim {
        /// The agent.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        facts: Vec<FactId>,
        /// For how long.
        for_ms: u64,
        /// Why.
        reason: Arc<str>,
    },
    ExtendClaim {
        /// The agent.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        claim: ClaimId,
        /// For how long from now.
        for_ms: u64,
    },
    WithdrawClaim {
        /// The agent.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        claim: ClaimId,
    },
    /// Decide an effect again that has cooled. The gate's own.
    Dispatch { effect: EffectId },
    /// Decide an effect whose readings were read again. The gate's own.
    DispatchAsRead(Box<DispatchAsRead>),
    /// Settle a call, and keep what was read again in its turn and is told with its outcome. The gate's own.
    SettleAsRead { settlement: Box<Settlement>, fresh: Vec<Reading> },
    /// Open a session of an agent.
    OpenSession { agent: AgentId, auth: Auth },
    /// Go on in a session of an agent that was cut off, under a new name.
    FollowSession { session: SessionId, agent: AgentId, auth: Auth },
    /// Close a session of an agent.
    CloseSession { session: SessionName, agent: AgentId },
    /// Keep what a tool answered to an agent in its session: it waits where actions do, because agents ask for it.
    Read { session: SessionName, agent: AgentId, auth: Auth, reading: Box<Reading> },
    /// Show facts to an agent, and enter what it was shown where that counts, or was asked for.
    Observe {
        agent: AgentId,
        auth: Auth,
        ids: Vec<FactId>,
        /// Those of them that live elsewhere, as they were read right before.
        external: Box<ExternalFacts>,
        /// Whether it is to be an entry whatever it counts.
        attest: bool,
        /// Where that goes which was found at its place.
        found: FoundFacts,
    },
    /// Settle a call. The gate's own.
    Settle(Box<Settlement>),
    /// Say what became of a call that is in doubt.
    Resolve {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        effect: EffectId,
        /// Whether it happened.
        outcome: Outcome,
        /// How often it had been tried, as the entry of the doubt says.
        attempts: u32,
        /// How that is known.
        reason: Arc<str>,
    },
    /// Wake the fence waiters. The gate's own; becomes no entry by itself.
    Wake,
    /// Write down what was refused at the door. The gate's own.
    Denials(Vec<Denied>),
    /// Replace the key that signs the log.
    RotateLogKey {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
        /// The key that comes next, kept in a file already.
        next: NextKey,
        /// Why.
        reason: String,
    },
    /// Confirm that the wall clock is right.
    ConfirmClock {
        /// The operator.
        by: AgentId,
        /// How that is known.
        auth: Auth,
    },
}

impl Request {
    /// Who asks, how that is known, and the role that it takes; `None` for actions, which pacts judge.
    pub fn authority(&self) -> Option<(&AgentId, &Auth, Role)> {
        match self {
            // Agents and the gate itself are asked about where they are answered.
            Self::Act(_)
            | Self::ActMany(_)
            | Self::Claim { .. }
            | Self::ExtendClaim { .. }
            | Self::WithdrawClaim { .. }
            | Self::Dispatch { .. }
            | Self::DispatchAsRead(_)
            | Self::SettleAsRead { .. }
            | Self::OpenSession { .. }
            | Self::FollowSession { .. }
            | Self::CloseSession { .. }
            | Self::Read { .. }
            | Self::Observe { .. }
            | Self::Settle(_)
            | Self::Denials(_)
            | Self::Wake => None,
            Self::Feed { by, auth, fact, .. } | Self::Confirm { by, auth, fact, .. } => {
                Some((by, auth, role_to_feed(fact)))
            }
            Self::Publish { by, auth, .. } => Some((by, auth, Role::Publisher)),
            Self::Approve { by, auth, .. } | Self::Refuse { by, auth, .. } | Self::Resolve { by, auth, .. } => {
                Some((by, auth, Role::Reviewer))
            }
            Self::Erase { by, auth, .. }
            | Self::Halt { by, auth, .. }
            | Self::Resume { by, auth, .. }
            | Self::RotateLogKey { by, auth, .. }
            | Self::ConfirmClock { by, auth } => Some((by, auth, Role::Admin)),
        }
    }

    /// How many places of the queue it takes: a batch as many as it has actions.
    pub fn places(&self) -> usize {
        match self {
            Self::ActMany(many) => many.actions.len().max(1),
            _ => 1,
        }
    }

    /// Which queue it waits in.
    pub fn priority(&self) -> Priority {
        match self {
            Self::Halt { .. } | Self::Resume { .. } => Priority::Urgent,
            // Revoking someone is a halt for one. What only admins may feed is rare, so all of it goes this way.
            Self::Feed { fact, .. } if role_to_feed(fact) == Role::Admin => Priority::Urgent,
            Self::Dispatch { .. }
            | Self::DispatchAsRead(_)
            | Self::Settle(_)
            | Self::SettleAsRead { .. }
            | Self::Denials(_)
            | Self::Wake => Priority::Own,
            Self::Act(_)
            | Self::ActMany(_)
            | Self::Feed { .. }
            | Self::Confirm { .. }
            | Self::Publish { .. }
            | Self::Approve { .. }
            | Self::Refuse { .. }
            | Self::Resolve { .. }
            | Self::Erase { .. }
            | Self::Claim { .. }
            | Self::ExtendClaim { .. }
            | Self::WithdrawClaim { .. }
            | Self::OpenSession { .. }
            | Self::FollowSession { .. }
            | Self::CloseSession { .. }
            | Self::Read { .. }
            | Self::Observe { .. }
            | Self::RotateLogKey { .. }
            | Self::ConfirmClock { .. } => Priority::Queued,
        }
    }
}

/// Several actions of one agent under one signature.
#[derive(Debug)]
pub struct ActMany {
    /// The agent.
    pub by: AgentId,
    /// How that is known.
    pub auth: Auth,
    /// The ids of all actions that were sent, in their order.
    pub ids: Vec<ActionId>,
    /// Those that were admitted, in their order.
    pub actions: Vec<Action>,
    /// Whether they commit all or none.
    pub is_atomic: bool,
}

/// What a request waits behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Only behind its like: thousands of calls that are due do not delay a halt.
    Urgent,
    /// Behind what is urgent: what the gate itself has to enter.
    Own,
    /// Behind everything that came before.
    Queued,
}

/// An effect to be decided on what its readings read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchAsRead {
    pub effect: EffectId,
    /// What each of them read: inputs of the decision.
    pub rereads: Vec<Reread>,
    /// Those that read something else; what is told of them counts as read if they are why it is refused.
    pub fresh: Vec<Reading>,
}

/// What a worker or a probe found out about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub effect: EffectId,
    pub outcome: Outcome,
    /// What speaks for it.
    pub evidence: Evidence,
    /// What was read outside, and decided on.
    pub judged: Option<Judged>,
    /// Whether it ends because the call must not leave any more; why is decided at the entry's own place.
    pub is_stopped: bool,
    /// Calls that were in doubt when the worker took its turn, and that may still have had their effect beside this one.
    pub beside: Vec<EffectId>,
}

/// What the sequencer answers once everything it rests on is durable.
#[derive(Debug)]
pub enum Answer {
    /// The request became an entry.
    Entered(Entered),
    /// The action was decided before, under the same idempotency key, in this entry.
    Repeated(u64),
    /// Of several actions, what each came to, in their order. A group that was rejected is `Entered`, as a whole.
    Many(Vec<Result<Answer, Refusal>>),
}

/// A request that became an entry.
#[derive(Debug)]
pub struct Entered {
    pub entry: Arc<Entry>,
    /// What proves it.
    pub proof: Arc<BatchProof>,
}

/// Why a request did not become an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The queue is full.
    #[error("the gate is busy: its queue of {0} requests is full")]
    Busy(usize),
    /// The gate is closing or closed.
    #[error("the gate is shutting down")]
    Closed,
    /// The ledger cannot be written.
    #[error("the ledger cannot be written ({0}); nothing more is decided until the gate is restarted")]
    Poisoned(String),
    /// The same idempotency key with another body.
    #[error("this idempotency key was used for another action, in entry {0}")]
    KeyReused(u64),
    /// Some actions of a group were decided before, and others not.
    #[error("action {at} of this group was decided before, in entry {entry}, and others of it were not")]
    GroupRepeats {
        /// Its place, from 1.
        at: usize,
        entry: u64,
    },
    /// What a group would write does not fit one signed commit.
    #[error("the entries of this group would have {0} bytes; one commit takes at most {GROUP_BYTES_MAX}")]
    GroupTooLarge(usize),
    /// The agent has as many idempotency keys as are kept for one.
    #[error("{0} has used {1} idempotency keys within two days, which is as many as are kept for one agent")]
    TooManyKeys(AgentId, u32),
    /// The agent opens sessions, or goes on in them, and does not use them.
    #[error(
        "{0} has opened, or gone on in, {IDLE_SESSIONS_MAX} sessions and used none of them; one more is possible every {every}",
        every = Span(IDLE_SESSION_MS)
    )]
    IdleSessions(AgentId),
    /// It is not known whether the action was decided before.
    #[error("the idempotency keys cannot be looked up now: {0}")]
    KeysUnread(String),
    /// The fact is not at the version that was asked for.
    #[error("{fact} is at version {current}, not {expected}")]
    VersionMismatch {
        fact: FactId,
        /// The version it must have had.
        expected: u64,
        /// The version it has.
        current: u64,
    },
    /// The fact's type is not declared by any published pact.
    #[error("no published pact declares the fact type `{0}`")]
    UnknownType(String),
    /// The value does not fit the fact's type.
    #[error("the value does not fit {fact}: {problem}")]
    InvalidValue {
        fact: FactId,
        /// What is wrong.
        problem: String,
    },
    /// The pact cannot be published.
    #[error("{0}")]
    Publish(#[from] PublishError),
    /// Something of the entry is in force, or is kept forever.
    #[error("entry {entry} cannot be erased: {what}")]
    InForce {
        entry: u64,
        /// What, and until when.
        what: InForce,
    },
    /// The entry cannot be erased.
    #[error("entry {0} cannot be erased: {1}")]
    NotErasable(u64, &'static str),
    /// More payloads than one erasure can name.
    #[error("one erasure names at most {ERASED_MAX} entries, not {0}; erase them in several steps")]
    TooManyErased(usize),
    /// The caller may not do this.
    #[error("{0}")]
    NotAuthorised(#[from] NoAuthority),
    /// The key has another holder.
    #[error("key {key} is in use by {holder}; every agent and operator has keys of its own")]
    KeyInUse {
        key: KeyName,
        /// Whose it is.
        holder: Holder,
    },
    /// No active admin would be left.
    #[error("refused: {0} is the last active operator with role `admin`")]
    LastAdmin(FactId),
    /// The review cannot be decided in this way.
    #[error(transparent)]
    Review(#[from] ReviewRefusal),
    /// The halt or resume cannot be.
    #[error(transparent)]
    Halt(#[from] HaltError),
    /// The claim cannot be.
    #[error(transparent)]
    Claim(#[from] ClaimRefusal),
    /// The observation cannot be an entry.
    #[error(transparent)]
    Observation(#[from] ObservationRefusal),
    /// The effect cannot be dispatched or settled in this way.
    #[error(transparent)]
    Effect(#[from] EffectRefusal),
    /// The session is not there, or cannot take it.
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    /// A call in flight relies on the fact, and the feed cannot be held.
    #[error("{fact} is fenced by a call in flight, and {why}")]
    Fenced {
        fact: FactId,
        /// Why it is not held.
        why: &'static str,
    },
    /// There is no clock step to confirm.
    #[error("the clock has not stepped; there is nothing to confirm")]
    ClockSteady,
}

impl Refusal {
    /// A reply that was dropped unsent says nothing about the outcome, so it must not sound as if it did.
    pub fn unanswered() -> Self {
        Self::Poisoned("the gate stopped before it answered".to_owned())
    }
}

/// Where an answer goes. Called exactly once, on a thread of the gate: it must not block.
pub type Reply = Box<dyn FnOnce(Result<Answer, Refusal>) + Send>;

/// A request on its way.
pub struct Submission {
    /// What is asked.
    pub request: Request,
    /// Where the answer goes.
    pub reply: Reply,
    /// What is known of its idempotency keys.
    pub known: Known,
    /// Since when it has waited for a fence, if it has.
    pub(crate) since_ms: Option<u64>,
    /// How often it was looked up again.
    pub(crate) tries: u8,
}

impl Submission {
    /// A request that has no idempotency keys, or whose keys are still to be looked up.
    pub fn new(request: Request, reply: Reply) -> Self {
        Self { request, reply, known: Known::default(), since_ms: None, tries: 0 }
    }
}
