//! Audit: every entry decided again, from the start of the log, and compared byte for byte (I3).
//!
//! An audit trusts the log's signatures for what was recorded and `decide` for what should have been. It reads the folder
//! without holding it and never looks at a snapshot. Where an erased payload leaves no way to know, it says so and goes on.

mod again;
mod budgets;
mod counterfactual;
mod effects;
mod erasing;
mod fault;
mod lost;
mod observations;
mod once;
mod sessions;
mod signing_time;
mod taint;
mod unknown;

pub use counterfactual::{Difference, Outcome, ReplayReport, replay};
pub use unknown::Unknown;

use crate::fold::{Depth, Fold, FoldError, Read, ahead, read, walk_options};
use crate::storage::{Entries, StorageError, Walk, WalkEnd, WalkedEntry};
use again::{again, check_condition, decided_again};
use budgets::{Charged, Supposed};
use countersign_core::code::Code;
use countersign_core::decision::Decision;
use countersign_core::ids::PactName;
use countersign_core::limits::CLAIM_MS_MAX;
use countersign_core::pact::Pact;
use countersign_core::record::{Encoder, Entry, Event, Kind, Leaf, LeafVerdict, PactsAhead};
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::tree::Frontier;
use erasing::Erasable;
use fault::{Fault, RestsOn};
use lost::Lost;
use observations::Uncounted;
use once::Once;
use parking_lot::RwLock;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use taint::Taint;

/// What an audit found.
#[derive(Debug, Default, PartialEq, Eq)]
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
    /// Payloads that are there although an erasure names them, each with that erasure.
    pub put_back: Vec<(u64, u64)>,
}

/// An entry that cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unverifiable {
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
    pub entry: u64,
    /// What differs: leaf or payload, recorded and decided again, from the first difference on.
    pub what: String,
}

/// Why an audit could not be done.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The log is damaged or cannot be read.
    #[error("{0}")]
    Storage(#[from] StorageError),
}

/// Audits the log in a folder; `progress` is told the entries done.
pub fn audit(log: &dyn Walk, key: &LogKey, progress: &mut dyn FnMut(u64)) -> Result<AuditReport, AuditError> {
    let mut auditor = Auditor { origin: key.origin().to_owned(), ..Auditor::default() };
    let audited = AtomicU64::new(0);
    let end = walk_entries(log, key, &audited, progress, |recorded| {
        auditor.entry(&recorded)?;
        audited.store(auditor.fold.position, Relaxed);
        Ok(())
    })?;
    Ok(auditor.finish(end))
}

/// An entry as it is recorded.
struct Recorded {
    read: Read,
    batch: Arc<Entries>,
    /// Its place in the batch.
    at: usize,
}

impl Recorded {
    /// Leaf and payload; the payload is empty where it was erased.
    fn bytes(&self) -> (&[u8], &[u8]) {
        self.batch.entry(self.at).map_or((&[], &[]), |entry| (entry.leaf, entry.payload.unwrap_or_default()))
    }
}

/// Reads every entry of a log, whole and ahead of what takes them, in order. `progress` is told how many are done.
fn walk_entries(
    log: &dyn Walk,
    key: &LogKey,
    done: &AtomicU64,
    progress: &mut dyn FnMut(u64),
    take: impl FnMut(Recorded) -> Result<(), FoldError> + Send,
) -> Result<WalkEnd, StorageError> {
    let published = Published::default();
    let read = |batch: &Arc<Entries>| {
        let record = |(at, entry): (usize, WalkedEntry<'_>)| {
            let read = read(&entry, Depth::Whole(&published))?;
            published.note(&read.entry.event);
            Ok(Recorded { read, batch: Arc::clone(batch), at })
        };
        batch.entries().enumerate().map(record).collect()
    };
    let end = ahead(read, take, |visit| {
        log.walk(walk_options(key), Frontier::new(), &mut |placed| {
            visit(placed)?;
            progress(done.load(Relaxed));
            Ok(())
        })
    })?;
    progress(done.load(Relaxed));
    Ok(end)
}

/// The pacts that were read last under their names. Several threads read, so this may be ahead of an entry, or behind it: then its
/// parameters are bound again where it is decided.
#[derive(Default)]
struct Published(RwLock<BTreeMap<PactName, Arc<Pact>>>);

