//! Sessions: opened, read in by the gate for its agent, closed.

use super::caller::Caller;
use super::error::{HttpError, unread};
use super::facts::bad_path;
use super::{App, body, json};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use countersign_api::{EndedCall, ErrorCode, Outdated, ReadResponse, SessionClosed, SessionOpened, WordsAdded};
use countersign_core::canonical::Canonical;
use countersign_core::identity::HolderKind;
use countersign_core::ids::{AgentId, check_id};
use countersign_core::session::{Attached, NotASession, Place, SessionName, as_sent};
use countersign_engine::gate::{self, Gate, NotReadIn};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::sync::Arc;

type SessionPath = Result<Path<String>, PathRejection>;

/// `POST /v1/sessions`
pub async fn open(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let follows = match fields.take("follows") {
        None => None,
        Some(Value::String(name)) => Some(parsed(&name)?),
        Some(_) => return Err(HttpError::field("field `follows` must be the name of a session")),
    };
    if caller.kind == Some(HolderKind::Operator) {
        return open_for(&app, caller, follows.is_none(), fields).await;
    }
    fields.done()?;
    let follows = follows.map(|name: SessionName| name.id);
    let open = move |gate: &Gate| match follows.filter(|follows| gate.is_session_of(*follows, &caller.name)) {
        // In this order: from its place on no one else reads in it, and a call that ends in between has added to what was read.
        Some(follows) => {
            let name = gate.follow_session(follows, caller.name, caller.auth)?;
            let open = gate.calls_open_in(follows);
            Ok((name, gate.places_read(follows), open, gate.calls_ended_in(follows)))
        }
        None => gate.open_session(caller.name, caller.auth).map(|opened| (opened, Vec::new(), Vec::new(), Vec::new())),
    };
    let (session, unsure, open, ended) = app.blocking(open).await?;
    json(&SessionOpened {
        session: session.to_string(),
        unsure: unsure.iter().map(|place| place.name().to_string()).collect(),
        open: open.iter().map(ToString::to_string).collect(),
        ended: ended.into_iter().map(ended_call).collect(),
    })
}

/// Opens a session for an agent. Only the front end says what is attached to it.
async fn open_for(app: &App, caller: Caller, is_new: bool, mut fields: body::Fields) -> Result<Response, HttpError> {
    if !is_new {
        return Err(HttpError::field("field `follows` is for agents, who go on in sessions of their own"));
    }
    let agent = AgentId::new(fields.string("agent")?).map_err(|error| HttpError::field(error.to_string()))?;
    let words = match fields.take("words") {
        Some(words) => texts("words", words)?,
        None => Vec::new(),
    };
    let task = fields.take("task").map(|task| texts("task", task)).transpose()?;
    let is_clean = match fields.take("clean") {
        None => false,
        Some(Value::Bool(clean)) => clean,
        Some(_) => return Err(HttpError::field("field `clean` must be true or false")),
    };
    fields.done()?;
    let attached = Attached { words, task, is_clean };
    attached.check().map_err(HttpError::field)?;
    let by = (caller.name, caller.auth);
    let session = app.blocking(move |gate| gate.open_session_for(by, agent, attached)).await?;
    json(&SessionOpened { session: session.to_string(), unsure: Vec::new(), open: Vec::new(), ended: Vec::new() })
}

/// `POST /v1/sessions/{session}/words`
pub async fn say(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: SessionPath,
    request: Request,
) -> Result<Response, HttpError> {
    let session = named(path)?;
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let words = texts("words", fields.required("words")?)?;
    fields.done()?;
    let by = (caller.name, caller.auth);
    app.blocking(move |gate| gate.say_in(by, session, words)).await?;
    json(&WordsAdded { session: session.to_string() })
}

fn texts(field: &str, value: Value) -> Result<Vec<SmolStr>, HttpError> {
    let not_texts = || HttpError::field(format!("field `{field}` must be an array of strings"));
    let Value::Array(items) = value else { return Err(not_texts()) };
    items.iter().map(|item| item.as_str().map(SmolStr::from).ok_or_else(not_texts)).collect()
}

/// `POST /v1/sessions/{session}/close`
pub async fn close(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: SessionPath,
    request: Request,
) -> Result<Response, HttpError> {
    let session = named(path)?;
    body::Fields::parse(&body::text(request).await?)?.done()?;
    app.blocking(move |gate| gate.close_session(session, caller.name)).await?;
    json(&SessionClosed { session: session.to_string() })
}

/// `POST /v1/sessions/{session}/readings`
pub async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: SessionPath,
    request: Request,
) -> Result<Response, HttpError> {
    let session = named(path)?;
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let (upstream, tool) = (fields.string("upstream")?, fields.string("tool")?);
    let arguments = match fields.take("arguments") {
        None => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments,
        Some(_) => return Err(HttpError::field("field `arguments` must be an object")),
    };
    fields.done()?;
    for name in [&upstream, &tool] {
        check_id(name).map_err(|error| HttpError::field(error.to_string()))?;
    }
    let mut canonical = Canonical::new();
    canonical.json(&arguments);
    let place = Place { upstream: upstream.into(), tool: tool.into(), arguments: canonical.as_str().into() };
    let name = place.name().to_string();
    let reading = app.external_reads.begin(&caller.name).ok_or_else(|| app.reads_too_much(&caller.name))?;
    let adapters = Arc::clone(&app.adapters);
    let (agent, auth) = (caller.name, caller.auth);
    let read = move |gate: &Gate| {
        let read = gate.read_in((session, agent, auth), place, &adapters);
        drop(reading);
        read
    };
    let read = app.blocking(read).await?;
    json(&ReadResponse {
        session: session.to_string(),
        entry: read.entry,
        unkept: !read.is_kept,
        read_at: read.at_ms,
        name,
        answer: read.answer.answer,
        outdated: app.gate.outdated(session.id).iter().map(outdated).collect(),
    })
}

fn ended_call(ended: gate::EndedCall) -> EndedCall {
    let (upstream, tool) = ended.tool.unzip();
    let text = |text: SmolStr| text.to_string();
    EndedCall { effect: ended.effect.to_string(), upstream: upstream.map(text), tool: tool.map(text) }
}

/// A reading that is known to be outdated, as it goes on the wire.
pub fn outdated(outdated: &gate::Outdated) -> Outdated {
    let gate::Outdated { place, since_ms, after } = outdated;
    Outdated {
        upstream: place.upstream.to_string(),
        tool: place.tool.to_string(),
        arguments: as_sent(&place.arguments).into_owned(),
        since: *since_ms,
        after: after.map(|effect| effect.to_string()),
    }
}

fn named(path: SessionPath) -> Result<SessionName, HttpError> {
    let Path(name) = path.map_err(|error| bad_path(&error))?;
    name.parse().map_err(|error: NotASession| {
        HttpError::new(ErrorCode::SessionNotFound, error.to_string(), "open a session with POST /v1/sessions")
    })
}

/// The session of a name in a body.
pub fn parsed(name: &str) -> Result<SessionName, HttpError> {
    name.parse().map_err(|error: NotASession| HttpError::field(error.to_string()))
}

impl From<NotReadIn> for HttpError {
    fn from(not_read: NotReadIn) -> Self {
        match not_read {
            NotReadIn::Refused(refusal) => refusal.into(),
            NotReadIn::NoAnswer(why) => {
                unread(&why, why.to_string(), "nothing was read; try again, or look at the server")
            }
        }
    }
}
