//! Audit: every entry decided again, from the start of the log, and compared byte for byte (I3).
//!
//! An audit trusts the log's signatures for what was recorded and `decide` for what should have been. It reads the folder
//! without holding it and never looks at a snapshot. Where an erased payload leaves no way to know, it says so and goes on.

mod again;
mod counterfactual;
mod effects;
mod lost;
mod once;
mod taint;
mod unknown;

pub use counterfactual::{Difference, Outcome, ReplayReport, replay};
pub use unknown::Unknown;

use crate::fold::{Depth, Fold, FoldError, Read, ahead, read, walk_options};
use crate::storage::disk::Disk;
use crate::storage::{PlacedBatch, StorageError, WalkedEntry, walk};
use again::again;
use countersign_core::code::Code;
use countersign_core::ids::FactId;
use countersign_core::record::{Encoder, Entry, Event, Leaf, LeafVerdict};
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::tree::Frontier;
use lost::{FENCED, Lost};
use once::Once;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use taint::{Said, Taint};

/// What an audit found.
#[derive(Debug, Default)]
pub struct AuditReport {
    /// Entries read.
    pub entries: u64,
    /// Entries decided or derived again with the same bytes.
    pub verified: u64,
    /// Entries that cannot be judged, with the erasure that took what they depend on.
    pub unverifiable: Vec<Unverifiable>,
    /// Entries that came out differently; the first thousand.
    pub differing: Vec<Differing>,
    /// How many came out differently.
    pub differing_count: u64,
    /// Whether a torn tail follows the last whole batch; it was never acknowledged.
    pub torn_tail: bool,
}

/// An entry that cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unverifiable {
    /// The entry.
    pub entry: u64,
    /// The erased entry it depends on, or itself.
    pub depends_on: u64,
    /// What of that is not known.
    pub unknown: Unknown,
    /// The erasure that erased that.
    pub erased_by: Option<u64>,
}

/// An entry that came out differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differing {
    /// The entry.
    pub entry: u64,
    /// What differs: leaf or payload, recorded and decided again, from the first difference on.
    pub what: String,
}

