//! Calls to the outside: a sink on loopback, reached directly, and through the gate with intent and settlement durable.

use super::report::median;
use anyhow::{Context as _, Result, bail};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use countersign::measured::{Config, DataFolder, adapters};
use countersign_core::call::{EffectId, Outcome};
use countersign_core::effect::EffectRefusal;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::value::Attributes;
use countersign_engine::gate::Gate;
use countersign_engine::outbox::Outbox;
use countersign_engine::request::{Answer, Request};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Calls that are under way at a time.
const IN_FLIGHT: u64 = 64;

/// Longest that one call may take before the bench gives up.
const PATIENCE: Duration = Duration::from_secs(30);

const PACT: &str = r#"
pact = "calls"
version = 1

[facts.Account]
attributes = { sent = "Long" }

[action.send]
resource = 'Account::"{account}"'
allow = 'true'
set = { sent = "resource.sent + 1" }
call = { http = "sink", path = "/calls" }

[action.send.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 16 }

[[action.send.require]]
id = "few"
that = 'resource.sent < 9000000'
"#;

/// What was measured.
#[derive(Debug)]
pub struct EffectsResult {
    /// Calls settled a second, through the gate.
    pub per_s: f64,
    /// Median time from the action to its settlement, in microseconds, with so many under way.
    pub p50_us: f64,
    /// Calls answered a second, without the gate.
    pub direct_per_s: f64,
    /// Median time of a call without the gate, in microseconds, with so many under way.
    pub direct_p50_us: f64,
    /// The same with one call at a time: what a lone caller waits, through the gate and without it.
    pub single_p50_us: f64,
    /// The same without the gate.
    pub single_direct_p50_us: f64,
}

/// Measures so many calls each way.
pub fn effects(dir: &Path, calls: u64) -> Result<EffectsResult> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let sink = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let address = sink.local_addr()?;
    let router = Router::new().route("/calls", post(async || (StatusCode::CREATED, "{}")));
    runtime.spawn(async move { axum::serve(sink, router).await });

    let data = DataFolder::create(dir, "bench.example/effects")?;
    let gate = Arc::new(data.open(data.options())?.0);
    set_up(&gate)?;
    let settings = format!(
        "[adapters.sink]\nkind = \"http\"\nbase = \"http://{address}\"\nallow_private = [\"127.0.0.0/8\"]\nconcurrency = {IN_FLIGHT}\n"
    );
    let config = Config::parse(&settings, Path::new(""))?;
    let outbox = Outbox::start(Arc::clone(&gate), adapters(&config.adapters, &|_| None, "bench.example/effects")?)?;

    let (direct_per_s, direct_p50_us) = load_with(IN_FLIGHT, calls, |_, _| direct(address))?;
    super::rest();
    let (per_s, p50_us) = load_with(IN_FLIGHT, calls, |client, number| through(&gate, client, number))?;
    super::rest();
    let lone = calls.div_ceil(10);
    let (_, single_direct_p50_us) = load_with(1, lone, |_, _| direct(address))?;
    let (_, single_p50_us) = load_with(1, lone, |client, number| through(&gate, client, calls + number))?;
    outbox.stop();
    Ok(EffectsResult { per_s, p50_us, direct_per_s, direct_p50_us, single_p50_us, single_direct_p50_us })
}

fn set_up(gate: &Gate) -> Result<()> {
    let by = || AgentId::new("operator");
    let pact = load(PACT).map_err(|problems| anyhow::anyhow!("the bench's pact does not load: {problems:?}"))?.pact;
    gate.call(Request::Publish { by: by()?, auth: Auth::None, pact: Arc::new(pact) })?;
    let feed = |fact: String, json: &str| -> Result<()> {
        let value = Some(Attributes::from_untyped_json(&serde_json::from_str(json)?)?);
        let fact = fact.parse()?;
        gate.call(Request::Feed { by: by()?, auth: Auth::None, fact, value, if_match: None })?;
        Ok(())
    };
    feed("Agent::\"bench-1\"".to_owned(), r#"{"roles":[],"standing":"active","org":"bench","trust":1}"#)?;
    (0..IN_FLIGHT).try_for_each(|account| feed(format!("Account::\"{account}\""), r#"{"sent":0}"#))
}

/// So many clients, each with one call on its way: how many a second, and the median of what each took.
fn load_with(clients: u64, calls: u64, call: impl Fn(u64, u64) -> Result<()> + Sync) -> Result<(f64, f64)> {
    let started = Instant::now();
    let took: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
        let spawn = |client| {
            let call = &call;
            scope.spawn(move || {
                let mine = (client..calls).step_by(clients as usize);
                mine.map(|number| {
                    let began = Instant::now();
                    call(client, number)?;
                    Ok(began.elapsed().as_secs_f64() * 1e6)
                })
                .collect::<Result<Vec<f64>>>()
            })
        };
        let running: Vec<_> = (0..clients).map(spawn).collect();
        let lost = || Err(anyhow::anyhow!("a client of the bench panicked"));
        running.into_iter().map(|client| client.join().unwrap_or_else(|_| lost())).collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    let took: Vec<f64> = took.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    Ok((took.len() as f64 / seconds, median(took)))
}

/// One call as an agent without a gate makes it, over a connection of its own as the adapter's.
fn direct(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let body = r#"{"account":"1"}"#;
    let head = "content-type: application/json\r\nconnection: close\r\n";
    let length = body.len();
    write!(stream, "POST /calls HTTP/1.1\r\nhost: {address}\r\n{head}content-length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 201") { Ok(()) } else { bail!("the sink answered {answer}") }
}

/// One action through the gate, from its body to its settlement.
fn through(gate: &Gate, account: u64, number: u64) -> Result<()> {
    let body = format!(
        r#"{{"pact":"calls","action":"send","idempotency_key":"{number:032x}","params":{{"account":"{account}"}}}}"#
    );
    let action = gate.admit(AgentId::new("bench-1")?, Auth::None, body.into())?;
    let effect = match gate.call(Request::Act(Box::new(action)))? {
        Answer::Entered(entered) => EffectId(entered.entry.index),
        Answer::Many(_) => bail!("one action was answered as several"),
        Answer::Repeated(entry) => bail!("the gate knows this action from entry {entry}"),
    };
    loop {
        let (moved, moves) = channel();
        // First listen, then look.
        let told = move || {
            // Whoever has stopped waiting need not be told.
            let _ = moved.send(());
        };
        let listening = gate.moves().once(effect, Box::new(told));
        match gate.view().effect(effect) {
            Ok(_) => {}
            Err(EffectRefusal::Ended { how: Outcome::Settled, .. }) => {
                gate.moves().cancel(listening);
                return Ok(());
            }
            Err(other) => bail!("{other}"),
        }
        moves.recv_timeout(PATIENCE).with_context(|| format!("{effect} was not settled in time"))?;
    }
}
