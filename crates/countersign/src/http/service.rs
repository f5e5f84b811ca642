//! The gate itself: whether it is alive and ready, its counts, its contract, its clock.

use super::caller::Caller;
use super::error::HttpError;
use super::{App, json};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use countersign_api::{ClockConfirmed, Health, Ready};
use countersign_core::halt::Scope;
use countersign_engine::gate::NotReady;
use countersign_engine::request::Request;
use std::sync::Arc;

/// `GET /healthz`
pub async fn healthz() -> Result<Response, HttpError> {
    json(&Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// `GET /readyz`
pub async fn readyz(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    match app.gate.not_ready() {
        None => {
            let now = app.gate.now_ms();
            let view = app.gate.view();
            let halted = view.halt_of(&Scope::All).map(|halt| halt.entry);
            json(&Ready { ready: true, position: view.position, now, halted })
        }
        Some(NotReady { reason, left_ms }) => Err(HttpError::not_ready(reason, left_ms)),
    }
}

/// `GET /metrics`
pub async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], app.metrics.text(&app.gate)).into_response()
}

/// `GET /openapi.json`
pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], countersign_api::DOCUMENT).into_response()
}

/// `POST /v1/clock/confirm`
pub async fn confirm_clock(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, HttpError> {
    let entered = app.enter(Request::ConfirmClock { by: caller.name, auth: caller.auth }).await?;
    json(&ClockConfirmed { entry: entered.entry.index, now: app.gate.now_ms() })
}
