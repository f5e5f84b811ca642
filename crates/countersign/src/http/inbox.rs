//! Inboxes: what waits for the caller, page by page or as it comes, and acknowledging it.

mod follow;

use super::caller::Caller;
use super::error::{HttpError, denied};
use super::facts::bad_query;
use super::numbers::within;
use super::{App, body, effects, json, receipt};
use crate::connections::Slot;
use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use countersign_api::routes::PAGE_MAX;
use countersign_api::{Acknowledged, ErrorCode, InboxPage, MessageWithheld, ReceivedMessage};
use countersign_core::decide::Withheld;
use countersign_core::decision::PactRef;
use countersign_core::denial::DenialCode;
use countersign_core::ids::AgentId;
use countersign_core::message::{MessageId, NotAMessage};
use countersign_core::record::Event;
use countersign_engine::gate::{self, Content, Gate, InboxError, Received};
use countersign_engine::request::{self, Answer};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How many messages a page has unless told.
const USUAL: u64 = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InboxQuery {
    after: Option<String>,
    limit: Option<u64>,
    #[serde(default)]
    wait_ms: u64,
}

/// `GET /v1/inbox`
pub async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    slot: Option<Extension<Arc<Slot>>>,
    headers: HeaderMap,
    query: Result<Query<InboxQuery>, QueryRejection>,
) -> Result<Response, HttpError> {
    let Query(InboxQuery { after, limit, wait_ms }) = query.map_err(|error| bad_query(&error))?;
    let after = after.as_deref().map(named).transpose()?;
    let limit = within("limit", limit.unwrap_or(USUAL), 1..=PAGE_MAX)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let wait = effects::wait(wait_ms)?;
    if wants_events(&headers) {
        let place = app.followed.begin(&caller.name).ok_or_else(|| app.follows_too_much(&caller.name))?;
        // Refused as any other request would be, before anything is sent.
        app.page(&caller, after, 1).await?;
        return Ok(follow::stream(app, caller, after, slot.map(|Extension(slot)| slot), place));
    }
    let mut page = app.page(&caller, after, limit).await?;
    if page.messages.is_empty() && app.until_arrived(&caller, after, wait).await {
        page = app.page(&caller, after, limit).await?;
    }
    let next = page.messages.last().filter(|_| page.has_more).map(|last| last.id.to_string());
    json(&InboxPage {
        position: page.position,
        messages: page.messages.into_iter().map(received).collect(),
        next,
        waiting: page.waiting as u64,
    })
}

/// `POST /v1/inbox/ack`
pub async fn acknowledge(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let named = message_ids(&fields.required("messages")?)?;
    fields.done()?;
    let Caller { name: by, auth, .. } = caller;
    let request = request::Request::Acknowledge { by: by.clone(), auth, messages: named.clone() };
    let (entry, acknowledged, receipt) = match app.submit(request).await? {
        Answer::Entered(entered) => {
            let Event::Acknowledgement { messages } = &entered.entry.event else {
                return Err(HttpError::internal("an acknowledgement became an entry of another kind"));
            };
            (Some(entered.entry.index), messages.clone(), receipt(&entered))
        }
        Answer::Repeated(_) => (None, Vec::new(), None),
        Answer::Many(_) => return Err(HttpError::internal("one acknowledgement was answered as several")),
    };
    let not_waiting = named.iter().filter(|named| !acknowledged.contains(named));
    json(&Acknowledged {
        entry,
        not_waiting: not_waiting.map(ToString::to_string).collect(),
        acknowledged: acknowledged.iter().map(ToString::to_string).collect(),
        waiting: app.gate.view().waiting_for(&by).len() as u64,
        receipt,
    })
}

