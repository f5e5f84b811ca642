//! `countersign backup`: a copy of a data folder that opens, also while a gate runs on it.
//!
//! A plain copy may not: files change while it reads them, and one read late can speak of entries that another, read early, does
//! not have. So files are copied in the order in which nothing can be missing: the anchor first, which says how much there must be,
//! then snapshots, then segments from the newest to the oldest. What a gate appends meanwhile is at the very end, where opening the
//! copy cuts it as it cuts what a crash left. The copy is verified before it is called a backup, and gets its name last: an
//! interrupted one must not look like a backup.

use super::verify;
use super::{Exit, Failure, Folder, Outcome};
use crate::config::Config;
use crate::data::{DataFolder, LogFolder, parent, sync_dir};
use crate::terminal::{Report, count, say, say_json};
use anyhow::{Context as _, Result};
use clap::Args;
use countersign_ledger::checkpoint::LogKey;
use serde_json::json;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// How often a copy is made again that does not verify: an erasure may have come between.
const TRIES: usize = 3;

/// Copy a data folder, while its gate runs or not, and verify the copy
///
/// The copy holds the ledger, its snapshots and the private keys, so keep it as safe as the folder itself. To restore it, stop the
/// gate and put the copy in the folder's place. The copy lacks what was committed after it was made; `countersign verify --against`
/// shows that, given a later receipt or checkpoint. It is made as DIR.partial, and renamed when it is whole and verified.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign backup backups/monday
  countersign verify --data backups/monday --log-key gate.vkey

A backup keeps what is erased later. Erasures that the copied log knows of
are carried out when a gate opens the copy. To erase the rest, delete old backups.

Exit codes: 0 the copy is there and verifies, 2 it cannot go where DIR says,
3 it could not be made, and nothing was kept")]
pub struct BackupArgs {
    #[command(flatten)]
    folder: Folder,
    /// Where the copy goes: a new folder, in one that exists
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
    let partial = Partial::begin(&from, &args.to)?;
    let bytes = size(&from);
    let entries = made(&from, &partial, &key).map_err(|error| partial.give_up(&error, bytes))?;
    let entries_told = count(entries, "entry", "entries");
    if args.json {
        say_json(&json!({"entries": entries, "to": args.to}));
    } else {
        say(format_args!("copied {entries_told} to {}, and verified the copy", args.to.display()));
    }
    Ok(Outcome::Yes)
}

/// Copies until the copy verifies, and gives it its name. How many entries it has.
fn made(from: &Path, partial: &Partial, key: &LogKey) -> Result<u64> {
    for left in (0..TRIES).rev() {
        copy(from, &partial.path)?;
        match verify::entries(&LogFolder::find(&partial.path)?, key)? {
            Ok(entries) => {
                partial.finish()?;
                return Ok(entries);
            }
            Err(problem) if left == 0 => {
                let message = format!("the copy does not verify: {}", problem.message);
                return Err(Failure::of_report(Exit::Cannot, Report { message, ..problem })
                    .hint("run `countersign verify` on the folder itself; it says where the log breaks")
                    .into());
            }
            Err(_) => partial.empty()?,
        }
    }
    Err(Failure::cannot("the copy does not verify").into())
}

/// A copy under a name of its own, beside the one that it gets when it is whole: a folder under that name is a backup.
struct Partial {
    path: PathBuf,
    to: PathBuf,
}

impl Partial {
    /// Refuses a place where a backup cannot be meant to go, before anything is made.
    fn begin(from: &Path, to: &Path) -> Result<Self> {
        if to.exists() {
            return Err(Failure::usage(format!("{} exists already", to.display()))
                .hint("name a folder that is not there yet: one for each backup")
                .into());
        }
        let folder = parent(to);
        let Ok(place) = fs::canonicalize(&folder) else {
            return Err(Failure::usage(format!("there is no folder {} to make the copy in", folder.display()))
                .hint("check the name, and that the volume is mounted; or make the folder first")
                .into());
        };
        if fs::canonicalize(from).is_ok_and(|from| place.starts_with(from)) {
            return Err(Failure::usage(format!("{} is inside the data folder itself", to.display()))
                .hint("name a folder elsewhere, best on another disk")
                .into());
        }
        let name = to.file_name().unwrap_or_default().to_string_lossy();
        let path = to.with_file_name(format!("{name}.partial"));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Self { path, to: to.to_owned() }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(Failure::cannot(format!("{} exists already", path.display()))
                    .hint("another backup is making it, or one was killed; in that case remove it first")
                    .into())
            }
            Err(error) => Err(Failure::cannot(format!("cannot make {}: {error}", path.display()))
                .hint(format!("make sure that you may write to {}", folder.display()))
                .into()),
        }
    }

    /// Removes what was copied.
    fn empty(&self) -> Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }

    /// Gives the copy its name, when all of it is durable.
    fn finish(&self) -> Result<()> {
        for folder in [self.path.join("log"), self.path.join("keys"), self.path.clone()] {
            sync_dir(&folder)?;
        }
        fs::rename(&self.path, &self.to).with_context(|| format!("cannot name the copy {}", self.to.display()))?;
        sync_dir(&parent(&self.to)).inspect_err(|_| {
            // Whether its name lasts is not known, so it goes with the rest.
            let _ = fs::rename(&self.to, &self.path);
        })
    }

    /// Removes the copy; the error with what to do about it.
    fn give_up(&self, error: &anyhow::Error, bytes: u64) -> anyhow::Error {
        let kept = match fs::remove_dir_all(&self.path) {
            Ok(()) => "nothing was kept".to_owned(),
            Err(_) => format!("remove {}: it is no backup, and may hold the private key", self.path.display()),
        };
        let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
        let is_full = io.is_some_and(|io| {
            matches!(io.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
        });
        let report = Report::of_error(error);
        let failure = Failure::of_report(Exit::Cannot, report);
        match is_full {
            true => failure.hint(format!("free about {} MiB where {} is; {kept}", mib(bytes), self.to.display())),
            false => failure.hint(kept),
        }
        .into()
    }
}

/// What a copy takes, in whole MiB.
fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20).max(1)
}

/// How many bytes the files of a data folder have.
fn size(from: &Path) -> u64 {
    let files = ["", "log", "keys"].into_iter().filter_map(|part| fs::read_dir(from.join(part)).ok()).flatten();
    files.filter_map(|file| file.ok()?.metadata().ok()).filter(Metadata::is_file).map(|file| file.len()).sum()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let log = to.join("log");
    fs::create_dir(&log).with_context(|| format!("cannot make {}", log.display()))?;
    let names = |folder: &Path| -> Result<Vec<String>> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let files = entries.filter_map(Result::ok).filter(|entry| entry.path().is_file());
        Ok(files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    };
    for name in ["anchor", "nonces", "ahead", "operators-seen"] {
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
    fs::DirBuilder::new().mode(0o700).create(&keys).with_context(|| format!("cannot make {}", keys.display()))?;
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
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot copy {} to {}", from.display(), to.display())),
    }
}
