//! Every operation with every kind of caller, against a table of its own: what the guard works from is not asked here.

use super::signed::*;
use super::*;
use std::collections::BTreeSet;

/// The callers, with the byte of their key; no one has none.
const CALLERS: [(&str, Option<u8>); 9] = [
    ("nobody", None),
    ("agent", Some(AGENT)),
    ("publisher", Some(31)),
    ("feeder", Some(32)),
    ("reviewer", Some(33)),
    ("auditor", Some(34)),
    ("admin", Some(35)),
    ("revoked", Some(36)),
    ("unknown", Some(66)),
];

const ROLES: [&str; 5] = ["publisher", "feeder", "reviewer", "auditor", "admin"];
const EVERYBODY: &str = "nobody agent publisher feeder reviewer auditor admin revoked unknown";
const KNOWN: &str = "agent publisher feeder reviewer auditor admin";

/// Method, path as the document has it, path as it is called, and who is let through.
const EXPECTED: &[(&str, &str, &str, &str)] = &[
    ("POST", "/v1/observe", "/v1/observe", "agent"),
    ("POST", "/v1/actions", "/v1/actions", "agent"),
    ("POST", "/v1/actions/batch", "/v1/actions/batch", "agent"),
    ("POST", "/v1/actions/check", "/v1/actions/check", "agent"),
    ("GET", "/v1/actions/{entry}", "/v1/actions/1", "agent"),
    ("GET", "/v1/facts/{type}", "/v1/facts/Account", "feeder auditor admin"),
    ("GET", "/v1/facts/{type}/{id}", "/v1/facts/Account/42", "feeder auditor admin"),
    ("GET", "/v1/facts/{type}/{id}", "/v1/facts/Agent/refund-1", "feeder auditor admin"),
    ("PUT", "/v1/facts/{type}/{id}", "/v1/facts/Account/42", "feeder"),
    ("PUT", "/v1/facts/{type}/{id}", "/v1/facts/Agent/refund-1", "admin"),
    ("PUT", "/v1/facts/{type}/{id}", "/v1/facts/%41gent/refund-1", "admin"),
    ("PUT", "/v1/facts/{type}/{id}", "/v1/facts/Operator/new", "admin"),
    ("PUT", "/v1/facts/{type}/{id}", "/v1/facts/McpTool/shop%2Fsell", "admin"),
    ("DELETE", "/v1/facts/{type}/{id}", "/v1/facts/McpShadow/shop", "admin"),
    ("DELETE", "/v1/facts/{type}/{id}", "/v1/facts/Account/none", "feeder"),
    ("DELETE", "/v1/facts/{type}/{id}", "/v1/facts/Operator/none", "admin"),
    ("POST", "/v1/facts/{type}/{id}/confirm", "/v1/facts/Account/42/confirm", "feeder"),
    ("POST", "/v1/facts/{type}/{id}/confirm", "/v1/facts/Agent/refund-1/confirm", "admin"),
    ("GET", "/v1/facts/{type}/{id}/history", "/v1/facts/Account/42/history", "feeder auditor admin"),
    ("GET", "/v1/agents", "/v1/agents", "auditor admin"),
    ("GET", "/v1/agents/unused", "/v1/agents/unused", "auditor admin"),
    ("GET", "/v1/operators", "/v1/operators", "auditor admin"),
    ("GET", "/v1/claims", "/v1/claims", KNOWN),
    ("POST", "/v1/claims", "/v1/claims", "agent"),
    ("POST", "/v1/claims/{claim}/extend", "/v1/claims/clm_1/extend", "agent"),
    ("POST", "/v1/claims/{claim}/withdraw", "/v1/claims/clm_1/withdraw", "agent"),
    ("POST", "/v1/sessions", "/v1/sessions", "agent"),
    ("POST", "/v1/sessions/{session}/close", "/v1/sessions/ses_1/close", "agent"),
    ("POST", "/v1/sessions/{session}/readings", "/v1/sessions/ses_1/readings", "agent"),
    ("GET", "/v1/effects", "/v1/effects", "agent reviewer auditor admin"),
    ("GET", "/v1/effects/{effect}", "/v1/effects/eff_1", "agent reviewer auditor admin"),
    ("POST", "/v1/effects/{effect}/resolve", "/v1/effects/eff_1/resolve", "reviewer"),
    ("GET", "/v1/halts", "/v1/halts", "auditor admin"),
    ("POST", "/v1/halts", "/v1/halts", "admin"),
    ("POST", "/v1/halts/resume", "/v1/halts/resume", "admin"),
    ("GET", "/v1/reviews", "/v1/reviews", "reviewer auditor"),
    ("GET", "/v1/reviews/{review}", "/v1/reviews/rev_1", "reviewer"),
    ("POST", "/v1/reviews/{review}/approve", "/v1/reviews/rev_1/approve", "reviewer"),
    ("POST", "/v1/reviews/{review}/refuse", "/v1/reviews/rev_1/refuse", "reviewer"),
    ("GET", "/v1/caller", "/v1/caller", KNOWN),
    ("GET", "/v1/pacts", "/v1/pacts", KNOWN),
    ("GET", "/v1/pacts/{name}", "/v1/pacts/billing", KNOWN),
    ("POST", "/v1/pacts", "/v1/pacts", "publisher"),
    ("POST", "/v1/check/pact", "/v1/check/pact", "publisher auditor"),
    ("GET", "/v1/ledger/entries", "/v1/ledger/entries?start=0", "auditor"),
    ("GET", "/v1/ledger/entries/{index}", "/v1/ledger/entries/0", "auditor"),
    ("GET", "/v1/ledger/receipts/{index}", "/v1/ledger/receipts/0", "auditor"),
    ("GET", "/v1/ledger/consistency", "/v1/ledger/consistency?old=1", EVERYBODY),
    ("POST", "/v1/ledger/erasures", "/v1/ledger/erasures", "admin"),
    ("POST", "/v1/clock/confirm", "/v1/clock/confirm", "admin"),
    ("POST", "/v1/keys/log/rotate", "/v1/keys/log/rotate", "admin"),
    ("GET", "/log/checkpoint", "/log/checkpoint", EVERYBODY),
    ("GET", "/log/{path}", "/log/tile/entries/000.p/1", EVERYBODY),
    ("GET", "/healthz", "/healthz", EVERYBODY),
    ("GET", "/readyz", "/readyz", EVERYBODY),
    ("GET", "/metrics", "/metrics", EVERYBODY),
    ("GET", "/openapi.json", "/openapi.json", EVERYBODY),
];

