//! Connections: how many there may be, how long each may take, and which one has to go when there are too many.
//!
//! A connection costs its client little and the gate a descriptor, so a client that keeps many could lock out all others. Three
//! rules prevent that. Every state that a client can make a connection stay in has an end: the head of a request, its body, the
//! pause between two requests, an answer that is not read. There are never more connections than there are descriptors to spare.
//! And when all places are in use, a newcomer gets the place of the client that has kept the gate waiting for longest: first of
//! those that have proved nothing, then of those that once signed a request, and never of one whose request is being answered. An
//! honest client sends its request at once and so keeps its place; half-open ones lose theirs, however many they are.
//!
//! A TLS handshake is part of the first head: it takes a place from its first byte on, and the same time, and is given up like any
//! other client that keeps the gate waiting. What does not speak TLS where TLS is spoken is never answered.
//!
//! There is no timer for each connection and nothing is locked for a request: a connection notes its state in one atomic word, and
//! one task looks at all of them twice a second.

mod descriptors;
mod listener;
mod stream;
mod table;
#[cfg(test)]
mod tests;

pub use descriptors::{connections_max, raise_limit};
pub use listener::{Listener, SOCKET_PATH_BYTES_MAX, bind_socket};
pub use table::Slot;

use crate::http::may_log_refusal;
use crate::tls::Acceptor;
use anyhow::Result;
use axum::Router;
use axum::body::{Body, HttpBody as _};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use stream::{Arriving, Leaving, Tracked};
use table::{Admitted, State, Table};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior};
use tower::Service as _;

/// How long requests may still take once the server was told to stop; by then every answer the gate owes has been given.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the files of TLS are looked at.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// Most bytes of the head of a request, and of what is read ahead.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How long to wait when the system has no descriptors: someone else has them, and asking at once again would only burn time.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// What connections may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many there may be.
    pub connections: usize,
    /// How many there may be from one address.
    pub per_peer: usize,
    /// How long the head of a request may take, from the first byte, or from connecting.
    pub header: Duration,
    /// How long a body may take. Handlers that read one answer by then; a connection where none does is cut a little later.
    pub body: Duration,
    /// How long a connection may be kept without a request.
    pub idle: Duration,
    /// How long an answer may wait for its reader.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            per_peer: usize::MAX,
            header: Duration::from_secs(10),
            body: Duration::from_secs(10),
            // Longer than proxies keep theirs, so that it is the proxy who closes and no request is lost in between.
            idle: Duration::from_secs(75),
            unread: Duration::from_secs(30),
        }
    }
}

/// Serves a router on a listener until `shutdown` is done; then answers what was taken and returns.
pub async fn serve(
    router: Router,
    listener: impl Into<Listener>,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let listener = listener.into();
    let table = Arc::new(Table::new(limits));
    let acceptor = listener.acceptor().cloned();
    let mut files = acceptor.clone().map(Watched::new);
    let mut look = tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut shutdown = pin!(shutdown);
    let mut no_descriptors = false;
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            _ = look.tick() => {
                table.cut_overdue();
                files.iter_mut().for_each(|files| files.look(&table));
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    no_descriptors = false;
                    stream.each(Accepted { router: &router, table: &table, peer, acceptor: acceptor.as_ref() }).await;
                }
                Err(error) if is_about_the_client(&error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut no_descriptors, true) {
                        tracing::warn!(%error, connections = table.len(), "connections cannot be accepted for now");
                    }
                    table.shed(None);
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            },
        }
    }
    drop(listener);
    table.tell_all();
    if tokio::time::timeout(STOP_WITHIN, table.emptied()).await.is_err() {
        tracing::warn!(connections = table.len(), "some connections did not end in time and were cut");
    }
    Ok(())
}

/// A client that is gone before it was accepted.
fn is_about_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// A connection that was just accepted, wherever it comes from.
struct Accepted<'a> {
    router: &'a Router,
    table: &'a Arc<Table>,
    peer: Option<std::net::IpAddr>,
    /// Where TLS is spoken.
    acceptor: Option<&'a Arc<Acceptor>>,
}

