//! HTTP v1: the gate's interface for agents, operators and outsiders.
//!
//! It translates, and decides nothing: what comes in is read strictly, handed to the gate, and what the gate answers is put
//! on the wire. A verdict is 200 whatever it says; every 4xx and 5xx has one shape, made in one place (`outermost`). Who calls,
//! and whether they may, is settled in one place too (`caller`), from one table (`countersign_api::routes`). A
//! gate without operators listens on loopback only, and its entries say `auth: none`.

mod actions;
mod agents;
mod batch;
mod body;
mod caller;
mod claims;
mod effects;
mod error;
mod facts;
mod halts;
mod inbox;
mod keys;
mod ledger;
mod log;
mod metrics;
mod numbers;
mod outermost;
mod pacts;
mod places;
pub mod rate;
mod reviews;
mod routes;
mod service;
mod sessions;
#[cfg(test)]
mod tests;
mod verdict;

pub use caller::{is_loopback, is_own_origin, scheme};
pub use outermost::may_log_refusal;

use crate::connections::{self, Limits, Listener};
use crate::hinted::{OrHinted, bail_hinted, hinted};
use anyhow::Result;
use axum::Router;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use caller::Caller;
use countersign_core::action::Action;
use countersign_core::body::RawBody;
use countersign_core::ids::Digest;
use countersign_engine::gate::Gate;
use countersign_engine::outbox::Adapters;
use countersign_engine::request::{Answer, Entered, Refusal, Reply, Request};
use error::HttpError;
use metrics::Metrics;
use places::Places;
use rate::{RateSettings, Rates};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};

/// What all handlers share.
pub struct App {
    gate: Arc<Gate>,
    metrics: Metrics,
    reach: Reach,
    adapters: Arc<Adapters>,
    /// Whether those are all that the gate will have: a command that opens a gate for a moment has none.
    knows_adapters: bool,
    rates: Rates,
    bodies: body::Bodies,
    external_reads: Arc<Places>,
    /// Of requests that wait for an effect, or for a message.
    waits: Arc<Places>,
    /// Which log the gate writes, once someone has asked.
    log: OnceLock<String>,
    /// Of inboxes that are followed.
    followed: Arc<Places>,
}

/// From where a server can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// From this machine only.
    Loopback,
    /// From elsewhere.
    Beyond,
}

impl Reach {
    /// From where an address can be reached.
    pub fn of(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::Loopback } else { Self::Beyond }
    }
}

/// Binds an address, which must be loopback while the gate has no operators: it cannot tell who is calling, so no one else
/// may come near. Whoever binds another one has seen to it that what travels there is encrypted.
pub async fn listen(gate: &Gate, addr: SocketAddr) -> Result<TcpListener> {
    if !addr.ip().is_loopback() && !gate.view().is_identified() {
        bail_hinted!(
            "{addr} can be reached from outside, and this gate has no admin: it cannot tell who is calling";
            "listen on 127.0.0.1 or [::1], or make a gate with an admin; `countersign init` does"
        );
    }
    let listener = TcpListener::bind(addr).await;
    listener.or_hinted(|| hinted!("cannot listen on {addr}"; "another process may hold the port; choose another"))
}

/// Serves the gate on a listener from `listen` until `shutdown` is done, then finishes the requests in progress and returns.
pub async fn serve_on(
    gate: Arc<Gate>,
    adapters: Arc<Adapters>,
    listener: impl Into<Listener>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let listener = listener.into();
    let reach = Reach::of(listener.local_addr()?);
    serve_router(router(gate, adapters, reach, RateSettings::default()), listener, shutdown).await
}

/// Serves anything on a listener until `shutdown` is done, with the usual limits.
pub async fn serve_router(
    router: Router,
    listener: impl Into<Listener>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    connections::serve(router, listener, Limits::default(), shutdown).await
}

/// The whole interface over a gate that has all the adapters it will have.
pub fn router(gate: Arc<Gate>, adapters: Arc<Adapters>, reach: Reach, rates: RateSettings) -> Router {
    finish(routes::router(), gate, reach, adapters, true, rates)
}

/// The whole interface over a gate that a command opens for a moment: its adapters are another process's.
pub fn router_for_command(gate: Arc<Gate>) -> Router {
    finish(routes::router(), gate, Reach::Loopback, Arc::default(), false, RateSettings::default())
}