impl Published {
    fn note(&self, event: &Event) {
        if let Event::Pact(pact) = event {
            self.0.write().insert(pact.name.clone(), Arc::clone(pact));
        }
    }
}

impl PactsAhead for Published {
    fn pact(&self, name: &PactName) -> Option<Arc<Pact>> {
        self.0.read().get(name).cloned()
    }
}

#[derive(Default)]
struct Auditor {
    /// The log's: what is signed or handed on for another gate counts for nothing here.
    origin: String,
    fold: Fold,
    report: AuditReport,
    /// What is not known of facts.
    taint: Taint,
    /// What is not known of budgets.
    charged: Charged,
    /// What is not known of budgets on observing.
    uncounted: Uncounted,
    erased_by: BTreeMap<u64, u64>,
    /// What erasures are judged by.
    erasable: Erasable,
    /// What was under way by entries that are erased.
    lost: Lost,
    /// Effects that were put under way by entries that could not be judged, with why.
    unsure: BTreeMap<u64, (u64, Unknown)>,
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
        self.charged.passed(entry.time_ms);
        let fit = self.once.check(entry, &self.fold, &self.origin).and_then(|()| self.check_entry(entry));
        match (&entry.event, fit) {
            // Nothing that is erased explains a second entry of one request, or an erasure of what was in force.
            (_, Err(what)) => self.differs(entry.index, what),
            (Event::Erased(_), Ok(())) => self.unverifiable(entry.index, (entry.index, Unknown::Payload)),
            (_, Ok(())) => {
                let again = again(entry, &self.fold.state, &self.origin).and_then(|mut again| {
                    self.taint.number(&mut again, &self.fold.state)?;
                    check_condition(entry, &again)?;
                    Ok(again)
                });
                self.compare(recorded, again);
            }
        }
        if let Event::Erased(leaf) = &entry.event {
            self.taint.erased(leaf);
            self.lost.begun(leaf);
            self.charged.erased(leaf, &self.fold.state);
            self.uncounted.erased(leaf, &self.fold.state);
        }
        self.lost.ended(&entry.event, entry.time_ms);
        self.erasable.note(&entry.event);
        let feeder_gone = match &entry.event {
            Event::Feed { held: Some(held), .. } => Some(*held).filter(|held| !self.fold.state.held.contains_key(held)),
            _ => None,
        };
        self.fold.apply(&recorded.read)?;
        self.taint.applied(entry, &self.fold.state);
        feeder_gone.into_iter().for_each(|held| self.taint.released(entry, held));
        self.once.applied(entry);
        Ok(())
    }

    /// What must hold of an entry whatever is erased.
    fn check_entry(&mut self, entry: &Entry) -> Result<(), String> {
        if entry.context.given().is_some() {
            return Err("its leaf has a context (members 20 to 25), which no gate writes".to_owned());
        }
        let Event::Erasure { entries, forgotten, .. } = &entry.event else { return Ok(()) };
        for erased in entries {
            self.erased_by.entry(*erased).or_insert(entry.index);
        }
        self.erasable.check(entries, forgotten, (&self.fold.state, entry.time_ms), &self.taint, &self.lost)
    }

    fn unverifiable(&mut self, entry: u64, (depends_on, unknown): (u64, Unknown)) {
        self.report.unverifiable.push(Unverifiable { entry, depends_on, unknown, erased_by: None });
    }

    fn compare(&mut self, recorded: &Recorded, again: Result<Entry, Fault>) {
        let entry = &recorded.read.entry;
        let (what, excuse) = match again {
            Ok(again) => match self.differs_from(recorded, &again) {
                None => {
                    self.report.verified += 1;
                    return;
                }
                Some(what) => (what, self.excuse(recorded, &again)),
            },
            Err(Fault { what, rests_on: RestsOn::Decision(event) }) => {
                let again = Entry { event: *event, ..entry.clone() };
                (what, self.excuse(recorded, &again))
            }
            Err(Fault { what, rests_on }) => {
                let excuse = self.excuse_fault(entry, &rests_on);
                (what, excuse)
            }
        };
        let Some(excuse) = excuse else { return self.differs(entry.index, what) };
        if entry.event.verdict() == Some(LeafVerdict::InFlight) {
            let effect = entry.event.effect().map_or(entry.index, |effect| effect.0);
            self.unsure.insert(effect, excuse);
        }
        self.unverifiable(entry.index, excuse);
    }

    /// How a recorded entry differs from the one derived again, if it does.
    fn differs_from(&mut self, recorded: &Recorded, again: &Entry) -> Option<String> {
        let (leaf, payload) = recorded.bytes();
        let payload_again = self.payloads.payload(again).as_bytes();
        if payload_again != payload {
            return Some(difference("payload", payload, payload_again));
        }
        let leaf_again = self.leaves.leaf(again, &recorded.read.commitment.0);
        (leaf_again != leaf).then(|| difference("leaf", &shown_leaf(leaf), &shown_leaf(leaf_again)))
    }

    /// Why an entry that could not be derived again cannot be judged, if what it rests on is erased.
    fn excuse_fault(&mut self, entry: &Entry, rests_on: &RestsOn) -> Option<(u64, Unknown)> {
        let state = &self.fold.state;
        match rests_on {
            RestsOn::Nothing => None,
            // A reading names what it writes, and rests on the version before.
            RestsOn::Fact(_) if entry.event.kind() == Kind::Reading => {
                Some((self.taint.excuse_writes(&entry.event, state)?, Unknown::Value))
            }
            RestsOn::Shown(facts) => {
                let gone = facts.iter().map(|fact| self.taint.excuse_on(fact, &entry.event, state));
                Some((gone.collect::<Option<Vec<u64>>>()?.into_iter().min()?, Unknown::Value))
            }
            RestsOn::Fact(fact) => Some((self.taint.excuse_on(fact, &entry.event, state)?, Unknown::Value)),
            // Put under way by an approval, say, of what was parked by an entry that is erased.
            RestsOn::Effect(effect) => {
                let begun = self.lost.under_way(rests_on).map(|since| (since, Unknown::Beginning));
                begun.or_else(|| self.unsure.get(effect).copied())
            }
            RestsOn::Fences | RestsOn::Claimed(_) => Some((self.lost.under_way(rests_on)?, Unknown::Fences)),
            _ => Some((self.lost.under_way(rests_on)?, Unknown::Beginning)),
        }
    }

    /// Why an entry that came out differently cannot be judged, if what it rests on is erased.
    fn excuse(&mut self, recorded: &Recorded, again: &Entry) -> Option<(u64, Unknown)> {
        let entry = &recorded.read.entry;
        if let Event::Settle(settle) = &entry.event {
            return self.unsure.get(&settle.effect.0).copied();
        }
        if let Event::Session { .. } | Event::Reading { .. } = &entry.event {
            let since = self.taint.excuse_writes(&entry.event, &self.fold.state);
            // Whether it was the first of its name follows from the session, which the entry itself need not write.
            let since = since.or_else(|| self.taint.excuse_writes(&again.event, &self.fold.state));
            return Some((since?, Unknown::Value));
        }
        if let (Event::Observation(said), Event::Observation(made)) = (&entry.event, &again.event) {
            return observations::excuse(entry, (said, made), &self.fold.state, &mut self.taint, &self.uncounted);
        }
        if let Event::Claim { .. } = &entry.event {
            return Some((self.excuse_claim(recorded, again)?, Unknown::Fences));
        }
        let decisions = [entry.event.decision()?, again.event.decision()?];
        // Who may do what, under which pact, and what is halted is never erased: a reason of these is right or wrong. Where both have the
        // same, the decision is right, and only the versions that it read may be gone: a group reads facts before it says that one of
        // its actions cannot be part of any.
        let [said, made] = decisions.map(|decision| (&decision.verdict, &decision.shadowed));
        let is_known = |decision: &Decision| decision.reason().is_some_and(|reason| is_always_known(reason.code()));
        // A group that now stops at an earlier action never comes to the one that it is said to have stopped at, and one that goes on past
        // that comes to others, which it never came to.
        let stops = match (&entry.event, &again.event) {
            (Event::Group(said), Event::Group(made)) => made.failed.cmp(&said.failed),
            _ => Ordering::Equal,
        };
        let [said_known, made_known] = decisions.map(is_known);
        if said != made && (made_known && stops != Ordering::Greater || said_known && stops != Ordering::Less) {
            return None;
        }
        let [said_why, made_why] = decisions.map(Decision::reason);
        let fenced = [said_why, made_why].into_iter().flatten().filter_map(|reason| self.lost.named_by(reason)).next();
        let fenced = fenced.or_else(|| self.lost.taken(said_why, made_why, &self.fold.state.fences));
        let tainted = self.taint.excuse(&entry.event, &again.event, &self.fold.state);
        let fenced = fenced.map(|since| (since, Unknown::Fences));
        let of_session = || Some((self.excuse_session(&entry.event)?, Unknown::Value));
        tainted.or(fenced).or_else(of_session).or_else(|| self.excuse_charge(recorded, decisions))
    }

    /// A dispatch asks whether its session is open, and what was read in it. It names the readings that were noted, and not the session.
    fn excuse_session(&self, event: &Event) -> Option<u64> {
        let Event::Dispatch(dispatch) = event else { return None };
        let state = &self.fold.state;
        let action = &state.effects.find(dispatch.effect).ok()?.action;
        state.pacts.get(&action.pact)?.actions.get(&action.action)?.guard.as_ref()?;
        let session = action.session?.id;
        match state.facts.get(&session.fact()?) {
            Some(fact) => self.taint.excuse_session(fact),
            None => self.lost.under_way(&RestsOn::Session(session.0)),
        }
    }

    /// A claim that would last for another time, if what may last instead follows from a claim that is erased. All else in it is right.
    fn excuse_claim(&mut self, recorded: &Recorded, again: &Entry) -> Option<u64> {
        let entry = &recorded.read.entry;
        let (
            Event::Claim { expires_at_ms: said_expires, until_ms: said_until, .. },
            Event::Claim { expires_at_ms: made_expires, until_ms: made_until, .. },
        ) = (&entry.event, &again.event)
        else {
            return None;
        };
        // How long was asked for is cut at the end, whichever that is.
        let is_cut = made_expires == made_until;
        let asked = if is_cut {
            *said_expires >= *made_expires.min(said_until)
        } else {
            said_expires == made_expires.min(said_until)
        };
        let is_ordered = said_expires <= said_until && *said_until <= entry.time_ms.saturating_add(CLAIM_MS_MAX);
        let since = self.lost.carried(&entry.by, *said_until, *made_until).filter(|_| asked && is_ordered)?;
        let mut supposed = again.clone();
        if let Event::Claim { expires_at_ms, until_ms, .. } = &mut supposed.event {
            (*expires_at_ms, *until_ms) = (*said_expires, *said_until);
        }
        self.differs_from(recorded, &supposed).is_none().then_some(since)
    }

    /// An entry that came out differently over a budget, as it would not have if the budget had held what the entry says.
    fn excuse_charge(&mut self, recorded: &Recorded, decisions: [&Decision; 2]) -> Option<(u64, Unknown)> {
        let entry = &recorded.read.entry;
        let is_over = |decision: &&Decision| decision.reason().is_some_and(|it| it.code() == Code::BudgetExceeded);
        let [said, _] = decisions;
        let since =
            self.charged.to(&said.pact.as_ref()?.name, &self.fold.state).filter(|_| decisions.iter().any(is_over))?;
        let state = &self.fold.state;
        let supposed = match &entry.event {
            Event::Group(group) => Supposed::of_group(state, group, entry.time_ms),
            _ => Supposed::new(state, said.reason()),
        };
        let event = decided_again(entry, state, &supposed).ok()?;
        let mut supposed = Entry { event, ..entry.clone() };
        again::give_tags(supposed.event.writes_mut(), entry.event.writes());
        self.taint.number(&mut supposed, state).ok()?;
        self.differs_from(recorded, &supposed).is_none().then_some((since, Unknown::Charges))
    }

    fn differs(&mut self, entry: u64, what: String) {
        self.report.differing_count += 1;
        if self.report.differing.len() < DIFFERING_KEPT {
            self.report.differing.push(Differing { entry, what });
        }
    }

    fn finish(mut self, end: WalkEnd) -> AuditReport {
        self.report.torn_tail = end.tail.is_some();
        self.report.put_back = end.put_back;
        if let Some(batch) = self.once.unfinished() {
            self.differs(
                batch,
                "it begins an atomic group, and the log ends before the last of its actions".to_owned(),
            );
        }
        for unverifiable in &mut self.report.unverifiable {
            unverifiable.erased_by = self.erased_by.get(&unverifiable.depends_on).copied();
        }
        self.report
    }
}

/// Whether a reason rests only on what is never erased: pacts, halts, agents, and what was sent.
fn is_always_known(code: Code) -> bool {
    code <= Code::DelegationOutOfScope || code == Code::TrustTooLow
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
