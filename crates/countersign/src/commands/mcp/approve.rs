//! `countersign mcp approve`.

mod changes;
mod facts;
mod listed;
mod shown;
mod terms;
mod twice;

pub use self::facts::{
    Known, SHADOW_DAYS, approval, approve_as, approve_server_as, current, publish, put_changed, watch,
};
pub use self::listed::read_tools;
pub use self::terms::{RestsOn, Terms};
pub use self::twice::{Reader, note_volatile_in_trial};

use self::facts::{approve_server, tool_value};
use self::shown::{note_guard, pretty, show, show_changes, show_plan};
use self::twice::note_volatile;
use super::Upstreams;
use crate::client::{Call, Client};
use crate::commands::fact::waits;
use crate::commands::{Connection, Exit, Failure, OPERATOR, Outcome, did_you_mean, fact_path};
use crate::config::Config;
use crate::mcp::adapter::Rules;
use crate::mcp::gate::tool_fact;
use crate::mcp::settings::{Guard, Place, Proposal, Unmapped, checked_ignored, checked_labels, checked_paths};
use crate::mcp::shell::word;
use crate::mcp::tool::Tool;
use crate::terminal::{count, inline, note, prompt, say, say_json};
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
/// cannot be approved. In a terminal it asks once for each server, under a list of what becomes of each tool; --yes answers that.
///
/// With --guard as-read, tools that say nothing of themselves count as reading by their names, as for `mcp try`: it says which, and
/// --reads and --writes correct it.
///
/// What the settings propose for a tool (`guard`, `reads`, `ignore`, `only`, `labels`) is approved with it unless the options say
/// otherwise; an agent goes by what was approved and by nothing else.
///
/// Needs an operator with the role admin. The first time, that operator must also be a publisher, because calls are decided under a
/// small pact of their own, mcp-calls.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign mcp approve --upstream 'git=uvx mcp-server-git' --show     only read them
  countersign mcp approve --upstream 'git=uvx mcp-server-git'            approve all of them
  countersign mcp approve git                                            all tools of a server in countersign.toml
  countersign mcp approve git/git_status git/git_log                     two of them
  countersign mcp approve git/git_log@HASH                               only with the definition that --show printed
  countersign mcp approve --guard as-read                                guard all of them, by what their agents read
  countersign mcp approve --guard as-read --reads directory_tree         the same, and say that one of them only reads

