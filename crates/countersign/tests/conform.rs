//! `countersign conform` as it is run: its output, its exit codes, and on a gate that someone else runs. That each procedure can fail is
//! tested by `cargo xtask test --only conform`.

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn countersign(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.args(args).current_dir(folder).env_clear().output().unwrap()
}

fn findings(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let findings: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(output.status.success(), "{findings:#?} {}", String::from_utf8_lossy(&output.stderr));
    findings
}

#[test]
fn every_action_type_of_every_example_has_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let types = findings(&countersign(&["conform", "--report", "--json"], folder.path()));
    let named = |pact: &str| types.iter().filter(|swept| swept["pact"] == pact).count();
    assert_eq!((types.len(), named("treatment"), named("transfer")), (14, 1, 2));
    for swept in &types {
        assert!(swept["changed_back"].is_u64(), "{swept}");
        for precondition in swept["preconditions"].as_array().unwrap() {
            let all = ["changed", "broken", "recorded"].map(|found| precondition[found].is_u64());
            assert_eq!(all, [true; 3], "{swept}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn ids_can_be_chosen_and_one_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let found = findings(&countersign(&["conform", "--json", "--only", "CONC-2", "AG-097-4.9"], folder.path()));
    let states: Vec<_> =
        found.iter().map(|found| (found["id"].as_str().unwrap(), found["state"].as_str().unwrap())).collect();
    assert_eq!(states, [("AG-097-4.9", "not_yet"), ("CONC-2", "pass")]);
    assert_eq!(found[1]["evidence"]["reasons"][0], "account-is-active");
    let refused = countersign(&["conform", "--only", "CONC-99"], folder.path());
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stdout.is_empty());
}

/// A gate that runs; killed when dropped.
struct Gate(Child, String);

impl Gate {
    fn start(folder: &Path) -> Self {
        let made = countersign(&["init", "--data", "data"], folder);
        assert!(made.status.success(), "{made:?}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_countersign"))
            .args(["serve", "--data", "data", "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines.by_ref().find_map(|line| line.unwrap().strip_prefix("Listening on ").map(str::to_owned));
        std::thread::spawn(move || lines.for_each(drop));
        Self(child, url.unwrap())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_gate_of_someone_elses_is_tested_twice_and_nothing_of_its_own_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::start(folder.path());
    let target = ["conform", "--target", &gate.1, "--key", "admin.key", "--json"];
    let found = findings(&countersign(&target, folder.path()));
    let state = |id: &str| found.iter().find(|found| found["id"] == id).unwrap()["state"].as_str().unwrap();
    for id in ["AG-097-4.1", "AG-097-8.1", "AG-097-8.2", "AG-097-D", "CONC-1", "CONC-7", "CONC-8"] {
        assert_eq!(state(id), "pass", "{id}");
    }
    // What would kill it, set its clock, read its files or have it call a service.
    for id in ["AG-097-8.3", "AG-097-8.4", "AG-097-8.6", "AG-097-T", "CONC-3", "CONC-4"] {
        assert_eq!(state(id), "not_yet", "{id}");
    }
    // What the first run left behind is not in the way of the second.
    let again = [&target[..], &["--only", "AG-097-4.2", "AG-097-8.1", "AG-097-B", "CONC-5", "CONC-8"]].concat();
    for found in findings(&countersign(&again, folder.path())) {
        assert_eq!(found["state"], "pass", "{found}");
    }
    let listed = countersign(&["pact", "list", "--server", &gate.1, "--key", "admin.key", "--json"], folder.path());
    let pacts: Value = serde_json::from_slice(&listed.stdout).unwrap();
    for pact in pacts["pacts"].as_array().unwrap() {
        assert!(pact["name"].as_str().unwrap().starts_with("conform-"), "{pact}");
        for ty in pact["facts"].as_array().unwrap() {
            assert!(ty.as_str().unwrap().starts_with("Conform"), "{pact}");
        }
    }
}
