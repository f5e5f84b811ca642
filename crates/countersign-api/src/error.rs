//! Errors: what is answered when a request did not come to be decided. Each code has a page under docs/codes/.
//!
//! Codes are stable: programs match on them. Messages and hints are for people and may change.

use serde::{Deserialize, Serialize};

/// The body of every 4xx and 5xx answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct ErrorDetail {
    /// The stable code.
    #[cfg_attr(feature = "document", schema(value_type = ErrorCode))]
    pub code: String,
    /// The cause, for people.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// The id under which the gate's logs speak of this request; also in the `x-request-id` header.
    pub request_id: String,
    /// The entry that is in the way: of `idempotency_key_reused`, the one that was made under the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// Every problem of a pact that was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// One problem of a pact's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The line, counted from 1.
    pub line: u64,
    /// The column in characters, counted from 1.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How bad a problem of a pact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The pact is refused.
    Error,
    /// The pact is accepted, but probably does not say what its author meant.
    Warning,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $status:literal,)*) => {
        /// The stable codes of errors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The HTTP status that goes with the code.
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)*
                }
            }
        }
    };
}

codes! {
    /// The header that names the agent is missing.
    AgentMissing = 400,
    /// The header that names the agent does not hold one acceptable name.
    AgentInvalid = 400,
    /// The body is not UTF-8.
    InvalidUtf8 = 400,
    /// The body is not strict JSON.
    InvalidJson = 400,
    /// A field of the body is not known.
    UnknownField = 400,
    /// A field of the body is missing or not acceptable.
    InvalidField = 400,
    /// An observation token was refused.
    ObservationRefused = 400,
    /// A delegation was refused.
    DelegationRefused = 400,
    /// A batch has no actions, or too many.
    BatchSize = 400,
    /// The header that lists the actions of a batch is not that of the actions in its body.
    ActionsMismatch = 400,
    /// The path or its query is not acceptable.
    InvalidPath = 400,
    /// A header is not acceptable.
    InvalidHeader = 400,
    /// The request itself is not acceptable HTTP.
    BadRequest = 400,
    /// The request is not signed, and this gate takes nothing unsigned.
    SignatureMissing = 401,
    /// The signature cannot be read, or not in one way only.
    SignatureMalformed = 401,
    /// The signature does not cover what it must.
    SignatureIncomplete = 401,
    /// The signature is for another gate.
    SignatureTag = 401,
    /// The signature is of another algorithm.
    SignatureAlgorithm = 401,
    /// The signature is too old, or from the future.
    SignatureExpired = 401,
    /// No one is registered with the key.
    KeyUnknown = 401,
    /// The key did not make this signature over this request.
    SignatureInvalid = 401,
    /// This very signature was here before.
    SignatureReplayed = 401,
    /// The body is not the one that was signed.
    DigestMismatch = 401,
    /// The request comes from a web page of another site.
    CrossOrigin = 403,
    /// The caller is known, and may not do this.
    NotAuthorised = 403,
    /// The agent is registered, and not active.
    AgentNotActive = 403,
    /// The client certificate of the connection does not count any more.
    CertificateRefused = 403,
    /// The client certificate of the connection names someone else than who signed.
    CertificateMismatch = 403,
    /// The agent is not registered.
    UnknownAgent = 403,
    /// The pact does not let the agent do this, whatever the parameters and facts are.
    NotAllowed = 403,
    /// The agent is trusted less than the pact asks for.
    TrustTooLow = 403,
    /// No grant lets the agent observe a fact that it asked for.
    NotObservable = 403,
    /// A budget on observing has no room for the facts that the agent asked for.
    ObservingExceeded = 403,
    /// There is no such resource.
    NotFound = 404,
    /// There is no such fact.
    FactNotFound = 404,
    /// There is no such pact.
    PactNotFound = 404,
    /// There is no such action, or it is another agent's.
    ActionNotFound = 404,
    /// The log has no such entry, tile or size yet.
    BeyondLog = 404,
    /// The resource does not take this method.
    MethodNotAllowed = 405,
    /// The body did not arrive in time.
    BodyTimeout = 408,
    /// The idempotency key was used for another action.
    IdempotencyKeyReused = 409,
    /// Some actions of an atomic group were decided before, or all of them, but not as this group.
    GroupRepeats = 409,
    /// The pact cannot follow what is published.
    PactConflict = 409,
    /// The entry holds the current value of a fact, and so is not erased.
    EntryInForce = 409,
    /// The entry holds nothing that can be erased.
    NotErasable = 409,
    /// There is no such claim, it has ended, or it is someone else's.
    ClaimNotFound = 404,
    /// There is no such session, it was closed, or it is someone else's.
    SessionNotFound = 404,
    /// The session takes no such reading: it is full, or the arguments are too long to keep.
    ReadingRefused = 409,
    /// No pact lets the agent announce a change of the fact.
    ClaimNotAllowed = 403,
    /// Someone else has announced a change of the fact.
    ClaimHeld = 409,
    /// As many claims stand as are kept.
    TooManyClaims = 409,
    /// A call in flight relies on the fact, and the feed cannot be held.
    FeedFenced = 409,
    /// There is no such effect, or it ended long ago.
    EffectNotFound = 404,
    /// The effect has ended.
    EffectEnded = 409,
    /// The effect is not in doubt, so no one has to say what became of it.
    EffectNotInDoubt = 409,
    /// There is no such review, or it ended long ago.
    ReviewNotFound = 404,
    /// The review has ended.
    ReviewClosed = 409,
    /// No one decided the review in time.
    ReviewExpired = 409,
    /// What the reviewer was shown is no longer so; nothing was done.
    ApprovalVoid = 409,
    /// The approval came too late after it was shown.
    ApprovalExpired = 409,
    /// The reviewer acts in what is to be approved.
    SelfApproval = 403,
    /// What a reviewer was shown, as it was sent, was refused.
    ShownRefused = 400,
    /// The scope is not halted, so there is nothing to resume.
    NotHalted = 409,
    /// As many scopes are halted as are kept.
    TooManyHalts = 409,
    /// There is no clock step to confirm.
    ClockSteady = 409,
    /// The key belongs to another agent or operator.
    KeyInUse = 409,
    /// No active admin would be left.
    LastAdmin = 409,
    /// The fact is not at the version that `If-Match` names.
    VersionMismatch = 412,
    /// The body is too large.
    BodyTooLarge = 413,
    /// The body's content type is not taken here.
    UnsupportedMediaType = 415,
    /// The request was meant for another host.
    WrongHost = 421,
    /// The pact's text has problems.
    PactInvalid = 422,
    /// No pact of this name has been published.
    UnknownPact = 422,
    /// The pact has no such action type.
    UnknownAction = 422,
    /// No published pact declares the fact's type.
    UnknownFactType = 422,
    /// The value does not fit the fact's type.
    InvalidValue = 422,
    /// The caller sends more requests than it may.
    RateLimited = 429,
    /// The agent has as many idempotency keys as are kept for one.
    TooManyKeys = 429,
    /// A fault of the gate.
    InternalError = 500,
    /// The log on disk cannot be read.
    LogUnreadable = 500,
    /// An external fact could not be read.
    ExternalUnread = 502,
    /// The gate's settings name no adapter for an external fact.
    NoAdapter = 502,
    /// The queue is full.
    Busy = 503,
    /// The gate is shutting down.
    ShuttingDown = 503,
    /// The ledger cannot be written; the outcome is unknown.
    LedgerFailed = 503,
    /// The gate is not ready to decide.
    NotReady = 503,
}

