//! The bytes of ledger entries: a public leaf and an erasable payload for each (docs/formats/entry.md).
//!
//! The leaf is deterministic CBOR: it names facts by tag and holds a salted commitment to the payload. The payload holds everything
//! else: canonical JSON, and behind it the bodies of requests as they were sent. What is decoded and encoded again gives the same
//! bytes, which is how an audit compares (I3). Unknown kinds, members and versions are refused, never guessed. People and programs
//! are shown JSON, which `shown` writes.

// A new kind must be led to every place that asks what an entry holds: one that is forgotten there would be folded as if it held nothing.
#![deny(clippy::wildcard_enum_match_arm)]

mod call;
mod context;
mod decode;
mod encode;
mod event;
mod kind;
mod leaf;
mod payload;
mod shown;

pub use call::shown_call;
pub use context::{Context, ContextError, Given};
pub use decode::{DecodeError, NoPacts, PactsAhead};
pub use encode::Encoder;
pub use kind::{Kind, LeafAuth, LeafIdentity, LeafVerdict};
pub use leaf::Leaf;
pub use shown::{Shown as ShownEntry, show};

use crate::action::{Action, KeyDigest};
use crate::call::{EffectId, Evidence, Outcome, Send};
use crate::decide::ReadyToSend;
use crate::decision::{Charge, Decision, Write};
use crate::denial::Denied;
use crate::erase::Forgotten;
use crate::fence::ClaimId;
use crate::halt::Scope;
use crate::identity::Auth;
use crate::ids::{ActionId, AgentId, FactId, Tag};
use crate::observation::Observation;
use crate::pact::Pact;
use crate::reason::Reason;
use crate::review::{ReviewId, Shown};
use crate::session::Reread;
use crate::value::Attributes;
use std::sync::Arc;

/// The version of the entry format, in every leaf.
pub const FORMAT: u64 = 4;

/// One ledger entry, before it is bytes.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its place in the log; also its id.
    pub index: u64,
    /// Ledger time, milliseconds UTC.
    pub time_ms: u64,
    /// Who caused it.
    pub by: AgentId,
    /// How that is known.
    pub auth: Auth,
    /// Where it came from and what it weighs.
    pub context: Context,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// The log begins.
    Genesis {
        origin: String,
        /// Its key, as a signed-note verifier key.
        log_key: String,
        /// Whether it begins identified: the entry that follows names its first admin.
        is_identified: bool,
    },
    /// A pact was published.
    Pact(Arc<Pact>),
    /// An operator fed a fact.
    Feed {
        /// The write it made.
        write: Write,
        /// The entry in which it was held until a fence ended.
        held: Option<u64>,
    },
    /// An operator fed a fact that a call in flight relies on: it is written when the fence ends.
    Held {
        fact: FactId,
        /// Its new value; `None` deletes.
        value: Option<Attributes>,
    },
    /// The source of a fact said that it is still so.
    Confirm {
        fact: FactId,
        tag: Tag,
        /// The version that it confirmed, which stays current.
        version: u64,
    },
    /// An action was decided.
    Action(Box<Decided>),
    /// Payloads were erased.
    Erasure {
        /// The entries whose payloads were erased, ascending.
        entries: Vec<u64>,
        /// The deleted facts that are forgotten with them.
        forgotten: Vec<Forgotten>,
        /// Why, in the operator's words.
        reason: String,
    },
    /// The wall clock stepped away from ledger time, or an operator confirmed it.
    Clock {
        /// What the wall clock said.
        wall_ms: u64,
        /// Whether an operator confirmed that the wall clock is right.
        confirmed: bool,
    },
    /// A reviewer approved a parked action, which this entry executes; or the approval was void, and it says why.
    Approval(Box<Approved>),
    /// A reviewer refused a parked action.
    Refusal {
        review: ReviewId,
        /// Why, in the reviewer's words.
        reason: Arc<str>,
    },
    /// Nobody decided on a parked action in time.
    Expiry { review: ReviewId },
    /// An operator stopped a scope.
    Halt {
        /// What.
        scope: Scope,
        /// Why, in the operator's words.
        reason: Arc<str>,
    },
    /// An operator let a scope go on.
    Resume {
        /// What.
        scope: Scope,
        /// Why, in the operator's words.
        reason: Arc<str>,
    },
    /// A cooling effect was decided again: it goes off, or is cancelled.
    Dispatch(Box<Dispatch>),
    /// A call came to an outcome.
    Settle(Box<Settle>),
    /// An agent announced a change.
    Claim {
        facts: Vec<FactId>,
        /// Until when it stands.
        expires_at_ms: u64,
        /// The latest that it can be extended to.
        until_ms: u64,
        priority: i64,
        /// Why, in the agent's words.
        reason: Arc<str>,
    },
    /// A claim was extended.
    Extension {
        claim: ClaimId,
        /// Until when it holds now.
        expires_at_ms: u64,
    },
    /// A claim was withdrawn.
    Withdrawal { claim: ClaimId },
    /// An agent's session was opened or closed. The gate's own.
    Session {
        /// What that writes: the session, and its readings where they go with it.
        writes: Vec<Write>,
    },
    /// A tool was read in a session. The gate's own.
    Reading {
        /// What that writes: the reading, and its session where it is the first of its name.
        writes: Vec<Write>,
        /// The effect in whose turn it was read again, where that is why.
        effect: Option<EffectId>,
    },
    /// An agent was shown facts, and asked that it be kept what they were.
    Observation(Box<Observation>),
    /// Requests were refused at the door. Written at most once a second.
    Denials(Vec<Denied>),
    /// An agent sent several actions at once, under one signature, which this entry keeps. Their own entries refer to it.
    Batch {
        /// The ids of the actions, in their order, those that made no entry included.
        actions: Vec<ActionId>,
        /// Whether they were to commit all or none; then all of them did, in the entries that follow.
        is_atomic: bool,
    },
    /// An atomic group of actions was rejected as a whole.
    Group(Box<Grouped>),
    /// The log's key was changed. Always the last entry of its batch, whose checkpoint both keys sign.
    Rotation {
        /// The key that signs from the next batch on, as a signed-note verifier key.
        log_key: String,
        /// Why, in the operator's words.
        reason: String,
    },
    /// An action that is finished, as the fold reads it: what it changed. Only read back, never written.
    Done(Box<Done>),
    /// An entry whose payload was erased since: what its leaf still says. Only read back, never written.
    Erased(Box<Leaf>),
}

