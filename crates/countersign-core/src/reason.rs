//! Why an action was blocked, as data.
//!
//! `decide` answers with a reason and an entry keeps it: ids, attributes, versions, values and times, never a sentence. Anyone who tells
//! someone makes the sentence then (`words`), from what that reader may see (`withhold`). So a better wording changes no byte of
//! any ledger, and nothing has to be cut out of a text.

mod crowded;
mod failed;
mod readings;
mod unusable;
mod withhold;
mod words;

pub use crowded::Crowded;
pub use failed::{About, Condition, Expected, FailedPrecondition, FailedRead, LastChange, Why};
pub use readings::{ChangedReading, ReadingRef, UnreadReading};
pub use unusable::{Unusable, UnusableReading};
pub use words::{NEW_SESSION, RESOLVED_BY, resolving};

use crate::call::EffectId;
use crate::canonical::Canonical;
use crate::code::Code;
use crate::expression::EvalError;
use crate::fact::Written;
use crate::fence::{self, ClaimId};
use crate::halt::Scope;
use crate::identity::KeyName;
use crate::ids::{ActionName, AgentId, FactId, FactType, IdError, PactName};
use crate::session::{HeldTurn, SessionId, SessionName};
use crate::value::Value;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Why an action was blocked. Each variant is one code; its members are what a record keeps beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    /// No pact of this name has been published.
    UnknownPact { pact: PactName },
    /// The action is in a scope that an operator has halted.
    Halted { scope: Scope, since: Since, why: SmolStr },
    /// The pact has no such action type.
    UnknownAction { pact: PactName, version: u64, action: ActionName, known: Vec<ActionName> },
    /// The action cannot be part of an atomic group.
    NotInGroup { action: ActionName, why: NotGroupable },
    /// The parameters do not fit their schema.
    InvalidParams { problems: Vec<BindProblem> },
    /// The action is not signed, and this gate accepts nothing unsigned.
    NotAuthenticated { agent: AgentId },
    /// The agent is not registered.
    UnknownAgent { agent: AgentId },
    /// The agent is not active: its standing, and who set it.
    AgentNotActive {
        agent: AgentId,
        #[serde(skip_serializing_if = "Option::is_none")]
        standing: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Since>,
    },
    /// The key that signed is not a key of the agent at this time.
    KeyNotCurrent { agent: AgentId, key: KeyName, at: u64, since: Box<Since> },
    /// A hop of the delegation claims more than it was given.
    DelegationWidened { hop: HopRef, claims: Box<Widening> },
    /// The delegation was passed on more often than a hop allows.
    DelegationTooDeep { hop: HopRef, depth: u32, after: u64 },
    /// A hop of the delegation has expired.
    DelegationExpired { hop: HopRef, expired_at: u64, at: u64 },
    /// A member of the delegation is not registered, or not active.
    DelegationMemberNotActive {
        agent: AgentId,
        is_registered: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        standing: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Since>,
    },
    /// A member of the delegation no longer holds the key that it was named by.
    DelegationKeyNotCurrent { agent: AgentId, key: KeyName, since: Box<Since> },
    /// The action is not within the delegation.
    DelegationOutOfScope { why: Box<OutOfScope> },
    /// The pact does not allow this agent to do this.
    NotAllowed { agent: AgentId, action: ActionName, rule: SmolStr, why: RuleFailure },
    /// A fact id built from parameters or attributes is not a valid id.
    InvalidFactId { read: SmolStr, r#type: FactType, why: IdProblem },
    /// A fact that must exist does not; `source` is the adapter of an external one.
    FactMissing {
        fact: FactId,
        is_deleted: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<SmolStr>,
    },
    /// A fact that must not exist does.
    FactExists { fact: FactId, version: u64 },
    /// Two names of the action mean one fact, and the action writes it.
    AliasedWrite { fact: FactId, names: [SmolStr; 2] },
    /// The agent's trust, or that of a member of its delegation, is below what the action asks for.
    TrustTooLow {
        agent: AgentId,
        action: ActionName,
        least: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        has: Option<Value>,
        /// How much it is trusted is not for this reader.
        #[serde(default, skip_serializing_if = "is_false")]
        withheld: bool,
    },
    /// The claim that the action names no longer covers what the action changes.
    ClaimLost { claim: ClaimId, why: ClaimLoss },
    /// Another agent has announced a change of a fact that the action relies on.
    FactClaimed { fact: FactId, claim: ClaimId, announced_at: u64, until: u64 },
    /// A call in flight relies on a fact that the action would change, or will change one that it relies on.
    FactFenced { fact: FactId, effect: EffectId, why: fence::Why },
    /// A fact was not observed although the pact asks for it.
    ObservationRequired { action: ActionName, facts: Vec<FactId> },
    /// A write that is guarded as read names no session.
    SessionRequired { action: ActionName },
    /// The session is not open, belongs to another agent, or was taken over by another client of this one.
    SessionNotOpen { session: SessionName },
    /// More was read in the session than is kept, by tools that the write rests on.
    TooManyReadings { session: SessionId },
    /// Tools that were not read in the session although the pact asks for it.
    ReadingRequired { tools: Vec<SmolStr> },
    /// Readings that are older than the pact lets them be.
    ReadingStale { readings: Vec<ReadingRef>, stale_after: u64 },
    /// A reading is not there as the pact's conditions ask about it.
    ReadingUnusable { readings: Vec<UnusableReading> },
    /// One or more preconditions do not hold.
    PreconditionFailed { failed: Vec<FailedPrecondition> },
    /// As many actions wait for a person as are kept.
    TooManyReviews,
    /// The action would exceed a budget. The agent is named where it is not the one who acts.
    BudgetExceeded {
        budget: SmolStr,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<AgentId>,
        used: i64,
        max: i64,
        amount: i64,
        ends_at: u64,
    },
    /// What the action would write or send cannot be computed, or is not valid.
    EffectInvalid { why: EffectProblem },
    /// As many calls are in flight as are kept.
    TooManyEffects,
    /// The recipient of a message is not an active agent. Whether there is one of this name is not said.
    RecipientNotActive { to: AgentId },
    /// The sender has as many messages waiting as it may: in this inbox, or in all.
    MessageQuotaExceeded(Crowded),
    /// As many messages wait as the recipient's inbox, or all together, keep.
    InboxFull(Crowded),
    /// Another call had the turn for longer than a write waits for it.
    TurnHeld { held: Box<HeldTurn> },
    /// Readings that could not be made again right before the call.
    ReadingUnread { readings: Vec<UnreadReading> },
    /// Readings that read differently right before the call.
    ReadingChanged { readings: Vec<ChangedReading> },
    /// The reviewer acts in what it approves.
    SelfApproval { by: AgentId, review: u64 },
    /// The approval came too late after the showing.
    ApprovalExpired { review: u64, until: u64, at: u64 },
    /// What was approved is no longer as it was shown.
    ApprovalOutdated { drift: Box<Drift> },
    /// Another action of its atomic group was rejected: the one at this place, from 1. Told to agents, and never recorded.
    GroupRejected { failed: u64, entry: u64 },
}

