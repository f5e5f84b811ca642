//! What a reviewer was shown, sealed: `rvw1.` tokens. An approval carries one, so it is bound to what its reviewer saw (I8).

use super::{NONCE_LEN, Sealer, TokenError};
use countersign_core::action::Observed;
use countersign_core::canonical::Canonical;
use countersign_core::decision::PactRef;
use countersign_core::fact::Version;
use countersign_core::ids::{AgentId, PactName};
use countersign_core::review::{ReviewId, Shown};
use countersign_core::value::Attributes;
use serde::Deserialize;
use smol_str::SmolStr;

const PREFIX: &str = "rvw1.";

/// Longest token that is opened: the most facts of the largest size that an action reads, in base64.
const CHARS_MAX: usize = 1 << 20;

impl Sealer {
    /// Seals what was shown under a nonce that is never used again.
    pub fn seal_shown(&self, shown: &Shown, nonce: [u8; NONCE_LEN]) -> String {
        let mut out = Canonical::new();
        write(&mut out, shown);
        self.seal_bytes(PREFIX, out.as_str().as_bytes(), nonce)
    }

    /// Opens what `reviewer` was shown, at this time.
    pub fn open_shown(&self, token: &str, reviewer: &AgentId, now_ms: u64) -> Result<Shown, TokenError> {
        let plain = self.open_bytes(PREFIX, token, CHARS_MAX, now_ms)?;
        let shown = read(&plain).ok_or(TokenError::Malformed)?;
        if shown.to == *reviewer { Ok(shown) } else { Err(TokenError::NotYours) }
    }

    /// Opens what somebody was shown, no matter who carries it.
    #[cfg(feature = "sabotage")]
    pub fn open_shown_for_anyone(&self, token: &str, now_ms: u64) -> Result<Shown, TokenError> {
        read(&self.open_bytes(PREFIX, token, CHARS_MAX, now_ms)?).ok_or(TokenError::Malformed)
    }

    /// Opens what `reviewer` was shown, whether or not it still is as it was sealed.
    #[cfg(feature = "sabotage")]
    pub fn open_altered_shown(&self, token: &str, reviewer: &AgentId, now_ms: u64) -> Result<Shown, TokenError> {
        let plain = self.open_altered_bytes(PREFIX, token, CHARS_MAX, now_ms)?;
        let shown = read(&plain).ok_or(TokenError::Malformed)?;
        if shown.to == *reviewer { Ok(shown) } else { Err(TokenError::NotYours) }
    }
}

fn write(out: &mut Canonical, shown: &Shown) {
    out.open('{');
    out.key("action");
    out.hex_string(&shown.action.0);
    out.key("at");
    out.u64(shown.at_ms);
    out.key("facts");
    out.open('[');
    for fact in &shown.facts {
        out.element();
        fact.write(out, true);
    }
    out.close(']');
    out.key("hash");
    out.hex_string(&shown.pact.hash.0);
    out.key("pact");
    out.string(shown.pact.name.as_str());
    out.key("review");
    out.u64(shown.review.0);
    out.key("to");
    out.string(shown.to.as_str());
    out.key("version");
    out.u64(shown.pact.version);
    out.key("waives");
    out.open('[');
    for precondition in &shown.waives {
        out.element();
        out.string(precondition);
    }
    out.close(']');
    out.close('}');
}

#[derive(Deserialize)]
struct Sealed {
    action: String,
    at: u64,
    facts: Vec<SealedFact>,
    hash: String,
    pact: String,
    review: u64,
    to: String,
    version: u64,
    waives: Vec<SmolStr>,
}

#[derive(Deserialize)]
struct SealedFact {
    at: u64,
    digest: Option<String>,
    fact: String,
    value: Option<serde_json::Map<String, serde_json::Value>>,
    version: Option<u64>,
}

fn read(plain: &[u8]) -> Option<Shown> {
    let sealed: Sealed = serde_json::from_slice(plain).ok()?;
    let facts = sealed.facts.into_iter().map(|fact| {
        let value = match &fact.value {
            Some(value) => Some(Attributes::from_untyped_json(value).ok()?),
            None => None,
        };
        let version = Version::read(fact.version, fact.digest.as_deref())?;
        Some(Observed { fact: fact.fact.parse().ok()?, version, at_ms: fact.at, value })
    });
    Some(Shown {
        to: AgentId::new(sealed.to).ok()?,
        review: ReviewId(sealed.review),
        action: sealed.action.parse().ok()?,
        pact: PactRef {
            name: PactName::new(sealed.pact).ok()?,
            version: sealed.version,
            hash: sealed.hash.parse().ok()?,
        },
        at_ms: sealed.at,
        facts: facts.collect::<Option<_>>()?,
        waives: sealed.waives,
    })
}
