//! Signatures on requests, judged by somebody else's implementation: a Python library, in a virtual environment of its own
//! under the target folder, with the versions that `interop/requirements.txt` names.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, succeeds};
use crate::setup;

/// Runs the tests against the binary that cargo has just built; `false` when one failed.
pub fn run(root: &Path) -> Result<bool> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let python = environment(root, &target.join("interop-venv"))?;
    // As the tests before build it: with other targets, features would unify differently and everything be built again.
    if !succeeds(cargo(root, &["test", "--workspace", "--locked", "--test", "cli", "--no-run"]))? {
        return Ok(false);
    }
    let mut tests = Command::new(python);
    tests.arg(root.join("interop/test_signatures.py")).env("COUNTERSIGN", target.join("debug/countersign"));
    succeeds(tests)
}

/// A virtual environment with what the tests need; made anew when that has changed.
fn environment(root: &Path, venv: &Path) -> Result<PathBuf> {
    let python = venv.join("bin/python");
    let wanted = root.join("interop/requirements.txt");
    let wanted_text = std::fs::read(&wanted).with_context(|| format!("cannot read {}", wanted.display()))?;
    // Written last, so that a half-made environment is never taken for a whole one.
    let made = venv.join("made-from.txt");
    if python.is_file() && std::fs::read(&made).is_ok_and(|text| text == wanted_text) {
        return Ok(python);
    }
    setup::provide_if(
        can_make_environments,
        "a Python 3 that can make virtual environments",
        "python3-venv",
        "install Python 3.9 or later with the modules venv and ensurepip",
    )?;
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(venv);
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&wanted);
    if !succeeds(make)? || !succeeds(install)? {
        bail!(
            "the Python libraries of the interoperability tests could not be installed\n\
             hint: the output above says why; they come by name with pip, from wherever pip gets its packages"
        );
    }
    std::fs::write(&made, wanted_text).with_context(|| format!("cannot write {}", made.display()))?;
    Ok(python)
}

/// Debian splits what makes virtual environments from Python itself, so asking for `python3` is not enough.
fn can_make_environments() -> bool {
    let mut ask = Command::new("python3");
    ask.args(["-c", "import ensurepip, venv"]).stdin(Stdio::null()).stderr(Stdio::null());
    ask.status().is_ok_and(|status| status.success())
}
