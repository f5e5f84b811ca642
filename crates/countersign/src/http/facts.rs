//! Facts: read and fed by operators.

use super::caller::Caller;
use super::error::HttpError;
use super::numbers::{position, within};
use super::{App, body, json, receipt};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use countersign_api::routes::{HISTORY_MAX, PAGE_MAX};
use countersign_api::{
    Atomicity, ErrorCode, FactConfirmed, FactList, FactResponse, FactSummary, FactVersion, FactWritten, HeldFeed,
    HistoryResponse,
};
use countersign_core::canonical::Canonical;
use countersign_core::fact::{Fact, version_in_tag};
use countersign_core::ids::{FactId, FactType};
use countersign_core::limits::FACT_BYTES_MAX;
use countersign_core::record::Event;
use countersign_core::state;
use countersign_core::value::Attributes;
use countersign_engine::gate::Gate;
use countersign_engine::request::{Refusal, Request as GateRequest};
use countersign_engine::view::Synced;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many versions one page of history has unless told, and at most.
const HISTORY_LIMIT: (u64, u64) = (20, HISTORY_MAX);

/// How many facts one page of a list has unless told, and at most.
const LIST_LIMIT: (u64, u64) = (100, PAGE_MAX);

type FactPath = Result<Path<(String, String)>, PathRejection>;

fn fact_id(path: FactPath) -> Result<FactId, HttpError> {
    let Path((ty, id)) = path.map_err(|error| bad_path(&error))?;
    let ty = FactType::new(ty).map_err(|error| HttpError::path(&error))?;
    FactId::new(ty, id).map_err(|error| HttpError::path(&error))
}

/// What a path that cannot be read is answered with.
pub fn bad_path(error: &PathRejection) -> HttpError {
    HttpError::new(
        ErrorCode::InvalidPath,
        format!("the path cannot be read: {}", error.body_text()),
        "compare the path with /openapi.json",
    )
}

/// What a query that cannot be read is answered with.
pub fn bad_query(error: &QueryRejection) -> HttpError {
    HttpError::new(
        ErrorCode::InvalidPath,
        format!("the query cannot be read: {}", error.body_text()),
        "compare the query with /openapi.json; unknown names are refused",
    )
}

fn no_fact(gate: &Gate, id: &FactId) -> HttpError {
    if let Some(source) = gate.view().catalogue().source(id.ty()) {
        let message = format!("facts of type {} are external, in `{}`, and not in the ledger", id.ty(), source.adapter);
        let hint = "look there, or observe it as an agent that may: an observation reads it";
        return HttpError::new(ErrorCode::FactNotFound, message, hint);
    }
    let message = match gate.fact(id) {
        Some(fact) => format!("{id} was deleted with version {} in entry {}", fact.version(), fact.written.entry),
        None => format!("there is no {id}"),
    };
    let waiting = gate.view().held_feeds(id).count();
    let message = match waiting {
        0 => message,
        _ => format!("{message}; {waiting} of its feeds wait until no effect in flight relies on it"),
    };
    HttpError::new(ErrorCode::FactNotFound, message, "correct the type or id, or feed the fact with PUT")
}

/// The query of a page of facts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    after: Option<String>,
    limit: Option<u64>,
}

