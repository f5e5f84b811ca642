//! Keys of everyone in simulated runs, and requests signed with them. The same name always has the same two keys.

use countersign_core::identity::{Auth, BatchDigests, KeyName, Signed};
use countersign_core::ids::Digest;
use countersign_signature::{BATCH_PATH, base, tag};
use ed25519_dalek::{Signer as _, SigningKey};
use std::sync::Arc;

/// A key of someone: number 0 is the one that is registered, another the one that a rotation brings.
#[must_use]
pub fn signing_key(name: &str, number: u8) -> SigningKey {
    let mut seed = [number.wrapping_add(1); 32];
    for (at, byte) in name.bytes().enumerate().take(31) {
        if let Some(place) = seed.get_mut(at + 1) {
            *place = byte;
        }
    }
    SigningKey::from_bytes(&seed)
}

/// The public name of a key of someone.
#[must_use]
pub fn key_name(name: &str, number: u8) -> String {
    KeyName::of(signing_key(name, number).verifying_key().to_bytes()).to_string()
}

/// A batch of actions, signed rightly, as an entry keeps it.
///
/// # Errors
/// Says why it cannot be signed.
pub fn signed_batch(
    key: &SigningKey,
    origin: &str,
    bodies: &[String],
    atomic: bool,
    created_s: u64,
    nonce: u64,
) -> Result<Auth, String> {
    let ids: Vec<Digest> = bodies.iter().map(|body| Digest::of(body.as_bytes())).collect();
    let body = Digest::of(format!("[{}]", bodies.join(",")).as_bytes());
    let name = KeyName::of(key.verifying_key().to_bytes());
    let covered = r#"("@method" "@authority" "@path" "@query" "content-digest" "countersign-actions")"#;
    let parameters = format!(r#";created={created_s};nonce="sim-{nonce:020}";keyid="{name}";tag="{}""#, tag(origin));
    let mut signed = Signed {
        key: name,
        input: Arc::from(format!("{covered}{parameters}")),
        method: "POST".into(),
        authority: "sim.test".into(),
        path: BATCH_PATH.into(),
        query: Some(format!("atomic={atomic}").into()),
        if_match: None,
        batch: Some(BatchDigests { actions: BatchDigests::of_actions(&ids), body }),
        body: None,
        signature: [0; 64],
    };
    let base = base(&signed, None).map_err(|error| error.to_string())?;
    signed.signature = key.sign(base.as_bytes()).to_bytes();
    Ok(Auth::Signature(Arc::new(signed)))
}

/// A request to a gate, signed rightly, as an entry keeps it.
///
/// # Errors
/// Says why it cannot be signed.
pub fn signed(
    key: &SigningKey,
    origin: &str,
    (method, path): (&str, &str),
    body: &str,
    created_s: u64,
    nonce: u64,
) -> Result<Auth, String> {
    let name = KeyName::of(key.verifying_key().to_bytes());
    let covered = r#"("@method" "@authority" "@path" "content-digest")"#;
    let parameters = format!(r#";created={created_s};nonce="sim-{nonce:020}";keyid="{name}";tag="{}""#, tag(origin));
    let mut signed = Signed {
        key: name,
        input: Arc::from(format!("{covered}{parameters}")),
        method: method.into(),
        authority: "sim.test".into(),
        path: path.into(),
        query: None,
        if_match: None,
        batch: None,
        body: Some(body.into()),
        signature: [0; 64],
    };
    let base = base(&signed, None).map_err(|error| error.to_string())?;
    signed.signature = key.sign(base.as_bytes()).to_bytes();
    Ok(Auth::Signature(Arc::new(signed)))
}
