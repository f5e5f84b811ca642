//! `countersign mcp try`: a server, a gate and the gateway in one process.

pub mod kept;

use super::approve::{
    Known, Reader, RestsOn, Terms, approval, approve_as, approve_server_as, current, note_volatile_in_trial, publish,
    put_changed, read_tools, watch,
};
use super::{GateClient, Unmapped, open_gateway, reach, secret, warn_of_doubts};
use crate::client::{Call, Client};
use crate::commands::{Exit, Failure, OPERATOR, Outcome, init, is_refused_as};
use crate::config::{self, Config};
use crate::data::ONE_GATE;
use crate::mcp::adapter::Rules;
use crate::mcp::downstream::http::Certified;
use crate::mcp::draft::only_reads;
use crate::mcp::gate::SERVER_TYPE;
use crate::mcp::operator::OperatorCommands;
use crate::mcp::settings::{self, Place, checked_ignored, checked_paths};
use crate::mcp::shell::word;
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
/// Starts the server, a gate with a data folder of its own, and the gateway, in one process. The folder, with the ledger and its keys, is
/// in $XDG_DATA_HOME/countersign/try or ~/.local/share/countersign/try, so that no server that works on the current folder reaches it.
/// Every tool of the server is approved as it is now. What a reading tool answers is kept as a reading; a tool that writes runs only if
/// everything that the agent has read in its session still reads the same. Nothing has to be written for that.
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
    /// The folder for the ledger, outside of what the server can reach; made if it is not there [default: one in
    /// ~/.local/share/countersign/try for each server and current folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
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
        std::env::set_current_dir(folder).map_err(|error| {
            Failure::usage(format!("cannot run in {}: {error}", folder.display()))
                .hint("--cwd names a folder that is there")
        })?;
    }
    let listen = args.listen.as_deref().map(config::listen).transpose().map_err(usage)?;
    super::check_reach(listen, &config.tls)?;
    checked_ignored(&args.ignore).and_then(|()| checked_paths(&args.only)).map_err(usage)?;
    super::approve::check_options(&args.reads, &args.writes, &args.ignore, &args.only)?;
    let (name, place) = server(args)?;
    let data = match &args.data {
        Some(data) => reach::whole(data),
        None => kept::folder(&name)?,
    };
    check_reach(args, &data, &place)?;
    // What an agent reads from standard output is MCP and nothing else.
    let serves = listen.is_some() || !std::io::stdin().is_terminal();
    let tools = read_tools(&name, &place)?;
    let guarded = guarded(args, &tools)?;
    // Nothing is left of a trial whose server does not start.
    if !data.exists() {
        init::make_open(config, &data)?;
    }
    let mut config = config.clone();
    config.mcp.upstreams = [(name.clone(), place.clone())].into_iter().collect();
    // The settings here may be those of another gate, and so is the socket that they name.
    config.operator_socket = None;
    let (client, is_beside) = open(&data, &name, &config)?;
    check_folder(&client, &data, &name)?;
    kept::note_start(&data, &words(args, &name, &data)?)?;
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
    let operator = OperatorCommands::in_trial(Client::option_for(&data, &config), is_beside);
    warn_of_doubts(&client, &operator);
    let is_described = !serves || (listen.is_some() && std::io::stdout().is_terminal());
    if is_described {
        let scheme = if config.tls.is_on() { "https" } else { "http" };
        describe(args, (&name, &data), scheme, &guarded, &tools)?;
    }
    if !serves {
        let read = guarded.iter().filter(|it| it.reads && it.tool.needs_no_arguments());
        let rules = || Rules::new(&args.ignore, &args.only);
        let readers: Vec<Reader> = read.map(|it| Reader { tool: it.tool.name.clone(), rules: rules() }).collect();
        note_volatile_in_trial(&name, &place, &readers);
        client.close()?;
        return Ok(Outcome::Yes);
    }
    let writes = guarded.iter().filter(|it| !it.reads).count();
    let what = if args.shadow { "only watched, in shadow mode" } else { "guarded" };
    if !is_described {
        note(format_args!(
            "{name}: {} {what}, {} read. The ledger is in {}",
            count(u64::try_from(writes).unwrap_or_default(), "tool", "tools"),
            guarded.len() - writes,
            data.display()
        ));
    }
    let unmapped = if args.shadow { Unmapped::Shadow } else { Unmapped::Deny };
    // A trial that was killed is gone on with by the next one in its folder.
    let folder = data.canonicalize().unwrap_or_else(|_| data.clone()).display().to_string();
    let gate = GateClient::new(client, AGENT.to_owned(), unmapped, secret(None, AGENT)).noting(&folder);
    let gate = gate.advising(operator);
    let listen = listen.map(|listen| (listen, Certified { agent: AGENT.to_owned(), key: None }));
    open_gateway(vec![(name, place)], gate, config.mcp.allow_methods.iter().cloned().collect(), listen, &config)
}

