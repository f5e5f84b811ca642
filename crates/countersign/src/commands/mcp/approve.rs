//! `countersign mcp approve`.

mod changes;
mod facts;
mod terms;
mod twice;

pub use self::facts::{
    Known, SHADOW_DAYS, approval, approve_as, approve_server_as, current, publish, put_changed, watch,
};
pub use self::terms::{RestsOn, Terms};
pub use self::twice::{Reader, note_volatile_in_trial};

use self::changes::changes;
use self::facts::{approve_server, tool_value};
use self::twice::note_volatile;
use super::Upstreams;
use crate::client::{Call, Client};
use crate::commands::fact::waits;
use crate::commands::screened::found_in_json;
use crate::commands::{Connection, Exit, Failure, OPERATOR, Outcome, fact_path};
use crate::config::Config;
use crate::mcp::adapter::Rules;
use crate::mcp::buffers::{BUFFERED_MAX, Buffers};
use crate::mcp::direct::{Direct, not_listed};
use crate::mcp::gate::tool_fact;
use crate::mcp::settings::{Guard, Place, Proposal, Unmapped, checked_paths};
use crate::mcp::tool::Tool;
use crate::mcp::upstream::Alive;
use crate::terminal::{count, inline, note, say};
use anyhow::{Context as _, Result};
use clap::Args;
use countersign_api::{FactPut, FactResponse, FactWritten};
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::time::Duration;

/// How long servers may take to end when everything was read.
const ENDS_WITHIN: Duration = Duration::from_secs(7);

/// Read the tools of MCP servers, and approve their definitions as they are
///
/// Shows every tool with its whole definition, and approves that definition by its hash, in a fact McpTool::"SERVER/TOOL".
/// An agent sees only approved tools. If a definition changes later, the tool is refused until you approve it again: the command
/// shows what changed and asks first; without a terminal it needs --yes, or the hash. Definitions with invisible characters
/// cannot be approved.
///
/// What the settings propose for a tool (`guard`, `reads`, `ignore`, `only`) is approved with it unless the options say otherwise; an
/// agent goes by what was approved and by nothing else.
///
/// Needs an operator with the role admin. The first time, that operator must also be a publisher, because calls are decided under a
/// small pact of their own, mcp-calls.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign mcp approve --upstream 'git=uvx mcp-server-git' --show     only read them
  countersign mcp approve --upstream 'git=uvx mcp-server-git'            approve all of them
  countersign mcp approve git/git_status git/git_log                     two tools of a server in countersign.toml
  countersign mcp approve git/git_log@HASH                               only with the definition that --show printed
  countersign mcp approve --guard as-read --reads directory_tree         guard all of them, one of which only reads

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
    /// A tool that only reads, although it does not say so, as TOOL or SERVER/TOOL; may be repeated
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    reads: Vec<String>,
    /// A tool that may change something, although it says that it only reads; may be repeated
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    writes: Vec<String>,
    /// Leave this path out when answers of the tool are compared, such as /updated_at; may be repeated
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Compare this path in answers of the tool and nothing else, such as /balance; may be repeated
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    only: Vec<String>,
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

/// Shows, and approves.
pub fn run(args: &ApproveArgs, config: &Config) -> Result<Outcome> {
    checked_paths(&args.ignore).map_err(|error| Failure::of(Exit::Usage, error))?;
    checked_paths(&args.only).map_err(|error| Failure::of(Exit::Usage, error))?;
    let upstreams = args.upstreams.chosen(config)?;
    let client = if args.show { None } else { Some(args.connection.client(config)?) };
    if let Some(client) = &client {
        publish(client, &args.by)?;
    }
    let mut approving = Approving {
        args,
        config,
        client: client.as_ref(),
        outcome: Outcome::Yes,
        left: args.tools.iter().collect(),
        unfound: args.reads.iter().chain(&args.writes).collect(),
        read: Vec::new(),
    };
    for (upstream, place) in &upstreams {
        if args.tools.is_empty() || args.tools.iter().any(|tool| tool.starts_with(&format!("{upstream}/"))) {
            approving.server(upstream, place)?;
        }
    }
    let Approving { outcome, left, unfound, read, .. } = approving;
    if let Some(missing) = left.first().or(unfound.first()) {
        return Err(no_such(missing, &read));
    }
    client.map_or(Ok(()), Client::close)?;
    Ok(outcome)
}

/// One run over servers and their tools.
struct Approving<'a> {
    args: &'a ApproveArgs,
    config: &'a Config,
    /// None where they are only shown.
    client: Option<&'a Client>,
    outcome: Outcome,
    /// What was named and not found yet.
    left: Vec<&'a String>,
    /// What was said to read or to write, and not found yet.
    unfound: Vec<&'a String>,
    /// The ids and definitions of all tools that were read.
    read: Vec<(String, String)>,
}

