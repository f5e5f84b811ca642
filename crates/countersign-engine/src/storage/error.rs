//! What can go wrong in the store, said so that someone can act on it at night.

use std::fmt;
use std::io;

use countersign_ledger::segment::HeaderError;
use thiserror::Error;

/// A place in the log: where to look with a hex editor, and which entry should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the segment file.
    pub segment: String,
    /// Byte offset in the file.
    pub offset: u64,
    /// Index of the entry that starts there, or would.
    pub index: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {} (entry {})", self.segment, self.offset, self.index)
    }
}

/// Why the store refuses.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The disk said no.
    #[error("cannot {action} {name}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A run of idempotency keys is not the one that it should be.
    #[error("the idempotency keys in {name} cannot be used: {reason}")]
    KeyRun {
        /// The file.
        name: String,
        /// Why.
        reason: String,
    },
    /// Another process has the folder.
    #[error("{holder}")]
    Locked {
        /// Who, as far as it is known.
        holder: String,
    },
    /// A segment's header cannot be read.
    #[error("segment {segment}: {source}")]
    Header {
        /// The file.
        segment: String,
        /// Why.
        source: HeaderError,
    },
    /// A segment is not what its name or its log says.
    #[error("segment {segment} says {found}, expected {expected}")]
    Foreign {
        /// The file.
        segment: String,
        /// What its header says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// A segment is gone.
    #[error("the segment before {before} is missing: entries {from} to {to} are not there")]
    MissingSegment {
        /// The segment that names it.
        before: String,
        /// First entry that is missing.
        from: u64,
        /// Last entry that is missing.
        to: u64,
    },
    /// Bytes were changed, or lost where a crash cannot have lost them.
    #[error("the log is damaged in {place}: {reason}; {lost}")]
    Corrupt {
        /// Where.
        place: Place,
        /// What is wrong.
        reason: String,
        /// Which entries a cut here would lose.
        lost: String,
    },
    /// The log ends before its anchor.
    #[error(
        "the log ends at {log_size} entries in {place}, its anchor says {anchor_size}: entries {log_size} to {} are missing{why}",
        anchor_size.saturating_sub(1)
    )]
    ShorterThanAnchor {
        /// Size of the log as found.
        log_size: u64,
        /// Size that was signed and published.
        anchor_size: u64,
        /// Where the log ends.
        place: Place,
        /// What stopped the reading, if it was not simply the end.
        why: String,
    },
    /// Log and anchor were both signed but do not agree.
    #[error("at {size} entries the log's root is {log_root}, the anchor's is {anchor_root}")]
    AnchorDisagrees {
        /// Size at which they were compared.
        size: u64,
        log_root: String,
        /// Root in the anchor.
        anchor_root: String,
    },
    /// The anchor cannot be read.
    #[error("the anchor file is not a checkpoint of this log: {reason}")]
    BadAnchor {
        /// Why.
        reason: String,
    },
    /// The log never had the key that is trusted.
    #[error("the log is signed by {current} and never had the key {trusted}")]
    AnotherLog {
        /// The key that the log has.
        current: String,
        /// The key that the caller trusts.
        trusted: String,
    },
    /// The gate's own key is not the one that the log has now.
    #[error("the log's key is {current}, but this gate holds {held}")]
    KeyNotCurrent {
        /// The key that the log has.
        current: String,
        /// The key that the gate holds.
        held: String,
    },
    /// The starting position is not one that the log has.
    #[error("the log cannot be read from entry {start}: {reason}")]
    BadStart {
        /// Position asked for.
        start: u64,
        /// Why it cannot be used.
        reason: String,
    },
    /// Somebody else has the log by now, or has appended to it. Nothing of the batch was written.
    #[error("another gate has taken over the log: {cause}")]
    Moved {
        /// What was found.
        cause: String,
    },
    /// An earlier write or sync failed.
    #[error("the log refuses writes since {cause}")]
    Poisoned {
        /// What failed.
        cause: String,
    },
    /// There was no room, and none came until the gate was told to end. Nothing of the batch was written.
    #[error("there is no room for more entries: {cause}")]
    NoRoom {
        /// What failed.
        cause: String,
    },
    /// A batch that does not follow the last.
    #[error("the batch is not one that can be appended: {reason}")]
    NotNext {
        /// Why.
        reason: String,
    },
    /// An entry that is not there, or not yet durable.
    #[error("there is no entry {index}; the log has {size}")]
    NoEntry {
        /// Asked for.
        index: u64,
        /// Published size.
        size: u64,
    },
    /// The caller's fold refused a batch.
    #[error("the entries of the batch in {place} cannot be applied: {source}")]
    Fold {
        /// Where the batch is.
        place: Place,
        /// What the fold said.
        source: super::FoldError,
    },
    /// A snapshot cannot be used or written.
    #[error("snapshot {name}: {reason}")]
    Snapshot {
        /// The file.
        name: String,
        /// Why.
        reason: String,
    },
}

impl StorageError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Io { .. } => "check free space, permissions and the disk's health",
            Self::KeyRun { .. } => "the gate makes the file again from the log",
            Self::Locked { .. } => "only one gate can open a folder; stop that process first",
            Self::Foreign { .. } => "files of two logs were mixed, or one was renamed",
            Self::MissingSegment { .. } => "restore it from a copy",
            Self::Corrupt { .. } => "nothing was changed; restore the file from a copy",
            Self::ShorterThanAnchor { .. } => "nothing was changed; restore the segments from a copy",
            Self::AnchorDisagrees { .. } => "this log was swapped",
            Self::BadAnchor { .. } => "check the log key; restore the file",
            Self::AnotherLog { .. } => "it is another log, or the key is another's",
            Self::KeyNotCurrent { .. } => {
                "the key was rotated; put back the newest `keys/log`, and never a backup from before"
            }
            Self::BadStart { .. } => "open without the snapshot to read it all",
            Self::Moved { .. } => "only one gate leads a log; stop this one",
            Self::Poisoned { .. } => "the last write may or may not be on disk; restart the gate to recover",
            Self::NotNext { .. } => "this is a defect in the caller",
            Self::NoEntry { .. } => "only synced entries can be read",
            Self::Snapshot { .. } => "it may be removed; the log alone is enough",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Adds what was tried to an error of the disk.
pub(crate) trait IoContext<T> {
    fn on(self, action: &'static str, name: &str) -> Result<T, StorageError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn on(self, action: &'static str, name: &str) -> Result<T, StorageError> {
        self.map_err(|source| StorageError::Io { action, name: name.to_owned(), source })
    }
}