/// An action with its decision.
#[derive(Debug, Clone)]
pub struct Decided {
    pub action: Box<Action>,
    pub decision: Decision,
}

/// An atomic group that was rejected: nothing of it was done.
#[derive(Debug, Clone)]
pub struct Grouped {
    /// Its actions, in their order.
    pub actions: Vec<Action>,
    /// The place of the one that was rejected, from 0.
    pub failed: usize,
    /// Why, on everything that the group had read until then.
    pub decision: Decision,
}

/// What a finished action changed: all that the fold reads of it.
#[derive(Debug, Clone)]
pub struct Done {
    /// What kind of entry it is.
    pub kind: Kind,
    /// Committed or rejected.
    pub verdict: LeafVerdict,
    /// The action's id.
    pub action: ActionId,
    /// The digest of its idempotency key.
    pub key: KeyDigest,
    /// What it wrote.
    pub writes: Vec<Write>,
    /// What it charged.
    pub charges: Vec<Charge>,
}

/// The second decision on an effect that was cooling.
#[derive(Debug, Clone)]
pub struct Dispatch {
    pub effect: EffectId,
    /// What the readings that it rests on read right before: inputs of the decision.
    pub rereads: Vec<Reread>,
    /// The decision: in flight, or why it is cancelled.
    pub decision: Decision,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    pub effect: EffectId,
    /// Who acted, and so wrote what it writes.
    pub agent: AgentId,
    pub outcome: Outcome,
    /// Evidence for the outcome.
    pub evidence: Evidence,
    /// What was read outside, and decided on.
    pub judged: Option<Judged>,
    /// Why the call must not leave any more, where that is why it ended: decided at this very entry.
    pub stopped: Option<Reason>,
    /// What it writes.
    pub writes: Vec<Write>,
    /// What it gives back to budgets.
    pub charges: Vec<Charge>,
    /// The calls in doubt beside which it was made, which may still have their effect on what it changed or rested on.
    pub beside: Vec<EffectId>,
}

/// A judgement on facts outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// When they were read, in ledger milliseconds.
    pub at_ms: u64,
    /// The facts as they were read.
    pub facts: Vec<(FactId, Option<Attributes>)>,
    /// What was sent; `None` where the action was blocked.
    pub send: Option<Send>,
    /// Why the action was blocked, if it was.
    pub blocked: Option<Reason>,
    /// Why it would have been, in shadow mode.
    pub shadowed: Option<Reason>,
}

impl Judged {
    /// What was decided on these facts at this time.
    pub fn new(at_ms: u64, facts: Vec<(FactId, Option<Attributes>)>, decided: Result<ReadyToSend, Reason>) -> Self {
        match decided {
            Ok(ReadyToSend { send, shadowed }) => Self { at_ms, facts, send: Some(send), blocked: None, shadowed },
            Err(blocked) => Self { at_ms, facts, send: None, blocked: Some(blocked), shadowed: None },
        }
    }
}

/// An approval with what it decided.
#[derive(Debug, Clone)]
pub struct Approved {
    /// The parked action.
    pub action: Arc<Action>,
    /// What the reviewer was shown.
    pub shown: Shown,
    /// Until when the approval was good.
    pub until_ms: u64,
    pub decision: Decision,
}

impl Approved {
    /// Whether nothing was done by it.
    pub fn is_void(&self) -> bool {
        self.decision.blocked().is_some()
    }
}
