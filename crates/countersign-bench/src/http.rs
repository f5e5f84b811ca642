//! The gate over HTTP: 64 connections on loopback, each with one action on its way; in clear, and over TLS.

use super::workload::{Bench, body};
use anyhow::{Context as _, Result, bail};
use countersign::measured::serve_on;
use countersign::measured::tls::{Acceptor, Client as TlsClient, Files, Listener, Rules};
use countersign_core::identity::{BatchDigests, KeyName};
use countersign_core::ids::{AgentId, Digest};
use countersign_engine::gate::Gate;
use countersign_signature::{BATCH_PATH, Signable, sign};
use countersign_testing::certificates::Authority;
use ed25519_dalek::SigningKey;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connections, each with one action on its way.
const CONNECTIONS: u64 = 64;

/// What the HTTP interface managed.
#[derive(Debug)]
pub struct HttpResult {
    /// Durable actions a second.
    pub per_s: f64,
    /// Median wait in microseconds.
    pub p50_us: f64,
    /// Wait that 99 of 100 stay under, in microseconds.
    pub p99_us: f64,
}

/// Runs the server on a free port and loads it from the same process.
pub fn http(bench: &mut Bench, accounts: u64, seconds: f64) -> Result<HttpResult> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // More numbers than any machine will use in the time.
    let numbers = bench.take_numbers(1 << 32);
    let gate = Arc::clone(&bench.gate);
    let time = Duration::from_secs_f64(seconds);
    serving(&runtime, gate, None, async |address| {
        load(accounts, numbers, time, async || plainly(address).await, address).await
    })
}

/// The same over TLS, and how many connections a second it takes to be opened one after the other.
pub fn https(bench: &mut Bench, folder: &Path, accounts: u64, seconds: f64) -> Result<(HttpResult, f64)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let numbers = bench.take_numbers(1 << 32);
    let gate = Arc::clone(&bench.gate);
    let time = Duration::from_secs_f64(seconds);
    std::fs::create_dir_all(folder)?;
    let authority = Authority::new("bench")?;
    authority.server(&["127.0.0.1"])?.write(folder, "server")?;
    std::fs::write(folder.join("ca.pem"), &authority.pem)?;
    let file = |name: &str| Some(folder.join(name));
    let own = Files { certificate: file("server.pem"), key: file("server.key"), ..Files::default() };
    let acceptor = Acceptor::new(own, Rules::default())?;
    let trust = TlsClient::new(Files { ca: file("ca.pem"), ..Files::default() })?;
    let mut opened_per_s = 0.0;
    let result = serving(&runtime, gate, Some(acceptor), async |address| {
        let (started, mut opened) = (Instant::now(), 0_u32);
        while started.elapsed() < Duration::from_secs(1) {
            drop(encrypted(address, &trust).await?);
            opened += 1;
        }
        opened_per_s = f64::from(opened) / started.elapsed().as_secs_f64();
        load(accounts, numbers, time, async || encrypted(address, &trust).await, address).await
    })?;
    Ok((result, opened_per_s))
}

