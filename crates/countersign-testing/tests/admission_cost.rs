//! What admission costs: one action parsed, bound and hashed on its caller's thread, through a real gate.
//!
//! Absolute times are noise on a shared machine; compare two builds, one after the other, in alternating runs.

use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_testing::gate::{feed, open, publish};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const BURST: u64 = 1024;
const BURSTS: u64 = 60;

/// The bench's own shape: one string, one number, both bounded.
const PACT: &str = r#"
pact = "bench"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[action.spend]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("spender")'
set = { balance = "resource.balance - context.amount" }

[action.spend.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.spend.require]]
id = "account-is-active"
that = 'resource.status == "active"'
"#;

fn body(number: u64) -> Arc<str> {
    format!(
        r#"{{"pact":"bench","action":"spend","idempotency_key":"{number:032x}","params":{{"account":"{:07}","amount":1}}}}"#,
        number % 1000
    )
    .into()
}

#[test]
#[ignore = "a measurement: run with `cargo test --release -p countersign-testing --test all admission_cost -- --ignored --nocapture`"]
fn admission_of_one_action() {
    let folder = tempfile::tempdir().unwrap();
    let gate = open(folder.path());
    gate.call(publish(PACT)).unwrap();
    let agent = r#"{"roles":["spender"],"standing":"active","org":"bench","trust":700}"#;
    gate.call(feed("Agent::\"spender-1\"", agent)).unwrap();
    let agent = AgentId::new("spender-1").unwrap();
    let mut times: Vec<f64> = (0..BURSTS)
        .map(|burst| {
            let bodies: Vec<_> = (0..BURST).map(|number| body(burst * BURST + number)).collect();
            let started = Instant::now();
            let admitted = bodies.into_iter().map(|body| gate.admit(agent.clone(), Auth::None, body.into()).unwrap());
            let admitted: Vec<_> = admitted.collect();
            let took = started.elapsed();
            assert_eq!(black_box(admitted).len() as u64, BURST);
            took.as_secs_f64() * 1e9 / BURST as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "admission, ns an action (of {BURSTS} bursts of {BURST}): fastest {:.0}, median {:.0}",
        times[0], times[30]
    );
}
