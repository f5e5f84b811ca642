//! No signed request counts twice: the nonces of all that could still be accepted, in bounded memory, across restarts.
//!
//! A nonce has to be remembered only while its signature is fresh enough to be taken again. Two generations do that: what
//! is older than one whole generation is too old anyway, and is forgotten at once, without looking at each. A clean close
//! writes what is still fresh to a small file; after any other end nobody knows what was seen, so everything signed up to
//! the moment of opening is refused (I4). A signature from a clock that is ahead would outlive that moment; so before one is
//! taken, the seconds it may lie ahead are noted durably, for two seconds at once, and refused after such an end too. Until
//! those seconds have passed no fresh signature is accepted, and the gate says that it is not ready.

use super::freshness::{AGE_MAX_S, AHEAD_MAX_S};
use super::kept::Kept;
use crate::storage::disk::{Disk, read_small, replace_small};
use countersign_core::identity::{HolderKind, KeyName};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

/// Most nonces that are remembered. With 16 bytes each and the table's own room this is some 100 MB; it takes 30,000
/// signed requests a second for two minutes to get there. Past it nothing signed is taken until some are forgotten.
pub const NONCES_MAX: usize = 1 << 22;

/// How long a generation takes in: as long as a signature can be taken, from the most ahead to the oldest, and a second
/// for the fraction that `created` does not have.
const GENERATION_MS: u64 = (AGE_MAX_S + AHEAD_MAX_S + 1) * 1000;

/// Name of the file in the data folder.
const FILE: &str = "nonces";

/// Name of the file that says up to which second signatures from clocks ahead may have been taken.
const AHEAD_FILE: &str = "ahead";

/// How many more seconds are noted at once: one small write in two seconds, and only where clocks are ahead. Each second more
/// would be one more for which a gate that was killed is not ready.
const NOTED_AT_ONCE_S: u64 = 1;

const MAGIC: &[u8; 16] = b"countersign-non2";

/// What stands for a key and a nonce. It is keyed, so that nobody can choose nonces that collide.
type NonceDigest = [u8; 16];

/// Why a nonce was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotTaken {
    /// It was seen before.
    Seen,
    /// There is no room to remember it.
    Full,
    /// It may have been seen and forgotten.
    Forgotten,
}

/// The nonces of signatures that could still be accepted.
#[derive(Debug)]
pub struct ReplayWindow {
    secret: [u8; 32],
    current: HashSet<NonceDigest>,
    previous: HashSet<NonceDigest>,
    /// How many nonces of each key are in the current generation, and in the one before. Not kept across restarts.
    by_key: HashMap<[u8; 32], [u32; 2]>,
    /// When the current generation began, in ledger milliseconds.
    began_ms: u64,
    /// Whatever says that it was created in this second or before is refused: it may have been seen and forgotten.
    floor_s: Option<u64>,
    /// Up to which second it is noted durably that signatures may have been taken.
    noted_s: u64,
    /// Held while that is written.
    noting: Arc<Mutex<()>>,
    /// The newest second in which a signature of the current generation was created, and one of the generation before.
    newest_s: [u64; 2],
    /// Whether signatures are judged by a wall clock that is behind ledger time.
    is_behind: bool,
    nonces_max: usize,
    /// What is not forgotten.
    pub(super) kept: Kept,
}

/// That signatures of clocks that are ahead may have been taken up to a second, to be written.
#[derive(Debug)]
pub struct AheadNote {
    noted_s: u64,
    writing: Arc<Mutex<()>>,
}

impl AheadNote {
    /// Writes it durably, unless a later one was written meanwhile.
    pub fn write(self, window: &Mutex<ReplayWindow>, disk: &dyn Disk) -> io::Result<()> {
        let _one = self.writing.lock();
        // A note must never be replaced by an earlier one.
        if window.lock().noted_s >= self.noted_s {
            return Ok(());
        }
        replace_small(disk, AHEAD_FILE, format!("{}\n", self.noted_s).as_bytes())?;
        window.lock().noted_s = self.noted_s;
        Ok(())
    }
}

impl ReplayWindow {
    /// An empty window, for a log that has just begun.
    pub fn new(secret: [u8; 32], now_ms: u64) -> Self {
        Self {
            secret,
            current: HashSet::new(),
            previous: HashSet::new(),
            by_key: HashMap::new(),
            began_ms: now_ms,
            floor_s: None,
            noted_s: 0,
            noting: Arc::default(),
            newest_s: [0; 2],
            is_behind: false,
            nonces_max: NONCES_MAX,
            kept: Kept::default(),
        }
    }

