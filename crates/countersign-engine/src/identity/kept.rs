//! What admins sign to halt, to resume and to confirm the clock: remembered for good, so that it may be judged by either clock.
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
//! on. Only what an active admin signed is: others are refused whatever they sign, and must not use up places. Halts, which are
//! never limited in number, have places of their own.
//!
//! Should there be too many, the oldest half is dropped, as far as it is too old for ledger time, and then whatever was created no
//! later is refused by either clock. What could still be fresh is never dropped. Where all places hold such, a halt that is
//! fresh by ledger time is accepted like any other request, and everything else is refused: a halt that is sent twice resumes
//! nothing.
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

use super::freshness::AGE_MAX_S;
use super::replay::ReplayWindow;
use crate::storage::disk::{Disk, read_small, replace_small};
use countersign_core::identity::{KeyName, Signed};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::io;

/// Most halts that are kept, and most of the others.
pub(super) const KEPT_MAX: usize = 2048;

/// Name of the file in the data folder.
const FILE: &str = "operators-seen";

const MAGIC: &[u8; 16] = b"countersign-ops2";

/// What a request that is kept asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only stops.
    Halt,
    /// A `resume`, or a confirmation of the clock.
    Other,
}

/// Which kind of kept request it is; `None` for what does not pass while the clock has stepped.
pub(super) fn kind(signed: &Signed) -> Option<Kind> {
    match (&*signed.method, &*signed.path) {
        ("POST", "/v1/halts") => Some(Kind::Halt),
        ("POST", "/v1/halts/resume" | "/v1/clock/confirm") => Some(Kind::Other),
        _ => None,
    }
}

/// What was accepted.
#[derive(Debug, Default)]
pub struct Kept {
    halts: Places,
    others: Places,
    /// Whether the file could not be read: it may have held anything.
    is_lost: bool,
    /// How often something was added.
    revision: u64,
}

/// What was accepted of one kind.
#[derive(Debug, Default)]
struct Places {
    /// When each was created, and what stands for its key and nonce.
    seen: BTreeSet<(u64, [u8; 16])>,
    /// What was created in this second or before may have been dropped.
    floor_s: u64,
}

impl Places {
    /// Whether there is room for one more, after dropping what ledger time has passed by.
    fn make_room(&mut self, ledger_s: u64) -> bool {
        if self.seen.len() < KEPT_MAX {
            return true;
        }
        while let Some((created_s, _)) = self.seen.first()
            && self.seen.len() > KEPT_MAX / 2
            && created_s.saturating_add(AGE_MAX_S) < ledger_s
        {
            self.floor_s = self.floor_s.max(*created_s);
            self.seen.pop_first();
        }
        self.seen.len() < KEPT_MAX
    }
}

impl Kept {
    /// Reads what an earlier run has kept. What cannot be read may have held anything, and then all are judged like everything else.
    pub fn read(disk: &dyn Disk) -> io::Result<Self> {
        let Some(bytes) = read_small(disk, FILE, MAGIC.len() + 24 + 2 * 24 * KEPT_MAX + 32)? else {
            return Ok(Self::default());
        };
        Ok(decode(&bytes).unwrap_or_else(|| {
            tracing::warn!("`{FILE}` is damaged: `halt` and `clock confirm` are refused while the clock has stepped");
            Self { is_lost: true, ..Self::default() }
        }))
    }

    fn places(&self, kind: Kind) -> &Places {
        match kind {
            Kind::Halt => &self.halts,
            Kind::Other => &self.others,
        }
    }

    fn places_mut(&mut self, kind: Kind) -> &mut Places {
        match kind {
            Kind::Halt => &mut self.halts,
            Kind::Other => &mut self.others,
        }
    }

    /// Whether it knows of all that was accepted, and so may let the wall clock judge.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_lost
    }

    /// Whether one created in this second may have been accepted and dropped.
    pub(super) fn is_forgotten(&self, kind: Kind, created_s: u64) -> bool {
        created_s <= self.places(kind).floor_s
    }

    pub(super) fn has(&self, kind: Kind, key: &KeyName, nonce: &str, created_s: u64) -> bool {
        self.places(kind).seen.contains(&(created_s, digest(key, nonce)))
    }

    /// Whether there is room for one more. Drops only what is too old at this second of ledger time.
    pub(super) fn make_room(&mut self, kind: Kind, ledger_s: u64) -> bool {
        self.places_mut(kind).make_room(ledger_s)
    }

    pub(super) fn insert(&mut self, kind: Kind, key: &KeyName, nonce: &str, created_s: u64) {
        self.places_mut(kind).seen.insert((created_s, digest(key, nonce)));
        self.revision += 1;
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let lost = u64::from(self.is_lost) << 63;
        let halts = self.halts.seen.len() as u64 | lost;
        for number in [self.halts.floor_s, self.others.floor_s, halts] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (created_s, digest) in self.halts.seen.iter().chain(&self.others.seen) {
            bytes.extend_from_slice(&created_s.to_le_bytes());
            bytes.extend_from_slice(digest);
        }
        let sum: [u8; 32] = Sha256::digest(&bytes).into();
        bytes.extend_from_slice(&sum);
        bytes
    }
}