impl Accepted<'_> {
    async fn start(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        match (self.table.admit(self.peer).await, self.acceptor.cloned()) {
            (Some(admitted), acceptor) => {
                let stream = Tracked::new(stream, Arc::clone(admitted.slot()));
                let router = self.router.clone();
                match acceptor {
                    None => drop(tokio::spawn(answer(stream, router, admitted))),
                    Some(acceptor) => drop(tokio::spawn(shake_hands(stream, acceptor, router, admitted))),
                }
            }
            (None, None) => drop(tokio::spawn(listener::say_busy(stream))),
            // Nothing is said in clear where TLS is spoken, and a handshake would take what there is none of: it is closed.
            (None, Some(_)) => {}
        }
    }
}

/// The files of a listener's TLS.
struct Watched {
    acceptor: Arc<Acceptor>,
    looked_at: Instant,
    looking: Option<tokio::task::JoinHandle<()>>,
}

impl Watched {
    fn new(acceptor: Arc<Acceptor>) -> Self {
        Self { acceptor, looked_at: Instant::now(), looking: None }
    }

    /// Looks at them, and at the certificates that are in use, beside everything else: a file system that hangs must keep no one waiting.
    fn look(&mut self, table: &Arc<Table>) {
        let is_over = self.looking.as_ref().is_none_or(tokio::task::JoinHandle::is_finished);
        if is_over && self.looked_at.elapsed() >= REFRESH_EVERY {
            self.looked_at = Instant::now();
            let (acceptor, table) = (Arc::clone(&self.acceptor), Arc::clone(table));
            self.looking = Some(tokio::task::spawn_blocking(move || {
                acceptor.refresh();
                table.cut_uncertified();
            }));
        }
    }
}

/// Speaks TLS with a client, and then answers it. The time that this takes is that of its first head.
async fn shake_hands(
    stream: Tracked<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
    acceptor: Arc<Acceptor>,
    router: Router,
    admitted: Admitted,
) {
    let slot = Arc::clone(admitted.slot());
    let shaken = {
        let mut handshake = pin!(acceptor.accept(stream));
        loop {
            tokio::select! {
                shaken = handshake.as_mut() => break shaken,
                () = slot.told() => {
                    if slot.is_cut() || admitted.is_ending() {
                        return;
                    }
                    admitted.spare();
                }
            }
        }
    };
    match shaken {
        Ok((stream, certificate)) => {
            slot.secure(certificate);
            answer(stream, router, admitted).await;
        }
        Err((why, stream)) => {
            if let Some(unlogged) = may_log_refusal() {
                let peer = slot.peer().map(tracing::field::display);
                tracing::info!(cause = why.cause, hint = why.hint, peer, unlogged, "a TLS handshake failed");
            }
            listener::read_out(stream).await;
        }
    }
}

/// Answers the requests of one connection until it ends or has to.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router, admitted: Admitted) {
    // Dropped after everything below, so the place is free only when the descriptor is.
    let place = admitted;
    let slot = Arc::clone(place.slot());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let slot = Arc::clone(&slot);
        slot.enter(if request.body().is_end_stream() { State::Working } else { State::Body });
        let mut request = request.map(|body| Body::new(Arriving::new(body, Arc::clone(&slot))));
        request.extensions_mut().insert(Arc::clone(&slot));
        let called = router.clone().call(request);
        async move {
            let response = called.await?;
            Ok::<_, Infallible>(response.map(|body| Leaving::new(body, slot)))
        }
    });
    let io = TokioIo::new(stream);
    let connection = http1::Builder::new().max_buf_size(BUFFER_BYTES_MAX).serve_connection(io, service);
    let mut connection = pin!(connection);
    loop {
        tokio::select! {
            // An error is about this client only, and it is gone.
            _ = connection.as_mut() => return,
            () = slot.told() => {
                if slot.is_cut() {
                    return;
                }
                place.spare();
                if place.is_ending() {
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}
