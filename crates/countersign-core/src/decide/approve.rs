//! Approving a parked action: the same stages as any decision, on the facts as they are now, with exactly those preconditions
//! waived that the reviewer was shown to have failed.
//!
//! It either commits or is void with a reason, and then nothing has happened but the entry that says so: an approval is bound to
//! what was shown, as a feed is bound to the version in its `If-Match`.

use super::readings::rested_on;
use super::{Deciding, Snapshot, Stage, decide_at};
use crate::action::Observed;
use crate::decision::{Decision, Verdict, WaivedBy};
use crate::expression::{Base, Inputs};
use crate::fact::{Fact, Version};
use crate::identity::{Role, still_has};
use crate::ids::{AgentId, FactId};
use crate::limits::APPROVAL_EXPIRES_MS;
use crate::pact::{OnFail, Require};
use crate::reason::{Drift, Reason, Since};
use crate::review::{Parked, ReviewId, ReviewRefusal, Shown, Voided};
use crate::session::{Held, READING, SESSION};
use crate::value::Attributes;
use smol_str::SmolStr;
use std::sync::Arc;

/// A reviewer's approval of what was shown.
#[derive(Debug, Clone, Copy)]
pub struct Approval<'a> {
    /// The reviewer.
    pub by: &'a AgentId,
    /// What was shown.
    pub shown: &'a Shown,
    /// Until when it is good, in ledger milliseconds.
    pub until_ms: u64,
}

/// An approval that does nothing.
#[derive(Debug, Clone)]
pub struct Void {
    /// What the reviewer is told.
    pub refusal: ReviewRefusal,
    /// What its entry says. `None` where what was shown is of another reviewer or another action: a token that was opened for
    /// this reviewer and this review says neither.
    pub decision: Option<Decision>,
}

/// Decides a parked action again under an approval. Gives the decision if it commits.
pub fn approve(
    approval: &Approval<'_>,
    parked: &Parked,
    snapshot: &dyn Snapshot,
    now_ms: u64,
) -> Result<Decision, Box<Void>> {
    let Approval { by, shown, until_ms } = *approval;
    let (review, action) = (shown.review, &parked.action);
    let foreign = |why: Voided| Err(Box::new(Void { refusal: ReviewRefusal::Void(review, why), decision: None }));
    if shown.to != *by {
        return foreign(Voided::ShownTo(shown.to.clone()));
    }
    if shown.action != action.id {
        return foreign(Voided::OtherAction);
    }
    let undecided = |refusal: ReviewRefusal, reason: Reason| {
        let decision = Some(Decision::refused(Some(shown.pact.clone()), reason));
        Err(Box::new(Void { refusal, decision }))
    };
    if action.members().any(|member| member == by) {
        let reason = Reason::SelfApproval { by: by.clone(), review: review.0 };
        return undecided(ReviewRefusal::SelfApproval { by: by.clone(), review }, reason);
    }
    let until = until_ms.min(shown.at_ms.saturating_add(APPROVAL_EXPIRES_MS));
    if now_ms > until {
        let reason = Reason::ApprovalExpired { review: review.0, until, at: now_ms };
        return undecided(ReviewRefusal::ApprovalExpired(review, until, now_ms), reason);
    }
    let drifted = |drift: Drift| {
        let drift = Box::new(drift);
        (ReviewRefusal::Void(review, Voided::Drift(drift.clone())), Reason::ApprovalOutdated { drift })
    };
    if let Some(drift) = pact_drift(shown, snapshot) {
        let (refusal, reason) = drifted(drift);
        return undecided(refusal, reason);
    }
    let stage = Stage::Intent(Some(&parked.rests_on));
    let (decision, drift) = decide_at(stage, Some(approval), action, snapshot, now_ms);
    let (refusal, reason) = match (drift, decision.blocked()) {
        (None, None) => return Ok(decision),
        (Some(drift), _) => drifted(drift),
        (None, Some(reason)) => {
            (ReviewRefusal::Void(review, Voided::Blocked(Box::new(reason.clone()))), reason.clone())
        }
    };
    Err(Box::new(Void { refusal, decision: Some(decision.rejected(reason)) }))
}

/// Why an approval no longer counts, whatever the facts are: its pact is another, or its reviewer no longer reviews.
pub(super) fn void_since(approval: &Approval<'_>, snapshot: &dyn Snapshot) -> Option<Drift> {
    let is_reviewer = || still_has(snapshot, approval.by, Role::Reviewer);
    let revoked = || (!is_reviewer()).then(|| Drift::Reviewer { by: approval.by.clone() });
    pact_drift(approval.shown, snapshot).or_else(revoked)
}

