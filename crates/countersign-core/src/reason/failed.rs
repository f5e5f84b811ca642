//! One failed precondition: what was expected, what is, who changed it, and when.

use super::is_false;
use crate::expression::EvalError;
use crate::fact::{Version, Written};
use crate::ids::{AgentId, FactId};
use crate::value::Value;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// One failed precondition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedPrecondition {
    #[serde(rename = "precondition")]
    pub id: SmolStr,
    /// The condition.
    pub that: Condition,
    /// In which way it failed.
    pub why: Why,
    /// The attributes it reads: expected and actual.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<FailedRead>,
    /// How many of them are left out, for want of room.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: usize,
    /// The facts to observe again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<FactId>,
    /// What it speaks of.
    #[serde(default, skip_serializing_if = "About::is_facts")]
    pub about: About,
    /// Whether one of those facts had been observed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub was_observed: bool,
    /// Whether everything it reads is as the agent observed it: then observing again changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_observed: bool,
    /// The latest change of one of those facts since it was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change: Option<LastChange>,
    /// Time since the oldest observation it relied on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<u64>,
    /// Where it is a matter of age, the most that is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
}

/// What had to hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A condition of the pact, as written there.
    Text(SmolStr),
    /// A fact is still as it was observed: at this version, if it has numbers and was observed. A digest would let an agent guess
    /// what is withheld of an external fact.
    Unchanged {
        fact: FactId,
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<u64>,
    },
    /// The source of a fact has confirmed it lately.
    Confirmed { fact: FactId, limit_ms: u64 },
}

/// What a condition speaks of, beside time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    #[default]
    Facts,
    /// The parameters alone.
    Params,
    /// The agent itself.
    Agent,
    /// Where what the agent was shown came from.
    Labels,
}

impl About {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_facts(&self) -> bool {
        *self == Self::Facts
    }
}

/// In which way a precondition failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The condition is false.
    False,
    /// The condition could not be evaluated.
    Error(EvalError),
    /// The observation is older than allowed.
    Stale,
    /// It needs an observation, and there is none.
    Unobserved,
    /// The source of a fact has not confirmed it for longer than allowed, or never.
    Unconfirmed,
    /// The fact is not at the version that was observed.
    Changed,
}

impl Why {
    /// As records and answers name it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::False => "false",
            Self::Error(_) => "error",
            Self::Stale => "stale",
            Self::Unobserved => "unobserved",
            Self::Unconfirmed => "unconfirmed",
            Self::Changed => "changed",
        }
    }
}

/// The latest change of a fact since it was observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastChange {
    pub fact: FactId,
    /// Who changed it, or, for an external fact, where it was read.
    pub by: AgentId,
    /// The entry; 0 for an external fact.
    pub entry: u64,
    /// How long before the action.
    pub ago_ms: u64,
    /// Whether it is gone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_deleted: bool,
    /// The version observed, and the current one; none for an external fact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<(u64, u64)>,
}

/// One attribute that a failed precondition reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRead {
    pub fact: FactId,
    /// The attribute; `None` for the fact as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribute: Option<SmolStr>,
    /// What the agent had seen.
    #[serde(default, skip_serializing_if = "Expected::is_not_observed")]
    pub expected: Expected,
    /// What it is now; `None` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<Value>,
    /// Whether this reader may not see the values.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withheld: bool,
    /// The version that the agent had seen; `None` where it had seen none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_version: Option<Version>,
    /// The version of the fact now; `None` where this reader may not know a digest of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Who last changed the attribute, when, in which entry, or where and when an external one was read; `None` where there is no fact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Written>,
    /// Where it is a matter of that, when its source last confirmed the fact, and who.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Written>,
    /// How long ago that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_ago_ms: Option<u64>,
}

/// What an agent had seen of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// The agent carried no observation of the fact.
    #[default]
    NotObserved,
    /// The attribute, or the fact, was absent.
    Absent,
    /// This value.
    Value(Value),
}

impl Expected {
    fn is_not_observed(&self) -> bool {
        *self == Self::NotObserved
    }
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

impl FailedRead {
    /// At most how many bytes it takes in a record, without its values.
    pub fn bytes_bound(&self) -> usize {
        let attribute = self.attribute.as_ref().map_or(0, |attribute| attribute.len());
        let named = [&self.changed, &self.confirmed].into_iter().flatten();
        // A control character takes six bytes, and a quote in an id four.
        named.fold(512 + self.fact.bytes_bound() + attribute, |sum, written| sum + 6 * written.by.as_str().len())
    }

    /// Whether it was observed and is something else now.
    pub fn differs(&self) -> bool {
        match (&self.expected, &self.actual) {
            (Expected::NotObserved, _) | (Expected::Absent, None) => false,
            (Expected::Value(expected), Some(actual)) => expected != actual,
            (Expected::Value(_), None) | (Expected::Absent, Some(_)) => true,
        }
    }

    /// Whether it was observed, failed, and may not be shown. Were it as observed, the precondition would say so.
    pub(super) fn is_withheld_change(&self) -> bool {
        self.withheld && self.expected != Expected::NotObserved
    }

    /// Who last changed it, when, in which entry.
    pub fn changed_here(&self) -> Option<&Written> {
        self.changed.as_ref().filter(|written| !written.is_external())
    }

    /// Where and when it was read, if it is external.
    pub fn read_external(&self) -> Option<&Written> {
        self.changed.as_ref().filter(|written| written.is_external())
    }
}
