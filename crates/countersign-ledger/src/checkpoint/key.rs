//! The log's public key, in the form that tools for signed notes take: `name+id+base64`.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

/// The longest origin accepted. The format sets no bound; ours keeps a note small whatever is fed to it.
const MAX_ORIGIN_BYTES: usize = 256;

/// The signature type byte of plain Ed25519 in signed notes.
const ED25519: u8 = 0x01;

/// The key with which a log's checkpoints are checked, and the log's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogKey {
    /// The log's name. The id was computed from it: a key whose name is changed afterwards opens nothing.
    pub origin: String,
    id: u32,
    key: VerifyingKey,
}

/// Why something is not a log's key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The name cannot be the name of a key.
    #[error("{origin:?} cannot be a log's origin")]
    Origin {
        /// The name.
        origin: String,
    },
    /// The key is one for which anyone could make signatures.
    #[error("the key of {origin:?} has small order and proves nothing")]
    Weak {
        /// The name.
        origin: String,
    },
    /// The text does not have the form of a key.
    #[error("not a verifier key: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// The id in the text is not that of the key in it.
    #[error("the id in the verifier key is {found}, but the key itself has {expected}")]
    WrongId {
        /// The id that follows from name and key.
        expected: String,
        /// The id in the text.
        found: String,
    },
}

impl KeyError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Origin { .. } => {
                return Some(format!(
                    "use a name such as `example.com/gate`, without spaces, control characters or `+`, at most {MAX_ORIGIN_BYTES} bytes"
                ));
            }
            Self::Weak { .. } => "generate a key with `countersign init`",
            Self::Malformed { .. } => "expected `name+id+base64` with the id as eight lower-case hexadecimal digits",
            Self::WrongId { .. } => "the key was mistyped or altered, get it again",
        };
        Some(hint.to_owned())
    }
}

impl LogKey {
    /// The key of the log named `origin`.
    ///
    /// # Errors
    /// If the name cannot be that of a key, or the key is weak.
    pub fn new(origin: &str, key: VerifyingKey) -> Result<Self, KeyError> {
        check_origin(origin)?;
        if key.is_weak() {
            return Err(KeyError::Weak { origin: origin.to_owned() });
        }
        Ok(Self { origin: origin.to_owned(), id: key_id(origin, &key), key })
    }

    /// The log's name.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The key's short id, which finds it and does not authenticate it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The Ed25519 key itself.
    #[must_use]
    pub fn verifying_key(&self) -> &VerifyingKey {
        &self.key
    }

    /// The key without its base64, `name+id`: enough to tell it from others in a message.
    #[must_use]
    pub fn name_and_id(&self) -> String {
        format!("{}+{:08x}", self.origin, self.id)
    }

    /// Whether these bytes are this key's signature of the message, by the strict rules.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature).is_ok_and(|signature| self.key.verify_strict(message, &signature).is_ok())
    }
}

impl fmt::Display for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.name_and_id(), BASE64_STANDARD.encode(encoded(&self.key)))
    }
}

impl FromStr for LogKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let wrong = |what| KeyError::Malformed { what };
        // The base64 may hold a plus itself, the name and the id may not.
        let (origin, rest) = text.split_once('+').ok_or(wrong("there is no `+`"))?;
        let (id, key) = rest.split_once('+').ok_or(wrong("there is only one `+`"))?;
        let mut bytes = [0; 33];
        if BASE64_STANDARD.decode_slice(key, &mut bytes) != Ok(33) {
            return Err(wrong("the last part is not the base64 of 33 bytes"));
        }
        let [algorithm, key @ ..] = bytes;
        if algorithm != ED25519 {
            return Err(wrong("the key is not of the Ed25519 type (0x01)"));
        }
        let key = VerifyingKey::from_bytes(&key).map_err(|_| wrong("the 32 bytes are not an Ed25519 public key"))?;
        let key = Self::new(origin, key)?;
        let expected = format!("{:08x}", key.id);
        if expected != id {
            return Err(KeyError::WrongId { expected, found: id.chars().take(16).collect() });
        }
        Ok(key)
    }
}

/// What a key name may be, by the note format; control characters would break the note's lines.
pub(crate) fn check_origin(origin: &str) -> Result<(), KeyError> {
    let allowed = |c: char| !c.is_whitespace() && !c.is_control() && c != '+';
    if origin.is_empty() || origin.len() > MAX_ORIGIN_BYTES || !origin.chars().all(allowed) {
        return Err(KeyError::Origin { origin: origin.chars().take(MAX_ORIGIN_BYTES).collect() });
    }
    Ok(())
}

/// The first four bytes of SHA-256(name || 0x0A || 0x01 || key).
pub(crate) fn key_id(origin: &str, key: &VerifyingKey) -> u32 {
    let digest: [u8; 32] =
        Sha256::new().chain_update(origin).chain_update("\n").chain_update(encoded(key)).finalize().into();
    let [a, b, c, d, ..] = digest;
    u32::from_be_bytes([a, b, c, d])
}

fn encoded(key: &VerifyingKey) -> [u8; 33] {
    let mut bytes = [ED25519; 33];
    for (to, from) in bytes.iter_mut().skip(1).zip(key.as_bytes()) {
        *to = *from;
    }
    bytes
}