/// A gate with one operator for each role, and one that had them all.
fn staffed() -> Server {
    let server = identified();
    for (role, by) in CALLERS.iter().filter(|(role, _)| ROLES.contains(role)) {
        let value = json!({"value": {"key": name(by.unwrap()).as_str(), "roles": [role], "standing": "active"}});
        assert_eq!(put(&server, ADMIN, &format!("/v1/facts/Operator/the-{role}"), &value).status, 200);
    }
    let value = json!({"value": {"key": name(36).as_str(), "roles": ROLES, "standing": "revoked"}});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Operator/revoked", &value).status, 200);
    server
}

/// Calls with a body that is refused once the caller is let through, so that nothing changes between two calls.
fn call(server: &Server, by: Option<u8>, method: &str, target: &str) -> Reply {
    let body = if matches!(method, "POST" | "PUT") { "{}" } else { "" };
    let fields: &[&str] = if body.is_empty() { &[] } else { &[JSON] };
    match by {
        Some(by) => send(server, by, method, target, fields, body),
        None => server.send(method, target, fields, body.as_bytes()),
    }
}

#[test]
fn every_operation_takes_the_callers_it_should_and_no_others() {
    let server = staffed();
    for (method, _, target, allowed) in EXPECTED {
        for (caller, by) in CALLERS {
            let reply = call(&server, by, method, target);
            let what = format!("{caller}: {method} {target}: {reply:?}");
            if allowed.split(' ').any(|allowed| allowed == caller) {
                assert!(!matches!(reply.status, 401 | 403), "{what}");
                continue;
            }
            let (status, code) = match caller {
                "nobody" => (401, "signature_missing"),
                "unknown" => (401, "key_unknown"),
                _ => (403, "not_authorised"),
            };
            assert_eq!((reply.status, reply.json()["error"]["code"].as_str().unwrap()), (status, code), "{what}");
        }
    }
}

#[test]
fn every_operation_of_the_document_is_in_the_table() {
    let document = serde_json::from_str::<Value>(countersign_api::DOCUMENT).unwrap();
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in
            item.as_object().unwrap().keys().filter(|key| ["get", "put", "post", "delete"].contains(&key.as_str()))
        {
            documented.insert((method.to_uppercase(), path.clone()));
        }
    }
    let expected: BTreeSet<_> =
        EXPECTED.iter().map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented, expected);
}

#[test]
fn an_agent_gets_its_own_receipts_and_no_others() {
    let server = identified();
    let entry = post(&server, AGENT, "/v1/actions", &refund("own", 1, &[])).json()["entry"].clone();
    let own = send(&server, AGENT, "GET", &format!("/v1/ledger/receipts/{entry}"), &[], "");
    assert_eq!(own.status, 200, "{own:?}");
    assert_error(&send(&server, AGENT, "GET", "/v1/ledger/receipts/1", &[], ""), 403, "not_authorised");
}

#[test]
fn a_role_that_is_given_or_taken_counts_at_once() {
    let server = staffed();
    let publisher = |roles: &[&str]| json!({"value": {"key": name(31).as_str(), "roles": roles, "standing": "active"}});
    assert_error(&call(&server, Some(31), "GET", "/v1/agents"), 403, "not_authorised");
    assert_eq!(
        put(&server, ADMIN, "/v1/facts/Operator/the-publisher", &publisher(&["publisher", "auditor"])).status,
        200
    );
    assert_eq!(call(&server, Some(31), "GET", "/v1/agents").status, 200);
    assert_eq!(put(&server, ADMIN, "/v1/facts/Operator/the-publisher", &publisher(&["publisher"])).status, 200);
    assert_error(&call(&server, Some(31), "GET", "/v1/agents"), 403, "not_authorised");
}

#[test]
fn a_method_that_a_path_does_not_take_is_refused_before_anybody_is_asked_for() {
    let server = identified();
    let reply = server.send("DELETE", "/v1/pacts", &[], b"");
    assert_error(&reply, 405, "method_not_allowed");
    assert_eq!(reply.header("allow"), Some("GET,HEAD,POST"));
    assert_error(&server.get("/panic"), 405, "method_not_allowed");
    assert_error(&server.get("/nowhere"), 404, "not_found");
}
