//! The offline verifier of a log's structure, as a fold over what the log holds in the order it holds it.
//!
//! The caller reads files, bundles or a stream, in whatever way, and feeds each entry and each checkpoint. This module says
//! whether they are one log: positions without gaps, every checkpoint signed by the log's key and true of the entries before
//! it, nothing after the last checkpoint, and nothing in conflict with evidence that somebody kept (I7). It does not know what
//! an entry means; the caller says which entries name a key ([`LogVerifier::names_key`]).
//!
//! The first thing found broken stays: nothing fed afterwards can make [`LogVerifier::finish`] succeed.

mod evidence;

use std::fmt;

use crate::checkpoint::{CheckpointError, KeyChain, LogKey};
use crate::hash::{Hash, leaf_hash};
use crate::tile::MAX_ENTRY_BYTES;
use crate::tree::Frontier;

pub use evidence::Evidence;
use evidence::Expectations;

/// Where something was found: how many entries came before, and the byte offset if the caller said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The index of the entry, or for a checkpoint how many entries stand before it.
    pub entry: u64,
    /// The offset that the caller gave with [`LogVerifier::at_offset`].
    pub offset: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}", self.entry)?;
        self.offset.map_or(Ok(()), |offset| write!(f, " (byte {offset})"))
    }
}

/// What is broken in the log, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// An entry is missing, doubled or out of order.
    #[error("at {place}: expected the next entry, found entry {found}")]
    Position {
        /// Where; its entry is the number that should have come.
        place: Place,
        /// The number that came.
        found: u64,
    },
    /// An entry is longer than any that the log takes.
    #[error("at {place}: the entry has {bytes} bytes, more than {MAX_ENTRY_BYTES}")]
    EntryTooLarge {
        /// Where.
        place: Place,
        /// Its length.
        bytes: usize,
    },
    /// A checkpoint is malformed, of another log, or not validly signed.
    #[error("at {place}: the checkpoint does not hold: {source}")]
    Checkpoint {
        /// Where.
        place: Place,
        /// What is wrong with it.
        source: CheckpointError,
    },
    /// A checkpoint is of another size than the entries before it.
    #[error("at {place}: the checkpoint covers {claimed} entries, but {} precede it", place.entry)]
    Size {
        /// Where.
        place: Place,
        /// The size in the checkpoint.
        claimed: u64,
    },
    /// The entries are not those that the checkpoint was signed for.
    #[error("at {place}: the entries have root {computed}, but the checkpoint says {claimed}")]
    Root {
        /// Where.
        place: Place,
        /// The root in the checkpoint.
        claimed: Hash,
        /// The root over the entries.
        computed: Hash,
        /// The size at which the log was last known good: the altered entry is not before it.
        since: u64,
    },
    /// The log ends with entries that no checkpoint covers.
    #[error("at {place}: the log ends, but its entries from {since} on have no checkpoint")]
    Uncovered {
        /// Where the log ends.
        place: Place,
        /// The first entry that no checkpoint covers.
        since: u64,
    },
    /// An entry is not the one in a receipt that somebody holds.
    #[error("at {place}: the entry has hash {found}, but {name} is a receipt for {expected} there")]
    ConflictingEntry {
        /// Where.
        place: Place,
        /// The name of the evidence.
        name: String,
        /// The hash of the leaf in the receipt.
        expected: Hash,
        /// The hash of the leaf in the log.
        found: Hash,
    },
    /// The log has another root than a checkpoint that somebody holds.
    #[error("at {place}: the entries so far have root {found}, but {name} was signed for {expected}")]
    ConflictingRoot {
        /// Where: the size of the evidence.
        place: Place,
        /// The name of the evidence.
        name: String,
        /// The root in the evidence.
        expected: Hash,
        /// The root over the entries.
        found: Hash,
        /// The size at which the log was last known good.
        since: u64,
    },
    /// The log is shorter than it once was.
    #[error("at {place}: the log ends, but {name} was signed for {size} entries")]
    Truncated {
        /// Where the log ends.
        place: Place,
        /// The name of the evidence.
        name: String,
        /// The size in the evidence.
        size: u64,
    },
    /// An entry that names the next key has others after it before the checkpoint.
    #[error("at {place}: an entry follows the one that names the log's next key, with no checkpoint in between")]
    RotationNotLast {
        /// Where the entry that follows is.
        place: Place,
    },
    /// The log never had the key that the caller trusts.
    #[error("at {place}: the log is signed by {current} and never had the key {trusted}")]
    AnotherLog {
        /// Where the log ends.
        place: Place,
        /// The key that the caller trusts, as `name+id`.
        trusted: String,
        /// The key that the log has, as `name+id`.
        current: String,
    },
    /// Evidence was given after the point that it is about.
    #[error("at {place}: {name} covers a point before it")]
    EvidenceTooLate {
        /// Where.
        place: Place,
        /// The name of the evidence.
        name: String,
    },
}