/// Why an action cannot be part of an atomic group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotGroupable {
    /// It calls something external, which can happen without the rest.
    Call,
    /// It may wait for a fence.
    Wait,
    /// It acts under a claim.
    Claim,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(truth: &bool) -> bool {
    !truth
}

/// Who set something, when, in which entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    pub entry: u64,
    /// When, in ledger milliseconds.
    pub at: u64,
    /// Who.
    pub by: AgentId,
}

impl From<&Written> for Since {
    fn from(written: &Written) -> Self {
        Self { entry: written.entry, at: written.at_ms, by: written.by.clone() }
    }
}

/// One reason why parameters do not fit their schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindProblem {
    /// The parameter, as a JSON pointer; empty for the whole.
    pub at: String,
    /// What is wrong with it.
    #[serde(flatten)]
    pub what: Misfit,
}

/// In which way a parameter does not fit. Limits and options are the pact's own text, cut where they are long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum Misfit {
    /// It is required and missing.
    Missing { name: String },
    /// The action type has no such parameters.
    NotParameters { names: Vec<String> },
    /// The parameters are not an object.
    NotAnObject,
    /// It has another type than the pact says.
    Type,
    /// It is not a whole number that can be kept.
    Number,
    /// It has more digits behind its point than there is room for.
    Digits { limit: u64 },
    /// It is below its minimum.
    AtLeast { limit: String },
    /// It is above its maximum.
    AtMost { limit: String },
    /// It is not above its exclusive minimum.
    MoreThan { limit: String },
    /// It is not below its exclusive maximum.
    LessThan { limit: String },
    /// Characters, at least.
    MinLength { limit: u64 },
    /// Characters, at most.
    MaxLength { limit: u64 },
    /// Items, at least.
    MinItems { limit: u64 },
    /// Items, at most.
    MaxItems { limit: u64 },
    /// It does not match a pattern.
    Pattern { pattern: String },
    /// It is none of the values that the pact lists.
    Options { options: String },
    /// It is not the one value that the pact lists.
    Constant { value: String },
    /// It breaks another rule of the schema.
    Keyword { keyword: String },
}