impl ErrorCode {
    /// Whether this answer is proof that the request was not carried out, and will not be. Of all others only the ledger knows:
    /// an action is asked for again with its idempotency key.
    pub const fn leaves_nothing(self) -> bool {
        // A signature that was here before may have been here with this very request.
        !matches!(self, Self::InternalError | Self::LogUnreadable | Self::LedgerFailed | Self::SignatureReplayed)
    }

    /// Whether the same request may pass a moment later, signed again.
    pub const fn passes_later(self) -> bool {
        matches!(self, Self::Busy | Self::NotReady | Self::ShuttingDown) || self.status() == 429
    }

    /// The code as it stands in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AgentMissing => "agent_missing",
            Self::AgentInvalid => "agent_invalid",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::InvalidJson => "invalid_json",
            Self::UnknownField => "unknown_field",
            Self::InvalidField => "invalid_field",
            Self::ObservationRefused => "observation_refused",
            Self::DelegationRefused => "delegation_refused",
            Self::BatchSize => "batch_size",
            Self::ActionsMismatch => "actions_mismatch",
            Self::InvalidPath => "invalid_path",
            Self::InvalidHeader => "invalid_header",
            Self::BadRequest => "bad_request",
            Self::SignatureMissing => "signature_missing",
            Self::SignatureMalformed => "signature_malformed",
            Self::SignatureIncomplete => "signature_incomplete",
            Self::SignatureTag => "signature_tag",
            Self::SignatureAlgorithm => "signature_algorithm",
            Self::SignatureExpired => "signature_expired",
            Self::KeyUnknown => "key_unknown",
            Self::SignatureInvalid => "signature_invalid",
            Self::SignatureReplayed => "signature_replayed",
            Self::DigestMismatch => "digest_mismatch",
            Self::CrossOrigin => "cross_origin",
            Self::NotAuthorised => "not_authorised",
            Self::AgentNotActive => "agent_not_active",
            Self::CertificateRefused => "certificate_refused",
            Self::CertificateMismatch => "certificate_mismatch",
            Self::UnknownAgent => "unknown_agent",
            Self::NotAllowed => "not_allowed",
            Self::TrustTooLow => "trust_too_low",
            Self::NotObservable => "not_observable",
            Self::ObservingExceeded => "observing_exceeded",
            Self::NotFound => "not_found",
            Self::FactNotFound => "fact_not_found",
            Self::PactNotFound => "pact_not_found",
            Self::ActionNotFound => "action_not_found",
            Self::BeyondLog => "beyond_log",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTimeout => "body_timeout",
            Self::GroupRepeats => "group_repeats",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::PactConflict => "pact_conflict",
            Self::EntryInForce => "entry_in_force",
            Self::NotErasable => "not_erasable",
            Self::ClaimNotFound => "claim_not_found",
            Self::SessionNotFound => "session_not_found",
            Self::ReadingRefused => "reading_refused",
            Self::ClaimNotAllowed => "claim_not_allowed",
            Self::ClaimHeld => "claim_held",
            Self::TooManyClaims => "too_many_claims",
            Self::FeedFenced => "feed_fenced",
            Self::EffectNotFound => "effect_not_found",
            Self::EffectEnded => "effect_ended",
            Self::EffectNotInDoubt => "effect_not_in_doubt",
            Self::ReviewNotFound => "review_not_found",
            Self::ReviewClosed => "review_closed",
            Self::ReviewExpired => "review_expired",
            Self::ApprovalVoid => "approval_void",
            Self::ApprovalExpired => "approval_expired",
            Self::SelfApproval => "self_approval",
            Self::ShownRefused => "shown_refused",
            Self::NotHalted => "not_halted",
            Self::TooManyHalts => "too_many_halts",
            Self::ClockSteady => "clock_steady",
            Self::KeyInUse => "key_in_use",
            Self::LastAdmin => "last_admin",
            Self::VersionMismatch => "version_mismatch",
            Self::BodyTooLarge => "body_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::WrongHost => "wrong_host",
            Self::PactInvalid => "pact_invalid",
            Self::UnknownPact => "unknown_pact",
            Self::UnknownAction => "unknown_action",
            Self::UnknownFactType => "unknown_fact_type",
            Self::InvalidValue => "invalid_value",
            Self::RateLimited => "rate_limited",
            Self::TooManyKeys => "too_many_keys",
            Self::InternalError => "internal_error",
            Self::LogUnreadable => "log_unreadable",
            Self::ExternalUnread => "external_unread",
            Self::NoAdapter => "no_adapter",
            Self::Busy => "busy",
            Self::ShuttingDown => "shutting_down",
            Self::LedgerFailed => "ledger_failed",
            Self::NotReady => "not_ready",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_spelt_the_same_everywhere() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