impl App {
    async fn page(
        &self,
        caller: &Caller,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<gate::InboxPage, HttpError> {
        let Caller { name, auth, .. } = caller.clone();
        self.blocking(move |gate: &Gate| gate.inbox(&name, &auth, after, limit)).await
    }

    /// Waits until something waits behind a message, or time is up; not at all where the caller, or all together, wait for as much as
    /// they may. Says whether it waited.
    async fn until_arrived(&self, caller: &Caller, after: Option<MessageId>, wait: Duration) -> bool {
        let Some(_place) = (!wait.is_zero()).then(|| self.waits.begin(&caller.name)).flatten() else { return false };
        let until = Instant::now() + wait;
        loop {
            let (moved, moves) = oneshot::channel();
            // First listen, then look: nothing can fall between.
            let told = move || {
                // Anyone who has stopped waiting need not be told.
                let _ = moved.send(());
            };
            let listening = self.gate.arrivals().once(caller.name.clone(), Box::new(told));
            let has_come = self.gate.view().waiting_for(&caller.name).last().is_some_and(|last| Some(last) > after);
            if has_come || tokio::time::timeout_at(until, moves).await.is_err() {
                self.gate.arrivals().cancel(listening);
                return true;
            }
        }
    }

    /// What an agent is told that follows its inbox too often at a time.
    fn follows_too_much(&self, agent: &AgentId) -> HttpError {
        self.gate.deny(agent, DenialCode::RateLimited, "/v1/inbox");
        let message = format!("{agent} follows its inbox over too many connections, or all agents together do");
        denied(DenialCode::RateLimited, message)
    }
}

/// Whether a stream is asked for, and not a page as well.
fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = || headers.get_all(header::ACCEPT).into_iter().filter_map(|accept| accept.to_str().ok());
    let takes = |kind: &str| accepts().any(|accept| accept.split(',').any(|it| it.trim().starts_with(kind)));
    takes("text/event-stream") && !takes("application/json")
}

fn named(name: &str) -> Result<MessageId, HttpError> {
    name.parse().map_err(|error: NotAMessage| {
        HttpError::new(ErrorCode::InvalidPath, error.to_string(), "name a message of an earlier page")
    })
}

fn message_ids(named: &Value) -> Result<Vec<MessageId>, HttpError> {
    let not_names = || HttpError::field("field `messages` must be an array of names of messages, such as msg_813");
    let Value::Array(items) = named else { return Err(not_names()) };
    let name = |item: &Value| {
        let text = item.as_str().ok_or_else(not_names)?;
        text.parse().map_err(|error: NotAMessage| HttpError::field(error.to_string()))
    };
    items.iter().map(name).collect()
}

/// A message, as it goes on the wire.
fn received(received: Received) -> ReceivedMessage {
    let Received { id, at_ms, from, auth, chain, pact, action, approved_by, content } = received;
    let names = |agents: Vec<AgentId>| agents.iter().map(ToString::to_string).collect();
    let on_the_wire = |PactRef { name, version, hash }| {
        let (name, hash) = (name.to_string(), hash.to_string());
        countersign_api::PactRef { name, version, hash }
    };
    let (body, erased, withheld) = match content {
        Content::Body(body) => (Some(body), false, None),
        Content::Erased => (None, true, None),
        Content::Withheld(Withheld::Halted(scope)) => (None, false, Some(("halted", scope.to_string()))),
        Content::Withheld(Withheld::NotActive(agent)) => {
            (None, false, Some((ErrorCode::AgentNotActive.as_str(), agent.to_string())))
        }
    };
    ReceivedMessage {
        message: id.to_string(),
        entry: id.0,
        at: at_ms,
        from: from.to_string(),
        auth: auth.to_owned(),
        chain: names(chain),
        pact: pact.map(on_the_wire),
        action: action.map(|action| action.to_string()),
        approved_by: approved_by.map(|by| by.to_string()),
        body,
        erased,
        withheld: withheld.map(|(code, what)| MessageWithheld { code: code.to_owned(), what }),
    }
}

impl From<InboxError> for HttpError {
    fn from(error: InboxError) -> Self {
        match error {
            InboxError::Refused(refusal) => refusal.into(),
            InboxError::Log(error) => error.into(),
        }
    }
}
