//! The command line: what can be asked, how it is dispatched, and how it ends.
//!
//! Data goes to stdout, everything else to stderr. Exit codes: 0 done or yes, 1 the answer is no, 2 not understood, 3 could
//! not (docs/guides/command-line.md).

mod renamed;

use crate::commands::{
    Exit, Failure, act, agent, audit, backup, claim, clock, delegation, effect, fact, halt, inbox, init, key, ledger,
    mcp, observe, operator, pact, postgres, replay, review, serve, verify,
};
use crate::config::Config;
use crate::terminal::{Report, Stream, colours, note, output_is_lost};
use crate::{conform, demo};
use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

const LONG_ABOUT: &str = "\
Countersign is the commit point for AI agents: an action takes effect only if everything it was decided on still holds at \
that very instant, and anyone can verify that later.

Agents observe facts, decide, and act under a pact. The gate checks the pact's preconditions and applies the effects in one \
step, writes both to a signed ledger, and answers with a verdict that says what changed if something did.";

const AFTER_HELP: &str = "\
Start here:
  countersign demo                        two agents race for one account, with and without the gate
  countersign mcp try 'uvx mcp-server-git --repository .'
                                          the gate in front of an MCP server that you have, right now
  countersign init                        make a data folder with its keys, and the admin's key
  countersign serve                       run the gate on it
  countersign pact check my-pact.toml     check a pact, with every problem at once

Exit codes:
  0  done, or the answer is yes
  1  the answer is no: rejected, broken, or with problems
  2  the command line or the configuration was not understood
  3  it could not be done: a file, the network, a folder that another process holds
  4  the action waits for a person
  5  in doubt or unknown: it may have happened, and the message has the way to find out
  6  in flight: the call is under way and not over
  7  failed: the call did not happen

Settings come from countersign.toml, then COUNTERSIGN_… variables, then flags; the later wins.";

/// The commit point for AI agents
#[derive(Debug, Parser)]
#[command(name = "countersign", version, long_about = LONG_ABOUT, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    /// Read settings from this file instead of ./countersign.toml
    #[arg(long, global = true, value_name = "FILE", env = "COUNTERSIGN_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Serve(serve::ServeArgs),
    Demo(demo::DemoArgs),
    Conform(conform::ConformArgs),
    #[command(subcommand)]
    Key(key::KeyCommand),
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    #[command(subcommand)]
    Operator(operator::OperatorCommand),
    #[command(subcommand)]
    Pact(pact::PactCommand),
    #[command(subcommand)]
    Fact(fact::FactCommand),
    Observe(observe::ObserveArgs),
    Act(act::ActArgs),
    #[command(subcommand)]
    Inbox(inbox::InboxCommand),
    #[command(subcommand)]
    Claim(claim::ClaimCommand),
    #[command(subcommand)]
    Effect(effect::EffectCommand),
    #[command(subcommand)]
    Delegation(delegation::DelegationCommand),
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    #[command(subcommand)]
    Clock(clock::ClockCommand),
    Verify(verify::VerifyArgs),
    Audit(audit::AuditArgs),
    Replay(replay::ReplayArgs),
    Backup(backup::BackupArgs),
    #[command(subcommand)]
    Review(review::ReviewCommand),
    #[command(subcommand)]
    Halt(halt::HaltCommand),
    #[command(subcommand)]
    Postgres(postgres::PostgresCommand),
}

/// Runs the command line.
pub fn main() -> ExitCode {
    harden();
    let (cli, json) = match parse() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let config = match Config::load(cli.config.as_deref()) {
        Ok(config) => config,
        Err(error) => return fail(&error, Exit::Usage, json),
    };
    let code = run(cli.command, &config).unwrap_or_else(|error| fail(&error, Exit::Cannot, json));
    // It was done, and the caller does not have the answer.
    if code == ExitCode::SUCCESS && output_is_lost() { ExitCode::from(Exit::Unknown as u8) } else { code }
}

