//! The guard: finds out who calls, looks up in the table who may, and lets through or turns away.
//!
//! It keeps the door; what a request changes is authorised once more at its own place in the order, so a role that is taken away
//! holds from the next commit on even for what has passed here.

use super::certificate;
use super::open::{agent, host, operator, refuse_strangers};
use super::{App, Caller, HttpError};
use crate::connections::Slot;
use crate::http::body::Checked;
use crate::http::error::denied;
use crate::http::rate::{Empty, INACTIVE_COST, Left, cost, too_often};
use crate::http::{Reach, body, routes};
use crate::mcp::buffers::Held;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use countersign_api::routes::{self as table, Callers, Named, Operation, Place, Route};
use countersign_api::{ErrorCode, LOG_HEADER};
use countersign_core::body::RawBody;
use countersign_core::denial::DenialCode;
use countersign_core::identity::{Auth, HolderKind};
use countersign_core::ids::AgentId;
use countersign_core::pact::catalogue::APPROVED;
use countersign_engine::identity::{Authenticated, HeadAuthenticated};
use countersign_signature::{self as signature, Head, SignatureError, Wire, authority};
use std::net::IpAddr;
use std::sync::Arc;

const NOT_AUTHORISED_HINT: &str = "ask an admin for the role; docs/guides/identity.md has the table of who may do what";

/// Fact types whose facts say who someone is; only admins feed those, and what is approved of MCP servers.
const IDENTITIES: [&str; 2] = ["Agent", "Operator"];

/// Refuses a request that names a session of another log.
async fn check_log(app: &App, route: &Route, headers: &HeaderMap) -> Result<(), HttpError> {
    let names_sessions = || route.errors().contains(&ErrorCode::SessionNotFound);
    let Some(named) = headers.get(LOG_HEADER).filter(|_| names_sessions()) else { return Ok(()) };
    if named.as_bytes() == app.log().await?.as_bytes() {
        return Ok(());
    }
    Err(HttpError::new(
        ErrorCode::SessionNotFound,
        format!("the session is of another log than this gate writes: `{LOG_HEADER}` differs"),
        "this gate writes a new log; open a session with POST /v1/sessions, and read again in it",
    ))
}

/// Lets a request through with its caller, or turns it away.
pub async fn identify(
    State(app): State<Arc<App>>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(error) = certificate::check(&app, request.extensions()) {
        return certificate::closing(error);
    }
    let Some(path) = request.extensions().get::<MatchedPath>().cloned() else {
        return match unsigned(&app, request) {
            Ok(Passed { request, .. }) => next.run(request).await,
            Err(error) => error.into_response(),
        };
    };
    let is_for_admins = params
        .iter()
        .flatten()
        .any(|(name, value)| name == "type" && (IDENTITIES.contains(&value) || APPROVED.contains(&value)));
    let route = table::find(request.method().as_str(), path.as_str());
    if let Some(route) = route {
        if let Err(error) = check_log(&app, route, request.headers()).await {
            return error.into_response();
        }
        request.extensions_mut().insert(route);
    }
    let let_through = if app.gate.view().is_identified() {
        let Some(route) = route else {
            return unsigned(&app, request).map_or_else(HttpError::into_response, |_| no_such_operation(path.as_str()));
        };
        known(&app, route, is_for_admins, request).await
    } else {
        // An open gate believes every caller, so there is no one to count requests for.
        request.extensions_mut().insert(app.bodies.clone());
        named(&app, route, request).map(Passed::from)
    };
    let let_through = let_through.and_then(|passed| match route {
        Some(route) => check_query(route, passed.request.uri().query()).map(|()| passed),
        None => Ok(passed),
    });
    match let_through {
        Ok(Passed { request, left, held }) => {
            let mut response = next.run(request).await;
            drop(held);
            if let Some(left) = left {
                app.rates.tell(response.headers_mut(), left);
            }
            response
        }
        Err(error) => error.into_response(),
    }
}

/// A request that is let through.
struct Passed {
    request: Request,
    /// What is left to its sender.
    left: Option<Left>,
    /// The room of its body, until it is answered.
    held: Option<Held>,
}

impl From<Request> for Passed {
    fn from(request: Request) -> Self {
        Self { request, left: None, held: None }
    }
}

/// Where a request comes from. `None` for loopback and the operators' socket: everything behind a proxy on this machine comes from
/// there, and one of many callers must not be able to use up the requests of all.
fn peer(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<Arc<Slot>>()?.peer()
}

