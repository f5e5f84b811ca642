//! Folding stored entries back into state: after a restart, and in an audit.

use crate::idempotency::Idempotency;
use crate::storage::{Leaves, WalkOptions};
use countersign_core::erase::kept_for_ever;
use countersign_core::ids::Digest;
use countersign_core::record::{DecodeError, Entry, Event, Kind, Leaf};
use countersign_core::state::{PublishError, State};
use countersign_core::utc::Utc;
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::commitment::commitment;
use countersign_ledger::hash::leaf_hash;
use countersign_ledger::tree::TileTree;

/// What a log folds to.
#[derive(Debug, Default)]
pub struct Fold {
    /// Facts, pacts and budgets.
    pub state: State,
    /// Idempotency keys.
    pub keys: Idempotency,
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
    #[error("entry {index} says that it is entry {says}")]
    Index {
        /// Where it stands.
        index: u64,
        /// What it says.
        says: u64,
    },
    /// Time goes back.
    #[error("entry {index} is at {}, before the entry in front of it", Utc(*.time_ms))]
    Time {
        /// The entry.
        index: u64,
        /// Its time.
        time_ms: u64,
    },
    /// It holds a pact that does not load or does not follow.
    #[error("entry {index} publishes a pact that this version does not accept: {why}")]
    Pact {
        /// The entry.
        index: u64,
        /// Why.
        why: String,
    },
}

/// Whether salt and payload are those that a leaf commits to.
pub fn payload_matches(leaf: &[u8], salt: &[u8; 32], payload: &[u8]) -> bool {
    Leaf::decode(leaf).is_ok_and(|leaf| leaf.commitment.0 == commitment(salt, payload).0)
}

/// Which of the log's keys a leaf names: the genesis its first, a rotation its next.
///
/// # Errors
/// If the leaf is one of these and cannot be read, or another that names a key.
pub fn named_key(leaf: &[u8]) -> Result<Option<LogKey>, String> {
    let text = std::str::from_utf8(leaf).map_err(|_| "its leaf is not text".to_owned())?;
    // Almost no leaf names a key, and reading one costs more than its hash. In a string, quotes would be escaped.
    if !text.contains(r#""log_key":"#) && !text.contains(r#""kind":"rotation""#) {
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
    fn payload_matches(&self, leaf: &[u8], salt: &[u8; 32], payload: &[u8]) -> bool {
        payload_matches(leaf, salt, payload)
    }

    fn named_key(&self, leaf: &[u8]) -> Result<Option<LogKey>, String> {
        named_key(leaf)
    }

    fn erases(&self, leaf: &[u8]) -> Result<Vec<u64>, String> {
        // As for keys: almost no leaf is that of an erasure.
        if !std::str::from_utf8(leaf).is_ok_and(|text| text.contains(r#""kind":"erasure""#)) {
            return Ok(Vec::new());
        }
        let leaf = Leaf::decode(leaf).map_err(|error| error.to_string())?;
        Ok(leaf.erased.filter(|_| leaf.kind == Kind::Erasure).unwrap_or_default())
    }

    fn check_erasable(&self, leaf: &[u8]) -> Result<(), String> {
        let leaf = Leaf::decode(leaf).map_err(|error| error.to_string())?;
        kept_for_ever(leaf.kind).map_or(Ok(()), |why| Err(why.to_owned()))
    }
}

/// Options for a walk over a log of entries that has or had this key.
pub fn walk_options(key: &LogKey) -> WalkOptions<'_> {
    WalkOptions { key, next: None, leaves: &EntryLeaves }
}

impl Fold {
    /// Folds one entry; `payload` is `None` where it was erased.
    pub fn entry(&mut self, leaf_bytes: &[u8], payload: Option<&[u8]>) -> Result<(), FoldError> {
        let (entry, _) = self.read(leaf_bytes, payload)?;
        self.apply(&entry, leaf_bytes)
    }

    /// Reads the next entry and checks that it is next in place and time. Gives the commitment to its payload too.
    pub fn read(&self, leaf_bytes: &[u8], payload: Option<&[u8]>) -> Result<(Entry, Digest), FoldError> {
        let index = self.position;
        let unreadable = |source| FoldError::Decode { index, source };
        let leaf = Leaf::decode(leaf_bytes).map_err(unreadable)?;
        if leaf.index != index {
            return Err(FoldError::Index { index, says: leaf.index });
        }
        if leaf.time < self.time_ms {
            return Err(FoldError::Time { index, time_ms: leaf.time });
        }
        let commitment = leaf.commitment;
        Ok((Entry::decode(leaf, payload).map_err(unreadable)?, commitment))
    }

    /// Applies the next entry.
    pub fn apply(&mut self, entry: &Entry, leaf_bytes: &[u8]) -> Result<(), FoldError> {
        if let Event::Pact(pact) = &entry.event {
            let refused = |error: PublishError| FoldError::Pact { index: entry.index, why: error.to_string() };
            self.state.check_publish(pact).map_err(refused)?;
        }
        if let Event::Erasure { entries, .. } = &entry.event {
            self.erased.extend(entries);
            self.erasure = Some(entry.index);
        }
        if let Some((key, action)) =
            entry.event.key().map_err(|source| FoldError::Decode { index: entry.index, source })?
        {
            self.keys.insert(entry.by.smol(), key, &action, entry.index, entry.time_ms);
        }
        self.state.apply(entry);
        self.tree.push(leaf_hash(leaf_bytes));
        self.position += 1;
        self.time_ms = entry.time_ms;
        Ok(())
    }
}
