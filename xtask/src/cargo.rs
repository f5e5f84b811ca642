//! Running cargo from inside a task, always from the root of the workspace and with its output shown as it comes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// A cargo command in the workspace, made with the same cargo that runs this task.
pub fn cargo(root: &Path, words: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(words);
    command
}

/// Runs a command to its end; `false` when it ended with a failure.
pub fn succeeds(mut command: Command) -> Result<bool> {
    let status = command
        .status()
        .with_context(|| format!("{} could not be started", command.get_program().to_string_lossy()))?;
    Ok(status.success())
}

/// Runs the seeded simulator with the given words.
pub fn sim(root: &Path, words: &[String]) -> Result<bool> {
    let mut command = cargo(root, &["run", "--release", "--package", "countersign-testing", "--bin", "sim", "--"]);
    command.args(words);
    succeeds(command)
}

/// Runs every fuzz target for so many seconds. Optimised, because what a fuzzer finds depends on how much it tries.
pub fn fuzz(root: &Path, seconds: u64) -> Result<bool> {
    let mut command = cargo(root, &["test", "--release", "--package", "countersign-testing", "--test", "all"]);
    command.env("FUZZ_SECONDS", seconds.to_string()).args(["--", "fuzz::"]);
    succeeds(command)
}
