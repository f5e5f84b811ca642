//! `countersign conform`, tested: on the gate as it is, every requirement that is claimed as met passes, and on a gate that does without
//! one control exactly those turn red that rest on it. What is compared is the state of every id, so one that turns red beside, one that
//! is not red, one that is no longer claimed and one that is missing all fail.
//!
//! The gate that can do without is a build of its own (the feature `sabotage` of the binary and the engine, refused in release builds).
//! Its binary is copied to a temporary folder, and the ordinary one is put back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, succeeds};
use crate::requirements;

/// The variable that names the control to do without.
const VARIABLE: &str = "COUNTERSIGN_SABOTAGE";

/// The families whose ids `conform` reports on.
const FAMILIES: [&str; 3] = ["AG-097-", "CONC-", "TOOL-"];

/// The state of what does not hold.
const FAIL: &str = "fail";

/// Ids, each with its state.
type States = BTreeMap<String, String>;

/// How many run at once: each waits for the disk, for processes to start and for calls to cool three quarters of its time.
const AT_ONCE: usize = 4;

/// Each control, and what turns red without it.
const CONTROLS: &[(&str, &str)] = &[
    (
        "preconditions",
        "AG-097-4.2 AG-097-4.3 AG-097-4.4 AG-097-4.5 AG-097-4.6 AG-097-4.7 AG-097-4.11 AG-097-8.1 AG-097-8.2 \
         AG-097-8.3 AG-097-8.4 AG-097-8.5 AG-097-8.6 AG-097-A AG-097-B AG-097-C AG-097-D AG-097-T CONC-1 CONC-2 \
         CONC-4 CONC-5 CONC-6 CONC-7 CONC-8",
    ),
    (
        "last-precondition",
        "AG-097-4.2 AG-097-4.3 AG-097-4.4 AG-097-4.5 AG-097-4.7 AG-097-8.1 AG-097-8.3 AG-097-8.4 AG-097-8.5 AG-097-8.6 \
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
    ("roles", "AG-097-4.6 AG-097-8.3"),
    ("observations", "AG-097-8.3"),
    ("nonces", "AG-097-8.3"),
    ("clock", "AG-097-8.4"),
    ("no-locks", "AG-097-4.8"),
    ("documentation", "AG-097-4.1"),
    ("verification", "AG-097-8.6"),
    ("readings", "AG-097-4.2 AG-097-4.3 AG-097-4.4 AG-097-4.5 AG-097-4.6 AG-097-4.11 TOOL-1"),
    ("signatures", "AG-097-4.6 AG-097-8.3"),
    ("durability", "AG-097-8.3 AG-097-8.6 TOOL-1"),
    ("seal", "AG-097-8.3"),
    ("unknown-type", "AG-097-8.5"),
    ("idempotency", "AG-097-8.3"),
    (
        "verdict",
        "AG-097-4.2 AG-097-4.3 AG-097-4.4 AG-097-4.5 AG-097-4.7 AG-097-4.11 AG-097-8.1 AG-097-8.2 AG-097-8.3 \
         AG-097-8.4 AG-097-8.5 AG-097-8.6 AG-097-A AG-097-B AG-097-C AG-097-D AG-097-T CONC-1 CONC-2 CONC-5 \
         CONC-6 CONC-7",
    ),
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
    let rows = std::fs::read_to_string(root.join(requirements::ROWS)).context("the requirements cannot be read")?;
    let claimed = claimed(&rows)?;
    let runs: Vec<_> = std::iter::once(&("", "")).chain(CONTROLS).collect();
    let next = AtomicUsize::new(0);
    let one_by_one = || {
        let mut well = true;
        while let Some((control, red)) = runs.get(next.fetch_add(1, Ordering::SeqCst)) {
            well &= is_as_expected(&sabotaged, folder.path(), control, red, &claimed)?;
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

/// Whether every id is in the state in which it must be without a control.
fn is_as_expected(program: &Path, folder: &Path, control: &str, red: &str, claimed: &States) -> Result<bool> {
    let started = Instant::now();
    let found = states(program, folder, control)?;
    let (found, evidence) = found;
    let differing = differences(&expected(claimed, red), &found);
    let named = if control.is_empty() { "with every control".to_owned() } else { format!("without {control}") };
    let (reds, took) = (found.values().filter(|state| *state == FAIL).count(), started.elapsed().as_secs_f64());
    let mut said = format!("{named}: {reds} red of {} ids, in {took:.1} s", found.len());
    for (id, difference) in &differing {
        let evidence = evidence.get(id).map(String::as_str).unwrap_or_default();
        said.push_str(&format!("\n  {difference} {evidence}"));
    }
    println!("{said}");
    Ok(differing.is_empty())
}

/// What is claimed, with these ids red.
fn expected(claimed: &States, red: &str) -> States {
    let mut expected = claimed.clone();
    expected.extend(red.split_whitespace().map(|id| (id.to_owned(), FAIL.to_owned())));
    expected
}

/// Every id that is not in the state that it should be in, and a sentence that says so.
fn differences(expected: &States, found: &States) -> Vec<(String, String)> {
    let ids: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let word = |states: &States, id: &str| states.get(id).map_or("missing", String::as_str).to_owned();
    let both = ids.into_iter().map(|id| (id, word(found, id), word(expected, id)));
    both.filter(|(_, found, expected)| found != expected)
        .map(|(id, found, expected)| (id.clone(), format!("{id} is {found} and should be {expected}")))
        .collect()
}

/// The states of all ids where every control is in place: what is claimed as met passes.
fn claimed(rows: &str) -> Result<States> {
    let states = requirements::claims(rows)?;
    let states = states.into_iter().filter(|(id, _)| FAMILIES.iter().any(|family| id.starts_with(family)));
    Ok(states.map(|(id, state)| (id, if state == "met" { "pass" } else { "not_yet" }.to_owned())).collect())
}

fn binary(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("debug").join("countersign")
}

/// The state of every id without a control, and its evidence, as `conform` says.
fn states(program: &Path, folder: &Path, control: &str) -> Result<(States, BTreeMap<String, String>)> {
    let mut command = Command::new(program);
    command.args(["conform", "--json"]).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::inherit());
    if !control.is_empty() {
        command.env(VARIABLE, control);
    }
    let output = command.output().context("the built program cannot be started")?;
    let (mut states, mut evidence) = (States::new(), BTreeMap::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let finding: serde_json::Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        let text = |member: &str| finding.get(member).and_then(|text| text.as_str()).map(str::to_owned);
        let (id, state) = text("id").zip(text("state")).with_context(|| format!("not a finding: {line}"))?;
        evidence.insert(id.clone(), finding.get("evidence").map(ToString::to_string).unwrap_or_default());
        if states.insert(id.clone(), state).is_some() {
            bail!("conform reports {id} twice");
        }
    }
    let is_red = states.values().any(|state| state == FAIL);
    match output.status.code() {
        Some(code @ (0 | 1)) if (code == 1) == is_red && !states.is_empty() => Ok((states, evidence)),
        code => bail!("conform ended with {code:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = include_str!("../../crates/countersign/src/conform/requirements.toml");

    /// A procedure that no control turns red has never been seen to fail.
    #[test]
    fn every_procedure_has_been_seen_to_fail() {
        let rows: toml::Table = ROWS.parse().unwrap();
        let sections = rows["section"].as_array().unwrap().iter();
        let rows = sections.flat_map(|section| section["row"].as_array().unwrap());
        let with = rows.filter(|row| row.get("conform").is_some()).map(|row| row["id"].as_str().unwrap());
        let red: BTreeSet<&str> = CONTROLS.iter().flat_map(|(_, ids)| ids.split_whitespace()).collect();
        let never: Vec<&str> = with.filter(|id| !red.contains(id)).collect();
        assert_eq!(never, Vec::<&str>::new());
    }

    #[test]
    fn every_control_that_a_gate_can_do_without_is_tested() {
        let source = include_str!("../../crates/countersign-engine/src/sabotage.rs");
        let named = |line: &'static str| line.trim().strip_suffix("\",")?.split_once(" = \"").map(|(_, name)| name);
        let there: BTreeSet<&str> = source.lines().filter_map(named).collect();
        let tested: BTreeSet<&str> = CONTROLS.iter().map(|(control, _)| *control).collect();
        assert_eq!(there, tested);
    }

    #[test]
    fn any_id_in_another_state_is_told() {
        let claimed = claimed(ROWS).unwrap();
        let expected = expected(&claimed, "CONC-1");
        assert_eq!(differences(&expected, &expected), Vec::new());
        let told = |id: &str, state: Option<&str>| {
            let mut found = expected.clone();
            match state {
                Some(state) => found.insert(id.to_owned(), state.to_owned()),
                None => found.remove(id),
            };
            differences(&expected, &found).into_iter().map(|(_, said)| said).collect::<Vec<_>>()
        };
        assert_eq!(told("CONC-2", Some("fail")), ["CONC-2 is fail and should be pass"]);
        assert_eq!(told("CONC-1", Some("pass")), ["CONC-1 is pass and should be fail"]);
        assert_eq!(told("CONC-2", Some("not_yet")), ["CONC-2 is not_yet and should be pass"]);
        assert_eq!(told("AG-097-P", Some("pass")), ["AG-097-P is pass and should be not_yet"]);
        assert_eq!(told("CONC-2", None), ["CONC-2 is missing and should be pass"]);
        assert_eq!(told("CONC-99", Some("pass")), ["CONC-99 is pass and should be missing"]);
    }
}
