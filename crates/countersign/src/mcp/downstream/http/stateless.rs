//! Single requests: each borrows a session with its links, alone, and gives it back when it was answered. So whatever a server
//! says meanwhile is about this request, and nothing has to be told apart by what two clients may have chosen alike.

use super::{App, events, json, refused};
use crate::mcp::message::{Kind, METHOD_NOT_FOUND, Message};
use crate::mcp::observed::Observations;
use crate::mcp::session::{Ends, Session};
use axum::http::StatusCode;
use axum::response::Response;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, mpsc};

/// How many sessions are kept for the next request.
const IDLE_MAX: usize = 8;
/// How many requests may be under way at a time.
const BORROWED_MAX: usize = 64;

/// Sessions that no one uses at the moment.
pub struct Pool {
    idle: Mutex<Vec<Ends>>,
    places: Arc<Semaphore>,
    /// Single requests cannot be told apart: what one was shown, all were.
    seen: Arc<Observations>,
}

impl Default for Pool {
    fn default() -> Self {
        let seen = Arc::new(Observations::stateless());
        Self { idle: Mutex::default(), places: Arc::new(Semaphore::new(BORROWED_MAX)), seen }
    }
}

impl Pool {
    fn take(&self) -> Option<Ends> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut ends) = idle.pop() {
            // What was said after the last answer was about nothing that anyone still waits for.
            while ends.outbox.try_recv().is_ok() {}
            if !ends.inbox.is_closed() {
                return Some(ends);
            }
        }
        None
    }

    fn give_back(&self, ends: Ends) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(ends);
        }
    }
}

/// Answers one request: as JSON where the answer comes first, otherwise as a stream.
pub async fn post(app: &Arc<App>, message: Message) -> Response {
    let Ok(place) = Arc::clone(&app.pool.places).try_acquire_owned() else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "too many requests are under way");
    };
    let start = || Session::start_having_seen(&app.gateway, &app.alive, Arc::clone(&app.pool.seen));
    let mut ends = app.pool.take().unwrap_or_else(start);
    let id = message.id().map(|id| id.get().to_owned()).unwrap_or_default();
    if ends.inbox.send(message).await.is_err() {
        return refused(StatusCode::BAD_GATEWAY, "the session ended before it began");
    }
    // If the client goes away while this waits, everything here is dropped, and with the session the request is cancelled.
    let Some(first) = next(&mut ends).await else {
        return refused(StatusCode::BAD_GATEWAY, "the session ended without an answer");
    };
    if is_answer(&first, &id) {
        app.pool.give_back(ends);
        return with_status(&first);
    }
    let (events, messages) = mpsc::channel(16);
    let app = Arc::clone(app);
    tokio::spawn(async move {
        let _place = place;
        let mut message = first;
        loop {
            let done = is_answer(&message, &id);
            if events.send(message).await.is_err() {
                return;
            }
            if done {
                return app.pool.give_back(ends);
            }
            tokio::select! {
                next = next(&mut ends) => match next {
                    Some(next) => message = next,
                    None => return,
                },
                () = events.closed() => return,
            }
        }
    });
    events::stream(None, messages)
}

/// The next message for the client. What a server asks back cannot be asked of a client that made a single request: the server
/// is told so.
async fn next(ends: &mut Ends) -> Option<Message> {
    loop {
        let message = ends.outbox.recv().await?;
        match (message.kind(), message.id()) {
            (Kind::Request, Some(id)) => {
                let why = "a client of a stateless revision cannot be asked back";
                ends.inbox.send(Message::error(id, METHOD_NOT_FOUND, why)).await.ok()?;
            }
            _ => return Some(message),
        }
    }
}

fn is_answer(message: &Message, id: &str) -> bool {
    message.kind() == Kind::Response && message.id().is_some_and(|found| found.get() == id)
}

/// An answer with the status that the stateless revision gives its errors.
fn with_status(message: &Message) -> Response {
    let mut response = json(message);
    let error = message.error_raw().and_then(|error| crate::mcp::message::Members::parse(error.get()).ok());
    let code = error.and_then(|error| error.get("code")?.get().parse::<i64>().ok());
    *response.status_mut() = match code {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(-32700 | -32600 | -32602 | -32022 | -32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    response
}
