//! Signatures on requests: HTTP Message Signatures (RFC 9421) with Ed25519, and `Content-Digest` (RFC 9530).
//!
//! Pure functions over what stood on the wire. Of the many things the standard allows, one is accepted: a single signature, over
//! at least method, authority, path, query, digest and `If-Match`, with `created`, `nonce`, `keyid` and a `tag` that names this gate. The
//! fields must be in canonical form, so that what was signed can be rebuilt from what an entry keeps, byte for byte, years
//! later. Whether the key is known, the time right and the nonce new is for the gate to say; nothing here asks a clock.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "a test that panics has failed, which is what it is for"
    )
)]

mod error;
mod fields;
mod known;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
mod write;

pub use error::SignatureError;
pub use write::{Headers, Signable, authority, content_digest, digest_field, sign};

use countersign_core::body::RawBody;
use countersign_core::identity::{BatchDigests, KeyName, Signed};
use countersign_core::ids::Digest;
use ed25519_dalek::{Signature, VerifyingKey};
use fields::Input;
use smol_str::SmolStr;
use std::sync::Arc;

/// How short a nonce may be: 16 characters of base64 are 96 bits, enough to be drawn at random within any window.
pub const NONCE_CHARS_MIN: usize = 16;
/// How long a nonce may be: each is remembered for as long as its signature could come again.
pub const NONCE_CHARS_MAX: usize = 64;
/// The component that covers the ids of a batch's actions.
const ACTIONS: &str = "countersign-actions";
/// The longest field that is looked at; what is needed takes a third of it.
const FIELD_BYTES_MAX: usize = 2048;

/// The only path that takes several actions under one signature.
pub const BATCH_PATH: &str = "/v1/actions/batch";

/// A request as it stood on the wire, as far as its signature speaks of it.
#[derive(Debug, Clone, Copy)]
pub struct Wire<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// Host and port that the request was sent to, as [`authority`] gives them.
    pub authority: &'a str,
    /// The path, not decoded.
    pub path: &'a str,
    /// The query without its question mark, not decoded; `None` where there is none.
    pub query: Option<&'a str>,
    /// The field `If-Match`: without it, or with another, a feed means something else.
    pub if_match: Option<&'a str>,
    /// The field `Countersign-Actions`: the digest of the ids of a batch's actions.
    pub actions: Option<&'a str>,
    /// The body; empty and absent are the same.
    pub body: &'a str,
    /// The field `Content-Digest`.
    pub content_digest: Option<&'a str>,
    /// The field `Signature-Input`.
    pub input: Option<&'a str>,
    /// The field `Signature`.
    pub signature: Option<&'a str>,
}

/// A signature that covers everything it must, and that nothing says to be right yet.
#[derive(Debug, Clone)]
pub struct Presented {
    /// What is kept with the entry.
    pub signed: Signed,
    /// When it was made, in seconds since 1970 by the caller's clock.
    pub created_s: u64,
    /// After when it is worth nothing, likewise.
    pub expires_s: Option<u64>,
    /// What makes it unlike every other by the same key.
    pub nonce: SmolStr,
}

/// The same of a request whose body has not been read: the signature covers its digest, so it can be judged before.
#[derive(Debug, Clone)]
pub struct Head {
    pub presented: Presented,
    pub body: BodyDigest,
    pub covered: Covered,
}

/// What a signature covers, in order: read from `Signature-Input` once.
#[derive(Debug, Clone)]
pub struct Covered(Vec<SmolStr>);

/// What the head of a request says of its body.
#[derive(Debug, Clone, Copy)]
pub struct BodyDigest {
    sent: Option<Digest>,
    is_covered: bool,
}

impl BodyDigest {
    /// The body as it is kept, if it is the one that was signed.
    pub fn check(self, body: RawBody) -> Result<Option<RawBody>, SignatureError> {
        if !body.is_empty() && !self.is_covered {
            return Err(SignatureError::Incomplete("content-digest".to_owned()));
        }
        if self.sent.is_some_and(|sent| sent != body.digest()) {
            return Err(SignatureError::Digest);
        }
        Ok(Some(body).filter(|body| !body.is_empty()))
    }
}

