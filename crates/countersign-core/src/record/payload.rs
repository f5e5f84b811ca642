//! The members of payloads, as they are read back.

use super::call::{StoredEvidence, StoredInFlight, StoredSend};
use super::decode::DecodeError;
use super::leaf::deletes;
use super::{Leaf, LeafVerdict};
use crate::action::Observed;
use crate::decision::{BudgetKey, Charge, Decision, ReadVersion, Verdict, WaivedBy, Write};
use crate::delegation::StoredChain;
use crate::denial::{DenialCode, Denied};
use crate::fact::Version;
use crate::identity::{KeyName, StoredSigned};
use crate::ids::{ActionName, AgentId, FactId, FactType, PactName, Tag};
use crate::observation::Seen;
use crate::observing::{Count, ObservingKey, Sharer};
use crate::reason::Reason;
use crate::session::Reread;
use crate::value::Attributes;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smol_str::SmolStr;
use std::fmt;
use std::marker::PhantomData;

/// Takes the object off the front of a payload; what follows are the bodies.
pub(super) fn split<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<(T, &'a str), DecodeError> {
    // All of it is text, which is asked once and not for every string in it.
    let payload = std::str::from_utf8(payload).map_err(|_| DecodeError::Bodies)?;
    // What is read as an object must be one: the library below takes a list of its members as well.
    let mut objects = serde_json::Deserializer::from_str(payload).into_iter::<Object<T>>();
    let Object(object) = objects.next().ok_or(DecodeError::Missing("{"))??;
    Ok((object, payload.get(objects.byte_offset()..).unwrap_or_default()))
}

/// An object and nothing else.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OneObject(PhantomData))
    }
}

struct OneObject<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneObject<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(Object)
    }
}

/// Reads a list of objects, each of them one.
fn objects<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Object<T>>::deserialize(deserializer)?.into_iter().map(|Object(object)| object).collect())
}

/// Reads a member that is there: what is absent is left out, and there is no null.
fn there<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The same of an object.
fn object_there<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Object::deserialize(deserializer).map(|Object(object)| Some(object))
}

/// Of a signed request, how many bytes its body has behind the object.
#[derive(Deserialize)]
pub(super) struct SignedBody {
    #[serde(default, deserialize_with = "there")]
    pub(super) body: Option<usize>,
}

/// What a finished action changed, and nothing else of it: no reason, observation or body is made of what the fold does not read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Finished {
    #[serde(rename = "absent")]
    _absent: Option<IgnoredAny>,
    pub(super) body: usize,
    #[serde(rename = "chain")]
    _chain: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "objects")]
    pub(super) charges: Vec<StoredCharge>,
    #[serde(rename = "decision")]
    _decision: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) facts: Facts,
    #[serde(rename = "observed")]
    _observed: Option<IgnoredAny>,
    #[serde(rename = "reads")]
    _reads: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "object_there")]
    pub(super) signed: Option<SignedBody>,
    pub(super) signer: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "objects")]
    pub(super) writes: Vec<StoredWrite>,
}

/// The facts of a payload: types and ids by turns. The rest of it refers to them by place.
#[derive(Default)]
pub(super) struct Facts(pub(super) Vec<FactId>);

impl Facts {
    pub(super) fn at(&self, place: usize) -> Result<FactId, DecodeError> {
        self.0.get(place).cloned().ok_or(DecodeError::Place(place))
    }
}

struct ByTurns;

impl<'de> Visitor<'de> for ByTurns {
    type Value = Facts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("types and ids by turns")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pieces: A) -> Result<Facts, A::Error> {
        let mut facts = Vec::new();
        while let Some(ty) = pieces.next_element::<FactType>()? {
            let id: SmolStr = pieces.next_element()?.ok_or_else(|| A::Error::custom("a type without an id"))?;
            facts.push(FactId::new(ty, id).map_err(A::Error::custom)?);
        }
        Ok(Facts(facts))
    }
}

impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ByTurns)
    }
}

