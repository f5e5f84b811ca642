//! `countersign mcp`: the gateway in front of MCP servers.

mod approve;

pub use approve::read_tools;

use super::observe::agent as agent_name;
use super::serve::{ended, logging};
use super::{Connection, Failure, Outcome};
use crate::client::{Call, Client};
use crate::config::{self, Config};
use crate::connections;
use crate::mcp::Gateway;
use crate::mcp::downstream::{http, stdio};
use crate::mcp::gate::{GateClient, PACT_NAME};
use crate::mcp::settings::{self, Place, Unmapped};
use crate::mcp::upstream::Alive;
use crate::terminal::note;
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use countersign_api::PactList;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long servers may take to end when the gateway does: a little more than each is given.
const ENDS_WITHIN: Duration = Duration::from_secs(7);

/// Stand in front of MCP servers, and let the gate decide what their tools may do
///
/// Speaks MCP to the agent, over standard input and output or with --listen over streamable HTTP, and to the servers behind it.
/// Every message passes as it is, but for tools: an agent sees only those that an operator has approved, and every call is
/// decided by the gate first and is in the ledger before it is answered.
///
/// Tools that no pact maps: those that only read pass; others are refused, unless the settings let them pass.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  countersign mcp approve --upstream 'git=uvx mcp-server-git'                read the tools, and approve them
  countersign mcp --agent coder-1 --upstream 'git=uvx mcp-server-git'        what the agent starts instead of the server
  countersign mcp --agent coder-1 --listen 127.0.0.1:8430                    over HTTP, with the servers of countersign.toml:

  [mcp]
  unmapped = \"deny\"
  [mcp.upstream.git]
  command = [\"uvx\", \"mcp-server-git\"]
  [mcp.upstream.bank]
  url = \"http://127.0.0.1:8000/mcp\""
)]
pub struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Approve(approve::ApproveArgs),
}

/// The servers that a command is about.
#[derive(Debug, Clone, Args)]
pub struct Upstreams {
    /// A server, as 'name=command …' or name=http://…; may be repeated [default: those of countersign.toml]
    #[arg(long, value_name = "SERVER")]
    upstream: Vec<String>,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    upstreams: Upstreams,
    /// The agent in whose name the gateway asks the gate
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// The folder with the agent's key, NAME.key, which the gateway signs with [default: the current one]
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// What becomes of tools that no pact maps and that do not only read [default: deny]
    #[arg(long, value_name = "RULE")]
    unmapped: Option<Unmapped>,
    /// Serve clients over streamable HTTP here, at /mcp, instead of one over standard input and output
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Upstreams {
    /// Those of the command line, else those of the settings; at least one.
    pub fn chosen(&self, config: &Config) -> Result<Vec<(String, Place)>> {
        let mut chosen: Vec<(String, Place)> = Vec::new();
        for text in &self.upstream {
            let (name, place) = settings::upstream(text).map_err(|error| Failure::usage(error.to_string()))?;
            if chosen.iter().any(|(known, _)| *known == name) {
                return Err(Failure::usage(format!("two upstreams are called `{name}`")).hint("rename one").into());
            }
            chosen.push((name, place));
        }
        if chosen.is_empty() {
            chosen = config.mcp.upstreams.iter().map(|(name, place)| (name.clone(), place.clone())).collect();
        }
        if chosen.is_empty() {
            return Err(Failure::usage("no MCP server is named")
                .hint("name one with --upstream 'name=command …', or in countersign.toml under [mcp.upstream.NAME]")
                .into());
        }
        Ok(chosen)
    }
}

/// Runs the gateway, or one of the commands for it.
pub fn run(args: &McpArgs, config: &Config) -> Result<Outcome> {
    match &args.command {
        Some(McpCommand::Approve(args)) => approve::run(args, config),
        None => serve(&args.run, config),
    }
}

fn serve(args: &RunArgs, config: &Config) -> Result<Outcome> {
    let upstreams = args.upstreams.chosen(config)?;
    let listen =
        args.listen.as_deref().map(config::listen).transpose().map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(listen) = listen.filter(|listen| !listen.ip().is_loopback()) {
        return Err(Failure::usage(format!(
            "{listen} can be reached from outside, and the gateway cannot tell who calls"
        ))
        .hint("listen on 127.0.0.1 or [::1]; whoever reaches the gateway acts as its agent")
        .into());
    }
    logging("warn");
    let gate = gate(args, &upstreams, config)?;
    let idle = config.mcp.session_idle.unwrap_or(settings::SESSION_IDLE);
    let gateway = Arc::new(Gateway::new(upstreams, gate));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the system gives no runtime")?;
    let (alive, mut all_ended) = Alive::new();
    let served = runtime.block_on(async {
        let told = ended()?;
        let served = match listen {
            None => {
                tokio::select! {
                    served = stdio::serve(&gateway, &alive) => served.context("the client cannot be spoken to"),
                    () = told => Ok(()),
                }
            }
            Some(listen) => {
                let listener = tokio::net::TcpListener::bind(listen).await;
                let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
                note(format_args!("Listening on http://{}/mcp", listener.local_addr()?));
                let router = http::router(Arc::clone(&gateway), alive.clone(), idle);
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
    // Whoever still holds it is a task that was just ended; its own drop closes the gate.
    Arc::into_inner(gateway).map_or(Ok(()), |gateway| gateway.gate.close())?;
    Ok(Outcome::Yes)
}

/// The gate, asked in the agent's name and with its key.
fn gate(args: &RunArgs, upstreams: &[(String, Place)], config: &Config) -> Result<GateClient> {
    let unmapped = args.unmapped.unwrap_or(config.mcp.unmapped);
    let agent = agent_name(args.agent.as_deref(), &args.connection, config)?;
    let key = args.keys.clone().unwrap_or_default().join(format!("{agent}.key"));
    let connection = Connection {
        key: args.connection.key.clone().or_else(|| key.exists().then_some(key)),
        ..args.connection.clone()
    };
    let client = match &connection.data {
        // The gate is in this process, so its workers are too, and know the servers that the gateway knows.
        Some(data) => {
            let mut config = config.clone();
            config.mcp.upstreams = upstreams.iter().cloned().collect();
            connection.signed(Client::embedded_whole(data, &config)?, &config)?
        }
        None => connection.client(config)?,
    };
    check_set_up(&client);
    Ok(GateClient::new(client, agent, unmapped))
}

/// Says early what would otherwise be found out by an agent that sees no tools.
fn check_set_up(client: &Client) {
    match client.call::<PactList>(Call::get("/v1/pacts")) {
        Ok(list) if list.pacts.iter().any(|pact| pact.name == PACT_NAME) => {}
        Ok(_) => note("note: no tool is approved yet, so none will be shown; see `countersign mcp approve --help`"),
        Err(error) => note(format_args!("note: the gate does not answer: {error}")),
    }
}