/// Why an audit could not be done.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The log is damaged or cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Audits the log in a folder; `progress` is told the entries done.
pub fn audit(disk: &dyn Disk, key: &LogKey, progress: &mut dyn FnMut(u64)) -> Result<AuditReport, AuditError> {
    let mut auditor = Auditor { origin: key.origin().to_owned(), ..Auditor::default() };
    let audited = AtomicU64::new(0);
    let torn_tail = walk_entries(disk, key, &audited, progress, |recorded| {
        auditor.entry(&recorded)?;
        audited.store(auditor.fold.position, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(auditor.finish(torn_tail))
}

/// An entry as it is recorded.
struct Recorded {
    read: Read,
    leaf: Vec<u8>,
    /// Empty where it was erased.
    payload: Vec<u8>,
}

/// Reads every entry of a folder, whole and ahead of what takes them, in order; says whether a torn tail follows. `progress` is told
/// how many are done.
fn walk_entries(
    disk: &dyn Disk,
    key: &LogKey,
    done: &AtomicU64,
    progress: &mut dyn FnMut(u64),
    take: impl FnMut(Recorded) -> Result<(), FoldError> + Send,
) -> Result<bool, StorageError> {
    let read = |placed: &PlacedBatch<'_>| {
        let record = |entry: WalkedEntry<'_>| {
            let read = read(entry.index, entry.leaf, entry.payload, Depth::Whole)?;
            Ok(Recorded { read, leaf: entry.leaf.to_vec(), payload: entry.payload.unwrap_or_default().to_vec() })
        };
        placed.entries().map(record).collect()
    };
    let end = ahead(read, take, |visit| {
        walk(disk, walk_options(key), Frontier::new(), &mut |placed| {
            visit(placed)?;
            progress(done.load(Ordering::Relaxed));
            Ok(())
        })
    })?;
    progress(done.load(Ordering::Relaxed));
    Ok(end.tail.is_some())
}

#[derive(Default)]
struct Auditor {
    /// The log's: what is signed or handed on for another gate counts for nothing here.
    origin: String,
    fold: Fold,
    report: AuditReport,
    /// What is not known of facts.
    taint: Taint,
    /// An erased entry that may have charged a budget.
    tainted_budgets: Option<u64>,
    erased_by: BTreeMap<u64, u64>,
    /// Entries whose payloads are erased.
    gone: BTreeSet<u64>,
    /// What was under way by entries that are erased.
    lost: Lost,
    /// The requests that made an entry.
    once: Once,
    payloads: Encoder,
    leaves: Encoder,
}

/// How many differences are kept in full.
const DIFFERING_KEPT: usize = 1000;

impl Auditor {
    fn entry(&mut self, recorded: &Recorded) -> Result<(), FoldError> {
        let Read { entry, .. } = &recorded.read;
        self.fold.check_next(entry)?;
        self.report.entries += 1;
        if let Event::Erasure { entries, .. } = &entry.event {
            for erased in entries {
                self.erased_by.entry(*erased).or_insert(entry.index);
            }
        }
        let once = self.once.check(entry, &self.fold, &self.origin);
        match (&entry.event, once) {
            // Nothing that is erased explains a second entry of one request.
            (_, Err(what)) => self.differs(entry.index, what),
            (Event::Erased(leaf), Ok(())) => self.erased(leaf),
            (_, Ok(())) => {
                let mut again = again(entry, &self.fold.state, &self.origin);
                again.iter_mut().for_each(|again| self.taint.number(again));
                self.compare(recorded, again);
            }
        }
        self.lost.ended(&entry.event);
        self.taint.applied(&entry.event);
        self.fold.apply(&recorded.read)
    }

    fn erased(&mut self, leaf: &Leaf) {
        self.taint.erased(leaf);
        self.gone.insert(leaf.index);
        self.lost.begun(leaf);
        if matches!(leaf.verdict, Some(LeafVerdict::Committed | LeafVerdict::InFlight | LeafVerdict::Failed)) {
            self.tainted_budgets.get_or_insert(leaf.index);
        }
        self.unverifiable(leaf.index, leaf.index, Unknown::Payload);
    }

    fn unverifiable(&mut self, entry: u64, depends_on: u64, unknown: Unknown) {
        self.report.unverifiable.push(Unverifiable { entry, depends_on, unknown, erased_by: None });
    }

    fn compare(&mut self, recorded: &Recorded, again: Result<Entry, String>) {
        let Recorded { read: Read { entry: recorded, commitment, .. }, leaf: leaf_bytes, payload } = recorded;
        let (leaf_bytes, payload) = (leaf_bytes.as_slice(), payload.as_slice());
        let event = &recorded.event;
        let (mut is_over_budget, mut is_fenced) = (false, Lost::concerns(event));
        let mut tainted = self.taint.excuse(event, &Said { both: &|_| false, either: &|_| false });
        let what = match again {
            Ok(entry) => {
                let payload_again = self.payloads.payload(&entry).as_bytes();
                let leaf_again = self.leaves.leaf(&entry, &commitment.0);
                match (leaf_again == leaf_bytes, payload_again == payload) {
                    (true, true) => {
                        self.report.verified += 1;
                        return;
                    }
                    (_, false) => {
                        let either =
                            |codes: &[Code]| [payload, payload_again].iter().any(|payload| says_one_of(payload, codes));
                        let both =
                            |codes: &[Code]| [payload, payload_again].iter().all(|payload| says_one_of(payload, codes));
                        is_over_budget = either(&[Code::BudgetExceeded]);
                        is_fenced |= either(FENCED);
                        tainted = self.taint.excuse(event, &Said { both: &both, either: &either });
                        difference("payload", payload, payload_again)
                    }
                    (false, true) => difference("leaf", &shown_leaf(leaf_bytes), &shown_leaf(leaf_again)),
                }
            }
            Err(why) => why,
        };
        let over_budget = self.tainted_budgets.filter(|_| is_over_budget);
        // An approval cannot be decided again without the action that it approved, nor an effect without its intent.
        let parked = rests_on(event).filter(|entry| self.gone.contains(entry));
        let lost = self.lost.under_way(event).filter(|_| is_fenced);
        // The leaf of a claim says nothing of the agent's own fact, of which a version may be gone.
        let is_claim = matches!(event, Event::Claim { .. } | Event::Extension { .. } | Event::Withdrawal { .. });
        let holder = self.fold.state.facts.get(&FactId::of_agent(&recorded.by)).map(|fact| fact.tag);
        let standing = self.taint.value(holder).filter(|_| is_claim);
        let because = |unknown| move |entry| (entry, unknown);
        // What rests on something erased may say something else because of that.
        let excuse = tainted
            .or(standing.map(because(Unknown::Value)))
            .or(over_budget.map(because(Unknown::Charges)))
            .or(parked.map(because(Unknown::Beginning)))
            .or(lost.map(because(Unknown::Fences)));
        if let Some((depends_on, unknown)) = excuse {
            self.unverifiable(recorded.index, depends_on, unknown);
        } else {
            self.differs(recorded.index, what);
        }
    }

    fn differs(&mut self, entry: u64, what: String) {
        self.report.differing_count += 1;
        if self.report.differing.len() < DIFFERING_KEPT {
            self.report.differing.push(Differing { entry, what });
        }
    }

    fn finish(mut self, torn_tail: bool) -> AuditReport {
        self.report.torn_tail = torn_tail;
        for unverifiable in &mut self.report.unverifiable {
            unverifiable.erased_by = self.erased_by.get(&unverifiable.depends_on).copied();
        }
        self.report
    }
}

/// The earlier entry without which an entry cannot be derived again.
fn rests_on(event: &Event) -> Option<u64> {
    match event {
        Event::Approval(approved) => Some(approved.shown.review.0),
        Event::Refusal { review, .. } | Event::Expiry { review } => Some(review.0),
        Event::Feed { held, .. } => *held,
        Event::Extension { claim, .. } | Event::Withdrawal { claim } => Some(claim.0),
        _ => event.effect().map(|effect| effect.0),
    }
}

/// A leaf as people read it.
fn shown_leaf(bytes: &[u8]) -> Vec<u8> {
    Leaf::decode(bytes).map_or_else(|_| bytes.to_vec(), |leaf| leaf.show().into_bytes())
}

/// The first difference of two texts, with a little of what follows.
fn difference(what: &str, recorded: &[u8], again: &[u8]) -> String {
    let at = recorded.iter().zip(again).take_while(|(a, b)| a == b).count();
    let from = at.saturating_sub(20);
    let piece = |bytes: &[u8]| {
        let piece = bytes.get(from..bytes.len().min(at + 80)).unwrap_or_default();
        String::from_utf8_lossy(piece).into_owned()
    };
    format!("the {what} differs at byte {at}: recorded …{}…, decided again …{}…", piece(recorded), piece(again))
}

/// Where a payload explains why something was blocked, or would have been.
const EXPLAINED: [&str; 4] = ["/blocked", "/shadowed", "/decision/blocked", "/decision/shadowed"];

/// Whether a payload gives one of these codes as a reason. What an agent wrote into its body says nothing.
fn says_one_of(payload: &[u8], codes: &[Code]) -> bool {
    let mut objects = serde_json::Deserializer::from_slice(payload).into_iter::<serde_json::Value>();
    let Some(Ok(payload)) = objects.next() else { return false };
    let code = |place: &&str| payload.pointer(place).and_then(|reason| reason.get("code")?.as_str());
    EXPLAINED.iter().filter_map(code).any(|said| codes.iter().any(|code| code.as_str() == said))
}