impl Broken {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Position { .. } => "entries were removed, repeated or reordered here",
            Self::EntryTooLarge { .. } => "the entry was altered, the gate writes none so long",
            Self::Size { .. } => "entries were added or removed before it, or checkpoints were swapped",
            Self::Root { since, .. } => return Some(format!("an entry from {since} on was altered")),
            Self::Uncovered { .. } => "the last checkpoint was removed, or entries were appended without the key",
            Self::ConflictingEntry { .. } => "the entry was replaced and the log signed again",
            Self::ConflictingRoot { since, .. } => {
                return Some(format!(
                    "an entry from {since} on was altered and the log signed again, or the log was forked"
                ));
            }
            Self::Truncated { .. } => "the end of the log was cut off",
            Self::RotationNotLast { .. } => "the rotation was moved, or made without the gate",
            Self::AnotherLog { .. } => "it is another log, or its history was rewritten",
            Self::EvidenceTooLate { .. } => "give all evidence before the first entry",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// What was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The log's name.
    pub origin: String,
    /// How many entries it has.
    pub size: u64,
    /// The root over them.
    pub root: Hash,
    /// How many checkpoints were found true.
    pub checkpoints: u64,
    /// How many pieces of evidence agreed.
    pub evidence: usize,
    /// The keys that the log has had.
    pub keys: KeyChain,
}

/// The verifier: feed it the log, then ask it to finish.
#[derive(Clone, Debug)]
pub struct LogVerifier {
    /// The key that the caller trusts; the log must have it or have had it.
    trusted: LogKey,
    keys: KeyChain,
    /// The key that the last entry names.
    named: Option<LogKey>,
    tree: Frontier,
    offset: Option<u64>,
    /// The size of the last checkpoint or evidence that agreed.
    good: u64,
    /// The size of the last checkpoint.
    covered: u64,
    checkpoints: u64,
    expectations: Expectations,
    broken: Option<Broken>,
}

impl LogVerifier {
    /// A verifier for the log that has or had this key, at its start. Unless its first entry names another, this is the key
    /// that the log begins with.
    #[must_use]
    pub fn new(key: LogKey) -> Self {
        Self {
            keys: KeyChain::new(key.clone()),
            trusted: key,
            named: None,
            tree: Frontier::new(),
            offset: None,
            good: 0,
            covered: 0,
            checkpoints: 0,
            expectations: Expectations::default(),
            broken: None,
        }
    }

    /// Gives evidence that the log must agree with. It is compared when the fold reaches its place, so it must come first.
    ///
    /// # Errors
    /// If the fold is past that place already.
    pub fn expect(&mut self, evidence: Vec<Evidence>) -> Result<(), Broken> {
        let size = self.size();
        let late = evidence.iter().find(|evidence| size > 0 && evidence.first_entry() < size);
        if let Some(late) = late {
            let name = late.name().to_owned();
            return self.fail(Broken::EvidenceTooLate { place: self.place(), name });
        }
        self.expectations.add(evidence);
        Ok(())
    }

