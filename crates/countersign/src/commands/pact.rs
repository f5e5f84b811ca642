//! `countersign pact`: checking, publishing and exporting the contracts that actions are decided by.

mod check;
mod export;
mod init;
mod list;
mod problems;
mod publish;
mod source;

pub use source::{PactFile, read_all};

use super::Outcome;
use crate::config::Config;
use anyhow::Result;
use clap::Subcommand;

/// Check, publish and export pacts
///
/// A pact is a TOML file that declares facts, action types, their parameters, who may do them, what must hold at the moment
/// of use, and what they write. It is checked as a whole before it can be published, and published versions never change.
#[derive(Debug, Subcommand)]
pub enum PactCommand {
    Init(init::InitArgs),
    Check(check::CheckArgs),
    Publish(publish::PublishArgs),
    Export(export::ExportArgs),
    List(list::ListArgs),
}

/// Runs one of them.
pub fn run(command: &PactCommand, config: &Config) -> Result<Outcome> {
    match command {
        PactCommand::Init(args) => init::run(args),
        PactCommand::Check(args) => check::run(args, config),
        PactCommand::Publish(args) => publish::run(args, config),
        PactCommand::Export(args) => export::run(args),
        PactCommand::List(args) => list::run(args, config),
    }
}
