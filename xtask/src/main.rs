//! The project's own tasks, run as `cargo xtask <task>`.
//!
//! `cargo xtask test` is the one command that CI runs and that a contributor runs before pushing; there is no second
//! list of steps anywhere else. Tasks are plain Rust so that a machine with Rust and a C compiler needs nothing more.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "tests may panic"
    )
)]

mod arguments;
mod cargo;
mod conform;
mod guides;
mod interop;
mod mcp;
mod node;
mod python;
mod requirements;
mod setup;
mod steps;
mod tidy;
mod venv;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use arguments::Task;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs one task; `false` means that the task ran and found something wrong.
fn run(words: &[String]) -> Result<bool> {
    let root = workspace_root()?;
    match arguments::parse(words)? {
        Task::Help => {
            print!("{}", arguments::HELP);
            Ok(true)
        }
        Task::Test { long, only } => steps::run(&root, long, only.as_deref()),
        Task::Tidy => tidy::run(&root),
        Task::Requirements => requirements::write(&root),
        Task::Sim { passed_on } => cargo::sim(&root, &passed_on),
        Task::Fuzz { seconds } => cargo::fuzz(&root, seconds),
    }
}

/// The root of the workspace: cargo says where this package is when it runs it, and else the current folder is inside.
/// It is asked at run time because a target folder may be shared by several copies of the repository.
fn workspace_root() -> Result<PathBuf> {
    let current = std::env::current_dir().context("the current folder cannot be read")?;
    let inside = std::env::var_os("CARGO_MANIFEST_DIR").map_or(current, PathBuf::from);
    match inside.ancestors().find(|folder| folder.join("Cargo.lock").is_file()) {
        Some(root) => Ok(root.to_path_buf()),
        None => bail!("no Cargo.lock in {} or above it\nhint: run this inside the repository", inside.display()),
    }
}