    /// The window of a log that was there before: as it was left by a clean close, or else one that refuses everything
    /// signed until now. The file is gone, durably, when this returns: it is true once only.
    pub fn reopen(disk: &dyn Disk, secret: [u8; 32], now_ms: u64) -> io::Result<Self> {
        let bytes = read_small(disk, FILE, file_bytes_max())?;
        let left = bytes.as_deref().and_then(decode);
        if bytes.is_some() {
            disk.remove(FILE)?;
            disk.sync_dir()?;
        }
        let kept = Kept::read(disk)?;
        match left {
            Some(mut window) => {
                window.turn(now_ms);
                if window.newest_s.iter().max() > Some(&(now_ms / 1000 + AHEAD_MAX_S)) {
                    window.refuse_remembered();
                }
                Ok(Self { kept, ..window })
            }
            None => {
                let floor_s = read_noted(disk, now_ms)?.max(now_ms / 1000);
                Ok(Self { floor_s: Some(floor_s), kept, ..Self::new(secret, now_ms) })
            }
        }
    }

    /// What must be noted durably before a signature from a clock that is ahead is taken. Writing it waits for the disk, which no one
    /// else should wait for: the window is not held meanwhile.
    pub fn note_due(&self, created_s: u64, now_ms: u64) -> Option<AheadNote> {
        let is_due = created_s > now_ms / 1000 && created_s > self.noted_s;
        is_due.then(|| AheadNote {
            noted_s: created_s.saturating_add(NOTED_AT_ONCE_S),
            writing: Arc::clone(&self.noting),
        })
    }

    /// Writes what could still be accepted to the data folder, for the next [`Self::reopen`].
    pub fn save(&mut self, disk: &dyn Disk, now_ms: u64) -> io::Result<()> {
        self.turn(now_ms);
        replace_small(disk, FILE, &self.encode(now_ms))
    }

    /// Says whether signatures are judged by a wall clock that is behind. From when they are, what was created before is refused
    /// whether it is remembered or not: else the gate would be ready, and not any more when it comes to forget.
    pub fn set_behind(&mut self, is_behind: bool) {
        if is_behind && !self.is_behind {
            self.refuse_remembered();
        }
        self.is_behind = is_behind;
    }

    fn refuse_remembered(&mut self) {
        let newest_s = std::mem::take(&mut self.newest_s).into_iter().max();
        self.floor_s = self.floor_s.max(newest_s.filter(|newest_s| *newest_s > 0));
    }

    /// Whether a signature created in this second may have been seen and forgotten, by a gate that was restarted since.
    pub fn is_before_start(&self, created_s: u64) -> bool {
        self.floor_s.is_some_and(|floor_s| created_s <= floor_s)
    }

    /// How long it takes until what is signed now can be told from what was signed before the start; `None` if it can be.
    pub fn blind_for_ms(&self, now_ms: u64) -> Option<u64> {
        let sees_from_ms = self.floor_s?.saturating_add(1).saturating_mul(1000);
        sees_from_ms.checked_sub(now_ms).filter(|left_ms| *left_ms > 0)
    }

    /// Takes the nonce of a good signature that was created in this second, unless it was seen before or may have been.
    pub fn accept(
        &mut self,
        key: &KeyName,
        nonce: &str,
        kind: HolderKind,
        created_s: u64,
        now_ms: u64,
    ) -> Result<(), NotTaken> {
        // Once more, under one lock with taking it: it may have been forgotten in between.
        self.turn(now_ms);
        if self.is_before_start(created_s) {
            return Err(NotTaken::Forgotten);
        }
        self.take(key, nonce, kind, now_ms)?;
        let [current, _] = &mut self.newest_s;
        *current = created_s.max(*current);
        Ok(())
    }

    /// Remembers the nonce of a good signature, unless it was seen before.
    pub fn take(&mut self, key: &KeyName, nonce: &str, kind: HolderKind, now_ms: u64) -> Result<(), NotTaken> {
        self.turn(now_ms);
        let digest = self.digest(key, nonce);
        if self.current.contains(&digest) || self.previous.contains(&digest) {
            return Err(NotTaken::Seen);
        }
        let [current, before] = self.by_key.get(&key.public_key()).copied().unwrap_or_default();
        if self.is_full_for(kind, current.saturating_add(before)) {
            return Err(NotTaken::Full);
        }
        self.current.insert(digest);
        self.by_key.insert(key.public_key(), [current.saturating_add(1), before]);
        Ok(())
    }

    /// Whether there is no room for another nonce of a key that has so many. Agents leave some places to operators, so that none of
    /// them can keep a halt out; and when places run short, the agent that has taken the most is the first to be refused.
    fn is_full_for(&self, kind: HolderKind, of_key: u32) -> bool {
        let (taken, most) = (self.len(), self.nonces_max);
        match kind {
            HolderKind::Operator => taken >= most,
            HolderKind::Agent => {
                taken >= most - most / 64 || (taken >= most - most / 4 && of_key as usize >= most / 16)
            }
        }
    }