/// Whether a request may be one that is looked at however many came before it: an admin's halt must always get through. Whether it
/// is an admin's is known once its key is looked up.
fn is_halt(route: &Route) -> bool {
    route.operation == Operation::Halt
}

/// An operation without a row in the table does not exist, whatever the router thinks.
fn no_such_operation(path: &str) -> Response {
    let error = HttpError::new(
        ErrorCode::MethodNotAllowed,
        "this path does not take this method",
        "the `Allow` header names the methods it takes",
    );
    let mut response = error.into_response();
    if let Ok(allowed) = HeaderValue::from_str(&table::allowed(path)) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

/// In an open gate: who the header says it is, where someone must be named.
fn named(app: &App, route: Option<&Route>, mut request: Request) -> Result<Request, HttpError> {
    refuse_strangers(&request)?;
    let name = match route.and_then(|route| route.names) {
        Some(Named::Agent) => agent(request.headers())?,
        Some(Named::Operator) => operator(request.headers())?,
        None => return Ok(request),
    };
    certificate::check_signer(app, request.extensions(), &name, None)?;
    request.extensions_mut().insert(Caller { name, auth: Auth::None, kind: None });
    Ok(request)
}

/// Refuses what the query says and the operation does not know: whoever writes `?dry_run=true` must not have it done. Programs that ask
/// whether the gate is up add what they like.
fn check_query(route: &Route, query: Option<&str>) -> Result<(), HttpError> {
    let Some(query) = query.filter(|_| !matches!(route.callers, Callers::Anyone | Callers::Metrics)) else {
        return Ok(());
    };
    let known: Vec<&str> =
        route.params().iter().filter(|param| param.place == Place::Query).map(|param| param.name).collect();
    let given = query.split('&').filter(|pair| !pair.is_empty());
    let unknown =
        given.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name)).find(|name| !known.contains(name));
    match unknown {
        None => Ok(()),
        Some(name) => Err(HttpError::new(
            ErrorCode::InvalidPath,
            format!("this operation has no parameter `{}` in its query", name.chars().take(80).collect::<String>()),
            "compare the query with /openapi.json, and write names plainly; other values may belong in the body",
        )),
    }
}

/// In an identified gate: who signed, if that is enough for what is asked.
async fn known(app: &App, route: &Route, is_for_admins: bool, request: Request) -> Result<Passed, HttpError> {
    let callers = match route.callers {
        Callers::Anyone => return unsigned(app, request),
        Callers::Metrics if app.reach == Reach::Loopback && is_from_here(&request) => return unsigned(app, request),
        Callers::Metrics => Callers::Operator(&[table::Role::Auditor]),
        Callers::Feed if is_for_admins => Callers::Operator(&[table::Role::Admin]),
        Callers::Feed => Callers::Operator(&[table::Role::Feeder]),
        other => other,
    };
    let peer = peer(&request);
    if !is_halt(route) {
        check_peer(app, peer)?;
    }
    let found = signed(app, route, callers, peer, request).await;
    if let (Err(error), Some(peer)) = (&found, peer)
        && error.code.status() == 401
    {
        // What is refused is charged to the peer that sent it.
        app.rates.charge_failure(peer);
    }
    found
}

/// A request that no one has to sign.
fn unsigned(app: &App, request: Request) -> Result<Passed, HttpError> {
    match peer(&request).map(|peer| app.rates.charge_unsigned(peer)) {
        Some(Err(Empty)) => Err(too_often("this address")),
        _ => Ok(request.into()),
    }
}

fn check_peer(app: &App, peer: Option<IpAddr>) -> Result<(), HttpError> {
    match peer.is_some_and(|peer| app.rates.check_peer(peer).is_err()) {
        true => Err(too_often("this address")),
        false => Ok(()),
    }
}

/// Whether a request was sent by a program on this machine, and not by a proxy on it for someone elsewhere.
fn is_from_here(request: &Request) -> bool {
    const FORWARDED: [&str; 5] = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];
    refuse_strangers(request).is_ok() && !FORWARDED.iter().any(|name| request.headers().contains_key(*name))
}

