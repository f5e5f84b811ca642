//! The one entry stream: every synced entry, in order, from any position, without gaps or repeats.
//!
//! Whatever is derived from entries and is no part of the fold follows this. A follower has a position of its own. The newest entries
//! are kept in memory, up to a limit; a follower further behind reads the log, so a slow follower costs no memory. Nothing that is not
//! synced is ever handed out (I2), and the view shows an entry before the stream does.

mod moves;

pub(crate) use moves::effect_of;
use moves::moves_inboxes;
pub use moves::{Arrivals, Listener, Listeners, Listening, Moves};

use crate::gate::{LogError, StoredEntry};
use crate::sequence::Sequenced;
use crate::storage::{Log, ReadLog as _};
use countersign_core::call::EffectId;
use countersign_core::record::{Entry, Event};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How much of the log a follower that is behind reads at a time.
const READ_ENTRIES: u64 = 256;
/// The same in bytes of payloads; one entry is always read.
const READ_BYTES: usize = 1 << 20;

/// What was synced last, and who follows.
pub struct Stream {
    /// Most bytes of entries that are kept, by their length in the log.
    recent_bytes_max: usize,
    recent: Mutex<Recent>,
    moves: Moves,
    arrivals: Arrivals,
}

#[derive(Default)]
struct Recent {
    /// The position after the last synced entry.
    end: u64,
    /// The newest batches, without gaps up to the end.
    batches: VecDeque<RecentBatch>,
    bytes: usize,
    followers: Vec<Sender<()>>,
}

struct RecentBatch {
    first: u64,
    entries: Vec<Arc<Entry>>,
    bytes: usize,
}

impl Stream {
    /// Goes on from the end of a log.
    pub(crate) fn new(end: u64, recent_bytes_max: usize) -> Self {
        let recent = Mutex::new(Recent { end, ..Recent::default() });
        Self { recent_bytes_max, recent, moves: Moves::default(), arrivals: Arrivals::default() }
    }

    /// Who is told when an effect moves.
    pub(crate) fn moves(&self) -> &Moves {
        &self.moves
    }

    /// Who is told when a message comes.
    pub(crate) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// A batch is synced and in the view; `bytes` is its length in the log.
    pub(crate) fn publish(&self, entries: &[Sequenced], bytes: usize) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let (first, last) = (first.entry.index, last.entry.index);
        {
            let mut recent = self.recent.lock();
            recent.end = last.saturating_add(1);
            recent.followers.retain(|follower| !matches!(follower.try_send(()), Err(TrySendError::Disconnected(()))));
            let is_erasure = entries.iter().any(|it| matches!(it.entry.event, Event::Erasure { .. }));
            if is_erasure || recent.followers.is_empty() {
                // What is erased must not be left here. Followers read the log, which has it no longer.
                recent.batches.clear();
                recent.bytes = 0;
            } else {
                let entries = entries.iter().map(|it| Arc::clone(&it.entry)).collect();
                recent.batches.push_back(RecentBatch { first, entries, bytes });
                recent.bytes = recent.bytes.saturating_add(bytes);
                while recent.bytes > self.recent_bytes_max
                    && let Some(oldest) = recent.batches.pop_front()
                {
                    recent.bytes = recent.bytes.saturating_sub(oldest.bytes);
                }
            }
        }
        let entries = || entries.iter().map(|it| &*it.entry);
        let moved: Vec<EffectId> = entries().filter_map(effect_of).collect();
        self.moves.tell(moved.iter());
        match entries().any(moves_inboxes) {
            true => self.arrivals.tell_all(),
            false => self.arrivals.tell(entries().filter_map(|entry| Some(entry.delivery()?.to))),
        }
    }

    /// One of the newest entries, if it is still in memory.
    pub(crate) fn recent(&self, index: u64) -> Option<Arc<Entry>> {
        self.recent.lock().kept_from(index)?.next()
    }

    /// Follows from a position on.
    pub(crate) fn follow(self: &Arc<Self>, log: Arc<dyn Log>, from: u64) -> Follower {
        let (arrived, arrivals) = bounded(1);
        self.recent.lock().followers.push(arrived);
        Follower { stream: Arc::clone(self), log, next: from, read: VecDeque::new(), arrivals }
    }
}

impl Recent {
    /// What is kept from a position on, at most one batch of it; `None` where that is only in the log.
    fn kept_from(&self, position: u64) -> Option<impl Iterator<Item = Arc<Entry>>> {
        let at = self.batches.partition_point(|batch| batch.first <= position).checked_sub(1)?;
        let batch = self.batches.get(at)?;
        let skipped = usize::try_from(position.saturating_sub(batch.first)).ok()?;
        batch.entries.get(skipped..).filter(|rest| !rest.is_empty()).map(|rest| rest.iter().cloned())
    }
}

/// One that follows the log.
pub struct Follower {
    stream: Arc<Stream>,
    log: Arc<dyn Log>,
    /// The position of the entry that it is given next.
    next: u64,
    /// What was read and not yet given, from `next` on.
    read: VecDeque<Arc<Entry>>,
    arrivals: Receiver<()>,
}

impl Follower {
    /// The position of the entry that comes next.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next entry with its position; `None` if it is not there yet.
    ///
    /// # Errors
    /// If the log cannot be read. The position stays, so asking again goes on where this stopped.
    pub fn next_entry(&mut self) -> Result<Option<(u64, Arc<Entry>)>, LogError> {
        if self.read.is_empty() {
            self.fill()?;
        }
        let Some(entry) = self.read.pop_front() else { return Ok(None) };
        let position = self.next;
        self.next += 1;
        Ok(Some((position, entry)))
    }

    /// Says that there may be something new, for whoever waits for several things.
    pub fn arrivals(&self) -> &Receiver<()> {
        &self.arrivals
    }

    /// Waits until there may be something new, at most so long.
    pub fn wait(&self, at_most: Duration) {
        // Whether it came or the time is up, the caller looks.
        let _ = self.arrivals.recv_timeout(at_most);
    }

    fn fill(&mut self) -> Result<(), LogError> {
        let end = {
            let recent = self.stream.recent.lock();
            if self.next >= recent.end {
                return Ok(());
            }
            if let Some(kept) = recent.kept_from(self.next) {
                self.read.extend(kept);
                return Ok(());
            }
            recent.end
        };
        let range = self.next..end.min(self.next.saturating_add(READ_ENTRIES));
        let (read, mut bytes, mut damaged) = (&mut self.read, 0usize, None);
        self.log.entries(range, |stored| {
            let index = stored.index;
            let altered = || LogError::from(self.log.altered(index));
            match StoredEntry::checked(stored).ok_or_else(altered).and_then(|stored| {
                bytes = bytes.saturating_add(stored.payload.as_ref().map_or(0, Vec::len));
                stored.decode()
            }) {
                Ok(entry) => read.push_back(Arc::new(entry)),
                Err(error) => damaged = Some(error),
            }
            damaged.is_none() && bytes < READ_BYTES
        })?;
        // What comes before a damaged entry is still given.
        damaged.filter(|_| self.read.is_empty()).map_or(Ok(()), Err)
    }
}
