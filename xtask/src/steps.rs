//! The steps of `cargo xtask test`: the whole of CI, and nothing that CI does not run.
//!
//! Steps run in order, cheapest first, and the first failure ends the run; the summary is printed either way. Which steps
//! run depends on the command line alone, never on the environment, so that CI and a laptop agree.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::arguments::FUZZ_SECONDS;
use crate::cargo::{self, cargo, succeeds};
use crate::conform;
use crate::guides;
use crate::interop;
use crate::mcp;
use crate::python;
use crate::setup::{self, Program};
use crate::tidy;

/// How many schedules the long run simulates.
const LONG_SEEDS: &str = "0..200000";

/// How much longer than the short run each fuzz target gets in the long run.
const LONG_FUZZ_FACTOR: u64 = 30;

/// One step: its name, the programs it needs, whether only `--long` runs it, and what it does.
struct Step {
    name: &'static str,
    needs: &'static [&'static Program],
    long: bool,
    run: fn(&Path) -> Result<bool>,
}

const fn step(name: &'static str, needs: &'static [&'static Program], run: fn(&Path) -> Result<bool>) -> Step {
    Step { name, needs, long: false, run }
}

const fn long_step(name: &'static str, needs: &'static [&'static Program], run: fn(&Path) -> Result<bool>) -> Step {
    Step { name, needs, long: true, run }
}

/// Everything there is to run, in order. Golden files are ordinary tests and need no step of their own.
const STEPS: &[Step] = &[
    step("fmt", &[], |root| succeeds(cargo(root, &["fmt", "--all", "--check"]))),
    step("tidy", &[], tidy::run),
    step("clippy", &[&setup::C_COMPILER], |root| {
        succeeds(cargo(root, &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
    }),
    step("test", &[&setup::C_COMPILER, &setup::POSTGRESQL, &setup::STRACE, &setup::CURL, &setup::OPENSSL], |root| {
        // The OpenAPI document is made only where it is compared: nothing else builds what describes the types.
        let document =
            ["test", "--package", "countersign-api", "--features", "document", "--locked", "--test", "golden"];
        let all = succeeds(tests(cargo(root, &["test", "--workspace", "--locked", "--no-fail-fast"])))?;
        Ok(succeeds(tests(cargo(root, &document)))? && all)
    }),
    step("conform", &[&setup::C_COMPILER], conform::run),
    step("interop", &[&setup::C_COMPILER], interop::run),
    step("mcp", &[&setup::C_COMPILER], mcp::run),
    step("python", &[&setup::C_COMPILER], python::run),
    step(
        "guides",
        &[&setup::C_COMPILER, &setup::POSTGRESQL, &setup::NGINX, &setup::CURL, &setup::OPENSSL],
        guides::run,
    ),
    step("docs", &[&setup::C_COMPILER], |root| {
        let mut command = cargo(root, &["doc", "--no-deps", "--workspace", "--locked"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        succeeds(command)
    }),
    long_step("soak", &[&setup::C_COMPILER, &setup::POSTGRESQL], |root| {
        let soaks = &["test", "--release", "--workspace", "--locked", "--no-fail-fast", "--", "--ignored"];
        succeeds(tests(cargo(root, soaks)))
    }),
    long_step("kills", &[&setup::C_COMPILER, &setup::STRACE], |root| {
        let killed = &["test", "--release", "--package", "countersign", "--locked", "--test", "all"];
        let mut command = tests(cargo(root, killed));
        command.env("COUNTERSIGN_LONG", "1").args(["--", "effects::", "attacks::clients::", "--nocapture"]);
        succeeds(command)
    }),
    long_step("interleavings", &[&setup::C_COMPILER], |root| {
        let played = &["test", "--release", "--package", "countersign", "--locked", "--test", "all"];
        let mut command = tests(cargo(root, played));
        command.env("COUNTERSIGN_LONG", "1").args(["--", "mcp::interleaved::", "--nocapture"]);
        succeeds(command)
    }),
    long_step("sim", &[&setup::C_COMPILER], |root| cargo::sim(root, &["--seeds".to_owned(), LONG_SEEDS.to_owned()])),
    long_step("fuzz", &[&setup::C_COMPILER], |root| cargo::fuzz(root, FUZZ_SECONDS * LONG_FUZZ_FACTOR)),
];

/// Golden files must be compared, not rewritten, whatever the caller's environment says; and each decoder is fuzzed for a
/// few seconds on every change.
fn tests(mut command: Command) -> Command {
    command.env("INSTA_UPDATE", "no").env_remove("INSTA_FORCE_PASS").env("FUZZ_SECONDS", FUZZ_SECONDS.to_string());
    command
}

/// What became of one step.
struct Outcome {
    name: &'static str,
    passed: bool,
    took: Duration,
}

/// Runs the steps that were asked for; `false` when one failed.
pub fn run(root: &Path, long: bool, only: Option<&str>) -> Result<bool> {
    let chosen = choose(long, only)?;
    let mut outcomes = Vec::new();
    for step in &chosen {
        let passed = run_one(root, step, &mut outcomes);
        if !passed {
            break;
        }
    }
    let not_run: Vec<&str> = chosen.iter().skip(outcomes.len()).map(|step| step.name).collect();
    print!("{}", summary(&outcomes, &not_run));
    Ok(outcomes.iter().all(|outcome| outcome.passed))
}

fn choose(long: bool, only: Option<&str>) -> Result<Vec<&'static Step>> {
    let Some(name) = only else {
        return Ok(STEPS.iter().filter(|step| long || !step.long).collect());
    };
    match STEPS.iter().find(|step| step.name == name) {
        Some(step) => Ok(vec![step]),
        None => {
            let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            bail!("there is no step {name:?}\nhint: the steps are {}", names.join(", "))
        }
    }
}

fn run_one(root: &Path, step: &Step, outcomes: &mut Vec<Outcome>) -> bool {
    println!("\n==== {} ====", step.name);
    let started = Instant::now();
    let result = setup::provide(step.needs).and_then(|_found| (step.run)(root));
    let passed = match result {
        Ok(passed) => passed,
        Err(error) => {
            eprintln!("error: {error:#}");
            false
        }
    };
    let took = started.elapsed();
    println!("---- {} {} in {:.1} s", step.name, word(passed), took.as_secs_f64());
    outcomes.push(Outcome { name: step.name, passed, took });
    passed
}

/// The table at the end; its last line is always `N passed, M failed`.
fn summary(outcomes: &[Outcome], not_run: &[&str]) -> String {
    let mut text = String::from("\n==== summary ====\n");
    for outcome in outcomes {
        let seconds = outcome.took.as_secs_f64();
        text.push_str(&format!("{:<13} {:<7} {seconds:>7.1} s\n", outcome.name, word(outcome.passed)));
    }
    for name in not_run {
        text.push_str(&format!("{name:<13} not run\n"));
    }
    let passed = outcomes.iter().filter(|outcome| outcome.passed).count();
    text.push_str(&format!("{passed} passed, {} failed\n", outcomes.len() - passed));
    text
}

fn word(passed: bool) -> &'static str {
    if passed { "passed" } else { "FAILED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_ends_with_the_counts() {
        let took = Duration::from_millis(1500);
        let outcomes = [Outcome { name: "fmt", passed: true, took }, Outcome { name: "tidy", passed: false, took }];
        let text = summary(&outcomes, &["clippy"]);
        assert_eq!(text.lines().last(), Some("1 passed, 1 failed"));
        assert!(text.contains("tidy          FAILED"), "{text}");
        assert!(text.contains("clippy        not run"), "{text}");
    }

    #[test]
    fn the_short_run_is_the_long_run_without_its_long_steps() {
        let names = |long| choose(long, None).unwrap().iter().map(|step| step.name).collect::<Vec<_>>();
        assert_eq!(
            names(false),
            ["fmt", "tidy", "clippy", "test", "conform", "interop", "mcp", "python", "guides", "docs"]
        );
        assert!(names(true).starts_with(&names(false)) && names(true).len() > names(false).len());
    }

    #[test]
    fn one_step_can_be_chosen_and_a_made_up_one_is_refused() {
        assert_eq!(choose(false, Some("docs")).unwrap().len(), 1);
        assert!(choose(true, Some("dosc")).is_err());
    }
}
