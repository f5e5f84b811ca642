//! What agents are told of their own actions, and what a caller makes the gate write about it.

use super::service::{Received, Reply, Service};
use super::world::{World, wait_until};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

/// An agent may see the label of a box, and neither which box is next nor what is in it.
const BOXES: &str = r#"
pact = "boxes"
version = 1

[facts.Box]
attributes = { label = "String", next = "String" }

[observe.Box]
who = 'principal.roles.contains("mover")'
attributes = ["label"]

[action.ship]
resource = 'Box::"{box}"'
reads = { next = 'Box::"{resource.next}"' }
allow = 'principal.roles.contains("mover")'
call.http = "courier"
call.path = "/ship"
call.body = { box = "context.box" }

[[action.ship.require]]
id = "labelled"
that = 'resource.label != "" && context.next.label != ""'
"#;

#[test]
fn an_agent_reads_withheld_ids_out_of_its_calls() {
    let service = Service::start(|_: &Received| Reply::json(500, "{}"));
    let mut world = World::serving(&format!(
        "[adapters.courier]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\n",
        service.url
    ));
    world.publish(BOXES);
    let mover = world.agent("mover-1", "mover");
    for (id, next) in [("a", "HIDDEN-NEXT"), ("HIDDEN-NEXT", "none")] {
        let value = json!({"label": "x", "next": next}).to_string();
        world.run_ok(&["fact", "put", "Box", id, &value]);
    }
    let body = json!({"pact": "boxes", "action": "ship", "idempotency_key": "an-idempotency-key-0001", "params": {"box": "a"}});
    let verdict = mover.ask("POST", "/v1/actions", &body.to_string()).json;
    let effect = verdict["effect"].as_str().unwrap_or_else(|| panic!("{verdict}")).to_owned();
    // A failed call without an idempotent service stays in doubt, under its fences.
    let show = || mover.ask("GET", &format!("/v1/effects/{effect}"), "").json;
    wait_until("the call is in doubt", || show()["state"] == "in_doubt");
    let shown = show();
    assert_eq!(shown["fences"], json!(["Box::\"a\"", "Box::\"…\""]), "{shown}");
    assert!(!shown.to_string().contains("HIDDEN"), "{shown}");
    let again = mover.ask("POST", "/v1/actions", &body.to_string()).json;
    assert!(!again.to_string().contains("HIDDEN"), "{again}");
    // An operator sees what it is about.
    assert!(world.run_ok(&["effect", "show", &effect]).contains("HIDDEN-NEXT"));
    world.kill();
    world.run_ok(&["audit", "--data", "data"]);
}

/// An agent that pays an account sees whether it is open, and not its number, which the bank is told.
const PAYOUTS: &str = r#"
pact = "payouts"
version = 1

[facts.Account]
attributes = { open = "Bool", number = "String" }

[observe.Account]
who = 'principal.roles.contains("payer")'
attributes = ["open"]

[action.pay]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
call.http = "bank"
call.path = "/pay"
call.body = { number = "resource.number" }

[[action.pay.require]]
id = "is-open"
that = 'resource.open'

[action.greet]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
call.http = "bank"
call.path = "/greet"
call.body = { account = "context.account", open = "resource.open" }

[[action.greet.require]]
id = "is-open"
that = 'resource.open'
"#;