fn finish(
    routes: Router<Arc<App>>,
    gate: Arc<Gate>,
    reach: Reach,
    adapters: Arc<Adapters>,
    knows_adapters: bool,
    rates: RateSettings,
) -> Router {
    let app = Arc::new(App {
        gate,
        metrics: Metrics::default(),
        reach,
        adapters,
        knows_adapters,
        rates: Rates::new(rates),
        bodies: body::Bodies::default(),
        external_reads: Places::of_external_reads(),
        waits: Places::of_waits(),
        log: OnceLock::new(),
        followed: Places::of_followed(),
    });
    routes
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), caller::identify))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), outermost::outermost))
        .with_state(app)
}

impl App {
    /// Which log the gate writes: the hash of its first entry, in hexadecimal.
    async fn log(&self) -> Result<&str, HttpError> {
        if self.log.get().is_none() {
            let first = self.blocking(|gate| gate.first_leaf().map_err(HttpError::from)).await?;
            let _ = self.log.set(Digest(first.0).to_string());
        }
        Ok(self.log.get().map(String::as_str).unwrap_or_default())
    }

    /// Admits an action: on this thread, unless that would wait for a disk or for the sequencer.
    async fn admit(&self, caller: Caller, body: RawBody) -> Result<Action, HttpError> {
        let Caller { name, auth, .. } = caller;
        match self.gate.admit_now(name.clone(), auth.clone(), body.clone()) {
            Some(admitted) => Ok(admitted?),
            None => self.blocking(move |gate| gate.admit(name, auth, body)).await,
        }
    }

    /// Hands a request to the gate and waits, without holding a thread, until everything the answer rests on is durable.
    async fn submit(&self, request: Request) -> Result<Answer, HttpError> {
        let (reply, answered) = oneshot::channel();
        let reply: Reply = Box::new(move |answer| {
            // A caller that has gone away needs no answer; the entry stands anyway.
            let _ = reply.send(answer);
        });
        match self.gate.submit_reads_disk(&request) {
            // Almost always a key that was used before; everyone else's requests go on meanwhile.
            true => self.blocking(move |gate| gate.submit(request, reply)).await?,
            false => self.gate.submit(request, reply)?,
        }
        Ok(answered.await.unwrap_or_else(|_| Err(Refusal::unanswered()))?)
    }

    /// Hands in a request of which every acceptance is a new entry.
    async fn enter(&self, request: Request) -> Result<Entered, HttpError> {
        match self.submit(request).await? {
            Answer::Entered(entered) => Ok(entered),
            Answer::Many(_) => Err(HttpError::internal("one request was answered as several")),
            Answer::Repeated(entry) => {
                Err(HttpError::internal(format!("entry {entry} answered what only a new one can")))
            }
        }
    }

    /// The same for what must not wait behind readers of the log: who halts a gate is known by this.
    async fn urgent<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnOnce(&Gate) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HttpError>
    where
        HttpError: From<E>,
    {
        static PLACES: Semaphore = Semaphore::const_new(URGENT);
        let place = PLACES.acquire().await.map_err(|error| HttpError::internal(error.to_string()))?;
        let (gate, (tell, told)) = (Arc::clone(&self.gate), oneshot::channel());
        let run = move || {
            // Held until it is done, also where the caller has gone: else requests that are broken off would make threads without end.
            let _place = place;
            let _ = tell.send(work(&gate));
        };
        let named = std::thread::Builder::new().name("urgent".into());
        named.spawn(run).map_err(|error| HttpError::internal(error.to_string()))?;
        Ok(told.await.map_err(|error| HttpError::internal(error.to_string()))??)
    }

    /// Runs what may wait on a disk away from the threads that serve.
    async fn blocking<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnOnce(&Gate) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HttpError>
    where
        HttpError: From<E>,
    {
        let gate = Arc::clone(&self.gate);
        let done = tokio::task::spawn_blocking(move || work(&gate)).await;
        Ok(done.map_err(|error| HttpError::internal(error.to_string()))??)
    }
}

/// How many urgent things are done at a time.
const URGENT: usize = 4;

/// The receipt of a new entry, as it goes on the wire.
fn receipt(entered: &Entered) -> Option<String> {
    entered.proof.receipt(&entered.entry).map(|receipt| receipt.encode())
}

/// As many bytes as most answers have: a verdict and its receipt.
const ANSWER_BYTES: usize = 2560;

/// A value as a JSON answer.
fn json(value: &impl serde::Serialize) -> Result<Response, HttpError> {
    let mut body = Vec::with_capacity(ANSWER_BYTES);
    serde_json::to_writer(&mut body, value).map_err(|error| HttpError::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}
