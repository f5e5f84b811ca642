//! Which keys the leaves of a batch name: the log's first entry its first key, a rotation the next.

use countersign_ledger::LogKey;
use countersign_ledger::segment::Batch;

use super::WalkOptions;

/// The keys that the leaves of one batch name.
#[derive(Default)]
pub struct Named {
    /// By the first entry of the log.
    pub first: Option<LogKey>,
    /// By the last entry of the batch: a rotation.
    pub next: Option<LogKey>,
}

impl Named {
    pub fn of(batch: &Batch<'_>, options: &WalkOptions<'_>) -> Result<Self, String> {
        let mut named = Self::default();
        for frame in batch.frames() {
            if named.next.is_some() {
                return Err(format!("entry {} follows the one that names the log's next key", frame.index));
            }
            let key = options.leaves.named_key(frame.leaf).map_err(|why| format!("entry {}: {why}", frame.index))?;
            if key.as_ref().is_some_and(|key| key.origin() != options.key.origin()) {
                return Err(format!("entry {} names the key of another log", frame.index));
            }
            if frame.index == 0 {
                named.first = key;
            } else {
                named.next = key;
            }
        }
        Ok(named)
    }
}