/// `GET /v1/facts/{type}`
pub async fn list(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, HttpError> {
    let Path(ty) = path.map_err(|error| bad_path(&error))?;
    let ty = FactType::new(ty).map_err(|error| HttpError::path(&error))?;
    let Query(ListQuery { after, limit }) = query.map_err(|error| bad_query(&error))?;
    let limit = within("limit", limit.unwrap_or(LIST_LIMIT.0), 1..=LIST_LIMIT.1)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if !app.gate.view().catalogue().types().contains_key(&ty) {
        return Err(Refusal::UnknownType(ty.to_string()).into());
    }
    let find = move |gate: &Gate| Ok::<_, HttpError>(first_facts(gate, &ty, after.as_deref(), limit));
    json(&app.blocking(find).await?)
}

/// The first facts of a type after an id. All facts are looked at, one shard at a time; only a page is kept.
fn first_facts(gate: &Gate, ty: &FactType, after: Option<&str>, limit: usize) -> FactList {
    let mut first: BTreeMap<String, Arc<Fact>> = BTreeMap::new();
    gate.each_fact_of(ty.as_str(), |fact| {
        if fact.value.is_none() || after.is_some_and(|after| fact.id.id() <= after) {
            return;
        }
        let is_full = first.len() > limit;
        if !is_full || first.last_key_value().is_some_and(|(last, _)| fact.id.id() < last.as_str()) {
            first.insert(fact.id.id().to_owned(), Arc::clone(fact));
        }
        if is_full && first.len() > limit + 1 {
            first.pop_last();
        }
    });
    let more = first.len() > limit;
    if more {
        first.pop_last();
    }
    let next_after = first.last_key_value().filter(|_| more).map(|(id, _)| id.clone());
    let facts = first.into_values().map(|fact| FactSummary {
        fact: fact.id.to_string(),
        version: fact.version(),
        value: fact.value.as_ref().map(Attributes::to_json).unwrap_or_default(),
        written_at: fact.written.at_ms,
        written_by: fact.written.by.to_string(),
    });
    FactList { facts: facts.collect(), next_after }
}

/// `GET /v1/facts/{type}/{id}`
pub async fn get(State(app): State<Arc<App>>, path: FactPath) -> Result<Response, HttpError> {
    let id = fact_id(path)?;
    let Some(found) = found(&app.gate, &id) else { return Err(no_fact(&app.gate, &id)) };
    let mut response = json(&found)?;
    response.headers_mut().insert(header::ETAG, etag(found.version));
    Ok(response)
}

/// A fact with what stands in the way of using it, all as of one entry.
fn found(gate: &Gate, id: &FactId) -> Option<FactResponse> {
    let now_ms = gate.now_ms();
    let view = gate.view();
    let fact = view.fact(id)?;
    let value = fact.value.as_ref()?;
    let held = |(entry, feed): (u64, &state::HeldFeed)| HeldFeed {
        entry,
        at: feed.at_ms,
        by: feed.by.to_string(),
        value: feed.value.as_ref().map(|value| value.to_json()),
    };
    Some(FactResponse {
        fact: id.to_string(),
        version: fact.version(),
        value: value.to_json(),
        written_at: fact.written.at_ms,
        written_by: fact.written.by.to_string(),
        entry: fact.written.entry,
        confirmed_at: fact.confirmed.as_ref().map(|confirmed| confirmed.at_ms),
        confirmed_by: fact.confirmed.as_ref().map(|confirmed| confirmed.by.to_string()),
        atomicity: Atomicity::Atomic,
        fenced_by: fenced_by(&view, id),
        held: view.held_feeds(id).map(held).collect(),
        claim: view.claim_on(id, now_ms).map(|claim| claim.to_string()),
    })
}

fn fenced_by(view: &Synced<'_>, id: &FactId) -> Vec<String> {
    view.fenced_by(id).map(|effect| effect.to_string()).collect()
}

fn etag(version: u64) -> HeaderValue {
    // Digits and quotes are always a header value.
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// `PUT /v1/facts/{type}/{id}`
pub async fn put(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: FactPath,
    request: Request,
) -> Result<Response, HttpError> {
    let id = fact_id(path)?;
    let if_match = if_match(request.headers())?;
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let value = fields.required("value")?;
    fields.done()?;
    let value = typed(&app.gate, &id, &value)?;
    feed(&app, caller, id, Some(value), if_match).await
}

/// `DELETE /v1/facts/{type}/{id}`
pub async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: FactPath,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let id = fact_id(path)?;
    let if_match = if_match(&headers)?;
    // Deleting what is not there would leave a version of nothing in the ledger.
    if app.gate.fact(&id).is_none_or(|fact| fact.value.is_none()) {
        return Err(no_fact(&app.gate, &id));
    }
    feed(&app, caller, id, None, if_match).await
}

/// `POST /v1/facts/{type}/{id}/confirm`
pub async fn confirm(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: FactPath,
    request: Request,
) -> Result<Response, HttpError> {
    let fact = fact_id(path)?;
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let version = fields.required("version")?;
    fields.done()?;
    let version = version.as_u64().ok_or_else(|| HttpError::field("field `version` must be a whole number"))?;
    if app.gate.fact(&fact).is_none_or(|fact| fact.value.is_none()) {
        return Err(no_fact(&app.gate, &fact));
    }
    let request = GateRequest::Confirm { by: caller.name, auth: caller.auth, fact: fact.clone(), version };
    let entered = app.enter(request).await?;
    let (entry, confirmed_at, receipt) = (entered.entry.index, entered.entry.time_ms, receipt(&entered));
    json(&FactConfirmed { fact: fact.to_string(), version, entry, confirmed_at, receipt })
}

async fn feed(
    app: &App,
    caller: Caller,
    fact: FactId,
    value: Option<Attributes>,
    if_match: Option<u64>,
) -> Result<Response, HttpError> {
    let request = GateRequest::Feed { by: caller.name, auth: caller.auth, fact: fact.clone(), value, if_match };
    let entered = app.enter(request).await?;
    let version = entered.entry.event.writes().first().map(|write| write.version);
    let held = matches!(entered.entry.event, Event::Held { .. });
    let waits_for = if held { fenced_by(&app.gate.view(), &fact) } else { Vec::new() };
    let (entry, receipt) = (entered.entry.index, receipt(&entered));
    let mut response = json(&FactWritten { fact: fact.to_string(), version, entry, held, waits_for, receipt })?;
    match version {
        Some(version) => drop(response.headers_mut().insert(header::ETAG, etag(version))),
        None => *response.status_mut() = StatusCode::ACCEPTED,
    }
    Ok(response)
}

/// Reads a value by the type of its fact. The sequencer checks it again: types may have grown since.
fn typed(gate: &Gate, id: &FactId, value: &Value) -> Result<Attributes, HttpError> {
    let Value::Object(object) = value else { return Err(HttpError::field("field `value` must be an object")) };
    let catalogue = Arc::clone(gate.view().catalogue());
    let types = catalogue.types().get(id.ty()).ok_or_else(|| Refusal::UnknownType(id.ty().to_string()))?;
    let invalid = |problem: String| Refusal::InvalidValue { fact: id.clone(), problem };
    let value = Attributes::from_json(object, types).map_err(|error| invalid(error.to_string()))?;
    let mut canonical = Canonical::new();
    value.write(&mut canonical);
    let bytes = canonical.as_str().len();
    if bytes > FACT_BYTES_MAX {
        return Err(invalid(format!("it has {bytes} bytes; a fact has at most {FACT_BYTES_MAX}")).into());
    }
    Ok(value)
}

/// The version that a fact must have: one strong entity tag, which is the version in quotes.
fn if_match(headers: &HeaderMap) -> Result<Option<u64>, HttpError> {
    let mut values = headers.get_all(header::IF_MATCH).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    match value.to_str().ok().and_then(version_in_tag).filter(|_| values.next().is_none()) {
        Some(version) => Ok(Some(version)),
        None => Err(HttpError::new(
            ErrorCode::InvalidHeader,
            "the header `If-Match` does not hold one version",
            "send the version in quotes, as the `ETag` of GET has it: `If-Match: \"7\"`; \"0\" for a fact that never was",
        )),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    before: Option<u64>,
    limit: Option<u64>,
}

/// `GET /v1/facts/{type}/{id}/history`
pub async fn history(
    State(app): State<Arc<App>>,
    path: FactPath,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Response, HttpError> {
    let id = fact_id(path)?;
    let Query(query) = query.map_err(|error| bad_query(&error))?;
    if app.gate.fact(&id).is_none() {
        return Err(no_fact(&app.gate, &id));
    }
    let (usual, most) = HISTORY_LIMIT;
    let limit = within("limit", query.limit.unwrap_or(usual), 1..=most)?;
    let limit = usize::try_from(limit).unwrap_or(1);
    let before = query.before.map_or(Ok(u64::MAX), |before| position("before", before))?;
    let asked = id.clone();
    let (versions, erased_at_entry) = app.blocking(move |gate| gate.history(&asked, before, limit)).await?;
    let oldest = versions.last().map(|version| version.version);
    let more = versions.len() >= limit && erased_at_entry.is_none();
    json(&HistoryResponse {
        fact: id.to_string(),
        versions: versions
            .into_iter()
            .map(|version| FactVersion {
                version: version.version,
                value: version.value.as_ref().map(|value| value.to_json()),
                written_at: version.written_at_ms,
                written_by: version.written_by.to_string(),
                entry: version.entry,
            })
            .collect(),
        next_before: oldest.filter(|oldest| more && *oldest > 1),
        erased_at_entry,
    })
}