/// The file, which is written without the lock that every signed request takes.
#[derive(Debug, Default)]
pub(crate) struct KeptFile {
    /// The revision that is in it.
    written: Mutex<u64>,
}

impl KeptFile {
    /// Writes what is not in the file yet. A caller that waits here finds its own written.
    pub(crate) fn write(&self, replays: &Mutex<ReplayWindow>, disk: &dyn Disk) -> io::Result<()> {
        let mut written = self.written.lock();
        let (revision, bytes) = {
            let kept = &replays.lock().kept;
            if kept.revision == *written {
                return Ok(());
            }
            (kept.revision, kept.encode())
        };
        replace_small(disk, FILE, &bytes)?;
        *written = revision;
        Ok(())
    }
}

fn decode(bytes: &[u8]) -> Option<Kept> {
    let (bytes, sum) = bytes.split_last_chunk::<32>()?;
    if <[u8; 32]>::from(Sha256::digest(bytes)) != *sum {
        return None;
    }
    let (numbers, rows) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<24>()?;
    let mut numbers = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
    let (halts_floor_s, others_floor_s, halts) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let (rows, []) = rows.as_chunks::<24>() else { return None };
    let row = |row: &[u8; 24]| {
        let (created_s, digest) = row.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*created_s), *digest.first_chunk::<16>()?))
    };
    let (is_lost, halts) = (halts >> 63 == 1, usize::try_from(halts << 1 >> 1).ok()?);
    let (halts, others) = rows.split_at_checked(halts)?;
    let places =
        |rows: &[[u8; 24]], floor_s| Some(Places { seen: rows.iter().map(row).collect::<Option<_>>()?, floor_s });
    Some(Kept { halts: places(halts, halts_floor_s)?, others: places(others, others_floor_s)?, is_lost, revision: 0 })
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

    const NOW_S: u64 = 1_000_000;

    fn read_back(kept: Kept, disk: &RealDisk) -> Kept {
        let mut window = ReplayWindow::new([0; 32], 0);
        window.kept = kept;
        let replays = Mutex::new(window);
        KeptFile::default().write(&replays, disk).unwrap();
        Kept::read(disk).unwrap()
    }

    #[test]
    fn what_is_dropped_is_refused_by_its_time_and_a_damaged_file_refuses_all() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(dir.path()).unwrap();
        let (key, nonce) = (KeyName::of([1; 32]), |at: usize| format!("nonce-{at}"));
        let mut kept = Kept::default();
        for at in 0..=KEPT_MAX {
            assert!(kept.make_room(Kind::Other, NOW_S));
            kept.insert(Kind::Other, &key, &nonce(at), at as u64);
        }
        let back = read_back(kept, &disk);
        for at in 0..=KEPT_MAX {
            let is_kept = back.has(Kind::Other, &key, &nonce(at), at as u64);
            assert!(is_kept != back.is_forgotten(Kind::Other, at as u64), "{at}");
        }
        assert!(back.is_whole() && !back.is_forgotten(Kind::Halt, 1), "halts have their own places");
        assert!(!back.has(Kind::Other, &KeyName::of([2; 32]), &nonce(KEPT_MAX), KEPT_MAX as u64));
        let mut bytes = std::fs::read(dir.path().join(FILE)).unwrap();
        bytes[100] ^= 1;
        std::fs::write(dir.path().join(FILE), bytes).unwrap();
        let mut lost = Kept::read(&disk).unwrap();
        assert!(!lost.is_whole());
        lost.insert(Kind::Halt, &key, &nonce(0), NOW_S);
        assert!(!read_back(lost, &disk).is_whole(), "also when it was written since");
    }

    #[test]
    fn what_could_still_be_fresh_is_never_dropped() {
        let (key, nonce) = (KeyName::of([1; 32]), |at: usize| format!("nonce-{at}"));
        let mut kept = Kept::default();
        kept.insert(Kind::Halt, &key, "ahead", NOW_S + 900);
        for at in 1..KEPT_MAX {
            assert!(kept.make_room(Kind::Halt, NOW_S));
            kept.insert(Kind::Halt, &key, &nonce(at), NOW_S);
        }
        assert!(!kept.make_room(Kind::Halt, NOW_S) && !kept.make_room(Kind::Halt, NOW_S + AGE_MAX_S));
        assert!(kept.make_room(Kind::Halt, NOW_S + AGE_MAX_S + 1));
        assert!(kept.has(Kind::Halt, &key, "ahead", NOW_S + 900));
        assert!(kept.is_forgotten(Kind::Halt, NOW_S) && !kept.is_forgotten(Kind::Halt, NOW_S + 1));
    }
}
