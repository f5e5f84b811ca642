//! The guard: finds out who calls, looks up in the table who may, and lets through or turns away.
//!
//! It keeps the door; what a request changes is authorised once more at its own place in the order, so a role that is taken away
//! holds from the next commit on even for what has passed here.

use super::open::{agent, host, operator, refuse_strangers};
use super::{App, Caller, HttpError};
use crate::connections::Slot;
use crate::http::body::Checked;
use crate::http::error::denied;
use crate::http::rate::{Empty, INACTIVE_COST, Left, cost, too_often};
use crate::http::{Reach, body, routes};
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use countersign_api::ErrorCode;
use countersign_api::routes::{self as table, Callers, Named, Operation, Route};
use countersign_core::denial::DenialCode;
use countersign_core::identity::{Auth, HolderKind, authorise};
use countersign_engine::identity::Authenticated;
use countersign_engine::identity::signature::{self, SignatureError, Wire, authority};
use std::net::IpAddr;
use std::sync::Arc;

const NOT_AUTHORISED_HINT: &str = "ask an admin for the role; docs/guides/identity.md has the table of who may do what";

/// Fact types whose facts say who somebody is; only admins feed those.
const IDENTITIES: [&str; 2] = ["Agent", "Operator"];

/// Lets a request through with its caller, or turns it away.
pub async fn identify(
    State(app): State<Arc<App>>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(path) = request.extensions().get::<MatchedPath>().cloned() else {
        return match unsigned(&app, request) {
            Ok((request, _)) => next.run(request).await,
            Err(error) => error.into_response(),
        };
    };
    let is_identity = params.iter().flatten().any(|(name, value)| name == "type" && IDENTITIES.contains(&value));
    let route = table::find(request.method().as_str(), path.as_str());
    if let Some(route) = route {
        request.extensions_mut().insert(route);
    }
    let let_through = if app.gate.view().is_identified() {
        let Some(route) = route else {
            return unsigned(&app, request).map_or_else(HttpError::into_response, |_| no_such_operation(path.as_str()));
        };
        known(&app, route, is_identity, request).await
    } else {
        // Whoever calls an open gate is believed, so there is nobody to count requests for.
        named(route, request).map(|request| (request, None))
    };
    match let_through {
        Ok((request, left)) => {
            let mut response = next.run(request).await;
            if let Some(left) = left {
                app.rates.tell(response.headers_mut(), left);
            }
            response
        }
        Err(error) => error.into_response(),
    }
}

/// Where a request comes from. `None` for loopback and the operators' socket: everything behind a proxy on this machine comes from
/// there, and one of many callers must not be able to use up the requests of all.
fn peer(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<Arc<Slot>>()?.peer()
}

/// Whether a request is looked at however many came before it: an operator's halt must always get through. Whether it is an
/// operator's is known once its key is looked up.
fn is_halt(route: &Route) -> bool {
    matches!(route.operation, Operation::Halt | Operation::Resume)
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

/// In an open gate: who the header says it is, where somebody must be named.
fn named(route: Option<&Route>, mut request: Request) -> Result<Request, HttpError> {
    refuse_strangers(&request)?;
    let name = match route.and_then(|route| route.names) {
        Some(Named::Agent) => agent(request.headers())?,
        Some(Named::Operator) => operator(request.headers())?,
        None => return Ok(request),
    };
    request.extensions_mut().insert(Caller { name, auth: Auth::None, kind: None });
    Ok(request)
}

/// In an identified gate: who signed, if that is enough for what is asked.
async fn known(
    app: &App,
    route: &Route,
    is_identity: bool,
    request: Request,
) -> Result<(Request, Option<Left>), HttpError> {
    let callers = match route.callers {
        Callers::Anyone => return unsigned(app, request),
        Callers::Metrics if app.reach == Reach::Loopback && is_from_here(&request) => return unsigned(app, request),
        Callers::Metrics => Callers::Operator(&[table::Role::Auditor]),
        Callers::Feed if is_identity => Callers::Operator(&[table::Role::Admin]),
        Callers::Feed => Callers::Operator(&[table::Role::Feeder]),
        other => other,
    };
    let (caller, is_active, left, mut request) = authenticate(app, route, request).await?;
    authorised(app, callers, &caller, is_active, route.path)?;
    request.extensions_mut().insert(caller);
    Ok((request, left))
}

/// A request that nobody has to sign.
fn unsigned(app: &App, request: Request) -> Result<(Request, Option<Left>), HttpError> {
    match peer(&request).map(|peer| app.rates.charge_unsigned(peer)) {
        Some(Err(Empty)) => Err(too_often("this address")),
        _ => Ok((request, None)),
    }
}

/// Whether a request was sent by a program on this machine, and not by a proxy on it for somebody elsewhere.
fn is_from_here(request: &Request) -> bool {
    const FORWARDED: [&str; 5] = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];
    refuse_strangers(request).is_ok() && !FORWARDED.iter().any(|name| request.headers().contains_key(*name))
}

