//! The ledger: its entries, their receipts, proofs that it only grew, and erasures.

mod search;

use self::search::PageQuery;
use super::caller::Caller;
use super::error::HttpError;
use super::facts::bad_query;
use super::numbers::{index, position};
use super::{App, body, json};
use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use countersign_api::routes::PAGE_MAX;
use countersign_api::{
    ConsistencyResponse, EntriesResponse, EntryResponse, ErasureResponse, ErrorCode, KeptEntry, ReceiptResponse,
};
use countersign_core::identity::HolderKind;
use countersign_core::ids::FactId;
use countersign_core::limits::REASON_BYTES_MAX;
use countersign_core::record::ShownEntry;
use countersign_engine::gate::{EraseError, ErasePlan, Gate, LogError, StoredEntry};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

/// How many entries one page has unless told, and at most: a page of the largest entries must still fit in memory.
const PAGE: (u64, u64) = (100, PAGE_MAX);

/// Most entries that one erasure names: the leaf of the erasure lists them all and has at most 64 KiB.
const ERASED_AT_ONCE_MAX: usize = 2048;

/// How often a proof is made again because the log grew meanwhile.
const PROVE_TRIES_MAX: usize = 32;

type IndexPath = Result<Path<u64>, PathRejection>;

/// `GET /v1/ledger/entries`
pub async fn entries(
    State(app): State<Arc<App>>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Response, HttpError> {
    let Query(query) = query.map_err(|error| bad_query(&error))?;
    query.check()?;
    let page = app.blocking(move |gate| query.page(gate)).await?;
    let entries = page.entries.into_iter().map(shown).collect::<Result<Vec<_>, _>>()?;
    json(&EntriesResponse { entries, size: page.size, next: page.next })
}

/// `GET /v1/ledger/entries/{index}`
pub async fn entry(State(app): State<Arc<App>>, path: IndexPath) -> Result<Response, HttpError> {
    let index = index(path)?;
    json(&app.blocking(move |gate| gate.read_log(index).and_then(shown)).await?)
}

/// An entry as people and programs are shown it. Its bytes are in the tiles and in its receipt.
fn shown(stored: StoredEntry) -> Result<EntryResponse, LogError> {
    let index = stored.index;
    let raw = |text| RawValue::from_string(text).map_err(|error| stored.damaged(error));
    let ShownEntry { leaf, payload } = stored.show()?;
    let erased = payload.is_none();
    Ok(EntryResponse { index, leaf: raw(leaf)?, payload: payload.map(raw).transpose()?, erased })
}

/// `GET /v1/ledger/receipts/{index}`
pub async fn receipt(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Caller>>,
    path: IndexPath,
) -> Result<Response, HttpError> {
    let index = index(path)?;
    if let Some(Extension(caller)) = caller.filter(|caller| caller.kind == Some(HolderKind::Agent)) {
        own(&app, &caller, index).await?;
    }
    let receipt = app.blocking(move |gate| gate.receipt(index)).await?;
    json(&ReceiptResponse { entry: index, receipt: receipt.encode() })
}

/// Refuses an agent that asks for the receipt of what was not its own.
async fn own(app: &App, caller: &Caller, index: u64) -> Result<(), HttpError> {
    let stored = app.blocking(move |gate| gate.read_log(index)).await?;
    if stored.leaf()?.by == caller.name {
        return Ok(());
    }
    let message = format!("entry {index} is not of {}", caller.name);
    Err(HttpError::new(ErrorCode::NotAuthorised, message, "agents are given the receipts of their own actions"))
}

/// The query of a consistency proof.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsistencyQuery {
    old: u64,
}

