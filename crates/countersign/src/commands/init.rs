//! `countersign init`: a new data folder.

use super::{Folder, Outcome};
use crate::config::Config;
use crate::data::{DataFolder, Draft};
use crate::key_file::{self, NewFile};
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_core::identity::KeyName;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The origin of a log whose operator named none; good enough for one machine.
const ORIGIN: &str = "countersign.local/log";

/// Make a data folder with its keys, and the key of its first admin
///
/// The folder will hold the ledger and the two secret keys of a gate: one signs the log, one seals observations. Prints the
/// log's public key. Give that key to everyone who should be able to check the log: with it, `countersign verify` trusts no one.
///
/// The admin's key is made in a file of its own, outside of the folder: it is yours and not the gate's, which is given its
/// public name only. The first admin has every role; name others with `countersign operator new`, each with what it needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign init
  countersign init --data gate-data --origin gate.example.com/log --admin-key ~/gate-admin.key
  countersign init --open               no admin: every caller is believed, on loopback only; for trying things out")]
pub struct InitArgs {
    #[command(flatten)]
    folder: Folder,
    /// The log's name, which no other log may have: a host and a path, without a scheme
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_ORIGIN", hide_env_values = true)]
    origin: Option<String>,
    /// Make the admin's key in this file, which must not exist
    #[arg(long, value_name = "FILE", default_value = "admin.key", conflicts_with = "open")]
    admin_key: PathBuf,
    /// Make an open gate, without an admin: callers are believed, and it listens on loopback only
    #[arg(long)]
    open: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Makes the folder.
pub fn run(args: &InitArgs, config: &Config) -> Result<Outcome> {
    let data = config.data(args.folder.data.as_deref());
    let origin = args.origin.as_deref().or(config.origin.as_deref()).unwrap_or(ORIGIN);
    let (folder, admin) = make(args, config, &data, origin)?;
    let key = folder.log_key()?.to_string();
    let shown = data.display();
    if args.json {
        let mut made = json!({"data": data, "origin": folder.origin, "log_key": key});
        if let (Some(admin), Some(made)) = (&admin, made.as_object_mut()) {
            made.insert("admin".to_owned(), json!({"name": "admin", "key": admin.as_str(), "file": args.admin_key}));
        }
        say_json(&made);
        return Ok(Outcome::Yes);
    }
    note(format_args!("Made {shown} for the log {}. Its public key, also in {shown}/log.vkey:", folder.origin));
    say(key);
    let mut sign = String::new();
    if let Some(admin) = &admin {
        let file = args.admin_key.display();
        note(format_args!(
            "\nThe admin is {admin}\nIts private key is in {file}, and nowhere else: the gate never saw it, and this is the only time \
             that you\nare told. Keep it, and a copy of it, where only you can read it: without it no one can name another admin."
        ));
        sign = format!("  export COUNTERSIGN_KEY={file}\n");
    } else {
        note("\nThe gate is open: it has no admin, believes every caller, and listens on loopback only.");
    }
    note(format_args!(
        "\nNext:\n  keep {shown}/keys secret and backed up; hand out the public key\n{sign}  countersign serve --data {shown}\n  \
         countersign pact publish my-pact.toml"
    ));
    Ok(Outcome::Yes)
}

/// Makes the folder of an open gate, for one agent that tries something out.
pub fn make_open(config: &Config, data: &Path) -> Result<()> {
    let draft = Draft::begin(data, ORIGIN)?;
    draft.make()?;
    draft.begin_ledger(|options| config.tune(options), None)?;
    draft.sync()?;
    draft.finish().map(drop)
}

/// Makes the folder with its ledger, and the admin's key; where that fails, neither is left.
fn make(args: &InitArgs, config: &Config, data: &Path, origin: &str) -> Result<(DataFolder, Option<KeyName>)> {
    let draft = Draft::begin(data, origin)?;
    let key = if args.open { None } else { Some(admin_key(&draft, &args.admin_key)?) };
    let admin = key.as_ref().map(|key| key.name().clone());
    draft.make()?;
    draft.begin_ledger(|options| config.tune(options), admin.clone())?;
    draft.sync()?;
    // From here on the folder may be whole, whatever is reported: its admin's key is kept.
    if let Some(key) = key {
        key.keep();
    }
    Ok((draft.finish()?, admin))
}

/// The admin's key: a new one, or that of a run on this folder that was interrupted.
fn admin_key(draft: &Draft, file: &Path) -> Result<NewFile> {
    if let Some(earlier) = draft.earlier_admin()
        && let Ok(key) = key_file::read(file)
        && key_file::name(&key) == *earlier
    {
        return Ok(NewFile::found(file, &key));
    }
    let key = key_file::generate()?;
    draft.mark(&key_file::name(&key))?;
    NewFile::write(file, &key)
}
