//! Salted commitments: how a leaf binds a payload without disclosing it.
//!
//! The salt is 16 random bytes, kept beside the payload and erased with it. Without it the hash says nothing, even about a
//! payload that could be guessed; so an erased payload is gone, and the proofs over the leaf still hold. This module does not
//! make salts: randomness is for the caller to bring.

use sha2::{Digest, Sha256};

use crate::hash::Hash;
use crate::segment::SALT_LEN;

/// SHA-256(salt || payload). The salt's fixed length keeps the two apart.
#[must_use]
pub fn commitment(salt: &[u8; SALT_LEN], payload: &[u8]) -> Hash {
    Hash(Sha256::new().chain_update(salt).chain_update(payload).finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salt_and_payload_both_matter() {
        let plain = commitment(&[0; 16], b"payload");
        assert_eq!(plain, Hash(Sha256::digest([[0; 16].as_slice(), b"payload"].concat()).into()));
        assert_ne!(plain, commitment(&[1; 16], b"payload"));
        assert_ne!(plain, commitment(&[0; 16], b"payloaD"));
    }
}