#[test]
fn an_agent_reads_withheld_values_out_of_what_a_service_answers() {
    let bank = Service::start(|request: &Received| Reply::json(201, &json!({"echo": request.body}).to_string()));
    let mut world = World::serving(&format!(
        "[adapters.bank]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\n",
        bank.url
    ));
    world.publish(PAYOUTS);
    let payer = world.agent("payer-1", "payer");
    world.run_ok(&["fact", "put", "Account", "a", r#"{"open": true, "number": "SECRET-4711"}"#]);
    let act = |action: &str| {
        let body = json!({"pact": "payouts", "action": action, "idempotency_key": format!("{action:0>32}"),
            "params": {"account": "a"}});
        payer.ask("POST", "/v1/actions?wait_ms=30000", &body.to_string()).json
    };
    let told = [act("pay"), act("pay")];
    assert_eq!(told.each_ref().map(|told| told["verdict"].as_str()), [Some("settled"); 2], "{told:?}");
    assert!(bank.received().iter().any(|request| request.body.contains("SECRET-4711")), "the bank was told");
    let effect = world.entries().iter().rev().find_map(|entry| entry["leaf"]["effect"].as_u64()).unwrap();
    let shown = payer.ask("GET", &format!("/v1/effects/eff_{effect}"), "").json;
    assert_eq!(shown["state"], "settled", "{shown}");
    for told in told.iter().chain([&shown]) {
        assert!(!told.to_string().contains("SECRET"), "{told}");
        assert_eq!(told["evidence"]["withheld"], true, "{told}");
    }
    assert!(world.run_ok(&["effect", "show", &format!("eff_{effect}")]).contains("SECRET-4711"), "operators see it");
    // What is made of nothing that is withheld is told.
    let greeted = act("greet");
    assert!(greeted["evidence"]["result"].as_str().is_some_and(|result| result.contains("echo")), "{greeted}");
    world.kill();
    world.run_ok(&["audit", "--data", "data"]);
}

#[test]
fn a_stranger_fills_the_disk_through_the_log() {
    let world = World::new();
    world.write("countersign.toml", "data = \"data\"\n");
    let detached = world.run_ok(&["serve", "--detach", "--listen", "127.0.0.1:0"]);
    let log = world.path().join("data/gate.log");
    let said = std::fs::read_to_string(&log).unwrap();
    let (_, url) = said.split_once("Listening on http://").unwrap_or_else(|| panic!("{said}"));
    let addr = url.split_whitespace().next().unwrap().to_owned();
    let request = format!("{} /v1/actions HTTP/1.1\r\nHost: {addr}\r\n\r\n", "A".repeat(60_000));
    let mut answered = 0;
    for _ in 0..4 {
        let mut stream = TcpStream::connect(&addr).unwrap();
        for _ in 0..100 {
            let mut answer = [0; 4096];
            let is_sent = stream.write_all(request.as_bytes()).is_ok();
            match stream.read(&mut answer) {
                Ok(read) if is_sent && read > 0 => answered += 1,
                _ => break,
            }
        }
    }
    let written = std::fs::metadata(&log).unwrap().len();
    assert!(Command::new("kill").arg(detached.trim()).status().unwrap().success());
    wait_until("the log was closed cleanly", || world.path().join("data/log/clean").exists());
    assert!(answered > 0, "the gate answers, so this is a test of what it writes meanwhile");
    assert!(written < 128 << 10, "{answered} refusals made {written} bytes of log");
}

const CUSTOMERS: &str = r#"
pact = "crm"
version = 1

[facts.Customer]
attributes = { tier = "String" }
source = { http = "crm", path = "/customers/{id}" }

[[observe.Customer]]
who = 'principal.roles.contains("sales")'
attributes = "*"

[action.greet]
resource = 'Customer::"{customer}"'
allow = 'principal.roles.contains("sales")'
call = { http = "crm", path = "/greetings", body = { tier = "resource.tier" } }

[action.greet.params]
type = "object"
additionalProperties = false
required = ["customer"]
properties.customer = { type = "string", minLength = 1, maxLength = 64 }

[[action.greet.require]]
id = "has-a-tier"
that = 'resource.tier != ""'
"#;

#[test]
fn an_agent_has_the_ids_that_it_asks_for_written_to_the_log_without_end() {
    const ASKED: usize = 600;
    let service = Service::start(|_: &Received| Reply::json(500, "{}"));
    let mut world = World::new();
    let settings = "[adapters.crm]\nkind = \"http\"\nallow_private = [\"127.0.0.0/8\"]\n";
    world.write("countersign.toml", &format!("{settings}base = \"{}\"\n", service.url));
    let mut talkative = Command::new("sh");
    talkative.args(["-c", "export RUST_LOG=warn; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_countersign")]);
    world.serve_by(talkative);
    world.publish(CUSTOMERS);
    let seller = world.agent("seller", "sales");
    for at in 0..ASKED {
        let told =
            seller.ask("POST", "/v1/observe", &json!({"facts": [format!("Customer::\"PERSON-{at}\"")]}).to_string());
        assert_eq!(told.json["error"]["code"], "external_unread", "{told:?}");
    }
    let said = || std::fs::read_to_string(world.path().join("gate.err")).unwrap();
    wait_until("the log says that facts cannot be read", || said().contains("could not be read"));
    assert!(!said().contains("PERSON-"), "{}", said());
    let lines = said().lines().filter(|line| line.contains("could not be read")).count();
    assert!(lines < ASKED, "each of {ASKED} has a line");
}
