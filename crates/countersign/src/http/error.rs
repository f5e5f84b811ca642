//! Errors on their way out: a code, a cause and a hint. The body is written by `outermost`, which knows the request's id.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign_api::{ErrorCode, Problem};
use countersign_core::action::RequestError;
use countersign_core::denial::DenialCode;
use countersign_core::effect::EffectRefusal;
use countersign_core::fence::ClaimRefusal;
use countersign_core::halt::HaltError;
use countersign_core::ids::IdError;
use countersign_core::observation::ObservationRefusal;
use countersign_core::review::{Ended, ReviewRefusal};
use countersign_core::session::SessionRefusal;
use countersign_core::state::PublishError;
use countersign_engine::gate::{
    AdmitError, EraseError, HistoryError, IDLE_SESSION_MS, LogError, NotObservable, NotRead, NotShown, WhyUnread,
};
use countersign_engine::identity::AuthError;
use countersign_engine::request::Refusal;
use countersign_signature::SignatureError;
use std::borrow::Cow;

const TOO_MANY_KEYS_HINT: &str =
    "nothing was decided; keys are forgotten after one to two days, and an operator can raise `keys_per_agent`";

const NOT_OBSERVABLE_HINT: &str =
    "leave them out, or ask an operator for a grant under [observe] in a pact; whether they exist is not said";

const OBSERVING_EXCEEDED_HINT: &str =
    "ask for fewer facts, or for those that were observed before; the message says when the window ends";

const DELEGATION_HINT: &str = "look at it with `countersign delegation show`, and ask its delegator for a new one";

/// Why a request did not come to be decided.
#[derive(Debug, Clone)]
pub struct HttpError {
    pub(super) code: ErrorCode,
    pub(super) message: String,
    pub(super) hint: Cow<'static, str>,
    pub(super) problems: Vec<Problem>,
    /// The entry that is in the way.
    pub(super) entry: Option<u64>,
    /// After how many seconds it is worth trying again: the header `Retry-After`.
    retry_after_s: Option<u64>,
}

impl HttpError {
    /// An error with its cause and what to do about it.
    pub fn new(code: ErrorCode, message: impl Into<String>, hint: impl Into<Cow<'static, str>>) -> Self {
        let retry_after_s = matches!(code, ErrorCode::Busy | ErrorCode::RateLimited).then_some(1);
        Self { code, message: message.into(), hint: hint.into(), problems: Vec::new(), entry: None, retry_after_s }
    }

    /// Says after how long it is worth trying again.
    pub fn retry_after_ms(self, ms: u64) -> Self {
        Self { retry_after_s: Some(ms.div_ceil(1000).max(1)), ..self }
    }

    /// The gate is not ready, and says for how long if it knows.
    pub fn not_ready(message: String, left_ms: Option<u64>) -> Self {
        match left_ms {
            Some(left_ms) => {
                let hint =
                    "nothing was decided; sign again and retry after that, an action with the same idempotency key";
                Self::new(ErrorCode::NotReady, message, hint).retry_after_ms(left_ms)
            }
            None => {
                let hint = "send agents elsewhere until this is fixed; the message says how";
                Self::new(ErrorCode::NotReady, message, hint)
            }
        }
    }

    /// A fault of the gate itself. What went wrong is for its logs; the caller cannot act on it.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(
            ErrorCode::InternalError,
            "the gate failed to answer; this is a fault of the gate",
            "look for the request id in the gate's logs; retry an action with the same idempotency key",
        )
    }

    /// A field that is missing or not acceptable.
    pub fn field(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidField, message, "compare the body with the shape in /openapi.json")
    }

    /// An id in a path that is not acceptable.
    pub fn path(error: &IdError) -> Self {
        let hint = "percent-encode what is not a letter, digit, `-`, `.`, `_` or `~`";
        Self::new(ErrorCode::InvalidPath, error.to_string(), hint)
    }

    /// What a status means that was not set by a handler.
    pub fn from_status(status: StatusCode) -> Self {
        let hint = "compare the request with /openapi.json";
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => Self::new(ErrorCode::BodyTooLarge, "the body is too large", hint),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Self::new(ErrorCode::UnsupportedMediaType, "this content type is not accepted", hint)
            }
            status if status.is_client_error() => {
                Self::new(ErrorCode::BadRequest, format!("the request is not acceptable ({status})"), hint)
            }
            status => Self::internal(format_args!("a handler answered {status}")),
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        if let Some(after_s) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, after_s.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Answers for paths that lead nowhere.
pub async fn not_found() -> HttpError {
    HttpError::new(ErrorCode::NotFound, "there is nothing at this path", "the paths are listed in /openapi.json")
}

