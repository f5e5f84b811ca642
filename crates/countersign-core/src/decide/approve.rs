//! Approving a parked action: the same stages as any decision, on the facts as they are now, with exactly those preconditions
//! waived that the reviewer was shown to have failed.
//!
//! It either commits or is void with a reason, and then nothing has happened but the entry that says so: an approval is bound to
//! what was shown, as a feed is bound to the version in its `If-Match`.

use super::{Deciding, Snapshot, Stage, blocked, decide_at};
use crate::action::Observed;
use crate::code::Code;
use crate::decision::{Blocked, Decision, Verdict, WaivedBy};
use crate::expression::{Base, Inputs};
use crate::fact::{Fact, Version};
use crate::identity::{Role, still_has};
use crate::ids::{AgentId, FactId};
use crate::limits::APPROVAL_EXPIRES_MS;
use crate::pact::{OnFail, Require};
use crate::review::{Parked, ReviewId, ReviewRefusal, Shown};
use crate::utc::Utc;
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
    snapshot: &impl Snapshot,
    now_ms: u64,
) -> Result<Decision, Box<Void>> {
    let Approval { by, shown, until_ms } = *approval;
    let (review, action) = (shown.review, &parked.action);
    let foreign = |why: String| Err(Box::new(Void { refusal: ReviewRefusal::Void(review, why), decision: None }));
    if shown.to != *by {
        return foreign(format!("it was shown to {}, and {by} approves", shown.to));
    }
    if shown.action != action.id {
        return foreign("another action was shown".to_owned());
    }
    let undecided = |refusal: ReviewRefusal, code: Code, hint: &str| {
        let blocked = blocked(code, refusal.to_string(), hint);
        Err(Box::new(Void { refusal, decision: Some(Decision::refused(Some(shown.pact.clone()), blocked)) }))
    };
    if action.members().any(|member| member == by) {
        let refusal = ReviewRefusal::SelfApproval { by: by.clone(), review };
        return undecided(refusal, Code::SelfApproval, "somebody who does not act in it must review it");
    }
    let until_ms = until_ms.min(shown.at_ms.saturating_add(APPROVAL_EXPIRES_MS));
    if now_ms > until_ms {
        let refusal = ReviewRefusal::ApprovalExpired(review, until_ms, now_ms);
        return undecided(refusal, Code::ApprovalExpired, SHOW_AGAIN);
    }
    if let Some(drift) = pact_drift(shown, snapshot) {
        return undecided(ReviewRefusal::Void(review, drift), Code::ApprovalOutdated, SHOW_AGAIN);
    }
    let (decision, drift) = decide_at(Stage::Intent, Some(approval), action, snapshot, now_ms);
    let (why, blocked) = match (drift, decision.blocked()) {
        (None, None) => return Ok(decision),
        (Some(drift), _) => (drift.told, blocked(Code::ApprovalOutdated, drift.recorded, SHOW_AGAIN)),
        (None, Some(blocked)) => (format!("{}: {}", blocked.code, blocked.message), blocked.clone()),
    };
    let decision = decision.rejected(blocked);
    Err(Box::new(Void { refusal: ReviewRefusal::Void(review, why), decision: Some(decision) }))
}

const SHOW_AGAIN: &str = "nothing was done; show the review again and decide on that";

/// In what way something is no longer as it was shown.
pub(super) struct Drift {
    /// What the reviewer is told, who was shown the values.
    pub(super) told: String,
    /// What the entry says. The agent reads it, so it has no value in it and no id that may be made of one.
    pub(super) recorded: String,
}

/// What is told of an approved call that must not leave any more.
pub(super) fn outdated(drift: &str) -> Blocked {
    let message = format!("what was approved is no longer so: {drift}");
    blocked(Code::ApprovalOutdated, message, "act again, and have it approved as it is now")
}

/// Why an approval no longer counts, whatever the facts are: its pact is another, or its reviewer no longer reviews.
pub(super) fn void_since(approval: &Approval<'_>, snapshot: &impl Snapshot) -> Option<String> {
    let revoked = || {
        let is_reviewer = still_has(snapshot, approval.by, Role::Reviewer);
        (!is_reviewer).then(|| format!("{} approved it, and is no longer an active reviewer", approval.by))
    };
    pact_drift(approval.shown, snapshot).or_else(revoked)
}

