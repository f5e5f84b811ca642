//! Audit, replay and erasure on a real disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

use countersign_core::canonical::Canonical;
use countersign_core::decision::Verdict;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::load::load;
use countersign_core::record::Event;
use countersign_core::value::Attributes;
use countersign_engine::audit::{audit, replay};
use countersign_engine::clock::SystemClock;
use countersign_engine::fold::payload_matches;
use countersign_engine::gate::{Environment, EraseError, Gate, Options, Parts};
use countersign_engine::request::{Answer, Refusal, Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::RealDisk;
use countersign_engine::storage::{WalkOptions, walk};
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::tree::Frontier;
use ed25519_dalek::SigningKey;
use std::path::Path;
use std::sync::Arc;

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { text = "String", open = "Bool" }

[observe.Note]
who = 'true'
attributes = "*"

[action.write]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = "context.text" }

[action.write.params]
type = "object"
additionalProperties = false
required = ["note", "text"]
properties.note = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 200 }

[[action.write.require]]
id = "note-is-open"
that = 'resource.open'
"#;

fn environment(dir: &Path) -> Environment {
    Environment {
        disk: Arc::new(RealDisk::open(dir).unwrap()),
        clock: Arc::new(SystemClock::default()),
        seed: [3; 32],
        log_key: SigningKey::from_bytes(&[1; 32]),
        token_key: [2; 32],
    }
}

fn options() -> Options {
    Options::new("test.example/log")
}

fn key() -> LogKey {
    LogKey::new("test.example/log", SigningKey::from_bytes(&[1; 32]).verifying_key()).unwrap()
}

fn operator() -> AgentId {
    AgentId::new("operator").unwrap()
}

fn feed_request(id: &str, json: &str) -> Request {
    let value = Some(Attributes::from_untyped_json(&serde_json::from_str(json).unwrap()).unwrap());
    Request::Feed { by: operator(), auth: Auth::None, fact: id.parse().unwrap(), value, if_match: None }
}

fn write(gate: &Gate, number: u32, text: &str) -> Answer {
    let body = serde_json::json!({
        "pact": "notes", "action": "write", "idempotency_key": format!("{number:032}"),
        "params": {"note": "1", "text": text},
    });
    let action = gate.admit(AgentId::new("writer").unwrap(), Auth::None, body.to_string().into()).unwrap();
    gate.call(Request::Act(Box::new(action))).unwrap()
}

