//! `countersign serve`: a gate that runs.

mod detach;
pub(crate) mod operators;
mod tls;

pub use detach::LISTENING;
pub use tls::acceptor;

use super::mcp::{doubt, shadow_in_force, warn_of_reach};
use super::{Exit, Failure, Folder, Outcome};
use crate::config::{self, Config, LISTEN};
use crate::connections::{self, Listener};
use crate::data::DataFolder;
use crate::http::Reach;
use crate::mcp::gate::SHADOW_TYPE;
use crate::mcp::operator::OperatorCommands;
use crate::terminal::{count, note, progress, time};
use crate::tls::Acceptor;
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use countersign_core::call;
use countersign_core::effect::Phase;
use countersign_core::ids::{FactId, FactType};
use countersign_core::value::{Attributes, Value};
use countersign_engine::gate::{Gate, OpenReport};
use countersign_engine::outbox::{Adapters, Outbox};
use operators::Socket;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// How many requests may read the ledger or external facts at a time. Each takes a thread and up to two descriptors.
const READERS: usize = 96;

/// Run the gate on a data folder
///
/// Opens the ledger, replays what the newest snapshot does not cover, and listens. One gate per folder: a second one is refused.
/// SIGINT, SIGTERM or SIGHUP ends it cleanly: requests already accepted are answered first. After a crash nothing has to be done:
/// whatever was acknowledged is there, and a torn tail, which never was, is cut and reported.
///
/// A gate with an admin, as `countersign init` makes it, knows who calls by signature, and may listen beyond this machine over TLS:
/// with a certificate that [tls] in countersign.toml names, or behind a proxy that speaks it. An open gate (`countersign init --open`)
/// listens on loopback only.
///
/// Operators have a socket of their own, operator.sock in the data folder, which nothing that happens on the port can block:
/// commands without --server use it, and others name it with --server unix:PATH.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign serve
  countersign serve --data gate-data --listen 127.0.0.1:9000
  countersign serve --dev-tls --listen 0.0.0.0:8420           over TLS, to try it out
  GATE=$(countersign serve --detach)                          in the background; ended by `kill $GATE`
  RUST_LOG=countersign=debug countersign serve --log-format json 2>gate.log")]
pub struct ServeArgs {
    #[command(flatten)]
    folder: Folder,
    /// Where to listen [default: 127.0.0.1:8420]; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", env = "COUNTERSIGN_LISTEN", hide_env_values = true)]
    listen: Option<String>,
    /// Listen over TLS, with a certificate from an authority that is made in the data folder; for trying it out
    #[arg(long)]
    dev_tls: bool,
    /// How many requests may wait before the gate says that it is busy [default: 8192]
    #[arg(long, value_name = "N", env = "COUNTERSIGN_QUEUE_LEN", hide_env_values = true,
        value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    queue_len: Option<u32>,
    /// How messages on stderr are written: as text, or as one JSON object per line
    #[arg(long, value_name = "FORMAT", env = "COUNTERSIGN_LOG_FORMAT", hide_env_values = true, default_value = "text")]
    log_format: LogFormat,
    /// Start it in the background: return when it listens, and print its process id
    #[arg(long)]
    detach: bool,
}