    /// How many nonces are remembered.
    pub fn len(&self) -> usize {
        self.current.len() + self.previous.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn digest(&self, key: &KeyName, nonce: &str) -> NonceDigest {
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update(key.public_key());
        hash.update(nonce.as_bytes());
        <[u8; 32]>::from(hash.finalize()).first_chunk().copied().unwrap_or_default()
    }

    /// Begins a new generation if the current one is over, and forgets the one before.
    fn turn(&mut self, now_ms: u64) {
        let age_ms = now_ms.saturating_sub(self.began_ms);
        if age_ms < GENERATION_MS {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        let is_over = age_ms >= 2 * GENERATION_MS;
        if is_over {
            self.previous.clear();
        }
        // As long as signatures are judged by ledger time this refuses nothing that is not too old. By a wall clock that is
        // behind, what is forgotten would be fresh again.
        let [current_s, previous_s] = self.newest_s;
        let (forgotten_s, kept_s) = if is_over { (current_s.max(previous_s), 0) } else { (previous_s, current_s) };
        self.newest_s = [0, kept_s];
        self.floor_s = self.floor_s.max(Some(forgotten_s).filter(|forgotten_s| *forgotten_s > 0));
        self.by_key.retain(|_, counts| {
            let [current, _] = *counts;
            *counts = [0, if is_over { 0 } else { current }];
            *counts != [0, 0]
        });
        self.began_ms = now_ms;
    }

    fn encode(&self, now_ms: u64) -> Vec<u8> {
        // What was forgotten by now must not be taken again if the clock is set back before the next start.
        let forgotten_s = (now_ms / 1000).saturating_sub(AGE_MAX_S + 1);
        let floor_s = self.floor_s.map_or(forgotten_s, |floor_s| floor_s.max(forgotten_s));
        let mut bytes = Vec::with_capacity(128 + 16 * self.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.secret);
        let counts = [self.current.len() as u64, self.previous.len() as u64];
        let [current_s, previous_s] = self.newest_s;
        for number in [self.began_ms, floor_s, current_s, previous_s].into_iter().chain(counts) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for digest in self.current.iter().chain(&self.previous) {
            bytes.extend_from_slice(digest);
        }
        let sum: [u8; 32] = Sha256::digest(&bytes).into();
        bytes.extend_from_slice(&sum);
        bytes
    }
}

/// The second that was noted; the latest that can have been, where the note cannot be read.
fn read_noted(disk: &dyn Disk, now_ms: u64) -> io::Result<u64> {
    let Some(bytes) = read_small(disk, AHEAD_FILE, 64)? else { return Ok(0) };
    let noted = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n')?.parse::<u64>().ok());
    Ok(noted.unwrap_or(now_ms / 1000 + AHEAD_MAX_S))
}

const fn file_bytes_max() -> usize {
    MAGIC.len() + 32 + 6 * 8 + 16 * NONCES_MAX + 32
}

/// Reads a file back; anything that is not whole counts as absent, which is always safe.
fn decode(bytes: &[u8]) -> Option<ReplayWindow> {
    let (bytes, sum) = bytes.split_last_chunk::<32>()?;
    if <[u8; 32]>::from(Sha256::digest(bytes)) != *sum {
        return None;
    }
    let bytes = bytes.strip_prefix(MAGIC)?;
    let (secret, bytes) = bytes.split_first_chunk::<32>()?;
    let (numbers, digests) = bytes.split_at_checked(6 * 8)?;
    let mut numbers = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
    let (began_ms, floor_s) = (numbers.next()?, numbers.next()?);
    let newest_s = [numbers.next()?, numbers.next()?];
    let current_len = usize::try_from(numbers.next()?).ok()?;
    let (digests, rest) = digests.as_chunks::<16>();
    let (current, previous) = digests.split_at_checked(current_len)?;
    if !rest.is_empty() || u64::try_from(previous.len()).ok()? != numbers.next()? {
        return None;
    }
    Some(ReplayWindow {
        secret: *secret,
        current: current.iter().copied().collect(),
        previous: previous.iter().copied().collect(),
        by_key: HashMap::new(),
        began_ms,
        floor_s: Some(floor_s),
        noted_s: 0,
        noting: Arc::default(),
        newest_s,
        is_behind: false,
        nonces_max: NONCES_MAX,
        kept: Kept::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1_794_700_000_000;

    fn key(byte: u8) -> KeyName {
        KeyName::of([byte; 32])
    }

    #[test]
    fn a_nonce_is_known_for_as_long_as_its_signature_could_be_taken() {
        let kept_ms = (AGE_MAX_S + AHEAD_MAX_S) * 1000;
        for offset_ms in (0..GENERATION_MS).step_by(997) {
            let mut window = ReplayWindow::new([1; 32], START_MS);
            let taken_ms = START_MS + offset_ms;
            assert_eq!(window.take(&key(1), "nonce", HolderKind::Operator, taken_ms), Ok(()));
            for later_ms in [0, 1, kept_ms / 2, kept_ms - 1, kept_ms] {
                assert_eq!(
                    window.take(&key(1), "nonce", HolderKind::Operator, taken_ms + later_ms),
                    Err(NotTaken::Seen),
                    "{offset_ms}"
                );
            }
            assert_eq!(
                window.take(&key(1), "nonce", HolderKind::Operator, taken_ms + 2 * GENERATION_MS),
                Ok(()),
                "it is forgotten"
            );
        }
    }

    #[test]
    fn nonces_are_per_key() {
        let mut window = ReplayWindow::new([1; 32], START_MS);
        assert_eq!(window.take(&key(1), "nonce", HolderKind::Operator, START_MS), Ok(()));
        assert_eq!(window.take(&key(2), "nonce", HolderKind::Operator, START_MS), Ok(()));
        assert_eq!(window.take(&key(1), "other", HolderKind::Operator, START_MS), Ok(()));
    }

    #[test]
    fn a_full_window_takes_nothing_more_and_forgets_nothing() {
        let mut window = ReplayWindow { nonces_max: 2, ..ReplayWindow::new([1; 32], START_MS) };
        assert_eq!(window.take(&key(1), "a", HolderKind::Operator, START_MS), Ok(()));
        assert_eq!(window.take(&key(1), "b", HolderKind::Operator, START_MS + GENERATION_MS), Ok(()));
        assert_eq!(window.take(&key(1), "c", HolderKind::Operator, START_MS + GENERATION_MS), Err(NotTaken::Full));
        assert_eq!(window.take(&key(1), "a", HolderKind::Operator, START_MS + GENERATION_MS), Err(NotTaken::Seen));
        assert_eq!(
            window.take(&key(1), "c", HolderKind::Operator, START_MS + 2 * GENERATION_MS),
            Ok(()),
            "there is room again"
        );
    }

    #[test]
    fn one_agent_fills_the_window_and_neither_others_nor_operators_are_kept_out() {
        let mut window = ReplayWindow { nonces_max: 640, ..ReplayWindow::new([1; 32], START_MS) };
        let mut take =
            |by: u8, number: u32, kind: HolderKind| window.take(&key(by), &format!("nonce-{number}"), kind, START_MS);
        let taken = (0..1_000).take_while(|number| take(1, *number, HolderKind::Agent).is_ok()).count();
        assert_eq!(taken, 480, "three quarters, and no more");
        let others = (0..40).filter(|number| take(2, *number, HolderKind::Agent).is_ok()).count();
        assert_eq!(others, 40, "another agent has its sixteenth");
        let many = (3..100).flat_map(|by| (0..40).map(move |number| (by, number)));
        let rest = many.filter(|(by, number)| take(*by, *number, HolderKind::Agent).is_ok()).count();
        assert_eq!(480 + 40 + rest, 630, "agents leave the last places");
        assert_eq!(take(200, 1, HolderKind::Operator), Ok(()));
    }

    #[test]
    fn what_is_written_reads_back_and_any_flaw_counts_as_absent() {
        let mut window = ReplayWindow::new([1; 32], START_MS);
        window.take(&key(1), "a", HolderKind::Operator, START_MS).unwrap();
        window.take(&key(1), "b", HolderKind::Operator, START_MS + GENERATION_MS).unwrap();
        let bytes = window.encode(START_MS + GENERATION_MS);
        let mut back = decode(&bytes).unwrap();
        for nonce in ["a", "b"] {
            assert_eq!(back.take(&key(1), nonce, HolderKind::Operator, START_MS + GENERATION_MS), Err(NotTaken::Seen));
        }
        let forgotten_s = (START_MS + GENERATION_MS) / 1000 - AGE_MAX_S - 1;
        assert!(back.is_before_start(forgotten_s) && !back.is_before_start(forgotten_s + 1));
        for at in 0..bytes.len() {
            let mut flawed = bytes.clone();
            flawed[at] ^= 1;
            assert!(decode(&flawed).is_none(), "byte {at}");
            assert!(decode(&bytes[..at]).is_none(), "cut at {at}");
        }
    }
}
