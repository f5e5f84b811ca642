//! The other side: signing a request, as clients do.

use super::{ACTIONS, SignatureError, base, key_name, tag};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::identity::{BatchDigests, Signed};
use countersign_core::ids::Digest;
use ed25519_dalek::{Signer as _, SigningKey};
use sfv::{KeyRef, ListSerializer, StringRef};
use smol_str::SmolStr;
use std::sync::Arc;

/// Under which label our signatures stand.
const LABEL: &str = "sig1";

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Signable<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// Host and port it goes to, as [`authority`] gives them.
    pub authority: &'a str,
    /// The path, encoded as it is sent.
    pub path: &'a str,
    /// The query without its question mark, encoded as it is sent.
    pub query: Option<&'a str>,
    /// The field `If-Match`, where it is sent.
    pub if_match: Option<&'a str>,
    /// Of a batch, the digest of the ids of its actions: [`BatchDigests::of_actions`].
    pub actions: Option<Digest>,
    /// The body; empty for none.
    pub body: &'a str,
}

/// The fields that make a request a signed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// `Content-Digest`, where there is a body.
    pub content_digest: Option<String>,
    /// `Countersign-Actions`, of a batch.
    pub actions: Option<String>,
    /// `Signature-Input`.
    pub input: String,
    pub signature: String,
}

/// Host and port as signatures have them: lower case, without the port that http or https implies. Which of them was spoken with the
/// client only a proxy knows, where there is one; so neither port is ever signed.
pub fn authority(host: &str) -> SmolStr {
    let host = host.to_ascii_lowercase();
    host.strip_suffix(":80").or_else(|| host.strip_suffix(":443")).unwrap_or(&host).into()
}

/// The field `Content-Digest` of a body.
pub fn content_digest(body: &[u8]) -> String {
    digest_field(&Digest::of(body))
}

/// The same of a body with this digest; `Countersign-Actions` has the same form.
pub fn digest_field(digest: &Digest) -> String {
    format!("sha-256=:{}:", STANDARD.encode(digest.0))
}

/// Signs a request to the gate with this origin. The nonce must be new and unguessable, the time the present.
pub fn sign(
    key: &SigningKey,
    request: &Signable<'_>,
    origin: &str,
    created_s: u64,
    nonce: &str,
) -> Result<Headers, SignatureError> {
    let name = key_name(&key.verifying_key());
    let mut signed = Signed {
        input: Arc::from(input(request, origin, created_s, nonce, name.as_str())?),
        key: name,
        method: request.method.into(),
        authority: request.authority.into(),
        path: request.path.into(),
        query: request.query.map(SmolStr::from),
        if_match: request.if_match.map(SmolStr::from),
        batch: request.actions.map(|actions| BatchDigests { actions, body: Digest::of(request.body.as_bytes()) }),
        body: (!request.body.is_empty()).then(|| request.body.into()),
        signature: [0; 64],
    };
    signed.signature = key.sign(base(&signed, None)?.as_bytes()).to_bytes();
    Ok(Headers {
        actions: request.actions.as_ref().map(digest_field),
        content_digest: signed.body.as_ref().map(|body| digest_field(&body.digest())),
        input: format!("{LABEL}={}", signed.input),
        signature: format!("{LABEL}=:{}:", STANDARD.encode(signed.signature)),
    })
}

fn input(
    request: &Signable<'_>,
    origin: &str,
    created_s: u64,
    nonce: &str,
    keyid: &str,
) -> Result<String, SignatureError> {
    let refused = |error: sfv::Error| SignatureError::Malformed(error.to_string());
    let text = |text| StringRef::from_str(text).map_err(refused);
    let name = |name| KeyRef::from_str(name).map_err(refused);
    let created = i64::try_from(created_s).ok().and_then(|created| sfv::Integer::try_from(created).ok());
    let created = created.ok_or_else(|| SignatureError::Malformed("`created` is out of range".to_owned()))?;
    let tag = tag(origin);
    let mut list = ListSerializer::new();
    let mut covered = list.inner_list();
    for component in ["@method", "@authority", "@path"] {
        let _ = covered.bare_item(text(component)?);
    }
    if request.query.is_some() {
        let _ = covered.bare_item(text("@query")?);
    }
    if !request.body.is_empty() {
        let _ = covered.bare_item(text("content-digest")?);
    }
    if request.if_match.is_some() {
        let _ = covered.bare_item(text("if-match")?);
    }
    if request.actions.is_some() {
        let _ = covered.bare_item(text(ACTIONS)?);
    }
    let _ = covered
        .finish()
        .parameter(name("created")?, created)
        .parameter(name("nonce")?, text(nonce)?)
        .parameter(name("keyid")?, text(keyid)?)
        .parameter(name("tag")?, text(&tag)?);
    Ok(list.finish().unwrap_or_default())
}
