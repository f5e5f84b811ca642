//! Looking for entries and facts.

use crate::cli::sandbox::Sandbox;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

const REFUND: &str = "act --agent refund-1 --pact billing --action refund amount=480000 currency=USD \
    destination=acct_treasury_1";

/// How many lines a list has.
fn lines(sandbox: &Sandbox, filters: &str) -> Vec<serde_json::Value> {
    let listed = sandbox.run(&format!("ledger list --json --data data {filters}")).must(0).stdout;
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn entries_are_found_by_who_when_and_what() {
    let sandbox = Sandbox::with_gate();
    for account in ["43", "44", "45"] {
        let value = r#"{"status":"active","balance":900000,"owner":"eve"}"#;
        sandbox.run(&format!("fact put Account {account} {value} --as desk --data data")).must(0);
    }
    sandbox.run(&format!("{REFUND} account=42 --observe Account::42 --data data")).must(0);
    sandbox.run(&format!("{REFUND} account=99 --data data")).must(1);
    let index = |filters: &str| -> Vec<u64> {
        lines(&sandbox, filters).iter().map(|entry| entry["index"].as_u64().unwrap()).collect()
    };
    assert_eq!(index("--kind feed --by desk"), [4, 5, 6]);
    assert_eq!(index("--kind feed --by desk --limit 1"), [6], "the latest");
    assert_eq!(index("--kind feed --by desk --limit 1 --from 0"), [4], "the first");
    assert_eq!(index("--verdict rejected"), [8]);
    assert_eq!(index("--by refund-1 --action refund --pact billing"), [7, 8]);
    assert_eq!(index("--action freeze"), [] as [u64; 0]);
    assert_eq!(index("--fact Account::42"), [3, 7]);
    assert_eq!(index("--since 1h --kind action"), [7, 8]);
    assert_eq!(index("--until 2020-01-01T00:00Z"), [] as [u64; 0]);
    sandbox.run("ledger list --since yesterday --data data").must(2);
    let shown = sandbox.run("ledger list --verdict rejected --data data").must(0).stdout;
    assert!(shown.contains("rejected  refund  billing v1"), "{shown}");

    let facts = sandbox.run("fact list Account --json --data data").must(0).stdout;
    let facts: Vec<serde_json::Value> = facts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = facts.iter().map(|fact| fact["fact"].as_str().unwrap()).collect();
    assert_eq!(ids, [r#"Account::"42""#, r#"Account::"43""#, r#"Account::"44""#, r#"Account::"45""#]);
    assert_eq!(sandbox.run("fact list Account --limit 2 --data data").must(0).stdout.lines().count(), 2);
    sandbox.run("fact list Nothing --data data").must(1);
    sandbox.run("fact delete Account 43 --data data").must(0);
    assert_eq!(sandbox.run("fact list Account --data data").must(0).stdout.lines().count(), 3);
}

#[test]
fn new_entries_are_followed_and_values_come_from_files() {
    let sandbox = Sandbox::with_gate();
    let server = sandbox.serve();
    let mut follower = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(["ledger", "list", "--follow", "--json", "--kind", "feed", "--by", "desk", "--server", &server.url])
        .current_dir(sandbox.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(follower.stdout.take().unwrap()).lines();
    sandbox.write("account.json", r#"{"status":"frozen","balance":1,"owner":"ada"}"#);
    for _ in 0..2 {
        let put = format!("fact put Account 42 @account.json --as desk --server {}", server.url);
        sandbox.run(&put).must(0);
        let entry: serde_json::Value = serde_json::from_str(&told.next().unwrap().unwrap()).unwrap();
        assert_eq!(entry["leaf"]["by"], "desk");
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert_eq!(server.end().0, 0);
}

#[test]
fn a_pact_is_checked_against_what_a_gate_has_published() {
    let sandbox = Sandbox::with_gate();
    let check = "pact check billing.toml --against data";
    assert!(sandbox.run(check).must(0).stderr.contains("is published already, just as it is"));
    let text = std::fs::read_to_string(sandbox.path().join("billing.toml")).unwrap();
    for (from, to, said) in [
        ("version = 1", "version = 3", "the next must be 2, not 3"),
        ("owner = \"String\"", "owner = \"Long\"", "version 1 is published already, with other content"),
    ] {
        sandbox.write("billing.toml", &text.replacen(from, to, 1));
        sandbox.run("pact check billing.toml").must(0);
        let checked = sandbox.run(check).must(1);
        let published = sandbox.run("pact publish billing.toml --data data").must(1);
        assert!(checked.stderr.contains(said) && published.stderr.contains(said), "{}", checked.shown());
    }
}

/// A pact whose action calls `crm`, with what else it says; and one whose action rests on facts there.
const TOUCH: &str = r#"pact = "touch"
version = 1
[facts.Note]
attributes = { open = "Bool" }
[action.touch]
resource = 'Note::"{id}"'
allow = 'true'
call = { http = "crm", path = "/touch" }
require = [{ id = "open", that = 'resource.open' }]
params = { type = "object", additionalProperties = false, required = ["id"], properties.id = { type = "string", maxLength = 9 } }
"#;
const RELY: &str = r#"pact = "rely"
version = 1
[facts.Row]
attributes = { open = "Bool" }
source = { http = "crm", path = "/rows/{id}" }
[action.rely]
resource = 'Row::"{id}"'
allow = 'true'
call = { http = "crm", path = "/rely" }
changes = []
require = [{ id = "open", that = 'resource.open' }]
params = { type = "object", additionalProperties = false, required = ["id"], properties.id = { type = "string", maxLength = 9 } }
"#;

#[test]
fn a_call_that_may_change_what_another_pact_rests_on_is_warned_of_wherever_that_is() {
    let sandbox = Sandbox::with_gate();
    sandbox.write("touch.toml", TOUCH);
    sandbox.write("rely.toml", RELY);
    let said =
        "`touch` calls `crm` without saying what it changes there, and `rely` of pact `rely` rests on facts in `crm`";
    let alone = sandbox.run("pact check touch.toml").must(0);
    assert!(!alone.stderr.contains("without saying"), "{}", alone.shown());
    let together = sandbox.run("pact check touch.toml rely.toml").must(0);
    assert!(together.stderr.contains(said), "{}", together.shown());
    sandbox.run("pact publish rely.toml --data data").must(0);
    let asked = sandbox.run("pact check touch.toml --against data").must(0);
    assert_eq!(asked.stderr.matches(said).count(), 1, "{}", asked.shown());
    assert!(asked.stderr.contains("touch.toml:5"), "it points at the action: {}", asked.shown());
    let both = sandbox.run("pact check touch.toml rely.toml --against data").must(0);
    assert_eq!(both.stderr.matches(said).count(), 1, "it is said once: {}", both.shown());
    let published = sandbox.run("pact publish touch.toml --data data").must(0);
    assert!(published.stderr.contains(said), "{}", published.shown());
    // What it says is what is so.
    let manifest = sandbox.run("pact check touch.toml --manifest").must(0);
    assert!(manifest.stdout.contains("no other call is made at its service meanwhile"), "{}", manifest.shown());
}