impl Head {
    /// The key that it says to be signed with.
    pub fn key(&self) -> &KeyName {
        &self.presented.signed.key
    }
}

/// The tag that says which gate a signature is for.
pub fn tag(origin: &str) -> String {
    format!("countersign:{origin}")
}

/// Reads a request's signature, checks that it covers what it must and that the body has the digest it was signed with.
pub fn parse(wire: &Wire<'_>, origin: &str) -> Result<Presented, SignatureError> {
    let Head { mut presented, body, .. } = parse_head(wire, !wire.body.is_empty(), origin)?;
    presented.signed.body = body.check(RawBody::from(wire.body))?;
    Ok(presented)
}

/// The same before the body is read: `wire` has none, and `has_body` says whether one is announced.
pub fn parse_head(wire: &Wire<'_>, has_body: bool, origin: &str) -> Result<Head, SignatureError> {
    let (Some(input), Some(signature)) = (wire.input, wire.signature) else {
        return Err(SignatureError::Missing);
    };
    let (label, text, input) = fields::input(input)?;
    let signature = fields::signature(signature, &label)?;
    let parameters = input.parameters(&tag(origin))?;
    require_covered(&input, wire.query, wire.if_match, wire.actions.is_some(), has_body)?;
    let body = BodyDigest {
        sent: wire.content_digest.map(fields::digest).transpose()?,
        is_covered: input.covers("content-digest"),
    };
    if body.is_covered && body.sent.is_none() {
        return Err(SignatureError::Incomplete("content-digest".to_owned()));
    }
    let batch = wire.actions.map(|actions| batch_digests(wire.path, actions, body.sent)).transpose()?;
    let signed = Signed {
        key: parameters.key,
        input: Arc::from(text),
        method: wire.method.into(),
        authority: wire.authority.into(),
        path: wire.path.into(),
        query: wire.query.map(SmolStr::from),
        if_match: wire.if_match.map(SmolStr::from),
        body: None,
        batch,
        signature,
    };
    let (created_s, expires_s, nonce) = (parameters.created_s, parameters.expires_s, parameters.nonce);
    let covered = Covered(input.components);
    Ok(Head { presented: Presented { signed, created_s, expires_s, nonce }, body, covered })
}

/// What the signature of a batch covers in place of its body. Nothing else that is signed keeps a digest alone.
fn batch_digests(path: &str, actions: &str, body: Option<Digest>) -> Result<BatchDigests, SignatureError> {
    if path != BATCH_PATH {
        let what = format!("the field `Countersign-Actions` belongs to `POST {BATCH_PATH}` alone");
        return Err(SignatureError::Malformed(what));
    }
    let body = body.ok_or_else(|| SignatureError::Incomplete("content-digest".to_owned()))?;
    Ok(BatchDigests { actions: fields::digest_in("Countersign-Actions", actions)?, body })
}

/// What every signature must cover, so that nothing of a request can be exchanged, added or taken away.
fn require_covered(
    input: &Input<'_>,
    query: Option<&str>,
    if_match: Option<&str>,
    has_actions: bool,
    has_body: bool,
) -> Result<(), SignatureError> {
    input.require("@method")?;
    input.require("@authority")?;
    if !input.covers("@request-target") {
        input.require("@path")?;
        if query.is_some() {
            input.require("@query")?;
        }
    }
    if has_body {
        input.require("content-digest")?;
    }
    // Both ways: what is sent must be covered, and what is covered must be sent, or someone took it away.
    if if_match.is_some() != input.covers("if-match") {
        return Err(SignatureError::Incomplete("if-match".to_owned()));
    }
    if has_actions != input.covers(ACTIONS) {
        return Err(SignatureError::Incomplete(ACTIONS.to_owned()));
    }
    Ok(())
}

