//! Signing what a command sends, with a key that stays here.

use super::Call;
use crate::commands::Failure;
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use countersign_core::identity::BatchDigests;
use countersign_signature::{Signable, authority, sign};
use ed25519_dalek::SigningKey;
use std::time::{SystemTime, UNIX_EPOCH};

/// A key, and the gate it signs for.
pub struct Signer {
    key: SigningKey,
    origin: String,
}

impl Signer {
    /// Signs for the gate with this origin and no other.
    pub fn new(key: SigningKey, origin: String) -> Self {
        Self { key, origin }
    }

    /// Signs a call to a host, with the present time and a new nonce. What it was signed with before is replaced.
    pub(super) fn sign(&self, call: &mut Call, host: &str, prefix: &str) -> Result<()> {
        call.headers.retain(|(name, _)| {
            !["content-digest", "countersign-actions", "signature-input", "signature"].contains(name)
        });
        let (path, query) = match call.path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (call.path.as_str(), None),
        };
        let body = std::str::from_utf8(call.body.as_deref().unwrap_or_default());
        let body = body.map_err(|_| Failure::usage("the body is not UTF-8 and cannot be signed"))?;
        let path = format!("{prefix}{path}");
        let if_match = call.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("if-match"));
        let if_match = if_match.map(|(_, value)| value.as_str());
        let actions = call.actions.as_deref().map(BatchDigests::of_actions);
        let authority = authority(host);
        let request =
            Signable { method: call.method, authority: &authority, path: &path, query, if_match, actions, body };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let mut nonce = [0; 18];
        getrandom::fill(&mut nonce).context("the system gives no randomness")?;
        let nonce = BASE64_URL_SAFE_NO_PAD.encode(nonce);
        let signed = sign(&self.key, &request, &self.origin, now.as_secs(), &nonce)?;
        if let Some(digest) = signed.content_digest {
            call.headers.push(("content-digest", digest));
        }
        if let Some(actions) = signed.actions {
            call.headers.push(("countersign-actions", actions));
        }
        call.headers.push(("signature-input", signed.input));
        call.headers.push(("signature", signed.signature));
        Ok(())
    }
}
