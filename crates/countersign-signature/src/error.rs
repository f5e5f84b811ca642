//! Why a caller was not believed. Each reason has a code of its own, so that no one has to guess which of ten things it was.

use super::{NONCE_CHARS_MAX, NONCE_CHARS_MIN};

/// Why a signature was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is none.
    #[error("this request is not signed, and this gate takes nothing unsigned")]
    Missing,
    /// It cannot be read.
    #[error("the signature cannot be read: {0}")]
    Malformed(String),
    /// It covers something whose value is not kept.
    #[error("the signature covers `{0}`, which this gate does not keep and so could not check again later")]
    Component(String),
    /// Something is not covered, or a parameter is missing.
    #[error("the signature lacks `{0}`")]
    Incomplete(String),
    /// The nonce is too short, too long, or not printable.
    #[error("the nonce must have {NONCE_CHARS_MIN} to {NONCE_CHARS_MAX} printable characters without spaces")]
    Nonce,
    /// It was made for another gate, or for something else.
    #[error("the signature is for `{found}`, and this gate is `{expected}`")]
    Tag {
        /// What it says.
        found: String,
        /// What it must say.
        expected: String,
    },
    /// Another algorithm.
    #[error("the signature's algorithm is `{0}`; only `ed25519` is supported")]
    Algorithm(String),
    /// The body is not the one that was signed.
    #[error("the body does not match the digest in `Content-Digest`")]
    Digest,
    /// Its time is over.
    #[error("the signature was made {age_s} s ago by this gate's clock; after {window_s} s it is worth nothing")]
    Expired {
        /// How old it is.
        age_s: u64,
        /// How old it may be.
        window_s: u64,
    },
    /// Its own `expires` has passed.
    #[error("the signature says of itself that it is worth nothing any more (`expires`)")]
    Over,
    /// It was made before this gate was started, and nothing that old is accepted just after a start.
    #[error("the signature was made before this gate was started")]
    BeforeStart,
    /// It comes from the future.
    #[error("the signature was made {ahead_s} s ahead of this gate's clock; at most {skew_s} s are allowed")]
    Future {
        /// How far ahead.
        ahead_s: u64,
        /// How far it may be.
        skew_s: u64,
    },
    /// No one is registered with this key.
    #[error("no one is registered with the key {0}")]
    KeyUnknown(String),
    /// The key did not make it.
    #[error("the signature is not that of the key it names over this request")]
    Invalid,
    /// It was here before.
    #[error("this very signature was here before")]
    Replayed,
}

impl SignatureError {
    /// The code, as it stands on the wire and in docs/codes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "signature_missing",
            Self::Malformed(_) | Self::Component(_) | Self::Nonce => "signature_malformed",
            Self::Incomplete(_) => "signature_incomplete",
            Self::Tag { .. } => "signature_tag",
            Self::Algorithm(_) => "signature_algorithm",
            Self::Digest => "digest_mismatch",
            Self::Expired { .. } | Self::Over | Self::BeforeStart | Self::Future { .. } => "signature_expired",
            Self::KeyUnknown(_) => "key_unknown",
            Self::Invalid => "signature_invalid",
            Self::Replayed => "signature_replayed",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing => {
                "sign the request (RFC 9421, docs/guides/identity.md); on the command line, name your key with --key"
            }
            Self::Malformed(_) => {
                "send one signature, each field once and in canonical form, as RFC 9421 and RFC 9651 write them"
            }
            Self::Component(_) => {
                "cover \"@method\", \"@authority\", \"@path\", \"@query\", \"content-digest\" and \"if-match\", and nothing else"
            }
            Self::Incomplete(_) => {
                "cover \"@method\", \"@authority\", \"@path\", \"@query\" if there is a query, \"content-digest\" if there is a \
                 body and \"if-match\" if there is such a field, with the parameters created, nonce, keyid and tag; what is \
                 covered must also be sent"
            }
            Self::Nonce => "draw it at random for each request; 22 characters of base64 are plenty",
            Self::Tag { .. } => {
                "sign with the tag countersign:<origin>; the origin is the first line of /log/checkpoint"
            }
            Self::Algorithm(_) => "sign with Ed25519, and leave `alg` out or say ed25519",
            Self::Digest => "compute Content-Digest (sha-256) over the very bytes that are sent",
            Self::Expired { .. } | Self::Over | Self::BeforeStart => {
                "sign again, with the present time and a new nonce"
            }
            Self::Future { .. } => "correct the clock of one of the two machines",
            Self::KeyUnknown(_) => {
                "register the key (`countersign agent new`, `countersign operator new`), or use the one that is registered"
            }
            Self::Invalid => "sign the request exactly as it is sent, with the key that `keyid` names",
            Self::Replayed => {
                "sign every request afresh, with a new nonce; a retry of an action keeps its idempotency key"
            }
        }
    }
}
