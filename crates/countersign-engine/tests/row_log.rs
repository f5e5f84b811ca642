//! A whole gate whose log is rows of a table: nothing above storage knows where a log is kept.

use countersign_core::decision::Verdict;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::record::Event;
use countersign_engine::audit::{AuditError, audit};
use countersign_engine::clock::SystemClock;
use countersign_engine::gate::{Gate, OpenError, OpenReport, Options};
use countersign_engine::request::{Answer, Request};
use countersign_engine::storage::StorageError;
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, environment, feed, log_key, operator, publish};
use countersign_testing::row_log::RowTable;
use std::path::Path;
use std::sync::Arc;

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { text = "String" }

[action.write]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = "context.text" }

[[action.write.require]]
id = "note-is-open"
that = 'resource.text != "closed"'

[action.write.params]
type = "object"
additionalProperties = false
required = ["note", "text"]
properties.note = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 64 }
"#;

fn try_open(table: &RowTable, own: &Path) -> Result<(Gate, OpenReport), OpenError> {
    let environment = environment(Arc::new(RealDisk::open(own).unwrap()), Arc::new(SystemClock::default()));
    Gate::open_on(table.take(), environment, Options { snapshot_every: 0, ..Options::new(ORIGIN) })
}

fn open(table: &RowTable, own: &Path) -> (Gate, OpenReport) {
    try_open(table, own).unwrap()
}

fn write(gate: &Gate, key: u64, text: &str) -> Answer {
    let body = serde_json::json!({
        "pact": "notes", "action": "write", "idempotency_key": format!("{key:032}"), "params": {"note": "1", "text": text},
    });
    let action = gate.admit(AgentId::new("ann").unwrap(), Auth::None, body.to_string().into()).unwrap();
    gate.call(Request::Act(Box::new(action))).unwrap()
}

fn entered(answer: &Answer) -> u64 {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    let Event::Action(decided) = &entered.entry.event else { panic!("not an action") };
    assert_eq!(decided.decision.verdict, Verdict::Committed);
    entered.proof.receipt(&entered.entry).unwrap().verify(&log_key()).unwrap();
    entered.entry.index
}

