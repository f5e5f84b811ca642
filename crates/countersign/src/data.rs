//! The data folder of a gate: its keys, its origin, and opening it.
//!
//! Keys rest in `keys/` with mode 0600 and are made once. Anyone who holds the folder is the gate; `verify` and `audit` need
//! only what is public in it.

mod draft;
mod token_keys;

pub use draft::{Draft, parent, sync_dir};

use crate::commands::Failure;
use crate::hinted::{OrHinted, bail_hinted, hinted};
use anyhow::{Context, Result};
use countersign_engine::clock::SystemClock;
use countersign_engine::gate::{Environment, Gate, OpenError, OpenReport, Options};
use countersign_engine::log_key::{HeldKey, KeyFiles};
use countersign_engine::storage::StorageError;
use countersign_engine::storage::disk::{Disk as _, RealDisk};
use countersign_ledger::checkpoint::{Checkpoint, LogKey};
use ed25519_dalek::SigningKey;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do where another process has a folder.
pub const ONE_GATE: &str = "one gate per folder; stop that process first";

/// A data folder that has been initialised.
#[derive(Debug, Clone)]
pub struct DataFolder {
    root: PathBuf,
    /// The log's origin.
    pub origin: String,
    /// Whether it was made just now, so that its ledger may begin.
    is_new: bool,
}

impl DataFolder {
    /// Makes a new data folder for a ledger that begins when it is first opened through what is returned here.
    pub fn create(root: &Path, origin: &str) -> Result<Self> {
        let draft = Draft::begin(root, origin)?;
        draft.make()?;
        draft.sync()?;
        draft.finish()
    }

    /// Finds an initialised data folder.
    pub fn find(root: &Path) -> Result<Self> {
        draft::refuse_unfinished(root)?;
        let origin = fs::read_to_string(root.join("origin")).or_hinted(|| {
            let shown = root.display();
            hinted!("{shown} is not a data folder"; "make one with `countersign init --data {shown}`")
        })?;
        Ok(Self { root: root.to_owned(), origin: origin.trim().to_owned(), is_new: false })
    }

    /// The folder of the log's own files.
    pub fn log_dir(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The log's public key, made from its private one.
    pub fn log_key(&self) -> Result<LogKey> {
        let key = SigningKey::from_bytes(&self.key("log")?);
        LogKey::new(&self.origin, key.verifying_key()).with_context(|| format!("`{}` cannot name a log", self.origin))
    }

    /// The options of a gate on this folder.
    pub fn options(&self) -> Options {
        Options {
            may_begin: self.is_new,
            #[cfg(feature = "sabotage")]
            without: crate::sabotage::control(),
            ..Options::new(self.origin.clone())
        }
    }

    /// What a gate on this folder needs from the world.
    pub fn environment(&self) -> Result<Environment> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).context("the system gives no randomness")?;
        let dir = self.log_dir();
        Ok(Environment {
            disk: Arc::new(open_disk(&dir)?),
            clock: Arc::new(SystemClock::default()),
            seed,
            log_key: self.held_key()?,
            token_key: self.key("token")?,
        })
    }

    /// The key that signs the log, with its files, so that it can be rotated.
    fn held_key(&self) -> Result<HeldKey> {
        let keys = self.root.join("keys");
        check_mode(&keys.join("log"))?;
        if keys.join("log.next").exists() {
            check_mode(&keys.join("log.next"))?;
        }
        let files = KeyFiles::new(Arc::new(open_disk(&keys)?), Arc::new(open_disk(&self.root)?));
        HeldKey::load(files)
            .with_context(|| format!("cannot read the key in {}; restore it from a backup", keys.display()))
    }

    /// Opens the gate.
    pub fn open(&self, options: Options) -> Result<(Gate, OpenReport)> {
        let options = Options { old_token_keys: token_keys::old(&self.keys_dir())?, ..options };
        Gate::open(self.environment()?, options).map_err(|error| match error {
            OpenError::Storage(StorageError::Locked { holder }) => Failure::cannot(holder).hint(ONE_GATE).into(),
            error => error.into(),
        })
    }

    /// Replaces the key that seals observation tokens, or makes one where it is missing. No gate may hold the folder, since it would
    /// go on with the old one.
    pub fn rotate_token_key(&self) -> Result<token_keys::Rotated> {
        let dir = self.log_dir();
        let log = open_disk(&dir)?;
        let _held = log.lock().or_hinted(
            || hinted!("{} is in use", self.root.display(); "end the gate first; it reads its keys when it starts"),
        )?;
        let current = match self.keys_dir().join("token").exists() {
            true => Some(self.key("token")?),
            false => None,
        };
        token_keys::rotate(&self.keys_dir(), current.as_ref())
    }

    fn keys_dir(&self) -> PathBuf {
        self.root.join("keys")
    }

    fn key(&self, name: &str) -> Result<[u8; 32]> {
        let path = self.root.join("keys").join(name);
        check_mode(&path)?;
        let bytes = fs::read(&path)?;
        bytes
            .try_into()
            .map_err(|_| anyhow::anyhow!("key {} has not 32 bytes; restore it from a backup", path.display()))
    }
}

