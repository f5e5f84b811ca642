//! Help that teaches, for each subcommand.

use crate::cli::sandbox::Sandbox;

const COMMANDS: &[&str] = &[
    "init",
    "serve",
    "conform",
    "key",
    "key new",
    "key show",
    "agent",
    "agent new",
    "agent set",
    "agent list",
    "agent rotate",
    "agent revoke",
    "agent quarantine",
    "agent activate",
    "operator",
    "operator new",
    "operator list",
    "operator rotate",
    "operator revoke",
    "operator activate",
    "pact",
    "pact init",
    "pact check",
    "pact publish",
    "pact export",
    "pact list",
    "fact",
    "fact get",
    "fact put",
    "fact confirm",
    "fact delete",
    "observe",
    "act",
    "delegate",
    "delegation",
    "delegation show",
    "mcp",
    "mcp approve",
    "effects",
    "effects list",
    "effects show",
    "effects resolve",
    "effects undo",
    "postgres",
    "postgres init",
    "entry show",
    "ledger list",
    "clock confirm",
    "key rotate-log",
    "key rotate-token",
    "verify",
    "audit",
    "replay",
    "erase",
    "",
];

#[test]
fn every_command_explains_itself() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let line = format!("{command} --help");
        let run = sandbox.run(line.trim_start()).must(0);
        assert_eq!(run.stderr, "", "help is data");
        let name = if command.is_empty() { "countersign".to_owned() } else { command.replace(' ', "-") };
        insta::with_settings!({snapshot_suffix => name, omit_expression => true}, {
            insta::assert_snapshot!("help", run.shown());
        });
    }
}

#[test]
fn every_command_that_does_something_shows_how_it_is_used() {
    let sandbox = Sandbox::new();
    const GROUPS: [&str; 9] = ["", "pact", "fact", "key", "agent", "operator", "delegation", "effects", "postgres"];
    for command in COMMANDS.iter().filter(|command| !GROUPS.contains(command)) {
        let help = sandbox.run(&format!("{command} --help")).must(0).stdout;
        assert!(help.contains("Examples:\n"), "{command} has no example");
    }
}

#[test]
fn what_is_not_understood_is_usage() {
    let sandbox = Sandbox::new();
    let runs = ["sevre", "act --pact billing", "fact get", "erase --reason x", "fact get Account --data data"];
    let shown: Vec<_> = runs.iter().map(|line| sandbox.run(line).must(2).shown()).collect();
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!("usage", shown.join("\n")) });
}
