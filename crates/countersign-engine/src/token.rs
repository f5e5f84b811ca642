//! Observation tokens: what an agent was shown, sealed so that it can be carried but neither read, forged nor altered (I8).
//!
//! `obs1.` and base64url of key id, nonce and ciphertext (XChaCha20-Poly1305: its nonces are long enough to be drawn at
//! random forever). The values are inside, so that a decision can speak of drift without looking anything up; they stay
//! sealed, because an agent may hold a token over attributes it may not see.

mod shown;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use countersign_core::action::Observed;
use countersign_core::canonical::Canonical;
use countersign_core::fact::Version;
use countersign_core::ids::{AgentId, Digest};
use countersign_core::limits::READS_MAX;
use countersign_core::value::Attributes;
use serde::Deserialize;

const PREFIX: &str = "obs1.";
const KEY_ID_LEN: usize = 4;
const NONCE_LEN: usize = 24;
/// Where the sealed text begins, behind key id and nonce.
const SEALED_AT: usize = KEY_ID_LEN + NONCE_LEN;

/// Longest token that is opened; a token over the most facts of the largest size would be refused by the body limit.
const TOKEN_CHARS_MAX: usize = 64 * 1024;

/// A token over something that the agent may not see is filled up to a multiple of this many bytes before it is sealed, so
/// that its length says little about it.
const PADDED_BYTES: usize = 256;

/// Why a token was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token.
    #[error("this is not an observation token; send the `observation` of an answer to POST /v1/observe as it is")]
    Malformed,
    /// Sealed by another key.
    #[error("this observation was sealed by another gate or with a key that is gone; observe again")]
    UnknownKey,
    /// Altered or forged.
    #[error("this observation was altered or forged; observe again")]
    Forged,
    /// Made for another agent.
    #[error("this observation was made for another agent; each agent acts on what it was shown itself")]
    NotYours,
}

impl TokenError {
    /// The same of what a reviewer was shown.
    pub fn of_shown(&self) -> &'static str {
        match self {
            Self::Malformed => {
                "this is not what a reviewer was shown; send `shown` of an answer to GET /v1/reviews/{review}"
            }
            Self::UnknownKey => "this was sealed by another gate or with a key that is gone; show the review again",
            Self::Forged => "this was altered or forged; show the review again",
            Self::NotYours => "this was shown to someone else; each reviewer approves what they were shown themselves",
        }
    }
}

/// For how long a key that was replaced still opens what it sealed: as long as an idempotency key is remembered. An agent that
/// has not acted on an observation by then must look again.
pub const TOKEN_KEY_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Seals and opens observation tokens.
pub struct Sealer {
    current: Key,
    /// Keys that were replaced, each with the time until which it opens.
    old: Vec<(Key, u64)>,
}

/// A key that was replaced.
#[derive(Clone)]
pub struct OldTokenKey {
    pub key: [u8; 32],
    /// Until when it opens what it sealed, in ledger milliseconds.
    pub until_ms: u64,
}

struct Key {
    cipher: XChaCha20Poly1305,
    id: [u8; KEY_ID_LEN],
}

/// The name of a key, which every token that it sealed has in clear.
pub fn key_id(key: &[u8; 32]) -> [u8; KEY_ID_LEN] {
    let Digest([a, b, c, d, ..]) = Digest::of(&[b"countersign observation key id\0".as_slice(), key].concat());
    [a, b, c, d]
}

impl Key {
    fn new(key: &[u8; 32]) -> Self {
        Self { cipher: XChaCha20Poly1305::new(key.into()), id: key_id(key) }
    }

    /// What kind of token it is, is sealed along: one kind never opens as another.
    fn aad(&self, prefix: &str) -> Vec<u8> {
        [prefix.as_bytes(), &self.id].concat()
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealer({:02x?})", self.current.id)
    }
}

impl std::fmt::Debug for OldTokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OldTokenKey({:02x?} until {})", key_id(&self.key), self.until_ms)
    }
}

/// What a token holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The agent it was made for.
    pub agent: AgentId,
    /// The ledger position it shows: entries before this index.
    pub position: u64,
    /// The facts, each with the time it was shown.
    pub observed: Vec<Observed>,
}

/// Whether the length of a token may tell how long the values inside are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// It may: the agent was shown all of them.
    Exact,
    /// It must not: something was withheld.
    Padded,
}

impl Sealer {
    /// A sealer with a key from the gate's key folder.
    pub fn new(key: &[u8; 32]) -> Self {
        Self { current: Key::new(key), old: Vec::new() }
    }

    /// The same, which also opens what keys before it sealed, for as long as each is kept.
    #[must_use]
    pub fn after(mut self, old: &[OldTokenKey]) -> Self {
        self.old = old.iter().map(|old| (Key::new(&old.key), old.until_ms)).collect();
        self
    }

