//! Making a data folder, all or nothing.
//!
//! A ledger without an admin believes every caller, so a folder whose making was interrupted must never be served; and a folder that
//! is finished must never be made again, since that would wipe its ledger and keys. One file tells the two apart: `origin` is
//! renamed into place as the very last step, when everything else is durable. A folder that has it is finished, whatever else lies
//! in it, and nothing here removes it.
//!
//! Before that, a marker says that `init` is at work, and a lock on it that it still runs. Without `origin`, a marker lets the next
//! `init` remove what was made and begin again. It does so only if the run that left it had written to it, which it does after it has
//! found the folder unused: an empty marker allows nothing. What fails is removed at once.
//!
//! The folder is made in its place and not beside it, since it may be the mount point of a volume, which nothing can be renamed to.

use super::DataFolder;
use crate::commands::Failure;
use crate::hinted::{OrHinted, bail_hinted, hinted};
use anyhow::{Context as _, Result, bail};
use countersign_core::identity::KeyName;
use countersign_engine::gate::Options;
use countersign_ledger::checkpoint::LogKey;
use ed25519_dalek::SigningKey;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The marker. It holds the name of the first admin's key, by which `init` knows the key file of its interrupted run.
const MARKER: &str = "init.unfinished";

/// What the marker holds until it names a key: the run that wrote it found the folder unused.
const BEGUN: &str = "begun";

/// The file that makes a folder a finished one, and what it is called while it is written.
const ORIGIN: &str = "origin";
const ORIGIN_DRAFT: &str = "origin.new";

/// What else is made, in the order in which it is removed.
const MADE: [&str; 4] = [ORIGIN_DRAFT, "log.vkey", "log", "keys"];

/// A data folder that is being made. Dropped before it is finished, it removes what it made.
#[derive(Debug)]
pub struct Draft {
    data: DataFolder,
    /// Held, so that two runs cannot make one folder.
    marker: File,
    made_root: bool,
    earlier: Option<KeyName>,
    is_over: bool,
}

impl Draft {
    /// Begins, or begins again where an earlier run was interrupted. Refuses a folder that a gate has used, and an origin that
    /// cannot name a log, before anything is made.
    pub fn begin(root: &Path, origin: &str) -> Result<Self> {
        refuse_origin(origin)?;
        refuse_used(root, root.join(MARKER).exists())?;
        let made_root = !root.exists();
        fs::create_dir_all(root).or_hinted(|| {
            hinted!(
                "cannot create {}", root.display();
                "make sure that you may write there, or choose another folder with --data"
            )
        })?;
        let (marker, earlier) = hold_marker(root)?;
        let data = DataFolder { root: root.to_owned(), origin: origin.to_owned(), is_new: true };
        let draft = Self { data, marker, made_root, earlier: earlier.trim().parse().ok(), is_over: false };
        if earlier.is_empty() {
            draft.write_marker(BEGUN)?;
        } else {
            draft.sync_marker()?;
        }
        Ok(draft)
    }

    /// The admin's key of the run that was interrupted here.
    pub fn earlier_admin(&self) -> Option<&KeyName> {
        self.earlier.as_ref()
    }

    /// Writes down the key of the admin that the ledger will begin with, before that key's own file is made.
    pub fn mark(&self, admin: &KeyName) -> Result<()> {
        self.write_marker(admin.as_str())
    }

    /// Writes over what the marker held, which is never longer: it is at no moment empty again.
    fn write_marker(&self, text: &str) -> Result<()> {
        self.marker
            .write_all_at(format!("{text}\n").as_bytes(), 0)
            .with_context(|| format!("cannot write {}", self.data.root.join(MARKER).display()))?;
        self.sync_marker()
    }

    fn sync_marker(&self) -> Result<()> {
        self.marker.sync_all()?;
        sync_dir(&self.data.root)?;
        sync_dir(&parent(&self.data.root))
    }

    /// Makes the keys and the files that name the log.
    pub fn make(&self) -> Result<()> {
        let root = &self.data.root;
        remove_made(root)?;
        for name in ["keys", "log"] {
            let path = root.join(name);
            fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        }
        fs::set_permissions(root.join("keys"), fs::Permissions::from_mode(0o700))?;
        for name in ["log", "token"] {
            let mut key = [0; 32];
            getrandom::fill(&mut key).context("the system gives no randomness")?;
            write(&root.join("keys").join(name), &key, 0o600)?;
        }
        let public = self.data.log_key()?;
        write(&root.join("log.vkey"), format!("{public}\n").as_bytes(), 0o644)?;
        write(&root.join(ORIGIN_DRAFT), format!("{}\n", self.data.origin).as_bytes(), 0o644)
    }

