//! Clients over streamable HTTP: sessions that begin with a handshake and have an id, and single requests of the stateless
//! revisions, each of which borrows a session that no one else uses meanwhile.
//!
//! Whoever reaches the gateway acts as its agent. So it is reached from this machine only, and by no page of a browser; or, over TLS,
//! with a client certificate that names the agent.

mod events;
mod sessions;
mod stateless;

use super::MESSAGE_BYTES_MAX;
use crate::connections::Slot;
use crate::http::{is_loopback, is_own_origin, scheme};
use crate::mcp::Gateway;
use crate::mcp::buffers::Held;
use crate::mcp::delivery::arrivals;
use crate::mcp::message::{INVALID_REQUEST, Kind, Message};
use crate::mcp::upstream::Alive;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use countersign_core::identity::KeyName;
use http_body_util::BodyExt as _;
use serde_json::value::RawValue;
use sessions::Sessions;
use stateless::Pool;
use std::sync::Arc;
use std::time::Duration;

/// The header that names a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header that names the revision.
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The first revision without a handshake; revisions are dates.
const FIRST_STATELESS: &str = "2026-07-28";

struct App {
    gateway: Arc<Gateway>,
    alive: Alive,
    sessions: Sessions,
    pool: Pool,
}

/// Whom a client certificate must name: the agent as which everyone acts who reaches the gateway.
#[derive(Debug, Clone)]
pub struct Certified {
    pub agent: String,
    /// The agent's own key; none in an open gate.
    pub key: Option<KeyName>,
}

impl Certified {
    /// Why a certificate, if one was shown, does not let its client in.
    fn refuses(&self, extensions: &Extensions) -> Option<String> {
        let certificate = extensions.get::<Arc<Slot>>()?.certificate()?;
        if let Err(why) = certificate.still_counts() {
            return Some(why.cause);
        }
        let named = certificate.named();
        let is_agent = named.agents.iter().any(|name| name.as_str() == self.agent);
        let is_only = named.agents.iter().all(|name| name.as_str() == self.agent) && named.unfit.is_none();
        let is_key = self.key.is_some() && named.key == self.key;
        let is_named = is_only && (is_agent || is_key);
        (!is_named).then(|| "the client certificate does not name the agent that this gateway acts as".to_owned())
    }
}

/// What is served, at `/mcp`. Sessions that no one has used for `idle` are ended.
pub fn router(gateway: Arc<Gateway>, alive: Alive, idle: Duration, certified: Certified) -> Router {
    let app = Arc::new(App { gateway, alive, sessions: Sessions::default(), pool: Pool::default() });
    sessions::reap(&app, idle);
    Router::new()
        .route("/mcp", post(posted).get(listened).delete(ended))
        .layer(axum::middleware::from_fn_with_state(Arc::new(certified), let_in))
        .with_state(app)
}

/// Refuses what comes from a page of a browser that was not loaded from here, also one of another port of this machine. Without a
/// certificate it also refuses what comes under a name that is not this machine's: a page that makes its own name point here must not
/// reach the gateway.
async fn let_in(State(certified): State<Arc<Certified>>, request: Request, next: axum::middleware::Next) -> Response {
    if let Some(why) = certified.refuses(request.extensions()) {
        let mut response = refused(StatusCode::FORBIDDEN, &why);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    if is_from_here(request.headers(), request.extensions()) {
        next.run(request).await
    } else {
        refused(StatusCode::FORBIDDEN, "this gateway is for this machine only")
    }
}

fn is_from_here(headers: &HeaderMap, extensions: &Extensions) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let is_certified = extensions.get::<Arc<Slot>>().is_some_and(|connection| connection.certificate().is_some());
    (is_certified || is_loopback(host)) && is_own_origin(scheme(extensions), host, headers)
}

async fn posted(State(app): State<Arc<App>>, request: Request) -> Response {
    let place = arrivals::over_http();
    let (parts, body) = request.into_parts();
    let mut held = app.gateway.buffers.nothing();
    let body = match whole(body, &mut held).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let Ok(text) = std::str::from_utf8(&body) else { return refused(StatusCode::BAD_REQUEST, "not UTF-8") };
    let mut message = match Message::parse_from_client(text) {
        Ok(message) => message,
        Err(error) => return (StatusCode::BAD_REQUEST, json(&error.answer())).into_response(),
    };
    drop(body);
    (message.held, message.place) = (Some(held), place);
    message.headers = params_in_headers(&parts.headers);
    let header = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(session) = header(SESSION) {
        return sessions::post(&app, session, message).await;
    }
    let stateless = header(VERSION).is_some_and(|version| version >= FIRST_STATELESS);
    match (message.kind(), message.method.as_str()) {
        (Kind::Request, "initialize") => sessions::begin(&app, message).await,
        (Kind::Request, _) if stateless => {
            if message.stateless_revision().as_deref() != header(VERSION) {
                return refused(
                    StatusCode::BAD_REQUEST,
                    "the header mcp-protocol-version and the request's _meta disagree",
                );
            }
            stateless::post(&app, message).await
        }
        // A single request has nothing that a notification could be about.
        (Kind::Notification, _) if stateless => StatusCode::ACCEPTED.into_response(),
        _ => refused(StatusCode::BAD_REQUEST, "there is no session: begin with initialize"),
    }
}

/// A whole body, for which there is room.
async fn whole(mut body: Body, held: &mut Held) -> Result<Vec<u8>, Response> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| refused(StatusCode::BAD_REQUEST, "the message broke off"))?;
        let data = frame.into_data().unwrap_or_default();
        if all.len() + data.len() > MESSAGE_BYTES_MAX {
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large"));
        }
        let room = held.grow_to(all.len() + data.len());
        room.map_err(|full| refused(StatusCode::SERVICE_UNAVAILABLE, &full.to_string()))?;
        all.extend_from_slice(&data);
    }
    Ok(all)
}

async fn listened(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match headers.get(SESSION).and_then(|session| session.to_str().ok()) {
        Some(session) => sessions::listen(&app, session),
        None => refused(StatusCode::BAD_REQUEST, "there is no session: begin with initialize"),
    }
}

async fn ended(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let session = headers.get(SESSION).and_then(|session| session.to_str().ok());
    match session.is_some_and(|session| app.sessions.end(&app, session)) {
        true => StatusCode::NO_CONTENT.into_response(),
        false => refused(StatusCode::NOT_FOUND, "there is no such session"),
    }
}

/// Headers that repeat arguments of a call, which its server compares with them.
fn params_in_headers(headers: &HeaderMap) -> Box<[(String, String)]> {
    let params = headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-param-"));
    params.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect()
}

/// An error of HTTP with a message of JSON-RPC in it.
fn refused(status: StatusCode, why: &str) -> Response {
    (status, json(&Message::error(RawValue::NULL, INVALID_REQUEST, why))).into_response()
}

fn json(message: &Message) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], Body::new(events::Pieces::of(message))).into_response()
}