/// Whether what an entry keeps is a good signature for this gate, over everything that it must cover: what was asked when
/// it was presented, asked again of what is stored. `kept` is the body where the entry keeps it elsewhere.
pub fn verify_kept(signed: &Signed, kept: Option<&str>, origin: &str) -> Result<(), SignatureError> {
    let input = Input::parse(&signed.input)?;
    let parameters = input.parameters(&tag(origin))?;
    if parameters.key != signed.key {
        return Err(SignatureError::Invalid);
    }
    let body = signed.body.as_deref().or(kept).unwrap_or_default();
    let (is_batch, has_body) = (signed.batch.is_some(), !body.is_empty() || signed.batch.is_some());
    require_covered(&input, signed.query.as_deref(), signed.if_match.as_deref(), is_batch, has_body)?;
    verify_strict(signed, kept)
}

/// When a kept signature was made, in seconds since 1970 by the signer's clock.
///
/// # Errors
/// If its parameters are not those of a signature for this gate.
pub fn signed_at(signed: &Signed, origin: &str) -> Result<u64, SignatureError> {
    Ok(Input::parse(&signed.input)?.parameters(&tag(origin))?.created_s)
}

/// The signature base: the bytes that were signed. `kept` is the body where the entry keeps it elsewhere, as actions do.
pub fn base(signed: &Signed, kept: Option<&str>) -> Result<String, SignatureError> {
    let covered = Covered(Input::parse(&signed.input)?.components);
    base_with(signed, &covered, || match (&signed.body, signed.batch) {
        (Some(body), _) => body.digest(),
        (None, Some(batch)) => batch.body,
        (None, None) => Digest::of(kept.unwrap_or_default().as_bytes()),
    })
}

fn base_with(
    signed: &Signed,
    Covered(components): &Covered,
    digest: impl Fn() -> Digest,
) -> Result<String, SignatureError> {
    let mut base = String::with_capacity(256 + signed.input.len());
    for component in components {
        base.push('"');
        base.push_str(component);
        base.push_str("\": ");
        match component.as_str() {
            "@method" => base.push_str(&signed.method),
            "@authority" => base.push_str(&signed.authority),
            "@path" => base.push_str(&signed.path),
            // A request without a query is signed as if it had an empty one (RFC 9421, 2.2.7).
            "@query" => base.extend(["?", signed.query.as_deref().unwrap_or_default()]),
            "@request-target" => match &signed.query {
                Some(query) => base.extend([signed.path.as_str(), "?", query]),
                None => base.push_str(&signed.path),
            },
            "content-digest" => base.push_str(&digest_field(&digest())),
            "if-match" => {
                let lacks = || SignatureError::Incomplete("if-match".to_owned());
                base.push_str(signed.if_match.as_ref().ok_or_else(lacks)?);
            }
            ACTIONS => {
                let lacks = || SignatureError::Incomplete(ACTIONS.to_owned());
                base.push_str(&digest_field(&signed.batch.ok_or_else(lacks)?.actions));
            }
            other => return Err(SignatureError::Component(other.to_owned())),
        }
        base.push('\n');
    }
    base.push_str("\"@signature-params\": ");
    base.push_str(&signed.input);
    Ok(base)
}

/// Whether the key it names made this signature. Strict: keys of small order and signatures that could be written in
/// another way are refused.
pub fn verify_strict(signed: &Signed, kept: Option<&str>) -> Result<(), SignatureError> {
    verify_base(signed, &base(signed, kept)?)
}

/// The same before the body is read, by the digest that was sent for it.
pub fn verify_head(signed: &Signed, covered: &Covered, body: BodyDigest) -> Result<(), SignatureError> {
    // Without a digest none is covered, and this one is not asked for.
    let digest = || body.sent.unwrap_or_else(|| Digest::of(b""));
    verify_base(signed, &base_with(signed, covered, digest)?)
}

fn verify_base(signed: &Signed, base: &str) -> Result<(), SignatureError> {
    let key = known::verifying_key(&signed.key).map_err(|_| SignatureError::Invalid)?;
    key.verify_strict(base.as_bytes(), &Signature::from_bytes(&signed.signature)).map_err(|_| SignatureError::Invalid)
}

/// The name of a public key.
pub fn key_name(key: &VerifyingKey) -> KeyName {
    KeyName::of(key.to_bytes())
}
