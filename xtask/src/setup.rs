//! Makes sure that the programs a step needs are there, and installs them where that is possible.
//!
//! A fresh machine has Rust and a C compiler and nothing else. As root with `apt-get` a missing program is installed by
//! its Debian package; anywhere else the task says exactly what to install and fails. It never continues without a
//! program: a test that skips itself when something is missing passes for the wrong reason.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A program that a step needs, and how to get it.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of its executable.
    pub executable: &'static str,
    /// Folders to look in besides `PATH`; one component may be `*`.
    pub also_in: &'static [&'static str],
    /// The Debian package that brings it.
    pub package: &'static str,
    /// What a person on another system should do.
    pub otherwise: &'static str,
}

/// The linker and the C parts of dependencies need a compiler.
pub const C_COMPILER: Program = Program {
    executable: "cc",
    also_in: &[],
    package: "gcc",
    otherwise: "install a C compiler (gcc or clang) that answers to the name cc",
};

/// The bench compares with a private PostgreSQL server, which Debian keeps out of `PATH`.
pub const POSTGRESQL: Program = Program {
    executable: "initdb",
    also_in: &["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"],
    package: "postgresql",
    otherwise: "install a PostgreSQL server, version 14 or later, so that initdb is in PATH",
};

/// A test kills the gate at chosen system calls.
pub const STRACE: Program = Program {
    executable: "strace",
    also_in: &[],
    package: "strace",
    otherwise: "install strace, and let processes trace their own children",
};

/// The guide to operations puts the gate behind it.
pub const NGINX: Program = Program {
    executable: "nginx",
    also_in: &["/usr/sbin"],
    package: "nginx-light",
    otherwise: "install nginx, so that it is in PATH",
};

/// Tests and guides ask the gate over HTTP with it.
pub const CURL: Program =
    Program { executable: "curl", also_in: &[], package: "curl", otherwise: "install curl, so that it is in PATH" };

/// Tests and guides speak TLS with it, and guides make certificates with it.
pub const OPENSSL: Program = Program {
    executable: "openssl",
    also_in: &[],
    package: "openssl",
    otherwise: "install OpenSSL 3 or later, so that openssl is in PATH",
};

/// Finds each program or installs it; the answer says where each one is.
pub fn provide(programs: &[&Program]) -> Result<Vec<PathBuf>> {
    programs.iter().map(|program| provide_one(program)).collect()
}

fn provide_one(program: &Program) -> Result<PathBuf> {
    if let Some(found) = find(program) {
        println!("{} is {}", program.executable, found.display());
        return Ok(found);
    }
    if !(running_as_root() && find_in_path("apt-get").is_some()) {
        bail!(
            "{} was not found\nhint: {}; on Debian or Ubuntu: sudo apt-get install {}",
            program.executable,
            program.otherwise,
            program.package
        );
    }
    println!("{} was not found, installing the package {}", program.executable, program.package);
    install(program.package)?;
    find(program).with_context(|| {
        format!(
            "the package {} is installed, and {} is still not found\nhint: {}",
            program.package, program.executable, program.otherwise
        )
    })
}

/// Makes sure of something that is not one executable: asks, and where the answer is no, installs a package and asks again.
pub fn provide_if(is_there: fn() -> bool, what: &str, package: &str, otherwise: &str) -> Result<()> {
    if is_there() {
        return Ok(());
    }
    if !(running_as_root() && find_in_path("apt-get").is_some()) {
        bail!("{what} was not found\nhint: {otherwise}; on Debian or Ubuntu: sudo apt-get install {package}");
    }
    println!("{what} was not found, installing the package {package}");
    install(package)?;
    if is_there() {
        Ok(())
    } else {
        bail!("the package {package} is installed, and {what} is still not found\nhint: {otherwise}")
    }
}

/// Installs a Debian package. The package lists of a fresh container are empty, so they are read and the installation is
/// tried once more when the first attempt fails.
fn install(package: &str) -> Result<()> {
    let install = ["install", "--yes", "--no-install-recommends", package];
    if apt_get(&install)? {
        return Ok(());
    }
    if apt_get(&["update"])? && apt_get(&install)? {
        return Ok(());
    }
    bail!("apt-get could not install {package}\nhint: its output above says why; install it by hand and run this again")
}

fn apt_get(words: &[&str]) -> Result<bool> {
    let status = Command::new("apt-get")
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .context("apt-get could not be started")?;
    Ok(status.success())
}

fn find(program: &Program) -> Option<PathBuf> {
    find_in_path(program.executable).or_else(|| {
        program
            .also_in
            .iter()
            .flat_map(|pattern| folders(pattern))
            .find_map(|folder| executable(&folder, program.executable))
    })
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|folder| executable(&folder, name))
}

fn executable(folder: &Path, name: &str) -> Option<PathBuf> {
    let candidate = folder.join(name);
    candidate.is_file().then_some(candidate)
}

/// The folders that a pattern with at most one `*` stands for, the highest name first, so that the newest version wins.
fn folders(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![PathBuf::from(pattern)];
    };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or((".", before));
    let mut found: Vec<PathBuf> = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path().join(after.trim_start_matches('/')))
        .filter(|folder| folder.is_dir())
        .collect();
    found.sort();
    found.reverse();
    found
}

/// Asks `id` because the standard library does not tell and one more dependency is not worth the answer.
fn running_as_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_path_is_found_and_a_made_up_one_is_not() {
        assert!(find_in_path("sh").is_some());
        assert_eq!(find_in_path("no-program-has-this-name"), None);
    }

    #[test]
    fn a_pattern_stands_for_the_folders_that_exist_newest_first() {
        let root = std::env::temp_dir().join(format!("countersign-xtask-setup-{}", std::process::id()));
        for version in ["14/bin", "15/bin", "16"] {
            std::fs::create_dir_all(root.join(version)).unwrap();
        }
        let found = folders(&format!("{}/*/bin", root.display()));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, vec![root.join("15/bin"), root.join("14/bin")]);
    }
}
