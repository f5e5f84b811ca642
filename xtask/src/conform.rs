//! `countersign conform`, tested: it passes on the gate as it is, and on a gate that does without one control exactly the requirements
//! turn red that rest on it.
//!
//! The gate that can do without is a build of its own (the feature `sabotage` of the binary and the engine, refused in release builds).
//! Its binary is copied to a temporary folder, and the ordinary one is put back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, succeeds};

/// The variable that names the control to do without.
const VARIABLE: &str = "COUNTERSIGN_SABOTAGE";

/// How many run at once: each spends half of its time waiting.
const AT_ONCE: usize = 2;

/// Each control, and what turns red without it.
const CONTROLS: &[(&str, &str)] = &[
    (
        "preconditions",
        "AG-097-4.2 AG-097-4.3 AG-097-4.4 AG-097-4.5 AG-097-4.7 AG-097-4.11 AG-097-8.1 AG-097-8.2 AG-097-8.3 \
         AG-097-8.4 AG-097-8.5 AG-097-8.6 AG-097-A AG-097-B AG-097-C AG-097-D AG-097-T CONC-1 CONC-2 CONC-4 \
         CONC-5 CONC-6 CONC-7 CONC-8",
    ),
    (
        "last-precondition",
        "AG-097-4.2 AG-097-4.3 AG-097-4.4 AG-097-4.5 AG-097-4.7 AG-097-8.1 AG-097-8.4 AG-097-8.5 AG-097-8.6 \
         AG-097-T CONC-5 CONC-6 CONC-7 CONC-8",
    ),
    ("unchanged", "AG-097-8.1"),
    ("staleness", "AG-097-4.7 AG-097-8.4"),
    (
        "current-facts",
        "AG-097-4.2 AG-097-4.3 AG-097-4.4 AG-097-4.5 AG-097-4.11 AG-097-8.1 AG-097-8.2 AG-097-8.5 AG-097-8.6 \
         AG-097-A AG-097-B AG-097-C AG-097-D AG-097-T CONC-1 CONC-2 CONC-4 CONC-5 CONC-6 CONC-7",
    ),
    ("one-step", "AG-097-4.4 AG-097-8.2 CONC-1 TOOL-1"),
    ("claims", "CONC-3"),
    ("dispatch", "CONC-4"),
    ("approvals", "CONC-8"),
    ("every-reason", "AG-097-4.3"),
    ("gap", "AG-097-4.5 AG-097-8.6"),
    ("roles", "AG-097-4.6"),
    ("observations", "AG-097-8.3"),
    ("nonces", "AG-097-8.3"),
    ("clock", "AG-097-8.4"),
    ("no-locks", "AG-097-4.8"),
    ("documentation", "AG-097-4.1"),
    ("verification", "AG-097-8.6"),
    ("readings", "AG-097-4.2 AG-097-4.3 AG-097-4.4 TOOL-1"),
];

/// Builds both binaries, and checks.
pub fn run(root: &Path) -> Result<bool> {
    let folder = tempfile::tempdir().context("no temporary folder can be made")?;
    let build = ["build", "--workspace", "--locked", "--bin", "countersign"];
    if !succeeds(cargo(root, &[&build[..], &["--features", "countersign/sabotage"]].concat()))? {
        return Ok(false);
    }
    let sabotaged = folder.path().join("countersign");
    std::fs::copy(binary(root), &sabotaged).context("the built program cannot be copied")?;
    if !succeeds(cargo(root, &build))? {
        return Ok(false);
    }
    let runs: Vec<_> = std::iter::once(&("", "")).chain(CONTROLS).collect();
    let next = AtomicUsize::new(0);
    let one_by_one = || {
        let mut well = true;
        while let Some((control, expected)) = runs.get(next.fetch_add(1, Ordering::SeqCst)) {
            well &= is_as_expected(&sabotaged, folder.path(), control, expected)?;
        }
        Ok(well)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one_by_one)).collect();
        let join =
            |thread: ScopedJoinHandle<'_, Result<bool>>| thread.join().unwrap_or_else(|_| bail!("a thread panicked"));
        threads.into_iter().map(join).try_fold(true, |well, found| Ok(well & found?))
    })
}

/// Whether exactly these ids are red without a control.
fn is_as_expected(program: &Path, folder: &Path, control: &str, expected: &str) -> Result<bool> {
    let expected: BTreeSet<String> = expected.split_whitespace().map(str::to_owned).collect();
    let found = red(program, folder, control)?;
    let named = if control.is_empty() { "with every control".to_owned() } else { format!("without {control}") };
    let mut said = format!("{named}: {} red", found.len());
    for id in expected.difference(&found) {
        said.push_str(&format!("\n  {id} should be"));
    }
    for id in found.difference(&expected) {
        said.push_str(&format!("\n  {id} should not be"));
    }
    println!("{said}");
    Ok(found == expected)
}

fn binary(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("debug").join("countersign")
}

/// The ids that fail without a control.
fn red(program: &Path, folder: &Path, control: &str) -> Result<BTreeSet<String>> {
    let mut command = Command::new(program);
    command.args(["conform", "--json"]).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::inherit());
    if !control.is_empty() {
        command.env(VARIABLE, control);
    }
    let output = command.output().context("the built program cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut red = BTreeSet::new();
    for line in text.lines() {
        let finding: serde_json::Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        let id = finding.get("id").and_then(|id| id.as_str()).context("a finding without an id")?;
        if finding.get("state").and_then(|state| state.as_str()) == Some("fail") {
            red.insert(id.to_owned());
        }
    }
    match output.status.code() {
        Some(code @ (0 | 1)) if (code == 1) != red.is_empty() && !text.is_empty() => Ok(red),
        code => bail!("conform ended with {code:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A procedure that no control turns red has never been seen to fail.
    #[test]
    fn every_procedure_has_been_seen_to_fail() {
        let rows = include_str!("../../crates/countersign/src/conform/requirements.toml");
        let rows: toml::Table = rows.parse().unwrap();
        let sections = rows["section"].as_array().unwrap().iter();
        let rows = sections.flat_map(|section| section["row"].as_array().unwrap());
        let with = rows.filter(|row| row.get("conform").is_some()).map(|row| row["id"].as_str().unwrap());
        let red: BTreeSet<&str> = CONTROLS.iter().flat_map(|(_, ids)| ids.split_whitespace()).collect();
        let never: Vec<&str> = with.filter(|id| !red.contains(id)).collect();
        assert_eq!(never, Vec::<&str>::new());
    }
}