/// Answers for methods that a path does not take.
pub async fn method_not_allowed() -> HttpError {
    HttpError::new(
        ErrorCode::MethodNotAllowed,
        "this path does not take this method",
        "the `Allow` header names the methods it takes",
    )
}

impl From<Refusal> for HttpError {
    fn from(refusal: Refusal) -> Self {
        use ErrorCode as Code;
        let (code, hint) = match &refusal {
            Refusal::Busy(_) => (Code::Busy, "nothing was decided; retry in a second with the same idempotency key"),
            Refusal::Closed => (Code::ShuttingDown, "nothing was decided; retry when the gate is up again"),
            Refusal::Poisoned(_) => (
                Code::LedgerFailed,
                "the outcome is unknown: repair the disk, restart the gate, and retry with the same idempotency key",
            ),
            Refusal::KeyReused(_) => (
                Code::IdempotencyKeyReused,
                "use a new random key for each action, and the very same body bytes for each retry",
            ),
            Refusal::GroupRepeats { .. } => {
                (Code::GroupRepeats, "nothing was decided; send the very same group, or one with new idempotency keys")
            }
            Refusal::GroupTooLarge(_) => (Code::BodyTooLarge, "nothing was decided; send a smaller group"),
            Refusal::TooManyKeys(..) => (Code::TooManyKeys, TOO_MANY_KEYS_HINT),
            Refusal::IdleSessions(_) => (
                Code::RateLimited,
                "wait as long as `Retry-After` says, and use the sessions that are open: one serves for all that an agent reads and does",
            ),
            Refusal::KeysUnread(_) => {
                (Code::NotReady, "nothing was decided; retry in a second with the same idempotency key")
            }
            Refusal::VersionMismatch { .. } => {
                (Code::VersionMismatch, "read the fact again, and send its version in `If-Match`")
            }
            Refusal::UnknownType(_) => (Code::UnknownFactType, "publish a pact that declares the type first"),
            Refusal::InvalidValue { .. } => (Code::InvalidValue, "compare the value with the type in its pact"),
            Refusal::Publish(error) => (Code::PactConflict, publish_hint(error)),
            Refusal::InForce { what, .. } if what.is_for_ever() => (Code::NotErasable, what.hint()),
            Refusal::InForce { what, .. } => (Code::EntryInForce, what.hint()),
            Refusal::NotErasable(..) => (Code::NotErasable, "name entries that are not erased yet"),
            Refusal::TooManyErased(_) => (Code::NotErasable, "name fewer entries at a time"),
            Refusal::NotAuthorised(_) => {
                (Code::NotAuthorised, "ask an admin for the role, or sign with the key of an operator that has it")
            }
            Refusal::KeyInUse { .. } => (Code::KeyInUse, "make a new key for each agent and operator"),
            Refusal::LastAdmin(_) => (Code::LastAdmin, "name another active operator with role `admin` first"),
            Refusal::Review(refusal) => review_hint(refusal),
            Refusal::Halt(HaltError::NotHalted(_)) => (Code::NotHalted, "see GET /v1/halts for what is halted"),
            Refusal::Halt(HaltError::TooMany) => {
                (Code::TooManyHalts, "halt `all`, then lift the halts that are no longer needed")
            }
            Refusal::Halt(HaltError::Reason(_)) => (Code::InvalidField, "say why in a sentence"),
            Refusal::Claim(refusal) => claim_hint(refusal),
            Refusal::Effect(refusal) => effect_hint(refusal),
            Refusal::Session(
                SessionRefusal::NotOpen(_) | SessionRefusal::OfAnother(..) | SessionRefusal::TakenOver(_),
            ) => (Code::SessionNotFound, "open a session with POST /v1/sessions, and read in that one"),
            Refusal::Session(_) => (Code::ReadingRefused, "read with shorter arguments"),
            Refusal::Observation(ObservationRefusal::Agent(_)) => {
                (Code::NotAuthorised, "ask an operator; the message says what is in the way")
            }
            Refusal::Observation(ObservationRefusal::NotObservable { .. }) => {
                (Code::NotObservable, NOT_OBSERVABLE_HINT)
            }
            Refusal::Observation(ObservationRefusal::Exceeded { .. }) => {
                (Code::ObservingExceeded, OBSERVING_EXCEEDED_HINT)
            }
            Refusal::Observation(ObservationRefusal::TooLong(_)) => (Code::InvalidField, "name fewer facts at a time"),
            Refusal::Fenced { .. } => (Code::FeedFenced, "see GET /v1/effects for what is in flight"),
            Refusal::ClockSteady => (Code::ClockSteady, "nothing to do; see /readyz"),
        };
        let entry = match &refusal {
            Refusal::KeyReused(entry) | Refusal::GroupRepeats { entry, .. } => Some(*entry),
            _ => None,
        };
        let error = Self { entry, ..Self::new(code, refusal.to_string(), hint) };
        match refusal {
            Refusal::IdleSessions(_) => error.retry_after_ms(IDLE_SESSION_MS),
            _ => error,
        }
    }
}