Exit codes: 0 approved, 1 some cannot be, 3 a server or the gate does not answer")]
pub struct ApproveArgs {
    /// The tools, as SERVER/TOOL, SERVER for all of that server, or SERVER/TOOL@HASH with the hash of the definition that was read
    /// [default: all of them]
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
    /// Compare this path in answers of the tool and nothing else, such as /balance; may be repeated; '' compares all again
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    only: Vec<String>,
    /// Let calls of these tools rest only on readings whose values their arguments carry, and not on everything that was read
    #[arg(long, value_name = "WHAT")]
    rests_on: Option<RestsOn>,
    /// Where answers of these tools come from, such as untrusted or confidential: an agent that is shown one has the label; `none` takes
    /// labels off; may be repeated
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    label: Vec<String>,
    /// Approve without asking; needed for changed definitions where there is no terminal
    #[arg(long, conflicts_with = "show")]
    yes: bool,
    /// Approve tools only, and leave the server's resources, prompts and other methods as they are
    #[arg(long)]
    no_uses: bool,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object, and ask nothing
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Refuses options that say two things of one tool, or of which one does nothing.
pub fn check_options(reads: &[String], writes: &[String], ignore: &[String], only: &[String]) -> Result<()> {
    if let Some(both) = reads.iter().find(|name| writes.contains(name)) {
        let both = inline(both);
        return Err(Failure::usage(format!("--reads and --writes both name {both}"))
            .hint("leave one of them out")
            .into());
    }
    if !ignore.is_empty() && !only.is_empty() {
        return Err(Failure::usage(
            "--only compares what it names and nothing else, so --ignore beside it leaves nothing out",
        )
        .hint("leave one of them out")
        .into());
    }
    Ok(())
}

/// Shows, and approves.
pub fn run(args: &ApproveArgs, config: &Config) -> Result<Outcome> {
    checked_ignored(&args.ignore).map_err(|error| Failure::of(Exit::Usage, error))?;
    if args.only != [""] {
        checked_paths(&args.only).map_err(|error| Failure::of(Exit::Usage, error))?;
    }
    checked_labels(&args.label).map_err(|error| Failure::of(Exit::Usage, error))?;
    check_options(&args.reads, &args.writes, &args.ignore, &args.only)?;
    let upstreams = args.upstreams.chosen(config)?;
    let client = match args.show {
        true => shown::approved_now(&args.connection, config),
        false => Some(args.connection.client(config)?),
    };
    if let Some(client) = client.as_ref().filter(|_| !args.show) {
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
        rows: Vec::new(),
    };
    for (upstream, place) in &upstreams {
        let is_asked = |tool: &String| tool == upstream || tool.starts_with(&format!("{upstream}/"));
        if args.tools.is_empty() || args.tools.iter().any(is_asked) {
            approving.server(upstream, place)?;
        }
    }
    let Approving { outcome, left, unfound, read, rows, .. } = approving;
    if args.json {
        say_json(&json!({ "tools": rows }));
    }
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
    /// None where they are only shown, and the gate does not say how they are approved now.
    client: Option<&'a Client>,
    outcome: Outcome,
    /// What was named and not found yet.
    left: Vec<&'a String>,
    /// What was said to read or to write, and not found yet.
    unfound: Vec<&'a String>,
    /// The ids and definitions of all tools that were read.
    read: Vec<(String, String)>,
    /// What a program is told of each tool.
    rows: Vec<Value>,
}

/// A tool that is about to be approved.
struct Planned<'a> {
    tool: &'a Tool,
    terms: Terms,
    before: Option<FactResponse>,
    /// Whether its definition was named by its hash.
    is_named: bool,
}

impl Planned<'_> {
    /// Whether another definition was approved before. Such a tool is asked for by itself.
    fn is_redefined(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.value.get("definition") != Some(&json!(self.tool.definition)))
    }

    /// Whether it is approved already, on these terms.
    fn is_done(&self) -> Result<bool> {
        let value = tool_value(self.tool, &self.terms)?;
        Ok(self.before.as_ref().is_some_and(|before| before.value.as_object() == Some(&value)))
    }
}