fn set_up(dir: &Path) -> Gate {
    let (gate, _) = Gate::open(environment(dir), options()).unwrap();
    let pact = Arc::new(load(PACT).unwrap().pact);
    gate.call(Request::Publish { by: operator(), auth: Auth::None, pact }).unwrap();
    gate.call(feed_request("Agent::\"writer\"", r#"{"roles":[],"standing":"active","org":"a","trust":1}"#)).unwrap();
    gate.call(feed_request("Note::\"1\"", r#"{"text":"a first secret","open":true}"#)).unwrap();
    gate
}

fn index(answer: Answer) -> u64 {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    entered.entry.index
}

fn folder_holds(dir: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(dir).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    files.into_iter().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

#[test]
fn an_honest_log_is_verified_whole() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    write(&gate, 1, "one");
    gate.call(feed_request("Note::\"1\"", r#"{"text":"x","open":false}"#)).unwrap();
    let observed = gate.observe(AgentId::new("writer").unwrap(), vec!["Note::\"1\"".parse().unwrap()]);
    assert!(observed.unwrap().facts[0].value.is_some());
    write(&gate, 2, "two");
    for index in 0..gate.view().position {
        let stored = gate.read_log(index).unwrap();
        for bytes in [stored.leaf, stored.payload.unwrap()] {
            let mut sorted = Canonical::new();
            sorted.json(&serde_json::from_slice(&bytes).unwrap());
            assert_eq!(sorted.as_str().as_bytes(), bytes, "entry {index} is not canonical");
        }
    }
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &key(), &mut |_| ()).unwrap();
    assert_eq!((report.entries, report.verified), (7, 7), "{report:?}");
    assert!(report.differing.is_empty() && report.unverifiable.is_empty());
}

#[test]
fn a_verdict_that_decide_would_not_give_is_found_although_it_is_signed() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    gate.call(feed_request("Note::\"1\"", r#"{"text":"x","open":false}"#)).unwrap();
    let body = serde_json::json!({
        "pact": "notes", "action": "write", "idempotency_key": format!("{:032}", 9),
        "params": {"note": "1", "text": "two"},
    });
    let action = gate.admit(AgentId::new("writer").unwrap(), Auth::None, body.to_string().into()).unwrap();
    gate.close().unwrap();

    // The holder of the log key lies: a rejection is recorded as a commit.
    let mut parts = Parts::open(environment(dir.path()), options()).unwrap();
    let submission = Submission { request: Request::Act(Box::new(action)), reply: Box::new(|_| ()) };
    let mut batch = Batch::default();
    parts.sequencer.sequence(&mut batch, [submission], &SystemClock::default());
    let Event::Action(decided) = &mut batch.entries[0].entry.event else { panic!() };
    assert!(matches!(decided.decision.verdict, Verdict::Rejected(_)));
    decided.decision.verdict = Verdict::Committed;
    let lie = batch.entries[0].entry.index;
    parts.committer.commit(batch).unwrap();
    parts.committer.close().unwrap();

    let report = audit(&RealDisk::open(dir.path()).unwrap(), &key(), &mut |_| ()).unwrap();
    assert_eq!(report.differing.iter().map(|d| d.entry).collect::<Vec<_>>(), [lie]);
    assert!(report.differing[0].what.contains("payload differs"), "{:?}", report.differing);
}

#[test]
fn erasure_takes_every_copy_and_says_what_it_leaves_unverifiable() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    let note: FactId = "Note::\"1\"".parse().unwrap();
    gate.snapshot().unwrap();
    let current = gate.fact(&note).unwrap().written.entry;
    assert!(folder_holds(dir.path(), "a first secret"));

    // What is current is refused.
    let refused = gate.erase(operator(), Auth::None, &[current], "asked for".into()).unwrap_err();
    assert!(matches!(refused, EraseError::Refused(Refusal::CurrentValue { .. })), "{refused:?}");

    let second = index(write(&gate, 1, "a second secret"));
    index(write(&gate, 2, "plain"));
    // Rejected before the note was looked at: its body still speaks of it.
    let unresolved = serde_json::json!({
        "pact": "notes", "action": "write", "idempotency_key": format!("{:032}", 3),
        "params": {"note": "1", "text": "third", "more": true},
    });
    let action = gate.admit(AgentId::new("writer").unwrap(), Auth::None, unresolved.to_string().into()).unwrap();
    let third = index(gate.call(Request::Act(Box::new(action))).unwrap());
    let plan = gate.erase_plan(&note).unwrap();
    assert_eq!(plan.entries, [current, second, third]);
    let erasure = gate.erase(operator(), Auth::None, &plan.entries, "asked for".into()).unwrap();
    assert!(!folder_holds(dir.path(), "a first secret"), "a copy is left");
    assert!(!folder_holds(dir.path(), "a second secret"), "a copy is left");

    // Proofs still hold, the log still verifies, and the state is what it was.
    gate.receipt(current).unwrap().verify(gate.log_key()).unwrap();
    assert_eq!(gate.read_log(current).unwrap().payload, None);
    let before = gate.fact(&note).unwrap();
    gate.close().unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    let walked = WalkOptions { key: &key(), payload_matches: &payload_matches };
    walk(&disk, walked, Frontier::new(), &mut |_| Ok(())).unwrap();

    let report = audit(&disk, &key(), &mut |_| ()).unwrap();
    assert_eq!(report.differing, [], "{report:?}");
    let unverifiable: Vec<_> = report.unverifiable.iter().map(|u| (u.entry, u.erased_by)).collect();
    assert!(unverifiable.contains(&(current, Some(erasure))), "{unverifiable:?}");
    assert!(unverifiable.contains(&(second, Some(erasure))), "{unverifiable:?}");

    // Opened from the log alone, without any snapshot, the current value and its version are the same.
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let (gate, report) = Gate::open(environment(dir.path()), options()).unwrap();
    assert_eq!(report.snapshot, None);
    let after = gate.fact(&note).unwrap();
    assert_eq!((after.version(), &after.value), (before.version(), &before.value));
    // The key of an erased action is still known: erasing cannot make an action happen twice.
    assert!(matches!(write(&gate, 1, "a second secret"), Answer::Repeated(entry) if entry == second));
}

#[test]
fn replay_under_another_pact_names_the_verdicts_that_would_differ() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    let short = index(write(&gate, 1, "ok"));
    let long = index(write(&gate, 2, "a text that is longer than eight"));
    gate.close().unwrap();
    let stricter = PACT.replace("maxLength = 200", "maxLength = 8").replace("version = 1", "version = 2");
    let pact = Arc::new(load(&stricter).unwrap().pact);
    let pacts = [(pact.name.clone(), pact)].into();
    let report = replay(&RealDisk::open(dir.path()).unwrap(), &key(), &pacts, &mut |_| ()).unwrap();
    assert_eq!(report.actions, 2);
    assert_eq!(report.differing.iter().map(|d| d.entry).collect::<Vec<_>>(), [long], "{short}");
    assert_eq!(report.differing[0].replayed.code.as_deref(), Some("invalid_params"));
}
