//! Who is registered: agents and operators, as their facts say.

use super::caller::Caller;
use super::error::HttpError;
use super::facts::bad_query;
use super::numbers::within;
use super::{App, json};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use countersign_api::routes::DAYS_MAX;
use countersign_api::{AgentList, CallerResponse, OperatorList, Registered, UnusedRight, UnusedRights};
use countersign_core::fact::Fact;
use countersign_core::identity::HolderKind;
use countersign_engine::gate::{self, Gate};
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// `GET /v1/agents`
pub async fn agents(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    json(&AgentList { agents: app.blocking(|gate| registered(gate, "Agent")).await? })
}

/// The query of unused rights.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnusedQuery {
    days: Option<u64>,
}

/// `GET /v1/agents/unused`
pub async fn unused(
    State(app): State<Arc<App>>,
    query: Result<Query<UnusedQuery>, QueryRejection>,
) -> Result<Response, HttpError> {
    let Query(UnusedQuery { days }) = query.map_err(|error| bad_query(&error))?;
    let days = within("days", days.unwrap_or(30), 1..=DAYS_MAX)?;
    // Each reads much of the log: one at a time, and no one else waits for it.
    static ONE: Mutex<()> = Mutex::new(());
    let read = move |gate: &Gate| {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = gate.unused_rights(days.saturating_mul(DAY_MS));
        drop(one);
        unused
    };
    let gate::UnusedRights { since_ms, entries, rights } = app.blocking(read).await?;
    let told = |right: gate::UnusedRight| UnusedRight {
        agent: right.agent.to_string(),
        pact: right.pact.to_string(),
        action: right.action.to_string(),
        held_since: right.held_since_ms,
        maybe_used_in: right.maybe_used_in,
    };
    json(&UnusedRights { since: since_ms, entries, rights: rights.into_iter().map(told).collect() })
}

/// `GET /v1/operators`
pub async fn operators(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    json(&OperatorList { operators: app.blocking(|gate| registered(gate, "Operator")).await? })
}

/// `GET /v1/caller`
pub async fn caller(State(app): State<Arc<App>>, request: Request) -> Result<Response, HttpError> {
    let caller = request.extensions().get::<Caller>().filter(|caller| caller.kind.is_some());
    let kind = caller.and_then(|caller| caller.kind).map(|kind| match kind {
        HolderKind::Agent => "agent",
        HolderKind::Operator => "operator",
    });
    json(&CallerResponse {
        identified: app.gate.view().is_identified(),
        log: app.log().await?.to_owned(),
        name: caller.map(|caller| caller.name.to_string()),
        kind: kind.map(ToOwned::to_owned),
    })
}

/// All facts of a type, deleted ones among them, by id.
pub fn facts_of_type(gate: &Gate, ty: &str) -> Vec<Arc<Fact>> {
    let mut found: Vec<Arc<Fact>> = Vec::new();
    gate.each_fact_of(ty, |fact| found.push(Arc::clone(fact)));
    found.sort_by(|one, other| one.id.id().cmp(other.id.id()));
    found
}

fn registered(gate: &Gate, ty: &str) -> Result<Vec<Registered>, HttpError> {
    let found = facts_of_type(gate, ty);
    let shown = found.iter().filter_map(|fact| {
        let value = fact.value.as_ref()?.to_json();
        Some(Registered {
            name: fact.id.id().to_owned(),
            version: fact.version(),
            value,
            written_at: fact.written.at_ms,
            written_by: fact.written.by.to_string(),
        })
    });
    Ok(shown.collect())
}
