//! The members of payloads, as they are read back.

use super::call::{StoredEvidence, StoredInFlight, StoredSend};
use super::decode::DecodeError;
use crate::action::Observed;
use crate::decision::{BudgetKey, Charge, ReadVersion, Write};
use crate::delegation::StoredChain;
use crate::denial::{DenialCode, Denied};
use crate::fact::Version;
use crate::identity::StoredSigned;
use crate::ids::{ActionName, AgentId, FactId, PactName, Tag};
use crate::reason::Reason;
use crate::value::Attributes;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// Every member that a payload of some kind has.
#[derive(Deserialize)]
pub(super) struct Payload<'a> {
    pub(super) agent: Option<String>,
    pub(super) blocked: Option<Reason>,
    pub(super) body: Option<String>,
    pub(super) chain: Option<StoredChain>,
    #[serde(default)]
    pub(super) charges: Vec<StoredCharge>,
    pub(super) confirmed: Option<bool>,
    #[serde(default)]
    pub(super) denied: Vec<StoredDenied>,
    pub(super) effect: Option<StoredInFlight>,
    pub(super) evidence: Option<StoredEvidence>,
    pub(super) expires_at: Option<u64>,
    pub(super) fact: Option<String>,
    #[serde(default)]
    pub(super) facts: Vec<String>,
    #[serde(default)]
    pub(super) forgotten: Vec<(String, u64)>,
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
    pub(super) waives: Vec<smol_str::SmolStr>,
    pub(super) signed: Option<StoredSigned>,
    pub(super) source: Option<String>,
    pub(super) wall: Option<u64>,
    #[serde(default)]
    pub(super) writes: Vec<StoredWrite>,
    /// Read only where something is put under way.
    #[serde(borrow)]
    pub(super) reads: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow, rename = "decision")]
    _decision: Option<&'a serde_json::value::RawValue>,
}

#[derive(Deserialize)]
pub(super) struct StoredCharge {
    action: String,
    agent: Option<String>,
    amount: i64,
    budget: String,
    pact: String,
    window: u64,
}

#[derive(Deserialize)]
pub(super) struct StoredDenied {
    agent: Option<String>,
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
    fact: String,
    value: Option<Map<String, Json>>,
    version: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct StoredOutsideFact {
    fact: String,
    value: Option<Map<String, Json>>,
}

#[derive(Deserialize)]
pub(super) struct StoredWrite {
    fact: String,
    previous: Option<u64>,
    tag: Option<String>,
    value: Option<Map<String, Json>>,
    version: u64,
}

impl StoredOutsideFact {
    pub(super) fn decode(self) -> Result<(FactId, Option<Attributes>), DecodeError> {
        Ok((self.fact.parse()?, self.value.as_ref().map(Attributes::from_untyped_json).transpose()?))
    }
}

impl StoredWrite {
    pub(super) fn decode(self) -> Result<Write, DecodeError> {
        Ok(Write {
            fact: self.fact.parse()?,
            tag: self.tag.map(|tag| tag.parse::<Tag>()).transpose()?,
            version: self.version,
            value: self.value.as_ref().map(Attributes::from_untyped_json).transpose()?,
            previous_entry: self.previous,
        })
    }
}

impl StoredCharge {
    pub(super) fn decode(self) -> Result<Charge, DecodeError> {
        let budget = BudgetKey {
            pact: PactName::new(self.pact)?,
            action: ActionName::new(self.action)?,
            id: self.budget.into(),
            agent: self.agent.map(AgentId::new).transpose()?,
        };
        Ok(Charge { budget, window: self.window, amount: self.amount })
    }
}

impl StoredDenied {
    pub(super) fn decode(self) -> Result<Denied, DecodeError> {
        Ok(Denied {
            agent: self.agent.map(AgentId::new).transpose()?,
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
            fact: self.fact.parse::<FactId>()?,
            version: Version::read(self.version, self.digest.as_deref()).ok_or(DecodeError::Missing("version"))?,
            at_ms: self.at,
            value: self.value.as_ref().map(Attributes::from_untyped_json).transpose()?,
        })
    }
}

/// The facts read, with the versions they had.
pub(super) fn decode_reads(raw: Option<&serde_json::value::RawValue>) -> Result<Vec<ReadVersion>, DecodeError> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let reads: Vec<(String, u64)> = serde_json::from_str(raw.get())?;
    reads.into_iter().map(|(fact, version)| Ok(ReadVersion { fact: fact.parse()?, version, tag: None })).collect()
}