fn review_hint(refusal: &ReviewRefusal) -> (ErrorCode, &'static str) {
    use ErrorCode as Code;
    match refusal {
        ReviewRefusal::NotFound(_) => (Code::ReviewNotFound, "see GET /v1/reviews for what waits"),
        ReviewRefusal::Closed { how: Ended::Expired, .. } => {
            (Code::ReviewExpired, "the agent must observe and act again")
        }
        ReviewRefusal::Closed { .. } => (Code::ReviewClosed, "nothing to do; the entry says how it ended"),
        ReviewRefusal::Expired(..) => (Code::ReviewExpired, "the agent must observe and act again"),
        ReviewRefusal::Void(..) => (Code::ApprovalVoid, "nothing was done; show the review again and decide on that"),
        ReviewRefusal::ApprovalExpired(..) => {
            (Code::ApprovalExpired, "nothing was done; show the review again and decide on that")
        }
        ReviewRefusal::SelfApproval { .. } => {
            (Code::SelfApproval, "someone who has no part in the action must review it")
        }
        ReviewRefusal::Waits(_) => (Code::ReviewNotFound, "see GET /v1/reviews for what waits"),
        ReviewRefusal::Reason(_) => (Code::InvalidField, "say why in a sentence"),
    }
}

fn claim_hint(refusal: &ClaimRefusal) -> (ErrorCode, &'static str) {
    use ErrorCode as Code;
    match refusal {
        ClaimRefusal::NotFound(_) => (Code::ClaimNotFound, "this claim has ended; observe again and make a new one"),
        ClaimRefusal::NotAllowed { .. } => {
            (Code::ClaimNotAllowed, "ask an operator for a rule under [claim] in a pact")
        }
        ClaimRefusal::Held { .. } => (Code::ClaimHeld, "wait until it ends; the message says when"),
        ClaimRefusal::TooLong { .. } => {
            (Code::InvalidField, "claim for a shorter time, and extend it while the work goes on")
        }
        ClaimRefusal::Facts => (Code::InvalidField, "name the facts that are about to change"),
        ClaimRefusal::Reason(_) => (Code::InvalidField, "say why in a sentence"),
        ClaimRefusal::TooMany => (Code::TooManyClaims, "withdraw claims that are no longer needed"),
        ClaimRefusal::Agent(_) => (Code::NotAuthorised, "ask an operator; the message says what is in the way"),
    }
}

fn effect_hint(refusal: &EffectRefusal) -> (ErrorCode, &'static str) {
    use ErrorCode as Code;
    match refusal {
        EffectRefusal::NotFound(_) => (Code::EffectNotFound, "see GET /v1/effects for what is under way"),
        EffectRefusal::Ended { .. } => (Code::EffectEnded, "nothing to do; the entry says how it ended"),
        EffectRefusal::Phase { .. } => (Code::EffectNotInDoubt, "see GET /v1/effects for where it is"),
        EffectRefusal::NotStopped(_) => (Code::EffectNotInDoubt, "see GET /v1/effects for where it is"),
        EffectRefusal::Reason(_) => (Code::InvalidField, "say in a sentence how it is known"),
    }
}

