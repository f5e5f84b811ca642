//! The MCP gateway between the official SDKs and real servers, in both revisions and over both transports: the Python SDK with
//! servers from the registry, in a virtual environment of its own with the versions that `interop/mcp/requirements.txt`
//! names, and the TypeScript SDKs with those of `interop/mcp/package-lock.json`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo::succeeds;
use crate::node;
use crate::venv;

/// Runs the tests against the binary that cargo has just built; `false` when one failed.
pub fn run(root: &Path) -> Result<bool> {
    let here = root.join("interop/mcp");
    let target = venv::target(root);
    let python = venv::python(&target.join("mcp-venv"), &here.join("requirements.txt"))?;
    let mut typescript = node::module(&target.join("mcp-node"), &here, "test_gateway.mjs")?;
    let Some(binary) = venv::binary(root)? else { return Ok(false) };
    // The tests run in folders of their own.
    let [python, binary, here] = [python, binary, here].map(std::path::absolute);
    let (python, binary, here) = (python?, binary?, here?);
    let mut tests = Command::new(&python);
    tests.arg("-B").arg(here.join("test_gateway.py")).env("COUNTERSIGN", &binary).env("NO_PROXY", "127.0.0.1");
    typescript.env("COUNTERSIGN", &binary).env("NO_PROXY", "127.0.0.1").env("BANK_PYTHON", &python);
    typescript.env("BANK", here.join("bank.py")).env("BANK_PACT", here.join("bank.toml"));
    // Servers that people use, guarded without a rule written for any of them. One needs the first SDK, so it has its own environment.
    let sqlite = venv::python(&target.join("mcp-sqlite-venv"), &here.join("requirements-sqlite.txt"))?;
    let beside = |python: &Path, program: &str| python.with_file_name(program);
    let mut as_read = Command::new(&python);
    as_read.arg("-B").arg(here.join("test_as_read.py")).env("COUNTERSIGN", &binary);
    as_read.env("NODE_SERVERS", std::path::absolute(target.join("mcp-node/node_modules/@modelcontextprotocol"))?);
    as_read.env("SQLITE_SERVER", std::path::absolute(beside(&sqlite, "mcp-server-sqlite"))?);
    as_read.env("GIT_SERVER", beside(&python, "mcp-server-git"));
    Ok(succeeds(tests)? && succeeds(typescript)? && succeeds(as_read)?)
}
