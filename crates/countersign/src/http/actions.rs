//! What agents do: observe, act, check.

use super::caller::Caller;
use super::error::{HttpError, denied};
use super::numbers::index;
use super::rate::{Empty, cost, too_often};
use super::verdict::{self, Told};
use super::{App, body, effects, json, receipt, sessions};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use countersign_api::{Attested, ErrorCode, ObserveResponse, ObservedFact, Verdict};
use countersign_core::denial::DenialCode;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::limits::{ATTESTED_BYTES_MAX, READS_MAX};
use countersign_core::record::{Kind, Leaf};
use countersign_core::session::SessionName;
use countersign_engine::gate::{self, ExternalFacts, Gate, LogError, NotObservable, ShownFact};
use countersign_engine::request::{self, Answer};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `POST /v1/observe`
pub async fn observe(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let facts = fields.required("facts")?;
    let (answers, attest) = (fields.flag("answers")?, fields.flag("attest")?);
    let session: Option<SessionName> = match fields.take("session") {
        None => None,
        Some(Value::String(name)) => Some(sessions::parsed(&name)?),
        Some(_) => return Err(HttpError::field("field `session` must be the name of a session")),
    };
    fields.done()?;
    let ids = fact_ids(facts)?;
    if let Some(session) = session {
        app.gate.may_read_in((session, &caller.name, &caller.auth))?;
    }
    let is_external = app.is_external(&ids);
    if is_external {
        app.gate.may_observe(&caller.name, &ids)?;
    }
    if attest {
        app.charge_attested(&caller)?;
    }
    let outside = if is_external { app.read_outside(&caller.name, &ids).await? } else { ExternalFacts::default() };
    let who = (caller.name.clone(), caller.auth.clone());
    let waits = attest || app.gate.counts_observing(&caller.name, &ids);
    let show = move |gate: &Gate| gate.show(who, ids, &outside, attest);
    let (observed, attested) = if waits { app.blocking(show).await? } else { show(&app.gate)? };
    let attested = attested.as_ref().map(proof).transpose()?;
    let observed = match session.filter(|_| is_external) {
        None => observed,
        // Durable before anything of it is handed out.
        Some(session) => {
            let (adapters, who) = (Arc::clone(&app.adapters), (session, caller.name, caller.auth));
            app.blocking(move |gate| gate.keep_observed(who, &observed, &adapters).map(|()| observed)).await?
        }
    };
    let outdated = session.map(|session| app.gate.outdated(session.id)).unwrap_or_default();
    json(&ObserveResponse {
        observation: observed.token,
        observed_at: observed.observed_at_ms,
        position: observed.position,
        facts: observed.facts.into_iter().map(|fact| shown(fact, answers)).collect(),
        outdated: outdated.iter().map(sessions::outdated).collect(),
        attested,
    })
}

/// What proves to others what an agent was shown.
fn proof(attested: &gate::Attested) -> Result<Attested, HttpError> {
    let gate::Attested { entered, opening } = attested;
    let receipt = receipt(entered).ok_or_else(|| HttpError::internal("an entry has no receipt"))?;
    let entry = entered.entry.index;
    let salt = opening.salt.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Attested { entry, receipt, salt, payload: opening.payload.clone() })
}

pub fn fact_ids(facts: Value) -> Result<Vec<FactId>, HttpError> {
    let Value::Array(items) = facts else { return Err(HttpError::field("field `facts` must be an array of strings")) };
    if items.is_empty() || items.len() > READS_MAX {
        return Err(HttpError::field(format!(
            "field `facts` must name 1 to {READS_MAX} facts, it names {}",
            items.len()
        )));
    }
    let mut ids: Vec<FactId> = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let text = item.as_str().ok_or_else(|| HttpError::field("field `facts` must be an array of strings"))?;
        let id: FactId = text.parse().map_err(|error| HttpError::field(format!("fact {}: {error}", at + 1)))?;
        if ids.contains(&id) {
            return Err(HttpError::field(format!("fact {}: {id} is named twice", at + 1)));
        }
        ids.push(id);
    }
    Ok(ids)
}

fn shown(shown: ShownFact, answers: bool) -> ObservedFact {
    ObservedFact {
        fact: shown.id.to_string(),
        version: shown.version.number(),
        // It is made of the whole value, so it would let an agent guess what is withheld.
        digest: shown.version.digest().filter(|_| shown.withheld.is_empty()).map(|digest| digest.to_string()),
        value: shown.value.as_ref().map(|value| value.to_json()),
        withheld: shown.withheld.iter().map(ToString::to_string).collect(),
        written_at: shown.written_at_ms,
        atomicity: verdict::on_the_wire(shown.atomicity),
        answer: shown.answer.filter(|_| answers),
    }
}