    /// Seals an observation under a nonce that is never used again.
    pub fn seal(&self, observation: &Observation, length: Length, nonce: [u8; NONCE_LEN]) -> String {
        let mut out = Canonical::new();
        write(&mut out, observation);
        let mut plain = out.as_str().as_bytes().to_vec();
        if length == Length::Padded {
            // White space after the JSON, which its reader skips.
            plain.resize(plain.len().next_multiple_of(PADDED_BYTES), b' ');
        }
        self.seal_bytes(PREFIX, &plain, nonce)
    }

    /// Opens a token that `agent` carries at this time.
    pub fn open(&self, token: &str, agent: &AgentId, now_ms: u64) -> Result<Observation, TokenError> {
        let plain = self.open_bytes(PREFIX, token, TOKEN_CHARS_MAX, now_ms)?;
        let observation = read(&plain).ok_or(TokenError::Malformed)?;
        if observation.agent == *agent { Ok(observation) } else { Err(TokenError::NotYours) }
    }

    /// Opens a token, no matter who carries it.
    #[cfg(feature = "sabotage")]
    pub fn open_for_anyone(&self, token: &str, now_ms: u64) -> Result<Observation, TokenError> {
        read(&self.open_bytes(PREFIX, token, TOKEN_CHARS_MAX, now_ms)?).ok_or(TokenError::Malformed)
    }

    /// Opens a token for its agent, whether or not it still is as it was sealed.
    #[cfg(feature = "sabotage")]
    pub fn open_altered(&self, token: &str, agent: &AgentId, now_ms: u64) -> Result<Observation, TokenError> {
        let plain = self.open_altered_bytes(PREFIX, token, TOKEN_CHARS_MAX, now_ms)?;
        let observation = read(&plain).ok_or(TokenError::Malformed)?;
        if observation.agent == *agent { Ok(observation) } else { Err(TokenError::NotYours) }
    }

    #[cfg(feature = "sabotage")]
    fn open_altered_bytes(
        &self,
        prefix: &str,
        token: &str,
        chars_max: usize,
        now_ms: u64,
    ) -> Result<Vec<u8>, TokenError> {
        const TAG_LEN: usize = 16;
        let (key, nonce, bytes) = self.parts(prefix, token, chars_max, now_ms)?;
        let sealed = bytes.get(SEALED_AT..bytes.len().saturating_sub(TAG_LEN)).ok_or(TokenError::Malformed)?;
        // Sealing zeros gives what every text under this nonce is mixed with.
        let zeros = vec![0; sealed.len()];
        let mask = key.cipher.encrypt(&XNonce::from(nonce), zeros.as_slice()).map_err(|_| TokenError::Malformed)?;
        Ok(sealed.iter().zip(mask).map(|(sealed, mask)| sealed ^ mask).collect())
    }

    fn seal_bytes(&self, prefix: &str, plain: &[u8], nonce: [u8; NONCE_LEN]) -> String {
        let payload = Payload { msg: plain, aad: &self.current.aad(prefix) };
        let mut bytes = [self.current.id.as_slice(), &nonce].concat();
        // Sealing fails only beyond 256 GiB; an empty ciphertext would be refused when opened.
        bytes.extend(self.current.cipher.encrypt(&XNonce::from(nonce), payload).unwrap_or_default());
        format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    fn open_bytes(&self, prefix: &str, token: &str, chars_max: usize, now_ms: u64) -> Result<Vec<u8>, TokenError> {
        let (key, nonce, bytes) = self.parts(prefix, token, chars_max, now_ms)?;
        let sealed = bytes.get(SEALED_AT..).ok_or(TokenError::Malformed)?;
        let payload = Payload { msg: sealed, aad: &key.aad(prefix) };
        key.cipher.decrypt(&XNonce::from(nonce), payload).map_err(|_| TokenError::Forged)
    }

    /// The key that a token names, its nonce, and all of its bytes.
    fn parts(
        &self,
        prefix: &str,
        token: &str,
        chars_max: usize,
        now_ms: u64,
    ) -> Result<(&Key, [u8; NONCE_LEN], Vec<u8>), TokenError> {
        let encoded = token.strip_prefix(prefix).filter(|t| t.len() <= chars_max).ok_or(TokenError::Malformed)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| TokenError::Malformed)?;
        let (id, rest) = bytes.split_at_checked(KEY_ID_LEN).ok_or(TokenError::Malformed)?;
        let nonce = *rest.first_chunk().ok_or(TokenError::Malformed)?;
        let key = self.key(id, now_ms).ok_or(TokenError::UnknownKey)?;
        Ok((key, nonce, bytes))
    }

    /// The key of this name, if it opens anything at this time.
    fn key(&self, id: &[u8], now_ms: u64) -> Option<&Key> {
        if id == self.current.id {
            return Some(&self.current);
        }
        self.old.iter().find(|(key, until_ms)| id == key.id && now_ms < *until_ms).map(|(key, _)| key)
    }
}

