//! The hashes of the log: SHA-256, with the domain separation of RFC 6962.
//!
//! A leaf and an inner node start with different bytes, so that no entry can be passed off as a subtree. Nothing here may
//! choose another algorithm at run time: the log has one, fixed by its format.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// A SHA-256 hash. It is shown and parsed as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

/// The root of the tree with no leaves: SHA-256 of the empty string.
pub const EMPTY_ROOT: Hash = Hash([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

/// The hash of one entry as it stands in the tree: SHA-256(0x00 || leaf).
#[must_use]
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    Hash(Sha256::new().chain_update([0x00]).chain_update(leaf).finalize().into())
}

/// The hash of an inner node: SHA-256(0x01 || left || right).
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Hash(Sha256::new().chain_update([0x01]).chain_update(left.0).chain_update(right.0).finalize().into())
}

impl Hash {
    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl AsRef<[u8]> for Hash {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; 32]> for Hash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

/// Why a text is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 hash")]
pub struct HashParseError;

impl HashParseError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some("a hash is written as exactly 64 lower-case hexadecimal digits".to_owned())
    }
}

impl FromStr for Hash {
    type Err = HashParseError;

    fn from_str(text: &str) -> Result<Self, HashParseError> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(HashParseError);
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = (hex_digit(*high)? << 4) | hex_digit(*low)?;
        }
        Ok(Self(bytes))
    }
}

/// Upper case is refused so that a hash has one spelling: texts can then be compared as texts.
fn hex_digit(digit: u8) -> Result<u8, HashParseError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(HashParseError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_root_is_the_hash_of_nothing() {
        assert_eq!(EMPTY_ROOT, Hash(Sha256::digest(b"").into()));
    }

    #[test]
    fn leaves_and_nodes_are_separate_domains() {
        let (left, right) = (leaf_hash(b"a"), leaf_hash(b"b"));
        let as_leaf = [left.0, right.0].concat();
        assert_ne!(node_hash(&left, &right), leaf_hash(&as_leaf));
        assert_eq!(leaf_hash(b"a"), Hash(Sha256::digest(b"\x00a").into()));
        let node = [b"\x01".as_slice(), &as_leaf].concat();
        assert_eq!(node_hash(&left, &right), Hash(Sha256::digest(&node).into()));
    }

    #[test]
    fn the_text_form_has_one_spelling() {
        let text = EMPTY_ROOT.to_string();
        assert_eq!(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(text.parse(), Ok(EMPTY_ROOT));
        for wrong in
            [text.to_uppercase(), text[1..].to_owned(), format!("{text}0"), format!("{text}00"), text.replace('e', "g")]
        {
            assert_eq!(wrong.parse::<Hash>(), Err(HashParseError), "{wrong}");
        }
    }
}
