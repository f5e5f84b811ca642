//! `vectors/delegations.json`: tokens, the chains they are reduced to, and tokens that are refused, for other implementations.
//!
//! A token has fresh keys in it, so none is made twice alike: what is checked in must reduce as it says. With `UPDATE_GOLDEN` set
//! new ones are made.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use countersign_core::canonical::Canonical;
use countersign_core::delegation::{Limit, Scope};
use countersign_core::identity::KeyName;
use countersign_core::ids::{ActionName, AgentId, PactName};
use countersign_engine::delegation::{extend, mint, reduce};
use ed25519_dalek::SigningKey;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const GATE: &str = "gate.example/log";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/delegations.json")
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn scope(to: &str, seed: u8, depth: u32) -> Scope {
    let (to, key) = (AgentId::new(to).unwrap(), KeyName::of(key(seed).verifying_key().to_bytes()));
    Scope { to, key, actions: None, limits: BTreeMap::new(), facts: None, expires_at_ms: None, depth }
}

/// With everything that a hop can say.
fn narrow(to: &str, seed: u8, depth: u32, max: i64) -> Scope {
    let values = BTreeSet::from(["USD".into(), "EUR".into()]);
    let limits =
        [("amount", Limit { max: Some(max), one_of: None }), ("currency", Limit { max: None, one_of: Some(values) })];
    Scope {
        actions: Some([(PactName::new("billing").unwrap(), ActionName::new("refund").unwrap())].into()),
        limits: limits.map(|(name, limit)| (name.into(), limit)).into(),
        facts: Some(["Account::\"42\"".parse().unwrap()].into()),
        expires_at_ms: Some(1_894_700_000_000),
        ..scope(to, seed, depth)
    }
}

/// The chain of a token as an entry has it.
fn chain(token: &str) -> Json {
    let mut out = Canonical::new();
    reduce(token).unwrap().write(&mut out);
    serde_json::from_str(out.as_str()).unwrap()
}

/// The same token with one byte of it changed.
fn altered(token: &str, at: usize) -> String {
    let mut bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix("dlg1.").unwrap()).unwrap();
    bytes[at] ^= 1;
    format!("dlg1.{}", URL_SAFE_NO_PAD.encode(bytes))
}

fn vectors() -> Json {
    let lead = AgentId::new("lead").unwrap();
    let whole = mint(&key(1), &lead, GATE, &scope("desk", 2, 0)).unwrap();
    let first = mint(&key(1), &lead, GATE, &narrow("desk", 2, 1, 1_000)).unwrap();
    let second = extend(&first, &key(2), &narrow("helper", 3, 0, 100)).unwrap();
    // The gate takes it for what it is, and refuses the action: a hop that claims more than it was given is no forgery.
    let wider = extend(&first, &key(2), &narrow("helper", 3, 0, 2_000)).unwrap();
    let length = URL_SAFE_NO_PAD.decode(second.strip_prefix("dlg1.").unwrap()).unwrap().len();
    let good = [
        ("one hop, unlimited", &whole),
        ("one hop with every limit", &first),
        ("two hops", &second),
        ("widened", &wider),
    ];
    let bad = [
        ("a byte of the last signature changed", altered(&second, length - 40)),
        ("a byte of the first block changed", altered(&second, 20)),
        ("another prefix", second.replace("dlg1.", "dlg2.")),
        ("padded", format!("{second}=")),
        ("cut short", second[..second.len() - 8].to_owned()),
    ];
    json!({
        "about": "Vectors of docs/formats/delegation.md. The keys of lead, desk and helper are of the seeds 01…, 02… and 03….",
        "taken": good.map(|(name, token)| json!({"name": name, "token": token, "chain": chain(token)})),
        "refused": bad.map(|(name, token)| json!({"name": name, "token": token})),
    })
}

#[test]
fn every_token_reduces_to_what_the_vectors_say() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path(), serde_json::to_string_pretty(&vectors()).unwrap() + "\n").unwrap();
    }
    let vectors: Json = serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap();
    let tokens = |list: &str| vectors[list].as_array().unwrap().clone();
    assert_eq!((tokens("taken").len(), tokens("refused").len()), (4, 5));
    for vector in tokens("taken") {
        assert_eq!(chain(vector["token"].as_str().unwrap()), vector["chain"], "{}", vector["name"]);
    }
    for vector in tokens("refused") {
        assert!(reduce(vector["token"].as_str().unwrap()).is_err(), "{}", vector["name"]);
    }
}
