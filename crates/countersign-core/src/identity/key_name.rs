//! The public name of a key: a `did:key` of an Ed25519 public key.
//!
//! The name is the key itself in another spelling (multicodec `ed25519-pub`, base58 of Bitcoin), so nothing has to be
//! looked up to verify with it. One key has exactly one spelling; every other is refused.

use smol_str::SmolStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

const PREFIX: &str = "did:key:z";

/// The multicodec of an Ed25519 public key.
const CODEC: [u8; 2] = [0xed, 0x01];

/// How many base58 digits the codec and a key have: the codec's first byte fixes it.
const DIGITS: usize = 47;

/// The name of an Ed25519 public key, for example `did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK`.
#[derive(Clone)]
pub struct KeyName {
    public: [u8; 32],
    text: SmolStr,
}

/// Why a text is not the name of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of an Ed25519 key: it has the form did:key:z6Mk…, as `countersign agent new` prints it")]
pub struct KeyNameError(String);

impl KeyName {
    /// The name of a public key.
    pub fn of(public: [u8; 32]) -> Self {
        let mut bytes = [0; 34];
        let (codec, key) = bytes.split_at_mut(2);
        codec.copy_from_slice(&CODEC);
        key.copy_from_slice(&public);
        let mut text = String::with_capacity(PREFIX.len() + DIGITS);
        text.push_str(PREFIX);
        text.push_str(&bs58::encode(bytes).into_string());
        Self { public, text: text.into() }
    }

    pub fn public_key(&self) -> [u8; 32] {
        self.public
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

crate::ids::serde_as_text!(KeyName);

impl FromStr for KeyName {
    type Err = KeyNameError;
    fn from_str(text: &str) -> Result<Self, KeyNameError> {
        let mut bytes = [0; 34];
        // There are no leading zeros and the number of digits is fixed, so digits and bytes are one to one.
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS);
        let decoded = digits.and_then(|digits| bs58::decode(digits).onto(&mut bytes).ok());
        let whole = decoded.filter(|length| *length == bytes.len()).map(|_| bytes.as_slice());
        let public = whole.and_then(|bytes| bytes.strip_prefix(&CODEC)).and_then(|key| key.try_into().ok());
        match public {
            Some(public) => Ok(Self { public, text: SmolStr::new(text) }),
            None => Err(KeyNameError(text.chars().take(80).collect())),
        }
    }
}

impl PartialEq for KeyName {
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl Eq for KeyName {}

impl Hash for KeyName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.public.hash(state);
    }
}

impl PartialOrd for KeyName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.public.cmp(&other.public)
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_did_key_specification_reads_and_prints() {
        let name = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
        let public = [
            0x2e, 0x6f, 0xcc, 0xe3, 0x67, 0x01, 0xdc, 0x79, 0x14, 0x88, 0xe0, 0xd0, 0xb1, 0x74, 0x5c, 0xc1, 0xe3, 0x3a,
            0x4c, 0x1c, 0x9f, 0xcc, 0x41, 0xc6, 0x3b, 0xd3, 0x43, 0xdb, 0xbe, 0x09, 0x70, 0xe6,
        ];
        assert_eq!(name.parse::<KeyName>().unwrap().public_key(), public);
        assert_eq!(KeyName::of(public).as_str(), name);
    }

    #[test]
    fn every_key_has_one_name() {
        for public in [[0; 32], [0xff; 32], [7; 32]] {
            let name = KeyName::of(public);
            assert_eq!(name.as_str().len(), PREFIX.len() + DIGITS);
            assert_eq!(name.as_str().parse::<KeyName>().unwrap().public_key(), public);
        }
    }

    #[test]
    fn what_is_not_the_name_of_an_ed25519_key_is_refused() {
        let name = KeyName::of([7; 32]).to_string();
        let more = format!("{name}1");
        let less = &name[..name.len() - 1];
        let fragment = format!("{name}#key");
        let zero = name.replacen("z6Mk", "z06Mk", 1);
        // The second is a secp256k1 key, and the last would need more than 34 bytes.
        for text in [
            "",
            "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
            "did:web:example.com",
            more.as_str(),
            less,
            fragment.as_str(),
            zero.as_str(),
            "did:key:zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
        ] {
            assert!(text.parse::<KeyName>().is_err(), "{text}");
        }
    }
}
