//! Names and digests as types: what holds a `FactId` holds a checked one.
//!
//! Constructors are the only way in and refuse what the rest of the crate must not meet (control characters, ids that are
//! not NFC, names that are not identifiers), so nothing downstream validates again.

use crate::hex;
use crate::limits::{ID_BYTES_MAX, IDEMPOTENCY_KEY_CHARS_MAX, IDEMPOTENCY_KEY_CHARS_MIN};
use sha2::{Digest as _, Sha256};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use unicode_normalization::is_nfc;

/// Why a name or id was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The name is not an identifier.
    #[error("`{0}` is not a name: use a letter or `_`, then letters, digits, `_` or `-`, at most 64 characters")]
    NotAName(String),
    /// The name is not a Cedar identifier.
    #[error(
        "`{0}` is not a type or attribute name: use a letter or `_`, then letters, digits or `_`, at most 64 characters"
    )]
    NotAnIdentifier(String),
    /// The id is empty.
    #[error("an id must not be empty")]
    Empty,
    /// The id is too long.
    #[error("an id has at most {ID_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// The id holds a control character.
    #[error("an id must not contain control characters (found U+{0:04X})")]
    Control(u32),
    /// The id is not in Unicode normalisation form C.
    #[error("an id must be in Unicode normal form C; two spellings of one name would be two facts")]
    NotNormal,
    /// The text is not of the form `Type::"id"`.
    #[error("`{0}` is not a fact id: write it as Type::\"id\", for example Account::\"42\"")]
    NotAFactId(String),
    /// The idempotency key is not usable.
    #[error(
        "an idempotency key has {IDEMPOTENCY_KEY_CHARS_MIN} to {IDEMPOTENCY_KEY_CHARS_MAX} characters of A-Z a-z 0-9 - _, \
         with at least 128 random bits (a UUIDv4 is fine)"
    )]
    IdempotencyKey,
    /// The text is not a digest.
    #[error("`{0}` is not a SHA-256 digest in lower-case hexadecimal")]
    NotADigest(String),
}

/// The number in a name such as `eff_813`. One thing has one spelling: no sign, no leading zeros.
pub(crate) fn numbered(prefix: &str, text: &str) -> Option<u64> {
    let number: u64 = text.strip_prefix(prefix)?.parse().ok()?;
    (format!("{prefix}{number}") == text).then_some(number)
}

/// Checks the free part of an id: NFC, bounded, no control characters.
pub fn check_id(id: &str) -> Result<(), IdError> {
    if id.is_empty() {
        return Err(IdError::Empty);
    }
    if id.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong(id.len()));
    }
    if is_all(id, |byte| (0x20..0x7f).contains(&byte)) {
        return Ok(());
    }
    if let Some(control) = id.chars().find(|c| c.is_control()) {
        return Err(IdError::Control(control as u32));
    }
    if !is_nfc(id) {
        return Err(IdError::NotNormal);
    }
    Ok(())
}

/// Whether all bytes are such. Looks at every one of them, which lets the compiler take many at once: nearly all texts are as they should
/// be.
fn is_all(text: &str, is_such: impl Fn(u8) -> bool) -> bool {
    text.bytes().fold(true, |is_all, byte| is_all & is_such(byte))
}

fn is_identifier(text: &str, may_have_hyphens: bool) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() | (byte == b'_') | (may_have_hyphens & (byte == b'-'));
    let bytes = text.as_bytes();
    bytes.len() <= 64
        && bytes.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
        && is_all(text, is_part)
}

/// Checks a type, attribute, parameter or read name: a Cedar identifier in ASCII, so byte order is also JCS order.
pub fn check_identifier(text: &str) -> Result<(), IdError> {
    if is_identifier(text, false) { Ok(()) } else { Err(IdError::NotAnIdentifier(text.to_owned())) }
}

/// Reads a type from its text without a copy of the text in between.
pub(crate) struct Text<T>(pub(crate) std::marker::PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> serde::de::Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Serialises a type as the text that it prints and parses.
macro_rules! serde_as_text {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::ids::Text::<$name>(std::marker::PhantomData))
            }
        }
    };
}
pub(crate) use serde_as_text;

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(SmolStr);
        impl $name {
            /// Checks and wraps the text.
            pub fn new(text: impl Into<SmolStr>) -> Result<Self, IdError> {
                let text = text.into();
                let check: fn(&str) -> Result<(), IdError> = $check;
                check(&text)?;
                Ok(Self(text))
            }
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
            /// The text, shared.
            pub fn smol(&self) -> &SmolStr {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }
        serde_as_text!($name);
    };
}

fn check_name(text: &str) -> Result<(), IdError> {
    if is_identifier(text, true) { Ok(()) } else { Err(IdError::NotAName(text.to_owned())) }
}

fn check_idempotency_key(text: &str) -> Result<(), IdError> {
    let long_enough = (IDEMPOTENCY_KEY_CHARS_MIN..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&text.len());
    if long_enough && is_all(text, |b| b.is_ascii_alphanumeric() | (b == b'-') | (b == b'_')) {
        Ok(())
    } else {
        Err(IdError::IdempotencyKey)
    }
}

