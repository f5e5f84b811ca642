//! The demo as it is run: the binary, its output, its exit code, and the folder it leaves.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn countersign(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_countersign")).args(args).current_dir(folder).output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_scenario_is_one_object_with_the_exact_gap() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = lines(&countersign(&["demo", "--once", "--json"], folder.path()));
    let mut last = 0;
    for line in &mut lines {
        // Entries depend on how many facts each scenario sets up; that they rise is all that matters.
        let entry = line.as_object_mut().unwrap().remove("entry").unwrap().as_u64().unwrap();
        assert!(entry > last, "{line} at {entry}");
        last = entry;
    }
    let expected = [
        ("CONC-2", json!(["account-is-active"]), 150),
        ("CONC-3", json!([]), 150),
        ("CONC-4", json!(["account-is-active"]), 2_150),
        ("AG-097-A", json!(["employee-is-active"]), 45_000),
        ("AG-097-B", json!(["within-mandate-ceiling", "price-within-two-percent"]), 3_000),
        ("AG-097-C", json!(["source-is-owned-by-requester"]), 12_000),
        ("AG-097-D", json!(["kidneys-clear-the-dose"]), 120_000),
        ("CONC-5", json!(["member-was-not-revoked"]), 150),
        ("CONC-6", json!(["balance-covers-amount"]), 150),
        ("CONC-7", json!(["colleague-stays-on-call"]), 150),
    ]
    .map(|(id, failed, gap_ms)| {
        let verdict = if id == "CONC-4" { "cancelled" } else { "rejected" };
        json!({"id": id, "unguarded_harm": true, "verdict": verdict, "failed": failed, "gap_ms": gap_ms})
    });
    assert_eq!(lines, expected);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the demo leaves nothing behind");
}

#[test]
fn one_scenario_can_be_chosen_and_an_unknown_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(&countersign(&["demo", "--json", "--scenario", "CONC-7"], folder.path()));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["id"], "CONC-7");
    let refused = countersign(&["demo", "--scenario", "CONC-99"], folder.path());
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stdout.is_empty());
}

#[test]
fn the_text_is_plain_in_a_pipe_and_fits_a_hundred_columns() {
    let folder = tempfile::tempdir().unwrap();
    let output = countersign(&["demo"], folder.path());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }
    assert!(text.contains("$4,800 left an account that was frozen"), "{text}");
    assert!(text.contains(r#""active" → "frozen""#), "{text}");
}

#[test]
fn the_folder_is_kept_where_asked_and_never_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    lines(&countersign(&["demo", "--once", "--json", "--data", "race"], folder.path()));
    let kept = folder.path().join("race");
    assert!(kept.join("log.vkey").is_file());
    let again = countersign(&["demo", "--once", "--json", "--data", "race"], folder.path());
    assert!(!again.status.success());
    assert!(again.stdout.is_empty());
    assert!(String::from_utf8_lossy(&again.stderr).contains("data folder already"), "{again:?}");
    for command in [&["verify", "--data", "race", "--log-key", "race/log.vkey"][..], &["audit", "--data", "race"]] {
        let checked = countersign(command, folder.path());
        assert!(checked.status.success(), "{command:?}: {checked:?}");
    }
}
