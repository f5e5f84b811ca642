//! `countersign mcp approve`.

mod changes;

use self::changes::changes;
use super::Upstreams;
use crate::client::{Call, Client};
use crate::commands::fact::waits;
use crate::commands::{Connection, Failure, OPERATOR, Outcome, fact_path, is_refused_as};
use crate::config::Config;
use crate::mcp::buffers::{BUFFERED_MAX, Buffers};
use crate::mcp::direct::{Direct, not_listed};
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
use std::io::IsTerminal as _;
use std::time::Duration;

/// How long servers may take to end when everything was read.
const ENDS_WITHIN: Duration = Duration::from_secs(7);

/// The longest definition that is kept in the fact, so that changes of it can be shown; a fact has 16 KiB.
const TEXT_BYTES_MAX: usize = 12 << 10;

/// Read the tools of MCP servers, and approve their definitions as they are
///
/// Shows every tool with its whole definition, and approves that definition by its hash, in a fact McpTool::"SERVER/TOOL".
/// An agent sees only approved tools. If a definition changes later, the tool is refused until you approve it again: the command
/// shows what changed and asks first; without a terminal it needs --yes, or the hash. Definitions with invisible characters
/// cannot be approved.
///
/// Needs an operator who may feed facts. The first time, that operator must also be a publisher, because calls are decided under
/// a small pact of their own, mcp-calls.
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
    /// Approve changed definitions without asking; needed where there is no terminal
    #[arg(long, conflicts_with = "show")]
    yes: bool,
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
    let mut read: Vec<(String, String)> = Vec::new();
    for (upstream, place) in &upstreams {
        if !args.tools.is_empty() && !args.tools.iter().any(|tool| tool.starts_with(&format!("{upstream}/"))) {
            continue;
        }
        let mut approved = false;
        for tool in read_tools(upstream, place)? {
            let id = format!("{upstream}/{}", tool.name);
            read.push((id.clone(), tool.definition.clone()));
            let asked = args.tools.iter().find(|asked| named(asked).0 == id);
            if !args.tools.is_empty() && asked.is_none() {
                continue;
            }
            left.retain(|asked| named(asked).0 != id);
            show(&id, &tool)?;
            if let Some(why) = &tool.unfit {
                note(format_args!("  cannot be approved: {why}"));
                outcome = Outcome::No;
            } else if let Some(shown) = asked.and_then(|asked| named(asked).1).filter(|shown| *shown != tool.definition)
            {
                note(format_args!("  not approved: you named {shown}, and its definition is {}", tool.definition));
                outcome = Outcome::No;
            } else if let Some(client) = &client {
                let is_named = asked.is_some_and(|asked| named(asked).1.is_some());
                match approve(client, args, upstream, &tool, is_named)? {
                    Some(said) => {
                        say(said);
                        approved = true;
                    }
                    None => outcome = Outcome::No,
                }
            }
        }
        if let Some(client) = client.as_ref().filter(|_| approved && !args.no_uses) {
            approve_server(client, &args.by, upstream)?;
        }
    }
    if let Some(missing) = left.first() {
        return Err(no_such(missing, &read));
    }
    client.map_or(Ok(()), Client::close)?;
    Ok(outcome)
}

/// Says what there is in place of something that was named and is not there.
fn no_such(missing: &str, read: &[(String, String)]) -> anyhow::Error {
    let before_hash = missing.rsplit_once('@').and_then(|(id, _)| read.iter().find(|(known, _)| known == id));
    let failure = match before_hash {
        Some((id, definition)) => Failure::no(format!("{missing} names no definition: that of {id} is {definition}"))
            .hint(format!("read it with --show, then name all of it: {id}@{definition}")),
        None => Failure::no(format!("there is no tool {missing}")).hint("--show lists them all"),
    };
    failure.into()
}

/// The tools of one server, which is started for this and ended again.
pub fn read_tools(upstream: &str, place: &Place) -> Result<Vec<Tool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the system gives no runtime")?;
    let read = runtime.block_on(async {
        let (alive, mut all_ended) = Alive::new();
        let tools = match Direct::open(upstream, place, &alive, &Buffers::new(BUFFERED_MAX)).await {
            Ok(mut direct) => direct.tools().await,
            Err(error) => Err(error),
        };
        drop(alive);
        let _ = tokio::time::timeout(ENDS_WITHIN, all_ended.recv()).await;
        tools
    });
    let tools = read.map_err(|error| {
        Failure::cannot(not_listed(&format!("the MCP server `{upstream}`"), &error.to_string()))
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
    for line in pretty(tool)?.lines() {
        say(format_args!("    | {line}"));
    }
    if !tool.definition.is_empty() {
        say(format_args!("    definition {}", tool.definition));
    }
    Ok(())
}

/// A whole definition, to be read. Twins and unreadable definitions are refused, so this is the one reading that the hash is of.
fn pretty(tool: &Tool) -> Result<String> {
    let whole: Value = serde_json::from_str(tool.raw().get()).context("a definition is no JSON")?;
    Ok(serde_json::to_string_pretty(&whole)?)
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

/// Approves a tool; `None` if the operator was asked and said no.
fn approve(client: &Client, args: &ApproveArgs, upstream: &str, tool: &Tool, is_named: bool) -> Result<Option<String>> {
    let fact = tool_fact(upstream, &tool.name)?;
    let text = pretty(tool)?;
    let mut value = json!({"definition": tool.definition, "read_only": tool.read_only});
    if let (true, Some(members)) = (text.len() <= TEXT_BYTES_MAX, value.as_object_mut()) {
        members.insert("text".to_owned(), json!(text));
    }
    let before: Option<FactResponse> = match client.call(Call::get(fact_path(&fact))) {
        Ok(before) => Some(before),
        Err(error) if is_refused_as(&error, ErrorCode::FactNotFound) => None,
        Err(error) => return Err(error),
    };
    if before.as_ref().is_some_and(|before| before.value == value) {
        return Ok(Some("    approved already".to_owned()));
    }
    if let Some(before) = &before {
        match before.value.get("text").and_then(Value::as_str) {
            Some(old) => {
                say("    changed since it was approved:");
                changes(old, &text).iter().for_each(|line| say(format_args!("    {line}")));
            }
            None => note("    changed since it was approved; that definition was too long to be kept"),
        }
        if !is_named && !args.yes && !is_wanted(&format!("{upstream}/{}", tool.name))? {
            return Ok(None);
        }
    }
    let Value::Object(value) = value else { return Ok(None) };
    let written: FactWritten = client.call(Call::put(fact_path(&fact)).agent(&args.by).json(&FactPut { value })?)?;
    let what = if before.is_some() { "approved again: the definition has changed" } else { "approved" };
    let later = if written.held { format!(". It counts later: {}", waits(&written)) } else { String::new() };
    Ok(Some(format!("    {what}, in entry {}{later}", written.entry)))
}

/// Asks at the terminal whether to approve a changed definition. Without a terminal there is no one to ask, and it is refused.
fn is_wanted(id: &str) -> Result<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage(format!(
            "{} has changed since it was approved, and there is no terminal to ask for confirmation",
            inline(id)
        ))
        .hint("read the changes above, then pass --yes, or name the definition: SERVER/TOOL@HASH")
        .into());
    }
    note(format_args!("    {} has changed since it was approved. Approve the definition above? [y/N]", inline(id)));
    let mut answer = String::new();
    input.read_line(&mut answer).context("the terminal cannot be read")?;
    let is_wanted = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    if !is_wanted {
        note("    not approved");
    }
    Ok(is_wanted)
}
