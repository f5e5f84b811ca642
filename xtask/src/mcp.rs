//! The MCP gateway between the official Python SDK and real servers from the registry, in both revisions and over both
//! transports; in a virtual environment of its own, with the versions that `interop/mcp/requirements.txt` names.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo::succeeds;
use crate::venv;

/// Runs the tests against the binary that cargo has just built; `false` when one failed.
pub fn run(root: &Path) -> Result<bool> {
    let here = root.join("interop/mcp");
    let python = venv::python(&venv::target(root).join("mcp-venv"), &here.join("requirements.txt"))?;
    let Some(binary) = venv::binary(root)? else { return Ok(false) };
    let mut tests = Command::new(python);
    tests.arg("-B").arg(here.join("test_gateway.py")).env("COUNTERSIGN", binary).env("NO_PROXY", "127.0.0.1");
    succeeds(tests)
}