/// A hop of a delegation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopRef {
    /// Its place, from 1.
    pub number: u64,
    /// Who passed on.
    pub from: AgentId,
    /// To whom.
    pub to: AgentId,
}

/// The first few of many things, and how many more there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The first of them.
    pub first: Vec<SmolStr>,
    /// How many follow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How many things a list names.
const LISTED_MAX: usize = 8;

impl Listed {
    /// Lists things by name.
    pub fn of(items: impl Iterator<Item = impl ToString>) -> Self {
        let mut first: Vec<SmolStr> = items.map(|item| item.to_string().into()).collect();
        let more = first.len().saturating_sub(LISTED_MAX) as u64;
        first.truncate(LISTED_MAX);
        Self { first, more }
    }
}

/// What a hop claims beyond what it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "beyond", rename_all = "snake_case")]
pub enum Widening {
    /// Any action, although only these were given.
    AnyAction { given: Listed },
    /// Actions that were not given.
    Actions { claimed: Listed },
    /// Any fact, although only these were given.
    AnyFact { given: Listed },
    /// Facts that were not given.
    Facts { claimed: Listed },
    /// A higher maximum of a parameter, or none.
    Maximum {
        name: SmolStr,
        #[serde(skip_serializing_if = "Option::is_none")]
        claimed: Option<i64>,
        given: i64,
    },
    /// Any value of a parameter, although only these were given.
    AnyValue { name: SmolStr, given: Listed },
    /// Values of a parameter that were not given.
    Values { name: SmolStr, claimed: Listed },
    /// A later expiry, or none.
    Expiry {
        #[serde(skip_serializing_if = "Option::is_none")]
        claimed: Option<u64>,
        given: u64,
    },
    /// To hand it on more often.
    Depth { claimed: u32, given: u32 },
}

/// Why an action is not within its delegation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum OutOfScope {
    /// The delegation in the body was not reduced to a chain.
    NotReduced,
    /// The delegation names another agent than the one who acts.
    OfAnother { names: AgentId, acts: AgentId },
    /// The body carries no delegation that the chain could come from.
    NotCarried,
    /// A hop does not allow it.
    Hop { hop: HopRef, refuses: ScopeRefusal },
}

/// What a hop does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "refuses", rename_all = "snake_case")]
pub enum ScopeRefusal {
    /// The action type.
    Action { allowed: Listed, asked: SmolStr },
    /// It limits a parameter that the action does not have.
    NoParameter { name: SmolStr },
    /// A parameter above its maximum.
    Maximum { name: SmolStr, max: i64, value: Value },
    /// A parameter that is none of the listed values.
    Value { name: SmolStr, allowed: Listed, value: Value },
    /// The fact that is asked for.
    Fact { allowed: Listed, asked: FactId },
}

