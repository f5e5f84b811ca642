//! Which errors an operation answers with. Most follow from what its row says: who calls, what is read. The rest is in the row itself,
//! in groups where several share them.

use super::{Accepts, Body, Callers, Named, Place, Route};
use crate::error::ErrorCode::{self, *};

/// Any operation: an open gate refuses what a web page could have sent, and an identified one what comes too often. Over TLS a
/// certificate may stop to count while its connection is open.
const ANY: &[ErrorCode] = &[CrossOrigin, WrongHost, RateLimited, InternalError, CertificateRefused];

/// Operations that ask who calls, with a signature over the whole request.
const SIGNED: &[ErrorCode] = &[
    BadRequest,
    InvalidUtf8,
    SignatureMissing,
    SignatureMalformed,
    SignatureIncomplete,
    SignatureTag,
    SignatureAlgorithm,
    SignatureExpired,
    KeyUnknown,
    SignatureInvalid,
    SignatureReplayed,
    DigestMismatch,
    NotAuthorised,
    AgentNotActive,
    CertificateMismatch,
    BodyTimeout,
    BodyTooLarge,
    Busy,
    NotReady,
];

const EMPTY_JSON: &[ErrorCode] = &[InvalidJson, UnknownField, UnsupportedMediaType];
const JSON: &[ErrorCode] = &[InvalidJson, UnknownField, InvalidField, UnsupportedMediaType];

/// Those that become an entry, or would.
pub(super) const ENTERED: &[ErrorCode] = &[ShuttingDown, LedgerFailed];

/// Those that read the log.
pub(super) const LOG: &[ErrorCode] = &[LogUnreadable];

/// What comes along with an action.
pub(super) const ACTION: &[ErrorCode] =
    &[ObservationRefused, DelegationRefused, UnknownAgent, NotAllowed, TrustTooLow, UnknownPact, UnknownAction];

/// What keeps a fact from being written.
pub(super) const FEED: &[ErrorCode] = &[KeyInUse, LastAdmin, FeedFenced, VersionMismatch];

/// A review that is not there, or over.
pub(super) const REVIEW: &[ErrorCode] = &[SelfApproval, ReviewNotFound, ReviewClosed, ReviewExpired];

/// An approval of something else than there is now.
pub(super) const APPROVAL: &[ErrorCode] = &[ShownRefused, ApprovalVoid, ApprovalExpired];

/// An effect that is not there, or not in doubt.
pub(super) const EFFECT: &[ErrorCode] = &[EffectNotFound, EffectEnded, EffectNotInDoubt];

/// Every error of an operation, each once and in order.
pub(super) fn of(route: &Route) -> Vec<ErrorCode> {
    let signed: &[_] = if route.callers == Callers::Anyone { &[] } else { SIGNED };
    let named: &[_] = match route.names {
        Some(Named::Agent) => &[AgentMissing, AgentInvalid],
        Some(Named::Operator) => &[AgentInvalid],
        None => &[],
    };
    let body: &[_] = match route.body {
        Body::None => &[],
        Body::Json { shape: None, .. } => EMPTY_JSON,
        Body::Json { shape: Some(_), .. } => JSON,
        Body::Toml { .. } => &[UnsupportedMediaType],
    };
    let mut codes: Vec<ErrorCode> = [ANY, signed, named, body].iter().copied().flatten().copied().collect();
    codes.extend(route.errors.iter().copied().flatten());
    // A parameter that they do not know; programs that ask whether the gate is up add what they like.
    if !matches!(route.callers, Callers::Anyone | Callers::Metrics) {
        codes.push(InvalidPath);
    }
    for param in route.params() {
        match param.place {
            Place::Header if param.name == "If-Match" => codes.push(InvalidHeader),
            Place::Path | Place::Query if param.accepts != Accepts::Rest => codes.push(InvalidPath),
            _ => {}
        }
    }
    codes.sort_unstable();
    codes.dedup();
    codes
}
