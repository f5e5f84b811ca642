//! Reading a log from the disk, batch by batch, and judging each: the one walk that recovery and the offline verifier share.
//!
//! It takes no lock and writes nothing. A batch is handed on only after its structure, every leaf hash, the root, the
//! signature and every payload's commitment were found right. Where the walk ends it tells a torn tail, which a crash
//! explains, from damage, which a crash cannot explain (I7).

use std::io;
use std::sync::Arc;

use countersign_ledger::hash::Hash;
use countersign_ledger::segment::{Batch, Frame, SALT_LEN, SEGMENT_HEADER_LEN};
use countersign_ledger::{Checkpoint, Frontier, KeyChain, LogKey, leaf_hash};

use super::disk::{Disk, DiskFile};
use super::error::IoContext;
use super::{Place, StorageError, anchor};

mod cursor;
mod gone;
mod named;
mod rows;
mod segments;
mod tail;

pub(super) use cursor::{BatchCursor, Step};
use gone::{Gone, not_its_payload};
use named::Named;
pub use rows::walk_batches;
pub(super) use segments::{SegmentFile, list_segments};

/// What leaves mean, as far as the store must know. It asks, because it does not know what entries mean.
pub trait Leaves {
    /// Whether salt and payload are those that the leaf commits to.
    fn payload_matches(&self, leaf: &[u8], salt: &[u8; SALT_LEN], payload: &[u8]) -> bool;

    /// Which key a leaf names, or why it must not name one: the first entry names the log's first key, an entry that rotates the
    /// next.
    fn named_key(&self, leaf: &[u8]) -> Result<Option<LogKey>, String>;

    /// The entries whose payloads this one erases.
    fn erases(&self, leaf: &[u8]) -> Result<Vec<u64>, String>;

    /// Whether the payload of this leaf can be erased at all; why not, otherwise.
    fn check_erasable(&self, leaf: &[u8]) -> Result<(), String>;
}

/// What the receiver of a batch says when it cannot apply it.
pub type FoldError = Box<dyn std::error::Error + Send + Sync>;

/// The receiver of verified batches.
pub type Fold<'a> = dyn FnMut(PlacedBatch<'_>) -> Result<(), FoldError> + 'a;

/// What a walk needs to judge what it reads.
#[derive(Clone, Copy)]
pub struct WalkOptions<'a> {
    /// A key that the caller trusts: the log must have it or have had it. From the middle of a log on, the key it has there.
    pub key: &'a LogKey,
    /// A key that the log may go on with, if a rotation was under way.
    pub next: Option<&'a LogKey>,
    /// What leaves mean.
    pub leaves: &'a dyn Leaves,
}

/// A batch that was verified, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct PlacedBatch<'a> {
    /// Name of the segment file.
    pub segment: &'a str,
    /// Byte offset of the batch in the file.
    pub offset: u64,
    pub batch: Batch<'a>,
    /// The checkpoint in its trailer, verified.
    pub checkpoint: &'a Checkpoint,
    /// What each of its entries adds to the tree.
    grown: &'a [Grown],
    /// The entries whose payloads are gone. The walk fails in the end if no erasure names one of them.
    gone: &'a [u64],
}

/// What an entry adds to the tree.
#[derive(Clone, Copy, Debug)]
pub struct Grown {
    /// The hash of its leaf.
    pub leaf: Hash,
    /// The hash of the tile that it fills, if it fills one.
    pub tile: Option<Hash>,
}

/// One entry of a verified batch.
#[derive(Clone, Copy, Debug)]
pub struct WalkedEntry<'a> {
    /// Index in the log.
    pub index: u64,
    pub leaf: &'a [u8],
    /// The payload that the leaf commits to; `None` once erased.
    pub payload: Option<&'a [u8]>,
    /// What it adds to the tree, as the walk worked it out to verify it.
    pub grown: Grown,
}

impl<'a> PlacedBatch<'a> {
    /// Its entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = WalkedEntry<'a>> + use<'a> {
        let gone = self.gone;
        self.batch.frames().zip(self.grown).map(move |(frame, grown)| WalkedEntry {
            index: frame.index,
            leaf: frame.leaf,
            payload: (!gone.contains(&frame.index)).then_some(frame.payload),
            grown: *grown,
        })
    }
}

