//! Which actions were seen under which keys: the same key answers with the same action for a day of ledger time.
//!
//! The latest keys are in memory, in the [`Window`], which belongs to the sequencer. Older ones are in sorted files, the runs, of which
//! memory holds a filter and the digest of every block. A caller's thread looks into the runs, as of the position up to which they
//! cover the log ([`Known`]), and the sequencer, which never waits for a disk, looks only into the window. If the window no longer
//! goes back to that position, the action is looked up again.
//!
//! Runs are derived from the leaves of the log, and from nothing else. What is read of one is held against digests that this process
//! made or the log's key signed, with the snapshot that names the run. A run that is missing or altered is made again from the leaves,
//! each proved by the tree: no one who can write to the folder can have an action done twice, or have it said that it was done (I1, I7).

mod counts;
mod filter;
mod keys;
mod known;
mod merge;
mod rebuild;
mod remembered;
mod retired;
mod run;
mod window;

pub use keys::{Kept, Keys};
pub use known::{Known, Sought};
pub use remembered::Remembered;
pub use run::{NamedRun, Run};
pub use window::Window;

pub(crate) use counts::Count;

use countersign_core::action::KeyDigest;
use countersign_core::ids::ActionId;
use countersign_core::limits::IDEMPOTENCY_KEPT_MS;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keys that are in memory before they are written to a run. With what one turn of the sequencer may add, a table of so many fills its
/// memory, some 5 MiB, and never grows beyond it: growing would stall the sequencer.
pub const TABLE_KEYS: usize = 110_000;

/// Takes the digest itself as the hash.
#[derive(Debug, Default, Clone)]
pub struct Front(u64);

impl Hasher for Front {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        if let Some(front) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*front);
        }
    }
}

type Table = HashMap<KeyDigest, Seen, BuildHasherDefault<Front>>;

/// An action seen under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub entry: u64,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
    /// The front of its id, to tell another body under the same key.
    pub action: [u8; 8],
}

impl Seen {
    /// An action that was decided in an entry.
    pub fn new(action: &ActionId, entry: u64, at_ms: u64) -> Self {
        Self { entry, at_ms, action: front(action) }
    }

    /// Whether the key may be used again.
    fn is_forgotten(&self, now_ms: u64) -> bool {
        is_past(self.at_ms, now_ms)
    }
}

/// Whether a key of this time is no longer remembered.
fn is_past(at_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(at_ms) > IDEMPOTENCY_KEPT_MS
}

fn front(action: &ActionId) -> [u8; 8] {
    action.0.first_chunk().copied().unwrap_or_default()
}

/// What is known of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing.
    New,
    /// The same action was decided in this entry.
    Same(u64),
    /// Another action was decided under the key, in this entry.
    Other(u64),
}

impl Lookup {
    /// What the latest use of a key means for an action now. The exact age decides, wherever the key was found.
    pub fn of(seen: Option<Seen>, action: &ActionId, now_ms: u64) -> Self {
        match seen.filter(|seen| !seen.is_forgotten(now_ms)) {
            None => Self::New,
            Some(seen) if seen.action == front(action) => Self::Same(seen.entry),
            Some(seen) => Self::Other(seen.entry),
        }
    }
}
