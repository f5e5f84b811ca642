//! Effects that leave the building: where they are, waiting for them, and resolving doubts.

mod describe;

use self::describe::{Described, Told as ToldEffect, describe, for_its_agent};
use super::caller::Caller;
use super::error::HttpError;
use super::facts::{bad_path, bad_query};
use super::verdict::{self, Told};
use super::{App, body, json};
use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use countersign_api::routes::WAIT_MS_MAX;
use countersign_api::{EffectList, ErrorCode, VerdictKind};
use countersign_core::call::{EffectId, Outcome};
use countersign_core::effect::{EffectRefusal, Phase};
use countersign_core::identity::HolderKind;
use countersign_core::ids::{ActionId, AgentId};
use countersign_engine::gate::{Gate, LogError, StoredEntry};
use countersign_engine::request::{self, Refusal};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long a request may wait for an effect.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    #[serde(default)]
    wait_ms: u64,
}

/// The query of whatever may wait.
pub type Wait = Result<Query<WaitQuery>, QueryRejection>;

/// Reads how long a request may wait.
pub fn wait_of(query: Wait) -> Result<Duration, HttpError> {
    let Query(WaitQuery { wait_ms }) = query.map_err(|error| bad_query(&error))?;
    if wait_ms > WAIT_MS_MAX {
        let message = format!("`wait_ms` is {wait_ms}; a request waits {WAIT_MS_MAX} ms at most");
        return Err(HttpError::new(ErrorCode::InvalidPath, message, "wait for less, and ask again"));
    }
    Ok(Duration::from_millis(wait_ms))
}

type EffectPath = Result<Path<String>, PathRejection>;

fn effect_id(path: EffectPath) -> Result<EffectId, HttpError> {
    let Path(text) = path.map_err(|error| bad_path(&error))?;
    text.parse().map_err(|error: countersign_core::call::NotAnEffect| {
        HttpError::new(ErrorCode::EffectNotFound, error.to_string(), "see GET /v1/effects for what is under way")
    })
}

/// `GET /v1/effects`
pub async fn list(State(app): State<Arc<App>>, caller: Option<Extension<Caller>>) -> Result<Response, HttpError> {
    let caller = caller.map(|Extension(caller)| caller);
    let agent = caller.filter(|caller| caller.kind == Some(HolderKind::Agent)).map(|caller| caller.name);
    // Whose effects there are else is not for an agent.
    let is_shown = |of: &AgentId| agent.as_ref().is_none_or(|agent| agent == of);
    let view = app.gate.view();
    let open = view.effects_open().filter(|(_, effect)| is_shown(&effect.action.agent)).map(|(id, _)| id);
    let open: Vec<EffectId> = open.collect();
    drop(view);
    let is_agent = agent.is_some();
    let describe = move |gate: &Gate| {
        let described = open.into_iter().map(|id| describe(gate, id));
        // One that ended while the others were read is no longer under way.
        let described = described.filter(|told| !matches!(told, Err(Described::Refused(_))));
        let shown = |told: Result<ToldEffect, Described>| match told? {
            told if is_agent => {
                show_labels(gate, &told)?;
                Ok(for_its_agent(gate, told)?)
            }
            told => Ok(told.effect),
        };
        described.map(shown).collect::<Result<Vec<_>, HttpError>>()
    };
    json(&EffectList { effects: app.blocking(describe).await? })
}

/// `GET /v1/effects/{effect}`
pub async fn show(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Caller>>,
    path: EffectPath,
    query: Wait,
) -> Result<Response, HttpError> {
    let (id, wait) = (effect_id(path)?, wait_of(query)?);
    let caller = caller.map(|Extension(caller)| caller);
    let mut told = app.blocking(move |gate| describe(gate, id)).await?;
    let is_agent = caller.as_ref().is_some_and(|caller| caller.kind == Some(HolderKind::Agent));
    // Asked before anything is waited for, and answered as if there were none: whose effects there are is not for others.
    if is_agent && caller.as_ref().is_some_and(|caller| told.effect.agent != caller.name.as_str()) {
        return Err(Refusal::Effect(EffectRefusal::NotFound(id)).into());
    }
    let waits = caller.map_or_else(AgentId::gate, |caller| caller.name);
    if app.until_settled(id, &waits, wait).await {
        told = app.blocking(move |gate| describe(gate, id)).await?;
    }
    if is_agent {
        let shown = move |gate: &Gate| {
            show_labels(gate, &told)?;
            Ok::<_, HttpError>(for_its_agent(gate, told)?)
        };
        return json(&app.blocking(shown).await?);
    }
    json(&told.effect)
}

