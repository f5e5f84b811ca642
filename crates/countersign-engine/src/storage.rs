//! The durable store: the ledger as write-ahead log, its anchor, and snapshots of what it folds to.
//!
//! What is here knows bytes, batches and files. It must not know what an entry means: the fold is the engine's, handed in
//! as a callback. It holds I2 (what was acknowledged survives, what was not is wholly there or not at all) and the disk's
//! share of I7 (every cut, gap or change is found and located).
//!
//! [`Log`], [`Append`] and [`Store`] are what is asked of storage from above; segment files in a [`Folder`] are one that answers.
//!
//! Start with [`Folder::lock`], pick a snapshot with [`snapshot::newest`], then [`open`] the log from there. Commands that only
//! read use [`walk`], which takes no lock and writes nothing.

mod anchor;
pub mod disk;
mod erase;
mod error;
mod index;
mod log;
mod recover;
mod seam;
pub mod snapshot;
mod walk;
mod writer;

pub use anchor::{ANCHOR_INTERVAL_MS, Anchor};
pub(crate) use error::IoContext;
pub use error::{Place, StorageError};
pub use log::{OwnedBatch, SegmentLog};
pub use recover::{Folder, OpenOptions, OpenReport, Opened, open};
pub use seam::{Append, Entry, Log, OpenedLog, ReadLog, Store, VisitBatch, Walk};
pub use walk::{
    Entries, Fold, FoldError, Grown, Leaves, PlacedBatch, TornTail, WalkEnd, WalkOptions, WalkedEntry, walk,
    walk_batches,
};
pub use writer::{Fill, LogWriter, check_next};

/// Default length of a segment file.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// The file name of the segment whose first entry has this index.
#[must_use]
pub fn segment_name(first_index: u64) -> String {
    format!("{first_index:020}.seg")
}

fn index_of_name(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix).filter(|digits| digits.len() == 20)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}
