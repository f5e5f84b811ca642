//! The public part of an entry, read back.

use super::decode::DecodeError;
use super::{FORMAT, Kind, LeafVerdict};
use crate::action::KeyDigest;
use crate::decision::PactRef;
use crate::halt::Scope;
use crate::ids::{AgentId, Digest, IdError, PactName, Tag};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The public part of an entry.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaf {
    /// The action's id.
    pub action: Option<Digest>,
    /// How the sender was authenticated.
    pub auth: String,
    /// Who caused it.
    pub by: AgentId,
    /// The claim that an extension or withdrawal speaks of.
    pub claim: Option<u64>,
    /// The commitment to the payload.
    pub commitment: Digest,
    /// The effect that a dispatch or settlement speaks of.
    pub effect: Option<u64>,
    /// The entries whose payloads an erasure erased.
    pub erased: Option<Vec<u64>>,
    /// The entry in which a feed was held until a fence ended.
    pub held: Option<u64>,
    /// The place in the log.
    pub index: u64,
    /// The digest of the action's idempotency key.
    pub key: Option<String>,
    /// What kind of entry it is.
    pub kind: Kind,
    /// The log's verifier key: in a genesis entry its first, in a rotation its next.
    pub log_key: Option<String>,
    /// The pact.
    pub pact: Option<LeafPact>,
    /// The tags and versions read.
    pub reads: Option<Vec<(Tag, u64)>>,
    /// The entry that parked what an approval, refusal or expiry speaks of.
    pub review: Option<u64>,
    /// What a halt or resume speaks of.
    pub scope: Option<String>,
    /// Ledger time.
    pub time: u64,
    /// The format.
    pub v: u64,
    /// The verdict.
    pub verdict: Option<LeafVerdict>,
    /// The tags and versions written.
    pub writes: Option<Vec<(Tag, u64)>>,
    // Reserved for later versions, which read them; what they say changes nothing here.
    #[serde(rename = "because_of")]
    _because_of: Option<IgnoredAny>,
    #[serde(rename = "confidence")]
    _confidence: Option<IgnoredAny>,
    #[serde(rename = "labels")]
    _labels: Option<IgnoredAny>,
    #[serde(rename = "score")]
    _score: Option<IgnoredAny>,
    #[serde(rename = "session")]
    _session: Option<IgnoredAny>,
    #[serde(rename = "severity")]
    _severity: Option<IgnoredAny>,
}

/// A pact as a leaf names it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafPact {
    /// Its content hash.
    pub hash: Digest,
    /// Its name.
    pub name: PactName,
    /// Its version.
    pub version: u64,
}

impl Leaf {
    /// Reads a leaf; an unknown format is refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Version {
            v: u64,
        }
        let leaf = serde_json::from_slice::<Self>(bytes);
        // A later format may have other fields: its number is the better message.
        if leaf.is_err()
            && let Ok(Version { v }) = serde_json::from_slice(bytes)
            && v != FORMAT
        {
            return Err(DecodeError::Format(v));
        }
        let leaf = leaf?;
        if leaf.v != FORMAT {
            return Err(DecodeError::Format(leaf.v));
        }
        Ok(leaf)
    }

    /// Whether the sender signed; an unknown kind is refused, never guessed.
    pub fn is_signed(&self) -> Result<bool, DecodeError> {
        match self.auth.as_str() {
            "none" => Ok(false),
            "signature" | "gateway" => Ok(true),
            unknown => Err(DecodeError::Auth(unknown.to_owned())),
        }
    }

    /// The digest of the action's idempotency key.
    pub fn key_digest(&self) -> Result<Option<KeyDigest>, DecodeError> {
        let Some(text) = &self.key else { return Ok(None) };
        let refused = || DecodeError::Id(IdError::NotADigest(text.clone()));
        let mut digest = KeyDigest::default();
        if text.len() != 2 * digest.len() {
            return Err(refused());
        }
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| refused())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| refused())?;
        }
        Ok(Some(digest))
    }

    /// What a halt or resume speaks of.
    pub fn scope(&self) -> Result<Scope, DecodeError> {
        Ok(self.scope.as_deref().ok_or(DecodeError::Missing("scope"))?.parse()?)
    }

    /// The pact that it was decided under, if there was one.
    pub fn pact_ref(&self) -> Option<PactRef> {
        let LeafPact { hash, name, version } = self.pact.clone()?;
        Some(PactRef { name, version, hash })
    }
}
