//! Signatures that stand in a log, verified again by whoever reads it.

use super::batches::Batches;
use countersign_core::identity::Auth;
use countersign_core::record::{DecodeError, Entry, Event, Kind, Leaf, LeafAuth};
use countersign_signature::{SignatureError, verify_kept};

/// What became of the signature of one stored entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Nobody signed: an open gate, or the gate itself.
    Unsigned,
    /// The signature is that of the key it names, over what the entry holds.
    Verified,
    /// The same, by a key that a gateway holds for the agent: it says nothing of the agent itself.
    VerifiedOfGateway,
    /// It is an action of a batch, whose entry has the signature: [`Signatures`] tells.
    OfBatch,
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
    /// It refers to a batch that does not vouch for it.
    #[error("{0}")]
    Batch(String),
}

/// The signatures of a log that is read from its start, so that those of batches vouch for their actions, also for the ones whose
/// payloads are erased.
#[derive(Debug, Default)]
pub struct Signatures {
    batches: Batches,
}

impl Signatures {
    /// Verifies the signature of the next entry; `payload` is `None` where it was erased.
    ///
    /// # Errors
    /// If it cannot be read, its signature is not good, or the batch that it refers to does not vouch for it.
    pub fn check(&mut self, leaf: &Leaf, payload: Option<&[u8]>, origin: &str) -> Result<Checked, NotSigned> {
        let checked = payload.map_or(Ok(Checked::Unsigned), |payload| check(leaf, payload, origin))?;
        let is_of_batches = leaf.kind == Kind::Batch || leaf.batch.is_some() || self.batches.unfinished().is_some();
        if !is_of_batches {
            return Ok(checked);
        }
        let entry = Entry::decode(leaf.clone(), payload)?;
        self.batches.check(&entry).map_err(NotSigned::Batch)?;
        Ok(match (checked, leaf.auth) {
            (Checked::OfBatch | Checked::Unsigned, LeafAuth::Signature) => Checked::Verified,
            (Checked::OfBatch | Checked::Unsigned, LeafAuth::Gateway) => Checked::VerifiedOfGateway,
            (checked, _) => checked,
        })
    }
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
        Auth::Batch { .. } => return Ok(Checked::OfBatch),
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
