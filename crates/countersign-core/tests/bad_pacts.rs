//! What the loader says about pacts that are wrong: the message, the text it points at, and the hint.
//!
//! Every row of `tables/bad-pacts.txt` is one good pact with one thing changed. The expected answers are in
//! `golden/bad-pacts.txt`; `UPDATE_GOLDEN=1` writes them anew, and the difference is then read by a person.

use countersign_core::pact::diagnostic::{Diagnostic, Severity};
use countersign_core::pact::load::load;
use countersign_core::pact::manifest::manifest;
use std::fmt::Write as _;
use std::path::Path;

const GOOD: &str = r#"pact = "bank"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long", note = "String?", tags = "Set<String>", next = "String" }

[action.move]
resource = 'Account::"{account}"'
reads.to = 'Account::"{target}"'
reads.log = { fact = 'Account::"log-{account}"', create = true }
reads.maybe = { fact = 'Account::"{target}-shadow"', optional = true }
allow = 'principal.roles.contains("mover")'
min_trust = 100
budget = { sum = "amount", max = 100, per = "1d", by = "agent" }
delete = []

[action.move.set]
balance = "resource.balance - context.amount"
to.balance = "context.to.balance + context.amount"
"log.status" = "context.account"
"log.balance" = "0"
"log.tags" = "[]"
"log.next" = '"none"'

[action.move.params]
type = "object"
additionalProperties = false
required = ["account", "target", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.target = { type = "string", pattern = "^[a-z]+$" }
properties.amount = { type = "integer", minimum = 1, maximum = 500 }
properties.memo = { type = "string" }

[[action.move.require]]
id = "active"
that = 'resource.status == "active"'
stale_after = "5m"
on_fail = "review"

[[action.move.require]]
id = "covered"
that = 'resource.balance >= context.amount'
"#;

/// One thing to change in the good pact.
struct Row {
    title: String,
    from: String,
    to: String,
}

/// Rows are a title, the lines to replace after `-`, and the lines to put there after `+`.
fn rows() -> Vec<Row> {
    let text = include_str!("tables/bad-pacts.txt");
    let lines = |block: &str, sign: char| {
        let lines: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix(sign)).collect();
        lines.join("\n")
    };
    let blocks = text.split("## ").skip(1);
    blocks
        .map(|block| Row {
            title: block.lines().next().unwrap().to_owned(),
            from: lines(block, '-'),
            to: lines(block, '+'),
        })
        .collect()
}

#[test]
fn the_good_pact_is_good() {
    assert_eq!(load(GOOD).map(|loaded| loaded.warnings).unwrap(), []);
}

#[test]
fn every_problem_has_its_message_place_and_hint() {
    let mut answers = String::new();
    for Row { title, from, to } in rows() {
        assert_eq!(GOOD.matches(&from).count().min(1), 1, "{title}: the good pact does not hold {from}");
        let source = GOOD.replacen(&from, &to, 1);
        let found = match load(&source) {
            Ok(loaded) => loaded.warnings,
            Err(problems) => {
                assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "{title}");
                problems
            }
        };
        assert!(!found.is_empty(), "{title}: nothing was found");
        let _ = writeln!(answers, "## {title}");
        for problem in &found {
            show(&mut answers, &source, problem);
        }
        answers.push('\n');
    }
    golden("bad-pacts.txt", &answers);
}

/// AG-097-4.1: whatever an action does, there is no way to declare it without a documented precondition.
#[test]
fn an_action_without_a_precondition_does_not_load_whatever_it_does() {
    let head = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[facts.Order]
attributes = { lines = "Long" }

[action.act]
resource = 'Account::"{account}"'
allow = 'true'
params = { type = "object", additionalProperties = false, required = ["account"], properties.account = { type = "string", maxLength = 9 } }
"#;
    let require = "require = [{ id = \"active\", that = 'resource.status == \"active\"' }]\n";
    let effects = [
        ("none at all", ""),
        ("a write", "set = { balance = \"0\" }\n"),
        ("a deletion", "delete = [\"resource\"]\n"),
        (
            "a new fact",
            "reads.order = { fact = 'Order::\"{account}\"', create = true }\nset = { \"order.lines\" = \"0\" }\n",
        ),
        ("an HTTP request", "call = { http = \"bank\", path = \"/\" }\n"),
        ("a command", "call = { command = \"mail\" }\n"),
        (
            "statements in PostgreSQL",
            "call = { postgres = \"bank\", run = [{ sql = \"update accounts set balance = 0 where id = $1\", params = \
             [\"context.account\"] }] }\n",
        ),
        ("a tool", "call = { mcp = \"bank\", tool = \"pay\" }\n"),
        ("a write beside a message", "set = { balance = \"0\" }\ndeliver = { to = \"ben\", body = [\"account\"] }\n"),
        ("a deletion beside a message", "delete = [\"resource\"]\ndeliver = { to = \"ben\", body = [\"account\"] }\n"),
        ("shadow mode", "mode = \"shadow\"\nset = { balance = \"0\" }\n"),
    ];
    for (what, effect) in effects {
        let with = load(&format!("{head}{effect}{require}"));
        assert!(with.is_ok(), "{what}: {:?}", with.err());
        let problems = load(&format!("{head}{effect}")).err().unwrap_or_else(|| panic!("{what}: it loads"));
        let said: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert!(said.iter().any(|said| said.contains("has no precondition")), "{what}: {said:?}");
    }
    // Of a message alone the gate itself asks, and documents, that its recipient is there and has room.
    let message = format!("{head}deliver = {{ to = \"ben\", body = [\"account\"] }}\n");
    let manifest = manifest(&load(&message).unwrap().pact);
    assert!(manifest.contains("| `recipient` |"), "{manifest}");
}

fn show(out: &mut String, source: &str, problem: &Diagnostic) {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let line = source.get(..problem.span.start).unwrap().matches('\n').count() + 1;
    let under = source.get(problem.span.clone()).unwrap().replace('\n', "⏎");
    let hint = problem.hint.as_deref().expect("every problem has a hint");
    let _ = writeln!(out, "{severity}: {}\n  at {line}: «{under}»\n  hint: {hint}", problem.message);
}

fn golden(name: &str, answers: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, answers).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (row, (expected, found)) in expected.split("\n\n").zip(answers.split("\n\n")).enumerate() {
        assert_eq!(found, expected, "row {row}; UPDATE_GOLDEN=1 writes {name} anew");
    }
    assert_eq!(answers, expected, "UPDATE_GOLDEN=1 writes {name} anew");
}
