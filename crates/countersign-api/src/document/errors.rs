//! Which errors each operation answers with: the one place that says so, for the document and for the tests, which fail where the
//! gate answers with an error that is not listed here. A new operation gets a row; a new error goes into the rows, or into the
//! group of those that share it.

use crate::error::ErrorBody;
use crate::error::ErrorCode::{self, *};
use std::collections::BTreeMap;
use utoipa::ToSchema as _;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Components, ContentBuilder, HeaderBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

/// One operation: its method, its path, and what it answers with beside success.
type Row = (&'static str, &'static str, &'static [&'static [ErrorCode]]);

/// Any operation: an open gate refuses what a web page could have sent, and an identified one what comes too often.
const ANY: &[ErrorCode] = &[CrossOrigin, WrongHost, RateLimited, InternalError];

/// Operations that ask who calls, with a signature over the whole request.
const CALLED: &[ErrorCode] = &[
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
    BodyTimeout,
    BodyTooLarge,
    Busy,
    NotReady,
];

/// In an open gate, those that an agent calls, who must be named.
const AGENT: &[ErrorCode] = &[AgentMissing, AgentInvalid];

/// In an open gate, those that an operator calls, who may be named.
const OPERATOR: &[ErrorCode] = &[AgentInvalid];

/// Those with a body of JSON.
const JSON: &[ErrorCode] = &[InvalidJson, UnknownField, InvalidField, UnsupportedMediaType];

/// Those with a path or query that has to be read.
const PATH: &[ErrorCode] = &[InvalidPath];

/// Those that become an entry, or would.
const ENTERED: &[ErrorCode] = &[ShuttingDown, LedgerFailed];

/// Those that read the log.
const LOG: &[ErrorCode] = &[LogUnreadable];

const ROWS: &[Row] = &[
    ("post", "/v1/observe", &[CALLED, AGENT, JSON, &[NotObservable, OutsideUnread]]),
    ("post", "/v1/actions", &[CALLED, AGENT, JSON, PATH, ENTERED, LOG, ACTION, &[IdempotencyKeyReused, TooManyKeys]]),
    ("post", "/v1/actions/check", &[CALLED, AGENT, JSON, ACTION]),
    ("get", "/v1/actions/{entry}", &[CALLED, AGENT, PATH, LOG, &[ActionNotFound]]),
    ("get", "/v1/facts/{type}", &[CALLED, PATH, &[UnknownFactType]]),
    ("get", "/v1/facts/{type}/{id}", &[CALLED, PATH, &[FactNotFound]]),
    ("put", "/v1/facts/{type}/{id}", &[CALLED, OPERATOR, JSON, PATH, ENTERED, FEED, &[UnknownFactType, InvalidValue]]),
    ("delete", "/v1/facts/{type}/{id}", &[CALLED, OPERATOR, PATH, ENTERED, FEED, &[FactNotFound]]),
    (
        "post",
        "/v1/facts/{type}/{id}/confirm",
        &[CALLED, OPERATOR, JSON, PATH, ENTERED, &[FactNotFound, VersionMismatch, InvalidValue]],
    ),
    ("get", "/v1/facts/{type}/{id}/history", &[CALLED, PATH, LOG, &[FactNotFound]]),
    ("get", "/v1/agents", &[CALLED]),
    ("get", "/v1/operators", &[CALLED]),
    ("get", "/v1/caller", &[CALLED]),
    ("get", "/v1/pacts", &[CALLED]),
    ("post", "/v1/pacts", &[CALLED, OPERATOR, ENTERED, &[UnsupportedMediaType, PactInvalid, PactConflict]]),
    ("post", "/v1/check/pact", &[CALLED, &[UnsupportedMediaType, PactInvalid, PactConflict]]),
    ("get", "/v1/pacts/{name}", &[CALLED, PATH, &[PactNotFound]]),
    ("get", "/v1/ledger/entries", &[CALLED, PATH, LOG]),
    ("get", "/v1/ledger/entries/{index}", &[CALLED, PATH, LOG, &[BeyondLog]]),
    ("get", "/v1/ledger/receipts/{index}", &[CALLED, PATH, LOG, &[BeyondLog]]),
    ("get", "/v1/ledger/consistency", &[PATH, LOG, &[BeyondLog]]),
    ("post", "/v1/ledger/erasures", &[CALLED, OPERATOR, JSON, ENTERED, LOG, &[BeyondLog, EntryInForce, NotErasable]]),
    ("get", "/v1/reviews", &[CALLED]),
    ("get", "/v1/reviews/{review}", &[CALLED, OPERATOR, PATH, REVIEW, &[OutsideUnread]]),
    ("post", "/v1/reviews/{review}/approve", &[CALLED, OPERATOR, JSON, PATH, ENTERED, LOG, REVIEW, APPROVAL]),
    ("post", "/v1/reviews/{review}/refuse", &[CALLED, OPERATOR, JSON, PATH, ENTERED, REVIEW]),
    ("get", "/v1/claims", &[CALLED]),
    ("post", "/v1/claims", &[CALLED, AGENT, JSON, ENTERED, &[ClaimNotAllowed, ClaimHeld, TooManyClaims]]),
    ("post", "/v1/claims/{claim}/extend", &[CALLED, AGENT, JSON, PATH, ENTERED, &[ClaimNotFound]]),
    ("post", "/v1/claims/{claim}/withdraw", &[CALLED, AGENT, JSON, PATH, ENTERED, &[ClaimNotFound]]),
    ("get", "/v1/effects", &[CALLED, LOG]),
    ("get", "/v1/effects/{effect}", &[CALLED, PATH, LOG, &[EffectNotFound]]),
    ("post", "/v1/effects/{effect}/resolve", &[CALLED, OPERATOR, JSON, PATH, ENTERED, LOG, EFFECT]),
    ("get", "/v1/halts", &[CALLED]),
    ("post", "/v1/halts", &[CALLED, OPERATOR, JSON, ENTERED, &[TooManyHalts]]),
    ("post", "/v1/halts/resume", &[CALLED, OPERATOR, JSON, ENTERED, &[NotHalted]]),
    ("post", "/v1/clock/confirm", &[CALLED, OPERATOR, ENTERED, &[ClockSteady]]),
    ("post", "/v1/keys/log/rotate", &[CALLED, OPERATOR, JSON, ENTERED]),
    ("get", "/log/checkpoint", &[]),
    ("get", "/log/{path}", &[LOG, &[NotFound, BeyondLog]]),
    ("get", "/healthz", &[]),
    ("get", "/readyz", &[&[NotReady]]),
    ("get", "/metrics", &[CALLED]),
    ("get", "/openapi.json", &[]),
];

