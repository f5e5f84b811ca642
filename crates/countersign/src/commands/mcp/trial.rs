//! `countersign mcp try`: a server, a gate and the gateway in one process.

use super::approve::{
    Known, Reader, RestsOn, Terms, approval, approve_as, approve_server_as, current, note_volatile_in_trial, publish,
    put_changed, read_tools, watch,
};
use super::{GateClient, Unmapped, open_gateway, secret};
use crate::client::{Call, Client};
use crate::commands::{Exit, Failure, OPERATOR, Outcome, init, is_refused_as};
use crate::config::{self, Config};
use crate::data::ONE_GATE;
use crate::mcp::adapter::Rules;
use crate::mcp::draft::only_reads;
use crate::mcp::gate::SERVER_TYPE;
use crate::mcp::settings::{self, Place, checked_paths};
use crate::mcp::tool::Tool;
use crate::terminal::{count, inline, note, say, say_json_text};
use anyhow::{Context as _, Result};
use clap::Args;
use countersign_api::{CallerResponse, ErrorCode, FactList};
use countersign_core::ids::{FactId, FactType};
use countersign_core::pact::CARRIED;
use serde_json::json;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// The agent in whose name a trial acts.
const AGENT: &str = "agent";

/// Put the gate in front of an MCP server, right now
///
/// Starts the server, a gate with a data folder of its own, and the gateway, in one process. Every tool of the server is approved as it
/// is now. What a reading tool answers is kept as a reading; a tool that writes runs only if everything that the agent has read in its
/// session still reads the same. Nothing has to be written for that.
///
/// In a terminal it prints what it guards, and what to put into the settings of your agent, and ends. An agent that starts it speaks MCP
/// with it over standard input and output.
///
/// The gate is open: it has no admin and believes its one caller, so this is for one agent on your own machine. For more, see
/// `countersign mcp serve --help`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign mcp try 'uvx mcp-server-git --repository .'
  countersign mcp try 'npx -y @modelcontextprotocol/server-filesystem .' --reads directory_tree
  countersign mcp try http://127.0.0.1:8000/mcp --listen 127.0.0.1:8430     for agents that speak MCP over HTTP

Exit codes: 0 as asked, 3 the server does not answer")]
pub struct TryArgs {
    /// The server: the command that starts it, or its address
    #[arg(value_name = "SERVER")]
    server: String,
    /// The folder for the ledger; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "countersign-try")]
    data: PathBuf,
    /// The folder to run in, where relative paths start: the server's and that of --data [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// What to call the server [default: made from its command]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A variable in the environment of the server: NAME is passed on, NAME=VALUE is set; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// A tool that only reads, although neither it nor its name says so; may be repeated
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    reads: Vec<String>,
    /// A tool that writes, or whose answer must not be asked for twice, although its name says otherwise; may be repeated
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    writes: Vec<String>,
    /// Paths in answers of reading tools that say nothing, such as /updated_at: they are not compared; may be repeated
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Paths in answers of reading tools that alone count, such as /balance: nothing else is compared; may be repeated
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    only: Vec<String>,
    /// Make every call, and only record which would have been refused: see `countersign mcp report`
    #[arg(long)]
    shadow: bool,
    /// Let calls rest only on readings whose values their arguments carry, and not on everything that was read
    #[arg(long, value_name = "WHAT")]
    rests_on: Option<RestsOn>,
    /// Serve agents over streamable HTTP at this address, at /mcp, until it is ended
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

/// What becomes of a tool.
struct Guarded<'a> {
    tool: &'a Tool,
    reads: bool,
    /// Whether that follows from its name alone.
    by_name: bool,
}

