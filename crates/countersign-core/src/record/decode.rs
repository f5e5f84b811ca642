//! Reading entries back, from this gate's own disk or from anywhere: what is read and written again has the same bytes.

use super::call::StoredSend;
use super::payload::{DecisionParts, Payload, StoredDenied, StoredObserved, StoredOutsideFact, StoredWrite};
use super::{Approved, Decided, Dispatch, Entry, Event, FORMAT, Judged, Kind, Leaf, LeafVerdict, Settle};
use crate::action::{Action, ActionRequest, RequestError};
use crate::call::EffectId;
use crate::delegation::StoredChain;
use crate::erase::Forgotten;
use crate::fence::ClaimId;
use crate::halt::ScopeError;
use crate::identity::{Auth, GATEWAY};
use crate::ids::IdError;
use crate::pact::load::load;
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
    /// The body is not that of an action.
    #[error("the body of the action: {0}")]
    Body(#[from] RequestError),
    /// The pact does not load.
    #[error("it publishes a pact that this version does not accept: {0}")]
    Pact(String),
    /// A field that this kind needs is missing.
    #[error("field `{0}` is missing")]
    Missing(&'static str),
    /// The signed request is not one, or stands where the leaf says that nothing was signed.
    #[error("the signed request is not acceptable: `{0}`")]
    Signed(&'static str),
}

impl Entry {
    /// Reads an entry back; `payload` is `None` where it was erased.
    pub fn decode(leaf: Leaf, payload: Option<&[u8]>) -> Result<Self, DecodeError> {
        let (index, time_ms, by) = (leaf.index, leaf.time, leaf.by.clone());
        let Some(payload) = payload else {
            return Ok(Self { index, time_ms, by, auth: Auth::None, event: Event::Erased(Box::new(leaf)) });
        };
        let mut payload: Payload = serde_json::from_slice(payload)?;
        let auth = match (leaf.is_signed()?, payload.signed.take()) {
            (false, None) => Auth::None,
            (true, Some(signed)) => {
                let signed = Arc::new(signed.decode().map_err(DecodeError::Signed)?);
                Auth::Signature(signed).with_custody(leaf.auth == GATEWAY)
            }
            (true, None) => return Err(DecodeError::Missing("signed")),
            (false, Some(_)) => return Err(DecodeError::Signed("signed")),
        };
        let event = decode_event(&leaf, payload, &auth)?;
        Ok(Self { index, time_ms, by, auth, event })
    }
}

fn decode_event(leaf: &Leaf, payload: Payload, auth: &Auth) -> Result<Event, DecodeError> {
    let missing = DecodeError::Missing;
    let mut writes = payload.writes.into_iter().map(StoredWrite::decode).collect::<Result<Vec<_>, _>>()?;
    let charges = payload.charges.into_iter().map(Into::into).collect();
    let reason = payload.reason.ok_or(missing("reason"));
    let decided = |writes, charges| {
        let parts = DecisionParts { in_flight: payload.effect, reads: payload.reads, writes, charges };
        payload.decision.ok_or(missing("decision"))?.decode(leaf, parts)
    };
    Ok(match leaf.kind {
        Kind::Action | Kind::Shadow => {
            let body = payload.body.ok_or(missing("body"))?;
            let sent = Arc::clone(&body);
            let request = ActionRequest::parse(&sent)?;
            let observed = payload.observed.into_iter().map(StoredObserved::decode).collect::<Result<_, _>>()?;
            let mut action = Action::new(leaf.by.clone(), auth.clone(), body, request, observed);
            action.chain = payload.chain.map(StoredChain::decode).transpose()?.map(Arc::new);
            Event::Action(Box::new(Decided { action, decision: decided(writes, charges)? }))
        }
        Kind::Approval => {
            let body = payload.body.ok_or(missing("body"))?;
            let sent = Arc::clone(&body);
            let request = ActionRequest::parse(&sent)?;
            let agent = payload.agent.ok_or(missing("agent"))?;
            // As much of the action as the entry holds. What was parked is in the entry of the review.
            let action = Arc::new(Action::new(agent, Auth::None, body, request, Vec::new()));
            let shown = Shown {
                to: leaf.by.clone(),
                review: ReviewId(leaf.review.ok_or(missing("review"))?),
                action: leaf.action.ok_or(missing("action"))?,
                pact: leaf.pact_ref().ok_or(missing("pact"))?,
                at_ms: payload.shown_at.ok_or(missing("shown_at"))?,
                facts: payload.shown.into_iter().map(StoredObserved::decode).collect::<Result<_, _>>()?,
                waives: payload.waives,
            };
            let until_ms = payload.until.ok_or(missing("until"))?;
            Event::Approval(Box::new(Approved { action, shown, until_ms, decision: decided(writes, charges)? }))
        }
        Kind::Dispatch => {
            let effect = EffectId(leaf.effect.ok_or(missing("effect"))?);
            Event::Dispatch(Box::new(Dispatch { effect, decision: decided(writes, charges)? }))
        }
        Kind::Settle => {
            let facts = payload.outside.into_iter().map(StoredOutsideFact::decode).collect::<Result<_, _>>()?;
            let send = payload.send.map(StoredSend::decode).transpose()?;
            // What was judged to be blocked sends nothing; a reason beside what was to be sent, or without any judgement, is a stop.
            let is_judged = payload.judged_at.is_some() && send.is_none();
            let (blocked, stopped) = if is_judged { (payload.blocked, None) } else { (None, payload.blocked) };
            let shadowed = payload.shadowed;
            Event::Settle(Box::new(Settle {
                effect: EffectId(leaf.effect.ok_or(missing("effect"))?),
                agent: payload.agent.ok_or(missing("agent"))?,
                outcome: leaf.verdict.and_then(LeafVerdict::outcome).ok_or(missing("verdict"))?,
                evidence: payload.evidence.ok_or(missing("evidence"))?.decode(),
                judged: payload.judged_at.map(|at_ms| Judged { at_ms, facts, send, blocked, shadowed }),
                stopped,
                writes,
                charges,
            }))
        }
        Kind::Genesis => Event::Genesis {
            origin: payload.origin.ok_or(missing("origin"))?,
            log_key: leaf.log_key.clone().ok_or(missing("log_key"))?,
        },
        Kind::Pact => {
            let source = payload.source.ok_or(missing("source"))?;
            let loaded = load(&source).map_err(|problems| {
                let problems: Vec<_> = problems.iter().map(|problem| problem.message.clone()).collect();
                DecodeError::Pact(problems.join("; "))
            })?;
            Event::Pact(Arc::new(loaded.pact))
        }
        Kind::Feed => Event::Feed { write: writes.pop().ok_or(missing("writes"))?, held: leaf.held },
        Kind::Held => Event::Held {
            fact: payload.fact.ok_or(missing("fact"))?,
            value: payload.value.as_ref().map(Attributes::from_untyped_json).transpose()?,
        },
        Kind::Confirm => {
            let (tag, version) = leaf.reads.iter().flatten().next().ok_or(missing("reads"))?;
            Event::Confirm { fact: payload.fact.ok_or(missing("fact"))?, tag: *tag, version: *version }
        }
        Kind::Claim => Event::Claim {
            facts: payload.facts,
            expires_at_ms: payload.expires_at.ok_or(missing("expires_at"))?,
            until_ms: payload.until.ok_or(missing("until"))?,
            priority: payload.priority.ok_or(missing("priority"))?,
            reason: reason?.into(),
        },
        Kind::Extension => Event::Extension {
            claim: ClaimId(leaf.claim.ok_or(missing("claim"))?),
            expires_at_ms: payload.expires_at.ok_or(missing("expires_at"))?,
        },
        Kind::Withdrawal => Event::Withdrawal { claim: ClaimId(leaf.claim.ok_or(missing("claim"))?) },
        Kind::Erasure => Event::Erasure {
            entries: leaf.erased.clone().ok_or(missing("erased"))?,
            forgotten: payload.forgotten.into_iter().map(|(tag, version)| Forgotten { tag, version }).collect(),
            reason: reason?,
        },
        Kind::Clock => Event::Clock {
            wall_ms: payload.wall.ok_or(missing("wall"))?,
            confirmed: payload.confirmed.ok_or(missing("confirmed"))?,
        },
        Kind::Denials => {
            Event::Denials(payload.denied.into_iter().map(StoredDenied::decode).collect::<Result<_, _>>()?)
        }
        Kind::Refusal => {
            Event::Refusal { review: ReviewId(leaf.review.ok_or(missing("review"))?), reason: reason?.into() }
        }
        Kind::Expiry => Event::Expiry { review: ReviewId(leaf.review.ok_or(missing("review"))?) },
        Kind::Halt => Event::Halt { scope: leaf.scope()?, reason: reason?.into() },
        Kind::Resume => Event::Resume { scope: leaf.scope()?, reason: reason?.into() },
        Kind::Rotation => Event::Rotation { log_key: leaf.log_key.clone().ok_or(missing("log_key"))?, reason: reason? },
    })
}
