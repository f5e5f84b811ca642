//! What the loader says about pacts that are wrong: the message, the text it points at, and the hint.
//!
//! Every row mends nothing else: it is one good pact with one thing changed. The expected answers are in
//! `golden/bad-pacts.txt`; `UPDATE_GOLDEN=1` writes them anew, and the difference is then read by a person.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics has failed"
)]

use countersign_core::pact::diagnostic::{Diagnostic, Severity};
use countersign_core::pact::load::load;
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

/// What each row changes: title, text to replace, and what to put there.
const ROWS: &[(&str, &str, &str)] = &[
    // The text itself.
    ("not TOML", "version = 1", "version = = 1"),
    (
        "the same key twice",
        "version = 1",
        "version = 1\nversion = 2",
    ),
    (
        "not TOML in two places",
        "version = 1\n\n[facts.Account]",
        "version = \n\n[facts.Account",
    ),
    // The top level.
    ("no name", "pact = \"bank\"\n", ""),
    (
        "a name with a space",
        "pact = \"bank\"",
        "pact = \"my bank\"",
    ),
    ("a name that is a number", "pact = \"bank\"", "pact = 7"),
    ("no version", "version = 1\n", ""),
    ("version zero", "version = 1", "version = 0"),
    ("version in quotes", "version = 1", "version = \"1\""),
    (
        "an unknown key that is close",
        "version = 1",
        "verison = 1\nversion = 1",
    ),
    (
        "an unknown key that is not",
        "version = 1",
        "version = 1\nbanana = 1",
    ),
    // Fact types.
    (
        "agents declared",
        "[facts.Account]",
        "[facts.Agent]\nattributes = {}\n\n[facts.Account]",
    ),
    (
        "a reserved fact type",
        "[facts.Account]",
        "[facts.Set]\nattributes = {}\n\n[facts.Account]",
    ),
    (
        "a fact type without attributes",
        "[facts.Account]",
        "[facts.Thing]\n\n[facts.Account]",
    ),
    (
        "an unknown attribute type",
        "balance = \"Long\"",
        "balance = \"Lng\"",
    ),
    (
        "a float as attribute type",
        "balance = \"Long\"",
        "balance = \"Decimal\"",
    ),
    (
        "a set of sets",
        "tags = \"Set<String>\"",
        "tags = \"Set<Set<String>>\"",
    ),
    (
        "an attribute type without quotes",
        "balance = \"Long\"",
        "balance = 7",
    ),
    (
        "an attribute that is a word of Cedar",
        "note = \"String?\"",
        "like = \"String?\"",
    ),
    (
        "an attribute with a dash",
        "note = \"String?\"",
        "no-te = \"String?\"",
    ),
    (
        "a source of facts",
        "[facts.Account]",
        "[facts.Account]\nsource = \"crm\"",
    ),
    // Action types.
    ("no action", "[action.move]\n", "[acton.move]\n"),
    (
        "an action name with a dot",
        "[action.move]",
        "[action.\"a.b\"]\n[action.move]",
    ),
    ("no resource", "resource = 'Account::\"{account}\"'\n", ""),
    (
        "no allow",
        "allow = 'principal.roles.contains(\"mover\")'\n",
        "",
    ),
    (
        "a call",
        "min_trust = 100",
        "min_trust = 100\ncall = { http = \"payments\" }",
    ),
    (
        "an unknown key of an action",
        "min_trust = 100",
        "mintrust = 100",
    ),
    ("trust below zero", "min_trust = 100", "min_trust = -1"),
    (
        "a mode that is not there",
        "min_trust = 100",
        "mode = \"warn\"",
    ),
    (
        "a flag that is a word",
        "min_trust = 100",
        "require_observation = \"yes\"",
    ),
    // Templates.
    (
        "a template without a type",
        "resource = 'Account::\"{account}\"'",
        "resource = '{account}'",
    ),
    (
        "a template of an unknown type",
        "resource = 'Account::\"{account}\"'",
        "resource = 'Acount::\"{account}\"'",
    ),
    (
        "an unknown parameter",
        "resource = 'Account::\"{account}\"'",
        "resource = 'Account::\"{acount}\"'",
    ),
    (
        "an optional parameter in an id",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{memo}\"'",
    ),
    (
        "an unclosed brace",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{target\"'",
    ),
    (
        "a brace that closes nothing",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"target}\"'",
    ),
    (
        "an empty id",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"\"'",
    ),
    (
        "an unknown read",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{form.next}\"'",
    ),
    (
        "an unknown attribute",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{resource.nxet}\"'",
    ),
    (
        "an optional attribute in an id",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{resource.note}\"'",
    ),
    (
        "a set in an id",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{resource.tags}\"'",
    ),
    (
        "an id through a fact that may be missing",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{maybe.next}\"'",
    ),
    (
        "a resource through a read",
        "resource = 'Account::\"{account}\"'",
        "resource = 'Account::\"{to.next}\"'",
    ),
    (
        "reads in a circle",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{from.next}\"'\nreads.from = 'Account::\"{to.next}\"'",
    ),
    (
        "reads too deep",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Account::\"{target}\"'\nreads.a = 'Account::\"{resource.next}\"'\nreads.b = 'Account::\"{a.next}\"'\n\
         reads.c = 'Account::\"{b.next}\"'\nreads.d = 'Account::\"{c.next}\"'\nreads.e = 'Account::\"{d.next}\"'",
    ),
    (
        "a template with an escape",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = \"Account::\\\"{tarket}\\\"\"",
    ),
    // Reads.
    (
        "a read that is also a parameter",
        "reads.to = ",
        "reads.memo = 'Account::\"{target}\"'\nreads.to = ",
    ),
    (
        "a read with a reserved name",
        "reads.to = ",
        "reads.now = 'Account::\"{target}\"'\nreads.to = ",
    ),
    (
        "a read that is a number",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 7",
    ),
    (
        "a read with an unknown option",
        "create = true }",
        "create = true, unchangd = true }",
    ),
    (
        "optional and create",
        "create = true }",
        "create = true, optional = true }",
    ),
    (
        "create and unchanged",
        "create = true }",
        "create = true, unchanged = true }",
    ),
    (
        "an optional resource",
        "resource = 'Account::\"{account}\"'",
        "resource = { fact = 'Account::\"{account}\"', optional = true }",
    ),
    (
        "creating an agent",
        "reads.to = ",
        "reads.agent = { fact = 'Agent::\"{target}\"', create = true }\nreads.to = ",
    ),
    // Parameters.
    (
        "parameters that are not an object",
        "type = \"object\"",
        "type = \"array\"",
    ),
    ("parameters without a type", "type = \"object\"\n", ""),
    ("open parameters", "additionalProperties = false\n", ""),
    (
        "a number with a fraction",
        "{ type = \"integer\", minimum = 1",
        "{ type = \"number\", minimum = 1",
    ),
    (
        "a bound with a fraction",
        "minimum = 1, ",
        "minimum = 0.5, ",
    ),
    ("a mistyped bound", "minimum = 1, ", "minimun = 1, "),
    ("a bound of another type", "maxLength = 64", "maximum = 64"),
    (
        "a parameter without a type",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { description = \"x\" }",
    ),
    (
        "a reference",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { \"$ref\" = \"https://example.com/x\" }",
    ),
    (
        "two types",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { type = [\"string\", \"null\"] }",
    ),
    (
        "a mixed enum",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { enum = [\"a\", 1] }",
    ),
    (
        "an empty enum",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { enum = [] }",
    ),
    (
        "an enum of another type",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { type = \"string\", enum = [1] }",
    ),
    (
        "a list of nothing",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { type = \"array\" }",
    ),
    (
        "a list of lists",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { type = \"array\", items = { type = \"array\", items = { type = \"string\" } } }",
    ),
    (
        "an open object",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { type = \"object\", properties = {} }",
    ),
    (
        "a choice of types",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { type = \"string\", anyOf = [] }",
    ),
    (
        "a default",
        "properties.memo = { type = \"string\" }",
        "properties.memo = { type = \"string\", default = \"x\" }",
    ),
    ("a pattern that looks around", "^[a-z]+$", "^(?=a)[a-z]+$"),
    ("a pattern that is none", "^[a-z]+$", "^[a-z+$"),
    (
        "a pattern that grows",
        "^[a-z]+$",
        "^((a{1000}){1000}){1000}$",
    ),
    ("a negative length", "maxLength = 64", "maxLength = -1"),
    (
        "a required parameter that is not there",
        "\"target\", \"amount\"]",
        "\"target\", \"amuont\", \"amount\"]",
    ),
    (
        "a parameter with a reserved name",
        "properties.memo",
        "properties.resource",
    ),
    // Budgets.
    ("a budget of nothing", "sum = \"amount\", max", "max"),
    (
        "a budget of two things",
        "sum = \"amount\", max",
        "count = true, sum = \"amount\", max",
    ),
    (
        "a sum of an unknown parameter",
        "sum = \"amount\"",
        "sum = \"amout\"",
    ),
    ("a sum of a string", "sum = \"amount\"", "sum = \"account\""),
    (
        "a sum that may be negative",
        "minimum = 1, maximum = 500",
        "minimum = -5, maximum = 500",
    ),
    (
        "a window that is no duration",
        "per = \"1d\"",
        "per = \"1 day\"",
    ),
    ("a budget without a window", "per = \"1d\", ", ""),
    ("a budget by nobody", "by = \"agent\"", "by = \"team\""),
    (
        "a budget with the id of a precondition",
        "by = \"agent\" }",
        "by = \"agent\", id = \"active\" }",
    ),
    (
        "two budgets alike",
        "budget = { sum = \"amount\", max = 100, per = \"1d\", by = \"agent\" }",
        "budget = [{ count = true, max = 1, per = \"1h\", by = \"pact\" }, { count = true, max = 2, per = \"1h\", by = \"pact\" }]",
    ),
    // Preconditions.
    ("a precondition without an id", "id = \"covered\"\n", ""),
    (
        "a precondition without a condition",
        "that = 'resource.balance >= context.amount'\n",
        "",
    ),
    (
        "two preconditions of one id",
        "id = \"covered\"",
        "id = \"active\"",
    ),
    (
        "an id with a space",
        "id = \"covered\"",
        "id = \"is covered\"",
    ),
    (
        "an unknown outcome",
        "on_fail = \"review\"",
        "on_fail = \"warn\"",
    ),
    (
        "a staleness that is none",
        "stale_after = \"5m\"",
        "stale_after = \"5 minutes\"",
    ),
    (
        "an unknown key of a precondition",
        "stale_after = \"5m\"",
        "stale = \"5m\"",
    ),
    (
        "a staleness of external facts",
        "stale_after = \"5m\"",
        "max_staleness = \"5m\"",
    ),
    (
        "a condition that checks nothing",
        "resource.balance >= context.amount",
        "1 < 2",
    ),
    // Conditions.
    (
        "a condition that is no expression",
        "resource.balance >= context.amount",
        "resource.balance >=",
    ),
    (
        "a string compared with a number",
        "resource.balance >= context.amount",
        "resource.balance >= \"5\"",
    ),
    (
        "equality between types",
        "resource.balance >= context.amount",
        "resource.balance == context.account",
    ),
    (
        "a condition that is a number",
        "resource.balance >= context.amount",
        "resource.balance + 1",
    ),
    (
        "an attribute that is not there",
        "resource.balance >= context.amount",
        "resource.balanc >= context.amount",
    ),
    (
        "a parameter that is not there",
        "resource.balance >= context.amount",
        "resource.balance >= context.amuont",
    ),
    (
        "an optional attribute unguarded",
        "resource.balance >= context.amount",
        "resource.note == \"x\"",
    ),
    (
        "an optional parameter unguarded",
        "resource.balance >= context.amount",
        "context.memo == \"x\"",
    ),
    (
        "an optional read unguarded",
        "resource.balance >= context.amount",
        "context.maybe.balance > 0",
    ),
    (
        "an observation unguarded",
        "resource.balance >= context.amount",
        "context.observed.resource.balance > 0",
    ),
    (
        "a created fact read",
        "resource.balance >= context.amount",
        "context.log.balance == 0",
    ),
    (
        "a created fact observed",
        "resource.balance >= context.amount",
        "context.observed has log",
    ),
    (
        "a fact that is not read",
        "resource.balance >= context.amount",
        "Account::\"x\".balance > 0",
    ),
    (
        "a parent",
        "resource.balance >= context.amount",
        "resource in Account::\"x\"",
    ),
    (
        "an extension function",
        "resource.balance >= context.amount",
        "decimal(\"1.0\").lessThan(decimal(\"2.0\"))",
    ),
    (
        "the action itself",
        "resource.balance >= context.amount",
        "action == Action::\"move\"",
    ),
    (
        "the context as a whole",
        "resource.balance >= context.amount",
        "context == context",
    ),
    (
        "an agent's attribute that is not there",
        "principal.roles.contains(\"mover\")",
        "principal.role == \"mover\"",
    ),
    (
        "two policies in one condition",
        "resource.balance >= context.amount",
        "true }; permit(principal, action, resource) when { true",
    ),
    (
        "a condition with escapes",
        "that = 'resource.balance >= context.amount'",
        "that = \"resource.balance >= \\u0022a\\u0022\"",
    ),
    // Values.
    (
        "a value of another type",
        "\"log.balance\" = \"0\"",
        "\"log.balance\" = '\"0\"'",
    ),
    (
        "a set of another type",
        "\"log.tags\" = \"[]\"",
        "\"log.tags\" = \"[1]\"",
    ),
    (
        "a value that is a number",
        "\"log.balance\" = \"0\"",
        "\"log.balance\" = 0",
    ),
    (
        "a value with a type error inside",
        "resource.balance - context.amount",
        "resource.balance - context.account",
    ),
    (
        "a value that is a fact",
        "\"log.next\" = '\"none\"'",
        "\"log.next\" = 'context.to'",
    ),
    (
        "a created fact left incomplete",
        "\"log.balance\" = \"0\"\n",
        "",
    ),
    (
        "an optional fact left incomplete",
        "\"log.balance\" = \"0\"\n",
        "\"log.balance\" = \"0\"\n\"maybe.balance\" = \"0\"\n",
    ),
    (
        "setting an unknown read",
        "\"log.balance\" = \"0\"\n",
        "\"log.balance\" = \"0\"\n\"lgo.status\" = \"context.account\"\n",
    ),
    (
        "setting an unknown attribute",
        "balance = \"resource.balance -",
        "blance = \"resource.balance -",
    ),
    (
        "setting an attribute twice",
        "\"log.balance\" = \"0\"\n",
        "\"log.balance\" = \"0\"\n\"to.balance\" = \"0\"\n",
    ),
    (
        "writing to an agent",
        "reads.to = 'Account::\"{target}\"'",
        "reads.to = 'Agent::\"{target}\"'",
    ),
    ("deleting what is set", "delete = []", "delete = [\"to\"]"),
    (
        "deleting what may be missing",
        "delete = []",
        "delete = [\"maybe\"]",
    ),
    (
        "deleting what is not read",
        "delete = []",
        "delete = [\"tow\"]",
    ),
    // Several at once.
    (
        "problems in several places",
        "resource.balance >= context.amount'",
        "resource.blance >= context.amuont && context.memo == \"x\"'\nstale_aftr = \"1m\"",
    ),
    // Warnings.
    (
        "a condition that can never hold",
        "resource.balance >= context.amount",
        "resource.balance >= context.amount && 1 == 2",
    ),
    (
        "staleness without a fact",
        "that = 'resource.balance >= context.amount'",
        "that = 'context.amount < 400'\nstale_after = \"1m\"",
    ),
];

#[test]
fn the_good_pact_is_good() {
    assert_eq!(load(GOOD).map(|loaded| loaded.warnings).unwrap(), []);
}

#[test]
fn every_problem_has_its_message_place_and_hint() {
    let mut answers = String::new();
    for (title, from, to) in ROWS {
        assert_eq!(
            GOOD.matches(from).count().min(1),
            1,
            "{title}: the good pact does not hold {from}"
        );
        let source = GOOD.replacen(from, to, 1);
        let found = match load(&source) {
            Ok(loaded) => loaded.warnings,
            Err(problems) => {
                assert!(
                    problems
                        .iter()
                        .any(|problem| problem.severity == Severity::Error),
                    "{title}"
                );
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

fn show(out: &mut String, source: &str, problem: &Diagnostic) {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let line = source
        .get(..problem.span.start)
        .unwrap()
        .matches('\n')
        .count()
        + 1;
    let under = source.get(problem.span.clone()).unwrap().replace('\n', "⏎");
    let hint = problem.hint.as_deref().expect("every problem has a hint");
    let _ = writeln!(
        out,
        "{severity}: {}\n  at {line}: «{under}»\n  hint: {hint}",
        problem.message
    );
}

fn golden(name: &str, answers: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, answers).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (row, (expected, found)) in expected
        .split("\n\n")
        .zip(answers.split("\n\n"))
        .enumerate()
    {
        assert_eq!(
            found, expected,
            "row {row}; UPDATE_GOLDEN=1 writes {name} anew"
        );
    }
    assert_eq!(answers, expected, "UPDATE_GOLDEN=1 writes {name} anew");
}