impl Approving<'_> {
    fn server(&mut self, upstream: &str, place: &Place) -> Result<()> {
        let nothing = Proposal::default();
        let proposal = self.config.mcp.proposals.get(upstream).unwrap_or(&nothing);
        let tools = read_tools(upstream, place)?;
        check_proposed(upstream, proposal, &tools)?;
        self.left.retain(|asked| *asked != upstream);
        tools.iter().for_each(|tool| terms::find_named(&mut self.unfound, upstream, tool));
        let mut planned: Vec<Planned<'_>> = Vec::new();
        for tool in &tools {
            planned.extend(self.plan(upstream, proposal, tool)?);
        }
        if !self.args.json && planned.len() > 1 {
            show_plan(upstream, &planned, self.client.is_some());
        }
        let Some(client) = self.client.filter(|_| !self.args.show) else { return Ok(()) };
        if !planned.is_empty() && !self.is_wanted(upstream, &planned)? {
            note("not approved");
            self.outcome = Outcome::No;
            return Ok(());
        }
        let mut approved: Vec<(&Tool, Terms)> = Vec::new();
        for Planned { tool, terms, before, is_named } in planned {
            match approve(client, self.args, (upstream, tool), &terms, before.as_ref(), is_named)? {
                Some(_) if self.args.json => {
                    self.row(upstream, tool, Some(&terms), true);
                    approved.push((tool, terms));
                }
                Some(said) => {
                    let id = format!("{upstream}/{}", tool.name);
                    say(format_args!("{}  {said}", inline(&id)));
                    if let Some(lost) = terms.loses(before.as_ref()) {
                        note(format_args!(
                            "  warning: {lost}; to guard it again: countersign mcp approve {} --guard as-read",
                            word(&id)
                        ));
                    }
                    approved.push((tool, terms));
                }
                None => self.outcome = Outcome::No,
            }
        }
        let is_guarded = |terms: &Terms| terms.guard == Some(Guard::AsRead);
        // What needs arguments cannot be read without any.
        let readers =
            approved.iter().filter(|(tool, terms)| terms.reads && is_guarded(terms) && tool.needs_no_arguments());
        let reader = |(tool, terms): &(&Tool, Terms)| Reader {
            tool: tool.name.clone(),
            rules: Rules::new(&terms.ignore, &terms.only),
        };
        let readers: Vec<Reader> = readers.map(reader).collect();
        if !readers.is_empty() {
            note_volatile(upstream, place, &readers);
        }
        if approved.is_empty() {
            return Ok(());
        }
        // That one tool is not guarded says nothing of its server.
        let guard = match approved.iter().any(|(_, terms)| is_guarded(terms)) {
            true => Some(Guard::AsRead),
            false => self.args.guard.filter(|_| self.is_whole(upstream)),
        };
        // Leaving its other methods alone says nothing of its guard: a server with a guarded tool is guarded.
        approve_server(client, &self.args.by, upstream, guard, !self.args.no_uses)?;
        if guard == Some(Guard::AsRead) {
            note_guard(client, upstream, &tools, &approved)?;
        }
        self.watch(client, upstream)
    }

    /// Whether all tools of a server are approved.
    fn is_whole(&self, upstream: &str) -> bool {
        self.args.tools.is_empty() || self.args.tools.iter().any(|asked| asked == upstream)
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

    /// Shows a tool, and says on what terms it is to be approved; `None` where it is not.
    fn plan<'t>(&mut self, upstream: &str, proposal: &Proposal, tool: &'t Tool) -> Result<Option<Planned<'t>>> {
        let args = self.args;
        let id = format!("{upstream}/{}", tool.name);
        self.read.push((id.clone(), tool.definition.clone()));
        let asked = args.tools.iter().find(|asked| named(asked).0 == id);
        if asked.is_none() && !self.is_whole(upstream) {
            return Ok(None);
        }
        self.left.retain(|asked| named(asked).0 != id);
        let before = match self.client {
            Some(client) => current(client, &tool_fact(upstream, &tool.name)?)?,
            None => None,
        };
        let terms = Terms::of(args, proposal, upstream, tool, before.as_ref());
        if !args.json {
            show(&id, tool, &terms)?;
        }
        let why = match &tool.unfit {
            Some(why) => Some(format!("cannot be approved: {why}")),
            None => asked
                .and_then(|asked| named(asked).1)
                .filter(|shown| *shown != tool.definition)
                .map(|shown| format!("not approved: you named {shown}, and its definition is {}", tool.definition)),
        };
        if let Some(why) = why {
            note(format_args!("  {why}"));
            self.row(upstream, tool, None, false);
            self.outcome = Outcome::No;
            return Ok(None);
        }
        if args.show {
            let is_approved =
                before.as_ref().is_some_and(|it| it.value.get("definition") == Some(&json!(tool.definition)));
            self.row(upstream, tool, Some(&terms), is_approved);
        }
        if asked.is_some() && !terms.reads && !(args.ignore.is_empty() && args.only.is_empty()) {
            note(
                "    --ignore and --only are for tools that only read, and this one may change something: --reads says otherwise",
            );
        }
        let is_named = asked.is_some_and(|asked| named(asked).1.is_some());
        let planned = Planned { tool, terms, before, is_named };
        if !args.json && planned.is_redefined() {
            show_changes(planned.before.as_ref(), tool)?;
        }
        Ok(Some(planned))
    }

    /// Asks once for all tools of a server, where someone sits at a terminal. What was named by its hash was read.
    fn is_wanted(&self, upstream: &str, planned: &[Planned<'_>]) -> Result<bool> {
        if self.args.yes || self.args.json || !std::io::stdin().is_terminal() {
            return Ok(true);
        }
        let mut asked = 0;
        for it in planned.iter().filter(|it| !it.is_named && !it.is_redefined()) {
            asked += u64::from(!it.is_done()?);
        }
        if asked == 0 {
            return Ok(true);
        }
        let tools = count(asked, "tool", "tools");
        ask(&format!("Approve {tools} of {upstream}, as they stand above? [y/N]"))
    }

    /// What a program is told of a tool.
    fn row(&mut self, upstream: &str, tool: &Tool, terms: Option<&Terms>, is_approved: bool) {
        let whole = serde_json::from_str::<Value>(tool.raw().get()).unwrap_or_default();
        let mut row = json!({
            "tool": format!("{upstream}/{}", tool.name), "definition": tool.definition, "approved": is_approved, "text": whole,
        });
        let terms = terms.map(|it| {
            let guard = it.guard.map(Guard::as_str);
            json!({"reads": it.reads, "by_name": it.by_name, "guard": guard, "ignore": it.ignore, "only": it.only})
        });
        for (name, value) in [("terms", terms), ("unfit", tool.unfit.as_ref().map(|why| json!(why)))] {
            if let (Some(row), Some(value)) = (row.as_object_mut(), value) {
                row.insert(name.to_owned(), value);
            }
        }
        self.rows.push(row);
    }
}

