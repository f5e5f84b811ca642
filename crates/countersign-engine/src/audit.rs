//! Audit: every entry decided again, from the start of the log, and compared byte for byte (I3).
//!
//! An audit trusts the log's signatures for what was recorded and `decide` for what should have been. It reads the folder
//! without holding it and never looks at a snapshot. Where an erased payload leaves no way to know, it says so and goes on.

mod counterfactual;
mod effects;
mod lost;
mod taint;
mod unknown;

pub use counterfactual::{Difference, Outcome, ReplayReport, replay};
pub use unknown::Unknown;

use crate::delegation::reduce_for;
use crate::fold::{Fold, FoldError, walk_options};
use crate::storage::disk::Disk;
use crate::storage::{StorageError, walk};
use countersign_core::action::{Action, ActionRequest};
use countersign_core::code::Code;
use countersign_core::decide::{Approval, approve, decide};
use countersign_core::decision::Write;
use countersign_core::denial::check_denials;
use countersign_core::fact::version_in_tag;
use countersign_core::identity::{Auth, Role, authorise, role_to_feed};
use countersign_core::ids::{Digest, FactId};
use countersign_core::record::{Approved, Decided, Encoder, Entry, Event, Leaf, LeafVerdict};
use countersign_core::state::State;
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::tree::Frontier;
use lost::{FENCED, Lost};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
    let end = walk_entries(disk, key, &mut |leaf, payload| {
        auditor.entry(leaf, payload)?;
        progress(auditor.fold.position);
        Ok(())
    })?;
    Ok(auditor.finish(end))
}

/// Takes one entry: its leaf, and its payload unless that was erased.
type Visit<'a> = &'a mut dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), FoldError>;

/// Reads every entry of a folder in order; says whether a torn tail follows.
fn walk_entries(disk: &dyn Disk, key: &LogKey, visit: Visit<'_>) -> Result<bool, StorageError> {
    let end = walk(disk, walk_options(key), Frontier::new(), &mut |placed| {
        for entry in placed.entries() {
            visit(entry.leaf, entry.payload)?;
        }
        Ok(())
    })?;
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
    payloads: Encoder,
    leaves: Encoder,
}

/// How many differences are kept in full.
const DIFFERING_KEPT: usize = 1000;

