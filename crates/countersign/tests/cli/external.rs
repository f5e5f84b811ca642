//! Calls to the outside, from the command line: listed, shown, resolved and undone.

use crate::cli::sandbox::{Sandbox, Server};

/// `pay` is undone by `refund`, which takes no memo; `tell` by nothing.
const PAYMENTS: &str = r#"
pact = "payments"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[action.pay]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
set = { balance = "resource.balance - context.amount" }
call = { command = "bank", args = ["pay", "{account}"], undo = "refund" }

[action.later]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
call = { command = "bank", args = ["pay", "{account}"], after = "3s", undo = "refund" }

[action.tell]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
call = { command = "bank", args = ["tell", "{account}"] }

[action.lose]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
call = { command = "lost", args = [], undo = "refund" }

[action.refund]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
set = { balance = "resource.balance + context.amount" }
"#;

const PARAMS: &str = r#"
[action.NAME.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 1000000 }
MEMO
[[action.NAME.require]]
id = "account-is-active"
that = 'resource.status == "active"'
"#;
const MEMO: &str = "properties.memo = { type = \"string\", maxLength = 64 }";

/// `bank` does what it is told; of `lost` nobody knows whether it did.
const SETTINGS: &str = r#"
[adapters.bank]
kind = "command"
program = "/bin/echo"

[adapters.lost]
kind = "command"
program = "/bin/false"
"#;

/// A gate that serves, with an admin, a reviewer, two agents and an account; commands sign as the admin unless they say otherwise.
fn serving() -> (Sandbox, Server) {
    let mut sandbox = Sandbox::new();
    let params = |name: &&str| PARAMS.replace("NAME", name).replace("MEMO", if *name == "refund" { "" } else { MEMO });
    let params: String = ["pay", "later", "tell", "lose", "refund"].iter().map(params).collect();
    sandbox.write("payments.toml", &(PAYMENTS.to_owned() + &params));
    sandbox.write("countersign.toml", SETTINGS);
    sandbox.run("init --data data").must(0);
    let server = sandbox.serve();
    sandbox.env("COUNTERSIGN_SERVER", &server.url);
    sandbox.env("COUNTERSIGN_KEY", "admin.key");
    for line in [
        "pact publish payments.toml",
        "agent new payer-1 --org acme --role payer",
        "agent new payer-2 --org acme --role payer",
        "operator new vera --role reviewer",
        r#"fact put Account 42 {"status":"active","balance":900}"#,
    ] {
        sandbox.run(line).must(0);
    }
    (sandbox, server)
}

fn act(sandbox: &Sandbox, action: &str, code: i32) -> String {
    let line = format!(
        "act --key payer-1.key --pact payments --action {action} account=42 amount=100 memo=rent --wait 20 --json"
    );
    let verdict = sandbox.run(&line).must(code).json();
    verdict["effect"].as_str().unwrap_or_else(|| panic!("{verdict}")).to_owned()
}

fn balance(sandbox: &Sandbox) -> i64 {
    sandbox.run("fact get Account 42 --json").must(0).json()["value"]["balance"].as_i64().unwrap()
}

#[test]
fn what_has_settled_is_undone_once_by_the_action_that_the_pact_names() {
    let (sandbox, server) = serving();
    let effect = act(&sandbox, "pay", 0);
    assert_eq!(balance(&sandbox), 800);
    let undo = format!("effect undo {effect} --key payer-1.key");
    let shown = [
        sandbox.run(&format!("effect show {effect}")).must(0).shown(),
        sandbox.run(&undo).must(0).shown(),
        sandbox.run(&undo).must(0).shown(),
    ];
    assert_eq!(balance(&sandbox), 900, "undone once");
    insta::assert_snapshot!(shown.join("\n"));
    // A call that cooled is undone just the same.
    let cooled = act(&sandbox, "later", 0);
    let undone = sandbox.run(&format!("effect undo {cooled} --key payer-1.key --json")).must(0).json();
    assert_eq!(undone["verdict"], "committed", "{undone}");
    assert_eq!(balance(&sandbox), 1000);
    assert_eq!(server.end().0, 0);
    sandbox.run("audit --data data").must(0);
}