/// The entries of a verified batch, in memory of their own: to be read on another thread than the one that walks.
#[derive(Debug, Default)]
pub struct Entries {
    /// Leaves and payloads, one behind the other.
    bytes: Vec<u8>,
    ends: Vec<Ends>,
}

/// One of the entries: where its leaf ends, and where its payload ends unless it is erased.
#[derive(Debug)]
struct Ends {
    index: u64,
    leaf: usize,
    payload: Option<usize>,
    grown: Grown,
}

impl Entries {
    /// The entry at a place of the batch.
    pub fn entry(&self, at: usize) -> Option<WalkedEntry<'_>> {
        let begins = match at.checked_sub(1) {
            Some(before) => self.ends.get(before).map(|before| before.payload.unwrap_or(before.leaf))?,
            None => 0,
        };
        let ends = self.ends.get(at)?;
        let leaf = self.bytes.get(begins..ends.leaf)?;
        let payload = ends.payload.and_then(|payload_ends| self.bytes.get(ends.leaf..payload_ends));
        Some(WalkedEntry { index: ends.index, leaf, payload, grown: ends.grown })
    }

    /// Its entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = WalkedEntry<'_>> {
        (0..self.ends.len()).filter_map(|at| self.entry(at))
    }
}

impl PlacedBatch<'_> {
    /// Its entries in memory of their own.
    pub fn to_entries(&self) -> Entries {
        let mut copied = Entries::default();
        copied.ends.reserve(self.grown.len());
        copied.bytes.reserve(self.entries().map(|it| it.leaf.len() + it.payload.map_or(0, <[u8]>::len)).sum());
        for WalkedEntry { index, leaf, payload, grown } in self.entries() {
            copied.bytes.extend_from_slice(leaf);
            let leaf = copied.bytes.len();
            let payload = payload.map(|payload| {
                copied.bytes.extend_from_slice(payload);
                copied.bytes.len()
            });
            copied.ends.push(Ends { index, leaf, payload, grown });
        }
        copied
    }
}

/// Bytes after the last whole batch that a crash explains: a batch that was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Where it starts, and the index that its first entry would have had.
    pub place: Place,
    /// From its first byte to the last that is not zero.
    pub bytes: u64,
    /// Why it is not whole.
    pub reason: String,
}

/// Where a walk ended.
#[derive(Debug)]
pub struct WalkEnd {
    /// The tree over everything read, and before it.
    pub frontier: Frontier,
    /// How many batches were verified.
    pub batches: u64,
    /// How many segment files there are.
    pub segments: usize,
    /// Where the next batch would go; `None` if there is no segment at all.
    pub end: Option<Place>,
    /// What follows the last whole batch, if it is not only zeros.
    pub tail: Option<TornTail>,
    /// The checkpoint in the anchor file, if there is one.
    pub anchor: Option<Checkpoint>,
    /// The keys that the log has had, from where the walk began.
    pub keys: KeyChain,
    /// Payloads that are there although an erasure names them, each with that erasure: one that a crash interrupted, or an old copy
    /// that was put back.
    pub put_back: Vec<(u64, u64)>,
}

/// Reads the log in a folder from a trusted tree to its end and hands each verified batch to `visit`.
///
/// # Errors
/// If a segment is missing or damaged, the log is shorter than its anchor or disagrees with it, or `visit` refuses a batch.
pub fn walk(
    disk: &dyn Disk,
    options: WalkOptions<'_>,
    start: Frontier,
    visit: &mut Fold<'_>,
) -> Result<WalkEnd, StorageError> {
    let segments = list_segments(disk, options.key.origin())?;
    let start_size = start.size();
    let mut walker = Walker::new(options, start, anchor::read(disk)?, segments.len())?;
    let first = segments.partition_point(|segment| segment.first_index <= start_size).saturating_sub(1);
    let last = segments.len().saturating_sub(1);
    for (at, segment) in segments.iter().enumerate().skip(first) {
        walker.segment(disk, segment, at == last, visit)?;
    }
    walker.finish(start_size)
}

