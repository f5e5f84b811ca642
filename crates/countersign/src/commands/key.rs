//! `countersign key`: key files, and the gate's own key.

mod rotate_log;
mod rotate_token;

use super::Outcome;
use crate::config::Config;
use crate::key_file;
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;

/// Make keys for agents and operators, show their public names, and replace the gate's own
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    New(NewArgs),
    Show(ShowArgs),
    RotateLog(rotate_log::RotateLogArgs),
    RotateToken(rotate_token::RotateTokenArgs),
}

/// Make a new key in a new file, and print its public name
///
/// The private key stays in the file, which only you can read. Give the public name, a did:key, to an admin of the gate, who
/// registers it with `countersign agent new` or `countersign operator new`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign key new refund-1.key")]
pub struct NewArgs {
    /// The file to make; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Print the public name of the key in a file
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign key show refund-1.key")]
pub struct ShowArgs {
    /// The key file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs one of them.
pub fn run(command: &KeyCommand, config: &Config) -> Result<Outcome> {
    let (key, file, json) = match command {
        KeyCommand::New(args) => {
            let key = key_file::create(&args.file)?;
            if !args.json {
                note(format_args!("Made {}, which only you can read. Its public name:", args.file.display()));
            }
            (key, &args.file, args.json)
        }
        KeyCommand::RotateLog(args) => return rotate_log::run(args, config),
        KeyCommand::RotateToken(args) => return rotate_token::run(args, config),
        KeyCommand::Show(args) => (key_file::read(&args.file)?, &args.file, args.json),
    };
    let name = key_file::name(&key);
    if json {
        say_json(&json!({"key": name.as_str(), "file": file}));
    } else {
        say(name);
    }
    Ok(Outcome::Yes)
}