/// What comes along with an action.
const ACTION: &[ErrorCode] =
    &[ObservationRefused, DelegationRefused, UnknownAgent, NotAllowed, TrustTooLow, UnknownPact, UnknownAction];

/// What keeps a fact from being written.
const FEED: &[ErrorCode] = &[InvalidHeader, KeyInUse, LastAdmin, FeedFenced, VersionMismatch];

/// A review that is not there, or over.
const REVIEW: &[ErrorCode] = &[SelfApproval, ReviewNotFound, ReviewClosed, ReviewExpired];

/// An approval of something else than there is now.
const APPROVAL: &[ErrorCode] = &[ShownRefused, ApprovalVoid, ApprovalExpired];

/// An effect that is not there, or not in doubt.
const EFFECT: &[ErrorCode] = &[EffectNotFound, EffectEnded, EffectNotInDoubt];

/// What an operation answers with beside success; `None` where there is no such operation. Paths are as the router or as the
/// document writes them.
pub fn errors_of(method: &str, path: &str) -> Option<Vec<ErrorCode>> {
    let path = path.replace("{*", "{");
    let is_it = |row: &&Row| row.0.eq_ignore_ascii_case(method) && row.1 == path;
    let (_, _, groups) = ROWS.iter().find(is_it)?;
    let mut codes: Vec<ErrorCode> = ANY.iter().chain(groups.iter().copied().flatten()).copied().collect();
    codes.sort_unstable();
    codes.dedup();
    Some(codes)
}

/// Every operation that has a row, as method and path.
pub fn operations() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter().map(|(method, path, _)| (*method, *path))
}

/// Adds to each operation its errors, one response for each status. Those that several share are written once.
pub(super) fn list(document: &mut OpenApi) {
    let mut shared: BTreeMap<String, RefOr<Response>> = BTreeMap::new();
    for (path, item) in &mut document.paths.paths {
        let operations =
            [("get", &mut item.get), ("put", &mut item.put), ("post", &mut item.post), ("delete", &mut item.delete)];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
            for code in errors_of(method, path).unwrap_or_default() {
                by_status.entry(code.status()).or_default().push(code);
            }
            for (status, codes) in by_status {
                let name = name(status, &codes);
                operation.responses.responses.insert(status.to_string(), Ref::from_response_name(&name).into());
                shared.insert(name, response(status, &codes).into());
            }
        }
    }
    document.components.get_or_insert_with(Components::new).responses = shared;
}

/// A name that says what is in it, and is the same for the same codes.
fn name(status: u16, codes: &[ErrorCode]) -> String {
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    format!("{status}.{}", names.join("."))
}

fn response(status: u16, codes: &[ErrorCode]) -> Response {
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let code = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names.iter().copied()));
    let error = ObjectBuilder::new().property("code", code);
    let body = AllOfBuilder::new()
        .item(Ref::from_schema_name(ErrorBody::name()))
        .item(ObjectBuilder::new().schema_type(Type::Object).property("error", error));
    let content = ContentBuilder::new().schema(Some(body)).build();
    let described = format!("Refused: `{}`", names.join("`, `"));
    let mut response = ResponseBuilder::new().description(described).content("application/json", content);
    if status == 503 || status == 429 {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
        let header = HeaderBuilder::new().schema(Some(seconds)).description(Some(
            "After how many seconds it is worth trying again; absent where only a person can change it",
        ));
        response = response.header("Retry-After", header.build());
    }
    response.build()
}
