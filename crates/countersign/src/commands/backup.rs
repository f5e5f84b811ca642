//! `countersign backup`: a copy of a data folder that opens, also while a gate runs on it.
//!
//! A plain copy may not: files change while it reads them, and one read late can speak of entries that another, read early, does
//! not have. So files are copied in the order in which nothing can be missing: the anchor first, which says how much there must be,
//! then snapshots, then segments from the newest to the oldest. What a gate appends meanwhile is at the very end, where opening the
//! copy cuts it as it cuts what a crash left. The copy is verified before it is called a backup.

use super::verify;
use super::{Failure, Folder, Outcome};
use crate::config::Config;
use crate::data::{DataFolder, LogFolder};
use crate::terminal::{count, say, say_json};
use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// How often a copy is made anew that does not verify: an erasure may have come between.
const TRIES: usize = 3;

/// Copy a data folder, while its gate runs or not, and verify the copy
///
/// The copy has the ledger, its snapshots and the keys, so keep it as safe as the folder itself. To restore it, stop the gate and put
/// the copy in the folder's place. What was committed after the copy was made is not in it: evidence that others hold of that, given
/// to `countersign verify --against`, shows that the log was put back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign backup backups/monday
  countersign verify --data backups/monday --key gate.vkey

A backup keeps what is erased later. Erasures that the copied log knows of are carried out in it when a gate opens it; to erase
the rest, delete old backups.
Exit codes: 0 the copy is there and verifies, 3 it could not be made")]
pub struct BackupArgs {
    #[command(flatten)]
    folder: Folder,
    /// Where the copy goes; must not exist
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Makes the copy.
pub fn run(args: &BackupArgs, config: &Config) -> Result<Outcome> {
    let from = config.data(args.folder.data.as_deref());
    let key = DataFolder::find(&from)?.log_key()?;
    if args.to.exists() {
        return Err(Failure::usage(format!("{} exists already", args.to.display()))
            .hint("name a folder that is not there yet: one for each backup")
            .into());
    }
    for left in (0..TRIES).rev() {
        copy(&from, &args.to)?;
        match verify::entries(&LogFolder::find(&args.to)?, &key)? {
            Ok(entries) => {
                let entries_told = count(entries, "entry", "entries");
                if args.json {
                    say_json(&json!({"entries": entries, "to": args.to}));
                } else {
                    say(format_args!("copied {entries_told} to {}, and verified the copy", args.to.display()));
                }
                return Ok(Outcome::Yes);
            }
            Err(problem) => {
                fs::remove_dir_all(&args.to).with_context(|| format!("cannot remove {}", args.to.display()))?;
                if left == 0 {
                    return Err(Failure::cannot(format!("the copy does not verify, and was removed: {problem}"))
                        .hint("run `countersign verify` on the folder itself; it says where the log breaks")
                        .into());
                }
            }
        }
    }
    Ok(Outcome::No)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let log = to.join("log");
    fs::create_dir_all(&log).with_context(|| format!("cannot make {}", log.display()))?;
    let names = |folder: &Path| -> Result<Vec<String>> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let files = entries.filter_map(Result::ok).filter(|entry| entry.path().is_file());
        Ok(files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    };
    for name in ["anchor", "nonces", "ahead"] {
        copy_file(&from.join("log").join(name), &log.join(name))?;
    }
    for suffix in [".snap", ".seg"] {
        let mut files: Vec<_> = names(&from.join("log"))?.into_iter().filter(|name| name.ends_with(suffix)).collect();
        files.sort();
        for name in files.iter().rev() {
            copy_file(&from.join("log").join(name), &log.join(name))?;
        }
    }
    let keys = to.join("keys");
    fs::create_dir_all(&keys)?;
    fs::set_permissions(&keys, fs::metadata(from.join("keys"))?.permissions())?;
    for (source, target) in [(from.join("keys"), keys), (from.to_owned(), to.to_owned())] {
        for name in names(&source)? {
            copy_file(&source.join(&name), &target.join(&name))?;
        }
    }
    Ok(())
}

/// Copies one file and syncs it. One that is gone by now was replaced or removed by the gate, and is not needed.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    match fs::copy(from, to) {
        Ok(_) => fs::File::open(to)?.sync_all().with_context(|| format!("cannot sync {}", to.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot copy {} to {}", from.display(), to.display())),
    }
}
