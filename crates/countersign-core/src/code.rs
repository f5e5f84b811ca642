//! The stable codes of rejections. Each has a page under docs/codes/.
//!
//! The order of the variants is their precedence: when an action could be rejected for several reasons, it is rejected for
//! the first. An action that got past one stage is not asked about it again.

use std::fmt;

/// Why an action was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// No pact of this name has been published.
    UnknownPact,
    /// The action is in a scope that an operator has halted.
    Halted,
    /// The pact has no such action type.
    UnknownAction,
    /// The action cannot be part of an atomic group.
    NotInGroup,
    /// The parameters do not fit their schema.
    InvalidParams,
    /// The action is not signed, and this gate takes nothing unsigned.
    NotAuthenticated,
    /// The agent is not registered.
    UnknownAgent,
    /// The agent is not active.
    AgentNotActive,
    /// The key that signed is not a key of the agent at this time.
    KeyNotCurrent,
    /// A hop of the delegation claims more than it was given.
    DelegationWidened,
    /// The delegation was passed on more often than a hop allows.
    DelegationTooDeep,
    /// A hop of the delegation has expired.
    DelegationExpired,
    /// A member of the delegation is not active.
    DelegationMemberNotActive,
    /// A member of the delegation no longer holds the key that it was named by.
    DelegationKeyNotCurrent,
    /// The action is not within the delegation.
    DelegationOutOfScope,
    /// The pact does not allow this agent to do this. Asked again once the facts are known, where it depends on them.
    NotAllowed,
    /// A fact id built from parameters or attributes is not a valid id.
    InvalidFactId,
    /// A fact that must exist does not.
    FactMissing,
    /// A fact that must not exist does.
    FactExists,
    /// Two names of the action mean one fact, and the action writes it.
    AliasedWrite,
    /// The agent's trust is below what the action asks for.
    TrustTooLow,
    /// The claim that the action names no longer holds what the action reads.
    ClaimLost,
    /// Someone else has announced a change of a fact that the action relies on.
    FactClaimed,
    /// A call in flight relies on a fact that the action would change, or will change one that it relies on.
    FactFenced,
    /// A fact was not observed although the pact asks for it.
    ObservationRequired,
    /// A write that is guarded as read names no session.
    SessionRequired,
    /// The session is not open, or belongs to another agent.
    SessionNotOpen,
    /// More was read in the session than is kept, so that no one could say what a write rests on.
    TooManyReadings,
    /// A tool was not read although the pact asks for it.
    ReadingRequired,
    /// A reading is older than the pact lets it be.
    ReadingStale,
    /// A reading is not there as the pact's conditions ask about it.
    ReadingUnusable,
    /// One or more preconditions do not hold.
    PreconditionFailed,
    /// As many actions wait for a person as are kept.
    TooManyReviews,
    /// The action would exceed a budget.
    BudgetExceeded,
    /// What the action would write cannot be computed or is not a valid value.
    EffectInvalid,
    /// As many calls are under way as are kept.
    TooManyEffects,
    /// The recipient of a message is not an active agent.
    RecipientNotActive,
    /// The sender has as many messages waiting as it may.
    MessageQuotaExceeded,
    /// As many messages wait as an inbox, or the gate, keeps.
    InboxFull,
    /// Another call had the turn at the server for too long.
    TurnHeld,
    /// A reading that the write rests on could not be made again.
    ReadingUnread,
    /// A reading that the write rests on reads differently now.
    ReadingChanged,
    /// The reviewer acts in what it approves.
    SelfApproval,
    /// The approval came too late after the showing.
    ApprovalExpired,
    /// What was approved is no longer as it was shown.
    ApprovalOutdated,
    /// Another action of its atomic group was rejected. Never recorded: the entry of the group names the one that was.
    GroupRejected,
}

/// What would make sense for its agent after a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Something must be different first: the action, or what its agent has observed, read or claimed.
    Change,
    /// The same action may pass later, with nothing to look at.
    Later,
    /// No such action passes until a person changes something.
    Never,
}

impl Code {
    /// All codes, in order of precedence.
    pub const ALL: [Self; 46] = [
        Self::UnknownPact,
        Self::Halted,
        Self::UnknownAction,
        Self::NotInGroup,
        Self::InvalidParams,
        Self::NotAuthenticated,
        Self::UnknownAgent,
        Self::AgentNotActive,
        Self::KeyNotCurrent,
        Self::DelegationWidened,
        Self::DelegationTooDeep,
        Self::DelegationExpired,
        Self::DelegationMemberNotActive,
        Self::DelegationKeyNotCurrent,
        Self::DelegationOutOfScope,
        Self::NotAllowed,
        Self::InvalidFactId,
        Self::FactMissing,
        Self::FactExists,
        Self::AliasedWrite,
        Self::TrustTooLow,
        Self::ClaimLost,
        Self::FactClaimed,
        Self::FactFenced,
        Self::ObservationRequired,
        Self::SessionRequired,
        Self::SessionNotOpen,
        Self::TooManyReadings,
        Self::ReadingRequired,
        Self::ReadingStale,
        Self::ReadingUnusable,
        Self::PreconditionFailed,
        Self::TooManyReviews,
        Self::BudgetExceeded,
        Self::EffectInvalid,
        Self::TooManyEffects,
        Self::RecipientNotActive,
        Self::MessageQuotaExceeded,
        Self::InboxFull,
        Self::TurnHeld,
        Self::ReadingUnread,
        Self::ReadingChanged,
        Self::SelfApproval,
        Self::ApprovalExpired,
        Self::ApprovalOutdated,
        Self::GroupRejected,
    ];

