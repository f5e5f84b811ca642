//! The bytes of ledger entries: a public leaf and an erasable payload for each (docs/formats/entry.md).
//!
//! The leaf is deterministic CBOR: it names facts by tag and holds a salted commitment to the payload. The payload holds everything
//! else: canonical JSON, and behind it the bodies of requests as they were sent. What is decoded and encoded again gives the same
//! bytes, which is how an audit compares (I3). Unknown kinds, members and versions are refused, never guessed. People and programs
//! are shown JSON, which `shown` writes.

mod call;
mod context;
mod decode;
mod encode;
mod kind;
mod leaf;
mod payload;
mod shown;

pub use context::{Context, ContextError, Given};
pub use decode::{DecodeError, NoPacts, PactsAhead};
pub use encode::Encoder;
pub use kind::{Kind, LeafAuth, LeafIdentity, LeafVerdict};
pub use leaf::Leaf;
pub use shown::{Shown as ShownEntry, show};

use crate::action::{Action, KeyDigest};
use crate::call::{EffectId, Evidence, Outcome, Send};
use crate::decide::ReadyToSend;
use crate::decision::{Charge, Decision, Verdict, Write};
use crate::denial::Denied;
use crate::erase::Forgotten;
use crate::fence::ClaimId;
use crate::halt::Scope;
use crate::identity::Auth;
use crate::ids::{ActionId, AgentId, FactId, Tag};
use crate::message::{Delivery, MessageId};
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
        /// Its origin.
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
        /// The fact.
        fact: FactId,
        /// Its new value; `None` deletes.
        value: Option<Attributes>,
    },
    /// The source of a fact said that it is still so.
    Confirm {
        /// The fact.
        fact: FactId,
        /// Its tag.
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
        /// The review.
        review: ReviewId,
        /// Why, in the reviewer's words.
        reason: Arc<str>,
    },
    /// Nobody decided on a parked action in time.
    Expiry {
        /// The review.
        review: ReviewId,
    },
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
    /// An agent acknowledged messages: they are not delivered again.
    Acknowledgement {
        /// The messages, ascending; all of them waited for it.
        messages: Vec<MessageId>,
    },
    /// An agent announced a change.
    Claim {
        /// The facts.
        facts: Vec<FactId>,
        /// Until when it stands.
        expires_at_ms: u64,
        /// The latest that it can be extended to.
        until_ms: u64,
        /// Its priority.
        priority: i64,
        /// Why, in the agent's words.
        reason: Arc<str>,
    },
    /// A claim was extended.
    Extension {
        /// The claim.
        claim: ClaimId,
        /// Until when it holds now.
        expires_at_ms: u64,
    },
    /// A claim was withdrawn.
    Withdrawal {
        /// The claim.
        claim: ClaimId,
    },
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
    /// The action.
    pub action: Box<Action>,
    /// The decision.
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
    /// Whom it delivered a message to.
    pub to: Option<AgentId>,
}

/// The second decision on an effect that was cooling.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// The effect.
    pub effect: EffectId,
    /// What the readings that it rests on read right before: inputs of the decision.
    pub rereads: Vec<Reread>,
    /// The decision: in flight, or why it is cancelled.
    pub decision: Decision,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The effect.
    pub effect: EffectId,
    /// Who acted, and so wrote what it writes.
    pub agent: AgentId,
    /// The outcome.
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
    /// The decision.
    pub decision: Decision,
}

impl Approved {
    /// Whether nothing was done by it.
    pub fn is_void(&self) -> bool {
        self.decision.blocked().is_some()
    }
}

impl Entry {
    /// The message that it delivers.
    pub fn delivery(&self) -> Option<Delivery<'_>> {
        let (from, to) = match &self.event {
            Event::Done(done) => (&self.by, done.to.as_ref()),
            Event::Erased(leaf) => (leaf.from.as_ref().unwrap_or(&self.by), leaf.to.as_ref()),
            Event::Approval(approved) => (&approved.action.agent, approved.decision.message.as_ref().map(|it| &it.to)),
            event => (&self.by, event.decision().and_then(|it| it.message.as_ref()).map(|message| &message.to)),
        };
        to.map(|to| Delivery { from, to })
    }
}