/// Finds out by the head of a request who signed it and whether they may; only then reads the body, holds it against the digest
/// that was signed, and gives back the request with the very bytes that were checked.
async fn signed(
    app: &App,
    route: &Route,
    callers: Callers,
    peer: Option<IpAddr>,
    request: Request,
) -> Result<Passed, HttpError> {
    let authority = authority(request.uri().authority().map_or_else(|| host(&request), |named| named.as_str()));
    let (mut parts, body) = request.into_parts();
    let (bytes_max, within) = (route.body.bytes_max(), body::arrives_within(&parts.extensions));
    let announced = body::announced(&body);
    let admitted = Asked { app, route, callers, peer, parts: &parts, announced }.admit(&authority).await;
    let Admitted { sender, key, left, held } = match admitted {
        Ok(admitted) => admitted,
        Err(error) => {
            body::discard(body, bytes_max, within).await;
            return Err(error);
        }
    };
    let bytes = body::whole(body, bytes_max, within).await?;
    let Authenticated { holder, auth, .. } = sender.with_body(RawBody::from(body::utf8(&bytes)?))?;
    // What announced its length has paid for it.
    let left = match announced {
        Some(_) => left,
        None if left.is_some() => Some(charge(app, &key, &holder.name, cost(bytes.len()), route.path)?),
        None => None,
    };
    // With the digest that was compared, which is taken once.
    if let Some(sent) = auth.signed().and_then(|signed| signed.body.clone()) {
        parts.extensions.insert(Checked(sent));
    }
    parts.extensions.insert(Caller { name: holder.name, auth, kind: Some(holder.kind) });
    Ok(Passed { request: Request::from_parts(parts, Body::from(bytes)), left, held })
}

/// The head of a request, and what is known beside.
struct Asked<'a> {
    app: &'a App,
    route: &'a Route,
    callers: Callers,
    peer: Option<IpAddr>,
    parts: &'a Parts,
    /// The length of the body, where it was announced.
    announced: Option<usize>,
}

/// A request whose body may be read.
struct Admitted {
    sender: HeadAuthenticated,
    key: [u8; 32],
    left: Option<Left>,
    held: Option<Held>,
}

/// Finds out who signed: on this thread, unless that would wait for the disk.
async fn authenticated(app: &App, head: Head) -> Result<HeadAuthenticated, HttpError> {
    match app.gate.authenticating_writes(&head) {
        true => app.urgent(move |gate| gate.authenticate_head(head)).await,
        false => Ok(app.gate.authenticate_head(head)?),
    }
}

impl Asked<'_> {
    /// What the head of the request says of its signature.
    fn head(&self, authority: &str) -> Result<Head, HttpError> {
        let Self { app, route, parts, announced, .. } = *self;
        let wire = Wire {
            method: parts.method.as_str(),
            authority,
            path: parts.uri.path(),
            query: parts.uri.query(),
            if_match: field(&parts.headers, "if-match")?,
            actions: field(&parts.headers, "countersign-actions")?,
            body: "",
            content_digest: field(&parts.headers, "content-digest")?,
            input: field(&parts.headers, "signature-input")?,
            signature: field(&parts.headers, "signature")?,
        };
        let head = signature::parse_head(&wire, announced.is_some_and(|bytes| bytes > 0), app.gate.origin())?;
        // An audit reads what was signed, and must read it in the same way. Only the ids of facts need another spelling.
        if parts.method != Method::GET && !route.path.starts_with("/v1/facts/") && parts.uri.path().contains('%') {
            let message = "the path is percent-encoded, so it can be read in two ways";
            return Err(HttpError::new(
                ErrorCode::InvalidPath,
                message,
                "write it as it is in the answer that named it",
            ));
        }
        Ok(head)
    }

    async fn admit(&self, authority: &str) -> Result<Admitted, HttpError> {
        let Self { app, route, parts, announced, .. } = *self;
        let head = self.head(authority)?;
        let key = head.key().public_key();
        let is_limited = !(is_halt(route) && app.gate.is_admins(head.key()));
        if is_limited {
            self.check_limits(&head, &key).await?;
        }
        let sender = authenticated(app, head).await?;
        let certified =
            certificate::check_signer(app, &parts.extensions, &sender.holder.name, Some(sender.holder.kind));
        if let Some(connection) = parts.extensions.get::<Arc<Slot>>().filter(|_| sender.is_active && certified.is_ok())
        {
            connection.prove();
        }
        let is_idle = sender.holder.kind == HolderKind::Agent && !sender.is_active;
        let bytes_max = route.body.bytes_max();
        let cost = if is_idle { INACTIVE_COST } else { cost(announced.unwrap_or(0).min(bytes_max)) };
        let charged = is_limited.then(|| charge(app, &key, &sender.holder.name, cost, route.path));
        let left = charged.transpose()?;
        certified?;
        authorised(app, self.callers, &sender, route.path)?;
        if announced.is_some_and(|bytes| bytes > bytes_max) {
            return Err(body::larger_than(bytes_max));
        }
        // A halt finds room however much is on its way.
        let held = is_limited.then(|| app.bodies.room(announced, bytes_max)).transpose()?;
        Ok(Admitted { sender, key, left, held })
    }

    /// Refuses a key that has used up its requests before its signature is verified and its nonce kept: more of the same would cost
    /// the most here. Counted for its holder are only those that are verified anyway, a few.
    async fn check_limits(&self, head: &Head, key: &[u8; 32]) -> Result<(), HttpError> {
        let Self { app, route, peer, .. } = *self;
        if is_halt(route) {
            check_peer(app, peer)?;
        }
        if app.rates.check_key(key).is_ok() {
            return Ok(());
        }
        if app.rates.may_count(key) {
            let sender = authenticated(app, head.clone()).await?;
            // The path as the router has it: one that was sent may hold the id of a fact.
            app.gate.deny(&sender.holder.name, DenialCode::RateLimited, route.path);
        }
        Err(too_often("the holder of this key"))
    }
}

