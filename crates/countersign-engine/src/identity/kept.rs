//! What operators sign to halt, to resume and to confirm the clock: remembered for good, so that it may be judged by either clock.
//!
//! While the wall clock is away from ledger time, nothing that is signed by it is fresh; a gate that went by ledger time alone
//! could neither be told that the clock is right nor be halted. So these three are accepted if they are fresh by the wall clock.
//! That takes another memory than [`super::replay`], which forgets a nonce once ledger time has passed it by:
//!
//! - A wall clock can show a time twice. Set back a quarter of an hour, it makes fresh again what was accepted then.
//! - Ledger time comes to a second that the wall clock has shown. What was accepted by a clock a quarter of an hour ahead is fresh
//!   by ledger time a quarter of an hour later.
//!
//! So these are not forgotten with age: each that was ever accepted, by whichever clock, is in here and is refused from then
//! on. They are few, as only operators sign them. Should there be too many, the oldest half is dropped, and what was created no
//! later than the newest of those is judged like everything else.
//!
//! Having a memory of their own, they do not wait either for a gate that cannot tell what its window has forgotten: after an
//! unclean end, or when it was closed while its clock was ahead.
//!
//! The file is written before a `resume` or a confirmation is accepted. A halt does not wait for it: housekeeping writes it at
//! its next round. A halt that was accepted in the last moment before a kill could so be sent once more; it stops what an
//! operator stopped a moment before, and resumes nothing.
//!
//! Nothing else is judged by a wall clock that has stepped. Once an operator has confirmed one that is behind, it judges
//! everything, and then the window refuses whatever was created no later than the newest nonce that it has forgotten.

use crate::storage::disk::{Disk, read_small, replace_small};
use countersign_core::identity::{KeyName, Signed};
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::io;

/// Most that are kept.
const KEPT_MAX: usize = 2048;

/// Name of the file in the data folder.
const FILE: &str = "operators-seen";

const MAGIC: &[u8; 16] = b"countersign-ops1";

const HALT: &str = "/v1/halts";

/// Whether a request is one of those that are kept, and may pass while the clock has stepped.
pub(super) fn is_kept(signed: &Signed) -> bool {
    &*signed.method == "POST" && matches!(&*signed.path, HALT | "/v1/halts/resume" | "/v1/clock/confirm")
}

/// Whether a kept request only stops.
pub(super) fn is_halt(signed: &Signed) -> bool {
    &*signed.path == HALT
}

/// What was accepted, in the order in which it was.
#[derive(Debug, Default)]
pub struct Kept {
    /// When each was created, and what stands for its key and nonce.
    seen: VecDeque<(u64, [u8; 16])>,
    /// What was created in this second or before may have been dropped.
    floor_s: u64,
    /// Whether there is something that is not in the file.
    is_unwritten: bool,
}

impl Kept {
    /// Reads what an earlier run has kept. What cannot be read may have held anything, and then all are judged like everything else.
    pub fn read(disk: &dyn Disk) -> io::Result<Self> {
        let Some(bytes) = read_small(disk, FILE, MAGIC.len() + 8 + 24 * KEPT_MAX + 32)? else {
            return Ok(Self::default());
        };
        Ok(decode(&bytes).unwrap_or_else(|| {
            tracing::warn!("`{FILE}` is damaged: `halt` and `clock confirm` are refused while the clock has stepped");
            Self { floor_s: u64::MAX, ..Self::default() }
        }))
    }

    /// Whether one created in this second may have been accepted and dropped.
    pub(super) fn is_forgotten(&self, created_s: u64) -> bool {
        created_s <= self.floor_s
    }

    pub(super) fn has(&self, key: &KeyName, nonce: &str) -> bool {
        let digest = digest(key, nonce);
        self.seen.iter().any(|(_, seen)| *seen == digest)
    }

    pub(super) fn insert(&mut self, key: &KeyName, nonce: &str, created_s: u64) {
        if self.seen.len() >= KEPT_MAX {
            for (dropped_s, _) in self.seen.drain(..KEPT_MAX / 2) {
                self.floor_s = self.floor_s.max(dropped_s);
            }
        }
        self.seen.push_back((created_s, digest(key, nonce)));
        self.is_unwritten = true;
    }

    /// Writes what is not in the file yet.
    pub fn write(&mut self, disk: &dyn Disk) -> io::Result<()> {
        if !self.is_unwritten {
            return Ok(());
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.floor_s.to_le_bytes());
        for (created_s, digest) in &self.seen {
            bytes.extend_from_slice(&created_s.to_le_bytes());
            bytes.extend_from_slice(digest);
        }
        let sum: [u8; 32] = Sha256::digest(&bytes).into();
        bytes.extend_from_slice(&sum);
        replace_small(disk, FILE, &bytes)?;
        self.is_unwritten = false;
        Ok(())
    }
}

fn decode(bytes: &[u8]) -> Option<Kept> {
    let (bytes, sum) = bytes.split_last_chunk::<32>()?;
    if <[u8; 32]>::from(Sha256::digest(bytes)) != *sum {
        return None;
    }
    let (floor_s, rows) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    let (rows, []) = rows.as_chunks::<24>() else { return None };
    let row = |row: &[u8; 24]| {
        let (created_s, digest) = row.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*created_s), *digest.first_chunk::<16>()?))
    };
    let seen = rows.iter().map(row).collect::<Option<_>>()?;
    Some(Kept { seen, floor_s: u64::from_le_bytes(*floor_s), is_unwritten: false })
}

fn digest(key: &KeyName, nonce: &str) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(key.public_key());
    hash.update(nonce.as_bytes());
    <[u8; 32]>::from(hash.finalize()).first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::RealDisk;

    #[test]
    fn what_is_dropped_is_refused_by_its_time_and_a_damaged_file_refuses_all() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(dir.path()).unwrap();
        let (key, nonce) = (KeyName::of([1; 32]), |at: usize| format!("nonce-{at}"));
        let mut kept = Kept::default();
        for at in 0..=KEPT_MAX {
            kept.insert(&key, &nonce(at), at as u64);
        }
        kept.write(&disk).unwrap();
        let back = Kept::read(&disk).unwrap();
        for at in 0..=KEPT_MAX {
            assert!(back.has(&key, &nonce(at)) != back.is_forgotten(at as u64), "{at}");
        }
        assert!(!back.has(&KeyName::of([2; 32]), &nonce(KEPT_MAX)));
        let mut bytes = std::fs::read(dir.path().join(FILE)).unwrap();
        bytes[100] ^= 1;
        std::fs::write(dir.path().join(FILE), bytes).unwrap();
        assert!(Kept::read(&disk).unwrap().is_forgotten(u64::MAX));
    }
}
