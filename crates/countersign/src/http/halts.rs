//! Halts: stopping a scope, letting it go on, and what is stopped now.

use super::caller::Caller;
use super::error::HttpError;
use super::{App, body, json, receipt};
use axum::extract::{Request, State};
use axum::response::Response;
use countersign_api::{HaltEntered, HaltInForce, HaltList, InFlight};

use countersign_core::halt::{Halt, Scope};
use countersign_core::limits::BODY_BYTES_MAX;
use countersign_engine::request;
use std::sync::Arc;

/// `POST /v1/halts`
pub async fn halt(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let Caller { name: by, auth, .. } = caller;
    let (scope, reason) = asked(request).await?;
    let named = scope.to_string();
    enter(&app, request::Request::Halt { by, auth, scope, reason }, named).await
}

/// `POST /v1/halts/resume`
pub async fn resume(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let Caller { name: by, auth, .. } = caller;
    let (scope, reason) = asked(request).await?;
    let named = scope.to_string();
    enter(&app, request::Request::Resume { by, auth, scope, reason }, named).await
}

async fn asked(request: Request) -> Result<(Scope, Arc<str>), HttpError> {
    let text = body::text(request, body::JSON, BODY_BYTES_MAX).await?;
    let mut fields = body::Fields::parse(&text)?;
    let (scope, reason) = (fields.string("scope")?, fields.string("reason")?);
    fields.done()?;
    let scope = scope.parse().map_err(|error| HttpError::field(format!("field `scope`: {error}")))?;
    Ok((scope, reason.into()))
}

async fn enter(app: &App, request: request::Request, scope: String) -> Result<Response, HttpError> {
    let entered = app.enter(request).await?;
    let receipt = receipt(&entered);
    json(&HaltEntered { scope, entry: entered.entry.index, at: entered.entry.time_ms, receipt })
}

/// `GET /v1/halts`
pub async fn list(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    let view = app.gate.view();
    let halts = view.state.halts.iter().map(in_force).collect();
    let in_flight = view.state.effects.open().filter_map(|(id, effect)| {
        Some(InFlight {
            effect: id.to_string(),
            entry: effect.flight()?.entry,
            agent: effect.action.agent.to_string(),
            pact: effect.action.pact.to_string(),
        })
    });
    json(&HaltList { halts, in_flight: in_flight.collect() })
}

/// A halt as it goes on the wire.
pub fn in_force((scope, halt): (&Scope, &Halt)) -> HaltInForce {
    HaltInForce {
        scope: scope.to_string(),
        epoch: halt.entry,
        by: halt.by.to_string(),
        at: halt.at_ms,
        reason: halt.reason.to_string(),
    }
}
