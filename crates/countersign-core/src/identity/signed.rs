//! How the sender of an entry was authenticated, kept so that anyone can check it again.

use super::KeyName;
use crate::body::RawBody;
use crate::canonical::Canonical;
use crate::hex;
use crate::ids::{ActionId, Digest};
use serde::Deserialize;
use smol_str::SmolStr;
use std::sync::Arc;

/// A signed request: everything that its signature covers, and the signature. With the entry's own body it is enough to
/// rebuild the signature base of RFC 9421 and verify it years later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The key that signed.
    pub key: KeyName,
    /// The member of `Signature-Input` as it was sent: the covered components and their parameters.
    pub input: Arc<str>,
    pub method: SmolStr,
    pub authority: SmolStr,
    pub path: SmolStr,
    /// The query, without its `?`; `None` where there was none.
    pub query: Option<SmolStr>,
    /// The field `If-Match`; `None` where there was none. The only field besides the digest that changes what a request means.
    pub if_match: Option<SmolStr>,
    /// The raw body; `None` for an action, whose body the entry keeps anyway, and where there was none.
    pub body: Option<RawBody>,
    /// Of a batch of actions: what stands for its body, which is kept in pieces, each in the entry of its action.
    pub batch: Option<BatchDigests>,
    pub signature: [u8; 64],
}

/// What the signature of a batch covers in place of its body, so that it can be verified without the body of any action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchDigests {
    /// SHA-256 of the ids of its actions, one behind the other, in order: the field `Countersign-Actions`.
    pub actions: Digest,
    /// SHA-256 of the body of the request: the field `Content-Digest`.
    pub body: Digest,
}

impl BatchDigests {
    /// The digest of an ordered list of actions.
    pub fn of_actions(actions: &[ActionId]) -> Digest {
        Digest::of_parts(&actions.iter().map(|action| action.0.as_slice()).collect::<Vec<_>>())
    }
}

/// How the sender of an entry was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Not at all: an open gate, or the gate itself.
    None,
    /// By a signature over the request, with a key that only the sender holds.
    Signature(Arc<Signed>),
    /// By a signature over the request, with a key that a gateway holds and signs with for the agent: it proves that the
    /// gateway asked, and nothing of the agent.
    Gateway(Arc<Signed>),
    /// By the signature of the batch that the action came in, which is in the batch's own entry.
    Batch {
        /// The key that signed the batch.
        key: KeyName,
        /// Whether a gateway holds it.
        by_gateway: bool,
    },
}

impl Auth {
    /// As it stands in leaves.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Signature(_) | Self::Batch { by_gateway: false, .. } => "signature",
            Self::Gateway(_) | Self::Batch { by_gateway: true, .. } => "gateway",
        }
    }

    /// The key that signed, if anyone did.
    pub fn key(&self) -> Option<&KeyName> {
        match self {
            Self::None => None,
            Self::Signature(signed) | Self::Gateway(signed) => Some(&signed.key),
            Self::Batch { key, .. } => Some(key),
        }
    }

    /// The same for each action of a batch that was signed so.
    #[must_use]
    pub fn of_batch(&self) -> Self {
        let by_gateway = matches!(self, Self::Gateway(_) | Self::Batch { by_gateway: true, .. });
        self.key().map_or(Self::None, |key| Self::Batch { key: key.clone(), by_gateway })
    }

    /// The same for the entry of a batch, or of a group, which keeps the digests of its body.
    #[must_use]
    pub fn by_digests(self) -> Self {
        let without = |signed: Arc<Signed>| match signed.batch {
            Some(_) => Arc::new(Signed { body: None, ..Arc::unwrap_or_clone(signed) }),
            None => signed,
        };
        match self {
            Self::Signature(signed) => Self::Signature(without(signed)),
            Self::Gateway(signed) => Self::Gateway(without(signed)),
            other @ (Self::Batch { .. } | Self::None) => other,
        }
    }

    /// The signed request, if the entry has one of its own.
    pub fn signed(&self) -> Option<&Signed> {
        match self {
            Self::None | Self::Batch { .. } => None,
            Self::Signature(signed) | Self::Gateway(signed) => Some(signed),
        }
    }

    /// The same, told by who holds the key that signed: the sender alone, or a gateway.
    #[must_use]
    pub fn with_custody(self, by_gateway: bool) -> Self {
        match self {
            Self::Signature(signed) | Self::Gateway(signed) if by_gateway => Self::Gateway(signed),
            Self::Signature(signed) | Self::Gateway(signed) => Self::Signature(signed),
            Self::Batch { key, .. } => Self::Batch { key, by_gateway },
            Self::None => Self::None,
        }
    }

    /// The same for an entry that keeps this body itself. Another body stays, and anyone who verifies the entry will find it.
    #[must_use]
    pub fn without_body(self, kept: &str) -> Self {
        match self {
            Self::Signature(signed) => Self::Signature(signed.without_body(kept)),
            Self::Gateway(signed) => Self::Gateway(signed.without_body(kept)),
            other @ (Self::Batch { .. } | Self::None) => other,
        }
    }
}

