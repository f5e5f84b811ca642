//! The gate's own key, with which it signs checkpoints and snapshots, and its rotation.
//!
//! A rotation must survive a crash at every step: whatever the log's last key is, its private half must be in a file by then.
//! So the next key is durable in a file of its own before the entry that names it is written; the entry decides; and only then
//! does the file take the old one's place. Anyone who opens the folder in between asks the log which of the two is current.
//!
//! Two stages move at two times: the encoding stage signs with the next key as soon as it has signed the rotation with both,
//! while readers and snapshots see it when the rotation is durable.

mod files;

pub use files::KeyFiles;

use countersign_ledger::checkpoint::{KeyChain, KeyError, LogKey};
use ed25519_dalek::SigningKey;
use parking_lot::Mutex;
use std::io;

/// The private key that a gate is opened with, and where it rests.
pub struct HeldKey {
    current: SigningKey,
    /// The key of a rotation that was under way when the gate last stopped.
    next: Option<SigningKey>,
    files: Option<KeyFiles>,
}

impl HeldKey {
    /// Reads the key from its files.
    ///
    /// # Errors
    /// If there is no key, or a file does not hold one.
    pub fn load(files: KeyFiles) -> io::Result<Self> {
        let (current, next) = files.read()?;
        Ok(Self { current, next, files: Some(files) })
    }
}

/// A key that is in no file of the gate's: it cannot be rotated.
impl From<SigningKey> for HeldKey {
    fn from(current: SigningKey) -> Self {
        Self { current, next: None, files: None }
    }
}

/// Why the key cannot be rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The key is in no file, so that a new one would be lost with the process.
    #[error("the gate was not given the files of its key, so a new key could not be kept")]
    NoFiles,
    /// Another rotation has not ended.
    #[error("another rotation of the log's key is under way; wait for it, or restart the gate if it failed")]
    UnderWay,
    /// The key is not one that a log can have.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// A key file cannot be written.
    #[error("cannot write the key files: {0}; check free space and permissions of the folder `keys`")]
    Io(#[from] io::Error),
}

/// The key of a rotation to come, durable in its file. Only [`LogKeys::prepare`] makes one.
#[derive(Debug)]
pub struct NextKey(LogKey);

impl NextKey {
    /// Its public half.
    #[must_use]
    pub fn public(&self) -> &LogKey {
        &self.0
    }
}

/// The keys of an open gate, shared by its stages.
pub struct LogKeys {
    origin: String,
    files: Option<KeyFiles>,
    slots: Mutex<Slots>,
}

struct Slots {
    current: Pair,
    /// Durable in its file; no durable entry names it yet.
    next: Option<Pair>,
    /// Replaced by a durable entry, but still in the current key's file.
    replaced: Option<Pair>,
}

#[derive(Clone)]
struct Pair {
    private: SigningKey,
    public: LogKey,
}

impl Pair {
    fn new(origin: &str, private: SigningKey) -> Result<Self, KeyError> {
        Ok(Self { public: LogKey::new(origin, private.verifying_key())?, private })
    }
}

impl LogKeys {
    /// The keys of a gate whose log has this name.
    ///
    /// # Errors
    /// If the name cannot be that of a log.
    pub fn new(origin: &str, held: HeldKey) -> Result<Self, KeyError> {
        let HeldKey { current, next, files } = held;
        let next = next.map(|next| Pair::new(origin, next)).transpose()?;
        let slots = Slots { current: Pair::new(origin, current)?, next, replaced: None };
        Ok(Self { origin: origin.to_owned(), files, slots: Mutex::new(slots) })
    }

    /// The public half of the current key.
    #[must_use]
    pub fn public(&self) -> LogKey {
        self.slots.lock().current.public.clone()
    }

    /// The public half of the key that a rotation under way goes on with.
    #[must_use]
    pub fn next_public(&self) -> Option<LogKey> {
        self.slots.lock().next.as_ref().map(|next| next.public.clone())
    }

    /// The current key.
    pub(crate) fn private(&self) -> SigningKey {
        self.slots.lock().current.private.clone()
    }

    /// The next key, if it is the one that an entry names.
    pub(crate) fn next_private(&self, named: &str) -> Option<SigningKey> {
        let slots = self.slots.lock();
        slots.next.as_ref().filter(|next| next.public.to_string() == named).map(|next| next.private.clone())
    }

    /// Makes a new key durable in a file of its own, so that an entry can name it. The seed must be fresh randomness.
    ///
    /// # Errors
    /// If the gate has no key files, they cannot be written, or the rotation before this one has not ended.
    pub fn prepare(&self, seed: [u8; 32]) -> Result<NextKey, RotateError> {
        let files = self.files.as_ref().ok_or(RotateError::NoFiles)?;
        let mut slots = self.slots.lock();
        // The file of the next key may hold the only copy of the current one.
        if slots.next.is_some() || slots.replaced.is_some() {
            return Err(RotateError::UnderWay);
        }
        let next = Pair::new(&self.origin, SigningKey::from_bytes(&seed))?;
        files.prepare(&next.private)?;
        let named = NextKey(next.public.clone());
        slots.next = Some(next);
        Ok(named)
    }

    /// The entry that names the next key is durable: it is the current one now.
    pub(crate) fn advance(&self) {
        let mut slots = self.slots.lock();
        if let Some(next) = slots.next.take() {
            slots.replaced = Some(std::mem::replace(&mut slots.current, next));
        }
    }

    /// Learns from the log, when a gate is opened, whether a rotation that was under way took place.
    pub(crate) fn follow(&self, log: &KeyChain) {
        if self.next_public().as_ref() == Some(log.current()) {
            self.advance();
        }
    }

    /// Brings the files in line: a next key that the log names takes the current one's place, one that it does not name is
    /// dropped. Not to be called while the outcome of a rotation is unknown.
    ///
    /// # Errors
    /// If a file cannot be written. The gate may go on: the next opening does this again.
    pub fn settle(&self) -> io::Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let mut slots = self.slots.lock();
        if let Some(replaced) = &slots.replaced {
            files.promote(&replaced.private, replaced.public.id(), &slots.current.private)?;
            slots.replaced = None;
        } else {
            files.discard()?;
            slots.next = None;
        }
        files.publish(&slots.current.public)
    }
}