struct Walker<'a> {
    options: WalkOptions<'a>,
    /// Erasure first moves the anchor past what it erases, so zeros after this index are a torn write.
    erased_below: u64,
    gone: Gone,
    /// Where a batch is tried before it counts.
    trial: Frontier,
    /// What the entries of the batch add to it.
    grown: Vec<Grown>,
    /// The anchor, until its signature was found right.
    anchor: Option<anchor::Unproved>,
    end: WalkEnd,
}

impl<'a> Walker<'a> {
    fn new(
        options: WalkOptions<'a>,
        start: Frontier,
        anchor: Option<anchor::Unproved>,
        segments: usize,
    ) -> Result<Self, StorageError> {
        let anchor_size = anchor.as_ref().map_or(0, |anchor| anchor.checkpoint.size);
        let keys = KeyChain::new(options.key.clone());
        let mut walker = Self {
            options,
            erased_below: anchor_size.max(start.size()),
            gone: Gone::from(start.size()),
            trial: start.clone(),
            grown: Vec::new(),
            anchor,
            end: WalkEnd {
                frontier: start,
                batches: 0,
                segments,
                end: None,
                tail: None,
                anchor: None,
                keys,
                put_back: Vec::new(),
            },
        };
        walker.compare_with_anchor()?;
        Ok(walker)
    }

    fn segment(
        &mut self,
        disk: &dyn Disk,
        segment: &SegmentFile,
        is_last: bool,
        visit: &mut Fold<'_>,
    ) -> Result<(), StorageError> {
        let name = segment.name.as_str();
        let file = disk.open_read(name).on("open", name)?;
        if self.end.frontier.size() < segment.first_index {
            let reason = format!("the segment before it ends at entry {}", self.end.frontier.size());
            let place = Place { segment: name.to_owned(), offset: 0, index: self.end.frontier.size() };
            return Err(self.corrupt(place, reason, Some(segment.first_index)));
        }
        let mut cursor = BatchCursor::new(Arc::clone(&file), SEGMENT_HEADER_LEN as u64).on("read", name)?;
        let mut index = segment.first_index;
        let stop = loop {
            let offset = cursor.offset();
            let step = cursor.step().on("read", name)?;
            let place = Place { segment: name.to_owned(), offset, index };
            match step {
                Step::End => break (place, None),
                Step::Torn(torn) => break (place, Some(torn.to_string())),
                Step::Batch(batch) if batch.header().first_index != index => {
                    let found = batch.header().first_index;
                    break (place, Some(format!("the batch here starts at entry {found}, not {index}")));
                }
                Step::Batch(batch) if batch.header().end_index() <= self.trial.size() => {
                    // Before the trusted start: the snapshot vouches for it.
                    index = batch.header().end_index();
                }
                Step::Batch(batch) => match self.verify(&batch) {
                    Err(Wrong { reason, is_signed: true }) => {
                        let until = Some(batch.header().end_index());
                        let reason = format!("{reason}, and a key of the log's has signed it: no crash explains that");
                        return Err(self.corrupt(place, reason, until));
                    }
                    Err(Wrong { reason, .. }) => break (place, Some(reason)),
                    Ok(verified) => index = self.hand_on(batch, &verified, place, visit)?,
                },
            }
        };
        self.stop(&*file, stop.0, stop.1, is_last)
    }

    /// Hands a right batch on. Gives the index of the entry after it.
    fn hand_on(
        &mut self,
        batch: Batch<'_>,
        (checkpoint, gone): &(Checkpoint, Vec<u64>),
        place: Place,
        visit: &mut Fold<'_>,
    ) -> Result<u64, StorageError> {
        self.gone.note(&batch, gone, &place, self.options.leaves)?;
        let grown = self.grown.as_slice();
        let placed = PlacedBatch { segment: &place.segment, offset: place.offset, batch, checkpoint, grown, gone };
        let refused = visit(placed);
        refused.map_err(|source| StorageError::Fold { place, source })?;
        self.compare_with_anchor()?;
        Ok(checkpoint.size)
    }

