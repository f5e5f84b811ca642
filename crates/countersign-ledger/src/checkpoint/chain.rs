//! The keys that a log has had, one after the other: who may vouch for it at which size.
//!
//! A log goes from one key to the next at a checkpoint that both sign. Up to that size the older key speaks for the log, from
//! that size on the newer, so a key that was stolen after it was replaced can say nothing about what came later (I7). Which
//! entry names the next key is for the caller to know.

use crate::checkpoint::{Checkpoint, CheckpointError, LogKey};

/// The keys of one log, oldest first. There is always at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChain {
    /// The keys before the current one, each with the size of the checkpoint that it shares with the next.
    replaced: Vec<(LogKey, u64)>,
    current: LogKey,
}

impl KeyChain {
    /// The chain of a log that has only ever had this key, or whose earlier keys are of no interest.
    #[must_use]
    pub fn new(key: LogKey) -> Self {
        Self { replaced: Vec::new(), current: key }
    }

    /// The key that signs now.
    #[must_use]
    pub fn current(&self) -> &LogKey {
        &self.current
    }

    /// All keys, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &LogKey> {
        self.replaced.iter().map(|(key, _)| key).chain([&self.current])
    }

    /// How often the key was changed.
    #[must_use]
    pub fn rotations(&self) -> usize {
        self.replaced.len()
    }

    /// Whether this was ever the log's key.
    #[must_use]
    pub fn contains(&self, key: &LogKey) -> bool {
        self.keys().any(|known| known == key)
    }

    /// Opens the checkpoint that follows the last one: signed by the current key and, where an entry just before it names the
    /// next key, by that one too.
    ///
    /// # Errors
    /// If it is not so signed, or the next key is one that the log had before or is another log's.
    pub fn open_next(&self, note: &str, next: Option<&LogKey>) -> Result<Checkpoint, CheckpointError> {
        let checkpoint = Checkpoint::open(note, &self.current)?;
        match next {
            Some(next) if self.contains(next) => Err(CheckpointError::KeyReused { key: next.name_and_id() }),
            Some(next) => Checkpoint::open(note, next),
            None => Ok(checkpoint),
        }
    }

    /// Goes on to the next key, at the size of a checkpoint that [`KeyChain::open_next`] opened.
    pub fn rotate(&mut self, size: u64, next: LogKey) {
        let before = std::mem::replace(&mut self.current, next);
        self.replaced.push((before, size));
    }

    /// Opens any checkpoint of the log: signed by the key that was current at its size, at a rotation by either.
    ///
    /// # Errors
    /// If it is not a checkpoint of this log, or is signed only by a key that did not speak for the log at its size.
    pub fn open(&self, note: &str) -> Result<Checkpoint, CheckpointError> {
        let size = Checkpoint::parse_unverified(note)?.size;
        let mut since = 0;
        let mut refused = None;
        for (key, until) in self.replaced.iter().map(|(key, until)| (key, *until)).chain([(&self.current, u64::MAX)]) {
            let is_in_term = (since..=until).contains(&size);
            since = until;
            match Checkpoint::open(note, key) {
                Ok(checkpoint) if is_in_term => return Ok(checkpoint),
                Ok(_) => refused = Some(CheckpointError::NotThen { key: key.name_and_id(), size }),
                Err(error) if is_in_term => drop(refused.get_or_insert(error)),
                Err(_) => {}
            }
        }
        Err(refused.unwrap_or(CheckpointError::Unsigned { key: self.current.name_and_id() }))
    }
}

impl From<LogKey> for KeyChain {
    fn from(key: LogKey) -> Self {
        Self::new(key)
    }
}