/// In which way the rule who may do this failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleFailure {
    /// It is false.
    False,
    /// It can never be true.
    Impossible,
    /// It cannot be evaluated.
    Error(EvalError),
}

/// Why an id cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum IdProblem {
    /// A parameter is missing.
    NoParameter { name: SmolStr },
    /// An attribute of an earlier read is missing.
    NoAttribute { name: SmolStr },
    /// It is built from something that is neither text nor an integer.
    NotText,
    /// It is empty.
    Empty,
    /// It is too long.
    TooLong { bytes: u64 },
    /// It holds a control character.
    Control { character: u32 },
    /// It is not in Unicode normal form C.
    NotNormal,
    /// The source of such facts has none of this id.
    NotOfSource,
    /// A value that it is built from has no normal spelling.
    Spelling { why: SpellingProblem },
}

/// Why a value has no normal spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpellingProblem {
    /// It is empty, and so no path.
    NoPath,
    /// It leads above where it begins.
    AboveRoot,
    /// It holds a backslash, which separates segments on some systems and not on others.
    Backslash,
}

impl From<IdError> for IdProblem {
    fn from(error: IdError) -> Self {
        match error {
            IdError::Empty => Self::Empty,
            IdError::TooLong(bytes) => Self::TooLong { bytes: bytes as u64 },
            IdError::Control(character) => Self::Control { character },
            _ => Self::NotNormal,
        }
    }
}

/// Why a claim no longer serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ClaimLoss {
    /// It expired, was withdrawn, or a higher priority took it.
    Ended,
    /// It is a claim of another agent.
    OfAnother { agent: AgentId },
    /// It does not cover a fact that the action changes.
    DoesNotCover { fact: FactId },
}

/// Why what an action would write or send cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum EffectProblem {
    /// An attribute cannot be computed.
    Set { read: SmolStr, attribute: SmolStr, error: EvalError },
    /// A fact would be larger than is kept.
    FactTooLarge { read: SmolStr, bytes: u64 },
    /// A part of the call cannot be computed.
    Member {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<SmolStr>,
        error: EvalError,
    },
    /// A version that the tool asks for is not known.
    NoVersion { argument: SmolStr, attribute: SmolStr },
    /// An argument of a command, counted from 1, would be read as an option.
    LooksLikeOption { argument: u64 },
    /// A value cannot be a part of a path.
    PathPart { value: String },
    /// A text of the call lacks a part.
    TextMissing,
    /// A text of the call is too long, or holds a control character.
    TextNotAllowed,
    /// The final check cannot be made: the effect was not dispatched.
    NotDispatched,
    /// The final check cannot be made: what it was decided on is no longer known.
    ContextLost,
    /// The final check cannot be made: other facts were read than it needs.
    OtherFactsRead,
    /// The final check cannot be made: there is no call.
    NoCall,
}

/// In what way something is no longer as a reviewer was shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Drift {
    /// The pact is at another version, or no longer published.
    Pact {
        pact: PactName,
        shown: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        now: Option<u64>,
    },
    /// The reviewer no longer reviews.
    Reviewer { by: AgentId },
    /// A fact that was not shown.
    NotShown { read: SmolStr, fact: FactId },
    /// A fact is there that was not, or the other way round.
    Presence {
        read: SmolStr,
        fact: FactId,
        is_there: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed: Option<Since>,
    },
    /// An attribute has another value.
    Attribute {
        read: SmolStr,
        fact: FactId,
        attribute: SmolStr,
        #[serde(skip_serializing_if = "Option::is_none")]
        was: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed: Option<Since>,
    },
    /// A reading was made again since the action was asked for, and reads differently: its agent had not seen that.
    ReadAgain {
        fact: FactId,
        upstream: SmolStr,
        tool: SmolStr,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed: Option<Since>,
    },
    /// Something of a read that this reader may not see.
    Withheld { read: SmolStr },
}

