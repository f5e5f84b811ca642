//! Every error code, at least once, and in one shape.

use super::*;
use crate::http::error::HttpError;
use axum::response::IntoResponse as _;
use countersign_api::ErrorCode;
use countersign_core::record::Kind;
use std::collections::BTreeSet;

/// One request and the error it gets.
struct Row {
    code: ErrorCode,
    method: &'static str,
    path: String,
    headers: Vec<&'static str>,
    body: Vec<u8>,
}

fn row(code: ErrorCode, method: &'static str, path: &str, headers: &[&'static str], body: impl Into<Vec<u8>>) -> Row {
    Row { code, method, path: path.to_owned(), headers: headers.to_vec(), body: body.into() }
}

/// Codes that take an identified gate, a fault of disk, clock or program, or a caller that stops halfway; each has its own
/// test.
const ELSEWHERE: &[ErrorCode] = &[
    ErrorCode::ReadingRefused,
    ErrorCode::SignatureMissing,
    ErrorCode::SignatureMalformed,
    ErrorCode::SignatureIncomplete,
    ErrorCode::SignatureTag,
    ErrorCode::SignatureAlgorithm,
    ErrorCode::SignatureExpired,
    ErrorCode::SignatureInvalid,
    ErrorCode::SignatureReplayed,
    ErrorCode::KeyUnknown,
    ErrorCode::DigestMismatch,
    ErrorCode::NotAuthorised,
    ErrorCode::AgentNotActive,
    ErrorCode::CertificateRefused,
    ErrorCode::CertificateMismatch,
    ErrorCode::TrustTooLow,
    ErrorCode::RateLimited,
    ErrorCode::TooManyKeys,
    ErrorCode::BadRequest,
    ErrorCode::BodyTimeout,
    ErrorCode::InternalError,
    ErrorCode::KeyInUse,
    ErrorCode::TooManyHalts,
    ErrorCode::ClaimHeld,
    ErrorCode::TooManyClaims,
    ErrorCode::FeedFenced,
    ErrorCode::EffectEnded,
    ErrorCode::EffectNotInDoubt,
    ErrorCode::ExternalUnread,
    ErrorCode::NoAdapter,
    ErrorCode::ReviewClosed,
    ErrorCode::ReviewExpired,
    ErrorCode::ApprovalVoid,
    ErrorCode::ApprovalExpired,
    ErrorCode::SelfApproval,
    ErrorCode::LogUnreadable,
    ErrorCode::Busy,
    ErrorCode::ShuttingDown,
    ErrorCode::LedgerFailed,
    ErrorCode::NotReady,
    ErrorCode::ActionsMismatch,
];

const JSON: &str = "Content-Type: application/json";
const AGENT: &str = "Countersign-Agent: refund-1";

