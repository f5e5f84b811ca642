//! The Python client: its style, its types, and its tests against the binary, on the real packages that it works with. What
//! the tools keep for themselves goes under the target folder, so the tree stays as it is.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo::succeeds;
use crate::venv;

/// Runs everything against the binary that cargo has just built; `false` when something was found.
pub fn run(root: &Path) -> Result<bool> {
    let client = root.join("clients/python");
    let target = venv::target(root);
    let python = venv::python(&target.join("python-venv"), &client.join("requirements.txt"))?;
    let Some(binary) = venv::binary(root)? else { return Ok(false) };
    let kept = target.join("python-cache");
    let tool = |words: &[&str]| {
        let mut command = Command::new(&python);
        command.arg("-m").args(words).current_dir(&client).env("COUNTERSIGN", &binary);
        command.env("PYTHONPYCACHEPREFIX", kept.join("bytecode")).env("RUFF_CACHE_DIR", kept.join("ruff"));
        command.env("MYPY_CACHE_DIR", kept.join("mypy")).env("PYTEST_ADDOPTS", "-p no:cacheprovider");
        succeeds(command)
    };
    Ok(tool(&["ruff", "format", "--check", "--quiet"])?
        && tool(&["ruff", "check", "--quiet"])?
        && tool(&["mypy"])?
        && tool(&["pytest", "--quiet"])?)
}