#[test]
fn what_undoes_is_decided_like_any_action_and_says_what_failed() {
    let (sandbox, server) = serving();
    let effect = act(&sandbox, "pay", 0);
    sandbox.run(r#"fact put Account 42 {"status":"frozen","balance":800}"#).must(0);
    let rejected = sandbox.run(&format!("effect undo {effect} --key payer-1.key")).must(1);
    assert!(rejected.stdout.contains("precondition_failed: "), "{}", rejected.shown());
    assert!(rejected.stdout.contains("account-is-active does not hold"), "{}", rejected.shown());
    assert_eq!(balance(&sandbox), 800);
    assert_eq!(server.end().0, 0);
}

#[test]
fn a_freeze_that_must_wait_for_a_doubt_says_so_and_shows_where_it_is() {
    let (sandbox, server) = serving();
    let effect = act(&sandbox, "lose", 5);
    let in_doubt = sandbox.run(&format!("effect show {effect} --json")).must(0).json();
    let shown = [
        sandbox.run(r#"fact put Account 42 {"status":"frozen","balance":900}"#).must(0).shown(),
        sandbox.run("fact get Account 42").must(0).shown(),
        sandbox.run(&format!("effect show {effect}")).must(0).shown(),
        sandbox.run("act --key payer-1.key --pact payments --action tell account=42 amount=1").must(1).shown(),
        sandbox.run(&format!("effect resolve {effect} failed --reason not-there --key vera.key")).must(0).shown(),
        sandbox.run(&format!("effect show {effect}")).must(0).shown(),
        sandbox.run("fact get Account 42").must(0).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    // The key that the other side was asked by, and how often it was tried, outlast the answer.
    let resolved = sandbox.run(&format!("effect show {effect} --json")).must(0).json();
    assert_eq!(resolved["idempotency_key"], in_doubt["idempotency_key"]);
    assert_eq!(resolved["evidence"]["attempts"], in_doubt["evidence"]["attempts"]);
    assert_ne!(resolved["evidence"]["attempts"], 0, "{resolved}");
    assert_eq!(server.end().0, 0);
    sandbox.run("audit --data data").must(0);
}

#[test]
fn what_cannot_be_undone_is_refused_with_what_to_do() {
    let (sandbox, server) = serving();
    let told = act(&sandbox, "tell", 0);
    let lost = act(&sandbox, "lose", 5);
    let mut shown = vec![
        sandbox.run(&format!("effect undo {told} --key payer-1.key")).must(1).shown(),
        sandbox.run(&format!("effect undo {lost} --key payer-1.key")).must(1).shown(),
        sandbox.run(&format!("effect undo {lost} --key payer-2.key")).must(1).shown(),
        sandbox.run("effect undo eff_99 --key payer-1.key").must(1).shown(),
    ];
    sandbox.run(&format!("effect resolve {lost} failed --reason not-there --key vera.key")).must(0);
    shown.push(sandbox.run(&format!("effect undo {lost} --key payer-1.key")).must(1).shown());
    // What was paid is paid; with its parameters gone, nobody can repeat them.
    let paid = act(&sandbox, "pay", 0);
    assert_eq!(server.end().0, 0);
    let entry = paid.strip_prefix("eff_").unwrap();
    sandbox.run(&format!("ledger erase --entry {entry} --reason asked-for --yes --data data --key admin.key")).must(0);
    shown.push(sandbox.run(&format!("effect undo {paid} --data data --key payer-1.key")).must(1).shown());
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_call_that_was_cancelled_shows_which_preconditions_failed() {
    let (sandbox, server) = serving();
    let line = "act --key payer-1.key --pact payments --action later account=42 amount=1 --json";
    let effect = sandbox.run(line).must(6).json()["effect"].as_str().unwrap().to_owned();
    sandbox.run(r#"fact put Account 42 {"status":"frozen","balance":900}"#).must(0);
    let shown = sandbox.run(&format!("effect show {effect} --wait 20 --key vera.key")).must(7);
    insta::assert_snapshot!(shown.shown());
    assert_eq!(server.end().0, 0);
}

/// Interrupts an action that waits for its call: gives the effect, and what was said. `None` where the call was done before.
fn interrupted(sandbox: &Sandbox) -> Option<(String, String)> {
    let waiting = sandbox.start("act --key payer-1.key --pact payments --action later account=42 amount=1 --wait 20");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let begun = loop {
        let list = sandbox.run("effect list --json").must(0).json();
        if let Some(effect) = list["effects"][0]["effect"].as_str() {
            break effect.to_owned();
        }
        assert!(std::time::Instant::now() < until, "the action never began");
    };
    let pid = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = waiting.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    if ended.status.code() == Some(0) {
        return None;
    }
    assert_eq!(ended.status.code(), Some(5), "{said}");
    Some((begun, said))
}

#[test]
fn an_act_that_ctrl_c_ends_says_how_to_find_out_what_became_of_it() {
    let (sandbox, server) = serving();
    // It must be interrupted while it waits. On a machine that is busy the call may have cooled by then, and it is done once more.
    let (begun, said) =
        (0..10).find_map(|_| interrupted(&sandbox)).expect("every call was done before it was interrupted");
    let (_, command) =
        said.trim_end().split_once("never does it twice: countersign ").unwrap_or_else(|| panic!("{said}"));
    assert!(command.contains(" --idempotency-key "), "{said}");
    // As a shell would read it; the parameters have no spaces.
    let again = sandbox.run(&format!("{} --wait 20 --json", command.replace('\'', ""))).must(0).json();
    assert_eq!((&again["verdict"], &again["effect"]), (&"settled".into(), &begun.into()), "{again}");
    assert_eq!(server.end().0, 0);
}
