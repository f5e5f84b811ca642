//! `countersign mcp`: the gateway in front of MCP servers.

mod approve;
mod reach;
mod report;
mod started;
mod trial;

pub use approve::read_tools;
pub use started::{doubt, shadow_in_force};

use self::started::{check_proposals, check_set_up, warn_of_doubts};

use super::observe::agent as agent_name;
use super::serve::{LogFormat, acceptor, bound, ended, logging};
use super::{Connection, Exit, Failure, Outcome, is_refused, is_refused_as};
use crate::client::{Call, Client};
use crate::config::{self, Config, TlsSettings};
use crate::connections::{self, Listener};
use crate::mcp::Gateway;
use crate::mcp::buffers::Buffers;
use crate::mcp::downstream::http::Certified;
use crate::mcp::downstream::{http, stdio};
use crate::mcp::gate::GateClient;
use crate::mcp::operator::OperatorCommands;
use crate::mcp::settings::{self, Place, Unmapped};
use crate::mcp::upstream::Alive;
use crate::terminal::note;
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use countersign_api::{CallerResponse, ErrorCode};
use countersign_core::identity::KeyName;
use countersign_core::ids::Digest;
use ed25519_dalek::SigningKey;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long servers may take to end when the gateway does: a little more than each is given.
const ENDS_WITHIN: Duration = Duration::from_secs(7);

/// Try and run the gateway in front of MCP servers, approve their tools, and report what was refused
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    Try(trial::TryArgs),
    Serve(ServeArgs),
    Approve(approve::ApproveArgs),
    Report(report::ReportArgs),
}

/// Run the gateway: an agent starts it instead of the MCP servers, and the gate decides what their tools may do
///
/// Speaks MCP to the agent, over standard input and output or with --listen over streamable HTTP, and to the servers behind it.
/// An agent sees only tools that an operator has approved. Every call, and whatever else acts or discloses, is decided by the gate
/// first and recorded in the ledger before it is sent. Methods that the gateway does not know are refused unless you allow them.
///
/// Of the tools that no pact maps, read-only ones pass; the others are refused, unless the settings let them pass.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign mcp serve --agent coder-1 --upstream 'git=uvx mcp-server-git'  over standard input and output
  countersign mcp serve --agent coder-1 --listen 127.0.0.1:8430              over HTTP, with the servers of countersign.toml:

  [mcp]
  unmapped = \"deny\"
  [mcp.upstream.git]
  command = [\"uvx\", \"mcp-server-git\"]
  [mcp.upstream.bank]
  url = \"http://127.0.0.1:8000/mcp\"")]
pub struct ServeArgs {
    #[command(flatten)]
    upstreams: Upstreams,
    /// The agent in whose name the gateway asks the gate
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// The folder with the agent's key, NAME.key, which the gateway signs with [default: the current one]
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// What happens to tools that no pact maps and that may change something [default: deny]
    #[arg(long, value_name = "RULE")]
    unmapped: Option<Unmapped>,
    /// Let a method pass, recorded, although the gateway does not know what it does; may be repeated
    #[arg(long, value_name = "METHOD")]
    allow_method: Vec<String>,
    /// Serve clients over streamable HTTP at this address, at /mcp, instead of one client over standard input and output; over TLS
    /// where [tls] in countersign.toml has a certificate
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// Whether the key was named on the command line: then no other is looked for.
    #[arg(skip)]
    pub key_is_named: bool,
}

/// The servers that a command is about.
#[derive(Debug, Clone, Args)]
pub struct Upstreams {
    /// A server, as 'name=command …' or name=https://…; may be repeated [default: those of countersign.toml]
    #[arg(long, value_name = "SERVER")]
    upstream: Vec<String>,
    /// A variable in the environment of the server of --upstream: NAME is passed on, NAME=VALUE is set; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]", requires = "upstream")]
    env: Vec<String>,
}

impl Upstreams {
    /// Those of the command line, else those of the settings; at least one.
    pub fn chosen(&self, config: &Config) -> Result<Vec<(String, Place)>> {
        let mut chosen: Vec<(String, Place)> = Vec::new();
        for text in &self.upstream {
            let (name, place) = settings::upstream(text).map_err(|error| Failure::of(Exit::Usage, error))?;
            if chosen.iter().any(|(known, _)| *known == name) {
                return Err(Failure::usage(format!("two upstreams are called `{name}`")).hint("rename one").into());
            }
            chosen.push((name, place));
        }
        if !self.env.is_empty() {
            self.add_environment(&mut chosen)?;
        }
        if chosen.is_empty() {
            chosen = config.mcp.upstreams.iter().map(|(name, place)| (name.clone(), place.clone())).collect();
        }
        if chosen.is_empty() {
            return Err(Failure::usage("no MCP server is named")
                .hint("name one with --upstream 'name=command …', or in countersign.toml under [mcp.upstream.NAME]")
                .into());
        }
        for (name, place) in &chosen {
            place.check_environment(name).map_err(|error| Failure::of(Exit::Usage, error))?;
        }
        Ok(chosen)
    }