fn actions(stolen: &str) -> Vec<Row> {
    use ErrorCode as Code;
    let post = |code, body: String| row(code, "POST", "/v1/actions", &[JSON, AGENT], body);
    let batch =
        |code, query: &str, body: String| row(code, "POST", &format!("/v1/actions/batch{query}"), &[JSON, AGENT], body);
    let deep = format!("{}1{}", "{\"a\":".repeat(17), "}".repeat(17));
    let mut long = refund("long", 1, &[]);
    long.push_str(&" ".repeat(256 * 1024));
    let chunked = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    vec![
        row(Code::AgentMissing, "POST", "/v1/actions", &[JSON], refund("x", 1, &[])),
        row(Code::AgentMissing, "POST", "/v1/actions/check", &[JSON], refund("x", 1, &[])),
        row(Code::AgentMissing, "POST", "/v1/observe", &[JSON], "{}"),
        row(Code::AgentInvalid, "POST", "/v1/actions", &[JSON, AGENT, AGENT], refund("x", 1, &[])),
        row(Code::AgentInvalid, "POST", "/v1/actions", &[JSON, "Countersign-Agent: countersign"], refund("x", 1, &[])),
        row(Code::AgentInvalid, "POST", "/v1/actions", &[JSON, "Countersign-Agent:"], refund("x", 1, &[])),
        row(Code::AgentInvalid, "PUT", "/v1/facts/Account/42", &[JSON, "Countersign-Agent: e\u{301}"], "{}"),
        row(Code::InvalidUtf8, "POST", "/v1/actions", &[JSON, AGENT], b"{\"pact\": \"\xff\"}".to_vec()),
        post(Code::InvalidJson, "{".to_owned()),
        post(Code::InvalidJson, String::new()),
        post(Code::InvalidJson, "[]".to_owned()),
        post(Code::InvalidJson, deep),
        post(Code::InvalidJson, refund("x", 1, &[]).replace("\"amount\":1", "\"amount\":1,\"amount\":2")),
        post(Code::InvalidJson, refund("x", 1, &[]).replace("\"amount\":1", "\"amount\":1e99")),
        post(Code::InvalidJson, refund("x", 1, &[]).replace("\"amount\":1", "\"amount\":9007199254740993")),
        post(Code::UnknownField, refund("x", 1, &[]).replace("\"observations\"", "\"observation\"")),
        row(Code::UnknownField, "POST", "/v1/observe", &[JSON, AGENT], r#"{"facts":["A::\"1\""],"as":"x"}"#),
        row(Code::UnknownField, "PUT", "/v1/facts/Account/42", &[JSON], r#"{"value":{},"version":1}"#),
        post(Code::InvalidField, refund("x", 1, &[]).replace("\"pact\":\"billing\"", "\"pact\":7")),
        post(Code::InvalidField, refund("x", 1, &[]).replace(&format!("{:0>32}", "x"), "short")),
        row(Code::InvalidField, "POST", "/v1/observe", &[JSON, AGENT], r#"{"facts":[]}"#),
        row(Code::InvalidField, "POST", "/v1/observe", &[JSON, AGENT], r#"{"facts":["Account::42"]}"#),
        row(Code::InvalidField, "POST", "/v1/observe", &[JSON, AGENT], r#"{"facts":["A::\"1\"","A::\"1\""]}"#),
        row(Code::NotObservable, "POST", "/v1/observe", &[JSON, AGENT], r#"{"facts":["Account::\"42\"","A::\"1\""]}"#),
        row(Code::InvalidField, "POST", "/v1/ledger/erasures", &[JSON], r#"{"entries":[1]}"#),
        row(Code::InvalidField, "POST", "/v1/ledger/erasures", &[JSON], r#"{"reason":"x"}"#),
        row(Code::InvalidField, "POST", "/v1/ledger/erasures", &[JSON], r#"{"entries":[-1],"reason":"x"}"#),
        post(Code::ObservationRefused, refund("x", 1, &["obs1.AAAA"])),
        post(Code::ObservationRefused, refund("x", 1, &[stolen])),
        post(
            Code::DelegationRefused,
            refund("x", 1, &[]).replace("\"observations\"", "\"delegation\":\"dlg1.AAAA\",\"observations\""),
        ),
        post(Code::InvalidField, refund("x", 1, &[]).replace("\"observations\"", "\"delegation\":7,\"observations\"")),
        row(Code::BodyTooLarge, "POST", "/v1/actions", &[JSON, AGENT], long),
        row(Code::BodyTooLarge, "POST", "/v1/actions", &[JSON, AGENT, "Transfer-Encoding: chunked"], chunked),
        row(
            Code::UnsupportedMediaType,
            "POST",
            "/v1/actions",
            &[AGENT, "Content-Type: text/plain"],
            refund("x", 1, &[]),
        ),
        row(Code::UnsupportedMediaType, "POST", "/v1/actions", &[AGENT], refund("x", 1, &[])),
        row(Code::UnsupportedMediaType, "POST", "/v1/pacts", &[JSON], PACT),
        post(Code::IdempotencyKeyReused, refund("used", 2, &[])),
        batch(Code::InvalidJson, "", "{}".to_owned()),
        batch(Code::InvalidPath, "?atomic=yes", "[]".to_owned()),
        batch(Code::InvalidPath, "?wait_ms=60001", "[]".to_owned()),
        batch(Code::BatchSize, "", "[]".to_owned()),
        batch(Code::BatchSize, "", format!("[{}1]", "1,".repeat(256))),
        batch(Code::BatchSize, "?atomic=true", format!("[{}1]", "1,".repeat(32))),
        batch(Code::InvalidField, "?atomic=true", format!("[{0},{0}]", refund("x", 1, &[]))),
        batch(Code::InvalidJson, "?atomic=true", format!("[{},7]", refund("x", 1, &[]))),
        batch(Code::BodyTooLarge, "", format!("[{}]", " ".repeat(1 << 20))),
        batch(Code::GroupRepeats, "?atomic=true", format!("[{},{}]", refund("used", -1, &[]), refund("x", 1, &[]))),
        batch(Code::IdempotencyKeyReused, "?atomic=true", format!("[{}]", refund("used", 2, &[]))),
        row(
            Code::CrossOrigin,
            "POST",
            "/v1/actions",
            &[JSON, AGENT, "Origin: https://evil.example"],
            refund("x", 1, &[]),
        ),
        row(Code::CrossOrigin, "GET", "/v1/pacts", &["Origin: null"], ""),
        row(Code::WrongHost, "GET", "/v1/pacts", &["Host: evil.example"], ""),
    ]
}

fn resources() -> Vec<Row> {
    use ErrorCode as Code;
    let get = |code, path: &str| row(code, "GET", path, &[], "");
    let put =
        |code, path: &str, headers: &[&'static str], body: Value| row(code, "PUT", path, headers, body.to_string());
    let erase = |code, body: Value| row(code, "POST", "/v1/ledger/erasures", &[JSON], body.to_string());
    let toml = |code, text: String| row(code, "POST", "/v1/pacts", &["Content-Type: application/toml"], text);
    vec![
        get(Code::InvalidPath, "/v1/facts/Account/%FF"),
        get(Code::InvalidPath, "/v1/facts/Acc%20ount/42"),
        get(Code::InvalidPath, "/v1/facts/Account/%00"),
        get(Code::InvalidPath, "/v1/ledger/entries?from=1"),
        get(Code::InvalidPath, "/v1/ledger/entries?start=-1"),
        get(Code::InvalidPath, "/v1/ledger/entries/x"),
        get(Code::InvalidPath, "/v1/ledger/consistency"),
        put(Code::InvalidHeader, "/v1/facts/Account/42", &[JSON, "If-Match: 1"], account("active", 1)),
        put(Code::InvalidHeader, "/v1/facts/Account/42", &[JSON, "If-Match: *"], account("active", 1)),
        put(Code::InvalidHeader, "/v1/facts/Account/42", &[JSON, "If-Match: \"+1\""], account("active", 1)),
        get(Code::NotFound, "/v2/actions"),
        get(Code::NotFound, "/log/tile/0/0"),
        get(Code::NotFound, "/log/tile/0/%30%30%30"),
        get(Code::NotFound, "/log/../v1/pacts"),
        get(Code::FactNotFound, "/v1/facts/Account/43"),
        get(Code::FactNotFound, "/v1/facts/Account/43/history"),
        row(Code::FactNotFound, "DELETE", "/v1/facts/Account/43", &[], ""),
        get(Code::PactNotFound, "/v1/pacts/trading"),
        get(Code::BeyondLog, "/v1/ledger/entries/999"),
        get(Code::BeyondLog, "/v1/ledger/receipts/999"),
        get(Code::BeyondLog, "/v1/ledger/consistency?old=999"),
        get(Code::BeyondLog, "/v1/ledger/consistency?old=0"),
        get(Code::BeyondLog, "/log/tile/0/000"),
        get(Code::BeyondLog, "/log/tile/63/000"),
        row(Code::MethodNotAllowed, "GET", "/v1/actions", &[], ""),
        row(Code::MethodNotAllowed, "DELETE", "/v1/ledger/entries/0", &[], ""),
        put(Code::VersionMismatch, "/v1/facts/Account/42", &[JSON, "If-Match: \"7\""], account("active", 1)),
        put(Code::UnknownFactType, "/v1/facts/Acount/42", &[JSON], account("active", 1)),
        put(Code::InvalidValue, "/v1/facts/Account/42", &[JSON], json!({"value": {"status": "active"}})),
        put(Code::InvalidValue, "/v1/facts/Account/42", &[JSON], json!({"value": {"status": "a", "balance": "1"}})),
        put(
            Code::InvalidValue,
            "/v1/facts/Account/42",
            &[JSON],
            json!({"value": {"status": "a", "balance": 1, "note": "x".repeat(17 * 1024)}}),
        ),
        put(Code::InvalidField, "/v1/facts/Account/42", &[JSON], json!({"value": 1})),
        row(
            Code::SessionNotFound,
            "POST",
            "/v1/sessions/ses_9/readings",
            &["Content-Type: application/json", "Countersign-Agent: refund-1"],
            r#"{"upstream":"bank","tool":"get_account"}"#,
        ),
        row(
            Code::SessionNotFound,
            "POST",
            "/v1/sessions/ses_09/close",
            &["Content-Type: application/json", "Countersign-Agent: refund-1"],
            "{}",
        ),
        row(Code::ReviewNotFound, "GET", "/v1/reviews/rev_999", &[], ""),
        row(Code::ReviewNotFound, "GET", "/v1/reviews/rev_007", &[], ""),
        row(Code::ShownRefused, "POST", "/v1/reviews/rev_1/approve", &[JSON], r#"{"shown":"rvw1.AAAA"}"#),
        row(Code::NotHalted, "POST", "/v1/halts/resume", &[JSON], r#"{"scope":"all","reason":"x"}"#),
        put(
            Code::LastAdmin,
            "/v1/facts/Operator/jo",
            &[JSON],
            json!({"value": {
                "key": "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK", "roles": [], "standing": "active",
            }}),
        ),
        toml(Code::PactInvalid, "pact = 1".to_owned()),
        toml(Code::PactConflict, PACT.to_owned()),
        toml(Code::PactConflict, PACT.replace("version = 1", "version = 3")),
        toml(Code::BodyTooLarge, "#".repeat(256 * 1024 + 1)),
        erase(Code::EntryInForce, json!({"entries": [3], "reason": "x"})),
        erase(Code::NotErasable, json!({"entries": [0], "reason": "x"})),
        erase(Code::BeyondLog, json!({"entries": [999], "reason": "x"})),
        row(Code::ClockSteady, "POST", "/v1/clock/confirm", &[], ""),
        row(
            Code::ClaimNotAllowed,
            "POST",
            "/v1/claims",
            &["Content-Type: application/json", "Countersign-Agent: refund-1"],
            r#"{"facts":["Account::\"42\""],"for_ms":5,"reason":"x"}"#,
        ),
        row(
            Code::ClaimNotFound,
            "POST",
            "/v1/claims/clm_9/withdraw",
            &["Content-Type: application/json", "Countersign-Agent: refund-1"],
            "{}",
        ),
        row(
            Code::UnknownAgent,
            "POST",
            "/v1/actions",
            &["Content-Type: application/json", "Countersign-Agent: stranger"],
            r#"{"pact":"billing","action":"refund","idempotency_key":"0000000000000000000000","params":{}}"#,
        ),
        row(
            Code::UnknownPact,
            "POST",
            "/v1/actions",
            &["Content-Type: application/json", "Countersign-Agent: refund-1"],
            r#"{"pact":"biling","action":"refund","idempotency_key":"0000000000000000000000","params":{}}"#,
        ),
        row(
            Code::UnknownAction,
            "POST",
            "/v1/actions",
            &["Content-Type: application/json", "Countersign-Agent: refund-1"],
            r#"{"pact":"billing","action":"rob","idempotency_key":"0000000000000000000000","params":{}}"#,
        ),
        row(
            Code::NotAllowed,
            "POST",
            "/v1/actions/check",
            &["Content-Type: application/json", "Countersign-Agent: clerk"],
            r#"{"pact":"billing","action":"refund","idempotency_key":"0000000000000000000000","params":{}}"#,
        ),
        row(Code::ActionNotFound, "GET", "/v1/actions/1", &["Countersign-Agent: refund-1"], ""),
        row(Code::ActionNotFound, "GET", "/v1/actions/999", &["Countersign-Agent: refund-1"], ""),
        row(Code::InvalidPath, "GET", "/v1/actions/first", &["Countersign-Agent: refund-1"], ""),
        row(Code::EffectNotFound, "GET", "/v1/effects/eff_9", &[], ""),
        row(Code::EffectNotFound, "GET", "/v1/effects/eff_09", &[], ""),
        row(Code::InvalidPath, "GET", "/v1/effects/eff_9?wait_ms=60001", &[], ""),
    ]
}

#[test]
fn every_error_has_one_shape_and_leaves_nothing() {
    let server = furnished();
    let agent = json!({"value": {"roles": ["refunder"], "standing": "active", "org": "evil", "trust": 1}});
    assert_eq!(server.put("/v1/facts/Agent/mallory", &agent).status, 200);
    let clerk = json!({"value": {"roles": ["clerk"], "standing": "active", "org": "acme", "trust": 1}});
    assert_eq!(server.put("/v1/facts/Agent/clerk", &clerk).status, 200);
    let other = ["Content-Type: application/json", "Countersign-Agent: mallory"];
    let stolen = server.send("POST", "/v1/observe", &other, br#"{"facts":["Account::\"42\""]}"#).json();
    let used = server.post("/v1/actions", &refund("used", -1, &[])).json()["entry"].as_u64().unwrap();
    let position = server.gate.view().position;
    let mut met: BTreeSet<ErrorCode> = ELSEWHERE.iter().copied().collect();
    for Row { code, method, path, headers, body } in
        actions(stolen["observation"].as_str().unwrap()).into_iter().chain(resources())
    {
        let reply = server.send(method, &path, &headers, &body);
        assert_error(&reply, code.status(), code.as_str());
        if code == ErrorCode::MethodNotAllowed {
            assert!(reply.header("allow").is_some(), "{reply:?}");
        }
        // The entry that is in the way is there as a number; no one has to look for it in the message.
        let is_in_the_way = matches!(code, ErrorCode::IdempotencyKeyReused | ErrorCode::GroupRepeats);
        let entry = is_in_the_way.then_some(used);
        assert_eq!(reply.json()["error"]["entry"].as_u64(), entry, "{reply:?}");
        met.insert(code);
    }
    assert_eq!(met, ErrorCode::ALL.iter().copied().collect());
    // Those that were denied for want of a right are counted, and nothing else is written down.
    for index in position..server.gate.view().position {
        let entry = server.gate.read_log(index).unwrap().decode().unwrap();
        assert_eq!(entry.event.kind(), Kind::Denials, "{entry:?}");
    }
}

#[test]
fn request_ids_are_kept_if_they_are_fit_and_made_if_not() {
    let server = Server::start();
    let id = |given: &str| server.send("GET", "/healthz", &[given], b"").header("x-request-id").unwrap().to_owned();
    assert_eq!(id("X-Request-Id: trace-7.a_b"), "trace-7.a_b");
    let made = id("X-Request-Id: a b");
    assert!(made.len() == 17 && made != id("X-Other: 1"), "{made}");
    let long = format!("X-Request-Id: {}", "x".repeat(65));
    assert_eq!(id(&long).len(), 17);
}

#[test]
fn a_page_of_the_gate_itself_may_call_it() {
    let server = Server::start();
    let origin = format!("Origin: http://{}", server.addr);
    assert_eq!(server.send("GET", "/healthz", &[&origin], b"").status, 200);
}

#[test]
fn what_cannot_be_provoked_is_translated_all_the_same() {
    let refusal = countersign_engine::request::Refusal::Closed;
    let response = HttpError::from(refusal).into_response();
    assert_eq!(response.status(), ErrorCode::ShuttingDown.status());
    assert_eq!(response.extensions().get::<HttpError>().unwrap().code, ErrorCode::ShuttingDown);
}