/// In what way the pact is not the one that was shown.
fn pact_drift(shown: &Shown, snapshot: &dyn Snapshot) -> Option<Drift> {
    let current = snapshot.pact(&shown.pact.name).map(|pact| (pact.version, pact.hash));
    if current == Some((shown.pact.version, shown.pact.hash)) {
        return None;
    }
    let now = current.map(|(version, _)| version);
    Some(Drift::Pact { pact: shown.pact.name.clone(), shown: shown.pact.version, now })
}

/// What a reviewer is shown of a parked action at this time, and what would be decided without anyone's waiver. `None` where
/// its pact is not published. External facts are shown as they were read for this; one that was not read counts as absent, and
/// no approval of that lets a call leave that finds it there.
pub fn show(
    review: ReviewId,
    parked: &Parked,
    to: &AgentId,
    snapshot: &dyn Snapshot,
    outside: &[(FactId, Option<Attributes>)],
    now_ms: u64,
) -> Option<(Shown, Decision)> {
    let action = &parked.action;
    let stage = Stage::Intent(Some(&parked.rests_on));
    let first = decide_at(stage, None, action, snapshot, now_ms).0;
    // A session says nothing beside its readings.
    let reads = first.reads.iter().filter(|read| read.fact.ty().as_str() != SESSION);
    let facts = reads.map(|read| {
        if read.fact.ty().as_str() == READING {
            let value = snapshot.fact(&read.fact).and_then(|fact| named_reading(fact.value.as_ref()?));
            return Observed { fact: read.fact.clone(), version: Version::Number(read.version), at_ms: now_ms, value };
        }
        let (version, value) = match outside.iter().find(|(fact, _)| *fact == read.fact) {
            Some((_, Some(value))) => (Version::Content(value.content_digest()), Some(value.clone())),
            Some((_, None)) => (Version::NONE, None),
            None => {
                let value = snapshot.fact(&read.fact).and_then(|fact| fact.value.clone());
                (Version::Number(read.version), value)
            }
        };
        Observed { fact: read.fact.clone(), version, at_ms: now_ms, value }
    });
    let facts = facts.collect();
    let (to, at_ms, pact) = (to.clone(), now_ms, first.pact.clone()?);
    let mut shown = Shown { to, review, action: action.id, pact, at_ms, facts, waives: Vec::new() };
    // Staleness counts from here, so it is no reason to be waived.
    let approval = Approval { by: &shown.to, shown: &shown, until_ms: now_ms };
    let (decision, drift) = decide_at(stage, Some(&approval), action, snapshot, now_ms);
    if let Verdict::Review { blocked, .. } = &decision.verdict {
        shown.waives = blocked.failed().iter().map(|failed| failed.id.clone()).collect();
    }
    // Nothing moves between this and itself but what had moved before it was shown: no approval of that commits.
    let decision = match drift {
        Some(drift @ Drift::ReadAgain { .. }) => decision.rejected(Reason::ApprovalOutdated { drift: Box::new(drift) }),
        _ => decision,
    };
    Some((shown, decision))
}

/// What an approval is bound to of a reading: where it was read, and the digest of what it read. What it read may be long, and there may
/// be many, so that is shown beside it.
fn named_reading(value: &Attributes) -> Option<Attributes> {
    let member = |name: &'static str| Some((SmolStr::new_static(name), value.get(name)?.clone()));
    Some(Attributes::from_fields(["arguments", "digest", "tool", "upstream"].into_iter().filter_map(member).collect()))
}