/// `GET /v1/ledger/consistency`
pub async fn consistency(
    State(app): State<Arc<App>>,
    query: Result<Query<ConsistencyQuery>, QueryRejection>,
) -> Result<Response, HttpError> {
    let Query(ConsistencyQuery { old }) = query.map_err(|error| bad_query(&error))?;
    let old = position("old", old)?;
    let prove = move |gate: &Gate| {
        let (mut new, mut proof) = gate.consistency(old)?;
        for _ in 0..PROVE_TRIES_MAX {
            // The log may grow between the proof and the checkpoint: both must speak of one size.
            let checkpoint = gate.checkpoint();
            if gate.view().position == new {
                return Ok::<_, LogError>((new, proof, Some(checkpoint.to_string())));
            }
            (new, proof) = gate.consistency(old)?;
        }
        Ok((new, proof, None))
    };
    let (new, proof, checkpoint) = app.blocking(prove).await?;
    let proof = proof.iter().map(|hash| hash.0.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    json(&ConsistencyResponse { old, new, proof, checkpoint })
}

enum Erase {
    Entries(Vec<u64>),
    Fact(FactId),
}

/// `POST /v1/ledger/erasures`
pub async fn erase(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let what = match (fields.take("entries"), fields.take("fact")) {
        (Some(entries), None) => Erase::Entries(indices(&entries)?),
        (None, Some(Value::String(fact))) => {
            Erase::Fact(fact.parse().map_err(|error| HttpError::field(format!("field `fact`: {error}")))?)
        }
        (None, Some(_)) => return Err(HttpError::field("field `fact` must be a string")),
        _ => return Err(HttpError::field("exactly one of the fields `entries` and `fact` must be there")),
    };
    let reason = fields.string("reason")?;
    let dry_run = match fields.take("dry_run") {
        None => false,
        Some(Value::Bool(dry_run)) => dry_run,
        Some(_) => return Err(HttpError::field("field `dry_run` must be true or false")),
    };
    fields.done()?;
    if matches!(what, Erase::Fact(_)) && !dry_run {
        let message = "an erasure names entries: its request is kept for ever, and must not hold the fact's id";
        let hint = "ask with `dry_run` first, then send the `entries` that it lists under `erased`";
        return Err(HttpError::new(ErrorCode::InvalidField, message, hint));
    }
    if reason.trim().is_empty() || reason.len() > REASON_BYTES_MAX {
        return Err(HttpError::field(format!("field `reason` must have 1 to {REASON_BYTES_MAX} bytes")));
    }
    json(&app.blocking(move |gate| erase_all(gate, &caller, what, &reason, dry_run)).await?)
}

fn erase_all(
    gate: &Gate,
    caller: &Caller,
    what: Erase,
    reason: &str,
    dry_run: bool,
) -> Result<ErasureResponse, EraseError> {
    let plan = match what {
        // A plan that would be refused is no plan.
        Erase::Entries(entries) if dry_run => ErasePlan { entries: gate.check_erase(&entries)?, kept: Vec::new() },
        Erase::Entries(entries) => ErasePlan { entries, kept: Vec::new() },
        Erase::Fact(fact) => gate.erase_plan(&fact)?,
    };
    let mut records = Vec::new();
    for entries in plan.entries.chunks(ERASED_AT_ONCE_MAX).filter(|_| !dry_run) {
        records.push(gate.erase(caller.name.clone(), caller.auth.clone(), entries, reason.to_owned())?);
    }
    let kept = plan.kept.into_iter().map(|(entry, why)| KeptEntry {
        entry,
        why: why.to_string(),
        hint: why.hint().to_owned(),
        until: why.until_ms(),
    });
    Ok(ErasureResponse { records, erased: plan.entries, kept: kept.collect() })
}

fn indices(entries: &Value) -> Result<Vec<u64>, HttpError> {
    let wrong =
        || HttpError::field(format!("field `entries` must be an array of 1 to {ERASED_AT_ONCE_MAX} entry numbers"));
    let items = entries.as_array().filter(|items| (1..=ERASED_AT_ONCE_MAX).contains(&items.len())).ok_or_else(wrong)?;
    let mut indices = items.iter().map(Value::as_u64).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    indices.sort_unstable();
    indices.dedup();
    Ok(indices)
}
