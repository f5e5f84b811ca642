//! Clients that wait, drip, never read, or come when all places are taken; each test is a listener with few places and short times.

mod tls;

use super::{Limits, Listener, Slot, serve};
use crate::tls::Acceptor;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{get, post};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

const PATIENCE: Duration = Duration::from_secs(60);
const GET: &[u8] = b"GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n";
const PART_OF_A_HEAD: &[u8] = b"GET /quick HTTP/1.1\r\nHo";
const PART_OF_A_BODY: &[u8] = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx";

struct Server {
    addr: SocketAddr,
    /// Lets one request for `/slow` go on.
    release: Arc<Notify>,
    /// One for each request for `/slow` that has begun.
    begun: Arc<tokio::sync::Semaphore>,
    _stop: oneshot::Sender<()>,
}

async fn server(limits: Limits) -> Server {
    server_over(limits, None).await
}

async fn server_over(limits: Limits, acceptor: Option<Arc<Acceptor>>) -> Server {
    let (release, begun) = (Arc::new(Notify::new()), Arc::new(tokio::sync::Semaphore::new(0)));
    let (slow, started) = (Arc::clone(&release), Arc::clone(&begun));
    let router = Router::new()
        .route("/quick", get(|| async { "quick" }))
        .route(
            "/proof",
            get(|request: Request| async move {
                request.extensions().get::<Arc<Slot>>().unwrap().prove();
                "known"
            }),
        )
        .route(
            "/slow",
            get(move || async move {
                started.add_permits(1);
                slow.notified().await;
                "slow"
            }),
        )
        .route(
            "/body",
            post(
                |body: Body| async move { axum::body::to_bytes(body, 1024).await.map(|_| "read").unwrap_or("broken") },
            ),
        )
        .route("/large", get(|| async { vec![b'x'; 64 << 20] }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let listener = Listener::port(listener, acceptor);
    tokio::spawn(serve(router, listener, limits, async move { drop(stopped.await) }));
    Server { addr, release, begun, _stop: stop }
}

impl Server {
    async fn connect(&self, send: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        stream.write_all(send).await.unwrap();
        stream
    }

    async fn slow_one(&self) -> TcpStream {
        let stream = self.connect(SLOW).await;
        self.begun.acquire().await.unwrap().forget();
        stream
    }
}

/// What comes back until the status line is there, or nothing more.
async fn status(stream: &mut TcpStream) -> String {
    let mut answer = [0; 4096];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await.expect("there is no answer");
    let text = String::from_utf8_lossy(&answer[..read.unwrap_or_default()]).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Waits until the other side has closed it.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it is never closed");
}

fn few(connections: usize) -> Limits {
    Limits { connections, ..Limits::default() }
}

#[tokio::test]
async fn half_open_requests_lose_their_place_to_a_newcomer_the_oldest_first() {
    let server = server(few(3)).await;
    let mut oldest = server.connect(PART_OF_A_HEAD).await;
    // In this order: the time in a state is counted in milliseconds.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut second = server.connect(PART_OF_A_BODY).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut silent = server.connect(b"").await;
    for gone in [&mut oldest, &mut second, &mut silent] {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut newcomer = server.connect(GET).await;
        assert_eq!(status(&mut newcomer).await, "HTTP/1.1 200 OK");
        closed(gone).await;
    }
}

#[tokio::test]
async fn a_client_that_has_signed_keeps_its_idle_connection_while_strangers_come_and_go() {
    let server = server(few(3)).await;
    let mut known = server.connect(b"GET /proof HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(status(&mut known).await, "HTTP/1.1 200 OK");
    for _ in 0..20 {
        let mut stranger = server.connect(GET).await;
        assert_eq!(status(&mut stranger).await, "HTTP/1.1 200 OK");
        drop(server.connect(PART_OF_A_HEAD).await);
    }
    known.write_all(GET).await.unwrap();
    assert_eq!(status(&mut known).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn what_is_being_answered_is_never_given_up_and_a_newcomer_is_told_so() {
    let server = server(few(2)).await;
    let mut working = [server.slow_one().await, server.slow_one().await];
    let mut newcomer = server.connect(GET).await;
    assert_eq!(status(&mut newcomer).await, "HTTP/1.1 503 Service Unavailable");
    for stream in &mut working {
        server.release.notify_one();
        server.release.notify_one();
        assert_eq!(status(stream).await, "HTTP/1.1 200 OK");
    }
}

#[tokio::test]
async fn one_address_leaves_room_for_others() {
    let server = server(Limits { connections: 10, per_peer: 2, ..Limits::default() }).await;
    // Loopback is everyone behind a proxy, so there is no such limit for it.
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(server.slow_one().await);
    }
    let table = Arc::new(super::Table::new(Limits { connections: 10, per_peer: 2, ..Limits::default() }));
    let (one, other) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
    let places = [table.admit(one).await.unwrap(), table.admit(one).await.unwrap()];
    places.iter().for_each(|place| place.slot().enter(super::State::Working));
    assert!(table.admit(one).await.is_none(), "the third of one address");
    assert!(table.admit(other).await.is_some(), "the first of another");
    drop(places);
    assert!(table.admit(one).await.is_some());
    assert_eq!(table.len(), 0);
}

#[tokio::test]
async fn one_address_that_keeps_connections_half_open_loses_its_own_and_no_other() {
    let table = Arc::new(super::Table::new(Limits { connections: 10, per_peer: 2, ..Limits::default() }));
    let (one, other) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
    // The other address was here first and has waited for longest.
    let others = table.admit(other).await.unwrap();
    let mut of_one = vec![table.admit(one).await.unwrap(), table.admit(one).await.unwrap()];
    let third = tokio::spawn({
        let table = Arc::clone(&table);
        async move { table.admit(one).await }
    });
    let cut = tokio::time::timeout(PATIENCE, async {
        loop {
            match of_one.iter().position(|place| place.slot().is_cut()) {
                Some(at) => return at,
                None => tokio::task::yield_now().await,
            }
        }
    });
    let cut = cut.await.expect("none of the address's own is cut");
    assert!(!others.slot().is_cut());
    drop(of_one.remove(cut));
    assert!(third.await.unwrap().is_some());
    assert!(!others.slot().is_cut() && !of_one[0].slot().is_cut());
}

#[tokio::test]
async fn every_wait_for_a_client_has_an_end() {
    let short = Duration::from_millis(300);
    let limits = Limits { header: short, body: short, idle: short, unread: short, ..Limits::default() };
    let server = server(limits).await;
    let mut idle = server.connect(GET).await;
    assert_eq!(status(&mut idle).await, "HTTP/1.1 200 OK");
    let mut unread = server.connect(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut all =
        [server.connect(b"").await, server.connect(PART_OF_A_HEAD).await, server.connect(PART_OF_A_BODY).await, idle];
    for stream in &mut all {
        closed(stream).await;
    }
    // Nothing is read of it for so long that it is cut; what had been sent by then is all that there is.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, unread.read_to_end(&mut rest)).await.expect("it is never closed");
    assert!(rest.len() < 64 << 20, "{} bytes came", rest.len());
    // Work takes as long as it takes.
    let mut working = server.slow_one().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    server.release.notify_one();
    assert_eq!(status(&mut working).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_head_that_drips_is_not_kept_alive_by_its_drops() {
    let limits = Limits { header: Duration::from_millis(600), ..Limits::default() };
    let server = server(limits).await;
    let mut dripping = server.connect(b"GET / HTTP/1.1\r\nX: ").await;
    for _ in 0..PATIENCE.as_millis() / 50 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if dripping.write_all(b"x").await.is_err() {
            return;
        }
    }
    panic!("it is never closed");
}