/// What tells a signed request from every other: the first bytes of a digest of what its signature was made with.
pub type RequestDigest = [u8; 16];

impl Signed {
    /// What tells this request from every other. `input` holds the key, the gate, the time and a nonce that its signer used once, and
    /// nothing of what was asked; so leaves can hold this, and an erased request that is recorded again is found by it.
    pub fn digest(&self) -> RequestDigest {
        let Digest(digest) = Digest::of_parts(&[b"countersign request\0", self.input.as_bytes()]);
        digest.first_chunk().copied().unwrap_or_default()
    }

    fn without_body(self: Arc<Self>, kept: &str) -> Arc<Self> {
        if self.body.as_deref() != Some(kept) {
            return self;
        }
        Arc::new(Self { body: None, ..Arc::unwrap_or_clone(self) })
    }

    /// Writes it as it stands in a payload; `body` writes the member for the body.
    pub(crate) fn write(&self, out: &mut Canonical, body_member: impl Fn(&mut Canonical, &str)) {
        out.open('{');
        out.key("authority");
        out.string(&self.authority);
        if let Some(body) = &self.body {
            body_member(out, body);
        }
        if let Some(batch) = &self.batch {
            out.key("digest");
            out.hex_string(&batch.body.0);
        }
        if let Some(if_match) = &self.if_match {
            out.key("if_match");
            out.string(if_match);
        }
        out.key("input");
        out.string(&self.input);
        out.key("key");
        out.string(self.key.as_str());
        out.key("method");
        out.string(&self.method);
        out.key("path");
        out.string(&self.path);
        if let Some(query) = &self.query {
            out.key("query");
            out.string(query);
        }
        out.key("signature");
        out.hex_string(&self.signature);
        out.close('}');
    }
}

/// A signed request as a payload has it, not yet checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredSigned {
    authority: SmolStr,
    /// How many bytes it has; they stand behind the payload's object.
    pub(crate) body: Option<usize>,
    digest: Option<String>,
    if_match: Option<SmolStr>,
    input: Arc<str>,
    key: String,
    method: SmolStr,
    path: SmolStr,
    query: Option<SmolStr>,
    signature: String,
}

impl StoredSigned {
    /// Reads it back, or says which member is not acceptable. `actions` are those that the leaf of a batch lists; no other request has
    /// a digest in place of its body.
    pub(crate) fn decode(self, body: Option<&str>, actions: Option<&[ActionId]>) -> Result<Signed, &'static str> {
        let batch = match (&self.digest, actions) {
            (None, None) => None,
            (Some(body), Some(actions)) => {
                let body = body.parse().map_err(|_| "digest")?;
                Some(BatchDigests { actions: BatchDigests::of_actions(actions), body })
            }
            _ => return Err("digest"),
        };
        if batch.is_some() && body.is_some() {
            return Err("body");
        }
        Ok(Signed {
            key: self.key.parse().map_err(|_| "key")?,
            signature: hex::array(&self.signature).ok_or("signature")?,
            input: self.input,
            method: self.method,
            authority: self.authority,
            path: self.path,
            query: self.query,
            if_match: self.if_match,
            body: body.map(RawBody::from),
            batch,
        })
    }
}
