//! Node.js for the steps that run JavaScript: the packages that a lock file pins, installed into a folder under the target
//! folder, together with a copy of the modules that use them, since Node looks for packages beside the module.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::succeeds;
use crate::setup::{self, Program};

/// The oldest version that the tests were seen to pass with.
const MAJOR_MIN: u32 = 18;

const NODE: Program = Program {
    executable: "node",
    also_in: &[],
    package: "nodejs",
    otherwise: "install Node.js, version 20 or later, so that node is in PATH",
};

const NPM: Program = Program {
    executable: "npm",
    also_in: &[],
    package: "npm",
    otherwise: "install npm, which usually comes with Node.js",
};

/// A command that runs `module` of the folder `from` in Node, with the packages that its `package-lock.json` names.
pub fn module(folder: &Path, from: &Path, module: &str) -> Result<Command> {
    let found = setup::provide(&[&NODE, &NPM])?;
    let [node, npm] = found.as_slice() else { bail!("node and npm were not found") };
    check_version(node)?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for name in modules(from)? {
        copy(from, folder, &name)?;
    }
    install(npm, folder, from)?;
    let mut command = Command::new(node);
    command.arg(module).current_dir(folder);
    Ok(command)
}

/// Installs exactly what the lock file says, unless that was done before.
fn install(npm: &Path, folder: &Path, from: &Path) -> Result<()> {
    let lock = from.join("package-lock.json");
    let wanted = std::fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    // Written last, so that half of the packages are never taken for all.
    let made = folder.join("made-from.json");
    if std::fs::read(&made).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    for name in ["package.json", "package-lock.json"] {
        copy(from, folder, name)?;
    }
    let mut install = Command::new(npm);
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]).current_dir(folder);
    if !succeeds(install)? {
        bail!(
            "the packages of {} could not be installed\n\
             hint: the output above says why; they come by name with npm, from wherever npm gets its packages",
            lock.display()
        );
    }
    std::fs::write(&made, wanted).with_context(|| format!("cannot write {}", made.display()))
}

fn check_version(node: &Path) -> Result<()> {
    let output = Command::new(node).arg("--version").output().context("node could not be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    match major(&said) {
        Some(major) if major >= MAJOR_MIN => Ok(()),
        _ => bail!(
            "Node.js is too old for the SDKs that judge the gateway: {} is version {}\nhint: {}",
            node.display(),
            said.trim(),
            NODE.otherwise
        ),
    }
}

/// The first number of `v20.1.2`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn modules(from: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<std::io::Result<Vec<String>>>()?;
    Ok(names.into_iter().filter(|name| PathBuf::from(name).extension().is_some_and(|is| is == "mjs")).collect())
}

fn copy(from: &Path, folder: &Path, name: &str) -> Result<()> {
    let copied = std::fs::copy(from.join(name), folder.join(name));
    copied.map(|_bytes| ()).with_context(|| format!("cannot copy {name} to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_node_is_read() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("20.20.2"), None);
    }
}