impl Deciding<'_> {
    /// The first reading that the action rests on and that does not read as its agent had it, or as it was shown. At the dispatch all
    /// are read again.
    fn reading_drift(&self, approval: &Approval<'_>) -> Option<Drift> {
        let Stage::Intent(Some(noted)) = self.stage else { return None };
        let digest = |value: Option<&Attributes>| value.and_then(|value| value.get("digest")).cloned();
        noted.iter().find_map(|(fact, version)| {
            let record = self.snapshot.fact(fact);
            if let Some(drift) = record.and_then(|record| self.read_again(record, *version)) {
                return Some(drift);
            }
            let (read, fact) = (SmolStr::new_static("session"), fact.clone());
            let Some(shown) = approval.shown.facts.iter().find(|shown| shown.fact == fact) else {
                return Some(Drift::NotShown { read, fact });
            };
            let (was, is) = (digest(shown.value.as_ref()), digest(record.and_then(|fact| fact.value.as_ref())));
            let (changed, attribute) =
                (record.map(|fact| Since::from(fact.changed("digest"))), SmolStr::new_static("digest"));
            (was != is).then_some(Drift::Attribute { read, fact, attribute, was, is, changed })
        })
    }

    /// That a reading was made again since the action was asked for, and reads differently: its agent had not seen that.
    fn read_again(&self, record: &Arc<Fact>, version: u64) -> Option<Drift> {
        let held = Held::of(record)?;
        let is_same = rested_on(self.action, &held, version) == Some(held.digest);
        let changed = Some(Since::from(record.changed("digest")));
        let (upstream, tool) = (held.reading.place.upstream, held.reading.place.tool);
        (!is_same).then_some(Drift::ReadAgain { fact: held.fact, upstream, tool, changed })
    }

    /// Whether a reviewer waives this precondition.
    pub(super) fn is_waived(&self, require: &Require) -> bool {
        require.on_fail == OnFail::Review
            && self.approval.is_some_and(|approval| approval.shown.waives.contains(&require.id))
    }

    /// The preconditions that did not hold and were waived.
    pub(super) fn waived(&self, inputs: &Inputs<'_>) -> Option<WaivedBy> {
        let approval = self.approval?;
        let failed = |require: &&Require| self.is_waived(require) && self.check_require(require, inputs).is_some();
        let preconditions = self.kind.require.iter().filter(failed).map(|require| require.id.clone()).collect();
        Some(WaivedBy { reviewer: approval.by.clone(), review: approval.shown.review.0, preconditions })
    }

    /// When a fact was last looked at: by the agent, or by the reviewer after it.
    pub(super) fn looked_at_ms(&self, fact: &FactId) -> Option<u64> {
        let observed = self.action.observation_of(fact).map(|observed| observed.at_ms);
        let shown = self.approval.filter(|approval| approval.shown.facts.iter().any(|shown| shown.fact == *fact));
        observed.max(shown.map(|approval| approval.shown.at_ms))
    }

    /// The first attribute that a condition, a write or the call uses and that is not as it was shown. External facts are compared
    /// at the judgement, right before the call is made: until then no one has read them again.
    pub(super) fn drift(&self, approval: &Approval<'_>) -> Option<Drift> {
        let agents = self.agents_read().find_map(|agent| self.drift_of(approval, None, &agent.id, agent.record));
        agents.or_else(|| self.reading_drift(approval)).or_else(|| {
            let is_read = |at: usize| self.is_judgement() || !self.is_external(at);
            let mut reads = self.reads.iter().enumerate().filter(|(at, _)| is_read(*at));
            reads.find_map(|(at, read)| self.drift_of(approval, Some(at), &read.id, read.record))
        })
    }

    fn drift_of(
        &self,
        approval: &Approval<'_>,
        read: Option<usize>,
        id: &FactId,
        record: Option<&Arc<Fact>>,
    ) -> Option<Drift> {
        let name = || match read {
            Some(at) => self.kind.reads.get(at).map(|read| read.name.clone()).unwrap_or_default(),
            None => SmolStr::new_static("principal"),
        };
        let Some(shown) = approval.shown.facts.iter().find(|shown| shown.fact == *id) else {
            return Some(Drift::NotShown { read: name(), fact: id.clone() });
        };
        if shown.version == record.map_or(Version::NONE, |fact| fact.current()) {
            return None;
        }
        let now = record.and_then(|fact| fact.value.as_ref());
        let changed = |attribute: &str| record.map(|fact| Since::from(fact.changed(attribute)));
        if shown.value.is_some() != now.is_some() {
            let (fact, is_there, changed) = (id.clone(), now.is_some(), changed(""));
            return Some(Drift::Presence { read: name(), fact, is_there, changed });
        }
        let is_used = |attribute: &SmolStr| {
            let counts = read.is_none() && self.kind.min_trust.is_some() && attribute == "trust";
            counts
                || self.kind.attributes().any(|(base, name)| {
                    let same = match base {
                        Base::Principal | Base::Actor => read.is_none(),
                        Base::Read(at) => read == Some(at),
                    };
                    same && name == attribute
                })
        };
        let names = shown.value.iter().chain(now).flat_map(|value| value.iter().map(|(name, _)| name));
        names.filter(|name| is_used(name)).find_map(|attribute| {
            let was = shown.value.as_ref().and_then(|value| value.get(attribute));
            let is = now.and_then(|now| now.get(attribute));
            (was != is).then(|| Drift::Attribute {
                read: name(),
                fact: id.clone(),
                attribute: attribute.clone(),
                was: was.cloned(),
                is: is.cloned(),
                changed: changed(attribute),
            })
        })
    }
}