fn publish_hint(error: &PublishError) -> &'static str {
    match error {
        PublishError::Unchanged { .. } => "nothing to do: this very text is in force",
        PublishError::Version { .. } => "set `version` to the next number",
        PublishError::Content { .. } => "raise `version` by one; what is published is never changed",
        PublishError::Types(_) => {
            "fact types are shared by all pacts: declare them as they are, and add only optional attributes"
        }
        PublishError::Budgets(_) => {
            "a named budget is defined by one pact: publish its definition before what charges it, and drop it after"
        }
    }
}

impl From<SignatureError> for HttpError {
    fn from(error: SignatureError) -> Self {
        use ErrorCode as Code;
        let code = match &error {
            SignatureError::Missing => Code::SignatureMissing,
            SignatureError::Malformed(_) | SignatureError::Component(_) | SignatureError::Nonce => {
                Code::SignatureMalformed
            }
            SignatureError::Incomplete(_) => Code::SignatureIncomplete,
            SignatureError::Tag { .. } => Code::SignatureTag,
            SignatureError::Algorithm(_) => Code::SignatureAlgorithm,
            SignatureError::Digest => Code::DigestMismatch,
            SignatureError::Expired { .. }
            | SignatureError::Over
            | SignatureError::BeforeStart
            | SignatureError::Future { .. } => Code::SignatureExpired,
            SignatureError::KeyUnknown(_) => Code::KeyUnknown,
            SignatureError::Invalid => Code::SignatureInvalid,
            SignatureError::Replayed => Code::SignatureReplayed,
        };
        Self::new(code, error.to_string(), error.hint())
    }
}

impl From<AuthError> for HttpError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Signature(error) => error.into(),
            AuthError::Full => Self::new(
                ErrorCode::Busy,
                error.to_string(),
                "nothing was decided; retry in a minute with the same idempotency key",
            ),
            AuthError::KeptFull => Self::new(
                ErrorCode::Busy,
                error.to_string(),
                "nothing was decided; retry in a minute. If the machine's clock is ahead, fix it first; then halts are accepted",
            ),
            AuthError::NotYet { left_ms } | AuthError::Behind { left_ms, .. } => {
                Self::not_ready(error.to_string(), Some(left_ms))
            }
            AuthError::Stepped { .. } => Self::new(
                ErrorCode::NotReady,
                error.to_string(),
                "nothing was decided; an operator corrects the machine's clock, or confirms it with `countersign clock \
                 confirm`. Until then only halts and their lifting are accepted, and /readyz shows the state",
            ),
            AuthError::NotNoted(_) => Self::new(
                ErrorCode::NotReady,
                error.to_string(),
                "the data folder cannot be written; look at the disk. Halts, and a caller whose clock is not ahead, are not affected",
            ),
        }
    }
}

impl From<AdmitError> for HttpError {
    fn from(error: AdmitError) -> Self {
        let message = error.to_string();
        match error {
            AdmitError::Request(RequestError::TooLong(_)) => too_large(message),
            AdmitError::Request(RequestError::Json(_)) => invalid_json(message),
            AdmitError::Request(RequestError::Unknown(_)) => unknown_field(message),
            AdmitError::Request(_) => Self::field(message),
            AdmitError::Denied { code, hint: None, .. } => denied(code, message),
            AdmitError::Denied { code, hint: Some(hint), .. } => Self { hint: hint.into(), ..denied(code, message) },
            AdmitError::Token { .. } => Self::new(
                ErrorCode::ObservationRefused,
                message,
                "observe again, as the agent that acts, and send the token as it was given out",
            ),
            AdmitError::Delegation(_) => Self::new(ErrorCode::DelegationRefused, message, DELEGATION_HINT),
        }
    }
}

impl From<NotObservable> for HttpError {
    fn from(error: NotObservable) -> Self {
        denied(DenialCode::NotObservable, error.to_string())
    }
}