impl Event {
    /// The decision that it holds.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Action(decided) => Some(&decided.decision),
            Self::Approval(approved) => Some(&approved.decision),
            Self::Dispatch(dispatch) => Some(&dispatch.decision),
            Self::Group(group) => Some(&group.decision),
            _ => None,
        }
    }

    /// The effect that it dispatches or settles.
    pub fn effect(&self) -> Option<EffectId> {
        match self {
            Self::Dispatch(dispatch) => Some(dispatch.effect),
            Self::Settle(settle) => Some(settle.effect),
            // A reading was made for an effect, and moves it nowhere.
            Self::Erased(leaf) => leaf.effect.filter(|_| leaf.kind != Kind::Reading).map(EffectId),
            _ => None,
        }
    }

    /// The idempotency keys of the actions that it decides, each with the action's id: what an erasure leaves of both.
    pub fn keys(&self) -> impl Iterator<Item = (KeyDigest, ActionId)> {
        let one = match self {
            Self::Action(decided) => Some((decided.action.key, decided.action.id)),
            Self::Done(done) => Some((done.key, done.action)),
            Self::Erased(leaf) => leaf.key.zip(leaf.action),
            _ => None,
        };
        let group: &[Action] = if let Self::Group(group) = self { &group.actions } else { &[] };
        let (keys, ids) = match self {
            Self::Erased(leaf) => (leaf.keys.as_deref(), leaf.actions.as_deref()),
            _ => (None, None),
        };
        let erased = keys.into_iter().flatten().copied().zip(ids.into_iter().flatten().copied());
        one.into_iter().chain(group.iter().map(|action| (action.key, action.id))).chain(erased)
    }

    /// The entry of the batch that its action came in.
    pub fn batch(&self) -> Option<u64> {
        match self {
            Self::Action(decided) => decided.action.batch,
            Self::Erased(leaf) => leaf.batch,
            _ => None,
        }
    }

    /// What kind of entry it makes.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Genesis { .. } => Kind::Genesis,
            Self::Pact(_) => Kind::Pact,
            Self::Feed { .. } => Kind::Feed,
            Self::Held { .. } => Kind::Held,
            Self::Confirm { .. } => Kind::Confirm,
            // Entries in shadow mode are of another kind: I1 does not speak of them.
            Self::Action(decided) if decided.decision.shadowed.is_some() => Kind::Shadow,
            Self::Action(_) => Kind::Action,
            Self::Erasure { .. } => Kind::Erasure,
            Self::Clock { .. } => Kind::Clock,
            Self::Approval(_) => Kind::Approval,
            Self::Refusal { .. } => Kind::Refusal,
            Self::Expiry { .. } => Kind::Expiry,
            Self::Halt { .. } => Kind::Halt,
            Self::Resume { .. } => Kind::Resume,
            Self::Dispatch(_) => Kind::Dispatch,
            Self::Settle(_) => Kind::Settle,
            Self::Acknowledgement { .. } => Kind::Acknowledgement,
            Self::Session { .. } => Kind::Session,
            Self::Reading { .. } => Kind::Reading,
            Self::Claim { .. } => Kind::Claim,
            Self::Extension { .. } => Kind::Extension,
            Self::Withdrawal { .. } => Kind::Withdrawal,
            Self::Denials(_) => Kind::Denials,
            Self::Batch { .. } => Kind::Batch,
            Self::Group(_) => Kind::Group,
            Self::Rotation { .. } => Kind::Rotation,
            Self::Done(done) => done.kind,
            Self::Erased(leaf) => leaf.kind,
        }
    }

    /// Whose identity it is about: what it writes, holds or confirms is an agent or an operator, or the log begins with one.
    pub fn identity(&self) -> Option<LeafIdentity> {
        match self {
            Self::Feed { write, .. } => LeafIdentity::of_type(write.fact.ty()),
            Self::Held { fact, .. } | Self::Confirm { fact, .. } => LeafIdentity::of_type(fact.ty()),
            Self::Genesis { is_identified, .. } => is_identified.then_some(LeafIdentity::Operator),
            Self::Erased(leaf) => leaf.identity,
            _ => None,
        }
    }

    /// The verdict or outcome that its leaf tells.
    pub fn verdict(&self) -> Option<LeafVerdict> {
        match self {
            Self::Settle(settle) => Some(match settle.outcome {
                Outcome::Settled => LeafVerdict::Settled,
                Outcome::Failed => LeafVerdict::Failed,
                Outcome::InDoubt => LeafVerdict::InDoubt,
            }),
            Self::Done(done) => Some(done.verdict),
            Self::Erased(leaf) => leaf.verdict,
            _ => self.decision().map(|decision| match &decision.verdict {
                Verdict::Committed => LeafVerdict::Committed,
                Verdict::Rejected(_) => LeafVerdict::Rejected,
                Verdict::Review { .. } => LeafVerdict::Review,
                Verdict::InFlight(_) => LeafVerdict::InFlight,
            }),
        }
    }

    /// The facts it writes.
    pub fn writes(&self) -> &[Write] {
        match self {
            Self::Feed { write, .. } => std::slice::from_ref(write),
            Self::Settle(settle) => &settle.writes,
            Self::Session { writes } | Self::Reading { writes, .. } => writes,
            Self::Done(done) => &done.writes,
            _ => self.decision().map_or(&[], |decision| &decision.writes),
        }
    }

    /// The budgets it charges, or gives back to.
    pub fn charges(&self) -> &[Charge] {
        match self {
            Self::Settle(settle) => &settle.charges,
            Self::Done(done) => &done.charges,
            _ => self.decision().map_or(&[], |decision| &decision.charges),
        }
    }

    /// The facts it writes, to give new ones their tags.
    pub fn writes_mut(&mut self) -> &mut [Write] {
        match self {
            Self::Feed { write, .. } => std::slice::from_mut(write),
            Self::Settle(settle) => &mut settle.writes,
            Self::Session { writes } | Self::Reading { writes, .. } => writes,
            Self::Action(decided) => &mut decided.decision.writes,
            Self::Approval(approved) => &mut approved.decision.writes,
            _ => &mut [],
        }
    }
}
