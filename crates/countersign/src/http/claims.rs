//! Claims: announcing a change, extending it, withdrawing it.

use super::caller::Caller;
use super::error::HttpError;
use super::facts::bad_path;
use super::{App, actions, body, json, receipt};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use countersign_api::{ClaimEntered, ClaimInForce, ClaimList, ErrorCode};
use countersign_core::denial::DenialCode;
use countersign_core::disclose::ShownClaim;
use countersign_core::fence::ClaimId;
use countersign_core::identity::HolderKind;
use countersign_engine::request::{self, Entered};
use std::sync::Arc;

type ClaimPath = Result<Path<String>, PathRejection>;

/// `POST /v1/claims`
pub async fn claim(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let facts = actions::fact_ids(fields.required("facts")?)?;
    let (for_ms, reason) = (fields.positive("for_ms")?, fields.string("reason")?.into());
    fields.done()?;
    let Caller { name: by, auth, .. } = caller;
    let (agent, ty) = (by.clone(), facts.first().map(|fact| fact.ty().clone()));
    let entered =
        app.enter(request::Request::Claim { by, auth, facts, for_ms, reason }).await.inspect_err(|error| {
            if error.code == ErrorCode::ClaimNotAllowed {
                app.gate.deny(&agent, DenialCode::ClaimNotAllowed, ty.as_ref().map_or("", |ty| ty.as_str()));
            }
        })?;
    let id = ClaimId(entered.entry.index);
    answer(&app, id, &entered)
}

/// `POST /v1/claims/{claim}/extend`
pub async fn extend(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: ClaimPath,
    request: Request,
) -> Result<Response, HttpError> {
    let claim = named(path)?;
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let for_ms = fields.positive("for_ms")?;
    fields.done()?;
    let Caller { name: by, auth, .. } = caller;
    let entered = app.enter(request::Request::ExtendClaim { by, auth, claim, for_ms }).await?;
    answer(&app, claim, &entered)
}

/// `POST /v1/claims/{claim}/withdraw`
pub async fn withdraw(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: ClaimPath,
    request: Request,
) -> Result<Response, HttpError> {
    let claim = named(path)?;
    let text = body::text(request).await?;
    body::Fields::parse(&text)?.done()?;
    let Caller { name: by, auth, .. } = caller;
    let entered = app.enter(request::Request::WithdrawClaim { by, auth, claim }).await?;
    answer(&app, claim, &entered)
}

/// `GET /v1/claims`
pub async fn list(State(app): State<Arc<App>>, caller: Option<Extension<Caller>>) -> Result<Response, HttpError> {
    let now_ms = app.gate.now_ms();
    let view = app.gate.view();
    let agent = caller.map(|Extension(caller)| caller).filter(|caller| caller.kind == Some(HolderKind::Agent));
    let claims = view.claims(now_ms).filter_map(|(id, claim)| {
        let shown = match &agent {
            Some(agent) => view.claim_shown_to(&agent.name, claim)?,
            None => ShownClaim { facts: claim.facts.iter().collect(), reason: Some(&claim.reason) },
        };
        Some(ClaimInForce {
            claim: id.to_string(),
            by: claim.by.to_string(),
            facts: shown.facts.iter().map(ToString::to_string).collect(),
            at: claim.at_ms,
            expires_at: claim.expires_at_ms,
            until: claim.until_ms,
            priority: claim.priority,
            reason: shown.reason.map(ToOwned::to_owned),
        })
    });
    json(&ClaimList { claims: claims.collect() })
}

fn named(path: ClaimPath) -> Result<ClaimId, HttpError> {
    let Path(text) = path.map_err(|error| bad_path(&error))?;
    Ok(text.parse::<ClaimId>().map_err(request::Refusal::Claim)?)
}

fn answer(app: &App, id: ClaimId, entered: &Entered) -> Result<Response, HttpError> {
    let view = app.gate.view();
    let claim = view.claim(id, entered.entry.time_ms);
    json(&ClaimEntered {
        claim: id.to_string(),
        entry: entered.entry.index,
        facts: claim.map_or_else(Vec::new, |claim| claim.facts.iter().map(ToString::to_string).collect()),
        expires_at: claim.map(|claim| claim.expires_at_ms),
        until: claim.map(|claim| claim.until_ms),
        receipt: receipt(entered),
    })
}
