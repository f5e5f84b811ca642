//! What someone does who is not who they say, or who alters, repeats or saves up what others signed. Each attack ends with
//! its own code, leaves no entry, and is counted.

use super::signed::*;
use super::*;
use countersign_core::record::Kind;
use countersign_engine::gate::{IDLE_SESSION_MS, IDLE_SESSIONS_MAX};
use countersign_signature::{Headers, sign};
use std::time::Instant;

const BODY_PATH: &str = "/v1/actions";

fn good(server: &Server, body: &str) -> Headers {
    let authority = server.addr.to_string();
    sign(&key(AGENT), &signable("POST", BODY_PATH, &authority, body), ORIGIN, now_s(), &nonce()).unwrap()
}

fn attack(server: &Server, headers: &Headers, body: &str, code: &str) {
    let before = server.gate.view().position;
    assert_error(&send_with(server, "POST", BODY_PATH, &[JSON], headers, body), 401, code);
    assert_eq!(server.gate.view().position, before, "{code} left an entry");
    let metrics = server.get("/metrics");
    assert!(
        metrics.text().contains(&format!("countersign_http_errors_total{{code=\"{code}\"}}")),
        "{code} is not counted"
    );
}

fn forged(server: &Server, covered: &[&str], parameters: &str, code: &str) {
    let (authority, body) = (server.addr.to_string(), refund("forged", 1, &[]));
    let headers = forge(AGENT, &signable("POST", BODY_PATH, &authority, &body), covered, parameters);
    attack(server, &headers, &body, code);
}

#[test]
fn what_an_agent_signs_is_decided_and_kept_with_its_signature() {
    let server = identified();
    let reply = post(&server, AGENT, BODY_PATH, &refund("good", 100, &[]));
    assert_eq!(reply.json()["verdict"], "committed", "{reply:?}");
    let entry = reply.json()["entry"].as_u64().unwrap();
    let shown = send(&server, ADMIN, "GET", &format!("/v1/ledger/entries/{entry}"), &[], "").json();
    assert_eq!(shown["leaf"]["auth"], "signature");
    assert_eq!(shown["leaf"]["by"], "refund-1");
    assert!(shown["payload"].to_string().contains(name(AGENT).as_str()), "{shown}");
}

#[test]
fn a_stolen_name_without_the_key_is_worth_nothing() {
    let server = identified();
    let body = refund("stolen", 1, &[]);
    let named = server.send("POST", BODY_PATH, &[JSON, "Countersign-Agent: refund-1"], body.as_bytes());
    assert_error(&named, 401, "signature_missing");
    let authority = server.addr.to_string();
    // Signed by a key of the thief, under the name of the agent's.
    let parameters = parameters(AGENT, now_s());
    let headers = forge(66, &signable("POST", BODY_PATH, &authority, &body), &ALL, &parameters);
    attack(&server, &headers, &body, "signature_invalid");
}

#[test]
fn a_key_that_nobody_registered_is_unknown() {
    let server = identified();
    let (authority, body) = (server.addr.to_string(), refund("unknown", 1, &[]));
    let headers = sign(&key(66), &signable("POST", BODY_PATH, &authority, &body), ORIGIN, now_s(), &nonce()).unwrap();
    attack(&server, &headers, &body, "key_unknown");
}

#[test]
fn an_altered_body_does_not_fit_the_old_signature() {
    let server = identified();
    let (body, altered) = (refund("altered", 1, &[]), refund("altered", 100_000, &[]));
    let headers = good(&server, &body);
    attack(&server, &headers, &altered, "digest_mismatch");
    let digest = countersign_signature::content_digest(altered.as_bytes());
    let headers = Headers { content_digest: Some(digest), ..good(&server, &body) };
    attack(&server, &headers, &altered, "signature_invalid");
    let headers = Headers { content_digest: None, ..good(&server, &body) };
    attack(&server, &headers, &body, "signature_incomplete");
}

