//! Signatures that stand in a log, verified again by whoever reads it.

use super::signature::{SignatureError, verify_kept};
use countersign_core::identity::Auth;
use countersign_core::record::{DecodeError, Entry, Event, Leaf};

/// What became of the signature of one stored entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Nobody signed: an open gate, or the gate itself.
    Unsigned,
    /// The signature is that of the key it names, over what the entry holds.
    Verified,
    /// The same, by a key that a gateway holds for the agent: it says nothing of the agent itself.
    VerifiedOfGateway,
}

/// Why the signature of an entry does not stand.
#[derive(Debug, thiserror::Error)]
pub enum NotSigned {
    /// The entry cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The signature is not good.
    #[error("its signature by {key} does not verify: {source}")]
    Signature {
        /// The key that it names.
        key: String,
        /// Why not.
        source: SignatureError,
    },
}

/// Verifies the signature of a stored entry, if it has one, over the body that the entry holds, as one that was made for
/// the gate of this origin.
pub fn check(leaf: &Leaf, payload: &[u8], origin: &str) -> Result<Checked, NotSigned> {
    if !leaf.auth.is_signed() {
        // Most entries of an open gate. Whether the rest of them can be read is for an audit.
        Entry::decode_to_fold(leaf.clone(), Some(payload))?;
        return Ok(Checked::Unsigned);
    }
    let Entry { auth, event, .. } = Entry::decode(leaf.clone(), Some(payload))?;
    let (signed, verified) = match auth {
        Auth::None => return Ok(Checked::Unsigned),
        Auth::Signature(signed) => (signed, Checked::Verified),
        Auth::Gateway(signed) => (signed, Checked::VerifiedOfGateway),
    };
    let kept = match &event {
        Event::Action(decided) => Some(decided.action.body.as_ref()),
        _ => None,
    };
    if let (Some(_), Some(_)) = (kept, &signed.body) {
        return Err(DecodeError::Signed("body").into());
    }
    let refused = |source| NotSigned::Signature { key: signed.key.to_string(), source };
    verify_kept(&signed, kept, origin).map_err(refused)?;
    Ok(verified)
}
