//! `vectors/signatures.json`: requests with their signature bases and what becomes of them, for other implementations.
//!
//! With `UPDATE_GOLDEN` set the file is rewritten; otherwise what it says must hold.

use super::*;
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Map, Value, json};
use std::path::Path;

const ORIGIN: &str = "gate.example/log";
const CREATED_S: u64 = 1_700_000_000;
const NONCE: &str = "jT8dA0yZbq3mX5wK";

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/signatures.json")
}

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn action() -> Signable<'static> {
    let body = "{\"pact\":\"billing\",\"action\":\"refund\"}";
    Signable {
        method: "POST",
        authority: "gate.example:8420",
        path: "/v1/actions",
        query: None,
        if_match: None,
        actions: None,
        body,
    }
}

fn read() -> Signable<'static> {
    Signable { method: "GET", path: "/v1/ledger/entries", query: Some("start=0&limit=%32"), body: "", ..action() }
}

fn feed() -> Signable<'static> {
    let body = "{\"value\":{\"status\":\"active\"}}";
    Signable { method: "PUT", path: "/v1/facts/Account/42", if_match: Some("\"7\""), body, ..action() }
}

/// Two actions, each with its id: the digest of its text in the array.
fn batch() -> Signable<'static> {
    let body = "[{\"pact\":\"billing\",\"action\":\"refund\"}, {\"pact\":\"billing\",\"action\":\"payout\"}]";
    let ids = ["{\"pact\":\"billing\",\"action\":\"refund\"}", "{\"pact\":\"billing\",\"action\":\"payout\"}"];
    let ids = ids.map(|action| Digest::of(action.as_bytes()));
    let actions = Some(BatchDigests::of_actions(&ids));
    Signable { path: BATCH_PATH, query: Some("atomic=true"), actions, body, ..action() }
}

fn case(name: &str, request: &Signable<'_>, headers: &Headers, expect: &str) -> Value {
    let mut case = Map::new();
    for (key, value) in [("name", name), ("method", request.method), ("authority", request.authority)] {
        case.insert(key.to_owned(), json!(value));
    }
    case.insert("path".to_owned(), json!(request.path));
    if let Some(query) = request.query {
        case.insert("query".to_owned(), json!(query));
    }
    if !request.body.is_empty() {
        case.insert("body".to_owned(), json!(request.body));
    }
    let mut fields = Map::new();
    if let Some(if_match) = request.if_match {
        fields.insert("If-Match".to_owned(), json!(if_match));
    }
    if let Some(actions) = &headers.actions {
        fields.insert("Countersign-Actions".to_owned(), json!(actions));
    }
    if let Some(digest) = &headers.content_digest {
        fields.insert("Content-Digest".to_owned(), json!(digest));
    }
    fields.insert("Signature-Input".to_owned(), json!(headers.input));
    fields.insert("Signature".to_owned(), json!(headers.signature));
    case.insert("headers".to_owned(), Value::Object(fields));
    case.insert("expect".to_owned(), json!(expect));
    if let (Ok(presented), true) = (parse(&wire(request, headers), ORIGIN), expect == "ok") {
        case.insert("base".to_owned(), json!(base(&presented.signed, None).unwrap()));
    }
    Value::Object(case)
}

fn wire<'a>(request: &Signable<'a>, headers: &'a Headers) -> Wire<'a> {
    Wire {
        method: request.method,
        authority: request.authority,
        path: request.path,
        query: request.query,
        if_match: request.if_match,
        actions: headers.actions.as_deref(),
        body: request.body,
        content_digest: headers.content_digest.as_deref(),
        input: Some(&headers.input),
        signature: Some(&headers.signature),
    }
}

fn signed(request: &Signable<'_>) -> Headers {
    sign(&key(), request, ORIGIN, CREATED_S, NONCE).unwrap()
}

/// Signed rightly over an input that was altered first.
fn altered(request: &Signable<'_>, from: &str, to: &str) -> Headers {
    let headers = signed(request);
    let mut kept = parse(&wire(request, &headers), ORIGIN).unwrap().signed;
    let input = kept.input.replace(from, to);
    assert_ne!(*kept.input, *input, "{from}");
    kept.input = Arc::from(input);
    let made = base(&kept, None).map(|base| key().sign(base.as_bytes()).to_bytes()).unwrap_or(kept.signature);
    let signature = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(made)
    };
    Headers { input: format!("sig1={}", kept.input), signature: format!("sig1=:{signature}:"), ..headers }
}