/// Every member that a payload of some kind has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Payload {
    #[serde(default)]
    pub(super) absent: Vec<usize>,
    #[serde(default)]
    pub(super) actions: Vec<StoredGrouped>,
    #[serde(default)]
    pub(super) atomic: bool,
    pub(super) agent: Option<AgentId>,
    #[serde(default)]
    pub(super) attested: Vec<StoredSeen>,
    pub(super) began: Option<u64>,
    pub(super) blocked: Option<Reason>,
    #[serde(default)]
    pub(super) beside: Vec<u64>,
    pub(super) body: Option<usize>,
    pub(super) chain: Option<Box<StoredChain>>,
    #[serde(default)]
    pub(super) charges: Vec<StoredCharge>,
    pub(super) confirmed: Option<bool>,
    #[serde(default)]
    pub(super) counts: Vec<StoredCount>,
    #[serde(default)]
    pub(super) denied: Vec<StoredDenied>,
    pub(super) effect: Option<Box<StoredInFlight>>,
    pub(super) evidence: Option<Box<StoredEvidence>>,
    pub(super) expires_at: Option<u64>,
    pub(super) fact: Option<FactId>,
    #[serde(default)]
    pub(super) facts: Facts,
    pub(super) failed: Option<usize>,
    #[serde(default)]
    pub(super) forgotten: Vec<(Tag, u64)>,
    pub(super) judged_at: Option<u64>,
    #[serde(default)]
    pub(super) external: Vec<StoredExternalFact>,
    pub(super) priority: Option<i64>,
    pub(super) send: Option<Box<StoredSend>>,
    pub(super) value: Option<Attributes>,
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
    pub(super) signed: Option<Box<StoredSigned>>,
    pub(super) signer: Option<KeyName>,
    pub(super) source: Option<String>,
    pub(super) wall: Option<u64>,
    #[serde(default)]
    pub(super) writes: Vec<StoredWrite>,
    #[serde(default)]
    pub(super) reads: Vec<usize>,
    #[serde(default)]
    pub(super) rereads: Vec<Reread>,
    pub(super) shadowed: Option<Reason>,
    pub(super) decision: Option<Box<StoredDecision>>,
}

/// An action of a rejected group.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredGrouped {
    /// How many bytes its body has; they are behind the payload's object, in the order of the actions.
    pub(super) body: usize,
    pub(super) chain: Option<StoredChain>,
    #[serde(default)]
    pub(super) observed: Vec<StoredObserved>,
}

/// `decision` in a payload: whatever there is to say beside the verdict, which is in the leaf.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredDecision {
    blocked: Option<Reason>,
    expires_at: Option<u64>,
    gap_ms: Option<u64>,
    shadowed: Option<Reason>,
    waived_by: Option<StoredWaived>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredWaived {
    preconditions: Vec<SmolStr>,
    review: u64,
    reviewer: AgentId,
}

/// What else a decision is read back from.
pub(super) struct DecisionParts {
    pub(super) in_flight: Option<StoredInFlight>,
    pub(super) reads: Vec<ReadVersion>,
    pub(super) writes: Vec<Write>,
    pub(super) charges: Vec<Charge>,
}