/// Sets everything up, and serves the agent that started it.
pub fn run(args: &TryArgs, config: &Config) -> Result<Outcome> {
    let usage = |error: anyhow::Error| anyhow::Error::from(Failure::of(Exit::Usage, error));
    if let Some(folder) = &args.cwd {
        // Nothing else runs in this process yet.
        std::env::set_current_dir(folder).with_context(|| format!("{} is no folder to run in", folder.display()))?;
    }
    let listen = args.listen.as_deref().map(config::listen).transpose().map_err(usage)?;
    super::check_loopback(listen)?;
    checked_paths(&args.ignore).and_then(|()| checked_paths(&args.only)).map_err(usage)?;
    let (name, place) = server(args)?;
    // What an agent reads from standard output is MCP and nothing else.
    let serves = listen.is_some() || !std::io::stdin().is_terminal();
    if !args.data.exists() {
        init::make_open(config, &args.data)?;
    }
    let tools = read_tools(&name, &place)?;
    let guarded = guarded(args, &tools)?;
    let mut config = config.clone();
    config.mcp.upstreams = [(name.clone(), place.clone())].into_iter().collect();
    let client = Client::embedded_whole(&args.data, &config).map_err(|error| in_use(error, &args.data, &name))?;
    check_folder(&client, &args.data, &name)?;
    publish(&client, OPERATOR)?;
    let agent = json!({"org": "local", "roles": [], "standing": "active", "trust": 500});
    let agent = agent.as_object().cloned().unwrap_or_default();
    put_changed(&client, OPERATOR, &FactId::new(FactType::new("Agent")?, AGENT)?, agent)?;
    let carried = args.rests_on == Some(RestsOn::Carried);
    // What is approved last. From then on the server's tools are known, and one that is new is for a person to read.
    let is_known = current(&client, &FactId::new(FactType::new(SERVER_TYPE)?, name.as_str())?)?.is_some();
    for Guarded { tool, reads, .. } in &guarded {
        // Started by an agent, no one reads what has changed: the tool stays refused until a person has run this in a terminal.
        let unread = match approval(&client, &name, tool)? {
            Known::AsItIs => None,
            Known::Otherwise => Some("has changed since it was approved"),
            Known::No => is_known.then_some("is new"),
        };
        if let Some(why) = unread.filter(|_| serves) {
            let tool = inline(&tool.name);
            note(format_args!("{tool} {why}, and is refused; run this in a terminal to approve it"));
            continue;
        }
        approve_as(&client, OPERATOR, &name, tool, &Terms::guarded(*reads, &args.ignore, &args.only, carried))?;
    }
    approve_server_as(&client, OPERATOR, &name)?;
    watch(&client, OPERATOR, &name, args.shadow)?;
    if !serves {
        describe(args, &name, &guarded, &tools)?;
        let read = guarded.iter().filter(|it| it.reads && it.tool.needs_no_arguments());
        let rules = || Rules::new(&args.ignore, &args.only);
        let readers: Vec<Reader> = read.map(|it| Reader { tool: it.tool.name.clone(), rules: rules() }).collect();
        note_volatile_in_trial(&name, &place, &readers);
        client.close()?;
        return Ok(Outcome::Yes);
    }
    let writes = guarded.iter().filter(|it| !it.reads).count();
    note(format_args!("{name}: {writes} guarded, {} readings.", guarded.len() - writes));
    let unmapped = if args.shadow { Unmapped::Shadow } else { Unmapped::Deny };
    // A trial that was killed is gone on with by the next one in its folder.
    let folder = args.data.canonicalize().unwrap_or_else(|_| args.data.clone()).display().to_string();
    let gate = GateClient::new(client, AGENT.to_owned(), unmapped, secret(None, AGENT)).noting(&folder).of_trial();
    open_gateway(vec![(name, place)], gate, config.mcp.allow_methods.iter().cloned().collect(), listen, &config)
}

/// The server's name and where it is.
fn server(args: &TryArgs) -> Result<(String, Place)> {
    let usage = |error: anyhow::Error| anyhow::Error::from(Failure::of(Exit::Usage, error));
    let name = match &args.name {
        Some(name) => name.clone(),
        None => settings::derived_name(&args.server).unwrap_or_else(|| "server".to_owned()),
    };
    let (name, mut place) = settings::upstream(&format!("{name}={}", args.server)).map_err(usage)?;
    if !args.env.is_empty() {
        place.add_environment(&args.env).map_err(usage)?;
    }
    place.check_environment(&name).map_err(usage)?;
    Ok((name, place))
}

/// The tools that can be approved, with what becomes of each.
fn guarded<'a>(args: &TryArgs, tools: &'a [Tool]) -> Result<Vec<Guarded<'a>>> {
    if let Some(unknown) = args.reads.iter().chain(&args.writes).find(|name| !tools.iter().any(|it| it.name == **name))
    {
        let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let failure = Failure::usage(format!("the server has no tool `{}`", inline(unknown)));
        return Err(failure.hint(format!("it has {}", inline(&known.join(", ")))).into());
    }
    let fit = tools.iter().filter(|tool| tool.unfit.is_none());
    Ok(fit
        .map(|tool| {
            let is_named = |names: &[String]| names.contains(&tool.name);
            let reads = !is_named(&args.writes) && (is_named(&args.reads) || only_reads(tool));
            let by_name = reads && !tool.read_only && !is_named(&args.reads);
            Guarded { tool, reads, by_name }
        })
        .collect())
}