fn cases() -> Vec<Value> {
    let (act, get) = (action(), read());
    let put = feed();
    let stripped = Signable { if_match: None, ..put };
    let added = Signable { if_match: Some("\"7\""), ..act };
    let exchanged = Signable { if_match: Some("\"8\""), ..put };
    let good = signed(&act);
    let elsewhere = Signable { path: "/v1/actions/check", ..act };
    let other_body = Signable { body: "{\"pact\":\"billing\",\"action\":\"payout\"}", ..act };
    let other_query = Signable { query: Some("start=1&limit=%32"), ..get };
    let forged = sign(&SigningKey::from_bytes(&[8; 32]), &act, ORIGIN, CREATED_S, NONCE).unwrap();
    let forged = Headers { signature: forged.signature, ..good.clone() };
    let twice = Headers { input: format!("{0}, {0}", good.input), ..good.clone() };
    let undigested = Headers { content_digest: None, ..good.clone() };
    let many = batch();
    let unlisted = Headers { actions: None, ..signed(&many) };
    let other = Signable { actions: Some(Digest::of(b"another list")), ..many };
    let relisted = Headers { actions: signed(&other).actions, ..signed(&many) };
    let alg = ";tag=\"countersign:gate.example/log\"";
    vec![
        case("an action", &act, &good, "ok"),
        case("a read with a query", &get, &signed(&get), "ok"),
        case("a feed with a condition", &put, &signed(&put), "ok"),
        case("a batch, all or nothing", &many, &signed(&many), "ok"),
        case(
            "a batch whose actions are not covered",
            &many,
            &altered(&many, " \"countersign-actions\"", ""),
            "signature_incomplete",
        ),
        case("a batch whose list was taken away", &many, &unlisted, "signature_incomplete"),
        case("a batch whose list was exchanged", &many, &relisted, "signature_invalid"),
        case("another order", &act, &altered(&act, "\"@method\" \"@authority\"", "\"@authority\" \"@method\""), "ok"),
        case("the algorithm named", &act, &altered(&act, alg, &format!("{alg};alg=\"ed25519\"")), "ok"),
        case("an empty query covered", &act, &altered(&act, "\"@path\"", "\"@path\" \"@query\""), "ok"),
        case("with an end", &act, &altered(&act, ";nonce", ";expires=4102444800;nonce"), "ok"),
        case("another path", &elsewhere, &good, "signature_invalid"),
        case("another query", &other_query, &signed(&get), "signature_invalid"),
        case("another body", &other_body, &good, "digest_mismatch"),
        case("another key under this name", &act, &forged, "signature_invalid"),
        case("the method not covered", &act, &altered(&act, "\"@method\" ", ""), "signature_incomplete"),
        case("the digest not covered", &act, &altered(&act, " \"content-digest\"", ""), "signature_incomplete"),
        case("the digest not sent", &act, &undigested, "signature_incomplete"),
        case("the condition not covered", &put, &altered(&put, " \"if-match\"", ""), "signature_incomplete"),
        case("the condition stripped", &stripped, &signed(&put), "signature_incomplete"),
        case("a condition added", &added, &good, "signature_incomplete"),
        case("the condition exchanged", &exchanged, &signed(&put), "signature_invalid"),
        case("no nonce", &act, &altered(&act, &format!(";nonce=\"{NONCE}\""), ""), "signature_incomplete"),
        case("a short nonce", &act, &altered(&act, NONCE, "short"), "signature_malformed"),
        case("another gate", &act, &altered(&act, "gate.example/log", "other.example/log"), "signature_tag"),
        case(
            "another algorithm",
            &act,
            &altered(&act, alg, &format!("{alg};alg=\"hmac-sha256\"")),
            "signature_algorithm",
        ),
        case("the same member twice", &act, &twice, "signature_malformed"),
        case(
            "a component that is not kept",
            &act,
            &altered(&act, "\"@path\"", "\"@path\" \"@target-uri\""),
            "signature_malformed",
        ),
    ]
}

#[test]
fn the_vectors_are_those_checked_in_and_say_what_becomes_of_each() {
    let now = json!({"origin": ORIGIN, "key": key_name(&key().verifying_key()).as_str(), "cases": cases()});
    let now = serde_json::to_string_pretty(&now).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path(), &now).unwrap();
    }
    let golden = std::fs::read_to_string(path()).unwrap();
    assert!(
        golden == now,
        "vectors/signatures.json is out of date; run the tests with UPDATE_GOLDEN=1 and look at the diff"
    );
    let vectors: Value = serde_json::from_str(&golden).unwrap();
    for case in vectors["cases"].as_array().unwrap() {
        let field = |name: &str| case["headers"][name].as_str();
        let wire = Wire {
            method: case["method"].as_str().unwrap(),
            authority: case["authority"].as_str().unwrap(),
            path: case["path"].as_str().unwrap(),
            query: case["query"].as_str(),
            if_match: field("If-Match"),
            actions: field("Countersign-Actions"),
            body: case["body"].as_str().unwrap_or_default(),
            content_digest: field("Content-Digest"),
            input: field("Signature-Input"),
            signature: field("Signature"),
        };
        let judged = parse(&wire, ORIGIN).and_then(|presented| verify_strict(&presented.signed, None));
        assert_eq!(judged.map_or_else(|error| error.code(), |()| "ok"), case["expect"], "{}", case["name"]);
    }
}
