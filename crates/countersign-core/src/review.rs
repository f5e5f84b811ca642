//! Reviews: actions that wait for a person, and what became of them.
//!
//! An action whose only failed preconditions are of `on_fail = "review"` is parked with its entry, whose index names the review
//! (`rev_813`). It waits until a reviewer approves or refuses it, it expires, or its payload is erased. Folded from the ledger
//! like everything else.

use crate::action::{Action, Observed};
use crate::decision::PactRef;
use crate::ids::{ActionId, AgentId, FactId, numbered};
use crate::limits::{
    CLOSED_REVIEWS_MAX, REASON_BYTES_MAX, REVIEW_EXPIRES_MS, REVIEWS_BYTES_MAX, REVIEWS_BYTES_PER_AGENT_MAX,
    REVIEWS_MAX, REVIEWS_PER_AGENT_MAX,
};
use crate::reason::{Drift, Reason};
use crate::utc::Utc;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a review: `rev_` and the entry that parked the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReviewId(pub u64);

impl fmt::Display for ReviewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rev_{}", self.0)
    }
}

impl FromStr for ReviewId {
    type Err = ReviewRefusal;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        numbered("rev_", text).map(Self).ok_or_else(|| ReviewRefusal::NotFound(text.chars().take(80).collect()))
    }
}

/// An action that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Parked {
    /// The action, as it was sent.
    pub action: Arc<Action>,
    /// The readings that it rests on, with the versions that they had when it was sent: no later ones count.
    pub rests_on: Vec<(FactId, u64)>,
    /// When it was parked, in ledger milliseconds.
    pub at_ms: u64,
    /// Until when a person may decide.
    pub expires_at_ms: u64,
}

/// How a review ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Approved: the approval's entry executed the action.
    Approved,
    Refused,
    /// No one decided in time.
    Expired,
    /// The parked action was erased.
    Erased,
}

impl Ended {
    /// As it stands in snapshots and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Erased => "erased",
        }
    }

    /// Reads it back.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Approved, Self::Refused, Self::Expired, Self::Erased].into_iter().find(|ended| ended.as_str() == text)
    }
}

/// The reviews that wait, and those that ended lately.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reviews {
    open: BTreeMap<u64, Parked>,
    /// Parked actions whose payload is erased by the time that their entry is folded, and when they expire: no one can
    /// decide them, but how they ended is said as if they had been whole.
    gone: BTreeMap<u64, u64>,
    closed: BTreeMap<u64, (Ended, u64)>,
}

/// What a reviewer was shown; sealed into a token, and part of the approval's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// To whom.
    pub to: AgentId,
    pub review: ReviewId,
    /// The action's id.
    pub action: ActionId,
    /// The pact that was in force.
    pub pact: PactRef,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
    /// The facts that the action reads, as they were then.
    pub facts: Vec<Observed>,
    /// The failed preconditions that an approval waives, and no others.
    pub waives: Vec<SmolStr>,
}

/// Why a review cannot be decided in this way. Nothing was done, and the review waits on unless it has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReviewRefusal {
    /// There is no such review.
    #[error("there is no review `{0}`, or it ended long ago")]
    NotFound(String),
    /// The review has ended.
    #[error("{review} ended in entry {entry}: {}", .how.as_str())]
    Closed {
        review: ReviewId,
        /// How it ended.
        how: Ended,
        /// The entry that ended it.
        entry: u64,
    },
    /// No one decided in time.
    #[error("{0} expired at {at}; the agent must act again", at = Utc(*.1))]
    Expired(ReviewId, u64),
    /// What was shown is no longer so.
    #[error("the approval of {0} is void: {1}")]
    Void(ReviewId, Voided),
    /// The approval came too late after the reviewer was shown the action.
    #[error("the approval of {0} was good until {until}, and it is {now}", until = Utc(*.1), now = Utc(*.2))]
    ApprovalExpired(ReviewId, u64, u64),
    /// The reviewer is the one who acts, or on whose behalf.
    #[error("{by} acts in {review}, and cannot approve it as well")]
    SelfApproval {
        /// The reviewer.
        by: AgentId,
        review: ReviewId,
    },
    /// It has not expired.
    #[error("{0} still waits")]
    Waits(ReviewId),
    /// The reason is empty or too long.
    #[error("the reason must be 1 to {REASON_BYTES_MAX} bytes long; this one is {0}")]
    Reason(usize),
}

/// Why an approval is void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voided {
    /// It was shown to another reviewer.
    ShownTo(AgentId),
    /// Another action was shown.
    OtherAction,
    /// Something is no longer as it was shown.
    Drift(Box<Drift>),
    /// The action would be blocked.
    Blocked(Box<Reason>),
}

