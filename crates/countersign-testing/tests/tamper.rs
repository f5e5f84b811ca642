//! Tampering with the folder of a gate: whatever is changed behind its back is detected and located (I7).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

use countersign_core::action::{Action, ActionRequest};
use countersign_core::identity::{Auth, KeyName};
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::value::{Attributes, Value};
use countersign_engine::audit::audit;
use countersign_engine::clock::Clock;
use countersign_engine::gate::{Environment, Options, Parts};
use countersign_engine::identity::signature::{self, Signable, Wire};
use countersign_engine::request::{Answer, Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::Disk;
use countersign_ledger::commitment::commitment;
use countersign_ledger::receipt::Receipt;
use countersign_ledger::segment::{BatchEncoder, SEGMENT_HEADER_LEN, parse_batch};
use countersign_ledger::{Checkpoint, Frontier, LogKey, leaf_hash};
use countersign_testing::bank;
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::folder::verify;
use ed25519_dalek::SigningKey;
use serde_json::{Value as Json, json};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const ORIGIN: &str = "tamper.test/log";

fn log_key(secret: u8) -> SigningKey {
    SigningKey::from_bytes(&[secret; 32])
}

fn public() -> LogKey {
    LogKey::new(ORIGIN, log_key(1).verifying_key()).unwrap()
}

#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn wall_ms(&self) -> u64 {
        1_800_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed)
    }
    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn requests() -> Vec<Vec<Request>> {
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
        Request::Act(Box::new(Action::new(agent, Auth::None, body, request, Vec::new())))
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
fn signed(key: &SigningKey, body: &str, nonce: u64) -> Auth {
    let request = Signable { method: "POST", authority: "tamper.test", path: "/v1/actions", query: None, body };
    let headers = signature::sign(key, &request, ORIGIN, 1_800_000_000, &format!("nonce-{nonce:020}")).unwrap();
    let wire = Wire {
        method: request.method,
        authority: request.authority,
        path: request.path,
        query: None,
        body,
        content_digest: headers.content_digest.as_deref(),
        input: Some(&headers.input),
        signature: Some(&headers.signature),
    };
    Auth::Signature(Arc::new(signature::parse(&wire, ORIGIN).unwrap().signed))
}

/// The same requests, signed by the first admin and by the agent.
fn signed_requests() -> Vec<Vec<Request>> {
    let (admin, agent) = (log_key(50), log_key(51));
    let name = KeyName::of(agent.verifying_key().to_bytes());
    let mut nonce = 0;
    let mut sign = |request: Request| {
        nonce += 1;
        let by = AgentId::first_admin();
        match request {
            Request::Act(mut action) => {
                action.auth = signed(&agent, &action.body, nonce).without_body(&action.body);
                Request::Act(action)
            }
            Request::Publish { pact, .. } => {
                let auth = signed(&admin, &pact.source, nonce);
                Request::Publish { by, auth, pact }
            }
            Request::Feed { fact, value, if_match, .. } => {
                let with_key = |value: Attributes| match fact.ty().as_str() {
                    "Agent" => value.with([("key".into(), Value::String(name.as_str().into()))]),
                    _ => value,
                };
                let auth = signed(&admin, "{\"value\":…}", nonce);
                Request::Feed { by, auth, value: value.map(with_key), fact, if_match }
            }
            other => other,
        }
    };
    requests().into_iter().map(|batch| batch.into_iter().map(&mut sign).collect()).collect()
}

/// A closed folder of several segments, and a receipt for each entry that was asked for.
fn folder() -> (FaultyDisk, Vec<Receipt>) {
    folder_of(requests(), None)
}

fn signed_folder() -> (FaultyDisk, Vec<Receipt>) {
    folder_of(signed_requests(), Some(KeyName::of(log_key(50).verifying_key().to_bytes())))
}

fn folder_of(requests: Vec<Vec<Request>>, first_admin: Option<KeyName>) -> (FaultyDisk, Vec<Receipt>) {
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
                let Ok(Answer::Entered(entered)) = answer else { panic!("{answer:?}") };
                receipts.lock().unwrap().push(entered.proof.receipt(&entered.entry).unwrap());
            });
            Submission { request, reply }
        });
        let mut batch = Batch::default();
        parts.sequencer.sequence(&mut batch, submissions.collect::<Vec<_>>(), &*clock);
        parts.committer.commit(batch).unwrap();
    }
    let Parts { committer, .. } = parts;
    committer.close().unwrap();
    let receipts = receipts.lock().unwrap().clone();
    (disk, receipts)
}

fn segments(disk: &FaultyDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".seg")).collect()
}

/// Where the batches of a segment are.
fn batches(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), SEGMENT_HEADER_LEN);
    while let Ok(Some(batch)) = parse_batch(&bytes[at..]) {
        let end = at + batch.header().total_len as usize;
        found.push(at..end);
        at = end;
    }
    found
}

