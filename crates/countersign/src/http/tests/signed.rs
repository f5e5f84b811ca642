//! An identified gate, and callers that sign: with the library, or by hand where a test wants a signature that is wrong.

use super::*;
use crate::http::rate::RateSettings;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_core::identity::{BatchDigests, KeyName, Signed};
use countersign_core::ids::Digest;
use countersign_engine::gate::Options;
use countersign_signature::{Headers, Signable, base, content_digest, digest_field, sign, tag};
use ed25519_dalek::{Signer as _, SigningKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub const ORIGIN: &str = "test.example/log";

/// The keys of everyone, told apart by one byte.
pub fn key(byte: u8) -> SigningKey {
    SigningKey::from_bytes(&[byte; 32])
}

pub fn name(byte: u8) -> KeyName {
    KeyName::of(key(byte).verifying_key().to_bytes())
}

pub const ADMIN: u8 = 10;
pub const AGENT: u8 = 20;

pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A nonce that no other test of this process uses.
pub fn nonce() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("nonce-of-a-test-{:08}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A server with an admin, the pact, one agent and one account.
pub fn identified() -> Server {
    identified_at(RateSettings::default())
}

/// The same with other limits on how often one may ask.
pub fn identified_at(rates: RateSettings) -> Server {
    let server = Server::start_at(Options { first_admin: Some(name(ADMIN)), ..Options::new(ORIGIN) }, rates);
    let published = send(&server, ADMIN, "POST", "/v1/pacts", &["Content-Type: application/toml"], PACT);
    assert_eq!(published.status, 200, "{published:?}");
    let agent = json!({"value": {
        "key": name(AGENT).as_str(), "roles": ["refunder"], "standing": "active", "org": "acme", "trust": 700,
    }});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/refund-1", &agent).status, 200);
    assert_eq!(put(&server, ADMIN, "/v1/facts/Account/42", &account("active", 900_000)).status, 200);
    server
}

pub fn signable<'a>(method: &'a str, target: &'a str, authority: &'a str, body: &'a str) -> Signable<'a> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    Signable { method, authority, path, query, if_match: None, actions: None, body }
}

/// The lines that make a request a signed one.
pub fn lines(headers: &Headers) -> Vec<String> {
    let digest = headers.content_digest.iter().map(|digest| format!("Content-Digest: {digest}"));
    let actions = headers.actions.iter().map(|actions| format!("Countersign-Actions: {actions}"));
    let rest = [format!("Signature-Input: {}", headers.input), format!("Signature: {}", headers.signature)];
    digest.chain(actions).chain(rest).collect()
}

/// Sends a request with these fields and signature.
pub fn send_with(server: &Server, method: &str, target: &str, fields: &[&str], headers: &Headers, body: &str) -> Reply {
    let lines = lines(headers);
    let all: Vec<&str> = fields.iter().copied().chain(lines.iter().map(String::as_str)).collect();
    server.send(method, target, &all, body.as_bytes())
}

/// Signs rightly and sends.
pub fn send(server: &Server, by: u8, method: &str, target: &str, fields: &[&str], body: &str) -> Reply {
    let authority = server.addr.to_string();
    let headers = sign(&key(by), &signable(method, target, &authority, body), ORIGIN, now_s(), &nonce()).unwrap();
    send_with(server, method, target, fields, &headers, body)
}

pub const JSON: &str = "Content-Type: application/json";

pub fn put(server: &Server, by: u8, path: &str, body: &Value) -> Reply {
    send(server, by, "PUT", path, &[JSON], &body.to_string())
}

pub fn post(server: &Server, by: u8, path: &str, body: &str) -> Reply {
    send(server, by, "POST", path, &[JSON], body)
}

/// A signature over whatever a test wants, with whatever parameters, by a real key.
pub fn forge(by: u8, request: &Signable<'_>, covered: &[&str], parameters: &str) -> Headers {
    let covered = covered.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" ");
    let mut signed = Signed {
        key: name(by),
        input: Arc::from(format!("({covered}){parameters}")),
        method: request.method.into(),
        authority: request.authority.into(),
        path: request.path.into(),
        query: request.query.map(Into::into),
        if_match: request.if_match.map(Into::into),
        batch: request.actions.map(|actions| BatchDigests { actions, body: Digest::of(request.body.as_bytes()) }),
        body: Some(request.body.into()),
        signature: [0; 64],
    };
    signed.signature = key(by).sign(base(&signed, None).unwrap().as_bytes()).to_bytes();
    Headers {
        actions: request.actions.as_ref().map(digest_field),
        content_digest: (!request.body.is_empty()).then(|| content_digest(request.body.as_bytes())),
        input: format!("sig1={}", signed.input),
        signature: format!("sig1=:{}:", BASE64_STANDARD.encode(signed.signature)),
    }
}

pub const ALL: [&str; 4] = ["@method", "@authority", "@path", "content-digest"];

/// The parameters of a good signature.
pub fn parameters(by: u8, created_s: u64) -> String {
    format!(";created={created_s};nonce=\"{}\";keyid=\"{}\";tag=\"{}\"", nonce(), name(by), tag(ORIGIN))
}
