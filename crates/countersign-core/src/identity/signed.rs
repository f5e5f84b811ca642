//! How the sender of an entry was authenticated, kept so that anyone can check it again.

use super::KeyName;
use crate::body::RawBody;
use crate::canonical::Canonical;
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
    /// The method.
    pub method: SmolStr,
    /// The authority.
    pub authority: SmolStr,
    /// The path.
    pub path: SmolStr,
    /// The query, without its `?`; `None` where there was none.
    pub query: Option<SmolStr>,
    /// The field `If-Match`; `None` where there was none. The only field besides the digest that changes what a request means.
    pub if_match: Option<SmolStr>,
    /// The raw body; `None` for an action, whose body the entry keeps anyway, and where there was none.
    pub body: Option<RawBody>,
    /// The signature.
    pub signature: [u8; 64],
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
}

impl Auth {
    /// As it stands in leaves.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Signature(_) => "signature",
            Self::Gateway(_) => "gateway",
        }
    }

    /// The signed request, if there is one.
    pub fn signed(&self) -> Option<&Signed> {
        match self {
            Self::None => None,
            Self::Signature(signed) | Self::Gateway(signed) => Some(signed),
        }
    }

    /// The same, told by who holds the key that signed: the sender alone, or a gateway.
    #[must_use]
    pub fn with_custody(self, by_gateway: bool) -> Self {
        match self {
            Self::Signature(signed) | Self::Gateway(signed) if by_gateway => Self::Gateway(signed),
            Self::Signature(signed) | Self::Gateway(signed) => Self::Signature(signed),
            Self::None => Self::None,
        }
    }

    /// The same for an entry that keeps this body itself. Another body stays, and anyone who verifies the entry will find it.
    #[must_use]
    pub fn without_body(self, kept: &str) -> Self {
        match self {
            Self::Signature(signed) => Self::Signature(signed.without_body(kept)),
            Self::Gateway(signed) => Self::Gateway(signed.without_body(kept)),
            Self::None => Self::None,
        }
    }
}

impl Signed {
    fn without_body(self: Arc<Self>, kept: &str) -> Arc<Self> {
        if self.body.as_deref() != Some(kept) {
            return self;
        }
        Arc::new(Self { body: None, ..Arc::unwrap_or_clone(self) })
    }

    /// Writes it as it stands in a payload.
    pub fn write(&self, out: &mut Canonical) {
        out.open('{');
        out.key("authority");
        out.string(&self.authority);
        if let Some(body) = &self.body {
            out.key("body");
            out.string(body);
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
    body: Option<Arc<str>>,
    if_match: Option<SmolStr>,
    input: Arc<str>,
    key: String,
    method: SmolStr,
    path: SmolStr,
    query: Option<SmolStr>,
    signature: String,
}

impl StoredSigned {
    /// Reads it back, or says which member is not acceptable.
    pub(crate) fn decode(self) -> Result<Signed, &'static str> {
        Ok(Signed {
            key: self.key.parse().map_err(|_| "key")?,
            signature: unhex(&self.signature).ok_or("signature")?,
            input: self.input,
            method: self.method,
            authority: self.authority,
            path: self.path,
            query: self.query,
            if_match: self.if_match,
            body: self.body.map(RawBody::from),
        })
    }
}

fn unhex(text: &str) -> Option<[u8; 64]> {
    if text.len() != 128 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; 64];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