/// Refuses a folder that the server is given, since its keys would be the agent's; warns of one that it may find by itself.
fn check_reach(args: &TryArgs, data: &Path, place: &Place) -> Result<()> {
    let shown = data.display();
    let outside = match &args.data {
        Some(_) => "leave --data out, or name a folder that the server is not given",
        None => "with --data, name a folder outside everything the server is given",
    };
    if let Some(folder) = reach::served(data, place) {
        return Err(Failure::usage(format!(
            "the server can reach {shown}, because it is given {}: the agent could read and write the gate's keys there",
            folder.display()
        ))
        .hint(outside)
        .into());
    }
    let found = match reach::named_to_shell(data, place) {
        Some(folder) => Some(("can be reached from a folder that the server's command names", folder)),
        None => reach::run_in(data, place).map(|folder| ("lies in the folder that the server runs in", folder)),
    };
    if let Some((how, folder)) = found {
        note(format_args!(
            "warning: {shown}, with the gate's keys, {how}, {}. If its tools can read or write files there, the agent controls the gate; \
             {outside}",
            folder.display()
        ));
    }
    Ok(())
}

/// The gate of the trial: opened here, or that of another window of the same trial, which has the folder open; and whether it is that.
fn open(data: &Path, name: &str, config: &Config) -> Result<(Client, bool)> {
    let error = match Client::embedded_with_socket(data, config) {
        Ok(client) => return Ok((client, false)),
        Err(error) => error,
    };
    match Client::nearby(data, config)? {
        Some(client) => {
            note(
                "note: another window has this trial open, and its gate decides for this one too. When that window ends, start this agent \
                 again.",
            );
            Ok((client, true))
        }
        None => Err(in_use(error, data, name)),
    }
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
fn describe(
    args: &TryArgs,
    (name, data): (&str, &Path),
    scheme: &str,
    guarded: &[Guarded<'_>],
    tools: &[Tool],
) -> Result<()> {
    let list = |wanted: &dyn Fn(&Guarded<'_>) -> bool| {
        let names: Vec<String> = guarded.iter().filter(|it| wanted(it)).map(|it| inline(&it.tool.name)).collect();
        names.join(", ")
    };
    let section = |title: &str, what: &str, names: String| {
        if !names.is_empty() {
            say(format_args!("\n{title}: {what}\n  {names}"));
        }
    };
    match args.shadow {
        true => section(
            "Watched, in shadow mode",
            "always run, and `countersign mcp report` says which would have been refused",
            list(&|it| !it.reads),
        ),
        false => {
            section(
                "Guarded",
                "run only if everything that the agent read still reads the same",
                list(&|it| !it.reads),
            );
        }
    }
    section(
        "Tools that read",
        "what they answer is kept, and read again before a guarded tool runs",
        list(&|it| it.reads && !it.by_name),
    );
    section(
        "Tools that read (guessed from their names)",
        "if one of these changes something, run this again with --writes TOOL",
        list(&|it| it.by_name),
    );
    for (tool, why) in tools.iter().filter_map(|tool| Some((tool, tool.unfit.as_ref()?))) {
        say(format_args!("\nLeft out: {}\n  {why}", inline(&tool.name)));
    }
    if guarded.iter().all(|it| !it.reads) && !guarded.is_empty() {
        say("\nNo tool is known to read, so nothing can be compared: name those that only read with --reads TOOL.");
    }
    say_snippet(args, (name, data), scheme)?;
    let data = word(&data.display().to_string());
    say(format_args!(
        "\nThe ledger is in {data}. What was asked, refused and why:\n  countersign mcp report --data {data}\n\
         Entry by entry, while no agent has it open:\n  countersign ledger list --data {data}"
    ));
    Ok(())
}

/// The words that start this trial again, wherever that is.
fn words(args: &TryArgs, name: &str, data: &Path) -> Result<Vec<String>> {
    let folder = std::env::current_dir().context("the current folder cannot be found")?;
    let text = |path: &Path| path.display().to_string();
    let mut words = vec!["mcp".to_owned(), "try".to_owned(), args.server.clone()];
    words.extend(["--cwd".to_owned(), text(&folder), "--data".to_owned(), text(data)]);
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
    Ok(words)
}

/// Says what to put into the settings of agents. An agent may start it in any folder, so it names its own. Not wrapped: it is pasted.
fn say_snippet(args: &TryArgs, (name, data): (&str, &Path), scheme: &str) -> Result<()> {
    if let Some(listen) = &args.listen {
        let entry = json!({ "mcpServers": { name: { "type": "http", "url": format!("{scheme}://{listen}/mcp") } } });
        say("\nPut this into the settings of your agent, in place of the server itself:\n");
        say_json_text(&serde_json::to_string_pretty(&entry)?);
        return Ok(());
    }
    let program = std::env::current_exe().context("this program's own path cannot be found")?.display().to_string();
    let words = words(args, name, data)?;
    let entry = json!({ "mcpServers": { name: { "command": program, "args": words } } });
    say(
        "\nPut this into the settings of your agent, in place of the server itself. Claude Code (.mcp.json), Claude Desktop, Cursor \
         (.cursor/mcp.json) and others; VS Code (.vscode/mcp.json) calls the outer member \"servers\":\n",
    );
    say_json_text(&serde_json::to_string_pretty(&entry)?);
    say("\nCodex (~/.codex/config.toml):\n");
    let toml: Vec<String> = words.iter().map(|word| serde_json::to_string(word).unwrap_or_default()).collect();
    let command = serde_json::to_string(&program)?;
    say_json_text(&format!("[mcp_servers.{name}]\ncommand = {command}\nargs = [{}]", toml.join(", ")));
    Ok(())
}

/// Says who else may have the folder of a trial open.
fn in_use(error: anyhow::Error, data: &Path, name: &str) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) if failure.hints().iter().any(|hint| hint == ONE_GATE) => {
            Failure::cannot(format!("{} is open in another process: {}", data.display(), failure.message()))
                .hint("an agent that started this trial has it open until it ends: end that agent first")
                .hint(format!("for a second agent at the same time, another folder: --data {}-2", another(data, name)))
                .hint("for several agents at once, one process for all of them: --listen 127.0.0.1:8430")
                .into()
        }
        Ok(failure) => failure.into(),
        Err(error) => error,
    }
}

/// The folder for a trial of this name beside that of another one.
fn another(data: &Path, name: &str) -> String {
    let beside = kept::folder(name).unwrap_or_else(|_| data.with_file_name(format!("countersign-try-{name}")));
    word(&beside.display().to_string())
}

/// Refuses a folder that is not that of a trial of this server.
fn check_folder(client: &Client, data: &Path, name: &str) -> Result<()> {
    match client.call::<CallerResponse>(Call::get("/v1/caller").agent(OPERATOR)) {
        Err(error) if is_refused_as(&error, ErrorCode::SignatureMissing) => {
            return Err(Failure::usage(format!(
                "{} belongs to a gate that has an admin, and `mcp try` needs a folder without one",
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
            .hint(format!("give this one a folder of its own: --data {}", another(data, name)))
            .hint(format!("if it is the same server, call it the same: --name {other}"))
            .into())
        }
    }
}
