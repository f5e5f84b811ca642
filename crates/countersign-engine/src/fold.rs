//! Folding stored entries back into state: after a restart, and in an audit.
//!
//! Reading an entry needs nothing of the state, so it is done on another thread than applying it (`ahead`).

mod ahead;

pub use ahead::ahead;

use crate::storage::{Grown, Leaves, WalkOptions, WalkedEntry};
use countersign_core::erase::kept_for_ever;
use countersign_core::ids::Digest;
use countersign_core::record::{DecodeError, Entry, Event, Kind, Leaf, PactsAhead};
use countersign_core::state::{PublishError, State};
use countersign_core::utc::Utc;
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::commitment::commitment;
use countersign_ledger::segment::SALT_LEN;
use countersign_ledger::tree::TileTree;

/// What a log folds to.
#[derive(Debug, Default)]
pub struct Fold {
    /// Facts, pacts and budgets.
    pub state: State,
    /// The tree over the leaves.
    pub tree: TileTree,
    /// How many entries were folded.
    pub position: u64,
    /// The time of the last.
    pub time_ms: u64,
    /// Entries whose payloads an erasure names.
    pub erased: Vec<u64>,
    /// The latest erasure.
    pub erasure: Option<u64>,
}

/// Why an entry could not be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// It could not be read.
    #[error("entry {index} cannot be read: {source}")]
    Decode {
        /// The entry.
        index: u64,
        /// Why.
        source: DecodeError,
    },
    /// It stands at another place than it says.
    #[error("entry {index} is stored under the wrong number ({says})")]
    Index {
        /// Where it stands.
        index: u64,
        /// What it says.
        says: u64,
    },
    /// Time goes back.
    #[error("entry {index} is at {}, earlier than the previous entry", Utc(*.time_ms))]
    Time {
        /// The entry.
        index: u64,
        time_ms: u64,
    },
    /// It holds a pact that does not load or does not follow.
    #[error("entry {index} publishes a pact that this version does not accept: {why}")]
    Pact {
        /// The entry.
        index: u64,
        why: String,
    },
}

/// How much of an entry is read.
#[derive(Clone, Copy)]
pub enum Depth<'a> {
    /// What the fold needs.
    Fold,
    /// All of it, to decide it again. Parameters are bound by the pact that is current as far as the reader knows: what was bound by
    /// another than the one that decides is bound again.
    Whole(&'a dyn PactsAhead),
}

/// An entry that was read and is to be applied.
#[derive(Debug)]
pub struct Read {
    pub entry: Entry,
    /// The commitment to its payload.
    pub commitment: Digest,
    /// What it adds to the tree.
    pub grown: Grown,
}

/// Whether salt and payload are those that a leaf commits to.
pub fn payload_matches(leaf: &[u8], salt: &[u8; SALT_LEN], payload: &[u8]) -> bool {
    Leaf::commitment_in(leaf).is_ok_and(|committed| committed.0 == commitment(salt, payload).0)
}

/// Which of the log's keys a leaf names: the genesis its first, a rotation its next. No leaf of another kind can name one.
///
/// # Errors
/// If the leaf is one of these and cannot be read, or stands where it may not.
pub fn named_key(leaf: &[u8]) -> Result<Option<LogKey>, String> {
    let kind = Leaf::kind_of(leaf).map_err(|error| error.to_string())?;
    if !matches!(kind, Kind::Genesis | Kind::Rotation) {
        return Ok(None);
    }
    let leaf = Leaf::decode(leaf).map_err(|error| error.to_string())?;
    let named = match (leaf.kind, leaf.index) {
        (Kind::Genesis, 0) | (Kind::Rotation, 1..) => leaf.log_key.ok_or_else(|| "it names no key".to_owned())?,
        (kind, _) => return Err(format!("an entry of kind `{kind}` may not name a key of the log here")),
    };
    named.parse().map(Some).map_err(|error| format!("it names no key that can be used: {error}"))
}

/// The leaves of entries, for the store to ask.
#[derive(Debug, Clone, Copy)]
pub struct EntryLeaves;

impl Leaves for EntryLeaves {
    fn payload_matches(&self, leaf: &[u8], salt: &[u8; SALT_LEN], payload: &[u8]) -> bool {
        payload_matches(leaf, salt, payload)
    }

    fn named_key(&self, leaf: &[u8]) -> Result<Option<LogKey>, String> {
        named_key(leaf)
    }

    fn erases(&self, leaf: &[u8]) -> Result<Vec<u64>, String> {
        let kind = Leaf::kind_of(leaf).map_err(|error| error.to_string())?;
        if kind != Kind::Erasure {
            return Ok(Vec::new());
        }
        let leaf = Leaf::decode(leaf).map_err(|error| error.to_string())?;
        Ok(leaf.erased.unwrap_or_default())
    }

    fn check_erasable(&self, leaf: &[u8]) -> Result<(), String> {
        let leaf = Leaf::decode(leaf).map_err(|error| error.to_string())?;
        kept_for_ever(leaf.kind, leaf.identity).map_or(Ok(()), |why| Err(why.to_owned()))
    }
}

/// Options for a walk over a log of entries that has or had this key.
pub fn walk_options(key: &LogKey) -> WalkOptions<'_> {
    WalkOptions { key, next: None, leaves: &EntryLeaves }
}

/// Reads an entry that a walk has verified.
///
/// # Errors
/// If it cannot be read, or says that it stands elsewhere.
pub fn read(walked: &WalkedEntry<'_>, depth: Depth<'_>) -> Result<Read, FoldError> {
    let WalkedEntry { index, payload, grown, .. } = *walked;
    let unreadable = |source| FoldError::Decode { index, source };
    let leaf = Leaf::decode(walked.leaf).map_err(unreadable)?;
    if leaf.index != index {
        return Err(FoldError::Index { index, says: leaf.index });
    }
    let commitment = leaf.commitment;
    let entry = match depth {
        Depth::Fold => Entry::decode_to_fold(leaf, payload),
        Depth::Whole(pacts) => Entry::decode_and_bind(leaf, payload, pacts),
    };
    Ok(Read { entry: entry.map_err(unreadable)?, commitment, grown })
}

impl Fold {
    /// Checks that an entry is next in time. That it is next in place was checked where it was read.
    ///
    /// # Errors
    /// If time goes back.
    pub fn check_next(&self, entry: &Entry) -> Result<(), FoldError> {
        let index = self.position;
        if entry.index != index {
            return Err(FoldError::Index { index, says: entry.index });
        }
        if entry.time_ms < self.time_ms {
            return Err(FoldError::Time { index, time_ms: entry.time_ms });
        }
        Ok(())
    }

    /// Applies the next entry.
    ///
    /// # Errors
    /// If it is not the next, or publishes a pact that does not follow.
    pub fn apply(&mut self, Read { entry, grown, .. }: &Read) -> Result<(), FoldError> {
        self.check_next(entry)?;
        if let Event::Pact(pact) = &entry.event {
            let refused = |error: PublishError| FoldError::Pact { index: entry.index, why: error.to_string() };
            self.state.check_publish(pact).map_err(refused)?;
        }
        if let Event::Erasure { entries, .. } = &entry.event {
            self.erased.extend(entries);
            self.erasure = Some(entry.index);
        }
        self.state.apply(entry);
        self.tree.extend(&[grown.leaf], grown.tile.as_slice());
        self.position += 1;
        self.time_ms = entry.time_ms;
        Ok(())
    }
}