impl Auditor {
    fn entry(&mut self, leaf_bytes: &[u8], payload: Option<&[u8]>) -> Result<(), FoldError> {
        let (entry, commitment) = self.fold.read(leaf_bytes, payload)?;
        self.report.entries += 1;
        if let Event::Erasure { entries, .. } = &entry.event {
            for erased in entries {
                self.erased_by.entry(*erased).or_insert(entry.index);
            }
        }
        match (&entry.event, payload) {
            (Event::Erased(leaf), _) => self.erased(leaf),
            (_, payload) => {
                let mut again = again(&entry, &self.fold.state, &self.origin);
                again.iter_mut().for_each(|again| self.taint.number(again));
                self.compare((&entry, commitment), leaf_bytes, payload.unwrap_or_default(), again);
            }
        }
        self.lost.ended(&entry.event);
        self.taint.applied(&entry.event);
        self.fold.apply(&entry, leaf_bytes)
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

    fn compare(
        &mut self,
        (recorded, commitment): (&Entry, Digest),
        leaf_bytes: &[u8],
        payload: &[u8],
        again: Result<Entry, String>,
    ) {
        let event = &recorded.event;
        let (mut is_over_budget, mut is_fenced) = (false, Lost::concerns(event));
        let mut tainted = self.taint.excuse(event, &Said { both: &|_| false, either: &|_| false });
        let what = match again {
            Ok(entry) => {
                let payload_again = self.payloads.payload(&entry).as_bytes();
                let leaf_again = self.leaves.leaf(&entry, &commitment.0).as_bytes();
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
                    (false, true) => difference("leaf", leaf_bytes, leaf_again),
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
            self.report.differing_count += 1;
            if self.report.differing.len() < DIFFERING_KEPT {
                self.report.differing.push(Differing { entry: recorded.index, what });
            }
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

/// The entry as it should have been, from its recorded inputs.
fn again(entry: &Entry, state: &State, origin: &str) -> Result<Entry, String> {
    check_authority(entry, state)?;
    let Entry { index, time_ms, by, auth, event } = entry;
    let held = state.with_custody(auth.clone());
    if held != *auth {
        return Err(format!(
            "it says `auth: {}`, and who held the key then makes it `{}`",
            auth.as_str(),
            held.as_str()
        ));
    }
    let mut again = match event {
        Event::Action(recorded) => {
            check_chain(&recorded.action, origin)?;
            let action = recorded.action.clone();
            let decision = decide(&action, state, *time_ms);
            Event::Action(Box::new(Decided { action, decision }))
        }
        Event::Approval(recorded) => Event::Approval(Box::new(approved_again(entry, recorded, state)?)),
        Event::Dispatch(recorded) => effects::dispatched_again(*time_ms, recorded.effect, state)?,
        Event::Feed { write, held: None } => {
            Event::Feed { write: state.feed(&write.fact, write.value.clone()), held: None }
        }
        Event::Feed { held: Some(held), .. } => effects::released_again(*held, state)?,
        Event::Settle(settle) => effects::settled_again(*time_ms, settle, state)?,
        Event::Claim { .. } | Event::Extension { .. } | Event::Withdrawal { .. } => {
            effects::claimed_again(entry, state)?
        }
        // What they say is an input, and whether they may say it was asked above.
        Event::Genesis { .. }
        | Event::Pact(_)
        | Event::Held { .. }
        | Event::Confirm { .. }
        | Event::Erasure { .. }
        | Event::Clock { .. }
        | Event::Refusal { .. }
        | Event::Expiry { .. }
        | Event::Halt { .. }
        | Event::Resume { .. }
        | Event::Denials(_)
        | Event::Rotation { .. }
        | Event::Erased(_) => event.clone(),
    };
    give_tags(again.writes_mut(), event.writes());
    Ok(Entry { index: *index, time_ms: *time_ms, by: by.clone(), auth: auth.clone(), event: again })
}

/// Whether an operator could do what the entry says, at its place. What the gate did itself needs nobody.
fn check_authority(entry: &Entry, state: &State) -> Result<(), String> {
    let Entry { time_ms, by, auth, event, .. } = entry;
    let role = match event {
        Event::Action(_) | Event::Genesis { .. } | Event::Clock { confirmed: false, .. } | Event::Erased(_) => {
            return Ok(());
        }
        Event::Dispatch(_) | Event::Feed { held: Some(_), .. } => return effects::by_the_gate(entry),
        Event::Denials(denied) => {
            check_denials(denied, *time_ms)?;
            return effects::by_the_gate(entry);
        }
        // A settlement is the gate's own, unless a person resolved a doubt.
        Event::Settle(_) if effects::by_the_gate(entry).is_ok() => return Ok(()),
        Event::Settle(settle) => {
            effects::check_resolved(settle, state)?;
            Role::Reviewer
        }
        // Agents are asked where the claim is derived again.
        Event::Claim { .. } | Event::Extension { .. } | Event::Withdrawal { .. } => return Ok(()),
        Event::Held { fact, .. } => {
            if !state.must_hold(fact) {
                return Err(format!("{fact} was not fenced, but its feed was held"));
            }
            role_to_feed(fact)
        }
        Event::Feed { write, held: None } => {
            if state.must_hold(&write.fact) {
                return Err(format!("{} was fenced, but was fed", write.fact));
            }
            check_condition(auth, &write.fact, state)?;
            state.keys().check(&write.fact, write.value.as_ref()).map_err(|refused| refused.to_string())?;
            role_to_feed(&write.fact)
        }
        Event::Confirm { fact, tag, version } => {
            if state.confirmable(fact, *version) != Some(*tag) {
                return Err(format!("{fact} was confirmed at version {version}, but was not at that version"));
            }
            role_to_feed(fact)
        }
        Event::Pact(_) => Role::Publisher,
        Event::Approval(_) => Role::Reviewer,
        Event::Expiry { review } => {
            state.reviews.check_expired(*review, *time_ms).map_err(|refused| refused.to_string())?;
            return effects::by_the_gate(entry);
        }
        Event::Refusal { review, .. } => {
            state.reviews.waiting(*review, *time_ms).map_err(|refused| refused.to_string())?;
            Role::Reviewer
        }
        Event::Halt { scope, reason } => {
            state.halts.check_halt(scope, reason).map_err(|refused| refused.to_string())?;
            Role::Admin
        }
        Event::Resume { scope, reason } => {
            state.halts.check_resume(scope, reason).map_err(|refused| refused.to_string())?;
            Role::Admin
        }
        Event::Erasure { .. } | Event::Clock { .. } | Event::Rotation { .. } => Role::Admin,
    };
    authorise(state, by, auth, role, *time_ms).map_err(|refused| refused.to_string())
}

/// Whether the version was current that the signed request asked for with `If-Match`.
fn check_condition(auth: &Auth, fact: &FactId, state: &State) -> Result<(), String> {
    let Some(tag) = auth.signed().and_then(|signed| signed.if_match.as_deref()) else { return Ok(()) };
    let current = state.facts.get(fact).map_or(0, |fact| fact.version());
    match version_in_tag(tag) {
        Some(version) if version == current => Ok(()),
        _ => Err(format!("it was to hold only for version {tag} of {fact}, which was at {current}")),
    }
}

/// An approval decided again: the parked action under what its reviewer was shown.
fn approved_again(entry: &Entry, recorded: &Approved, state: &State) -> Result<Approved, String> {
    let Approved { shown, until_ms, .. } = recorded.clone();
    let approval = Approval { by: &entry.by, shown: &shown, until_ms };
    let parked = state.reviews.waiting(shown.review, entry.time_ms).map_err(|refused| refused.to_string())?;
    let decision = match approve(&approval, parked, state, entry.time_ms) {
        Ok(decision) => decision,
        Err(void) => void.decision.ok_or_else(|| void.refusal.to_string())?,
    };
    Ok(Approved { action: Arc::clone(&parked.action), shown, until_ms, decision })
}

/// Tags of new facts are drawn at random when they are written: a recorded input.
fn give_tags(writes: &mut [Write], recorded: &[Write]) {
    for write in writes.iter_mut().filter(|write| write.tag.is_none()) {
        write.tag = recorded.iter().find(|recorded| recorded.fact == write.fact).and_then(|recorded| recorded.tag);
    }
}

/// Signatures are verified again, and the chain must be the token's: no other can have been recorded in its place.
fn check_chain(action: &Action, origin: &str) -> Result<(), String> {
    if !action.is_delegated && action.chain.is_none() {
        return Ok(());
    }
    let request = ActionRequest::parse(&action.body).map_err(|error| format!("the recorded body: {error}"))?;
    let chain = request.delegation.as_deref().map(|token| reduce_for(token, origin)).transpose();
    if chain.map_err(|error| error.to_string())?.as_ref() != action.chain.as_deref() {
        return Err("the recorded chain is not that of the delegation in the body".to_owned());
    }
    Ok(())
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
    let Ok(payload) = serde_json::from_slice::<serde_json::Value>(payload) else { return false };
    let code = |place: &&str| payload.pointer(place).and_then(|reason| reason.get("code")?.as_str());
    EXPLAINED.iter().filter_map(code).any(|said| codes.iter().any(|code| code.as_str() == said))
}
