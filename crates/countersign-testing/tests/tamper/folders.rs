//! Honest folders to tamper with: one of an open gate, one in which everybody signs.

use countersign_core::action::{Action, ActionRequest};
use countersign_core::identity::{Auth, KeyName};
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::value::{Attributes, Value};
use countersign_engine::clock::Clock;
use countersign_engine::gate::{Environment, Options, Parts};
use countersign_engine::request::{Answer, Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::Disk;
use countersign_ledger::LogKey;
use countersign_ledger::receipt::Receipt;
use countersign_ledger::segment::{SEGMENT_HEADER_LEN, parse_batch};
use countersign_signature::{self as signature, Signable, Wire};
use countersign_testing::bank;
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::folder::verify;
use ed25519_dalek::SigningKey;
use serde_json::{Value as Json, json};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub const ORIGIN: &str = "tamper.test/log";

pub fn log_key(secret: u8) -> SigningKey {
    SigningKey::from_bytes(&[secret; 32])
}

pub fn public() -> LogKey {
    LogKey::new(ORIGIN, log_key(1).verifying_key()).unwrap()
}

#[derive(Default)]
pub struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn wall_ms(&self) -> u64 {
        1_800_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed)
    }
    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub fn requests() -> Vec<Vec<Request>> {
    let operator = || AgentId::new("operator").unwrap();
    let feed = |fact: &str, value: Json| Request::Feed {
        by: operator(),
        auth: Auth::None,
        fact: fact.parse().unwrap(),
        value: Some(Attributes::from_untyped_json(value.as_object().unwrap()).unwrap()),
        if_match: None,
    };
    let freeze = |at: u64| {
        let body = json!({
            "pact": "bank", "action": "freeze", "params": {"account": "a"}, "idempotency_key": format!("key-{at:030}"),
        });
        let body: Arc<str> = body.to_string().into();
        let request = ActionRequest::parse(&body).unwrap();
        let agent = AgentId::new("fraud-1").unwrap();
        Request::Act(Box::new(Action::new(agent, Auth::None, Arc::clone(&body), request, Vec::new())))
    };
    let pact = Arc::new(load(&bank::pact(1, 5_000)).unwrap().pact);
    let mut batches = vec![vec![
        Request::Publish { by: operator(), auth: Auth::None, pact },
        feed("Agent::\"fraud-1\"", json!({"org": "bank", "roles": ["fraud"], "standing": "active", "trust": 1})),
        feed("Account::\"a\"", json!({"status": "active", "balance": 5, "owner": "o"})),
    ]];
    batches.extend((0..20).map(|at| vec![freeze(2 * at), freeze(2 * at + 1)]));
    batches
}

/// How one who acts signs a body, as the gate would keep it.
pub fn signed(key: &SigningKey, (method, path): (&str, &str), body: &str, nonce: u64) -> Auth {
    let request = Signable { method, authority: "tamper.test", path, query: None, if_match: None, actions: None, body };
    let headers = signature::sign(key, &request, ORIGIN, 1_800_000_000, &format!("nonce-{nonce:020}")).unwrap();
    let wire = Wire {
        method: request.method,
        authority: request.authority,
        path: request.path,
        query: None,
        if_match: None,
        actions: None,
        body,
        content_digest: headers.content_digest.as_deref(),
        input: Some(&headers.input),
        signature: Some(&headers.signature),
    };
    Auth::Signature(Arc::new(signature::parse(&wire, ORIGIN).unwrap().signed))
}