/// How a gate logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Runs the gate until it is told to end.
pub fn run(args: &ServeArgs, config: &Config) -> Result<Outcome> {
    let listen = listen(args, config)?;
    tls::check_flag(args.dev_tls, &config.tls)?;
    if args.detach {
        let data = config.data(args.folder.data.as_deref());
        DataFolder::find(&data)?;
        return detach::run(&data);
    }
    logging("info", args.log_format);
    let folder = DataFolder::find(&config.data(args.folder.data.as_deref()))?;
    let mut options = config.tune(folder.options());
    // Before the ledger is opened: a secret that is missing is missing now, and not with the first call.
    let adapters = crate::adapters::all(config, &folder.origin)?;
    let tls = match args.dev_tls {
        true => Some(tls::for_trying_out(&config.data(args.folder.data.as_deref()), listen)?),
        false => acceptor(&config.tls).transpose()?,
    };
    if let Some(queue_len) = args.queue_len {
        options.queue_len = usize::try_from(queue_len).unwrap_or(options.queue_len);
    }
    let bar = progress(None, "opening the ledger");
    let opened = folder.open(options);
    bar.finish_and_clear();
    let (gate, report) = opened?;
    describe(&report, gate.now_ms());
    warn_of_shadow(&gate, config);
    warn_of_doubts(&gate);
    for (name, place) in &config.mcp.upstreams {
        warn_of_reach(&config.data(args.folder.data.as_deref()), name, place);
    }
    if !adapters.is_empty() {
        let names: Vec<_> = adapters.keys().map(smol_str::SmolStr::as_str).collect();
        note(format_args!("Calls go out through {}.", names.join(", ")));
    }
    if !listen.ip().is_loopback() && !gate.view().is_identified() {
        return Err(Failure::usage(format!(
            "{listen} can be reached from outside, and this gate has no admin: it cannot tell who calls"
        ))
        .hint("listen on 127.0.0.1 or [::1]")
        .hint("or make a gate with an admin: `countersign init` without --open")
        .into());
    }
    tls::check_reach(listen, tls.as_ref(), &config.tls)?;
    let gate = Arc::new(gate);
    // Before anyone is listened to: what was under way when the gate ended comes first.
    let outbox =
        Outbox::start(Arc::clone(&gate), adapters.clone()).context("the system gives no threads for the outbox")?;
    let served = serve(args, config, (listen, tls), &gate, adapters);
    outbox.stop();
    let closed = Arc::into_inner(gate).map_or(Ok(()), Gate::close);
    served.map_err(|error| bound(error, listen))?;
    closed.map_err(|cause| Failure::cannot(format!("the log was not closed: {cause}")))?;
    note("Closed.");
    Ok(Outcome::Yes)
}

/// Says which servers are only watched: agents can have calls made there that their guard would refuse.
fn warn_of_shadow(gate: &Gate, config: &Config) {
    for name in config.mcp.upstreams.keys() {
        let fact = FactType::new(SHADOW_TYPE).ok().and_then(|ty| FactId::new(ty, name.as_str()).ok());
        let value = fact.and_then(|fact| gate.fact(&fact)).and_then(|fact| fact.value.clone());
        let is_over = |value: &Attributes| match value.get("until") {
            Some(Value::Long(until)) => u64::try_from(*until).is_ok_and(|until| until <= gate.now_ms()),
            _ => false,
        };
        if value.is_some_and(|value| !is_over(&value)) {
            note(format_args!("warning: {}", shadow_in_force(name, config.mcp.unmapped)));
        }
    }
}

/// Says which calls are in doubt: nothing ends that by itself, unless something probes.
fn warn_of_doubts(gate: &Gate) {
    // A gate that runs is reached without naming its folder.
    let operator = OperatorCommands::default();
    let view = gate.view();
    for (id, effect) in view.effects_open() {
        let Phase::InDoubt { flight, .. } = &effect.phase else { continue };
        let sent = &flight.dispatched.call;
        let what = match &sent.send {
            Some(call::Send::Tool { tool, .. }) => format!("{}/{tool}", sent.adapter),
            _ => format!("{}.{}", effect.action.pact, effect.action.action),
        };
        let fenced = flight.dispatched.fenced.iter();
        let held = fenced.map(|fenced| view.held_feeds(&fenced.fact).count()).sum();
        let is_probed = sent.probe.is_some();
        note(format_args!("warning: {}", doubt(&id.to_string(), &what, held, is_probed, &operator)));
    }
}

/// Serves on the port, and operators on their socket, until it is told to end.
fn serve(
    args: &ServeArgs,
    config: &Config,
    (listen, tls): (SocketAddr, Option<Arc<Acceptor>>),
    gate: &Arc<Gate>,
    adapters: Adapters,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(READERS).enable_all().build();
    let runtime = runtime.context("the system gives no runtime")?;
    let calls: usize = adapters.values().map(|adapter| adapter.concurrency()).sum();
    // A reader opens two files at most, and a call one line; a program that is run has three ends.
    let others = 2 * (READERS + operators::READERS) + operators::CONNECTIONS + 4 * calls;
    let room = connections::connections_max(connections::raise_limit(), u64::try_from(others).unwrap_or(u64::MAX));
    let limits = config.connections.limits(room);
    let (ended, listener) = runtime.block_on(async {
        let ended = ended()?;
        anyhow::Ok((ended, Listener::port(crate::http::listen(gate, listen).await?, tls)))
    })?;
    let address = listener.local_addr()?;
    tracing::info!(connections = limits.connections, per_peer = limits.per_peer, "limits of the port");
    let router = crate::http::router(Arc::clone(gate), Arc::new(adapters), Reach::of(address), config.rate_limit);
    let socket = Socket::bind(config, &config.data(args.folder.data.as_deref()))?;
    if let Some(socket) = &socket {
        note(format_args!("Operators call unix:{}", socket.path().display()));
    }
    let operators = socket.map(|socket| socket.serve(router.clone())).transpose()?;
    note(format_args!("{LISTENING}{}://{address}", listener.scheme()));
    let served = runtime.block_on(connections::serve(router, listener, limits, ended));
    if let Some(operators) = operators {
        operators.stop();
    }
    served
}