    /// Reads a code back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }

    /// What would make sense next. It agrees with the hint of the reason.
    pub fn next(self) -> Next {
        match self {
            Self::NotInGroup
            | Self::InvalidParams
            | Self::DelegationOutOfScope
            | Self::InvalidFactId
            | Self::FactMissing
            | Self::FactExists
            | Self::AliasedWrite
            | Self::ClaimLost
            | Self::ObservationRequired
            | Self::SessionRequired
            | Self::SessionNotOpen
            | Self::TooManyReadings
            | Self::ReadingRequired
            | Self::ReadingStale
            | Self::ReadingUnusable
            | Self::ReadingChanged
            | Self::PreconditionFailed
            | Self::EffectInvalid
            | Self::RecipientNotActive
            | Self::ApprovalOutdated
            | Self::GroupRejected => Next::Change,
            Self::FactClaimed
            | Self::FactFenced
            | Self::TooManyReviews
            | Self::BudgetExceeded
            | Self::TooManyEffects
            | Self::MessageQuotaExceeded
            | Self::InboxFull
            | Self::TurnHeld
            | Self::ReadingUnread => Next::Later,
            Self::UnknownPact
            | Self::Halted
            | Self::UnknownAction
            | Self::NotAuthenticated
            | Self::UnknownAgent
            | Self::AgentNotActive
            | Self::KeyNotCurrent
            | Self::DelegationWidened
            | Self::DelegationTooDeep
            | Self::DelegationExpired
            | Self::DelegationMemberNotActive
            | Self::DelegationKeyNotCurrent
            | Self::NotAllowed
            | Self::TrustTooLow
            | Self::SelfApproval
            | Self::ApprovalExpired => Next::Never,
        }
    }

    /// The code as it stands in records and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownPact => "unknown_pact",
            Self::Halted => "halted",
            Self::UnknownAction => "unknown_action",
            Self::NotInGroup => "not_in_group",
            Self::InvalidParams => "invalid_params",
            Self::NotAuthenticated => "not_authenticated",
            Self::UnknownAgent => "unknown_agent",
            Self::AgentNotActive => "agent_not_active",
            Self::KeyNotCurrent => "key_not_current",
            Self::DelegationWidened => "delegation_widened",
            Self::DelegationTooDeep => "delegation_too_deep",
            Self::DelegationExpired => "delegation_expired",
            Self::DelegationMemberNotActive => "delegation_member_not_active",
            Self::DelegationKeyNotCurrent => "delegation_key_not_current",
            Self::DelegationOutOfScope => "delegation_out_of_scope",
            Self::InvalidFactId => "invalid_fact_id",
            Self::FactMissing => "fact_missing",
            Self::FactExists => "fact_exists",
            Self::AliasedWrite => "aliased_write",
            Self::ClaimLost => "claim_lost",
            Self::FactClaimed => "fact_claimed",
            Self::FactFenced => "fact_fenced",
            Self::NotAllowed => "not_allowed",
            Self::TrustTooLow => "trust_too_low",
            Self::ObservationRequired => "observation_required",
            Self::SessionRequired => "session_required",
            Self::SessionNotOpen => "session_not_open",
            Self::TooManyReadings => "too_many_readings",
            Self::ReadingRequired => "reading_required",
            Self::ReadingStale => "reading_stale",
            Self::ReadingUnusable => "reading_unusable",
            Self::TurnHeld => "turn_held",
            Self::ReadingUnread => "reading_unread",
            Self::ReadingChanged => "reading_changed",
            Self::PreconditionFailed => "precondition_failed",
            Self::TooManyReviews => "too_many_reviews",
            Self::BudgetExceeded => "budget_exceeded",
            Self::EffectInvalid => "effect_invalid",
            Self::TooManyEffects => "too_many_effects",
            Self::RecipientNotActive => "recipient_not_active",
            Self::MessageQuotaExceeded => "message_quota_exceeded",
            Self::InboxFull => "inbox_full",
            Self::SelfApproval => "self_approval",
            Self::ApprovalExpired => "approval_expired",
            Self::ApprovalOutdated => "approval_outdated",
            Self::GroupRejected => "group_rejected",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
