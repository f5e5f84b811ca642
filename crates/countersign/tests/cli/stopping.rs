//! Halting, resuming, and deciding what waits for a person, against a gate that serves and knows who calls.

use crate::cli::sandbox::{Sandbox, Server};

const REFUNDS: &str = r#"
pact = "refunds"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[observe.Account]
who = 'principal.roles.contains("refunder")'
attributes = "*"

[action.refund]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 1000000 }

[[action.refund.require]]
id = "account-is-active"
that = 'resource.status == "active"'

[[action.refund.require]]
id = "small-enough"
that = 'context.amount < 100000'
on_fail = "review"
"#;

const REFUND: &str = "act --pact refunds --action refund account=42 --key refund-1.key";

/// A gate that serves, with an admin, a reviewer, an agent and an account; commands sign as the admin unless they say otherwise.
fn serving() -> (Sandbox, Server) {
    let mut sandbox = Sandbox::new();
    sandbox.write("refunds.toml", REFUNDS);
    sandbox.run("init --data data").must(0);
    let server = sandbox.serve();
    sandbox.env("COUNTERSIGN_SERVER", &server.url);
    sandbox.env("COUNTERSIGN_KEY", "admin.key");
    for line in [
        "pact publish refunds.toml",
        "agent new refund-1 --org acme --role refunder",
        "operator new vera --role reviewer",
        r#"fact put Account 42 {"status":"active","balance":900000}"#,
    ] {
        sandbox.run(line).must(0);
    }
    (sandbox, server)
}

fn balance(sandbox: &Sandbox) -> i64 {
    sandbox.run("fact get Account 42 --json").must(0).json()["value"]["balance"].as_i64().unwrap()
}

#[test]
fn a_halt_stops_its_scope_until_it_is_lifted() {
    let (sandbox, server) = serving();
    for scope in ["--agent refund-1", "--pact refunds", "--org acme", "--all"] {
        let halted = sandbox.run(&format!("halt add {scope} --reason paying-twice --json")).must(0).json();
        let name = halted["scope"].as_str().unwrap();
        let listed = sandbox.run("halt list").must(0).stdout;
        let line = format!("{name} since entry {} at ", halted["entry"]);
        assert!(listed.starts_with(&line) && listed.ends_with(", by admin: paying-twice\n"), "{listed}");
        let refused = sandbox.run(&format!("{REFUND} amount=10")).must(1);
        assert!(refused.stdout.contains("halted: ") && refused.stdout.contains("paying-twice"), "{}", refused.shown());
        // Only an admin lifts a halt, and only one that is in force.
        let other = sandbox.run(&format!("halt lift {scope} --reason fixed --key vera.key")).must(1);
        assert!(other.stderr.contains("not_authorised"), "{}", other.shown());
        let none = sandbox.run("halt lift --agent someone-else --reason fixed").must(1);
        assert!(none.stderr.contains("not_halted"), "{}", none.shown());
        let resumed = sandbox.run(&format!("halt lift {scope} --reason fixed")).must(0);
        assert!(resumed.stdout.starts_with(&format!("lifted the halt of {name} in entry ")), "{}", resumed.shown());
        assert!(sandbox.run("halt list").must(0).stderr.contains("Nothing is halted."));
        let listed = sandbox.run("ledger list --limit 3").must(0).stdout;
        for row in [format!("{name}  “paying-twice”"), format!("{name}  “fixed”")] {
            assert!(listed.contains(&row), "{row}: {listed}");
        }
        sandbox.run(&format!("{REFUND} amount=10")).must(0);
    }
    assert_eq!(balance(&sandbox), 900_000 - 40);
    sandbox.run("halt add --reason why").must(2);
    assert_eq!(server.end().0, 0);
    sandbox.run("audit --data data").must(0);
}

#[test]
fn a_parked_action_is_listed_shown_approved_and_done_once() {
    let (sandbox, server) = serving();
    assert!(sandbox.run("review list").must(0).stderr.contains("Nothing waits for a person."));
    let parked = sandbox.run(&format!("{REFUND} amount=480000 --observe Account::42 --json")).must(4).json();
    let review = parked["review"].as_str().unwrap();
    let listed = sandbox.run("review list --key vera.key").must(0).stdout;
    assert!(listed.starts_with(&format!("{review}  refund-1 does refunds.refund, since ")), "{listed}");
    let shown = sandbox.run(&format!("review show {review} --key vera.key")).must(0).stdout;
    for says in [
        "\"amount\": 480000",
        "Account::\"42\" version 1: ",
        "as the agent observed it",
        "small-enough would be waived",
    ] {
        assert!(shown.contains(says), "{shown}");
    }
    // An agent is no reviewer, and where nobody can be asked nothing is approved.
    assert!(sandbox.run(&format!("review show {review} --key refund-1.key")).must(1).stderr.contains("not_authorised"));
    let asked = sandbox.run(&format!("review approve {review} --key vera.key")).must(2);
    assert!(asked.stderr.contains("there is no terminal to ask on"), "{}", asked.shown());
    assert_eq!(balance(&sandbox), 900_000);
    let approved = sandbox.run(&format!("review approve {review} --yes --key vera.key")).must(0).stdout;
    assert!(
        approved.contains("committed in entry ") && approved.contains("approved by vera, who waived: small-enough"),
        "{approved}"
    );
    assert_eq!(balance(&sandbox), 420_000);
    let again = sandbox.run(&format!("review approve {review} --yes --key vera.key")).must(1);
    assert!(again.stderr.contains("review_closed"), "{}", again.shown());
    assert_eq!(balance(&sandbox), 420_000);
    assert_eq!(server.end().0, 0);
    sandbox.run("verify --data data --log-key data/log.vkey").must(0);
    sandbox.run("audit --data data").must(0);
}

#[test]
fn a_refused_action_is_never_done_and_its_agent_is_told() {
    let (sandbox, server) = serving();
    let key = "0123456789abcdef0123456789abcdef";
    let act = format!("{REFUND} amount=480000 --idempotency-key {key} --json");
    let review = sandbox.run(&act).must(4).json()["review"].as_str().unwrap().to_owned();
    let refuse = format!("review refuse {review} --reason withdrawn --key vera.key");
    let refused = sandbox.run(&refuse).must(0).stdout;
    assert!(refused.starts_with(&format!("refused {review} in entry ")), "{refused}");
    assert!(sandbox.run(&refuse).must(1).stderr.contains("review_closed"));
    assert!(sandbox.run("review list").must(0).stdout.is_empty());
    let told = sandbox.run(&act).must(1).json();
    assert_eq!((&told["verdict"], &told["repeated"]), (&"rejected".into(), &true.into()), "{told}");
    assert_eq!(told["review"], review.as_str());
    assert_eq!(told["message"], format!("vera refused {review}: withdrawn"), "{told}");
    assert_eq!(balance(&sandbox), 900_000);
    assert_eq!(server.end().0, 0);
    sandbox.run("audit --data data").must(0);
}
