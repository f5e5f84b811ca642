//! Signatures on requests, judged by somebody else's implementation: a Python library, in a virtual environment of its own
//! under the target folder, with the versions that `interop/requirements.txt` names.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo::succeeds;
use crate::venv;

/// Runs the tests against the binary that cargo has just built; `false` when one failed.
pub fn run(root: &Path) -> Result<bool> {
    let python = venv::python(&venv::target(root).join("interop-venv"), &root.join("interop/requirements.txt"))?;
    let Some(binary) = venv::binary(root)? else { return Ok(false) };
    let mut tests = Command::new(python);
    tests.arg(root.join("interop/test_signatures.py")).env("COUNTERSIGN", binary);
    succeeds(tests)
}
