//! Signatures on requests and the HTTP document, judged by somebody else's implementations: Python libraries, in a virtual
//! environment of their own under the target folder, with the versions that `interop/requirements.txt` names.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo::succeeds;
use crate::venv;

/// Runs the tests against the binary that cargo has just built; `false` when one failed.
pub fn run(root: &Path) -> Result<bool> {
    let python = venv::python(&venv::target(root).join("interop-venv"), &root.join("interop/requirements.txt"))?;
    let Some(binary) = venv::binary(root)? else { return Ok(false) };
    let judged = |test: &str| {
        let mut tests = Command::new(&python);
        tests.arg(root.join("interop").join(test)).env("COUNTERSIGN", &binary);
        succeeds(tests)
    };
    Ok(judged("test_signatures.py")? && judged("test_openapi.py")?)
}
