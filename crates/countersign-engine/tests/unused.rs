//! Rights that were not used: what is told of them, and what is not.

use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Request};
use countersign_testing::gate::{ORIGIN, feed, on_folder_by, operator, publish};
use countersign_testing::hands::Hands;
use std::sync::Arc;

const DAY: u64 = 24 * 60 * 60 * 1000;

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { text = "String" }

[action.write]
resource = 'Note::"{note}"'
allow = 'principal.roles.contains("writer")'
set = { text = "\"written\"" }

[action.close]
resource = 'Note::"{note}"'
allow = 'principal.roles.contains("writer") && context.note != "none"'
set = { text = "\"closed\"" }

[[action.close.require]]
id = "is-written"
that = 'resource.text == "written"'

[action.burn]
resource = 'Note::"{note}"'
allow = 'principal.roles.contains("writer")'
min_trust = 900
delete = ["resource"]
"#;

fn register(gate: &Gate, name: &str, role: &str, standing: &str) {
    let value = format!(r#"{{"roles":["{role}"],"standing":"{standing}","org":"a","trust":1}}"#);
    gate.call(feed(&format!("Agent::\"{name}\""), &value)).unwrap();
}

fn act(gate: &Gate, who: &str, kind: &str, key: u32) -> u64 {
    let body = serde_json::json!({
        "pact": "notes", "action": kind, "idempotency_key": format!("{key:032}"), "params": {"note": "1"},
    });
    let action = gate.admit(AgentId::new(who).unwrap(), Auth::None, body.to_string().into()).unwrap();
    let Answer::Entered(entered) = gate.call(Request::Act(Box::new(action))).unwrap() else { panic!() };
    entered.entry.index
}

fn unused(gate: &Gate, days: u64) -> Vec<(String, String)> {
    let rights = gate.unused_rights(days * DAY).unwrap().rights;
    rights.into_iter().map(|right| (right.agent.to_string(), right.action.to_string())).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(agent, action)| ((*agent).to_owned(), (*action).to_owned())).collect()
}

#[test]
fn a_right_that_no_action_used_is_told_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Hands::at(20_000 * DAY);
    let (gate, _) = Gate::open(on_folder_by(dir.path(), Arc::clone(&clock) as _), Options::new(ORIGIN)).unwrap();
    gate.call(publish(PACT)).unwrap();
    gate.call(feed("Note::\"1\"", r#"{"text":"x"}"#)).unwrap();
    register(&gate, "ann", "writer", "active");
    register(&gate, "ben", "writer", "active");
    register(&gate, "reader", "reader", "active");
    register(&gate, "gone", "writer", "revoked");
    act(&gate, "ann", "write", 1);
    let of_ben = act(&gate, "ben", "write", 2);
    clock.pass(10 * DAY);
    // One that is rejected was asked for all the same.
    act(&gate, "ann", "write", 3);
    act(&gate, "ann", "close", 4);
    act(&gate, "ann", "close", 5);
    clock.pass(25 * DAY);
    register(&gate, "new", "writer", "active");
    // `burn` takes more trust than any of them has; `new` has had its right for too short a time, and `reader` and `gone` have none.
    assert_eq!(unused(&gate, 30), pairs(&[("ben", "close"), ("ben", "write")]));
    let all = [("ann", "close"), ("ann", "write"), ("ben", "close"), ("ben", "write")];
    assert_eq!(unused(&gate, 20), pairs(&all));
    // All of the log, and the pact is younger than that.
    assert_eq!(unused(&gate, 36), pairs(&[]));
    let report = gate.unused_rights(30 * DAY).unwrap();
    assert_eq!((report.since_ms, report.entries), (20_005 * DAY, 4));

    // What is erased may have been of any action type: it is not said that it was of none.
    clock.pass(1);
    gate.call(feed("Note::\"1\"", r#"{"text":"y"}"#)).unwrap();
    let again = act(&gate, "ben", "write", 6);
    gate.call(feed("Note::\"1\"", r#"{"text":"z"}"#)).unwrap();
    gate.erase(operator(), Auth::None, &[of_ben, again], "asked for".into()).unwrap();
    let report = gate.unused_rights(30 * DAY).unwrap();
    let told: Vec<_> = report.rights.iter().map(|right| (right.agent.as_str(), right.maybe_used_in)).collect();
    assert_eq!(told, [("ben", Some(again)), ("ben", Some(again))]);
}
