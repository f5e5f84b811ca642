//! Checkpoints: the log's signed statement of its size and root, as a C2SP tlog-checkpoint in a C2SP signed note.
//!
//! Signing borrows a key for one call and keeps nothing. Opening is strict: one spelling for every field, Ed25519 checked with
//! `verify_strict` (no small-order keys, no malleable signatures), the key's name equal to the origin. Signatures by others,
//! such as witnesses, are allowed and ignored, as the note format demands.

mod chain;
mod key;
mod note;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};

use crate::hash::{EMPTY_ROOT, Hash};
use crate::tree::MAX_SIZE;

pub use chain::KeyChain;
pub use key::{KeyError, LogKey};
pub use note::{MAX_NOTE_BYTES, MAX_SIGNATURES};

/// A tree head: which log, how many entries, and the root over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's name, which is also the name of its key.
    pub origin: String,
    /// How many entries the log has.
    pub size: u64,
    /// The root of the tree over them.
    pub root: Hash,
}

/// Why a note is not a checkpoint of this log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The text is not a signed note.
    #[error("not a signed note: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// The note is not a checkpoint.
    #[error("the note is not a checkpoint: {what}")]
    NotACheckpoint {
        /// What is wrong.
        what: &'static str,
    },
    /// The checkpoint is another log's.
    #[error("the checkpoint is of log {found:?}, but the key is of {expected:?}")]
    WrongOrigin {
        /// The origin of the key.
        expected: String,
        /// The origin in the checkpoint.
        found: String,
    },
    /// No signature is by this key.
    #[error("no signature by key {key} on the checkpoint")]
    Unsigned {
        /// The key, as `name+id`.
        key: String,
    },
    /// A signature names this key and does not verify.
    #[error("the signature by key {key} does not verify")]
    BadSignature {
        /// The key, as `name+id`.
        key: String,
    },
    /// The key that signed did not speak for the log at this size.
    #[error("the checkpoint of {size} entries is signed by key {key}, which was not the log's key at that size")]
    NotThen {
        /// The key, as `name+id`.
        key: String,
        /// The size in the checkpoint.
        size: u64,
    },
    /// A rotation names a key that the log had before.
    #[error("the log goes on with key {key}, which it had before")]
    KeyReused {
        /// The key, as `name+id`.
        key: String,
    },
}

impl CheckpointError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Malformed { .. } => {
                "a checkpoint is kept whole, with its blank line and signature lines, ending in a newline"
            }
            Self::NotACheckpoint { .. } => "expected the lines origin, size and root, and nothing else",
            Self::WrongOrigin { .. } => "check that the file and the key belong together",
            Self::Unsigned { .. } => "it was signed with another key, or the signature line was removed",
            Self::BadSignature { .. } => "the checkpoint was altered or forged, do not trust it",
            Self::NotThen { .. } => {
                "anyone who kept or stole a replaced key can make such a checkpoint; do not trust it"
            }
            Self::KeyReused { .. } => "the gate makes a new key for every rotation",
        };
        Some(hint.to_owned())
    }
}

impl Checkpoint {
    /// The text that is signed: three lines, with the last newline.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, BASE64_STANDARD.encode(self.root.0))
    }

    /// Signs the checkpoint and returns the whole note.
    ///
    /// The origin must be one that [`LogKey::new`] accepts; with any other the note would open with no key at all.
    #[must_use]
    pub fn sign(&self, key: &SigningKey) -> String {
        self.sign_by(&[key])
    }

    /// Signs the checkpoint with several keys, one signature line for each in this order, and returns the whole note.
    ///
    /// Where a log goes from one key to the next, both sign.
    #[must_use]
    pub fn sign_by(&self, keys: &[&SigningKey]) -> String {
        let text = self.text();
        let mut note = format!("{text}\n");
        for key in keys {
            let signature = key.sign(text.as_bytes()).to_bytes();
            let id = key::key_id(&self.origin, &key.verifying_key());
            note::push_signature(&mut note, &self.origin, id, &signature);
        }
        note
    }

    /// Reads the checkpoint in a note after checking the log's signature on it.
    ///
    /// # Errors
    /// If the note is malformed, is not a checkpoint of the key's log, or is not validly signed by the key.
    pub fn open(note: &str, key: &LogKey) -> Result<Self, CheckpointError> {
        let note = note::split(note)?;
        let checkpoint = Self::from_text(note.text)?;
        if checkpoint.origin != key.origin() {
            return Err(CheckpointError::WrongOrigin { expected: key.origin().to_owned(), found: checkpoint.origin });
        }
        let mut signed = false;
        for signature in &note.signatures {
            if signature.name == key.origin() && signature.id == key.id() {
                if !key.verifies(note.text.as_bytes(), &signature.bytes) {
                    return Err(CheckpointError::BadSignature { key: key.name_and_id() });
                }
                signed = true;
            }
        }
        if signed { Ok(checkpoint) } else { Err(CheckpointError::Unsigned { key: key.name_and_id() }) }
    }

    /// Reads the checkpoint in a note without checking any signature: for showing it, never for trusting it.
    ///
    /// # Errors
    /// If the note is malformed or is not a checkpoint.
    pub fn parse_unverified(note: &str) -> Result<Self, CheckpointError> {
        Self::from_text(note::split(note)?.text)
    }

    fn from_text(text: &str) -> Result<Self, CheckpointError> {
        let wrong = |what| CheckpointError::NotACheckpoint { what };
        let mut lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
        let (Some(origin), Some(size), Some(root), None) = (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(wrong("it does not have exactly three lines"));
        };
        if key::check_origin(origin).is_err() {
            return Err(wrong("the origin is not a valid key name"));
        }
        let size = canonical_decimal(size).filter(|size| *size <= MAX_SIZE);
        let size = size.ok_or(wrong("the size is not a decimal number without leading zeroes, or is too large"))?;
        let mut bytes = [0; 32];
        if BASE64_STANDARD.decode_slice(root, &mut bytes) != Ok(32) {
            return Err(wrong("the root is not the base64 of 32 bytes"));
        }
        let root = Hash(bytes);
        if (size == 0) != (root == EMPTY_ROOT) {
            return Err(wrong("only the empty tree has the empty root"));
        }
        Ok(Self { origin: origin.to_owned(), size, root })
    }
}

/// A number in the one spelling that the formats allow.
pub(crate) fn canonical_decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    if canonical { text.parse().ok() } else { None }
}