/// Charges a request whose signature was verified.
fn charge(app: &App, key: &[u8; 32], holder: &AgentId, requests: u64, asked: &str) -> Result<Left, HttpError> {
    app.rates.charge_key(key, requests).map_err(|Empty| {
        app.gate.deny(holder, DenialCode::RateLimited, asked);
        too_often(holder.as_str())
    })
}

fn field<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, SignatureError> {
    let mut values = headers.get_all(name).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        (Err(_), _) => Err(SignatureError::Malformed(format!("the field `{name}` is not plain text"))),
        (Ok(_), Some(_)) => Err(SignatureError::Malformed(format!("the field `{name}` is there more than once"))),
    }
}

fn authorised(app: &App, callers: Callers, sender: &HeadAuthenticated, asked: &str) -> Result<(), HttpError> {
    let HeadAuthenticated { holder, is_active, .. } = sender;
    let (is_agent, is_active, name) = (holder.kind == HolderKind::Agent, *is_active, &holder.name);
    let roles: &[table::Role] = match callers {
        // Whatever it asks for: an agent that is not active is shown nothing, and what it does is not written down one by one.
        _ if is_agent && !is_active => {
            app.gate.deny(name, DenialCode::AgentNotActive, asked);
            return Err(denied(DenialCode::AgentNotActive, format!("agent {name} is not active")));
        }
        Callers::Agent if !is_agent => {
            let message = format!("{name} is an operator; only agents do this");
            let hint = "sign with an agent's key; `countersign agent new` makes one";
            return Err(HttpError::new(ErrorCode::NotAuthorised, message, hint));
        }
        Callers::Known if !is_agent && !is_active => {
            return refused(format!("operator {name} is not active"));
        }
        Callers::AgentOr(_) if is_agent => return Ok(()),
        Callers::AgentOr(roles) | Callers::Operator(roles) => roles,
        // What these two take is settled before anyone is asked for.
        Callers::Feed | Callers::Metrics => &[table::Role::Admin],
        Callers::Anyone | Callers::Agent | Callers::Known => return Ok(()),
    };
    if is_agent {
        #[cfg(feature = "sabotage")]
        if app.gate.is_without(countersign_engine::sabotage::Control::Roles) {
            return Ok(());
        }
        return refused(format!("only operators can do this, and {name} is an agent"));
    }
    let mut why = String::new();
    for role in roles {
        match sender.authorise(&app.gate, routes::role(*role)) {
            Ok(()) => return Ok(()),
            Err(error) => why = error.why.to_string(),
        }
    }
    let roles = roles.iter().map(|role| format!("`{}`", role.as_str())).collect::<Vec<_>>().join(" or ");
    refused(format!("{name} may not do this, which takes an active operator with role {roles}: {why}"))
}

fn refused(message: String) -> Result<(), HttpError> {
    Err(HttpError::new(ErrorCode::NotAuthorised, message, NOT_AUTHORISED_HINT))
}