    /// Gives the server of the command line its variables. What is for one server must not go to another, so there is but one.
    fn add_environment(&self, chosen: &mut [(String, Place)]) -> Result<()> {
        let [(_, place)] = chosen else {
            return Err(Failure::usage("--env does not say which server it is for")
                .hint("name the servers in countersign.toml, each with its own `env`")
                .into());
        };
        place.add_environment(&self.env).map_err(|error| Failure::of(Exit::Usage, error).into())
    }
}

/// Runs one of them.
pub fn run(command: &McpCommand, config: &Config) -> Result<Outcome> {
    match command {
        McpCommand::Try(args) => trial::run(args, config),
        McpCommand::Serve(args) => serve(args, config),
        McpCommand::Approve(args) => approve::run(args, config),
        McpCommand::Report(args) => report::run(args, config),
    }
}

fn serve(args: &ServeArgs, config: &Config) -> Result<Outcome> {
    let upstreams = args.upstreams.chosen(config)?;
    let listen =
        args.listen.as_deref().map(config::listen).transpose().map_err(|error| Failure::of(Exit::Usage, error))?;
    check_reach(listen, &config.tls)?;
    let allowed = args.allow_method.iter().map(|name| settings::allowed_method(name)).collect::<Result<Vec<String>>>();
    let mut allowed = allowed.map_err(|error| Failure::of(Exit::Usage, error))?;
    allowed.extend(config.mcp.allow_methods.iter().cloned());
    let allowed = allowed.into_iter().collect();
    let (gate, certified) = gate(args, &upstreams, config)?;
    open_gateway(upstreams, gate, allowed, listen.map(|listen| (listen, certified)), config)
}

/// Refuses addresses that others can reach, unless everyone must show a certificate: otherwise the gateway cannot tell who calls.
fn check_reach(listen: Option<SocketAddr>, tls: &TlsSettings) -> Result<()> {
    let Some(listen) = listen.filter(|listen| !listen.ip().is_loopback()) else { return Ok(()) };
    if tls.is_on() && tls.rules.require {
        return Ok(());
    }
    Err(Failure::usage(format!("{listen} can be reached from outside, and the gateway cannot tell who calls"))
        .hint("listen on 127.0.0.1 or [::1]; anyone who reaches the gateway acts as its agent")
        .hint("or have every client show a certificate that names the agent: `require_client_certificate` under [tls]")
        .into())
}

