//! Reading entries back, from this gate's own disk or from anywhere: what is read and written again has the same bytes.

use super::context::ContextError;
use super::payload::{
    DecisionParts, Facts, Finished, Payload, SignedBody, StoredDenied, StoredExternalFact, StoredGrouped, decode_reads,
    decode_seen, decode_writes, split,
};
use super::{
    Approved, Decided, Dispatch, Done, Entry, Event, FORMAT, Grouped, Judged, Kind, Leaf, LeafAuth, LeafVerdict, Settle,
};
use crate::action::{Action, ActionRequest, RequestError};
use crate::call::{EffectId, KeepsNoText};
use crate::delegation::StoredChain;
use crate::erase::Forgotten;
use crate::fence::ClaimId;
use crate::halt::ScopeError;
use crate::identity::Auth;
use crate::ids::{IdError, PactName};
use crate::observation::Observation;
use crate::pact::Pact;
use crate::pact::load::load;
use crate::review::{ReviewId, Shown};
use crate::session::with_content;
use crate::value::ValueError;
use std::sync::Arc;

/// Why bytes are not an entry of this format.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not the JSON of an entry.
    #[error("not the JSON of an entry: {0}")]
    Json(#[from] serde_json::Error),
    /// What came of a call holds a text that its code does not keep.
    #[error("{0}: no gate wrote it")]
    Found(#[from] KeepsNoText),
    /// A format that this version does not know.
    #[error(
        "the entry has format {0}, and this version reads format {FORMAT}; use the version of countersign that wrote the log"
    )]
    Format(u64),
    /// A leaf that is not the CBOR of one.
    #[error("not the CBOR of a leaf: {0}")]
    Cbor(#[from] minicbor::decode::Error),
    /// A leaf that says something in another way than leaves do.
    #[error("its leaf is not in the deterministic form (RFC 8949, 4.2.1): the gate did not write it so")]
    NotCanonical,
    /// A kind that this version does not know.
    #[error("kind {0} is not known to this version; use a newer countersign")]
    Kind(u8),
    /// A verdict that this version does not know.
    #[error("verdict {0} is not known to this version; use a newer countersign")]
    Verdict(u8),
    /// An authentication kind that this version does not know.
    #[error("authentication kind {0} is not known to this version; use a newer countersign")]
    Auth(u8),
    /// An identity that this version does not know.
    #[error("identity {0} is not known to this version; use a newer countersign")]
    Identity(u8),
    /// A leaf that does not say whose identity its entry is about, or says so of another.
    #[error("its leaf has a wrong `identity` member: no gate wrote it")]
    NotItsIdentity,
    /// A leaf that does not say which of its writes delete.
    #[error("its leaf has a wrong list of deletions: no gate wrote it")]
    NotItsDeletions,
    /// The list of what was erased has a second spelling.
    #[error("the entries that it erased are not in ascending order, or there are none: no gate wrote it")]
    Erased,
    /// A member that leaves of this kind do not have.
    #[error("the leaf of an entry of kind `{kind}` has no member {member} in this version")]
    Member {
        /// The member's number.
        member: u8,
        kind: Kind,
    },
    /// A byte string of another length than it must have.
    #[error("a byte string in its leaf has the wrong length; expected {0} bytes")]
    Length(usize),
    /// What it says of where it came from is not acceptable.
    #[error("the context: {0}")]
    Context(#[from] ContextError),
    /// It refers to a fact that it does not name.
    #[error("it refers to fact {0}, but lists fewer facts")]
    Place(usize),
    /// The bodies behind its object are longer or shorter than it says, or are not text.
    #[error("the bodies behind its payload are not as long as it says, or are not UTF-8")]
    Bodies,
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

/// The pacts by which parameters are bound while an entry is read, which saves parsing the body again when it is decided. A binding by
/// another pact than the one that decides counts for nothing, so any pact will do.
pub trait PactsAhead: Sync {
    /// The pact of a name.
    fn pact(&self, name: &PactName) -> Option<Arc<Pact>>;
}

/// For those who decide nothing.
#[derive(Debug)]
pub struct NoPacts;

impl PactsAhead for NoPacts {
    fn pact(&self, _: &PactName) -> Option<Arc<Pact>> {
        None
    }
}

impl Entry {
    /// Reads an entry back; `payload` is `None` where it was erased.
    ///
    /// # Errors
    /// If it is not one of this format.
    pub fn decode(leaf: Leaf, payload: Option<&[u8]>) -> Result<Self, DecodeError> {
        Self::decode_and_bind(leaf, payload, &NoPacts)
    }

    /// The same, and binds the parameters of an action.
    ///
    /// # Errors
    /// If it is not one of this format.
    pub fn decode_and_bind(
        mut leaf: Leaf,
        payload: Option<&[u8]>,
        pacts: &dyn PactsAhead,
    ) -> Result<Self, DecodeError> {
        let (index, time_ms, by, context) = (leaf.index, leaf.time, leaf.by.clone(), std::mem::take(&mut leaf.context));
        let Some(payload) = payload else {
            return Ok(Self { index, time_ms, by, auth: Auth::None, context, event: Event::Erased(Box::new(leaf)) });
        };
        let (mut payload, bodies): (Payload, _) = split(payload)?;
        let (signed, signer) = (payload.signed.take(), payload.signer.take());
        let grouped = payload.actions.iter().fold(0_usize, |sum, action| sum.saturating_add(action.body));
        let (bodies, of_group) = bodies.split_at_checked(bodies.len() - grouped.min(bodies.len())).unwrap_or_default();
        let (body, signed_body) = split_bodies(bodies, payload.body, signed.as_ref().and_then(|signed| signed.body))?;
        let is_of_batch = leaf.batch.is_some();
        let auth = match (leaf.auth, signed, signer) {
            (LeafAuth::None, None, None) => Auth::None,
            (LeafAuth::None, _, _) => return Err(DecodeError::Signed("signed")),
            (auth, None, Some(key)) if is_of_batch => Auth::Batch { key, by_gateway: auth == LeafAuth::Gateway },
            (auth, Some(signed), None) if !is_of_batch => {
                let signed = signed.decode(signed_body, leaf.actions.as_deref()).map_err(DecodeError::Signed)?;
                if leaf.request != Some(signed.digest()) {
                    return Err(DecodeError::Signed("request"));
                }
                Auth::Signature(Arc::new(signed)).with_custody(auth == LeafAuth::Gateway)
            }
            (_, None, None) => return Err(DecodeError::Missing(if is_of_batch { "signer" } else { "signed" })),
            _ => return Err(DecodeError::Signed("signer")),
        };
        let event = decode_event(&leaf, payload, (body, of_group), &auth, pacts)?;
        // What it is about is told by what it holds, and the leaf must say the same: an erasure leaves only that.
        if event.identity() != leaf.identity {
            return Err(DecodeError::NotItsIdentity);
        }
        Ok(Self { index, time_ms, by, auth, context, event })
    }

    /// Reads as much of an entry as the fold needs: of an action that is finished, what it changed. Everything else is read whole.
    ///
    /// # Errors
    /// If it is not one of this format, as far as it is read.
    pub fn decode_to_fold(mut leaf: Leaf, payload: Option<&[u8]>) -> Result<Self, DecodeError> {
        let (
            Kind::Action | Kind::Shadow,
            Some(verdict @ (LeafVerdict::Committed | LeafVerdict::Rejected)),
            Some(payload),
        ) = (leaf.kind, leaf.verdict, payload)
        else {
            return Self::decode(leaf, payload);
        };
        let (Finished { body, charges, facts, signed, signer, writes, .. }, bodies) = split(payload)?;
        let (is_signed, is_of_batch) = (leaf.auth.is_signed(), leaf.batch.is_some());
        if (signed.is_some(), signer.is_some()) != (is_signed && !is_of_batch, is_signed && is_of_batch) {
            return Err(DecodeError::Signed("signed"));
        }
        // Not read any further, but there: what a fold reads, an audit can read too.
        split_bodies(bodies, Some(body), signed.and_then(|SignedBody { body }| body))?;
        let missing = DecodeError::Missing;
        let done = Done {
            kind: leaf.kind,
            verdict,
            action: leaf.action.ok_or(missing("action"))?,
            key: leaf.key.ok_or(missing("key"))?,
            writes: decode_writes(&leaf, &facts, writes)?,
            charges: charges.into_iter().map(Into::into).collect(),
        };
        let (index, time_ms, context) = (leaf.index, leaf.time, std::mem::take(&mut leaf.context));
        Ok(Self { index, time_ms, by: leaf.by, auth: Auth::None, context, event: Event::Done(Box::new(done)) })
    }
}

/// The body of the action, and then that of the signed request: exactly as long as the object says, and nothing behind them.
fn split_bodies(
    bodies: &str,
    kept: Option<usize>,
    signed: Option<usize>,
) -> Result<(Option<&str>, Option<&str>), DecodeError> {
    let (first, rest) = bodies.split_at_checked(kept.unwrap_or(0)).ok_or(DecodeError::Bodies)?;
    if rest.len() != signed.unwrap_or(0) {
        return Err(DecodeError::Bodies);
    }
    Ok((kept.map(|_| first), signed.map(|_| rest)))
}

/// The actions of a rejected group: those whose ids and keys the leaf has.
fn decode_group(
    leaf: &Leaf,
    stored: Vec<StoredGrouped>,
    mut bodies: &str,
    facts: &Facts,
    auth: &Auth,
) -> Result<Vec<Action>, DecodeError> {
    let mut actions = Vec::with_capacity(stored.len());
    for StoredGrouped { body, chain, observed } in stored {
        let (body, rest) = bodies.split_at_checked(body).ok_or(DecodeError::Bodies)?;
        let observed = observed.into_iter().map(|it| it.decode(facts)).collect::<Result<_, _>>()?;
        let request = ActionRequest::parse(body)?;
        let mut action = Action::new(leaf.by.clone(), auth.of_batch(), body.into(), request, observed);
        action.chain = chain.map(StoredChain::decode).transpose()?.map(Arc::new);
        actions.push(action);
        bodies = rest;
    }
    let ids = leaf.actions.iter().flatten().copied().zip(leaf.keys.iter().flatten().copied());
    let is_listed = ids.eq(actions.iter().map(|action| (action.id, action.key)));
    match is_listed && bodies.is_empty() {
        true => Ok(actions),
        false => Err(DecodeError::Missing("actions")),
    }
}

fn decode_event(
    leaf: &Leaf,
    payload: Payload,
    (body, of_group): (Option<&str>, &str),
    auth: &Auth,
    pacts: &dyn PactsAhead,
) -> Result<Event, DecodeError> {
    let missing = DecodeError::Missing;
    let facts = payload.facts;
    let mut writes = decode_writes(leaf, &facts, payload.writes)?;
    let body = body.ok_or(missing("body"));
    let charges = payload.charges.into_iter().map(Into::into).collect();
    let reason = payload.reason.ok_or(missing("reason"));
    let decided = |writes, charges| {
        let reads = decode_reads(leaf, &facts, &payload.reads, &payload.absent)?;
        let parts = DecisionParts { in_flight: payload.effect.map(|effect| *effect), reads, writes, charges };
        payload.decision.unwrap_or_default().decode(leaf, parts)
    };
    Ok(match leaf.kind {
        Kind::Action | Kind::Shadow => {
            let body = body?;
            let mut request = ActionRequest::parse(body)?;
            let params = std::mem::take(&mut request.params);
            let observed = payload.observed.into_iter().map(|it| it.decode(&facts)).collect::<Result<_, _>>()?;
            let mut action = Action::new(leaf.by.clone(), auth.clone(), body.into(), request, observed);
            let pact = pacts.pact(&action.pact);
            if let Some((pact, kind)) = pact.as_ref().and_then(|pact| Some((pact, pact.actions.get(&action.action)?))) {
                action.bind_params(&params, pact.hash, kind);
            }
            action.chain = payload.chain.map(|chain| chain.decode()).transpose()?.map(Arc::new);
            action.batch = leaf.batch;
            Event::Action(Box::new(Decided { action: Box::new(action), decision: decided(writes, charges)? }))
        }
        Kind::Approval => {
            let body = body?;
            let request = ActionRequest::parse(body)?;
            let agent = payload.agent.ok_or(missing("agent"))?;
            // As much of the action as the entry holds. What was parked is in the entry of the review.
            let action = Arc::new(Action::new(agent, Auth::None, body.into(), request, Vec::new()));
            let shown = Shown {
                to: leaf.by.clone(),
                review: ReviewId(leaf.review.ok_or(missing("review"))?),
                action: leaf.action.ok_or(missing("action"))?,
                pact: leaf.pact.clone().ok_or(missing("pact"))?,
                at_ms: payload.shown_at.ok_or(missing("shown_at"))?,
                facts: payload.shown.into_iter().map(|it| it.decode(&facts)).collect::<Result<_, _>>()?,
                waives: payload.waives,
            };
            let until_ms = payload.until.ok_or(missing("until"))?;
            Event::Approval(Box::new(Approved { action, shown, until_ms, decision: decided(writes, charges)? }))
        }
        Kind::Dispatch => {
            let effect = EffectId(leaf.effect.ok_or(missing("effect"))?);
            let rereads = payload.rereads;
            Event::Dispatch(Box::new(Dispatch { effect, rereads, decision: decided(writes, charges)? }))
        }
        Kind::Settle => {
            let facts = payload.external.into_iter().map(StoredExternalFact::decode).collect();
            let send = payload.send.map(|send| send.decode()).transpose()?;
            // What was judged to be blocked sends nothing; a reason beside what was to be sent, or without any judgement, is a stop.
            let is_judged = payload.judged_at.is_some() && send.is_none();
            let (blocked, stopped) = if is_judged { (payload.blocked, None) } else { (None, payload.blocked) };
            let shadowed = payload.shadowed;
            Event::Settle(Box::new(Settle {
                effect: EffectId(leaf.effect.ok_or(missing("effect"))?),
                agent: payload.agent.ok_or(missing("agent"))?,
                outcome: leaf.verdict.and_then(LeafVerdict::outcome).ok_or(missing("verdict"))?,
                evidence: payload.evidence.ok_or(missing("evidence"))?.decode()?,
                judged: payload.judged_at.map(|at_ms| Judged { at_ms, facts, send, blocked, shadowed }),
                stopped,
                writes,
                charges,
                beside: payload.beside.into_iter().map(EffectId).collect(),
            }))
        }
        Kind::Session => Event::Session { writes },
        Kind::Reading => Event::Reading {
            writes: with_content(writes, body.ok()).ok_or(DecodeError::Bodies)?,
            effect: leaf.effect.map(EffectId),
        },
        Kind::Observation => Event::Observation(Box::new(Observation {
            began_ms: payload.began,
            counts: payload.counts.into_iter().map(|count| count.decode(&facts)).collect::<Result<_, _>>()?,
            facts: decode_seen(leaf, &facts, payload.attested)?,
        })),
        Kind::Genesis => Event::Genesis {
            origin: payload.origin.ok_or(missing("origin"))?,
            log_key: leaf.log_key.clone().ok_or(missing("log_key"))?,
            is_identified: leaf.identity.is_some(),
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
        Kind::Held => Event::Held { fact: payload.fact.ok_or(missing("fact"))?, value: payload.value },
        Kind::Confirm => {
            let (tag, version) = leaf.reads.iter().flatten().next().ok_or(missing("reads"))?;
            Event::Confirm { fact: payload.fact.ok_or(missing("fact"))?, tag: *tag, version: *version }
        }
        Kind::Claim => Event::Claim {
            facts: facts.0,
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
        Kind::Batch => {
            Event::Batch { actions: leaf.actions.clone().ok_or(missing("actions"))?, is_atomic: payload.atomic }
        }
        Kind::Group => {
            let actions = decode_group(leaf, payload.actions, of_group, &facts, auth)?;
            let failed = payload.failed.filter(|failed| *failed < actions.len()).ok_or(missing("failed"))?;
            Event::Group(Box::new(Grouped { actions, failed, decision: decided(writes, charges)? }))
        }
        Kind::Rotation => Event::Rotation { log_key: leaf.log_key.clone().ok_or(missing("log_key"))?, reason: reason? },
    })
}
