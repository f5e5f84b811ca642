//! `countersign mcp approve`.

mod changes;

use self::changes::changes;
use super::Upstreams;
use crate::client::{Call, Client};
use crate::commands::fact::waits;
use crate::commands::{Connection, Failure, OPERATOR, Outcome, fact_path, is_refused_as};
use crate::config::Config;
use crate::mcp::adapter::compared;
use crate::mcp::buffers::{BUFFERED_MAX, Buffers};
use crate::mcp::direct::{Direct, not_listed};
use crate::mcp::gate::{AS_READ, PACT, PACT_NAME, SERVER_TYPE, tool_fact};
use crate::mcp::message::raw;
use crate::mcp::settings::Place;
use crate::mcp::tool::Tool;
use crate::mcp::upstream::Alive;
use crate::terminal::{count, inline, note, say};
use anyhow::{Context as _, Result};
use clap::Args;
use countersign_api::{ErrorCode, FactPut, FactResponse, FactWritten, PactList, PactPublished};
use countersign_core::difference::paths;
use countersign_core::ids::{Digest, FactId, FactType};
use countersign_core::pact::CARRIED;
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::time::Duration;

/// How long servers may take to end when everything was read.
const ENDS_WITHIN: Duration = Duration::from_secs(7);

/// How long a tool may take to be read for its approval.
const READS_WITHIN: Duration = Duration::from_secs(10);

/// How many paths are named that differ by themselves.
const VOLATILE_MAX: usize = 8;

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
    /// Guard these tools: the gate makes their calls, and a write runs only if everything that its agent read reads the same
    #[arg(long, value_name = "GUARD")]
    guard: Option<Guard>,
    /// Leave this path out when answers of the tool are compared, such as /updated_at; may be repeated
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Let calls of these tools rest only on readings whose values their arguments carry, and not on everything that was read
    #[arg(long, value_name = "WHAT")]
    rests_on: Option<RestsOn>,
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

/// How calls of a tool are guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Guard {
    /// By what was read in the session.
    AsRead,
    /// Not at all.
    None,
}