/// Says what is guarded, and how an agent comes to it.
fn describe(args: &TryArgs, name: &str, guarded: &[Guarded<'_>], tools: &[Tool]) -> Result<()> {
    let list = |wanted: &dyn Fn(&Guarded<'_>) -> bool| {
        let names: Vec<String> = guarded.iter().filter(|it| wanted(it)).map(|it| inline(&it.tool.name)).collect();
        names.join(", ")
    };
    let section = |title: &str, what: &str, names: String| {
        if !names.is_empty() {
            say(format_args!("\n{title}: {what}\n  {names}"));
        }
    };
    say(format_args!("{name}: {}", count(u64::try_from(tools.len()).unwrap_or_default(), "tool", "tools")));
    section("Guarded", "run only if everything that the agent read still reads the same", list(&|it| !it.reads));
    section("Readings", "kept, and read again before a guarded tool runs", list(&|it| it.reads && !it.by_name));
    section(
        "Readings by their names alone",
        "if one of these changes something, run this again with --writes TOOL",
        list(&|it| it.by_name),
    );
    for (tool, why) in tools.iter().filter_map(|tool| Some((tool, tool.unfit.as_ref()?))) {
        say(format_args!("\nLeft out: {}\n  {why}", inline(&tool.name)));
    }
    if guarded.iter().all(|it| !it.reads) && !guarded.is_empty() {
        say("\nNo tool is known to read, so nothing can be compared: name those that only read with --reads TOOL.");
    }
    say_snippet(args, name)?;
    let data = args.data.display();
    say(format_args!(
        "\nThe ledger is in {data}. What was asked, refused and why:\n  countersign mcp report --data {data}\n\
         Entry by entry, while no agent has it open:\n  countersign ledger list --data {data}"
    ));
    Ok(())
}

/// Says what to put into the settings of agents. An agent may start it in any folder, so it names its own. Not wrapped: it is pasted.
fn say_snippet(args: &TryArgs, name: &str) -> Result<()> {
    let program = std::env::current_exe().context("this program's own path cannot be found")?;
    let folder = std::env::current_dir().context("the current folder cannot be found")?;
    let text = |path: &Path| path.display().to_string();
    let mut words = vec!["mcp".to_owned(), "try".to_owned(), args.server.clone()];
    words.extend(["--cwd".to_owned(), text(&folder), "--data".to_owned(), text(&args.data)]);
    words.extend(["--name".to_owned(), name.to_owned()]);
    let lists = [
        ("--env", &args.env),
        ("--reads", &args.reads),
        ("--writes", &args.writes),
        ("--ignore", &args.ignore),
        ("--only", &args.only),
    ];
    for (option, values) in lists {
        words.extend(values.iter().flat_map(|value| [option.to_owned(), value.clone()]));
    }
    words.extend(args.shadow.then(|| "--shadow".to_owned()));
    if args.rests_on == Some(RestsOn::Carried) {
        words.extend(["--rests-on".to_owned(), CARRIED.to_owned()]);
    }
    let entry = json!({ "mcpServers": { name: { "command": text(&program), "args": words } } });
    say(
        "\nPut this into the settings of your agent, in place of the server itself. Claude Code (.mcp.json), Claude Desktop, Cursor \
         (.cursor/mcp.json) and others; VS Code (.vscode/mcp.json) calls the outer member \"servers\":\n",
    );
    say_json_text(&serde_json::to_string_pretty(&entry)?);
    say("\nCodex (~/.codex/config.toml):\n");
    let toml: Vec<String> = words.iter().map(|word| serde_json::to_string(word).unwrap_or_default()).collect();
    let command = serde_json::to_string(&text(&program))?;
    say_json_text(&format!("[mcp_servers.{name}]\ncommand = {command}\nargs = [{}]", toml.join(", ")));
    Ok(())
}

/// Says who else may have the folder of a trial open.
fn in_use(error: anyhow::Error, data: &Path, name: &str) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) if failure.hints().iter().any(|hint| hint == ONE_GATE) => {
            Failure::cannot(format!("{} is open in another process: {}", data.display(), failure.message()))
                .hint("an agent that started this trial has it open until it ends: end that agent first")
                .hint(format!("for a second agent at the same time, another folder: --data countersign-try-{name}-2"))
                .hint("for several agents at once, one process for all of them: --listen 127.0.0.1:8430")
                .into()
        }
        Ok(failure) => failure.into(),
        Err(error) => error,
    }
}

/// Refuses a folder that is not that of a trial of this server.
fn check_folder(client: &Client, data: &Path, name: &str) -> Result<()> {
    match client.call::<CallerResponse>(Call::get("/v1/caller").agent(OPERATOR)) {
        Err(error) if is_refused_as(&error, ErrorCode::SignatureMissing) => {
            return Err(Failure::usage(format!(
                "{} belongs to a gate that has an admin, and a trial has none",
                data.display()
            ))
            .hint("leave --data out for a trial, or see `countersign mcp serve --help` for that gate")
            .into());
        }
        _ => {}
    }
    // In a new folder there is nothing of this type yet.
    let known = client.call::<FactList>(Call::get(format!("/v1/facts/{SERVER_TYPE}?limit=256")));
    let known: Vec<String> =
        known.map(|list| list.facts.into_iter().map(|fact| fact.fact).collect()).unwrap_or_default();
    let ids: Vec<FactId> = known.iter().filter_map(|fact| fact.parse().ok()).collect();
    match ids.as_slice() {
        [] => Ok(()),
        ids if ids.iter().any(|id| id.id() == name) => Ok(()),
        [other, ..] => {
            let other = inline(other.id());
            Err(Failure::usage(format!(
                "{} holds the trial of another server, `{other}`, and this one is `{name}`",
                data.display()
            ))
            .hint(format!("give this one a folder of its own: --data countersign-try-{name}"))
            .hint(format!("if it is the same server, call it the same: --name {other}"))
            .into())
        }
    }
}