name_type!(
    /// The name of a pact, for example `billing`.
    PactName,
    check_name
);
name_type!(
    /// The name of an action type within its pact, for example `refund`.
    ActionName,
    check_name
);
name_type!(
    /// The id of an agent or operator, for example `refund-1` or a `did:key`.
    AgentId,
    check_id
);
name_type!(
    /// The name of a fact type, for example `Account`.
    FactType,
    check_identifier
);

/// A caller's key under which a retried action is recognised. It is not kept, since a digest stands for it, and so not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey<'a>(Cow<'a, str>);

impl<'a> IdempotencyKey<'a> {
    /// Checks and wraps the text.
    pub fn new(text: impl Into<Cow<'a, str>>) -> Result<Self, IdError> {
        let text = text.into();
        check_idempotency_key(&text)?;
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AgentId {
    /// The name under which the gate itself makes entries.
    pub fn gate() -> Self {
        Self(SmolStr::new_static("countersign"))
    }

    /// The name of the operator that a log can begin with.
    pub fn first_admin() -> Self {
        Self(SmolStr::new_static("admin"))
    }
}

/// The id of one fact: its type and its id within the type. Written `Account::"42"`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FactId {
    ty: FactType,
    id: SmolStr,
}

impl FactId {
    /// Checks the id and joins it to its type; never by pasting strings.
    pub fn new(ty: FactType, id: impl Into<SmolStr>) -> Result<Self, IdError> {
        let id = id.into();
        check_id(&id)?;
        Ok(Self { ty, id })
    }
    /// The fact of an agent's own entity.
    pub fn of_agent(agent: &AgentId) -> Self {
        Self { ty: FactType(SmolStr::new_static("Agent")), id: agent.0.clone() }
    }
    /// The agent whose own entity it is.
    pub fn as_agent(&self) -> Option<AgentId> {
        (self.ty.as_str() == "Agent").then(|| AgentId(self.id.clone()))
    }
    /// The fact of an operator.
    pub fn of_operator(operator: &AgentId) -> Self {
        Self { ty: FactType(SmolStr::new_static("Operator")), id: operator.0.clone() }
    }
    /// The type.
    pub fn ty(&self) -> &FactType {
        &self.ty
    }
    /// The id within the type.
    pub fn id(&self) -> &str {
        &self.id
    }
    /// At most how many bytes it takes in a record: a quote in an id takes four.
    pub fn bytes_bound(&self) -> usize {
        self.ty.as_str().len() + 4 * self.id.len() + 12
    }
}

impl fmt::Display for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::\"", self.ty)?;
        let mut rest = self.id.as_str();
        while let Some(at) = rest.find(['"', '\\']) {
            let (plain, tail) = rest.split_at(at);
            f.write_str(plain)?;
            f.write_str("\\")?;
            let mut chars = tail.chars();
            if let Some(escaped) = chars.next() {
                write!(f, "{escaped}")?;
            }
            rest = chars.as_str();
        }
        f.write_str(rest)?;
        f.write_str("\"")
    }
}

impl fmt::Debug for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for FactId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let malformed = || IdError::NotAFactId(text.chars().take(80).collect());
        let (ty, quoted) = text.split_once("::").ok_or_else(malformed)?;
        let inner = quoted.strip_prefix('"').and_then(|q| q.strip_suffix('"')).ok_or_else(malformed)?;
        let mut id = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => return Err(malformed()),
                '\\' => match chars.next() {
                    Some(escaped @ ('"' | '\\')) => id.push(escaped),
                    _ => return Err(malformed()),
                },
                plain => id.push(plain),
            }
        }
        Self::new(FactType::new(ty)?, id)
    }
}

serde_as_text!(FactId);
serde_as_text!(Digest);

/// A SHA-256 digest, shown in lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// The id of an action: the digest of its raw body.
pub type ActionId = Digest;

impl Digest {
    /// Digests the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digests these, one after the other.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        hex::array(text).map(Self).ok_or_else(|| IdError::NotADigest(text.chars().take(80).collect()))
    }
}

/// A random name that stands for a fact in public leaves, so that a leaf never holds an id that could be personal data.
/// It is given when the fact is first written and stays with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub [u8; 12]);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Tag {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        hex::array(text).map(Self).ok_or_else(|| IdError::NotADigest(text.chars().take(80).collect()))
    }
}

serde_as_text!(Tag);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_ids_print_and_parse_back() {
        for id in ["42", "a\"b", "back\\slash", "ünïcode", "\\\"", "::\""] {
            let fact = FactId::new(FactType::new("Account").unwrap(), id).unwrap();
            assert_eq!(fact.to_string().parse::<FactId>().unwrap(), fact, "{fact}");
        }
    }

    #[test]
    fn ids_that_could_be_mistaken_are_refused() {
        assert_eq!(check_id(""), Err(IdError::Empty));
        assert_eq!(check_id("a\nb"), Err(IdError::Control(10)));
        assert_eq!(check_id("e\u{301}"), Err(IdError::NotNormal));
        assert_eq!(check_id(&"x".repeat(257)), Err(IdError::TooLong(257)));
        for text in ["Account", "Account::42", "Account::\"4\"2\"", "A b::\"1\"", "Account::\"\\n\""] {
            assert!(text.parse::<FactId>().is_err(), "{text}");
        }
    }

    #[test]
    fn digests_round_trip_and_refuse_upper_case() {
        let digest = Digest::of(b"x");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!(digest.to_string().to_uppercase().parse::<Digest>().is_err());
    }
}