fn write(out: &mut Canonical, observation: &Observation) {
    out.open('{');
    out.key("agent");
    out.string(observation.agent.as_str());
    out.key("facts");
    out.open('[');
    for observed in &observation.observed {
        out.element();
        observed.write(out, true);
    }
    out.close(']');
    out.key("position");
    out.u64(observation.position);
    out.close('}');
}

#[derive(Deserialize)]
struct Sealed {
    agent: String,
    facts: Vec<SealedFact>,
    position: u64,
}

#[derive(Deserialize)]
struct SealedFact {
    at: u64,
    digest: Option<String>,
    fact: String,
    value: Option<serde_json::Map<String, serde_json::Value>>,
    version: Option<u64>,
}

fn read(plain: &[u8]) -> Option<Observation> {
    let sealed: Sealed = serde_json::from_slice(plain).ok()?;
    if sealed.facts.len() > READS_MAX {
        return None;
    }
    let observed = sealed.facts.into_iter().map(|fact| {
        let value = match &fact.value {
            Some(value) => Some(Attributes::from_untyped_json(value).ok()?),
            None => None,
        };
        let version = Version::read(fact.version, fact.digest.as_deref())?;
        Some(Observed { fact: fact.fact.parse().ok()?, version, at_ms: fact.at, value })
    });
    Some(Observation {
        agent: AgentId::new(sealed.agent).ok()?,
        position: sealed.position,
        observed: observed.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::value::Value;

    fn observation() -> Observation {
        Observation {
            agent: AgentId::new("refund-1").unwrap(),
            position: 812,
            observed: vec![
                Observed {
                    fact: "Account::\"42\"".parse().unwrap(),
                    version: Version::Number(7),
                    at_ms: 5,
                    value: Some(Attributes::from_fields(vec![("status".into(), Value::String("active".into()))])),
                },
                Observed { fact: "Account::\"43\"".parse().unwrap(), version: Version::NONE, at_ms: 5, value: None },
            ],
        }
    }

    #[test]
    fn it_opens_for_its_agent_only_and_survives_a_restart() {
        let token = Sealer::new(&[7; 32]).seal(&observation(), Length::Exact, [1; 24]);
        let again = Sealer::new(&[7; 32]);
        assert_eq!(again.open(&token, &observation().agent, 9), Ok(observation()));
        assert_eq!(again.open(&token, &AgentId::new("mallory").unwrap(), 9), Err(TokenError::NotYours));
        assert_eq!(Sealer::new(&[8; 32]).open(&token, &observation().agent, 9), Err(TokenError::UnknownKey));
    }

    #[test]
    fn a_replaced_key_opens_what_it_sealed_for_a_while_and_seals_nothing() {
        let token = Sealer::new(&[7; 32]).seal(&observation(), Length::Exact, [1; 24]);
        let sealer = Sealer::new(&[8; 32]).after(&[OldTokenKey { key: [7; 32], until_ms: 1_000 }]);
        let open = |token: &str, now_ms: u64| sealer.open(token, &observation().agent, now_ms);
        assert_eq!(open(&token, 999), Ok(observation()));
        assert_eq!(open(&token, 1_000), Err(TokenError::UnknownKey));
        let newer = sealer.seal(&observation(), Length::Exact, [1; 24]);
        assert_eq!(open(&newer, u64::MAX), Ok(observation()));
        assert_eq!(Sealer::new(&[7; 32]).open(&newer, &observation().agent, 9), Err(TokenError::UnknownKey));
        // Which key it was is sealed along: the name of another in its place opens nothing.
        let bytes = |token: &str| URL_SAFE_NO_PAD.decode(&token[PREFIX.len()..]).unwrap();
        let moved = [&bytes(&newer)[..KEY_ID_LEN], &bytes(&token)[KEY_ID_LEN..]].concat();
        assert_eq!(open(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(moved)), 9), Err(TokenError::Forged));
    }

    #[test]
    fn the_length_of_a_padded_token_does_not_follow_its_values() {
        let sealer = Sealer::new(&[7; 32]);
        let sealed = |status: &str| {
            let mut shown = observation();
            shown.observed[0].value =
                Some(Attributes::from_fields(vec![("status".into(), Value::String(status.into()))]));
            let token = sealer.seal(&shown, Length::Padded, [1; 24]);
            assert_eq!(sealer.open(&token, &shown.agent, 9), Ok(shown));
            token.len()
        };
        assert_eq!(sealed("on"), sealed("suspended for ever"));
    }

    #[test]
    fn every_altered_character_is_noticed() {
        let sealer = Sealer::new(&[7; 32]);
        let token = sealer.seal(&observation(), Length::Exact, [1; 24]);
        for at in 0..token.len() {
            let mut altered = token.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            assert!(sealer.open(&altered, &observation().agent, 9).is_err(), "{at}");
        }
    }
}