/// Enters that an agent is told again what came of its call, where that has labels: it may be long after it was told first.
fn show_labels(gate: &Gate, told: &ToldEffect) -> Result<(), HttpError> {
    let mut entries = told.entries();
    let Some(first) = entries.next().filter(|_| gate.has_labels()) else { return Ok(()) };
    let intent = gate.read_log(first)?.decode()?;
    let latest = entries.last().map(|latest| gate.read_log(latest)?.decode()).transpose()?;
    Ok(gate.show_again(&intent, latest.as_ref().unwrap_or(&intent))?)
}

/// `POST /v1/effects/{effect}/resolve`
pub async fn resolve(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: EffectPath,
    request: Request,
) -> Result<Response, HttpError> {
    let effect = effect_id(path)?;
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let (outcome, reason) = (fields.string("outcome")?, fields.string("reason")?.into());
    fields.done()?;
    let outcome = Outcome::parse(&outcome).filter(|outcome| *outcome != Outcome::InDoubt);
    let outcome = outcome.ok_or_else(|| HttpError::field("field `outcome` must be `settled` or `failed`"))?;
    let Caller { name: by, auth, .. } = caller;
    // Final once it is in doubt: nothing is sent again after that. What cannot be described is for the gate to refuse, by role first.
    let described = app.blocking(move |gate| describe(gate, effect)).await;
    let attempts = described.ok().and_then(|told| told.effect.evidence).map_or(0, |evidence| evidence.attempts);
    app.enter(request::Request::Resolve { by, auth, effect, outcome, attempts, reason }).await?;
    json(&app.blocking(move |gate| describe(gate, effect)).await?.effect)
}

impl App {
    /// Waits until an effect has ended or is in doubt, or time is up; not at all where the caller, or all together, wait for as
    /// many as they may. Says whether it waited.
    pub(super) async fn until_settled(&self, id: EffectId, caller: &AgentId, wait: Duration) -> bool {
        let Some(_place) = (!wait.is_zero()).then(|| self.waits.begin(caller)).flatten() else { return false };
        let until = Instant::now() + wait;
        loop {
            let (moved, moves) = oneshot::channel();
            // First listen, then look: nothing can fall between.
            let told = move || {
                // Anyone who has stopped waiting need not be told.
                let _ = moved.send(());
            };
            let listening = self.gate.moves().once(id, Box::new(told));
            let is_under_way = match self.gate.view().effect(id) {
                Ok(effect) => !matches!(effect.phase, Phase::InDoubt { .. }),
                Err(_) => false,
            };
            if !is_under_way || tokio::time::timeout_at(until, moves).await.is_err() {
                self.gate.moves().cancel(listening);
                return true;
            }
        }
    }

    /// The verdict on an action whose latest entry is this one.
    pub(super) async fn stored_verdict(&self, entry: u64) -> Result<Told, HttpError> {
        self.stored_verdict_on(entry, None).await
    }

    /// The same on one of the actions that an entry speaks of: a rejected group has several.
    pub(super) async fn stored_verdict_on(&self, entry: u64, action: Option<ActionId>) -> Result<Told, HttpError> {
        let read = move |gate: &Gate| {
            let latest = gate.read_log(entry)?;
            let receipt = gate.receipt(entry)?.encode();
            let intent = match effect_in(&latest)? {
                Some(effect) => Some(gate.read_log(effect)?),
                None => None,
            };
            if gate.has_labels() {
                // It may be told long after it was told first.
                let entry = latest.decode()?;
                let first = intent.as_ref().map(StoredEntry::decode).transpose()?;
                gate.show_again(first.as_ref().unwrap_or(&entry), &entry)?;
            }
            Ok::<_, HttpError>((latest, intent, receipt))
        };
        let (latest, intent, receipt) = self.blocking(read).await?;
        // What was parked and then refused is answered with both: why it was parked, and who refused it.
        if let Some(refusal) = verdict::refusal(&latest)? {
            let review = refusal.review;
            let parked = self.blocking(move |gate| gate.read_log(review)).await?;
            let verdict = verdict::of_refused(&self.gate, &parked, refusal, receipt)?;
            return Ok(Told { verdict, under_way: None });
        }
        let verdict = match &intent {
            Some(intent) => verdict::of_effect(&self.gate, intent, &latest, Some(receipt)),
            None => verdict::of_stored_action(&self.gate, &latest, Some(receipt), action),
        }?;
        let began = intent.map_or(latest.index, |intent| intent.index);
        let under_way = (verdict.verdict == VerdictKind::InFlight).then_some(EffectId(began));
        Ok(Told { verdict, under_way })
    }
}

/// The effect that a dispatch or settlement speaks of.
fn effect_in(stored: &StoredEntry) -> Result<Option<u64>, LogError> {
    Ok(stored.leaf()?.effect)
}