async fn plainly(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn encrypted(address: SocketAddr, trust: &TlsClient) -> Result<TlsStream<TcpStream>> {
    let name = address.ip().into();
    Ok(TlsConnector::from(trust.config()).connect(name, plainly(address).await?).await?)
}

/// Signed actions: the same, except that each request is signed, ahead of time and within the window, so that the load
/// generator's signing is not what is measured.
pub fn http_signed(bench: &mut Bench, accounts: u64, requests: u64) -> Result<HttpResult> {
    let key = SigningKey::from_bytes(&[7; 32]);
    bench.identify(&KeyName::of(key.verifying_key().to_bytes()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let numbers = bench.take_numbers(requests);
    let gate = Arc::clone(&bench.gate);
    let origin = gate.origin().to_owned();
    serving(&runtime, gate, None, async |address| {
        let mut ready = Vec::new();
        for client in 0..CONNECTIONS {
            let mine = (numbers + client..numbers + requests).step_by(CONNECTIONS as usize);
            let signed: Result<Vec<_>> = mine.map(|n| signed(&key, &origin, address, n, accounts)).collect();
            ready.push(signed?);
        }
        let started = Instant::now();
        let clients: Vec<_> = ready.into_iter().map(|mine| tokio::spawn(replaying(address, mine))).collect();
        gathered(clients, started).await
    })
}

/// Actions of one batch.
const BATCHED: u64 = 64;

/// Connections that send batches, each with one on its way and an agent of its own: more would not fit the queue.
const BATCHING: u64 = 8;

/// The same in batches: one signature for each 64 actions. Counted are actions.
pub fn http_batched(bench: &mut Bench, accounts: u64, batches: u64) -> Result<HttpResult> {
    let mut agents = Vec::new();
    for number in 1..=BATCHING {
        let key = SigningKey::from_bytes(&[u8::try_from(number)?; 32]);
        agents.push((AgentId::new(format!("bench-{number}"))?, key));
    }
    let named = agents.iter().map(|(agent, key)| (agent.clone(), KeyName::of(key.verifying_key().to_bytes())));
    bench.identify_all(&named.collect::<Vec<_>>())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let numbers = bench.take_numbers(batches * BATCHED);
    let gate = Arc::clone(&bench.gate);
    let origin = gate.origin().to_owned();
    let result = serving(&runtime, gate, None, async |address| {
        let mut ready = Vec::new();
        for (client, (_, key)) in (0..BATCHING).zip(&agents) {
            let mine = (client..batches).step_by(BATCHING as usize);
            let signed: Result<Vec<_>> =
                mine.map(|batch| signed_batch(key, &origin, address, numbers + batch * BATCHED, accounts)).collect();
            ready.push(signed?);
        }
        let started = Instant::now();
        let clients: Vec<_> = ready.into_iter().map(|mine| tokio::spawn(replaying(address, mine))).collect();
        gathered(clients, started).await
    })?;
    Ok(HttpResult { per_s: result.per_s * BATCHED as f64, ..result })
}

/// One batch, whole and signed.
fn signed_batch(key: &SigningKey, origin: &str, address: SocketAddr, first: u64, accounts: u64) -> Result<String> {
    let bodies: Vec<String> = (first..first + BATCHED).map(|number| body(number, number % accounts)).collect();
    let ids: Vec<Digest> = bodies.iter().map(|body| Digest::of(body.as_bytes())).collect();
    let (authority, body) = (address.to_string(), format!("[{}]", bodies.join(",")));
    let request = Signable {
        method: "POST",
        authority: &authority,
        path: BATCH_PATH,
        query: None,
        if_match: None,
        actions: Some(BatchDigests::of_actions(&ids)),
        body: &body,
    };
    let created = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let headers = sign(key, &request, origin, created, &format!("bench-{first:016}"))?;
    Ok(format!(
        "POST {BATCH_PATH} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\ncontent-digest: {}\r\n\
         countersign-actions: {}\r\nsignature-input: {}\r\nsignature: {}\r\ncontent-length: {}\r\n\r\n{body}",
        headers.content_digest.unwrap_or_default(),
        headers.actions.unwrap_or_default(),
        headers.input,
        headers.signature,
        body.len()
    ))
}

/// One request, whole and signed.
fn signed(key: &SigningKey, origin: &str, address: SocketAddr, number: u64, accounts: u64) -> Result<String> {
    let (authority, body) = (address.to_string(), body(number, number % accounts));
    let path = "/v1/actions";
    let request = Signable {
        method: "POST",
        authority: &authority,
        path,
        query: None,
        if_match: None,
        actions: None,
        body: &body,
    };
    let created = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let headers = sign(key, &request, origin, created, &format!("bench-{number:016}"))?;
    Ok(format!(
        "POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\ncontent-digest: {}\r\n\
         signature-input: {}\r\nsignature: {}\r\ncontent-length: {}\r\n\r\n{body}",
        headers.content_digest.unwrap_or_default(),
        headers.input,
        headers.signature,
        body.len()
    ))
}

/// Runs the server while something loads it.
fn serving(
    runtime: &Runtime,
    gate: Arc<Gate>,
    acceptor: Option<Arc<Acceptor>>,
    load: impl AsyncFnOnce(SocketAddr) -> Result<HttpResult>,
) -> Result<HttpResult> {
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = Listener::port(listener, acceptor);
        let server = tokio::spawn(serve_on(gate, Arc::default(), listener, async {
            // Dropped or sent, both mean the end.
            let _ = stopped.await;
        }));
        let result = load(address).await;
        drop(stop);
        server.await.context("the server's task")??;
        result
    })
}

async fn load<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    accounts: u64,
    numbers: u64,
    time: Duration,
    open: impl AsyncFn() -> Result<S>,
    address: SocketAddr,
) -> Result<HttpResult> {
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(open().await?);
    }
    let started = Instant::now();
    let mut clients = Vec::new();
    for (client, stream) in (0..CONNECTIONS).zip(streams) {
        clients.push(tokio::spawn(one_client(stream, address, numbers + client, accounts, started + time)));
    }
    gathered(clients, started).await
}

async fn gathered(clients: Vec<JoinHandle<Result<Vec<Duration>>>>, started: Instant) -> Result<HttpResult> {
    let mut waits = Vec::new();
    for client in clients {
        waits.extend(client.await??);
    }
    let took = started.elapsed().as_secs_f64();
    waits.sort_unstable();
    let at = |share: usize| waits.get(waits.len() * share / 100).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1e6);
    Ok(HttpResult { per_s: waits.len() as f64 / took, p50_us: at(50), p99_us: at(99) })
}

async fn one_client(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    address: SocketAddr,
    first: u64,
    accounts: u64,
    until: Instant,
) -> Result<Vec<Duration>> {
    let (mut waits, mut number, mut buffer) = (Vec::new(), first, Vec::with_capacity(8192));
    while Instant::now() < until {
        let body = body(number, number % accounts);
        number += CONNECTIONS;
        let request = format!(
            "POST /v1/actions HTTP/1.1\r\nhost: {address}\r\ncountersign-agent: bench-1\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let started = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        read_answer(&mut stream, &mut buffer).await?;
        waits.push(started.elapsed());
    }
    Ok(waits)
}

/// Sends requests that are whole already, one after the other.
async fn replaying(address: SocketAddr, requests: Vec<String>) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut waits, mut buffer) = (Vec::with_capacity(requests.len()), Vec::with_capacity(8192));
    for request in requests {
        let started = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        read_answer(&mut stream, &mut buffer).await?;
        waits.push(started.elapsed());
    }
    Ok(waits)
}

/// Reads one answer with a `content-length`, and insists that it is a commit, of every action where there are several.
async fn read_answer(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Result<()> {
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            bail!("the server closed the connection");
        }
        // An answer is text once it is whole.
        let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let (head, body) = buffer.split_at(end + 4);
        let head = std::str::from_utf8(head)?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") { value.trim().parse::<usize>().ok() } else { None }
        });
        if body.len() < length.context("an answer without content-length")? {
            continue;
        }
        let body = std::str::from_utf8(body)?;
        let verdicts = body.matches("\"verdict\":").count();
        if verdicts == 0 || verdicts != body.matches("\"verdict\":\"committed\"").count() || body.contains("\"error\"")
        {
            bail!("not committed: {body}");
        }
        return Ok(());
    }
}