/// In what way the pact is not the one that was shown.
fn pact_drift(shown: &Shown, snapshot: &impl Snapshot) -> Option<String> {
    let current = snapshot.pact(&shown.pact.name).map(|pact| (pact.version, pact.hash));
    if current == Some((shown.pact.version, shown.pact.hash)) {
        return None;
    }
    let now = current.map_or_else(|| "not published".to_owned(), |(version, _)| format!("at version {version}"));
    Some(format!("pact `{}` was shown at version {}, and is now {now}", shown.pact.name, shown.pact.version))
}

/// What a reviewer is shown of a parked action at this time, and what would be decided without anybody's waiver. `None` where
/// its pact is not published. External facts are shown as they were read for this; one that was not read counts as absent, and
/// no approval of that lets a call leave that finds it there.
pub fn show(
    review: ReviewId,
    parked: &Parked,
    to: &AgentId,
    snapshot: &impl Snapshot,
    outside: &[(FactId, Option<Attributes>)],
    now_ms: u64,
) -> Option<(Shown, Decision)> {
    let action = &parked.action;
    let first = decide_at(Stage::Intent, None, action, snapshot, now_ms).0;
    let facts = first.reads.iter().map(|read| {
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
    let decision = decide_at(Stage::Intent, Some(&approval), action, snapshot, now_ms).0;
    if let Verdict::Review { blocked, .. } = &decision.verdict {
        shown.waives = blocked.failed.iter().map(|failed| failed.id.clone()).collect();
    }
    Some((shown, decision))
}

impl<S: Snapshot> Deciding<'_, S> {
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
    /// at the judgement, right before the call is made: until then nobody has read them again.
    pub(super) fn drift(&self, approval: &Approval<'_>) -> Option<Drift> {
        let agents = self.agents_read().find_map(|agent| self.drift_of(approval, None, &agent.id, agent.record));
        agents.or_else(|| {
            let is_read = |at: usize| self.stage == Stage::Judgement || !self.is_outside(at);
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
        let Some(shown) = approval.shown.facts.iter().find(|shown| shown.fact == *id) else {
            return Some(self.drifted(read, None, format!("{id} was not shown")));
        };
        if shown.version == record.map_or(Version::NONE, |fact| fact.current()) {
            return None;
        }
        let now = record.and_then(|fact| fact.value.as_ref());
        let text = |value: Option<&crate::value::Value>| value.map_or("absent".to_owned(), ToString::to_string);
        let who = |attribute: &str| {
            record.map_or_else(String::new, |fact| {
                let written = fact.changed(attribute);
                if written.is_outside() {
                    return format!(", as read in {} at {}", written.by, Utc(written.at_ms));
                }
                format!(", by {} at {} in entry {}", written.by, Utc(written.at_ms), written.entry)
            })
        };
        if shown.value.is_some() != now.is_some() {
            let (was, is) = if now.is_some() { ("absent", "there") } else { ("there", "gone") };
            let told = format!("{id} was {was} when it was shown, and is now {is}{}", who(""));
            return Some(self.drifted(read, None, told));
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
        names.filter(|name| is_used(name)).find_map(|name| {
            let (was, is) = (shown.value.as_ref().and_then(|value| value.get(name)), now.and_then(|now| now.get(name)));
            (was != is).then(|| {
                let (was, is, who) = (text(was), text(is), who(name));
                let told = format!("{id}.{name} was {was} when it was shown, and is now {is}{who}");
                self.drifted(read, Some(name), told)
            })
        })
    }

    /// A drift of a read, or of an agent; what is recorded names it as the pact does.
    fn drifted(&self, read: Option<usize>, attribute: Option<&SmolStr>, told: String) -> Drift {
        let name = match read {
            Some(at) => self.kind.reads.get(at).map_or("", |read| read.name.as_str()),
            None => "principal",
        };
        let attribute = attribute.map_or_else(String::new, |attribute| format!(".{attribute}"));
        Drift { told, recorded: format!("`{name}{attribute}` is not as it was shown") }
    }
}