/// Keeps other processes of the same user out of this one's memory and environment, which hold keys and secrets: tool servers and commands
/// that it starts run as that user. What it starts is not affected.
fn harden() {
    // Where this is not known, nothing is lost but this.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Whether the command was asked for JSON.
fn wants_json(mut matches: &ArgMatches) -> bool {
    while let Some((_, deeper)) = matches.subcommand() {
        matches = deeper;
    }
    matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false)
}

/// Whether an option stands on the command line itself, and not in the environment.
fn is_named(mut matches: &ArgMatches, option: &str) -> bool {
    while let Some((_, deeper)) = matches.subcommand() {
        matches = deeper;
    }
    matches.value_source(option) == Some(ValueSource::CommandLine)
}

fn parse() -> Result<(Cli, bool), ExitCode> {
    let colour = if colours(Stream::Out) && colours(Stream::Err) { ColorChoice::Auto } else { ColorChoice::Never };
    let matches = Cli::command().color(colour).try_get_matches();
    let parsed = matches.and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        if let Command::Mcp(mcp::McpCommand::Serve(args)) = &mut cli.command {
            args.key_is_named = is_named(&matches, "key");
        }
        Ok((cli, wants_json(&matches)))
    });
    parsed.map_err(|mut error| {
        let line: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        renamed::suggest(&mut error, &line);
        // Help goes to stdout, complaints to stderr; clap knows which is which. If printing fails, there is no one left to tell.
        let _ = error.print();
        if error.use_stderr() { ExitCode::from(Exit::Usage as u8) } else { ExitCode::SUCCESS }
    })
}

fn run(command: Command, config: &Config) -> Result<ExitCode> {
    if !matches!(command, Command::Serve(_) | Command::Mcp(_) | Command::Demo(_) | Command::Conform(_)) {
        crate::client::watch();
    }
    let outcome = match command {
        Command::Init(args) => init::run(&args, config),
        Command::Serve(args) => serve::run(&args, config),
        Command::Demo(args) => return demo::run(&args),
        Command::Conform(args) => return conform::run(&args),
        Command::Key(command) => key::run(&command, config),
        Command::Agent(command) => agent::run(&command, config),
        Command::Operator(command) => operator::run(&command, config),
        Command::Pact(command) => pact::run(&command, config),
        Command::Fact(command) => fact::run(&command, config),
        Command::Observe(args) => observe::run(&args, config),
        Command::Act(args) => act::run(&args, config),
        Command::Inbox(command) => inbox::run(&command, config),
        Command::Claim(command) => claim::run(&command, config),
        Command::Effect(command) => effect::run(&command, config),
        Command::Delegation(command) => delegation::run(&command, config),
        Command::Mcp(command) => mcp::run(&command, config),
        Command::Ledger(command) => ledger::run(&command, config),
        Command::Clock(command) => clock::run(&command, config),
        Command::Verify(args) => verify::run(&args, config),
        Command::Audit(args) => audit::run(&args, config),
        Command::Replay(args) => replay::run(&args, config),
        Command::Backup(args) => backup::run(&args, config),
        Command::Review(command) => review::run(&command, config),
        Command::Halt(command) => halt::run(&command, config),
        Command::Postgres(command) => postgres::run(&command, config),
    };
    outcome.map(|outcome| ExitCode::from(outcome.code()))
}

/// Shows an error and gives its exit code, or the usual one where it has none of its own.
pub fn fail(error: &anyhow::Error, usual: Exit, json: bool) -> ExitCode {
    let failure = error.downcast_ref::<Failure>();
    let exit = failure.map_or(usual, |failure| failure.exit) as u8;
    let report = Report::of_error(error);
    if json {
        // On stderr: stdout has the data that was asked for, or nothing.
        let Report { message, code, hints } = report;
        note(json!({"error": {"code": code, "message": message, "hints": hints, "exit": exit}}));
    } else {
        report.show();
    }
    ExitCode::from(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn servers_of_the_same_user_cannot_read_the_gates_environment() {
        harden();
        let behaviour = rustix::process::dumpable_behavior().expect("Linux tells");
        assert_eq!(behaviour, rustix::process::DumpableBehavior::NotDumpable);
    }
}