/// Serves one client over standard input and output, or those that come to an address.
fn open_gateway(
    upstreams: Vec<(String, Place)>,
    gate: GateClient,
    allowed: HashSet<String>,
    listen: Option<(SocketAddr, Certified)>,
    config: &Config,
) -> Result<Outcome> {
    logging("warn", LogFormat::Text);
    let acceptor = listen.as_ref().and_then(|_| acceptor(&config.tls)).transpose()?;
    let idle = config.mcp.session_idle.unwrap_or(settings::SESSION_IDLE);
    let gateway = Arc::new(Gateway::new(upstreams, gate, allowed, Buffers::new(config.mcp.buffered_max())));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the system gives no runtime")?;
    let (alive, mut all_ended) = Alive::new();
    let served = runtime.block_on(async {
        let told = ended()?;
        let served = match listen {
            None => stdio::serve(&gateway, &alive, told).await.context("the client cannot be spoken to"),
            Some((listen, certified)) => {
                let listener = tokio::net::TcpListener::bind(listen).await;
                let listener = Listener::port(listener.map_err(|error| bound(error.into(), listen))?, acceptor);
                note(format_args!("Listening on {}://{}/mcp", listener.scheme(), listener.local_addr()?));
                let router = http::router(Arc::clone(&gateway), alive.clone(), idle, certified);
                // Half of the descriptors are for the servers behind: each session has its own.
                let descriptors = connections::raise_limit();
                let limits = config.connections.limits(connections::connections_max(descriptors, descriptors / 2));
                // Streams that clients keep open would never end by themselves, so they are cut.
                tokio::select! {
                    served = connections::serve(router, listener, limits, std::future::pending()) => served,
                    () = told => Ok(()),
                }
            }
        };
        drop(alive);
        // Everything that holds one is dropped when its server has ended.
        let _ = tokio::time::timeout(ENDS_WITHIN, all_ended.recv()).await;
        served
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    // Anyone who still holds it is a task that was just ended; its own drop closes the gate.
    Arc::into_inner(gateway).map_or(Ok(()), |gateway| gateway.gate.close())?;
    Ok(Outcome::Yes)
}

/// The gate, asked in the agent's name and with its key; and whom certificates of clients must name.
fn gate(args: &ServeArgs, upstreams: &[(String, Place)], config: &Config) -> Result<(GateClient, Certified)> {
    let unmapped = args.unmapped.unwrap_or(config.mcp.unmapped);
    let mut agent = agent_name(args.agent.as_deref(), &args.connection, config)?;
    // The agent's own key comes before `COUNTERSIGN_KEY`, which is an operator's for most people, and not before one that is named here.
    let own_key = args.keys.clone().unwrap_or_default().join(format!("{agent}.key"));
    let goes_by_own = own_key.exists() && !args.key_is_named;
    let key = if goes_by_own { Some(own_key.clone()) } else { args.connection.key.clone() };
    let connection = Connection { key, ..args.connection.clone() };
    for (name, place) in upstreams {
        if let Some(data) = &connection.data {
            warn_of_reach(data, name, place);
        }
    }
    let client = match &connection.data {
        // The gate is in this process, so its workers are too, and know the servers that the gateway knows.
        Some(data) => {
            let mut config = config.clone();
            config.mcp.upstreams = upstreams.iter().cloned().collect();
            connection.signed(Client::embedded_with_socket(data, &config)?, &config)?
        }
        None => connection.client(config)?,
    };
    check_identity(&client, &mut agent, connection.key_file(config), &own_key)?;
    check_set_up(&client, upstreams);
    let operator = OperatorCommands::at(connection.data.as_ref().map(|data| Client::option_for(data, config)));
    warn_of_doubts(&client, &operator);
    let key = connection.key_file(config).map(crate::key_file::read).transpose()?;
    // Told apart by where they are: a session of one gate is none of another's.
    let data = connection.data.as_ref().map(|data| data.canonicalize().unwrap_or_else(|_| data.clone()));
    let server = connection.server.as_deref().or(config.server.as_deref()).unwrap_or_default();
    let name = data.map_or_else(|| server.to_owned(), |data| data.display().to_string());
    let gate = GateClient::new(client, agent.clone(), unmapped, secret(key.as_ref(), &agent)).noting(&name);
    let gate = gate.advising(operator);
    check_proposals(&gate, upstreams, unmapped, config);
    let key = key.map(|key| KeyName::of(key.verifying_key().to_bytes()));
    Ok((gate, Certified { agent, key }))
}

/// Warns of a server that is given the folder of the gate: its keys are there.
pub fn warn_of_reach(data: &Path, name: &str, place: &Place) {
    if let Some(folder) = reach::served(data, place).or_else(|| reach::named_to_shell(data, place)) {
        note(format_args!(
            "warning: the server `{name}` is given {}, and can reach {} there, with the gate's keys: whoever calls its tools \
             controls the gate. Move one of the two",
            folder.display(),
            data.display()
        ));
    }
}

/// What continuations over standard input are sealed with: known to anyone who holds the agent's key, and the same tomorrow. An open
/// gate tells everything to anyone on this machine, so there is nothing to keep from anyone there.
fn secret(key: Option<&SigningKey>, agent: &str) -> [u8; 32] {
    let key = key.map(SigningKey::to_bytes).unwrap_or_default();
    Digest::of(&[b"countersign continuation\0".as_slice(), &key, agent.as_bytes()].concat()).0
}

/// Refuses to start where the gate would refuse everything: better now than by telling a model to try again later.
fn check_identity(client: &Client, agent: &mut String, key: Option<&Path>, own_key: &Path) -> Result<()> {
    let new = "an admin registers it: countersign agent new NAME --org ORG --held-by-gateway";
    let caller = match client.call::<CallerResponse>(Call::get("/v1/caller")) {
        Ok(caller) => caller,
        Err(error) if is_refused_as(&error, ErrorCode::SignatureMissing) => {
            let own_key = own_key.display();
            return Err(Failure::usage(format!(
                "the gate goes by signatures, and there is no key of the agent: {own_key} is not there"
            ))
            .hint("name the folder with the agent's key with --keys, or the key file with --key")
            .hint(new)
            .into());
        }
        Err(error) if is_refused(&error) => {
            let key = key.unwrap_or(own_key).display();
            let why = format!("the gate does not take the key in {key} for the agent's: {error}");
            return Err(Failure::usage(why).hint(new).into());
        }
        Err(error) => {
            note(format_args!("note: the gate does not answer: {error}"));
            return Ok(());
        }
    };
    let (Some(name), Some(kind)) = (caller.name, caller.kind) else { return Ok(()) };
    if kind != "agent" || (!agent.is_empty() && *agent != name) {
        let key = key.unwrap_or(own_key).display();
        return Err(Failure::usage(format!(
            "the key in {key} is not the agent's: it is the key of the {kind} `{name}`"
        ))
        .hint(format!("the agent's own key is looked for in {}; --keys names its folder", own_key.display()))
        .hint(new)
        .into());
    }
    *agent = name;
    Ok(())
}