    /// Judges one batch; only a right one moves the tree on.
    fn verify(&mut self, batch: &Batch<'_>) -> Result<(Checkpoint, Vec<u64>), Wrong> {
        let header = batch.header();
        if header.first_index != self.end.frontier.size() {
            let reason = format!("the batch crosses the trusted position {}", self.end.frontier.size());
            return Err(Wrong { reason, is_signed: false });
        }
        self.trial.clone_from(&self.end.frontier);
        self.grown.clear();
        for frame in batch.frames() {
            let leaf = leaf_hash(frame.leaf);
            self.grown.push(Grown { leaf, tile: self.trial.push(leaf) });
        }
        let named = Named::of(batch, &self.options);
        match named.and_then(|named| Ok((self.judge(batch, &named)?, named))) {
            Ok(((checkpoint, gone), named)) => {
                self.end.frontier.clone_from(&self.trial);
                self.end.batches += 1;
                named.first.into_iter().for_each(|first| self.end.keys = KeyChain::new(first));
                named.next.into_iter().for_each(|next| self.end.keys.rotate(checkpoint.size, next));
                Ok((checkpoint, gone))
            }
            Err(reason) => {
                let is_signed = self.is_signed(batch);
                self.trial.clone_from(&self.end.frontier);
                Err(Wrong { reason, is_signed })
            }
        }
    }

    /// Whether a key of the log's signed exactly these leaves, and the payloads are theirs. A batch that is wrong all the same,
    /// such as one by a key that was replaced, is no torn write.
    fn is_signed(&self, batch: &Batch<'_>) -> bool {
        let note = std::str::from_utf8(batch.note()).unwrap_or_default();
        let is_true =
            |checkpoint: Checkpoint| checkpoint.size == self.trial.size() && checkpoint.root == self.trial.root();
        self.known_keys().iter().any(|key| Checkpoint::open(note, key).is_ok_and(is_true))
            && batch.frames().all(|frame| self.may_be_erased(&frame) || self.payload_matches(&frame))
    }

    /// The batch's checkpoint, and the entries whose payloads are gone.
    fn judge(&self, batch: &Batch<'_>, named: &Named) -> Result<(Checkpoint, Vec<u64>), String> {
        let note = std::str::from_utf8(batch.note()).map_err(|_| "its checkpoint is not text".to_owned())?;
        let first = named.first.clone().map(KeyChain::new);
        let keys = first.as_ref().unwrap_or(&self.end.keys);
        let checkpoint = keys.open_next(note, named.next.as_ref()).map_err(|error| error.to_string())?;
        if checkpoint.size != self.trial.size() {
            return Err(format!("its checkpoint is for {} entries, not {}", checkpoint.size, self.trial.size()));
        }
        if checkpoint.root != self.trial.root() {
            return Err("its leaves are not those that its checkpoint signs".to_owned());
        }
        let mut gone = Vec::new();
        for frame in batch.frames().filter(|frame| !self.payload_matches(frame)) {
            if !self.may_be_erased(&frame) {
                return Err(not_its_payload(frame.index));
            }
            gone.push(frame.index);
        }
        Ok((checkpoint, gone))
    }

    fn payload_matches(&self, frame: &Frame<'_>) -> bool {
        self.options.leaves.payload_matches(frame.leaf, frame.salt, frame.payload)
    }

    /// Whether an erasure can explain that a payload is gone. Whether one does, the log says further on.
    fn may_be_erased(&self, frame: &Frame<'_>) -> bool {
        frame.index < self.erased_below
    }

    /// Decides what the end of a segment means.
    fn stop(
        &mut self,
        file: &dyn DiskFile,
        place: Place,
        broken: Option<String>,
        is_last: bool,
    ) -> Result<(), StorageError> {
        let name = place.segment.clone();
        let own = self.end.frontier.size();
        let rest = tail::scan(file, place.offset, own, &self.known_keys()).on("read", &name)?;
        let reason = match (broken, &rest) {
            (Some(reason), _) => Some(reason),
            (None, rest) if rest.bytes > 0 => Some("where the log should end, bytes follow".to_owned()),
            (None, _) => None,
        };
        if let Some(reason) = reason {
            if let Some((offset, size)) = rest.signed {
                let reason = format!("{reason}, but a signed batch follows at byte {offset}");
                return Err(self.corrupt(place, reason, Some(size)));
            }
            if !is_last {
                return Err(self.corrupt(place, reason, None));
            }
            self.end.tail = Some(TornTail { place: place.clone(), bytes: rest.bytes, reason });
        }
        self.end.end = Some(place);
        Ok(())
    }