    /// Says at which byte the next entry or checkpoint stands, for the messages.
    pub fn at_offset(&mut self, offset: u64) {
        self.offset = Some(offset);
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// If it is not the next one, is too long, or conflicts with the evidence.
    pub fn entry(&mut self, index: u64, leaf: &[u8]) -> Result<(), Broken> {
        self.unbroken()?;
        let place = self.place();
        if index != place.entry {
            return self.fail(Broken::Position { place, found: index });
        }
        if leaf.len() > MAX_ENTRY_BYTES {
            return self.fail(Broken::EntryTooLarge { place, bytes: leaf.len() });
        }
        if self.named.is_some() {
            return self.fail(Broken::RotationNotLast { place });
        }
        let found = leaf_hash(leaf);
        if let Some((name, expected)) = self.expectations.entry_conflict(index, &found) {
            return self.fail(Broken::ConflictingEntry { place, name, expected, found });
        }
        self.tree.push(found);
        self.compare_evidence()
    }

    /// Says that the entry just taken names a key: the first entry the one that the log begins with, any other the one that it
    /// goes on with. The checkpoint after a rotation must come next, signed by both keys.
    pub fn names_key(&mut self, key: LogKey) {
        if self.size() == 1 {
            self.keys = KeyChain::new(key);
        } else {
            self.named = Some(key);
        }
    }

    /// Takes the checkpoint that stands after the entries so far.
    ///
    /// # Errors
    /// If it is not signed by the log's key, or is not true of the entries so far.
    pub fn checkpoint(&mut self, note: &str) -> Result<(), Broken> {
        self.unbroken()?;
        let place = self.place();
        let checkpoint = match self.keys.open_next(note, self.named.as_ref()) {
            Ok(checkpoint) => checkpoint,
            Err(source) => return self.fail(Broken::Checkpoint { place, source }),
        };
        if checkpoint.size != place.entry {
            return self.fail(Broken::Size { place, claimed: checkpoint.size });
        }
        let (claimed, computed) = (checkpoint.root, self.tree.root());
        if claimed != computed {
            return self.fail(Broken::Root { place, claimed, computed, since: self.good });
        }
        if let Some(next) = self.named.take() {
            self.keys.rotate(place.entry, next);
        }
        self.good = place.entry;
        self.covered = place.entry;
        self.checkpoints += 1;
        Ok(())
    }

    /// How many entries were taken.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The root over the entries taken.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    /// Ends the log here.
    ///
    /// # Errors
    /// With the first thing that was found broken; or if entries are left without a checkpoint, or evidence is of a longer log.
    pub fn finish(mut self) -> Result<Summary, Broken> {
        self.unbroken()?;
        let place = self.place();
        // Evidence of a longer log comes first: that the end was cut off explains a missing checkpoint too.
        if let Some((name, size)) = self.expectations.beyond(place.entry) {
            self.fail(Broken::Truncated { place, name, size })?;
        }
        if self.covered < place.entry {
            self.fail(Broken::Uncovered { place, since: self.covered })?;
        }
        if !self.keys.contains(&self.trusted) {
            let (trusted, current) = (self.trusted.name_and_id(), self.keys.current().name_and_id());
            self.fail(Broken::AnotherLog { place, trusted, current })?;
        }
        Ok(Summary {
            size: place.entry,
            root: self.tree.root(),
            checkpoints: self.checkpoints,
            evidence: self.expectations.count(),
            origin: self.trusted.origin,
            keys: self.keys,
        })
    }

    fn compare_evidence(&mut self) -> Result<(), Broken> {
        let size = self.size();
        if !self.expectations.reached(size) {
            return Ok(());
        }
        let found = self.tree.root();
        if let Some((name, expected)) = self.expectations.root_conflict(size, &found) {
            return self.fail(Broken::ConflictingRoot { place: self.place(), name, expected, found, since: self.good });
        }
        self.good = size;
        Ok(())
    }

    fn place(&self) -> Place {
        Place { entry: self.size(), offset: self.offset }
    }

    fn unbroken(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, broken: Broken) -> Result<(), Broken> {
        self.broken.get_or_insert(broken.clone());
        Err(broken)
    }
}
