//! `countersign pact init`.

use crate::commands::mcp::read_tools;
use crate::commands::{Exit, Failure, Outcome};
use crate::mcp::draft;
use crate::mcp::settings::{self, Place};
use crate::terminal::{note, say_exactly};
use anyhow::Result;
use clap::Args;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Draft a first pact from the tools of an MCP server
///
/// Starts the server, reads its tools, and writes a pact with an action for each tool that changes something: its parameters
/// narrowed from the tool's own schema, and guarded as read, so that it runs only if what its agent has read still reads the same.
/// It works as it is, once an admin has approved the tools. Open questions are comments, each next to the line that answers it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign pact init --mcp 'uvx mcp-server-git --repository .' > git.toml          for the upstream `git`
  countersign pact init --mcp http://127.0.0.1:8000/mcp --name bank --out bank.toml")]
pub struct InitArgs {
    /// The server: a command, or the address of one that runs
    #[arg(long, value_name = "SERVER")]
    mcp: String,
    /// The name of the server in the gate's settings, and of the pact [default: taken from the command]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A variable in the environment of a server that is started: NAME is passed on, NAME=VALUE is set; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Write to this file, which must not exist, instead of to stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Drafts.
pub fn run(args: &InitArgs) -> Result<Outcome> {
    let named = args.name.clone().or_else(|| settings::derived_name(&args.mcp)).ok_or_else(|| {
        Failure::usage("the server has no name that could be taken from this")
            .hint("name it as the settings of the gate and the gateway do, with --name")
    })?;
    let (name, mut place): (String, Place) =
        settings::upstream(&format!("{named}={}", args.mcp)).map_err(|error| Failure::of(Exit::Usage, error))?;
    if !args.env.is_empty() {
        place.add_environment(&args.env).map_err(|error| Failure::of(Exit::Usage, error))?;
    }
    let tools = read_tools(&name, &place)?;
    let text =
        draft::pact(&name, &tools).map_err(|why| Failure::no(format!("no pact was written for `{name}`: {why}")))?;
    if args.name.is_none() {
        note(format_args!(
            "The server is called `{name}` here: use the same name with --upstream or in countersign.toml."
        ));
    }
    let Some(file) = &args.out else {
        say_exactly(text.trim_end());
        return Ok(Outcome::Yes);
    };
    let written = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
    let written = written.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AlreadyExists => "choose a file that is not there yet; what is there is kept",
            _ => "choose a file in a folder that is there and that you may write to",
        };
        Failure::cannot(format!("cannot write {}: {error}", file.display())).hint(hint)
    })?;
    note(format_args!("Wrote {0}. Read its questions, then: countersign pact check {0}", file.display()));
    Ok(Outcome::Yes)
}
