//! `countersign mcp approve`.

use super::Upstreams;
use crate::client::{Call, Client};
use crate::commands::fact::waits;
use crate::commands::{Connection, Failure, OPERATOR, Outcome, fact_path, is_refused_as};
use crate::config::Config;
use crate::mcp::direct::Direct;
use crate::mcp::gate::{PACT, PACT_NAME, SERVER_TYPE, tool_fact};
use crate::mcp::settings::Place;
use crate::mcp::tool::Tool;
use crate::mcp::upstream::Alive;
use crate::terminal::{count, inline, note, say};
use anyhow::{Context as _, Result};
use clap::Args;
use countersign_api::{ErrorCode, FactPut, FactResponse, FactWritten, PactList, PactPublished};
use countersign_core::ids::{FactId, FactType};
use serde_json::{Value, json};
use std::time::Duration;

/// How long servers may take to end when everything was read.
const ENDS_WITHIN: Duration = Duration::from_secs(7);

/// Read the tools of MCP servers, and approve their definitions as they are
///
/// Shows every tool with what it says of itself. What is approved is the whole definition, by its hash, in a fact
/// McpTool::"SERVER/TOOL". An agent sees approved tools only, and one whose definition changes afterwards is refused until it is
/// approved again. Definitions with characters that people do not see cannot be approved.
///
/// Takes an operator who may feed facts; the first time also one who may publish, since calls are decided under a small pact of
/// their own, mcp-calls.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign mcp approve --upstream 'git=uvx mcp-server-git' --show     only read them
  countersign mcp approve --upstream 'git=uvx mcp-server-git'            approve all of them
  countersign mcp approve git/git_status git/git_log                     two tools of a server in countersign.toml
  countersign mcp approve git/git_log@HASH                               only with the definition that --show printed

Exit codes: 0 approved, 1 some cannot be, 3 a server or the gate does not answer")]
pub struct ApproveArgs {
    /// The tools, as SERVER/TOOL, or SERVER/TOOL@HASH with the hash of the definition that was read [default: all of them]
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    #[command(flatten)]
    upstreams: Upstreams,
    /// Only show them
    #[arg(long)]
    show: bool,
    /// Approve tools only, and leave the server's resources, prompts and other methods as they are
    #[arg(long)]
    no_uses: bool,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    #[command(flatten)]
    connection: Connection,
}

/// Shows, and approves.
pub fn run(args: &ApproveArgs, config: &Config) -> Result<Outcome> {
    let upstreams = args.upstreams.chosen(config)?;
    let client = if args.show { None } else { Some(args.connection.client(config)?) };
    if let Some(client) = &client {
        publish(client, &args.by)?;
    }
    let mut outcome = Outcome::Yes;
    let mut left: Vec<&String> = args.tools.iter().collect();
    for (upstream, place) in &upstreams {
        if !args.tools.is_empty() && !args.tools.iter().any(|tool| tool.starts_with(&format!("{upstream}/"))) {
            continue;
        }
        let mut approved = false;
        for tool in read_tools(upstream, place)? {
            let id = format!("{upstream}/{}", tool.name);
            let asked = args.tools.iter().find(|asked| named(asked).0 == id);
            if !args.tools.is_empty() && asked.is_none() {
                continue;
            }
            left.retain(|asked| named(asked).0 != id);
            show(&id, &tool)?;
            if let Some(why) = &tool.unfit {
                note(format_args!("  cannot be approved: {why}"));
                outcome = Outcome::No;
            } else if asked.and_then(|asked| named(asked).1).is_some_and(|shown| shown != tool.definition) {
                note("  not approved: its definition is another than the one that was named");
                outcome = Outcome::No;
            } else if let Some(client) = &client {
                say(approve(client, &args.by, upstream, &tool)?);
                approved = true;
            }
        }
        if let Some(client) = client.as_ref().filter(|_| approved && !args.no_uses) {
            approve_server(client, &args.by, upstream)?;
        }
    }
    if let Some(missing) = left.first() {
        return Err(Failure::no(format!("there is no tool {missing}")).hint("--show lists them all").into());
    }
    client.map_or(Ok(()), Client::close)?;
    Ok(outcome)
}

