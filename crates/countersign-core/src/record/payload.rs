//! The members of payloads, as they are read back.

use super::call::{StoredEvidence, StoredInFlight, StoredSend};
use super::decode::DecodeError;
use super::{Leaf, LeafVerdict};
use crate::action::Observed;
use crate::decision::{BudgetKey, Charge, Decision, Made, ReadVersion, Verdict, WaivedBy, Write};
use crate::delegation::StoredChain;
use crate::denial::{DenialCode, Denied};
use crate::fact::Version;
use crate::identity::StoredSigned;
use crate::ids::{ActionName, AgentId, FactId, PactName, Tag};
use crate::reason::Reason;
use crate::value::Attributes;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::sync::Arc;

/// Every member that a payload of some kind has.
#[derive(Deserialize)]
pub(super) struct Payload {
    pub(super) agent: Option<AgentId>,
    pub(super) blocked: Option<Reason>,
    pub(super) body: Option<Arc<str>>,
    pub(super) chain: Option<StoredChain>,
    #[serde(default)]
    pub(super) charges: Vec<StoredCharge>,
    pub(super) confirmed: Option<bool>,
    #[serde(default)]
    pub(super) denied: Vec<StoredDenied>,
    pub(super) effect: Option<StoredInFlight>,
    pub(super) evidence: Option<StoredEvidence>,
    pub(super) expires_at: Option<u64>,
    pub(super) fact: Option<FactId>,
    #[serde(default)]
    pub(super) facts: Vec<FactId>,
    #[serde(default)]
    pub(super) forgotten: Vec<(Tag, u64)>,
    pub(super) judged_at: Option<u64>,
    #[serde(default)]
    pub(super) outside: Vec<StoredOutsideFact>,
    pub(super) priority: Option<i64>,
    pub(super) send: Option<StoredSend>,
    pub(super) value: Option<Map<String, Json>>,
    #[serde(default)]
    pub(super) observed: Vec<StoredObserved>,
    pub(super) origin: Option<String>,
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) shown: Vec<StoredObserved>,
    pub(super) shown_at: Option<u64>,
    pub(super) until: Option<u64>,
    #[serde(default)]
    pub(super) waives: Vec<SmolStr>,
    pub(super) signed: Option<StoredSigned>,
    pub(super) source: Option<String>,
    pub(super) wall: Option<u64>,
    #[serde(default)]
    pub(super) writes: Vec<StoredWrite>,
    #[serde(default)]
    pub(super) reads: Vec<(FactId, u64)>,
    pub(super) shadowed: Option<Reason>,
    pub(super) decision: Option<StoredDecision>,
}

/// `decision` in a payload. The verdict itself is in the leaf too, where an erasure leaves it.
#[derive(Deserialize)]
pub(super) struct StoredDecision {
    blocked: Option<Reason>,
    expires_at: Option<u64>,
    gap_ms: Option<u64>,
    shadowed: Option<Reason>,
    verdict: LeafVerdict,
    waived_by: Option<StoredWaived>,
}

#[derive(Deserialize)]
struct StoredWaived {
    preconditions: Vec<SmolStr>,
    review: u64,
    reviewer: AgentId,
}

/// What else a decision is read back from.
pub(super) struct DecisionParts {
    pub(super) in_flight: Option<StoredInFlight>,
    pub(super) reads: Vec<(FactId, u64)>,
    pub(super) writes: Vec<Write>,
    pub(super) charges: Vec<Charge>,
}

impl StoredDecision {
    pub(super) fn decode(self, leaf: &Leaf, parts: DecisionParts) -> Result<Decision, DecodeError> {
        let missing = DecodeError::Missing;
        let blocked = self.blocked.ok_or(missing("blocked"));
        let verdict = match self.verdict {
            LeafVerdict::Committed => Verdict::Committed,
            LeafVerdict::Rejected => Verdict::Rejected(blocked?),
            LeafVerdict::Review => {
                Verdict::Review { blocked: blocked?, expires_at_ms: self.expires_at.ok_or(missing("expires_at"))? }
            }
            LeafVerdict::InFlight => {
                let in_flight = parts.in_flight.ok_or(missing("effect"))?;
                Verdict::InFlight(Box::new(in_flight.decode()?))
            }
            LeafVerdict::Settled | LeafVerdict::Failed | LeafVerdict::InDoubt => return Err(missing("verdict")),
        };
        // The leaf names, in the same order, those that have a tag.
        let mut tags = leaf.reads.iter().flatten();
        let reads = parts.reads.into_iter().map(|(fact, version)| {
            let tag = if version == 0 { None } else { tags.next().map(|(tag, _)| *tag) };
            ReadVersion { fact, version, tag }
        });
        let waived_by = self.waived_by.map(|StoredWaived { preconditions, review, reviewer }| WaivedBy {
            reviewer,
            review,
            preconditions,
        });
        Ok(Decision {
            verdict,
            pact: leaf.pact_ref(),
            reads: reads.collect(),
            writes: parts.writes,
            charges: parts.charges,
            gap_ms: self.gap_ms,
            shadowed: self.shadowed,
            waived_by,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct StoredCharge {
    action: ActionName,
    agent: Option<AgentId>,
    amount: i64,
    budget: SmolStr,
    pact: PactName,
    window: u64,
}

#[derive(Deserialize)]
pub(super) struct StoredDenied {
    agent: Option<AgentId>,
    code: String,
    count: u64,
    first: u64,
    last: u64,
    sample: String,
}

#[derive(Deserialize)]
pub(super) struct StoredObserved {
    at: u64,
    digest: Option<String>,
    fact: FactId,
    value: Option<Map<String, Json>>,
    version: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct StoredOutsideFact {
    fact: FactId,
    value: Option<Map<String, Json>>,
}

#[derive(Deserialize)]
pub(super) struct StoredWrite {
    fact: FactId,
    previous: Option<u64>,
    tag: Option<Tag>,
    value: Option<Map<String, Json>>,
    version: u64,
}

impl StoredOutsideFact {
    pub(super) fn decode(self) -> Result<(FactId, Option<Attributes>), DecodeError> {
        Ok((self.fact, self.value.as_ref().map(Attributes::from_untyped_json).transpose()?))
    }
}

impl StoredWrite {
    pub(super) fn decode(self) -> Result<Write, DecodeError> {
        Ok(Write {
            fact: self.fact,
            tag: self.tag,
            version: self.version,
            value: self.value.as_ref().map(Attributes::from_untyped_json).transpose()?,
            previous_entry: self.previous,
            made: Made::default(),
        })
    }
}

impl From<StoredCharge> for Charge {
    fn from(stored: StoredCharge) -> Self {
        let StoredCharge { action, agent, amount, budget: id, pact, window } = stored;
        Self { budget: BudgetKey { pact, action, id, agent }, window, amount }
    }
}

impl StoredDenied {
    pub(super) fn decode(self) -> Result<Denied, DecodeError> {
        Ok(Denied {
            agent: self.agent,
            code: DenialCode::parse(&self.code).ok_or(DecodeError::Denial(self.code))?,
            count: self.count,
            first_ms: self.first,
            last_ms: self.last,
            sample: self.sample,
        })
    }
}

impl StoredObserved {
    pub(super) fn decode(self) -> Result<Observed, DecodeError> {
        Ok(Observed {
            fact: self.fact,
            version: Version::read(self.version, self.digest.as_deref()).ok_or(DecodeError::Missing("version"))?,
            at_ms: self.at,
            value: self.value.as_ref().map(Attributes::from_untyped_json).transpose()?,
        })
    }
}
