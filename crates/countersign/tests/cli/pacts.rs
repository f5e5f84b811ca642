//! Checking, publishing and exporting pacts.

use crate::cli::sandbox::{BILLING, Sandbox};

const BAD: &str = r#"pact = "billing"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Lnog" }

[action.refund]
resource = 'Account::"{acount}"'
alow = 'true'

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 64 }

[[action.refund.require]]
id = "is-active"
that = 'resource.status == 1'
"#;

#[test]
fn every_problem_is_shown_at_once_where_it_is() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.toml", BAD);
    insta::assert_snapshot!(sandbox.run("pact check bad.toml").must(1).shown());
    let json = sandbox.run("pact check bad.toml --json").must(1).json();
    assert_eq!(json["ok"], false);
    let problems = json["files"][0]["problems"].as_array().unwrap();
    assert!(problems.len() >= 3, "{json}");
    assert!(problems.iter().all(|problem| problem["line"].as_u64() > Some(0) && problem["hint"].is_string()), "{json}");
}

#[test]
fn a_terminal_is_given_colours_and_not_their_spelling() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.toml", BAD);
    let line = format!("{} pact check bad.toml", env!("CARGO_BIN_EXE_countersign"));
    // `script` runs it on a terminal of its own; it comes with every Debian.
    let mut script = std::process::Command::new("script");
    let script = script.args(["-qec", &line, "/dev/null"]).current_dir(sandbox.path()).env("TERM", "xterm");
    let output = script.env_remove("NO_COLOR").stdin(std::process::Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("\u{1b}[1m") && shown.contains("error"), "coloured: {shown}");
    assert!(!shown.contains("u{1b}"), "no escape is spelled out: {shown}");
}

#[test]
fn pacts_are_also_checked_against_each_other() {
    let sandbox = Sandbox::new();
    sandbox.write("pacts/a.toml", BILLING);
    sandbox.write(
        "pacts/b.toml",
        &BILLING.replace("\"billing\"", "\"other\"").replace("balance = \"Long\"", "balance = \"Long?\""),
    );
    sandbox.write("pacts/notes.txt", "not a pact");
    insta::assert_snapshot!(sandbox.run("pact check pacts").must(1).shown());
    sandbox.run("pact check pacts/a.toml").must(0);
}

#[test]
fn a_sound_pact_is_described_and_exported() {
    let sandbox = Sandbox::new();
    sandbox.write("billing.toml", BILLING);
    insta::assert_snapshot!(sandbox.run("pact check billing.toml").must(0).shown());
    let manifest = sandbox.run("pact check billing.toml --manifest").must(0).stdout;
    assert!(manifest.contains("account-is-active") && manifest.starts_with("# Pact `billing`"), "{manifest}");
    let both = sandbox.run("pact export billing.toml").must(0).stdout;
    sandbox.run("pact export billing.toml --out cedar").must(0);
    for name in ["cedar/billing.cedarschema", "cedar/billing.cedar"] {
        let text = std::fs::read_to_string(sandbox.path().join(name)).unwrap();
        assert!(!text.trim().is_empty() && both.contains(text.trim()), "{name}");
    }
}

#[test]
fn a_pact_is_published_once_and_only_when_sound() {
    let sandbox = Sandbox::new();
    sandbox.run("init --data data --open").must(0);
    sandbox.write("billing.toml", BILLING);
    sandbox.write("bad.toml", BAD);
    sandbox.write("other.toml", &format!("{BILLING}\n# another text\n"));
    let shown = [
        sandbox.run("pact list --data data").must(0).shown(),
        sandbox.run("pact publish billing.toml --data data").must(0).shown(),
        sandbox.run("pact publish billing.toml --data data").must(0).shown(),
        sandbox.run("pact publish billing.toml --data data --json").must(0).shown(),
        sandbox.run("pact publish other.toml --data data").must(1).shown(),
        sandbox.run("pact list --data data").must(0).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    assert!(sandbox.run("pact publish bad.toml --data data").must(1).stderr.contains("was not published"));
    assert!(sandbox.run("pact check nowhere.toml").must(3).stderr.contains("hint: "));
}