/// What calls of a tool rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RestsOn {
    /// Every reading of the session.
    All,
    /// Readings whose values the call carries.
    Carried,
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
        let mut readers: Vec<String> = Vec::new();
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
                        readers.extend((tool.read_only && tool.needs_no_arguments()).then(|| tool.name.clone()));
                    }
                    None => outcome = Outcome::No,
                }
            }
        }
        if args.guard == Some(Guard::AsRead) && args.ignore.is_empty() && !readers.is_empty() {
            note_volatile(upstream, place, &readers);
        }
        if let Some(client) = client.as_ref().filter(|_| approved && !args.no_uses) {
            approve_server(client, args, upstream)?;
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

/// Reads tools that take no arguments twice, and says which answers differ by themselves: they would refuse every write.
fn note_volatile(upstream: &str, place: &Place, tools: &[String]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let differing = runtime.block_on(async {
        let (alive, mut all_ended) = Alive::new();
        let mut differing = Vec::new();
        if let Ok(mut direct) = Direct::open(upstream, place, &alive, &Buffers::new(BUFFERED_MAX)).await {
            for tool in tools {
                let (Some(one), Some(other)) = (read_once(&mut direct, tool).await, read_once(&mut direct, tool).await)
                else {
                    continue;
                };
                let found = paths(&one, &other, VOLATILE_MAX);
                differing.extend((!found.is_empty()).then(|| (tool.clone(), found)));
            }
        }
        drop(alive);
        let _ = tokio::time::timeout(ENDS_WITHIN, all_ended.recv()).await;
        differing
    });
    for (tool, found) in differing {
        note(format_args!(
            "{upstream}/{tool} answered differently when it was read twice, at {}: every write that rests on it would be refused",
            found.join(", ")
        ));
        note(format_args!(
            "  to leave that out: countersign mcp approve {upstream}/{tool} --ignore {}",
            found.join(",")
        ));
    }
}

/// What is compared of an answer; `None` where there is none.
async fn read_once(direct: &mut Direct, tool: &str) -> Option<String> {
    let params = raw(&json!({"name": tool, "arguments": {}}));
    let answer = direct.request("tools/call", Some(params), READS_WITHIN).await.ok()?;
    Some(compared(answer.result_raw()?.get()))
}

/// Makes sure that there is the pact that calls are decided under.
pub fn publish(client: &Client, by: &str) -> Result<()> {
    let list: PactList = client.call(Call::get("/v1/pacts"))?;
    let published = list.pacts.iter().find(|pact| pact.name == PACT_NAME);
    let version = published.map_or(0, |pact| pact.version);
    // As this program has it, whatever its number is on this gate.
    let text = |version: u64| PACT.replacen("version = 1\n", &format!("version = {version}\n"), 1);
    if published.is_some_and(|pact| pact.hash == Digest::of(text(version).as_bytes()).to_string()) {
        return Ok(());
    }
    let call = Call::post("/v1/pacts").agent(by).body("application/toml", text(version + 1).into_bytes());
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
fn approve_server(client: &Client, args: &ApproveArgs, upstream: &str) -> Result<()> {
    let by = &args.by;
    let fact = FactId::new(FactType::new(SERVER_TYPE)?, upstream)?;
    match client.call::<FactResponse>(Call::get(fact_path(&fact))) {
        Ok(before) => return guard_server(client, args, &fact, &before.value),
        Err(error) if is_refused_as(&error, ErrorCode::FactNotFound) => {}
        Err(error) => return Err(error),
    }
    let mut value = serde_json::Map::from_iter([("uses".to_owned(), Value::Bool(true))]);
    if args.guard == Some(Guard::AsRead) {
        value.insert("guard".to_owned(), json!(AS_READ));
    }
    let written: FactWritten = client.call(Call::put(fact_path(&fact)).agent(by).json(&FactPut { value })?)?;
    note(format_args!(
        "{upstream}: its resources, prompts and other methods may be used, in entry {}; \
         countersign fact put {SERVER_TYPE} {upstream} '{{\"uses\": false}}' ends that",
        written.entry
    ));
    Ok(())
}

/// Guards a server that was approved before, where the command says so.
fn guard_server(client: &Client, args: &ApproveArgs, fact: &FactId, before: &Value) -> Result<()> {
    let mut value = before.as_object().cloned().unwrap_or_default();
    match args.guard {
        Some(Guard::AsRead) => drop(value.insert("guard".to_owned(), json!(AS_READ))),
        Some(Guard::None) => drop(value.remove("guard")),
        None => {}
    }
    put_changed(client, &args.by, fact, value)
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
    guarded(&mut value, tool, args, before.as_ref());
    if before.as_ref().is_some_and(|before| before.value == value) {
        return Ok(Some("    approved already".to_owned()));
    }
    let definition = json!(tool.definition);
    let is_redefined = |before: &&FactResponse| before.value.get("definition") != Some(&definition);
    if let Some(before) = before.as_ref().filter(is_redefined) {
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
    let what = match &before {
        Some(before) if is_redefined(&before) => "approved again: the definition has changed",
        Some(_) => "approved again",
        None => "approved",
    };
    let later = if written.held { format!(". It counts later: {}", waits(&written)) } else { String::new() };
    Ok(Some(format!("    {what}, in entry {}{later}", written.entry)))
}

/// How a tool is approved without being asked about.
pub struct Approved<'a> {
    /// Whether it only reads; what does not is guarded by what was read.
    pub reads: bool,
    /// Paths that are left out when its answers are compared.
    pub ignore: &'a [String],
    /// Whether its calls rest only on readings whose values they carry.
    pub carried: bool,
}

/// Approves a tool as it is, whatever was approved before.
pub fn approve_as(client: &Client, by: &str, upstream: &str, tool: &Tool, approved: &Approved<'_>) -> Result<()> {
    let fact = tool_fact(upstream, &tool.name)?;
    let text = pretty(tool)?;
    let mut value = serde_json::Map::new();
    value.insert("definition".to_owned(), json!(tool.definition));
    value.insert("read_only".to_owned(), json!(approved.reads));
    value.insert("guard".to_owned(), json!(AS_READ));
    if text.len() <= TEXT_BYTES_MAX {
        value.insert("text".to_owned(), json!(text));
    }
    if approved.carried {
        value.insert("rests_on".to_owned(), json!(CARRIED));
    }
    if !approved.ignore.is_empty() {
        value.insert("ignore".to_owned(), json!(approved.ignore));
    }
    if tool.is_destructive() {
        value.insert("destructive".to_owned(), json!(true));
    }
    put_changed(client, by, &fact, value)
}

/// Lets an agent use a server otherwise than by its tools too, and guards what it reads there.
pub fn approve_server_as(client: &Client, by: &str, upstream: &str) -> Result<()> {
    let fact = FactId::new(FactType::new(SERVER_TYPE)?, upstream)?;
    let value = [("uses".to_owned(), Value::Bool(true)), ("guard".to_owned(), json!(AS_READ))];
    put_changed(client, by, &fact, value.into_iter().collect())
}

/// Feeds a fact unless it has this value.
pub fn put_changed(client: &Client, by: &str, fact: &FactId, value: serde_json::Map<String, Value>) -> Result<()> {
    let before: Result<FactResponse> = client.call(Call::get(fact_path(fact)));
    if before.is_ok_and(|before| before.value.as_object() == Some(&value)) {
        return Ok(());
    }
    let _: FactWritten = client.call(Call::put(fact_path(fact)).agent(by).json(&FactPut { value })?)?;
    Ok(())
}

/// Whether a tool was approved before with another definition.
pub fn is_redefined(client: &Client, upstream: &str, tool: &Tool) -> Result<bool> {
    let fact = tool_fact(upstream, &tool.name)?;
    match client.call::<FactResponse>(Call::get(fact_path(&fact))) {
        Ok(before) => Ok(before.value.get("definition") != Some(&json!(tool.definition))),
        Err(error) if is_refused_as(&error, ErrorCode::FactNotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Adds how the tool is guarded: as the command says, or as it was.
fn guarded(value: &mut Value, tool: &Tool, args: &ApproveArgs, before: Option<&FactResponse>) {
    let Some(members) = value.as_object_mut() else { return };
    let was = |name: &str| before.and_then(|before| before.value.get(name)).cloned();
    let guard = match args.guard {
        Some(Guard::AsRead) => Some(json!(AS_READ)),
        Some(Guard::None) => None,
        None => was("guard"),
    };
    members.extend(guard.map(|guard| ("guard".to_owned(), guard)));
    let ignore = if args.ignore.is_empty() { was("ignore") } else { Some(json!(args.ignore)) };
    members.extend(ignore.map(|ignore| ("ignore".to_owned(), ignore)));
    let rests_on = match args.rests_on {
        Some(RestsOn::Carried) => Some(json!(CARRIED)),
        Some(RestsOn::All) => None,
        None => was("rests_on"),
    };
    members.extend(rests_on.map(|rests_on| ("rests_on".to_owned(), rests_on)));
    if tool.is_destructive() {
        members.insert("destructive".to_owned(), json!(true));
    }
    members.extend(was("only").map(|only| ("only".to_owned(), only)));
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
