//! The checker must be able to say no: histories that are right but for one doctored place are refused.

mod doctors;
mod people;

use countersign_testing::checker::{Answered, LogEntry, check};
use countersign_testing::sim::{History, record};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Doctors a history; `None` where it has no place for it.
pub type Doctor = fn(&mut History) -> Option<()>;

fn index_of(answer: &Option<Answered>) -> Option<u64> {
    match answer {
        Some(Answered::Entered { index, .. }) => Some(*index),
        _ => None,
    }
}

fn find(history: &History, wanted: impl Fn(&LogEntry) -> bool) -> Option<usize> {
    history.entries.iter().position(wanted)
}

fn committed(entry: &LogEntry) -> bool {
    entry.leaf["verdict"] == "committed"
}

fn body(entry: &LogEntry) -> Json {
    serde_json::from_str(entry.payload["body"].as_str().unwrap_or_default()).unwrap_or_default()
}

/// Changes the verdict of an entry and of its answer alike, so that only the facts speak against it.
fn tell(history: &mut History, at: usize, verdict: &str) {
    let entry = &mut history.entries[at];
    entry.leaf["verdict"] = json!(verdict);
    entry.payload["decision"] = json!({ "verdict": verdict });
    for operation in &mut history.operations {
        if let Some(Answered::Entered { index, verdict: told, code, failed, wrote }) = &mut operation.answer
            && *index == at as u64
        {
            *told = Some(verdict.to_owned());
            (*code, *failed, *wrote) = (None, Vec::new(), Vec::new());
        }
    }
}

/// Closes the gap after an entry was dropped, in the log and in the answers.
fn renumber(history: &mut History, from: usize) {
    for (index, entry) in history.entries.iter_mut().enumerate().skip(from) {
        entry.leaf["index"] = json!(index);
    }
    for operation in &mut history.operations {
        if let Some(Answered::Entered { index, .. }) = &mut operation.answer
            && *index > from as u64
        {
            *index -= 1;
        }
    }
}

fn doctors() -> impl Iterator<Item = &'static (&'static str, Doctor)> {
    doctors::DOCTORS.iter().chain(people::DOCTORS)
}

#[test]
fn a_doctored_history_is_refused() {
    let mut tried: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unnoticed = Vec::new();
    for seed in 10_000..10_080 {
        let history = record(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        check(&history.operations, &history.entries).unwrap_or_else(|why| panic!("seed {seed}: {why:?}"));
        for (name, doctor) in doctors() {
            let mut doctored = history.clone();
            if doctor(&mut doctored).is_some() {
                if check(&doctored.operations, &doctored.entries).is_ok() {
                    unnoticed.push(format!("seed {seed}: nobody noticed that {name}"));
                }
                *tried.entry(name).or_default() += 1;
            }
        }
    }
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
    for (name, _) in doctors() {
        assert!(tried.contains_key(name), "no history had a place for: {name}");
    }
}