fn set_up(gate: &Gate) {
    gate.call(publish(PACT)).unwrap();
    gate.call(feed("Agent::\"ann\"", r#"{"roles":[],"standing":"active","org":"acme","trust":1}"#)).unwrap();
    gate.call(feed("Note::\"1\"", r#"{"text":"begun"}"#)).unwrap();
}

fn text(gate: &Gate) -> String {
    let note: FactId = "Note::\"1\"".parse().unwrap();
    gate.fact(&note).unwrap().value.as_ref().unwrap().to_json()["text"].as_str().unwrap().to_owned()
}

fn followed(gate: &Gate) -> Vec<u64> {
    let mut follower = gate.follow(0).unwrap();
    std::iter::from_fn(|| follower.next_entry().unwrap()).map(|(position, _)| position).collect()
}

#[test]
fn a_gate_opens_acts_snapshots_reopens_erases_follows_and_is_audited_on_rows() {
    let (table, own) = (RowTable::default(), tempfile::tempdir().unwrap());
    let (gate, report) = open(&table, own.path());
    assert!(report.created);
    set_up(&gate);
    let secret = entered(&write(&gate, 1, "a secret of someone"));
    let position = gate.snapshot().unwrap();
    let last = entered(&write(&gate, 2, "harmless"));
    assert_eq!(followed(&gate), (0..=last).collect::<Vec<_>>());
    gate.close().unwrap();
    // Nothing of the log is in the gate's own folder but the digests of keys, which any gate makes again from the log.
    let files = std::fs::read_dir(own.path()).unwrap().map(|file| file.unwrap().path());
    let (keys, others): (Vec<_>, Vec<_>) = files.partition(|file| file.extension().is_some_and(|end| end == "keys"));
    assert_eq!((keys.len(), others), (1, Vec::new()));
    std::fs::remove_file(&keys[0]).unwrap();

    let (gate, report) = open(&table, own.path());
    assert_eq!((report.snapshot, report.replayed), (Some(position), last + 1 - position));
    assert_eq!(text(&gate), "harmless");
    assert!(matches!(write(&gate, 1, "a secret of someone"), Answer::Repeated(entry) if entry == secret));
    assert!(table.holds(b"a secret of someone"));
    let erasure = gate.erase(operator(), Auth::None, &[secret], "asked".to_owned()).unwrap();
    assert!(!table.holds(b"a secret of someone"), "a row or a snapshot still holds what was erased");
    assert_eq!(gate.read_log(secret).unwrap().payload, None);
    assert_eq!(gate.receipt(secret).unwrap().verify(&log_key()).unwrap().size, erasure + 1);
    assert_eq!(followed(&gate), (0..=erasure).collect::<Vec<_>>());
    gate.close().unwrap();

    let report = audit(&table, &log_key(), &mut |_| ()).unwrap();
    assert_eq!((report.differing, report.entries), (Vec::new(), erasure + 1));
    let (gate, report) = open(&table, own.path());
    assert_eq!((report.snapshot, text(&gate).as_str()), (Some(erasure + 1), "harmless"));
    // A key outlives the erasure of its entry.
    assert!(matches!(write(&gate, 1, "a secret of someone"), Answer::Repeated(entry) if entry == secret));
}

#[test]
fn attack_rows_that_were_changed_or_removed_are_found() {
    let own = tempfile::tempdir().unwrap();
    type Attack = fn(&RowTable);
    let attacks: [(&str, Attack); 3] = [
        ("a payload", |table| table.edit(4, |row| swap(row, b"harmless", b"harmful!"))),
        ("the last rows", |table| table.cut(5)),
        ("a row in the middle", |table| table.edit(3, Vec::clear)),
    ];
    for (what, attack) in attacks {
        let table = RowTable::default();
        let (gate, _) = open(&table, own.path());
        set_up(&gate);
        for key in 0..3 {
            entered(&write(&gate, key, "harmless"));
        }
        gate.close().unwrap();
        assert_eq!(audit(&table, &log_key(), &mut |_| ()).unwrap().entries, 7);
        attack(&table);
        let found = audit(&table, &log_key(), &mut |_| ()).unwrap_err();
        let AuditError::Storage(StorageError::Corrupt { .. } | StorageError::ShorterThanAnchor { .. }) = &found else {
            panic!("{what}: {found}");
        };
        assert!(matches!(try_open(&table, own.path()), Err(OpenError::Storage(_))), "{what}");
    }
}

fn swap(row: &mut [u8], from: &[u8], to: &[u8]) {
    let at = row.windows(from.len()).position(|part| part == from).unwrap();
    row[at..at + to.len()].copy_from_slice(to);
}

#[test]
fn attack_a_reader_or_a_snapshot_looks_while_an_entry_is_decided_and_not_yet_synced() {
    let (table, own, other) = (RowTable::default(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (gate, _) = open(&table, own.path());
    set_up(&gate);
    let position = gate.view().position;
    let paused = table.pause();
    std::thread::scope(|scope| {
        let lost = scope.spawn(|| {
            let body = serde_json::json!({
                "pact": "notes", "action": "write", "idempotency_key": format!("{:032}", 1),
                "params": {"note": "1", "text": "closed"},
            });
            let action = gate.admit(AgentId::new("ann").unwrap(), Auth::None, body.to_string().into()).unwrap();
            gate.call(Request::Act(Box::new(action)))
        });
        paused.until_reached().unwrap();
        // The sequencer has it, and no one else.
        assert_eq!(text(&gate), "begun");
        assert_eq!(gate.view().whole_state().facts.len(), 2);
        let mut seen = Vec::new();
        gate.each_fact_of("Note", |fact| seen.push(fact.value.clone()));
        assert_eq!(seen, [gate.fact(&"Note::\"1\"".parse().unwrap()).unwrap().value.clone()]);
        assert_eq!(gate.snapshot().unwrap(), position);
        // Another takes over: what was never synced is gone, and the snapshot knows nothing of it.
        let (next, report) = open(&table, other.path());
        assert_eq!((report.snapshot, report.replayed), (Some(position), 0));
        assert_eq!(text(&next), "begun");
        drop(paused);
        let told = lost.join().unwrap().unwrap_err();
        assert!(told.to_string().contains("taken over") || told.to_string().contains("moved"), "{told}");
        assert_eq!(text(&gate), "begun", "nor after the sync has failed");
        assert_eq!(entered(&write(&next, 1, "closed")), position);
    });
}