/// The same requests, signed by the first admin and by the agent.
pub fn signed_requests() -> Vec<Vec<Request>> {
    let (admin, agent) = (log_key(50), log_key(51));
    let name = KeyName::of(agent.verifying_key().to_bytes());
    let mut nonce = 0;
    let mut sign = |request: Request| {
        nonce += 1;
        let by = AgentId::first_admin();
        match request {
            Request::Act(mut action) => {
                action.auth = signed(&agent, ("POST", "/v1/actions"), &action.body, nonce).without_body(&action.body);
                Request::Act(action)
            }
            Request::Publish { pact, .. } => {
                let auth = signed(&admin, ("POST", "/v1/pacts"), &pact.source, nonce);
                Request::Publish { by, auth, pact }
            }
            Request::Feed { fact, value, if_match, .. } => {
                let with_key = |value: Attributes| match fact.ty().as_str() {
                    "Agent" => value.with(vec![("key".into(), Value::String(name.as_str().into()))]),
                    _ => value,
                };
                let path = format!("/v1/facts/{}/{}", fact.ty(), fact.id());
                let value = value.map(with_key);
                let body = json!({"value": value.as_ref().map(Attributes::to_json)}).to_string();
                let auth = signed(&admin, ("PUT", &path), &body, nonce);
                Request::Feed { by, auth, value, fact, if_match }
            }
            other => other,
        }
    };
    requests().into_iter().map(|batch| batch.into_iter().map(&mut sign).collect()).collect()
}

/// A closed folder of several segments, and a receipt for each entry that was asked for.
pub fn folder() -> (FaultyDisk, Vec<Receipt>) {
    folder_of(requests(), None)
}

pub fn signed_folder() -> (FaultyDisk, Vec<Receipt>) {
    folder_of(signed_requests(), Some(KeyName::of(log_key(50).verifying_key().to_bytes())))
}

pub fn folder_of(requests: Vec<Vec<Request>>, first_admin: Option<KeyName>) -> (FaultyDisk, Vec<Receipt>) {
    let disk = FaultyDisk::new(1, Faults::default());
    let clock: Arc<dyn Clock> = Arc::new(Ticking::default());
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::clone(&clock),
        seed: [4; 32],
        log_key: log_key(1).into(),
        token_key: [2; 32],
    };
    let options = Options { segment_bytes: 12 << 10, first_admin, ..Options::new(ORIGIN) };
    let mut parts = Parts::open(environment, options).unwrap();
    let receipts = Arc::new(Mutex::new(Vec::new()));
    for batch in requests {
        let submissions = batch.into_iter().map(|request| {
            let receipts = Arc::clone(&receipts);
            let reply = Box::new(move |answer: Result<Answer, _>| {
                let answers = match answer {
                    Ok(Answer::Many(answers)) => answers,
                    one => vec![one],
                };
                for answer in answers {
                    let Ok(Answer::Entered(entered)) = answer else { panic!("{answer:?}") };
                    receipts.lock().unwrap().push(entered.proof.receipt(&entered.entry).unwrap());
                }
            });
            Submission::new(request, reply)
        });
        let mut batch = Batch::default();
        parts.sequence(&mut batch, submissions);
        parts.committer.commit(batch).unwrap();
    }
    let Parts { committer, .. } = parts;
    committer.close().unwrap();
    let receipts = receipts.lock().unwrap().clone();
    (disk, receipts)
}

pub fn segments(disk: &FaultyDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".seg")).collect()
}

/// Where the batches of a segment are.
pub fn batches(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), SEGMENT_HEADER_LEN);
    while let Ok(Some(batch)) = parse_batch(&bytes[at..]) {
        let end = at + batch.header().total_len as usize;
        found.push(at..end);
        at = end;
    }
    found
}

/// Verifies the folder with one file changed, and puts the file back.
pub fn with_change(
    disk: &FaultyDisk,
    name: &str,
    change: impl FnOnce(&mut Vec<u8>),
    receipts: &[Receipt],
) -> Result<(), String> {
    let before = disk.contents(name).unwrap();
    let mut bytes = before.clone();
    change(&mut bytes);
    assert_ne!(bytes, before, "nothing was changed");
    disk.tamper(name, bytes);
    let verdict = verify(disk, &public(), receipts).map(|_| ());
    disk.tamper(name, before);
    verdict
}