impl Approving<'_> {
    fn server(&mut self, upstream: &str, place: &Place) -> Result<()> {
        let nothing = Proposal::default();
        let proposal = self.config.mcp.proposals.get(upstream).unwrap_or(&nothing);
        let tools = read_tools(upstream, place)?;
        tools.iter().for_each(|tool| terms::find_named(&mut self.unfound, upstream, tool));
        let mut approved: Vec<(Reader, Terms)> = Vec::new();
        for tool in &tools {
            if let Some(terms) = self.tool(upstream, proposal, tool)? {
                let rules = Rules::new(&terms.ignore, &terms.only);
                // What needs arguments cannot be read without any.
                let tool = if tool.needs_no_arguments() { tool.name.clone() } else { String::new() };
                approved.push((Reader { tool, rules }, terms));
            }
        }
        let guards: Vec<Option<Guard>> = approved.iter().map(|(_, terms)| terms.guard).collect();
        let is_guarded = |terms: &Terms| terms.reads && terms.guard == Some(Guard::AsRead);
        let readers = approved.into_iter().filter(|(reader, terms)| is_guarded(terms) && !reader.tool.is_empty());
        let readers: Vec<Reader> = readers.map(|(reader, _)| reader).collect();
        if !readers.is_empty() {
            note_volatile(upstream, place, &readers);
        }
        let Some(client) = self.client.filter(|_| !guards.is_empty()) else { return Ok(()) };
        // That one tool is not guarded says nothing of its server.
        let guard = match guards.contains(&Some(Guard::AsRead)) {
            true => Some(Guard::AsRead),
            false => self.args.guard.filter(|_| self.args.tools.is_empty()),
        };
        // Leaving its other methods alone says nothing of its guard: a server with a guarded tool is guarded.
        approve_server(client, &self.args.by, upstream, guard, !self.args.no_uses)?;
        self.watch(client, upstream)
    }

    /// Approves that guarded tools are only watched, or that they no longer are, as the settings propose.
    fn watch(&self, client: &Client, upstream: &str) -> Result<()> {
        let is_watched = self.config.mcp.unmapped == Unmapped::Shadow;
        if watch(client, &self.args.by, upstream, is_watched)? {
            note(match is_watched {
                true => format!(
                    "{upstream}: in shadow mode, as the settings propose, for {SHADOW_DAYS} days: guarded calls are made, and the ledger \
                     says which would have been refused"
                ),
                false => {
                    format!("{upstream}: no longer in shadow mode: guarded calls are refused where readings differ")
                }
            });
        }
        Ok(())
    }

    /// Shows a tool, and approves it; `None` where it was not.
    fn tool(&mut self, upstream: &str, proposal: &Proposal, tool: &Tool) -> Result<Option<Terms>> {
        let args = self.args;
        let id = format!("{upstream}/{}", tool.name);
        self.read.push((id.clone(), tool.definition.clone()));
        let asked = args.tools.iter().find(|asked| named(asked).0 == id);
        if !args.tools.is_empty() && asked.is_none() {
            return Ok(None);
        }
        self.left.retain(|asked| named(asked).0 != id);
        show(&id, tool)?;
        if let Some(why) = &tool.unfit {
            note(format_args!("  cannot be approved: {why}"));
            self.outcome = Outcome::No;
            return Ok(None);
        }
        if let Some(shown) = asked.and_then(|asked| named(asked).1).filter(|shown| *shown != tool.definition) {
            note(format_args!("  not approved: you named {shown}, and its definition is {}", tool.definition));
            self.outcome = Outcome::No;
            return Ok(None);
        }
        let Some(client) = self.client else {
            Terms::of(args, proposal, upstream, tool, None).show(tool);
            return Ok(None);
        };
        let before = current(client, &tool_fact(upstream, &tool.name)?)?;
        let terms = Terms::of(args, proposal, upstream, tool, before.as_ref());
        terms.show(tool);
        if asked.is_some() && !terms.reads && !(args.ignore.is_empty() && args.only.is_empty()) {
            note(
                "    --ignore and --only are for tools that only read, and this one may change something: --reads says otherwise",
            );
        }
        let is_named = asked.is_some_and(|asked| named(asked).1.is_some());
        match approve(client, args, (upstream, tool), &terms, before.as_ref(), is_named)? {
            Some(said) => {
                say(said);
                Ok(Some(terms))
            }
            None => {
                self.outcome = Outcome::No;
                Ok(None)
            }
        }
    }
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
    if let Some(found) = found_in_json(tool.raw().get()) {
        note(format_args!("    it screens as {found}: read it with care, a model does what it says"));
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

/// Approves a tool; `None` if the operator was asked and said no.
fn approve(
    client: &Client,
    args: &ApproveArgs,
    (upstream, tool): (&str, &Tool),
    terms: &Terms,
    before: Option<&FactResponse>,
    is_named: bool,
) -> Result<Option<String>> {
    let value = tool_value(tool, terms)?;
    if before.is_some_and(|before| before.value.as_object() == Some(&value)) {
        return Ok(Some("    approved already".to_owned()));
    }
    let definition = json!(tool.definition);
    let is_redefined = |before: &&FactResponse| before.value.get("definition") != Some(&definition);
    if let Some(before) = before.filter(is_redefined) {
        match before.value.get("text").and_then(Value::as_str) {
            Some(old) => {
                say("    changed since it was approved:");
                changes(old, &pretty(tool)?).iter().for_each(|line| say(format_args!("    {line}")));
            }
            None => note("    changed since it was approved; that definition was too long to be kept"),
        }
        if !is_named && !args.yes && !is_wanted(&format!("{upstream}/{}", tool.name))? {
            return Ok(None);
        }
    }
    let fact = tool_fact(upstream, &tool.name)?;
    let written: FactWritten = client.call(Call::put(fact_path(&fact)).agent(&args.by).json(&FactPut { value })?)?;
    let what = match &before {
        Some(before) if is_redefined(before) => "approved again: the definition has changed",
        Some(_) => "approved again",
        None => "approved",
    };
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
