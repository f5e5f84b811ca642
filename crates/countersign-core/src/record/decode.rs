//! Reading entries back, from this gate's own disk or from anywhere.
//!
//! What was decided is not read back: an audit decides again. Read back are the inputs (body, observations, tags, fed
//! values) and the changes (writes, charges) that the fold applies.

use super::call::{StoredInFlight, StoredSend};
use super::payload::{
    Payload, StoredCharge, StoredDenied, StoredObserved, StoredOutsideFact, StoredWrite, decode_reads,
};
use super::{Event, FORMAT, Judged, Leaf, Settle};
use crate::action::Observed;
use crate::call::{EffectId, Outcome};
use crate::decision::{Charge, InFlight, PactRef, ReadVersion, Write};
use crate::delegation::{Chain, StoredChain};
use crate::erase::Forgotten;
use crate::fence::ClaimId;
use crate::halt::ScopeError;
use crate::identity::{Auth, GATEWAY};
use crate::ids::{AgentId, IdError, PactName};
use crate::review::{ReviewId, Shown};
use crate::value::{Attributes, ValueError};
use std::sync::Arc;

/// Why bytes are not an entry of this format.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not the JSON of an entry.
    #[error("not the JSON of an entry: {0}")]
    Json(#[from] serde_json::Error),
    /// A format that this version does not know.
    #[error(
        "the entry has format {0}, and this version reads format {FORMAT}; use the version of countersign that wrote the log"
    )]
    Format(u64),
    /// A kind that this version does not know.
    #[error("entry kind `{0}` is not known to this version; use a newer countersign")]
    Kind(String),
    /// An authentication kind that this version does not know.
    #[error("authentication kind `{0}` is not known to this version; use a newer countersign")]
    Auth(String),
    /// A name or digest is not acceptable.
    #[error("{0}")]
    Id(#[from] IdError),
    /// A value is not acceptable.
    #[error("{0}")]
    Value(#[from] ValueError),
    /// A delegation is not acceptable.
    #[error("the delegation: {0}")]
    Chain(String),
    /// A scope is not acceptable.
    #[error("{0}")]
    Scope(#[from] ScopeError),
    /// A code of a denial that this version does not know.
    #[error("denials for `{0}` are not known to this version; use a newer countersign")]
    Denial(String),
    /// A field that this kind needs is missing.
    #[error("field `{0}` is missing")]
    Missing(&'static str),
    /// The signed request is not one, or stands where the leaf says that nothing was signed.
    #[error("the signed request is not acceptable: `{0}`")]
    Signed(&'static str),
}

/// The inputs and changes of an entry, read back.
#[derive(Debug, Clone)]
pub enum Stored {
    /// Everything but an action.
    Event(Event),
    /// An action.
    Action(StoredAction),
    /// An approval of a parked action.
    Approval(StoredApproval),
    /// The second decision on an effect.
    Dispatch(StoredDispatch),
}

/// What an entry put under way, and what it was decided on.
#[derive(Debug, Clone)]
pub struct UnderWay {
    /// The intent, or the dispatch.
    pub in_flight: InFlight,
    /// The facts read, with the versions they had.
    pub reads: Vec<ReadVersion>,
}

/// A dispatch's inputs and changes, read back.
#[derive(Debug, Clone)]
pub struct StoredDispatch {
    /// The effect.
    pub effect: EffectId,
    /// What it put under way; `None` where the effect was cancelled.
    pub in_flight: Option<UnderWay>,
    /// The budgets it charged.
    pub charges: Vec<Charge>,
}

/// An approval's inputs and changes, read back.
#[derive(Debug, Clone)]
pub struct StoredApproval {
    /// What the reviewer was shown.
    pub shown: Shown,
    /// Until when the approval was good.
    pub until_ms: u64,
    /// What it put under way.
    pub in_flight: Option<UnderWay>,
    /// The budgets it charged.
    pub charges: Vec<Charge>,
    /// The facts it wrote.
    pub writes: Vec<Write>,
}

/// An action's inputs and changes, read back.
#[derive(Debug, Clone)]
pub struct StoredAction {
    /// The raw body.
    pub body: Arc<str>,
    /// The delegation it was under.
    pub chain: Option<Arc<Chain>>,
    /// The observations it carried.
    pub observed: Vec<Observed>,
    /// What it put under way.
    pub in_flight: Option<UnderWay>,
    /// The budgets it charged.
    pub charges: Vec<Charge>,
    /// The facts it wrote.
    pub writes: Vec<Write>,
}

impl Stored {
    /// The facts it wrote.
    pub fn writes(&self) -> &[Write] {
        match self {
            Self::Event(event) => event.writes(),
            Self::Action(action) => &action.writes,
            Self::Approval(approval) => &approval.writes,
            Self::Dispatch(_) => &[],
        }
    }

    /// The budgets it charged.
    pub fn charges(&self) -> &[Charge] {
        match self {
            Self::Event(event) => event.charges(),
            Self::Action(action) => &action.charges,
            Self::Approval(approval) => &approval.charges,
            Self::Dispatch(dispatch) => &dispatch.charges,
        }
    }

    /// What it put under way.
    pub fn in_flight(&self) -> Option<&UnderWay> {
        match self {
            Self::Event(_) => None,
            Self::Action(action) => action.in_flight.as_ref(),
            Self::Approval(approval) => approval.in_flight.as_ref(),
            Self::Dispatch(dispatch) => dispatch.in_flight.as_ref(),
        }
    }
}

/// Reads the payload of an entry whose leaf is known.
pub fn decode(leaf: &Leaf, payload: &[u8]) -> Result<Stored, DecodeError> {
    decode_with_auth(leaf, payload).map(|(stored, _)| stored)
}

/// Reads the payload of an entry whose leaf is known, with how its sender was authenticated.
pub fn decode_with_auth(leaf: &Leaf, payload: &[u8]) -> Result<(Stored, Auth), DecodeError> {
    let mut payload: Payload<'_> = serde_json::from_slice(payload)?;
    let auth = match (leaf.is_signed()?, payload.signed.take()) {
        (false, None) => Auth::None,
        (true, Some(signed)) => {
            let signed = Arc::new(signed.decode().map_err(DecodeError::Signed)?);
            Auth::Signature(signed).held(leaf.auth == GATEWAY)
        }
        (true, None) => return Err(DecodeError::Missing("signed")),
        (false, Some(_)) => return Err(DecodeError::Signed("signed")),
    };
    Ok((decode_event(leaf, payload)?, auth))
}

fn decode_event(leaf: &Leaf, payload: Payload<'_>) -> Result<Stored, DecodeError> {
    let missing = DecodeError::Missing;
    let mut writes = payload.writes.into_iter().map(StoredWrite::decode).collect::<Result<Vec<_>, _>>()?;
    let charges = payload.charges.into_iter().map(StoredCharge::decode).collect::<Result<Vec<_>, _>>()?;
    let in_flight = payload.effect.map(StoredInFlight::decode).transpose()?;
    let in_flight = match in_flight {
        Some(in_flight) => Some(UnderWay { in_flight, reads: decode_reads(payload.reads)? }),
        None => None,
    };
    let event = match leaf.kind.as_str() {
        "genesis" => Event::Genesis {
            origin: payload.origin.ok_or(missing("origin"))?,
            log_key: leaf.log_key.clone().ok_or(missing("log_key"))?,
        },
        "pact" => {
            let pact = leaf.pact.as_ref().ok_or(missing("pact"))?;
            Event::Pact {
                name: PactName::new(pact.name.as_str())?,
                version: pact.version,
                hash: pact.hash.parse()?,
                source: payload.source.ok_or(missing("source"))?.into(),
            }
        }
        "feed" => Event::Feed { write: writes.pop().ok_or(missing("writes"))?, held: leaf.held },
        "held" => Event::Held {
            fact: payload.fact.ok_or(missing("fact"))?.parse()?,
            value: payload.value.as_ref().map(Attributes::from_untyped_json).transpose()?,
        },
        "confirm" => {
            let (tag, version) = leaf.reads.iter().flatten().next().ok_or(missing("reads"))?;
            let fact = payload.fact.ok_or(missing("fact"))?.parse()?;
            Event::Confirm { fact, tag: tag.parse()?, version: *version }
        }
        "claim" => Event::Claim {
            facts: payload.facts.iter().map(|fact| fact.parse()).collect::<Result<_, _>>()?,
            expires_at_ms: payload.expires_at.ok_or(missing("expires_at"))?,
            until_ms: payload.until.ok_or(missing("until"))?,
            priority: payload.priority.ok_or(missing("priority"))?,
            reason: payload.reason.ok_or(missing("reason"))?.into(),
        },
        "extension" => Event::Extension {
            claim: ClaimId(leaf.claim.ok_or(missing("claim"))?),
            expires_at_ms: payload.expires_at.ok_or(missing("expires_at"))?,
        },
        "withdrawal" => Event::Withdrawal { claim: ClaimId(leaf.claim.ok_or(missing("claim"))?) },
        "dispatch" => {
            let effect = EffectId(leaf.effect.ok_or(missing("effect"))?);
            return Ok(Stored::Dispatch(StoredDispatch { effect, in_flight, charges }));
        }
        "settle" => {
            let facts = payload.outside.into_iter().map(StoredOutsideFact::decode).collect::<Result<_, _>>()?;
            let send = payload.send.map(StoredSend::decode).transpose()?;
            let outcome = leaf.verdict.as_deref().and_then(Outcome::parse);
            // What was judged to be blocked sends nothing; a reason beside what was to be sent, or without any judgement, is a stop.
            let is_judged = payload.judged_at.is_some() && send.is_none();
            let stopped = payload.blocked.filter(|_| !is_judged);
            Event::Settle(Box::new(Settle {
                effect: EffectId(leaf.effect.ok_or(missing("effect"))?),
                agent: AgentId::new(payload.agent.ok_or(missing("agent"))?)?,
                outcome: outcome.ok_or(missing("verdict"))?,
                evidence: payload.evidence.ok_or(missing("evidence"))?.decode(),
                judged: payload.judged_at.map(|at_ms| Judged { at_ms, facts, send, blocked: None, shadowed: None }),
                stopped,
                writes,
                charges,
            }))
        }
        "erasure" => Event::Erasure {
            entries: leaf.erased.clone().ok_or(missing("erased"))?,
            forgotten: (payload.forgotten.into_iter())
                .map(|(tag, version)| Ok(Forgotten { tag: tag.parse()?, version }))
                .collect::<Result<_, DecodeError>>()?,
            reason: payload.reason.ok_or(missing("reason"))?,
        },
        "clock" => Event::Clock {
            wall_ms: payload.wall.ok_or(missing("wall"))?,
            confirmed: payload.confirmed.ok_or(missing("confirmed"))?,
        },
        "denials" => Event::Denials(payload.denied.into_iter().map(StoredDenied::decode).collect::<Result<_, _>>()?),
        "refusal" => Event::Refusal {
            review: ReviewId(leaf.review.ok_or(missing("review"))?),
            reason: payload.reason.ok_or(missing("reason"))?.into(),
        },
        "expiry" => Event::Expiry { review: ReviewId(leaf.review.ok_or(missing("review"))?) },
        "approval" => {
            let pact = leaf.pact.as_ref().ok_or(missing("pact"))?;
            let shown = Shown {
                to: leaf.by()?,
                review: ReviewId(leaf.review.ok_or(missing("review"))?),
                action: leaf.action.as_ref().ok_or(missing("action"))?.parse()?,
                pact: PactRef {
                    name: PactName::new(pact.name.as_str())?,
                    version: pact.version,
                    hash: pact.hash.parse()?,
                },
                at_ms: payload.shown_at.ok_or(missing("shown_at"))?,
                facts: payload.shown.into_iter().map(StoredObserved::decode).collect::<Result<_, _>>()?,
                waives: payload.waives,
            };
            return Ok(Stored::Approval(StoredApproval {
                shown,
                until_ms: payload.until.ok_or(missing("until"))?,
                in_flight,
                charges,
                writes,
            }));
        }
        "halt" => Event::Halt { scope: leaf.scope()?, reason: payload.reason.ok_or(missing("reason"))?.into() },
        "resume" => Event::Resume { scope: leaf.scope()?, reason: payload.reason.ok_or(missing("reason"))?.into() },
        "rotation" => Event::Rotation {
            log_key: leaf.log_key.clone().ok_or(missing("log_key"))?,
            reason: payload.reason.ok_or(missing("reason"))?,
        },
        "action" | "shadow" => {
            return Ok(Stored::Action(StoredAction {
                body: payload.body.ok_or(missing("body"))?.into(),
                chain: payload.chain.map(StoredChain::decode).transpose()?.map(Arc::new),
                observed: payload.observed.into_iter().map(StoredObserved::decode).collect::<Result<_, _>>()?,
                in_flight,
                charges,
                writes,
            }));
        }
        kind => return Err(DecodeError::Kind(kind.to_owned())),
    };
    Ok(Stored::Event(event))
}
