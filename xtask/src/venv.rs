//! Virtual environments for the steps that run Python, under the target folder, each with the versions that a file of
//! requirements pins; and the binary that their tests run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, succeeds};
use crate::setup;

/// Where cargo builds.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The Python of an environment with what `requirements` names; made anew when that has changed.
pub fn python(venv: &Path, requirements: &Path) -> Result<PathBuf> {
    let python = venv.join("bin/python");
    let wanted_text = std::fs::read(requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    // Written last, so that a half-made environment is never taken for a whole one.
    let made = venv.join("made-from.txt");
    if python.is_file() && std::fs::read(&made).is_ok_and(|text| text == wanted_text) {
        return Ok(python);
    }
    setup::provide_if(
        can_make_environments,
        "a Python 3 that can make virtual environments",
        "python3-venv",
        "install Python 3.10 or later with the modules venv and ensurepip",
    )?;
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(venv);
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(requirements);
    if !succeeds(make)? || !succeeds(install)? {
        bail!(
            "the Python libraries of {} could not be installed\n\
             hint: the output above says why; they come by name with pip, from wherever pip gets its packages",
            requirements.display()
        );
    }
    std::fs::write(&made, wanted_text).with_context(|| format!("cannot write {}", made.display()))?;
    Ok(python)
}

/// The binary, built now; `None` where it does not build.
pub fn binary(root: &Path) -> Result<Option<PathBuf>> {
    // As the tests before build it: with other targets, features would unify differently and everything be built again.
    let built = succeeds(cargo(root, &["test", "--workspace", "--locked", "--test", "all", "--no-run"]))?;
    Ok(built.then(|| target(root).join("debug/countersign")))
}

/// Debian splits what makes virtual environments from Python itself, so asking for `python3` is not enough.
fn can_make_environments() -> bool {
    let mut ask = Command::new("python3");
    ask.args(["-c", "import ensurepip, venv"]).stdin(Stdio::null()).stderr(Stdio::null());
    ask.status().is_ok_and(|status| status.success())
}