impl From<NotRead> for HttpError {
    fn from(error: NotRead) -> Self {
        // Without the id, and not of each: an agent that observes over and over must not fill the disk.
        if let Some(unlogged) = super::outermost::may_log_refusal() {
            tracing::warn!(r#type = error.fact.ty().as_str(), unlogged, "an external fact could not be read");
        }
        unread(
            &error.why,
            error.to_string(),
            "nothing was shown; check that the adapter's other side is up, then observe again",
        )
    }
}

/// The answer where an external fact or a tool could not be read. That the gate has no such adapter is told by a code of its own: what a
/// server says must not pass for it.
pub fn unread(why: &WhyUnread, message: String, hint: &'static str) -> HttpError {
    match why {
        WhyUnread::NoAdapter(_) => {
            let hint = "nothing was read; an operator adds it to the gate's countersign.toml and restarts the gate";
            HttpError::new(ErrorCode::NoAdapter, message, hint)
        }
        WhyUnread::NoSource | WhyUnread::Said(_) => HttpError::new(ErrorCode::ExternalUnread, message, hint),
    }
}

/// A request that is refused at the door.
pub fn denied(code: DenialCode, message: String) -> HttpError {
    let (code, hint) = match code {
        DenialCode::AgentNotActive => (ErrorCode::AgentNotActive, "stop, and ask an operator to set its standing"),
        DenialCode::UnknownAgent => (ErrorCode::UnknownAgent, "have an operator register it: `countersign agent new`"),
        DenialCode::UnknownPact => {
            (ErrorCode::UnknownPact, "check the name, or publish the pact with `countersign pact publish FILE`")
        }
        DenialCode::DelegationRefused => (ErrorCode::DelegationRefused, DELEGATION_HINT),
        DenialCode::NotAllowed => (
            ErrorCode::NotAllowed,
            "ask an operator for the role that the pact names: `countersign agent set NAME --role ROLE`",
        ),
        DenialCode::TrustTooLow => {
            (ErrorCode::TrustTooLow, "ask an operator: `countersign agent set NAME --trust N` raises it")
        }
        DenialCode::UnknownAction => (ErrorCode::UnknownAction, "see GET /v1/pacts/{name} for what the pact has"),
        DenialCode::NotObservable => (ErrorCode::NotObservable, NOT_OBSERVABLE_HINT),
        DenialCode::ObservingExceeded => (ErrorCode::ObservingExceeded, OBSERVING_EXCEEDED_HINT),
        DenialCode::ClaimNotAllowed => {
            (ErrorCode::ClaimNotAllowed, "ask an operator for a rule under [claim] in a pact")
        }
        DenialCode::RateLimited => {
            (ErrorCode::RateLimited, "wait as long as `Retry-After` says, then send fewer a second")
        }
        DenialCode::TooManyKeys => (ErrorCode::TooManyKeys, TOO_MANY_KEYS_HINT),
    };
    HttpError::new(code, message, hint)
}

/// The body is larger than is accepted.
pub fn too_large(message: String) -> HttpError {
    HttpError::new(
        ErrorCode::BodyTooLarge,
        message,
        "send less; a large document belongs elsewhere, with its digest here",
    )
}

/// The body is not strict JSON.
pub fn invalid_json(message: String) -> HttpError {
    let hint =
        "send one JSON object, each key once, integers within 2^53-1, amounts in minor units, nested at most 16 deep";
    HttpError::new(ErrorCode::InvalidJson, message, hint)
}

/// The body has a field that no one reads.
pub fn unknown_field(message: String) -> HttpError {
    HttpError::new(ErrorCode::UnknownField, message, "leave the field out, or correct its spelling")
}

impl From<LogError> for HttpError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Beyond(_) => {
                Self::new(ErrorCode::BeyondLog, error.to_string(), "see /log/checkpoint for the size of the log")
            }
            LogError::Storage(_) | LogError::Tree(_) | LogError::Damaged(..) => {
                tracing::error!(%error, "the log cannot be read");
                Self::new(
                    ErrorCode::LogUnreadable,
                    "the log cannot be read at this place; the gate's own logs say why",
                    "run `countersign verify` on the data folder; it says where the log breaks",
                )
            }
        }
    }
}

impl From<NotShown> for HttpError {
    fn from(error: NotShown) -> Self {
        match error {
            NotShown::Refused(refusal) => refusal.into(),
            NotShown::Log(error) => error.into(),
        }
    }
}

impl From<HistoryError> for HttpError {
    fn from(error: HistoryError) -> Self {
        let HistoryError::Log(error) = error;
        error.into()
    }
}

impl From<EraseError> for HttpError {
    fn from(error: EraseError) -> Self {
        match error {
            EraseError::Log(error) => error.into(),
            EraseError::Storage(error) => LogError::Storage(error).into(),
            EraseError::Refused(refusal) => refusal.into(),
        }
    }
}
