//! What a signed request means: which method, path and body make which entry.
//!
//! A signature says that its sender asked for this path with this body. The gate's router decides what that does; an audit asks
//! again here, so that the holder of the log's key cannot put a good signature down under something that was never asked for.

mod body;

pub(crate) use body::claimed_for_ms;

use countersign_core::identity::Signed;
use countersign_core::ids::FactId;
use countersign_core::record::{Entry, Event};
use countersign_core::state::State;
use countersign_core::value::Attributes;
use countersign_signature::BATCH_PATH;

/// Checks that a signed request asked for what its entry says, at the entry's place.
///
/// # Errors
/// Says what was signed, and for what it was taken.
pub fn check(signed: &Signed, entry: &Entry, state: &State) -> Result<(), String> {
    let event = &entry.event;
    if !asks_for(signed, event) {
        let Signed { method, path, .. } = signed;
        return Err(format!(
            "what was signed is `{method} {path}`, which cannot produce an entry of kind `{}`",
            event.kind()
        ));
    }
    body::check(signed, event, state)
}

fn asks_for(signed: &Signed, event: &Event) -> bool {
    let is = |method: &str, path: &str| signed.method == method && signed.path == path;
    let posts = |path: &str| is("POST", path);
    match event {
        Event::Action(_) | Event::Done(_) => posts("/v1/actions"),
        Event::Batch { is_atomic, .. } => posts(BATCH_PATH) && asks_atomic(signed) == *is_atomic,
        Event::Group(_) => posts(BATCH_PATH) && asks_atomic(signed),
        Event::Pact(_) => posts("/v1/pacts"),
        Event::Feed { write, held: None } => feeds(signed, &write.fact, write.value.as_ref()),
        Event::Held { fact, value } => feeds(signed, fact, value.as_ref()),
        Event::Confirm { fact, .. } => {
            signed.method == "POST" && signed.path.strip_suffix("/confirm").is_some_and(|path| names(path, fact))
        }
        Event::Approval(approved) => posts(&format!("/v1/reviews/{}/approve", approved.shown.review)),
        Event::Refusal { review, .. } => posts(&format!("/v1/reviews/{review}/refuse")),
        Event::Claim { .. } => posts("/v1/claims"),
        Event::Observation(_) => posts("/v1/observe"),
        Event::Extension { claim, .. } => posts(&format!("/v1/claims/{claim}/extend")),
        Event::Withdrawal { claim } => posts(&format!("/v1/claims/{claim}/withdraw")),
        Event::Settle(settle) => posts(&format!("/v1/effects/{}/resolve", settle.effect)),
        Event::Halt { .. } => posts("/v1/halts"),
        Event::Resume { .. } => posts("/v1/halts/resume"),
        Event::Clock { .. } => posts("/v1/clock/confirm"),
        Event::Erasure { .. } => posts("/v1/ledger/erasures"),
        Event::Rotation { .. } => posts("/v1/keys/log/rotate"),
        // The gate's own: no one asks for them.
        Event::Genesis { .. }
        | Event::Feed { held: Some(_), .. }
        | Event::Dispatch(_)
        | Event::Session { .. }
        | Event::Reading { .. }
        | Event::Expiry { .. }
        | Event::Denials(_) => false,
        // There is nothing left of what was signed.
        Event::Erased(_) => true,
    }
}

/// Whether a batch was to commit all or nothing. The query is covered by its signature, and the gate reads it in the same way.
pub fn asks_atomic(signed: &Signed) -> bool {
    signed.query.as_deref().is_some_and(|query| query.split('&').any(|pair| pair == ATOMIC))
}

/// The pair of a query that asks for an atomic group.
pub const ATOMIC: &str = "atomic=true";

fn feeds(signed: &Signed, fact: &FactId, value: Option<&Attributes>) -> bool {
    let method = if value.is_some() { "PUT" } else { "DELETE" };
    signed.method == method && names(&signed.path, fact)
}

/// Whether a path names a fact, in whichever of the ways that a URL has to write it.
fn names(path: &str, fact: &FactId) -> bool {
    let parts = path.strip_prefix("/v1/facts/").and_then(|rest| rest.split_once('/'));
    let Some((ty, id)) = parts.filter(|(_, id)| !id.contains('/')) else { return false };
    decoded(ty).as_deref() == Some(fact.ty().as_str().as_bytes())
        && decoded(id).as_deref() == Some(fact.id().as_bytes())
}

/// A part of a path without its percent-encoding; `None` where that is broken.
fn decoded(part: &str) -> Option<Vec<u8>> {
    let mut bytes = part.bytes();
    let mut decoded = Vec::with_capacity(part.len());
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        decoded.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?,
            plain => plain,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

    use super::*;

    #[test]
    fn a_path_names_a_fact_in_every_spelling_and_no_other() {
        let fact: FactId = "Account::\"a/b c\"".parse().unwrap();
        for path in ["/v1/facts/Account/a%2Fb%20c", "/v1/facts/%41ccount/a%2fb%20%63"] {
            assert!(names(path, &fact), "{path}");
        }
        for path in [
            "/v1/facts/Account/a/b%20c",
            "/v1/facts/Account/a%2Fb",
            "/v1/fact/Account/a%2Fb%20c",
            "/v1/facts/Account/%",
        ] {
            assert!(!names(path, &fact), "{path}");
        }
    }
}