    fn corrupt(&self, place: Place, reason: String, until: Option<u64>) -> StorageError {
        let anchor = self.anchor.as_ref().filter(|anchor| self.is_known_to_sign(&anchor.note));
        let until = until.unwrap_or(0).max(anchor.map_or(0, |anchor| anchor.checkpoint.size));
        let lost = match until.checked_sub(1).filter(|last| *last >= place.index) {
            Some(last) => format!("entries {} to at least {last} would be lost", place.index),
            None => format!("all entries from {} would be lost", place.index),
        };
        StorageError::Corrupt { place, reason, lost }
    }

    /// Every key that may have signed something here. Where the batch that rotates is itself damaged, the log alone no longer
    /// says which came next.
    fn known_keys(&self) -> Vec<&LogKey> {
        self.end.keys.keys().chain([self.options.key]).chain(self.options.next).collect()
    }

    fn is_known_to_sign(&self, note: &str) -> bool {
        self.known_keys().iter().any(|key| Checkpoint::open(note, key).is_ok())
    }

    fn compare_with_anchor(&mut self) -> Result<(), StorageError> {
        let size = self.end.frontier.size();
        let Some(anchor) = self.anchor.take_if(|anchor| anchor.checkpoint.size == size) else { return Ok(()) };
        let checkpoint = self.prove(&anchor)?;
        if checkpoint.root != self.end.frontier.root() {
            return Err(StorageError::AnchorDisagrees {
                size,
                log_root: self.end.frontier.root().to_string(),
                anchor_root: checkpoint.root.to_string(),
            });
        }
        self.end.anchor = Some(checkpoint);
        Ok(())
    }

    /// Checks the anchor's signature, by the key that the log had at its size.
    fn prove(&self, anchor: &anchor::Unproved) -> Result<Checkpoint, StorageError> {
        let bad = |reason: String| StorageError::BadAnchor { reason };
        self.end.keys.open(&anchor.note).map_err(|error| bad(error.to_string()))
    }

    fn finish(mut self, start_size: u64) -> Result<WalkEnd, StorageError> {
        if let Some(anchor) = self.anchor.take() {
            // The log did not come to it: it is of a longer log, or of one before the start.
            let is_known = anchor.checkpoint.size > self.end.frontier.size() && self.is_known_to_sign(&anchor.note);
            self.end.anchor = Some(if is_known { anchor.checkpoint } else { self.prove(&anchor)? });
        }
        let log_size = self.end.frontier.size();
        let end_index = self.end.end.as_ref().map_or(0, |place| place.index);
        let nowhere = || Place { segment: "(no segment)".to_owned(), offset: 0, index: 0 };
        let log_size = log_size.min(end_index);
        let anchor_size = self.end.anchor.as_ref().map_or(0, |anchor| anchor.size);
        if log_size < anchor_size {
            return Err(StorageError::ShorterThanAnchor {
                log_size,
                anchor_size,
                place: self.end.end.clone().unwrap_or_else(nowhere),
                why: self.end.tail.map(|tail| format!(" since {}", tail.reason)).unwrap_or_default(),
            });
        }
        self.end.put_back = self.gone.finish()?;
        if log_size < start_size {
            let reason = format!("the log ends at {log_size} entries");
            return Err(StorageError::BadStart { start: start_size, reason });
        }
        if !self.end.keys.contains(self.options.key) {
            let (current, trusted) = (self.end.keys.current().name_and_id(), self.options.key.name_and_id());
            return Err(StorageError::AnotherLog { current, trusted });
        }
        Ok(self.end)
    }
}

/// Why a batch is not right.
struct Wrong {
    reason: String,
    /// Whether one of the log's keys signed it nevertheless.
    is_signed: bool,
}

/// Reads `len` bytes in pieces and hands each on with its offset.
pub(super) fn in_pieces(
    file: &dyn DiskFile,
    mut offset: u64,
    end: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0u8; 1 << 20];
    while offset < end {
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..wanted).unwrap_or_default();
        file.read_exact_at(piece, offset)?;
        each(offset, piece)?;
        offset += wanted as u64;
    }
    Ok(())
}
