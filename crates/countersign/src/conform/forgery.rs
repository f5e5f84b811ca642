//! What someone makes who writes every field by hand: requests in the name of another's key or over a body that another signed, and
//! sealed words that are no longer as they were sealed.

use super::gate::{Subject, random};
use crate::client::{Call, Client};
use crate::key_file;
use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use countersign_core::identity::KeyName;
use countersign_signature::{Headers, Signable, Wire, authority, base, parse, sign};
use ed25519_dalek::{Signer as _, SigningKey};
use serde::de::DeserializeOwned;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a sealed word ends with, which says whether it is as it was sealed.
const SEAL_LEN: usize = 16;

/// A sealed word whose text ends in one way, made to end in another without its key. Its bearer can know the text, which is what was
/// told with it; it is sealed bit by bit, so one bit changed outside is one bit changed inside.
pub fn rewritten(sealed: &str, ends: &str, will_end: &str) -> Result<String> {
    ensure!(ends.len() == will_end.len(), "`{ends}` and `{will_end}` have not the same length");
    let (prefix, word) = sealed.split_once('.').context("it is not a sealed word")?;
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(word)?;
    let at = bytes.len().checked_sub(SEAL_LEN + ends.len()).context("the sealed word is too short")?;
    for (byte, (before, after)) in bytes.iter_mut().skip(at).zip(ends.bytes().zip(will_end.bytes())) {
        *byte ^= before ^ after;
    }
    Ok(format!("{prefix}.{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)))
}

/// A request, and where it goes.
pub struct Request<'a> {
    pub subject: &'a Subject,
    pub method: &'static str,
    pub path: &'a str,
    pub body: &'a str,
}

impl Request<'_> {
    /// The fields of a signature by this key.
    pub fn signed(&self, key: &SigningKey) -> Result<Headers> {
        let (authority, path) = self.target();
        let (method, body) = (self.method, self.body);
        let request =
            Signable { method, authority: &authority, path: &path, query: None, if_match: None, actions: None, body };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok(sign(key, &request, &self.subject.origin()?, now_s, &random(18)?)?)
    }

    /// The same in the name of another key, of which only the name is known.
    pub fn signed_in_the_name_of(&self, named: &KeyName, key: &SigningKey) -> Result<Headers> {
        let own = self.signed(key)?;
        let input = own.input.replacen(key_file::name(key).as_str(), named.as_str(), 1);
        let (authority, path) = self.target();
        let wire = Wire {
            method: self.method,
            authority: &authority,
            path: &path,
            query: None,
            if_match: None,
            actions: None,
            body: self.body,
            content_digest: own.content_digest.as_deref(),
            input: Some(&input),
            signature: Some(&own.signature),
        };
        let signed = key.sign(base(&parse(&wire, &self.subject.origin()?)?.signed, None)?.as_bytes());
        let (label, _) = own.signature.split_once('=').context("a signature has a label")?;
        let signature = format!("{label}=:{}:", BASE64_STANDARD.encode(signed.to_bytes()));
        Ok(Headers { input, signature, ..own })
    }

    /// Sends it under a signature, whatever that was made for.
    pub fn send<T: DeserializeOwned>(&self, headers: &Headers) -> Result<T> {
        let call = match self.method {
            "PUT" => Call::put(self.path),
            _ => Call::post(self.path),
        };
        let call = call.body("application/json", self.body.as_bytes().to_vec());
        let digest = headers.content_digest.clone().context("a body has a digest")?;
        let call = call.header("content-digest", digest).header("signature-input", &headers.input);
        Client::remote(self.subject.url())?.call_once(call.header("signature", &headers.signature))
    }

    /// Host and path, as a signature has them. Over a socket, the host is this machine.
    fn target(&self) -> (String, String) {
        let address = self.subject.url().trim_end_matches('/');
        let address =
            ["http://", "https://"].iter().find_map(|scheme| address.strip_prefix(scheme)).unwrap_or("localhost");
        let (host, prefix) = address.split_at(address.find('/').unwrap_or(address.len()));
        (authority(host).to_string(), format!("{prefix}{}", self.path))
    }
}