    /// Begins the ledger, with the admin in its first batch.
    pub fn begin_ledger(&self, tune: impl FnOnce(Options) -> Options, admin: Option<KeyName>) -> Result<()> {
        let options = Options { first_admin: admin, ..tune(self.data.options()) };
        let (gate, _) = self.data.open(options)?;
        gate.close().map_err(|cause| Failure::cannot(format!("the log was not closed: {cause}")).into())
    }

    /// Makes everything durable; only then may it be finished.
    pub fn sync(&self) -> Result<()> {
        let root = &self.data.root;
        [&root.join("keys"), &root.join("log"), root].into_iter().try_for_each(|folder| sync_dir(folder))
    }

    /// Renames `origin` into place: from here on the folder is finished, and never made again.
    pub fn finish(mut self) -> Result<DataFolder> {
        let root = &self.data.root;
        let finished = fs::rename(root.join(ORIGIN_DRAFT), root.join(ORIGIN));
        finished.with_context(|| format!("cannot finish {}", root.display()))?;
        self.is_over = true;
        // No harm where it cannot be written, or is there already.
        let _ = write(&root.join(".gitignore"), b"*\n", 0o644);
        sync_dir(root)?;
        // A marker that cannot be removed does no harm.
        let _ = fs::remove_file(root.join(MARKER));
        Ok(self.data.clone())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The marker goes last: where something cannot be removed, it stays, and the folder is refused.
        let root = &self.data.root;
        if remove_made(root).is_ok() && fs::remove_file(root.join(MARKER)).is_ok() && self.made_root {
            let _ = fs::remove_dir(root);
        }
    }
}

/// Makes the marker, or takes over that of an interrupted run, for as long as the file is open. Gives it with what it held.
fn hold_marker(root: &Path) -> Result<(File, String)> {
    let path = root.join(MARKER);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut marker = options.open(&path).with_context(|| format!("cannot create {}", path.display()))?;
    match marker.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!("another `countersign init` is making {}", root.display()),
        Err(TryLockError::Error(error)) => return Err(error).context("cannot lock the folder"),
    }
    if !fs::metadata(&path).is_ok_and(|there| marker.metadata().is_ok_and(|ours| there.ino() == ours.ino())) {
        bail!("another `countersign init` has made {}, or given it up", root.display());
    }
    let mut earlier = String::new();
    // What an interrupted run left half-written names no key.
    let _ = marker.read_to_string(&mut earlier);
    // Looked at again under the lock: another run may have finished since.
    if let Err(used) = refuse_used(root, !earlier.is_empty()) {
        // If it stays, it does no harm.
        let _ = fs::remove_file(&path);
        return Err(used);
    }
    Ok((marker, earlier))
}

/// Refuses a folder whose making was interrupted. A marker in a finished one means nothing, and goes.
pub(super) fn refuse_unfinished(root: &Path) -> Result<()> {
    let marker = root.join(MARKER);
    if !marker.exists() {
        return Ok(());
    }
    if root.join(ORIGIN).exists() {
        let _ = fs::remove_file(marker);
        return Ok(());
    }
    bail_hinted!(
        "{} is not finished: the `countersign init` that made it was interrupted", root.display();
        "run `countersign init --data {}` again", root.display()
    )
}

/// Refuses a folder that a gate has used, or may have. What an interrupted run made is not in use.
fn refuse_used(root: &Path, was_begun: bool) -> Result<()> {
    if root.join(ORIGIN).exists() {
        bail_hinted!("{} is a data folder already", root.display(); "use it as it is, or choose another with --data");
    }
    let there = MADE.iter().find(|name| root.join(name).exists());
    if let Some(name) = there.filter(|_| !was_begun) {
        bail_hinted!(
            "{} holds `{name}`, and no `{ORIGIN}`: it may be a data folder that has lost a file", root.display();
            "restore it from a backup, or choose another with --data"
        );
    }
    Ok(())
}

/// The origin is permanent, so one that cannot be meant is refused.
fn refuse_origin(origin: &str) -> Result<()> {
    if let Some((_, rest)) = origin.split_once("://") {
        return Err(Failure::usage(format!(
            "`{origin}` cannot name a log: it has a scheme, and the name is permanent"
        ))
        .hint(format!("a host and a path, such as {}", if rest.is_empty() { "gate.example.com/log" } else { rest }))
        .into());
    }
    let any = SigningKey::from_bytes(&[0; 32]).verifying_key();
    LogKey::new(origin, any).map(drop).with_context(|| format!("`{origin}` cannot name a log"))
}

fn remove_made(root: &Path) -> Result<()> {
    for name in MADE {
        let path = root.join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let written = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Makes the names in a folder durable.
pub fn sync_dir(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.with_context(|| format!("cannot sync {}", path.display()))
}

/// The folder that a path is in.
pub fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