impl StoredDecision {
    pub(super) fn decode(self, leaf: &Leaf, parts: DecisionParts) -> Result<Decision, DecodeError> {
        let missing = DecodeError::Missing;
        let blocked = self.blocked.ok_or(missing("blocked"));
        let verdict = match leaf.verdict.ok_or(missing("verdict"))? {
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
        let waived_by = self.waived_by.map(|StoredWaived { preconditions, review, reviewer }| {
            Box::new(WaivedBy { reviewer, review, preconditions })
        });
        Ok(Decision {
            verdict,
            pact: leaf.pact.clone(),
            reads: parts.reads,
            writes: parts.writes,
            charges: parts.charges,
            gap_ms: self.gap_ms,
            shadowed: self.shadowed.map(Box::new),
            waived_by,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredCharge {
    #[serde(default, deserialize_with = "there")]
    action: Option<ActionName>,
    #[serde(default, deserialize_with = "there")]
    agent: Option<AgentId>,
    amount: i64,
    budget: SmolStr,
    pact: PactName,
    window: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredDenied {
    agent: Option<AgentId>,
    code: String,
    count: u64,
    first: u64,
    last: u64,
    sample: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredObserved {
    at: u64,
    digest: Option<String>,
    fact: usize,
    value: Option<Attributes>,
    version: Option<u64>,
}

/// What counts to a budget on observing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredCount {
    agent: Option<AgentId>,
    facts: Vec<usize>,
    org: Option<SmolStr>,
    pact: PactName,
    per: u64,
    #[serde(rename = "type")]
    ty: FactType,
    window: u64,
}

impl StoredCount {
    pub(super) fn decode(self, facts: &Facts) -> Result<Count, DecodeError> {
        let sharer = match (self.agent, self.org) {
            (Some(agent), None) => Sharer::Agent(agent),
            (None, Some(org)) => Sharer::Org(org),
            _ => return Err(DecodeError::Missing("agent")),
        };
        let key = ObservingKey { pact: self.pact, ty: self.ty, sharer, per_ms: self.per };
        let facts = self.facts.into_iter().map(|place| facts.at(place)).collect::<Result<_, _>>()?;
        Ok(Count { key, window: self.window, facts })
    }
}

/// What an agent was shown of a fact.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredSeen {
    digest: Option<String>,
    fact: usize,
    value: Option<Attributes>,
    version: Option<u64>,
    #[serde(default)]
    withheld: Vec<SmolStr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredExternalFact {
    fact: FactId,
    value: Option<Attributes>,
}

/// A write of an entry. Its tag and version are in the leaf.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredWrite {
    fact: usize,
    #[serde(default, deserialize_with = "there")]
    previous: Option<u64>,
    #[serde(default, deserialize_with = "there")]
    value: Option<Attributes>,
}

/// A write that is due when a call settles: of a new fact there is no tag yet, and no leaf has its version.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DueWrite {
    fact: FactId,
    previous: Option<u64>,
    tag: Option<Tag>,
    value: Option<Attributes>,
    version: u64,
}

impl DueWrite {
    pub(super) fn decode(self) -> Write {
        let Self { fact, previous: previous_entry, tag, value, version } = self;
        Write { fact, tag, version, value, previous_entry }
    }
}

/// The writes of an entry, each with what the leaf says of it.
pub(super) fn decode_writes(leaf: &Leaf, facts: &Facts, writes: Vec<StoredWrite>) -> Result<Vec<Write>, DecodeError> {
    let versions = leaf.writes.as_deref().unwrap_or_default();
    if versions.len() != writes.len() {
        return Err(DecodeError::Missing("writes"));
    }
    let decode =
        |(StoredWrite { fact, previous: previous_entry, value }, (tag, version)): (StoredWrite, &(Tag, u64))| {
            let (fact, tag, version) = (facts.at(fact)?, Some(*tag), *version);
            Ok(Write { fact, tag, version, value, previous_entry })
        };
    let writes = writes.into_iter().zip(versions).map(decode).collect::<Result<Vec<_>, DecodeError>>()?;
    // Whether something was deleted is told by what is left of it, and the leaf must say the same: an erasure leaves only that.
    if deletes(&writes) == leaf.deletes { Ok(writes) } else { Err(DecodeError::NotItsDeletions) }
}

/// What an entry read. The leaf has, in the same order, the tags and versions of what was there.
pub(super) fn decode_reads(
    leaf: &Leaf,
    facts: &Facts,
    reads: &[usize],
    absent: &[usize],
) -> Result<Vec<ReadVersion>, DecodeError> {
    let mut versions = leaf.reads.iter().flatten();
    let mut decoded = Vec::with_capacity(reads.len());
    for place in reads {
        let fact = facts.at(*place)?;
        decoded.push(if absent.contains(place) {
            ReadVersion { fact, version: 0, tag: None }
        } else {
            let (tag, version) = versions.next().ok_or(DecodeError::Missing("reads"))?;
            ReadVersion { fact, version: *version, tag: Some(*tag) }
        });
    }
    match versions.next() {
        None => Ok(decoded),
        Some(_) => Err(DecodeError::Missing("reads")),
    }
}

/// What an agent was shown. The leaf has, in the same order, the tags and versions of what is in the ledger.
pub(super) fn decode_seen(leaf: &Leaf, facts: &Facts, stored: Vec<StoredSeen>) -> Result<Vec<Seen>, DecodeError> {
    let mut versions = leaf.reads.iter().flatten();
    let mut decode = |StoredSeen { digest, fact, value, version, withheld }: StoredSeen| {
        let version = match (version, digest) {
            (None, None) => None,
            (number, digest) => Some(Version::read(number, digest.as_deref()).ok_or(DecodeError::Missing("version"))?),
        };
        let tag = match version.and_then(Version::number).filter(|number| *number > 0) {
            Some(number) => {
                let (tag, _) =
                    versions.next().filter(|(_, read)| *read == number).ok_or(DecodeError::Missing("reads"))?;
                Some(*tag)
            }
            None => None,
        };
        Ok(Seen { fact: facts.at(fact)?, tag, version, value, withheld })
    };
    let seen = stored.into_iter().map(&mut decode).collect::<Result<_, DecodeError>>()?;
    match versions.next() {
        None => Ok(seen),
        Some(_) => Err(DecodeError::Missing("reads")),
    }
}

impl StoredExternalFact {
    pub(super) fn decode(self) -> (FactId, Option<Attributes>) {
        (self.fact, self.value)
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
    pub(super) fn decode(self, facts: &Facts) -> Result<Observed, DecodeError> {
        Ok(Observed {
            fact: facts.at(self.fact)?,
            version: Version::read(self.version, self.digest.as_deref()).ok_or(DecodeError::Missing("version"))?,
            at_ms: self.at,
            value: self.value,
        })
    }
}