/// Finds out who signed, as often as that may be asked; what is refused is charged to the peer that sent it.
async fn authenticate(
    app: &App,
    route: &Route,
    request: Request,
) -> Result<(Caller, bool, Option<Left>, Request), HttpError> {
    let (peer, is_limited) = (peer(&request), !is_halt(route));
    if is_limited && peer.is_some_and(|peer| app.rates.check_peer(peer).is_err()) {
        return Err(too_often("this address"));
    }
    let found = verify(app, route, request, is_limited).await;
    if let (Err(error), Some(peer)) = (&found, peer)
        && error.code.status() == 401
    {
        app.rates.charge_failure(peer);
    }
    found
}

/// Reads the body, checks its digest and the signature, and gives back the request with the very bytes that were checked.
async fn verify(
    app: &App,
    route: &Route,
    request: Request,
    is_limited: bool,
) -> Result<(Caller, bool, Option<Left>, Request), HttpError> {
    let authority = authority(request.uri().authority().map_or_else(|| host(&request), |named| named.as_str()));
    let (parts, body) = request.into_parts();
    let bytes = body::whole(body, route.body.bytes_max(), body::arrives_within(&parts.extensions)).await?;
    let text = body::utf8(&bytes)?;
    let wire = Wire {
        method: parts.method.as_str(),
        authority: &authority,
        path: parts.uri.path(),
        query: parts.uri.query(),
        if_match: field(&parts.headers, "if-match")?,
        body: text,
        content_digest: field(&parts.headers, "content-digest")?,
        input: field(&parts.headers, "signature-input")?,
        signature: field(&parts.headers, "signature")?,
    };
    let presented = signature::parse(&wire, app.gate.origin())?;
    let (key, sent) = (presented.signed.key.public_key(), presented.signed.body.clone());
    // Before the signature is verified and its nonce kept: more of the same would cost the most here.
    let holder = || app.gate.view().holder(&presented.signed.key).cloned();
    let is_limited = is_limited || holder().is_some_and(|holder| holder.kind == HolderKind::Agent);
    // The path as the router has it: one that was sent may hold the id of a fact.
    let asked = route.path;
    if is_limited && app.rates.check_key(&key).is_err() {
        if let Some(holder) = holder() {
            app.gate.deny(&holder.name, DenialCode::RateLimited, asked);
        }
        return Err(too_often("the holder of this key"));
    }
    let Authenticated { holder, auth, is_active } = app.gate.authenticate(presented)?;
    if let Some(connection) = parts.extensions.get::<Arc<Slot>>().filter(|_| is_active) {
        connection.prove();
    }
    let caller = Caller { name: holder.name, auth, kind: Some(holder.kind) };
    let is_idle = caller.kind == Some(HolderKind::Agent) && !is_active;
    let cost = if is_idle { INACTIVE_COST } else { cost(bytes.len()) };
    let left = match is_limited.then(|| app.rates.charge_key(&key, cost)).transpose() {
        Ok(left) => left,
        Err(Empty) => {
            app.gate.deny(&caller.name, DenialCode::RateLimited, asked);
            return Err(too_often(caller.name.as_str()));
        }
    };
    let mut request = Request::from_parts(parts, Body::from(bytes));
    if let Some(sent) = sent {
        request.extensions_mut().insert(Checked(sent));
    }
    Ok((caller, is_active, left, request))
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

fn authorised(app: &App, callers: Callers, caller: &Caller, is_active: bool, asked: &str) -> Result<(), HttpError> {
    let is_agent = caller.kind == Some(HolderKind::Agent);
    let roles: &[table::Role] = match callers {
        // Whatever it asks for: an agent that is not active is shown nothing, and what it does is not written down one by one.
        _ if is_agent && !is_active => {
            app.gate.deny(&caller.name, DenialCode::AgentNotActive, asked);
            return Err(denied(DenialCode::AgentNotActive, format!("agent {} is not active", caller.name)));
        }
        Callers::Agent if !is_agent => {
            let message = format!("{} is an operator; only agents do this", caller.name);
            let hint = "sign with an agent's key; `countersign agent new` makes one";
            return Err(HttpError::new(ErrorCode::NotAuthorised, message, hint));
        }
        Callers::Known if !is_agent && !is_active => {
            return refused(format!("operator {} is not active", caller.name));
        }
        Callers::AgentOr(_) if is_agent => return Ok(()),
        Callers::AgentOr(roles) | Callers::Operator(roles) => roles,
        // What these two take is settled before anybody is asked for.
        Callers::Feed | Callers::Metrics => &[table::Role::Admin],
        Callers::Anyone | Callers::Agent | Callers::Known => return Ok(()),
    };
    if is_agent {
        #[cfg(feature = "sabotage")]
        if app.gate.is_without(countersign_engine::sabotage::Control::Roles) {
            return Ok(());
        }
        return refused(format!("{} is an agent; this takes an operator", caller.name));
    }
    let now_ms = app.gate.now_ms();
    let view = app.gate.view();
    let mut why = String::new();
    for role in roles {
        match authorise(&*view, &caller.name, &caller.auth, routes::role(*role), now_ms) {
            Ok(()) => return Ok(()),
            Err(error) => why = error.why.to_string(),
        }
    }
    let roles = roles.iter().map(|role| format!("`{}`", role.as_str())).collect::<Vec<_>>().join(" or ");
    refused(format!("{} may not do this, which takes an active operator with role {roles}: {why}", caller.name))
}

fn refused(message: String) -> Result<(), HttpError> {
    Err(HttpError::new(ErrorCode::NotAuthorised, message, NOT_AUTHORISED_HINT))
}