impl fmt::Display for Voided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShownTo(other) => write!(f, "it was shown to {other}, who did not send it"),
            Self::OtherAction => f.write_str("another action was shown"),
            Self::Drift(drift) => drift.fmt(f),
            Self::Blocked(reason) => write!(f, "{}: {}", reason.code(), reason.message()),
        }
    }
}

impl Reviews {
    /// Parks an action.
    pub fn park(&mut self, entry: u64, at_ms: u64, action: Arc<Action>, rests_on: Vec<(FactId, u64)>) {
        let expires_at_ms = at_ms.saturating_add(REVIEW_EXPIRES_MS);
        self.open.insert(entry, Parked { action, rests_on, at_ms, expires_at_ms });
    }

    /// Notes an action that was parked here and whose payload has been erased since.
    pub fn park_gone(&mut self, entry: u64, at_ms: u64) {
        self.gone.retain(|_, expires_at_ms| *expires_at_ms >= at_ms);
        self.gone.insert(entry, at_ms.saturating_add(REVIEW_EXPIRES_MS));
    }

    /// The one that waits longest, and when it expires. All wait equally long, so the first is the first to.
    pub fn first(&self) -> Option<(ReviewId, u64)> {
        self.open.first_key_value().map(|(entry, parked)| (ReviewId(*entry), parked.expires_at_ms))
    }

    /// Whether a review waits, and has waited too long.
    pub fn check_expired(&self, review: ReviewId, now_ms: u64) -> Result<(), ReviewRefusal> {
        match self.waiting(review, now_ms) {
            Err(ReviewRefusal::Expired(..)) => Ok(()),
            Err(refusal) => Err(refusal),
            Ok(_) => Err(ReviewRefusal::Waits(review)),
        }
    }

    /// Ends a review.
    pub fn close(&mut self, review: u64, how: Ended, entry: u64) {
        let was_open = self.open.remove(&review).is_some() | self.gone.remove(&review).is_some();
        if how == Ended::Erased && !was_open {
            return;
        }
        self.remember(review, how, entry);
    }

    /// Remembers how a review ended.
    pub fn remember(&mut self, review: u64, how: Ended, entry: u64) {
        self.closed.insert(review, (how, entry));
        while self.closed.len() > CLOSED_REVIEWS_MAX {
            self.closed.pop_first();
        }
    }

    /// Whether no more actions of an agent can be parked at this time.
    pub fn is_full_for(&self, agent: &AgentId, now_ms: u64) -> bool {
        let (mut all, mut of_agent) = ((0_usize, 0_usize), (0_usize, 0_usize));
        let add = |sum: &mut (usize, usize), parked: &Parked| {
            *sum = (sum.0.saturating_add(1), sum.1.saturating_add(parked.action.body.len()));
        };
        for parked in self.open.values().filter(|parked| parked.expires_at_ms >= now_ms) {
            add(&mut all, parked);
            if parked.action.agent == *agent {
                add(&mut of_agent, parked);
            }
        }
        all.0 >= REVIEWS_MAX
            || all.1 >= REVIEWS_BYTES_MAX
            || of_agent.0 >= REVIEWS_PER_AGENT_MAX
            || of_agent.1 >= REVIEWS_BYTES_PER_AGENT_MAX
    }

    /// The review, if it still waits.
    pub fn waiting(&self, review: ReviewId, now_ms: u64) -> Result<&Parked, ReviewRefusal> {
        match (self.open.get(&review.0), self.closed.get(&review.0)) {
            (Some(parked), _) if now_ms <= parked.expires_at_ms => Ok(parked),
            (Some(parked), _) => Err(ReviewRefusal::Expired(review, parked.expires_at_ms)),
            (None, Some((how, entry))) => Err(ReviewRefusal::Closed { review, how: *how, entry: *entry }),
            (None, None) => Err(ReviewRefusal::NotFound(review.to_string())),
        }
    }

    /// The parked action, whether it has expired or not.
    pub fn parked(&self, review: ReviewId) -> Option<Arc<Action>> {
        self.open.get(&review.0).map(|parked| Arc::clone(&parked.action))
    }

    /// The entry that executed, refused or expired a parked action.
    pub fn ended_in(&self, review: u64) -> Option<u64> {
        self.closed.get(&review).filter(|(how, _)| *how != Ended::Erased).map(|(_, entry)| *entry)
    }

    /// Those that wait, expired ones among them until their entry is made.
    pub fn open(&self) -> impl Iterator<Item = (ReviewId, &Parked)> {
        self.open.iter().map(|(entry, parked)| (ReviewId(*entry), parked))
    }

    /// Those that ended: review, how, and in which entry.
    pub fn closed(&self) -> impl Iterator<Item = (ReviewId, Ended, u64)> {
        self.closed.iter().map(|(review, (how, entry))| (ReviewId(*review), *how, *entry))
    }
}
