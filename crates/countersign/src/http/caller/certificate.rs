//! Client certificates at the door: whom one names must be who signs.
//!
//! A certificate gives no one any right, and nothing passes with one that would not pass without (I8). It only closes doors: a
//! stolen signing key is of no use over the connection of another agent, and the certificate of someone who may not act any more
//! is answered nothing at all, also not what no one has to sign for.

use super::HttpError;
use crate::connections::Slot;
use crate::http::App;
use crate::tls::Certificate;
use axum::http::{Extensions, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use countersign_api::ErrorCode;
use countersign_core::identity::{ACTIVE, Holder, HolderKind, holds_key};
use countersign_core::ids::AgentId;
use countersign_core::value::Value;
use std::sync::Arc;

const MISMATCH_HINT: &str =
    "connect with the certificate of whom you sign as, or without one where the gate takes that";

/// The certificate that the client of a request has shown.
fn shown(extensions: &Extensions) -> Option<&Certificate> {
    extensions.get::<Arc<Slot>>()?.certificate()
}

/// What a request's address begins with, as its client wrote it.
pub fn scheme(extensions: &Extensions) -> &'static str {
    match extensions.get::<Arc<Slot>>().is_some_and(|connection| connection.is_tls()) {
        true => "https",
        false => "http",
    }
}

/// Refuses whatever comes over the connection of a certificate that does not count any more, or names someone who may not act.
pub fn check(app: &App, extensions: &Extensions) -> Result<(), HttpError> {
    let Some(certificate) = shown(extensions) else { return Ok(()) };
    let refused = |message: String, hint: String| Err(HttpError::new(ErrorCode::CertificateRefused, message, hint));
    if let Err(why) = certificate.still_counts() {
        return refused(why.cause, why.hint);
    }
    let named = certificate.named();
    if let Some(unfit) = &named.unfit {
        let message = format!("the SPIFFE id of the client certificate names no agent: {unfit}");
        return refused(message, "its authority must put the name of an agent there".to_owned());
    }
    let agents = named.agents.iter().map(|name| Holder { kind: HolderKind::Agent, name: name.clone() });
    let holder = holder_of_key(app, certificate);
    if let (Some(holder), Some(key)) = (&holder, &named.key)
        && !app.gate.view().fact(&holder.fact()).is_some_and(|fact| holds_key(fact, key, app.gate.now_ms()))
    {
        let message = format!("the key of the client certificate is not one of {holder} any more");
        return refused(message, "get a certificate for the key of today".to_owned());
    }
    for holder in agents.chain(holder) {
        if is_active(app, &holder) == Some(false) {
            let message = format!("the client certificate names {holder}, whose standing is not active");
            return refused(message, "stop, and ask an operator to set the standing".to_owned());
        }
    }
    Ok(())
}

/// The same as an answer, after which the connection is closed.
pub fn closing(error: HttpError) -> Response {
    let mut response = error.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Refuses a request that someone else signed, or is said to come from, than the certificate of its connection names. Where a
/// certificate names two, no one is both.
pub fn check_signer(
    app: &App,
    extensions: &Extensions,
    signer: &AgentId,
    kind: Option<HolderKind>,
) -> Result<(), HttpError> {
    let Some(certificate) = shown(extensions) else { return Ok(()) };
    let agents = certificate.named().agents.iter();
    let agents = agents.map(|name| Holder { kind: HolderKind::Agent, name: name.clone() });
    // An open gate cannot tell agents from operators, and compares names.
    let is_signer = |named: &Holder| named.name == *signer && kind.is_none_or(|kind| kind == named.kind);
    match agents.chain(holder_of_key(app, certificate)).find(|named| !is_signer(named)) {
        None => Ok(()),
        Some(named) => Err(HttpError::new(
            ErrorCode::CertificateMismatch,
            format!("{signer} sends this over a connection whose client certificate names {named}"),
            MISMATCH_HINT,
        )),
    }
}

/// Whose key the certificate's own is, whether it is good now or not.
fn holder_of_key(app: &App, certificate: &Certificate) -> Option<Holder> {
    app.gate.view().holder(certificate.named().key.as_ref()?).cloned()
}

/// Whether someone's standing is active; `None` where no one of this name is registered.
fn is_active(app: &App, holder: &Holder) -> Option<bool> {
    let view = app.gate.view();
    let value = view.fact(&holder.fact())?.value.as_ref()?;
    Some(matches!(value.get("standing"), Some(Value::String(standing)) if standing == ACTIVE))
}