/// Verifies the folder with one file changed, and puts the file back.
fn with_change(
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

#[test]
fn an_untouched_folder_verifies_against_every_receipt() {
    let (disk, receipts) = folder();
    assert!(segments(&disk).len() >= 3, "{:?}", segments(&disk));
    let summary = verify(&disk, &public(), &receipts).unwrap();
    assert_eq!((summary.size, summary.evidence), (44, receipts.len()));
}

#[test]
fn a_flipped_bit_anywhere_is_located() {
    let (disk, _) = folder();
    let mut flips = 0;
    for name in segments(&disk) {
        let bytes = disk.contents(&name).unwrap();
        for batch in batches(&bytes) {
            for at in batch.step_by(97) {
                let error = with_change(&disk, &name, |bytes| bytes[at] ^= 1 << (at % 8), &[]).unwrap_err();
                assert!(error.contains(&name), "byte {at} of {name}: {error}");
                flips += 1;
            }
        }
    }
    assert!(flips > 300, "only {flips}");
}

#[test]
fn a_missing_segment_is_named() {
    let (disk, _) = folder();
    let names = segments(&disk);
    for (at, name) in names.iter().enumerate() {
        let bytes = disk.contents(name).unwrap();
        disk.remove(name).unwrap();
        let error = verify(&disk, &public(), &[]).unwrap_err();
        disk.tamper(name, bytes);
        // The first place at which something is missing: the file after the gap, or the end.
        let next = names.get(at + 1).or(names.get(at.wrapping_sub(1))).unwrap();
        assert!(error.contains(next.as_str()) || error.contains("anchor"), "{name}: {error}");
    }
}

#[test]
fn swapped_batches_and_segments_are_located() {
    let (disk, _) = folder();
    let names = segments(&disk);
    let swap = |bytes: &mut Vec<u8>| {
        let found = batches(bytes);
        let (first, second) = (found[0].clone(), found[1].clone());
        let swapped = [&bytes[second.clone()], &bytes[first.clone()]].concat();
        bytes[first.start..second.end].copy_from_slice(&swapped);
    };
    let error = with_change(&disk, &names[1], swap, &[]).unwrap_err();
    assert!(error.contains(&names[1]), "{error}");
    let (one, two) = (disk.contents(&names[0]).unwrap(), disk.contents(&names[1]).unwrap());
    disk.tamper(&names[0], two);
    disk.tamper(&names[1], one);
    let error = verify(&disk, &public(), &[]).unwrap_err();
    assert!(error.contains(&names[0]), "{error}");
}

#[test]
fn a_cut_is_found_by_the_anchor_and_without_it_by_any_later_receipt() {
    let (disk, receipts) = folder();
    let names = segments(&disk);
    let last = names.last().unwrap();
    let found = batches(&disk.contents(last).unwrap());
    let cut = |bytes: &mut Vec<u8>| bytes[found.last().unwrap().start..].fill(0);
    let error = with_change(&disk, last, cut, &[]).unwrap_err();
    assert!(error.contains("anchor") && error.contains("42"), "{error}");
    let error = with_change(&disk, last, |bytes| bytes.truncate(found.last().unwrap().start + 9), &[]).unwrap_err();
    assert!(error.contains(last.as_str()), "{error}");
    // Whoever can cut the log can remove the anchor too. A receipt is out of reach.
    let anchor = disk.list().unwrap().into_iter().find(|name| name.contains("anchor")).unwrap();
    disk.remove(&anchor).unwrap();
    assert!(with_change(&disk, last, cut, &[]).is_ok(), "nothing in the folder can tell");
    let error = with_change(&disk, last, cut, &receipts).unwrap_err();
    assert!(error.contains("a receipt") && error.contains("42"), "{error}");
}

/// Writes the whole log anew: `change` may alter each entry, `key` signs.
fn rewrite(disk: &FaultyDisk, key: &SigningKey, change: impl Fn(u64, &mut Vec<u8>, &[u8; 32], &mut Vec<u8>)) {
    let mut frontier = Frontier::new();
    let mut encoder = BatchEncoder::new();
    for name in disk.list().unwrap().into_iter().filter(|name| name.contains("anchor") || name.contains("clean")) {
        disk.remove(&name).unwrap();
    }
    for name in segments(disk) {
        let bytes = disk.contents(&name).unwrap();
        let mut new = bytes[..SEGMENT_HEADER_LEN].to_vec();
        for range in batches(&bytes) {
            let batch = parse_batch(&bytes[range]).unwrap().unwrap();
            encoder.begin(frontier.size());
            for frame in batch.frames() {
                let (mut leaf, mut payload) = (frame.leaf.to_vec(), frame.payload.to_vec());
                change(frame.index, &mut leaf, frame.salt, &mut payload);
                encoder.push_frame(&leaf, frame.salt, &payload).unwrap();
                frontier.push(leaf_hash(&leaf));
            }
            let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: frontier.size(), root: frontier.root() };
            new.extend_from_slice(&encoder.finish(checkpoint.sign(key).as_bytes()).unwrap());
        }
        new.resize(bytes.len().max(new.len()), 0);
        disk.tamper(&name, new);
    }
}

