//! Halts: stopping a scope, letting it go on, and what is stopped now.

use super::agents::facts_of_type;
use super::caller::Caller;
use super::error::HttpError;
use super::{App, body, json, receipt};
use axum::extract::{Request, State};
use axum::response::Response;
use countersign_api::{HaltEntered, HaltInForce, HaltList, InFlight};
use countersign_core::fact::Fact;
use countersign_core::halt::{Halt, Scope};
use countersign_core::pact::catalogue::AGENT;
use countersign_core::pact::diagnostic::closest;
use countersign_core::value::Value as CoreValue;
use countersign_engine::gate::Gate;
use countersign_engine::request;
use std::sync::Arc;

/// `POST /v1/halts`
pub async fn halt(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let Caller { name: by, auth, .. } = caller;
    let (scope, reason) = asked(request).await?;
    let entered = enter(&app, request::Request::Halt { by, auth, scope: scope.clone(), reason }, &scope).await?;
    // Counted only now: a halt waits for nothing, and is never refused because of what it names. The agent may be the next to be
    // registered.
    let (matches, closest) = app.blocking(move |gate| Ok::<_, HttpError>(matches(gate, &scope))).await?;
    json(&HaltEntered { matches, closest, ..entered })
}

/// `POST /v1/halts/resume`
pub async fn resume(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let Caller { name: by, auth, .. } = caller;
    let (scope, reason) = asked(request).await?;
    let request = request::Request::Resume { by, auth, scope: scope.clone(), reason };
    json(&enter(&app, request, &scope).await?)
}

async fn asked(request: Request) -> Result<(Scope, Arc<str>), HttpError> {
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let (scope, reason) = (fields.string("scope")?, fields.string("reason")?);
    fields.done()?;
    let scope = scope.parse().map_err(|error| HttpError::field(format!("field `scope`: {error}")))?;
    Ok((scope, reason.into()))
}

async fn enter(app: &App, request: request::Request, scope: &Scope) -> Result<HaltEntered, HttpError> {
    let entered = app.enter(request).await?;
    let receipt = receipt(&entered);
    let (scope, entry, at) = (scope.to_string(), entered.entry.index, entered.entry.time_ms);
    Ok(HaltEntered { scope, entry, at, matches: None, closest: None, receipt })
}

/// How many agents or pacts a scope names now, and where there are none, which name is closest.
fn matches(gate: &Gate, scope: &Scope) -> (Option<u64>, Option<String>) {
    let (name, names): (&str, Vec<String>) = match scope {
        Scope::All => return (None, None),
        Scope::Agent(agent) => (agent.as_str(), agents(gate, |fact| Some(fact.id.id().to_owned()))),
        Scope::Org(org) => (org, agents(gate, |fact| Some(org_of(fact)?.to_owned()))),
        Scope::Pact(pact) => (pact.as_str(), gate.view().pacts().map(|pact| pact.name.to_string()).collect()),
    };
    let found = names.iter().filter(|known| *known == name).count();
    let closest = (found == 0).then(|| closest(name, names.iter().map(String::as_str)).map(str::to_owned));
    (Some(u64::try_from(found).unwrap_or(u64::MAX)), closest.flatten())
}

/// Something of every agent that there is.
fn agents(gate: &Gate, of: impl Fn(&Fact) -> Option<String>) -> Vec<String> {
    let agents = facts_of_type(gate, AGENT);
    agents.iter().filter(|fact| fact.value.is_some()).filter_map(|fact| of(fact)).collect()
}

fn org_of(fact: &Fact) -> Option<&str> {
    match fact.value.as_ref()?.get("org") {
        Some(CoreValue::String(org)) => Some(org),
        _ => None,
    }
}

/// `GET /v1/halts`
pub async fn list(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    let view = app.gate.view();
    let halts = view.halts_in_force().map(in_force).collect();
    let in_flight = view.effects_open().filter_map(|(id, effect)| {
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