#[test]
fn an_altered_path_query_method_or_host_does_not_fit_the_old_signature() {
    let server = identified();
    let body = refund("moved", 1, &[]);
    let moved = send_with(&server, "POST", "/v1/actions/check", &[JSON], &good(&server, &body), &body);
    assert_error(&moved, 401, "signature_invalid");
    let method = send_with(&server, "PUT", "/v1/facts/Account/42", &[JSON], &good(&server, &body), &body);
    assert_error(&method, 401, "signature_invalid");
    let added = send_with(&server, "POST", "/v1/actions?dry=1", &[JSON], &good(&server, &body), &body);
    assert_error(&added, 401, "signature_incomplete");
    let authority = server.addr.to_string();
    let page = |start: u64| format!("/v1/ledger/entries?start={start}");
    let headers = sign(&key(ADMIN), &signable("GET", &page(0), &authority, ""), ORIGIN, now_s(), &nonce()).unwrap();
    assert_error(&send_with(&server, "GET", &page(1), &[], &headers, ""), 401, "signature_invalid");
    assert_error(
        &send_with(&server, "GET", &page(0), &["Host: other.example"], &headers, ""),
        401,
        "signature_invalid",
    );
    assert_eq!(send_with(&server, "GET", &page(0), &[], &headers, "").status, 200, "none of these spent the nonce");
}

#[test]
fn a_request_that_is_played_back_is_refused() {
    let server = identified();
    let body = refund("replayed", 1, &[]);
    let headers = good(&server, &body);
    assert_eq!(send_with(&server, "POST", BODY_PATH, &[JSON], &headers, &body).json()["verdict"], "committed");
    attack(&server, &headers, &body, "signature_replayed");
    let metrics = server.get("/metrics");
    assert!(metrics.text().contains("countersign_http_errors_total{code=\"signature_replayed\"} 1\n"));
    // Signed anew, the same action is told its verdict again.
    assert_eq!(post(&server, AGENT, BODY_PATH, &body).json()["verdict"], "committed");
}

#[test]
fn a_signature_over_less_than_everything_is_refused() {
    let server = identified();
    for missing in ALL {
        let covered: Vec<&str> = ALL.into_iter().filter(|name| *name != missing).collect();
        forged(&server, &covered, &parameters(AGENT, now_s()), "signature_incomplete");
    }
    let all = parameters(AGENT, now_s());
    for missing in ["created", "nonce", "keyid", "tag"] {
        let kept: Vec<&str> = all.split(';').filter(|part| !part.starts_with(&format!("{missing}="))).collect();
        forged(&server, &ALL, &kept.join(";"), "signature_incomplete");
    }
}

#[test]
fn another_algorithm_is_refused_whatever_it_says() {
    let server = identified();
    for algorithm in ["hmac-sha256", "rsa-pss-sha512", "ecdsa-p256-sha256", "none", "Ed25519", ""] {
        let parameters = format!("{};alg=\"{algorithm}\"", parameters(AGENT, now_s()));
        forged(&server, &ALL, &parameters, "signature_algorithm");
    }
}

#[test]
fn what_was_signed_for_another_gate_is_refused() {
    let server = identified();
    let parameters = parameters(AGENT, now_s()).replace(ORIGIN, "other.example/log");
    forged(&server, &ALL, &parameters, "signature_tag");
}

#[test]
fn what_is_too_old_or_from_the_future_is_refused() {
    let server = identified();
    forged(&server, &ALL, &parameters(AGENT, now_s() - 120), "signature_expired");
    forged(&server, &ALL, &parameters(AGENT, now_s() + 120), "signature_expired");
    let over = format!("{};expires={}", parameters(AGENT, now_s() - 5), now_s() - 1);
    forged(&server, &ALL, &over, "signature_expired");
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let server = identified();
    let body = refund("two", 1, &[]);
    let headers = good(&server, &body);
    let twice = Headers { input: format!("{0}, {0}", headers.input), ..headers.clone() };
    attack(&server, &twice, &body, "signature_malformed");
    let two = Headers {
        input: format!("{}, {}", headers.input, headers.input.replacen("sig1", "sig2", 1)),
        signature: format!("{}, {}", headers.signature, headers.signature.replacen("sig1", "sig2", 1)),
        ..headers.clone()
    };
    attack(&server, &two, &body, "signature_malformed");
    let again = format!("Signature: {}", headers.signature);
    let reply = send_with(&server, "POST", BODY_PATH, &[JSON, &again], &headers, &body);
    assert_error(&reply, 401, "signature_malformed");
    forged(&server, &ALL, &format!("{};nonce=\"{}\"", parameters(AGENT, now_s()), nonce()), "signature_malformed");
    forged(&server, &ALL, &parameters(AGENT, now_s()).replace("nonce-of-a-test", "n"), "signature_malformed");
}