impl Reason {
    /// Its stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::UnknownPact { .. } => Code::UnknownPact,
            Self::Halted { .. } => Code::Halted,
            Self::UnknownAction { .. } => Code::UnknownAction,
            Self::NotInGroup { .. } => Code::NotInGroup,
            Self::InvalidParams { .. } => Code::InvalidParams,
            Self::NotAuthenticated { .. } => Code::NotAuthenticated,
            Self::UnknownAgent { .. } => Code::UnknownAgent,
            Self::AgentNotActive { .. } => Code::AgentNotActive,
            Self::KeyNotCurrent { .. } => Code::KeyNotCurrent,
            Self::DelegationWidened { .. } => Code::DelegationWidened,
            Self::DelegationTooDeep { .. } => Code::DelegationTooDeep,
            Self::DelegationExpired { .. } => Code::DelegationExpired,
            Self::DelegationMemberNotActive { .. } => Code::DelegationMemberNotActive,
            Self::DelegationKeyNotCurrent { .. } => Code::DelegationKeyNotCurrent,
            Self::DelegationOutOfScope { .. } => Code::DelegationOutOfScope,
            Self::NotAllowed { .. } => Code::NotAllowed,
            Self::InvalidFactId { .. } => Code::InvalidFactId,
            Self::FactMissing { .. } => Code::FactMissing,
            Self::FactExists { .. } => Code::FactExists,
            Self::AliasedWrite { .. } => Code::AliasedWrite,
            Self::TrustTooLow { .. } => Code::TrustTooLow,
            Self::ClaimLost { .. } => Code::ClaimLost,
            Self::FactClaimed { .. } => Code::FactClaimed,
            Self::FactFenced { .. } => Code::FactFenced,
            Self::ObservationRequired { .. } => Code::ObservationRequired,
            Self::SessionRequired { .. } => Code::SessionRequired,
            Self::SessionNotOpen { .. } => Code::SessionNotOpen,
            Self::TooManyReadings { .. } => Code::TooManyReadings,
            Self::ReadingRequired { .. } => Code::ReadingRequired,
            Self::ReadingStale { .. } => Code::ReadingStale,
            Self::ReadingUnusable { .. } => Code::ReadingUnusable,
            Self::TurnHeld { .. } => Code::TurnHeld,
            Self::ReadingUnread { .. } => Code::ReadingUnread,
            Self::ReadingChanged { .. } => Code::ReadingChanged,
            Self::PreconditionFailed { .. } => Code::PreconditionFailed,
            Self::TooManyReviews => Code::TooManyReviews,
            Self::BudgetExceeded { .. } => Code::BudgetExceeded,
            Self::EffectInvalid { .. } => Code::EffectInvalid,
            Self::TooManyEffects => Code::TooManyEffects,
            Self::RecipientNotActive { .. } => Code::RecipientNotActive,
            Self::MessageQuotaExceeded(_) => Code::MessageQuotaExceeded,
            Self::InboxFull(_) => Code::InboxFull,
            Self::SelfApproval { .. } => Code::SelfApproval,
            Self::ApprovalExpired { .. } => Code::ApprovalExpired,
            Self::ApprovalOutdated { .. } => Code::ApprovalOutdated,
            Self::GroupRejected { .. } => Code::GroupRejected,
        }
    }

    /// Every failed precondition.
    pub fn failed(&self) -> &[FailedPrecondition] {
        match self {
            Self::PreconditionFailed { failed } => failed,
            _ => &[],
        }
    }

    /// Writes it as a record keeps it.
    pub fn write(&self, out: &mut Canonical) {
        // Rejections are rare enough for a generic serialiser. Every type here has a JSON form, so this cannot fail.
        out.json(&serde_json::to_value(self).unwrap_or_default());
    }
}
