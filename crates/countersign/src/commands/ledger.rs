//! `countersign ledger`: reading entries, and erasing their payloads.

mod erase;
mod list;
mod show;

use super::Outcome;
use crate::config::Config;
use anyhow::Result;
use clap::Subcommand;

/// Read the ledger, and erase payloads from it
#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    List(list::ListArgs),
    Show(show::ShowArgs),
    Erase(erase::EraseArgs),
}

/// Runs one of them.
pub fn run(command: &LedgerCommand, config: &Config) -> Result<Outcome> {
    match command {
        LedgerCommand::List(args) => list::run(args, config),
        LedgerCommand::Show(args) => show::run(args, config),
        LedgerCommand::Erase(args) => erase::run(args, config),
    }
}