/// Opens a folder of files.
fn open_disk(folder: &Path) -> Result<RealDisk> {
    RealDisk::open(folder).or_hinted(|| hinted!("cannot open {}", folder.display(); "{OPEN_HINT}"))
}

/// What to do about a folder that is there in part, or not for this user.
const OPEN_HINT: &str = "run this as the user that the folder belongs to; if it is missing, restore it from a backup";

fn check_mode(path: &Path) -> Result<()> {
    let mode = match fs::metadata(path) {
        Ok(found) => found.permissions().mode(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail_hinted!("key {} is missing", path.display(); "{}", without(path))
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read key {}", path.display())),
    };
    if mode & 0o077 != 0 {
        bail_hinted!(
            "key {} can be read by others (mode {:o})", path.display(), mode & 0o777;
            "chmod 600 {}; if others could read it, rotate it with `countersign key rotate-log` or `countersign key \
             rotate-token`", path.display()
        );
    }
    Ok(())
}

/// What to do without a key.
fn without(path: &Path) -> String {
    let folder = path.parent().and_then(Path::parent).unwrap_or(path);
    match path.file_name().and_then(|name| name.to_str()) {
        Some("token") => format!("make a new one with `countersign key rotate-token --data {}`", folder.display()),
        _ => "restore it from your store of secrets; without it the log cannot be continued".to_owned(),
    }
}

/// The log in a folder, for those who only read it: no lock, no secret, nothing written.
#[derive(Debug, Clone)]
pub struct LogFolder {
    root: PathBuf,
    log: PathBuf,
}

impl LogFolder {
    /// Finds the log in a data folder, or in a copy of its log folder alone.
    pub fn find(root: &Path) -> Result<Self> {
        let log = if root.join("log").is_dir() { root.join("log") } else { root.to_owned() };
        let names = fs::read_dir(&log).or_hinted(
            || hinted!("cannot read {}", log.display(); "name the data folder of a gate, or a copy of it, with --data"),
        )?;
        let is_segment = |path: PathBuf| path.extension().is_some_and(|extension| extension == "seg");
        if !names.filter_map(Result::ok).any(|entry| is_segment(entry.path())) {
            bail_hinted!("{} holds no log", root.display(); "name the data folder of a gate that has run, or a copy of it, with --data");
        }
        Ok(Self { root: root.to_owned(), log })
    }

    /// The disk to read it from.
    pub fn disk(&self) -> Result<RealDisk> {
        open_disk(&self.log)
    }

    /// The key that lies in the folder. It says who the log claims to be, which is no proof of it.
    pub fn public_key(&self) -> Result<LogKey> {
        let path = self.root.join("log.vkey");
        let text = fs::read_to_string(&path)
            .or_hinted(|| hinted!("cannot read {}", path.display(); "give the log's public key with --key"))?;
        text.trim().parse().with_context(|| format!("{} holds no public key of a log", path.display()))
    }

    /// How many entries its anchor speaks of; only good for showing progress, since nothing is verified.
    pub fn expected_size(&self) -> Option<u64> {
        let anchor = fs::read_to_string(self.log.join("anchor")).ok()?;
        Checkpoint::parse_unverified(&anchor).ok().map(|checkpoint| checkpoint.size)
    }
}