/// Has a leaf commit to its altered payload, as whoever holds the log's key can.
fn commit_again(leaf: &mut Vec<u8>, salt: &[u8; 32], payload: &[u8]) {
    let mut json: Json = serde_json::from_slice(leaf).unwrap();
    json["commitment"] =
        json!(commitment(salt, payload).0.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    *leaf = json.to_string().into_bytes();
}

#[test]
fn a_log_signed_with_another_key_is_refused_at_its_first_entry() {
    let (disk, _) = folder();
    rewrite(&disk, &log_key(9), |_, _, _, _| ());
    let error = verify(&disk, &public(), &[]).unwrap_err();
    assert!(error.contains(&segments(&disk)[0]) && error.contains("signed"), "{error}");
}

#[test]
fn a_history_rewritten_with_the_right_key_conflicts_with_receipts() {
    let (disk, receipts) = folder();
    // Signing the very same history again changes nothing that anybody could complain about.
    rewrite(&disk, &log_key(1), |_, _, _, _| ());
    verify(&disk, &public(), &receipts).unwrap();
    // The operator itself lies: entry 20 was somebody else's, and everything after it is signed anew.
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if index == 20 {
            *payload = String::from_utf8(payload.clone()).unwrap().replace("key-0", "key-9").into_bytes();
            commit_again(leaf, salt, payload);
        }
    });
    verify(&disk, &public(), &[]).unwrap();
    verify(&disk, &public(), &receipts[..10]).unwrap();
    let error = verify(&disk, &public(), &receipts).unwrap_err();
    assert!(error.contains("20") && error.contains("a receipt"), "{error}");
    // A receipt of a later entry alone shows it too: its checkpoint has another root.
    let error = verify(&disk, &public(), &receipts[30..]).unwrap_err();
    assert!(error.contains("a receipt"), "{error}");
}

/// What is changed in a payload, and how.
type Lie = (&'static str, fn(&str) -> String);

#[test]
fn what_the_holder_of_the_log_key_puts_into_others_mouths_is_found_by_their_signatures() {
    let lies: [Lie; 6] = [
        ("one digit of the signature", |text| {
            let at = text.find("\"signature\":\"").unwrap() + 13;
            let flipped = if &text[at..=at] == "0" { "1" } else { "0" };
            format!("{}{flipped}{}", &text[..at], &text[at + 1..])
        }),
        ("the body", |text| text.replacen("\\\"account\\\":\\\"a\\\"", "\\\"account\\\":\\\"b\\\"", 1)),
        ("the path", |text| text.replacen("/v1/actions", "/v1/actionz", 1)),
        ("the time of signing", |text| text.replacen("created=1800000000", "created=1800000001", 1)),
        ("the gate it was made for", |text| text.replacen("countersign:tamper.test", "countersign:tamper.tesu", 1)),
        ("the key", |text| {
            let name = |secret: u8| KeyName::of(log_key(secret).verifying_key().to_bytes()).to_string();
            text.replace(&name(51), &name(52))
        }),
    ];
    for (what, lie) in lies {
        let (disk, _) = signed_folder();
        let summary = verify(&disk, &public(), &[]).unwrap();
        assert_eq!(summary.size, 45);
        rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
            if index == 20 {
                let before = String::from_utf8(payload.clone()).unwrap();
                let after = lie(&before);
                assert_ne!(after, before, "{what}: nothing was changed");
                *payload = after.into_bytes();
                commit_again(leaf, salt, payload);
            }
        });
        let error = verify(&disk, &public(), &[]).unwrap_err();
        assert!(error.contains("entry 20"), "{what}: {error}");
    }
}

#[test]
fn an_entry_that_its_operator_had_no_right_to_is_found_by_an_audit() {
    let (disk, _) = signed_folder();
    let report = audit(&disk, &public(), &mut |_| ()).unwrap();
    assert_eq!((report.verified, report.differing_count), (45, 0));
    // The pact is published by the agent, with the agent's own good signature: it has no role.
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if index == 2 {
            let mut json: Json = serde_json::from_slice(payload).unwrap();
            let Auth::Signature(by_agent) = signed(&log_key(51), json["source"].as_str().unwrap(), 999) else {
                panic!()
            };
            let mut out = countersign_core::canonical::Canonical::new();
            by_agent.write(&mut out);
            json["signed"] = serde_json::from_str(out.as_str()).unwrap();
            *payload = json.to_string().into_bytes();
            *leaf = String::from_utf8(leaf.clone()).unwrap().replace("\"by\":\"admin\"", "\"by\":\"fraud-1\"").into();
            commit_again(leaf, salt, payload);
        }
    });
    verify(&disk, &public(), &[]).unwrap();
    let report = audit(&disk, &public(), &mut |_| ()).unwrap();
    assert_eq!(report.differing_count, 1, "{:?}", report.differing);
    assert!(report.differing[0].what.contains("publisher"), "{:?}", report.differing);
}