fn listen(args: &ServeArgs, config: &Config) -> Result<SocketAddr> {
    let address = match (&args.listen, config.listen) {
        (Some(text), _) => config::listen(text).map_err(|error| Failure::of(Exit::Usage, error))?,
        (None, Some(address)) => address,
        (None, None) => config::listen(LISTEN)?,
    };
    Ok(address)
}

/// Says what opening found, so that anyone who restarted the gate knows what happened to it.
fn describe(report: &OpenReport, now_ms: u64) {
    let storage = &report.storage;
    let ended = if storage.was_clean { "closed cleanly" } else { "not closed cleanly" };
    let entries = count(storage.size, "entry", "entries");
    let segments = count(u64::try_from(storage.segments).unwrap_or_default(), "segment", "segments");
    note(format_args!("Opened a ledger of {entries} in {segments}, {ended}."));
    match report.snapshot {
        Some(at) => note(format_args!(
            "Used the snapshot at {at}; replayed {} after it.",
            count(report.replayed, "entry", "entries")
        )),
        None if report.replayed > 0 => note(format_args!("Replayed {}.", count(report.replayed, "entry", "entries"))),
        None => {}
    }
    if let Some(cut) = &storage.cut {
        note(format_args!(
            "Cut {} bytes of a batch that was never acknowledged from {}: {}.",
            cut.bytes, cut.place, cut.reason
        ));
    }
    for ignored in &report.ignored {
        note(format_args!("Passed over snapshot {}: {}.", ignored.name, ignored.reason));
    }
    if report.erasures_finished > 0 {
        note(format_args!(
            "Finished {} that a crash had interrupted.",
            count(report.erasures_finished, "erasure", "erasures")
        ));
    }
    note(format_args!("Ledger time is {}", time(now_ms)));
}

/// Ends with SIGINT, SIGTERM or SIGHUP.
pub(super) fn ended() -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut hangup = match is_ignored(SignalKind::hangup()) {
        true => None,
        false => Some(signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?),
    };
    Ok(async move {
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = hung_up => {}
        }
        note("Shutting down: answering requests already accepted.");
    })
}

/// Whether this process was started to ignore a signal, as `nohup` and background jobs of scripts are.
pub(super) fn is_ignored(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}

pub(super) fn bound(error: anyhow::Error, listen: SocketAddr) -> anyhow::Error {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    match io.map(std::io::Error::kind) {
        Some(std::io::ErrorKind::AddrInUse) => Failure::cannot(format!("{listen} is in use by another process"))
            .hint("choose another address with --listen; port 0 takes any that is free")
            .into(),
        Some(std::io::ErrorKind::AddrNotAvailable) => {
            Failure::cannot(format!("cannot listen on {listen}: this machine has no such address"))
                .hint("`ip address` lists those that it has; 127.0.0.1 is this machine alone, 0.0.0.0 all of them")
                .into()
        }
        _ => error,
    }
}

/// Standard error that drops what it cannot write. A full disk or a closed pipe must not end the thread that logs: it may be the
/// one that writes the ledger.
struct Lossy(std::io::Stderr);

impl std::io::Write for Lossy {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        drop(self.0.write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        drop(self.0.flush());
        Ok(())
    }
}

/// Sets logging up; RUST_LOG chooses what is logged, or else `usual` does. Everything on stderr has one format, also what is said to
/// people and how the command fails.
pub(super) fn logging(usual: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let writer = BoxMakeWriter::new(|| Lossy(std::io::stderr()));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    let set = match format {
        LogFormat::Text => {
            let colours = crate::terminal::colours(crate::terminal::Stream::Err);
            subscriber.with_ansi(colours).with_target(false).try_init()
        }
        LogFormat::Json => {
            crate::terminal::note_as_json();
            std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
            subscriber.json().flatten_event(true).try_init()
        }
    };
    // Only a second call can fail, and then logging is set up already.
    drop(set);
}