/// Refuses what the settings say of a tool that is not there: a name that was mistyped would leave its rule out without a word.
fn check_proposed(upstream: &str, proposal: &Proposal, tools: &[Tool]) -> Result<()> {
    let Some(unknown) = proposal.tools.keys().find(|name| !tools.iter().any(|tool| tool.name == **name)) else {
        return Ok(());
    };
    let names = tools.iter().map(|tool| tool.name.as_str());
    let hint = did_you_mean(
        unknown,
        names,
        &format!("correct [mcp.upstream.{upstream}.tool.{}], or take it out", inline(unknown)),
    );
    let unknown = inline(&format!("{upstream}/{unknown}"));
    Err(Failure::no(format!(
        "the settings say something of {unknown}, and the server has no such tool; nothing was approved"
    ))
    .hint(hint)
    .into())
}

/// Says what there is in place of something that was named and is not there.
fn no_such(missing: &str, read: &[(String, String)]) -> anyhow::Error {
    let before_hash = missing.rsplit_once('@').and_then(|(id, _)| read.iter().find(|(known, _)| known == id));
    let failure = match before_hash {
        Some((id, definition)) => {
            Failure::no(format!("{missing} is not the current definition, which is {definition}"))
                .hint(format!("read it with --show, then name all of it: {id}@{definition}"))
        }
        None => Failure::no(format!("there is no tool {missing}")).hint("--show lists them all"),
    };
    failure.into()
}

/// The id of a tool that was asked for, and the hash of the definition that it must have.
fn named(asked: &str) -> (&str, Option<&str>) {
    let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match asked.rsplit_once('@') {
        Some((id, hash)) if is_hash(hash) => (id, Some(hash)),
        _ => (asked, None),
    }
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
        return Ok(Some("approved already".to_owned()));
    }
    let definition = json!(tool.definition);
    let is_redefined = |before: &&FactResponse| before.value.get("definition") != Some(&definition);
    let asks = before.filter(is_redefined).is_some() && !is_named && !args.yes;
    if asks && !is_wanted(&format!("{upstream}/{}", tool.name))? {
        return Ok(None);
    }
    let fact = tool_fact(upstream, &tool.name)?;
    let written: FactWritten = client.call(Call::put(fact_path(&fact)).agent(&args.by).json(&FactPut { value })?)?;
    let what = match &before {
        Some(before) if is_redefined(before) => "approved again: the definition has changed",
        Some(_) => "approved again",
        None => "approved",
    };
    let later = if written.held { format!(". It counts later: {}", waits(&written)) } else { String::new() };
    Ok(Some(format!("{what}, in entry {}{later}", written.entry)))
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
    let is_wanted =
        ask(&format!("    {} has changed since it was approved. Approve the definition above? [y/N]", inline(id)))?;
    if !is_wanted {
        note("    not approved");
    }
    Ok(is_wanted)
}

/// Asks at the terminal.
fn ask(question: &str) -> Result<bool> {
    prompt(question);
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("the terminal cannot be read")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