#[test]
fn the_key_of_an_operator_does_not_act_and_that_of_an_agent_does_not_operate() {
    let server = identified();
    let acting = post(&server, ADMIN, BODY_PATH, &refund("operator", 1, &[]));
    assert_error(&acting, 403, "not_authorised");
    let feeding = put(&server, AGENT, "/v1/facts/Account/42", &account("active", 1));
    assert_error(&feeding, 403, "not_authorised");
    let raising = put(&server, AGENT, "/v1/facts/Agent/refund-1", &json!({"value": {}}));
    assert_error(&raising, 403, "not_authorised");
}

#[test]
fn a_revoked_agent_is_refused_at_the_door_and_shown_nothing() {
    let server = identified();
    let revoked = json!({"value": {
        "key": name(AGENT).as_str(), "roles": ["refunder"], "standing": "revoked", "org": "acme", "trust": 700,
    }});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/refund-1", &revoked).status, 200);
    let acting = post(&server, AGENT, BODY_PATH, &refund("revoked", 1, &[]));
    assert_error(&acting, 403, "agent_not_active");
    let observing = post(&server, AGENT, "/v1/observe", "{\"facts\":[\"Account::\\\"42\\\"\"]}");
    assert_error(&observing, 403, "agent_not_active");
}

#[test]
fn attack_an_agent_opens_sessions_without_end_and_uses_none() {
    let server = identified();
    let (began, first) = (Instant::now(), server.gate.view().position);
    let mut session = json!(null);
    let mut opened = 0;
    for number in 0..3 * IDLE_SESSIONS_MAX {
        // Going on in one is an entry just as well.
        let body = if number % 2 == 0 || session.is_null() { json!({}) } else { json!({"follows": session}) };
        let reply = post(&server, AGENT, "/v1/sessions", &body.to_string());
        if reply.status == 200 {
            opened += 1;
            session = reply.json()["session"].clone();
            continue;
        }
        assert_error(&reply, 429, "rate_limited");
        assert_eq!(reply.header("retry-after"), Some("10"));
    }
    let more = u64::try_from(began.elapsed().as_millis()).unwrap() / IDLE_SESSION_MS + 1;
    assert!(opened >= IDLE_SESSIONS_MAX, "{opened}");
    assert!(opened <= IDLE_SESSIONS_MAX + more, "{opened}");
    let kind = |index: u64| server.gate.read_log(index).unwrap().decode().unwrap().event.kind();
    let entered = (first..server.gate.view().position).map(kind).filter(|kind| *kind == Kind::Session).count();
    assert_eq!(entered as u64, opened);
    // Another agent opens its own.
    let other =
        json!({"value": {"key": name(21).as_str(), "roles": [], "standing": "active", "org": "acme", "trust": 1}});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/other-1", &other).status, 200);
    assert_eq!(post(&server, 21, "/v1/sessions", "{}").status, 200);
}

#[test]
fn what_a_query_says_and_the_operation_does_not_know_is_not_passed_over() {
    let server = identified();
    let before = server.gate.view().position;
    let erase = json!({"entries": [before - 1], "reason": "asked"}).to_string();
    for target in ["/v1/ledger/erasures?dry_run=true", "/v1/ledger/erasures?dry%5Frun=true", "/v1/ledger/erasures?&x"] {
        let reply = send(&server, ADMIN, "POST", target, &[JSON], &erase);
        assert_error(&reply, 400, "invalid_path");
        assert_eq!(server.gate.view().position, before, "{target} did something");
    }
    let body = refund("queried", 1, &[]);
    assert_error(&post(&server, AGENT, "/v1/actions?wait_ms=0&dry_run=true", &body), 400, "invalid_path");
    assert_eq!(post(&server, AGENT, "/v1/actions?wait_ms=0", &body).json()["verdict"], "committed");
    // Those who ask whether it is up may say what they like.
    assert_eq!(server.get("/healthz?verbose=1").status, 200);
    assert_error(&furnished().get("/v1/ledger/entries?begin=3"), 400, "invalid_path");
}