/// `POST /v1/actions`
pub async fn act(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: effects::Wait,
    request: Request,
) -> Result<Response, HttpError> {
    let started = Instant::now();
    let wait = effects::wait_of(query)?;
    let body = body::text(request).await?;
    let action = app.admit(caller, body).await?;
    let (agent, id) = (action.agent.clone(), action.id);
    let submitted = app.submit(request::Request::Act(Box::new(action))).await.inspect_err(|error| {
        if error.code == ErrorCode::TooManyKeys {
            app.gate.deny(&agent, DenialCode::TooManyKeys, "");
        }
    });
    let told = match submitted? {
        Answer::Entered(entered) => verdict::of_entry(&app.gate, &entered)
            .ok_or_else(|| HttpError::internal("an action became an entry of another kind"))?,
        // Of a rejected group that it was part of, what is said of this action.
        Answer::Repeated(entry) => app.stored_verdict_on(entry, Some(id)).await?,
        Answer::Many(_) => return Err(HttpError::internal("one action was answered as several")),
    };
    app.metrics.action_took(started.elapsed());
    json(&app.settled_verdict(told, &agent, wait).await?)
}

/// `GET /v1/actions/{entry}`
pub async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: Result<Path<u64>, PathRejection>,
    query: effects::Wait,
) -> Result<Response, HttpError> {
    let entry = index(path)?;
    let wait = effects::wait_of(query)?;
    let not_found = || {
        let message = format!("entry {entry} holds no action of {}", caller.name);
        HttpError::new(ErrorCode::ActionNotFound, message, "name the `entry` of a verdict on an action of your own")
    };
    if entry >= app.gate.view().position {
        return Err(not_found());
    }
    // An approval executes someone's action: the entry that was parked says whose.
    let asked = app.blocking(move |gate| leaf_of(gate, entry)).await?;
    let leaf = match asked.review.filter(|_| asked.kind == Kind::Approval) {
        Some(parked) => app.blocking(move |gate| leaf_of(gate, parked)).await?,
        None => asked,
    };
    if !matches!(leaf.kind, Kind::Action | Kind::Shadow | Kind::Group) || leaf.by != caller.name {
        return Err(not_found());
    }
    let latest = app.gate.view().latest_of(entry);
    json(&app.settled_verdict(app.stored_verdict(latest).await?, &caller.name, wait).await?)
}

fn leaf_of(gate: &Gate, entry: u64) -> Result<Leaf, LogError> {
    gate.read_log(entry)?.leaf()
}

impl App {
    /// Whether one of these facts is kept elsewhere, so that reading it means waiting.
    fn is_external(&self, ids: &[FactId]) -> bool {
        let view = self.gate.view();
        ids.iter().any(|id| view.catalogue().source(id.ty()).is_some())
    }

    /// Reads those of the facts that live elsewhere, for an agent.
    async fn read_outside(&self, agent: &AgentId, ids: &[FactId]) -> Result<ExternalFacts, HttpError> {
        let reading = self.external_reads.begin(agent).ok_or_else(|| self.reads_too_much(agent))?;
        let (asked, adapters, agent) = (ids.to_vec(), Arc::clone(&self.adapters), agent.clone());
        let read = move |gate: &Gate| match gate.read_external(&asked, &adapters) {
            Err(unread) if !gate.may_be_told_of(&agent, &unread.fact) => {
                Err(HttpError::from(NotObservable { agent, facts: vec![unread.fact] }))
            }
            read => read.map_err(HttpError::from),
        };
        self.blocking(move |gate| (read(gate), drop(reading)).0).await
    }

    /// Charges what an observation costs that is an entry, beyond the request: what it writes is larger than what was sent.
    fn charge_attested(&self, caller: &Caller) -> Result<(), HttpError> {
        let Some(key) = caller.auth.key() else { return Ok(()) };
        match self.rates.charge_key(&key.public_key(), cost(ATTESTED_BYTES_MAX)) {
            Ok(_) => Ok(()),
            Err(Empty) => {
                self.gate.deny(&caller.name, DenialCode::RateLimited, "/v1/observe");
                Err(too_often(caller.name.as_str()))
            }
        }
    }

    /// What an agent is told that has too many external reads in progress.
    pub(super) fn reads_too_much(&self, agent: &AgentId) -> HttpError {
        self.gate.deny(agent, DenialCode::RateLimited, "external reads");
        denied(
            DenialCode::RateLimited,
            format!("{agent} has too many external reads in progress, or all agents together have"),
        )
    }

    /// The verdict, or what became of its call within this time.
    pub(super) async fn settled_verdict(
        &self,
        told: Told,
        agent: &AgentId,
        wait: Duration,
    ) -> Result<Verdict, HttpError> {
        let Told { verdict, under_way } = told;
        let Some(effect) = under_way.filter(|_| !wait.is_zero()) else { return Ok(verdict) };
        self.until_settled(effect, agent, wait).await;
        let latest = self.gate.view().latest_of_effect(effect);
        match latest.filter(|latest| *latest != effect.0) {
            Some(latest) => Ok(Verdict { repeated: verdict.repeated, ..self.stored_verdict(latest).await?.verdict }),
            None => Ok(verdict),
        }
    }
}

/// `POST /v1/actions/check`
pub async fn check(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let body = body::text(request).await?;
    let action = app.admit(caller, body).await?;
    json(&verdict::of_check(&app.gate, &action, &app.gate.check(&action)))
}
