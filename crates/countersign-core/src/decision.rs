//! What `decide` answers: a verdict, its reasons, and what is to be done, all as data.

use crate::call::Call;
use crate::canonical::Canonical;
use crate::effect::Context;
use crate::fence::Fenced;
use crate::ids::{ActionName, AgentId, Digest, FactId, PactName, Tag};
use crate::labels::AttributeLabels;
use crate::reason::Reason;
use crate::value::Attributes;
use smol_str::SmolStr;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The answer to one action. It is not a `Result`: an error while deciding is a rejection, and part of the answer (I4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// The pact it was decided under; `None` where there is no such pact.
    pub pact: Option<PactRef>,
    /// The facts read, with the versions they had.
    pub reads: Vec<ReadVersion>,
    /// The facts to write with this entry; empty unless committed.
    pub writes: Vec<Write>,
    /// The budgets to charge; empty unless committed or dispatched.
    pub charges: Vec<Charge>,
    /// Time since the oldest observation that the action relied on; `None` without one.
    pub gap_ms: Option<u64>,
    /// In shadow mode, what enforcement would have answered.
    pub shadowed: Option<Box<Reason>>,
    /// Who waived which preconditions, in an approval.
    pub waived_by: Option<Box<WaivedBy>>,
}

/// Preconditions that did not hold, and were waived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaivedBy {
    pub reviewer: AgentId,
    /// The entry that parked the action.
    pub review: u64,
    pub preconditions: Vec<SmolStr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything held; the effects are done with this entry.
    Committed,
    /// Something did not hold; nothing was done.
    Rejected(Reason),
    /// Only preconditions that a person may waive did not hold; nothing was done yet.
    Review {
        /// Why.
        blocked: Reason,
        /// Until when a person may decide, in ledger milliseconds.
        expires_at_ms: u64,
    },
    /// Everything held, and an external call follows from it; the writes come with its settlement.
    InFlight(Box<InFlight>),
}

/// A call that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it is always boxed, in a verdict")]
pub enum InFlight {
    /// The intent only: at this time it is decided again.
    Cooling {
        /// When, in ledger milliseconds.
        dispatch_at_ms: u64,
    },
    /// It may leave as soon as the entry is durable.
    Dispatched(Dispatched),
}

/// A call as it is dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatched {
    pub call: Call,
    /// The facts that it relies on until it is settled.
    pub fenced: Vec<Fenced>,
    /// What its settlement writes.
    pub writes: Vec<Write>,
    /// What it was decided on, where external facts are still to be read.
    pub rests_on: RestsOn,
}

/// The pact and the facts that a dispatch was decided on, as the first state that applied it found them: a state that does not keep all
/// facts takes them over. They follow from the log and say nothing of their own, so all are equal.
#[derive(Clone, Default)]
pub struct RestsOn(OnceLock<Option<Arc<Context>>>);

impl RestsOn {
    /// What was found first, or is found now.
    pub fn get(&self, find: impl FnOnce() -> Option<Context>) -> Option<Arc<Context>> {
        self.0.get_or_init(|| find().map(Arc::new)).clone()
    }
}

impl PartialEq for RestsOn {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RestsOn {}

impl fmt::Debug for RestsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// A pact as a decision names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PactRef {
    pub name: PactName,
    pub version: u64,
    /// Its content hash.
    pub hash: Digest,
}

/// The version of a fact that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadVersion {
    pub fact: FactId,
    /// Its version; 0 where there is none.
    pub version: u64,
    /// Its tag, where it has one.
    pub tag: Option<Tag>,
}

/// One fact to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub fact: FactId,
    /// Its tag; a new fact has none until the engine gives it one.
    pub tag: Option<Tag>,
    /// The new version.
    pub version: u64,
    /// The new value; `None` deletes.
    pub value: Option<Attributes>,
    /// The entry that made the version before.
    pub previous_entry: Option<u64>,
    /// The labels of its attributes, as far as actions wrote them.
    pub labels: Option<Arc<AttributeLabels>>,
}

/// One charge to a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    pub budget: BudgetKey,
    pub window: u64,
    /// How much.
    pub amount: i64,
}

/// Which budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BudgetKey {
    /// The pact that has it.
    pub pact: PactName,
    /// The action type that alone charges it; none where it is a named one.
    pub action: Option<ActionName>,
    /// Its id within the action type, or its name within the pact.
    pub id: SmolStr,
    /// The agent, where each has its own.
    pub agent: Option<AgentId>,
}

impl Verdict {
    /// As it stands in records and answers.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Rejected(_) => "rejected",
            Self::Review { .. } => "review",
            Self::InFlight(_) => "in_flight",
        }
    }
}

impl Decision {
    /// The call that it dispatches.
    pub fn dispatched(&self) -> Option<&Dispatched> {
        match &self.verdict {
            Verdict::InFlight(in_flight) => match &**in_flight {
                InFlight::Dispatched(dispatched) => Some(dispatched),
                InFlight::Cooling { .. } => None,
            },
            _ => None,
        }
    }

    /// Why it was blocked, if it was.
    pub fn blocked(&self) -> Option<&Reason> {
        match &self.verdict {
            Verdict::Committed | Verdict::InFlight(_) => None,
            Verdict::Rejected(blocked) | Verdict::Review { blocked, .. } => Some(blocked),
        }
    }

    /// Why it was blocked, or would have been in shadow mode.
    pub fn reason(&self) -> Option<&Reason> {
        self.blocked().or(self.shadowed.as_deref())
    }

    /// Whether there is anything to say beside the verdict, and beside what has a place of its own in a record.
    pub(crate) fn has_more_than_verdict(&self) -> bool {
        self.blocked().is_some() || self.gap_ms.is_some() || self.shadowed.is_some() || self.waived_by.is_some()
    }

    /// Writes verdict and reasons as they stand in a record.
    pub(crate) fn write_verdict(&self, out: &mut Canonical, with_verdict: bool) {
        out.open('{');
        if let Some(blocked) = self.blocked() {
            out.key("blocked");
            blocked.write(out);
        }
        if let Verdict::Review { expires_at_ms, .. } = &self.verdict {
            out.key("expires_at");
            out.u64(*expires_at_ms);
        }
        if let Some(gap_ms) = self.gap_ms {
            out.key("gap_ms");
            out.u64(gap_ms);
        }
        if let Some(shadowed) = &self.shadowed {
            out.key("shadowed");
            shadowed.write(out);
        }
        if with_verdict {
            out.key("verdict");
            out.string(self.verdict.as_str());
        }
        if let Some(waived) = &self.waived_by {
            out.key("waived_by");
            waived.write(out);
        }
        out.close('}');
    }
}

impl WaivedBy {
    fn write(&self, out: &mut Canonical) {
        out.open('{');
        out.key("preconditions");
        out.open('[');
        for precondition in &self.preconditions {
            out.element();
            out.string(precondition);
        }
        out.close(']');
        out.key("review");
        out.u64(self.review);
        out.key("reviewer");
        out.string(self.reviewer.as_str());
        out.close('}');
    }
}