/// The tools of one server, which is started for this and ended again.
pub fn read_tools(upstream: &str, place: &Place) -> Result<Vec<Tool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the system gives no runtime")?;
    let read = runtime.block_on(async {
        let (alive, mut all_ended) = Alive::new();
        let tools = match Direct::open(place, &alive).await {
            Ok(mut direct) => direct.tools().await,
            Err(error) => Err(error),
        };
        drop(alive);
        let _ = tokio::time::timeout(ENDS_WITHIN, all_ended.recv()).await;
        tools
    });
    let tools = read.map_err(|error| {
        Failure::cannot(format!("the MCP server `{upstream}` does not say which tools it has: {error}"))
            .hint("start it by hand to see why; what it writes to stderr is above")
    })?;
    note(format_args!("{upstream} has {}.", count(u64::try_from(tools.len()).unwrap_or_default(), "tool", "tools")));
    Ok(tools)
}

/// Makes sure that there is the pact that calls are decided under.
fn publish(client: &Client, by: &str) -> Result<()> {
    let list: PactList = client.call(Call::get("/v1/pacts"))?;
    if list.pacts.iter().any(|pact| pact.name == PACT_NAME) {
        return Ok(());
    }
    let call = Call::post("/v1/pacts").agent(by).body("application/toml", PACT.as_bytes().to_vec());
    let published: PactPublished = client.call(call)?;
    note(format_args!("published {PACT_NAME} version {} in entry {}", published.version, published.entry));
    Ok(())
}

/// The id of a tool that was asked for, and the hash of the definition that it must have.
fn named(asked: &str) -> (&str, Option<&str>) {
    let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match asked.rsplit_once('@') {
        Some((id, hash)) if is_hash(hash) => (id, Some(hash)),
        _ => (asked, None),
    }
}

/// Shows all that is approved: a model reads every string of a definition, so its approver must be able to.
fn show(id: &str, tool: &Tool) -> Result<()> {
    let kind = if tool.read_only { "only reads" } else { "may change something" };
    say(format_args!("{}  ({kind})", inline(id)));
    let text = |name: &str| tool.member(name).and_then(|text| serde_json::from_str::<String>(text.get()).ok());
    for line in text("description").or_else(|| text("title")).unwrap_or_default().trim().lines() {
        say(format_args!("    {line}"));
    }
    // Twins and unreadable definitions are refused, so this is the one reading that the hash is of.
    let whole: Value = serde_json::from_str(tool.raw().get()).context("a definition is no JSON")?;
    for line in serde_json::to_string_pretty(&whole)?.lines() {
        say(format_args!("    | {line}"));
    }
    if !tool.definition.is_empty() {
        say(format_args!("    definition {}", tool.definition));
    }
    Ok(())
}

/// Lets agents use the server otherwise than by its tools too, unless an operator has said before whether they may.
fn approve_server(client: &Client, by: &str, upstream: &str) -> Result<()> {
    let fact = FactId::new(FactType::new(SERVER_TYPE)?, upstream)?;
    match client.call::<FactResponse>(Call::get(fact_path(&fact))) {
        Ok(_) => return Ok(()),
        Err(error) if is_refused_as(&error, ErrorCode::FactNotFound) => {}
        Err(error) => return Err(error),
    }
    let value = serde_json::Map::from_iter([("uses".to_owned(), Value::Bool(true))]);
    let written: FactWritten = client.call(Call::put(fact_path(&fact)).agent(by).json(&FactPut { value })?)?;
    note(format_args!(
        "{upstream}: its resources, prompts and other methods may be used, in entry {}; \
         countersign fact put {SERVER_TYPE} {upstream} '{{\"uses\": false}}' ends that",
        written.entry
    ));
    Ok(())
}

fn approve(client: &Client, by: &str, upstream: &str, tool: &Tool) -> Result<String> {
    let fact = tool_fact(upstream, &tool.name)?;
    let value = json!({"definition": tool.definition, "read_only": tool.read_only});
    let before: Option<FactResponse> = match client.call(Call::get(fact_path(&fact))) {
        Ok(before) => Some(before),
        Err(error) if is_refused_as(&error, ErrorCode::FactNotFound) => None,
        Err(error) => return Err(error),
    };
    if before.as_ref().is_some_and(|before| before.value == value) {
        return Ok("    approved already".to_owned());
    }
    let Value::Object(value) = value else { return Ok(String::new()) };
    let written: FactWritten = client.call(Call::put(fact_path(&fact)).agent(by).json(&FactPut { value })?)?;
    let what = if before.is_some() { "approved again: the definition has changed" } else { "approved" };
    let later = if written.held { format!(". It counts later: {}", waits(&written)) } else { String::new() };
    Ok(format!("    {what}, in entry {}{later}", written.entry))
}
