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
    "delegation",
    "delegation new",
    "delegation show",
    "mcp",
    "mcp try",
    "mcp serve",
    "mcp approve",
    "mcp report",
    "halt",
    "halt add",
    "halt list",
    "halt lift",
    "effect",
    "effect list",
    "effect show",
    "effect resolve",
    "effect undo",
    "postgres",
    "postgres init",
    "ledger",
    "ledger list",
    "ledger show",
    "ledger erase",
    "clock confirm",
    "key rotate-log",
    "key rotate-token",
    "verify",
    "audit",
    "replay",
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
    let is_group = |command: &str| COMMANDS.iter().any(|other| other.starts_with(&format!("{command} ")));
    for command in COMMANDS.iter().filter(|command| !command.is_empty() && !is_group(command)) {
        let help = sandbox.run(&format!("{command} --help")).must(0).stdout;
        assert!(help.contains("Examples:\n"), "{command} has no example");
    }
}

#[test]
fn what_is_not_understood_is_usage() {
    let sandbox = Sandbox::new();
    let runs = ["sevre", "act --pact billing", "fact get", "ledger erase --reason x", "fact get Account --data data"];
    let shown: Vec<_> = runs.iter().map(|line| sandbox.run(line).must(2).shown()).collect();
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!("usage", shown.join("\n")) });
}

#[test]
fn an_earlier_spelling_is_refused_with_the_command_of_today() {
    let sandbox = Sandbox::new();
    for (earlier, today) in [
        ("halts", "halt list"),
        ("resume --all --reason x", "halt lift"),
        ("halt --all --reason x", "halt add"),
        ("effects show eff_1", "effect show"),
        ("effects", "effect list"),
        ("delegate --to a", "delegation new"),
        ("entry show 1", "ledger show"),
        ("erase --fact Account::42", "ledger erase"),
        ("mcp --agent coder-1", "mcp serve"),
        ("verify --data data --key log.vkey", "verify --log-key"),
    ] {
        let said = sandbox.run(earlier).must(2).stderr;
        assert!(said.contains(&format!("tip: did you mean `countersign {today}`?")), "{earlier}: {said}");
        assert_eq!(said.matches("tip:").count(), 1, "{earlier}: {said}");
    }
    // A command of today that is mistyped is for the parser's own suggestions.
    assert!(sandbox.run("halt ad --all").must(2).stderr.contains("'add'"));
}
