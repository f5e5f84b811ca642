//! What a script or a person in a hurry believes: an exit code, and the word "halted".

use crate::attacks::service::{Reply, Service};
use crate::attacks::world::{World, wait_until};
use serde_json::Value as Json;

const PACT: &str = r#"
pact = "stock"
version = 1

[facts.Item]
attributes = { on_hand = "Long" }

[observe.Item]
who = 'true'
attributes = "*"

[action.take]
resource = 'Item::"{item}"'
allow = 'true'
set = { on_hand = "resource.on_hand - context.quantity" }

[action.take.params]
type = "object"
additionalProperties = false
required = ["item", "quantity"]
properties.item = { type = "string", maxLength = 64 }
properties.quantity = { type = "integer", minimum = 1, maximum = 1000 }

[[action.take.require]]
id = "enough"
that = 'resource.on_hand >= context.quantity'

[[action.take.require]]
id = "few"
that = 'context.quantity < 5'
on_fail = "review"

[action.ship]
resource = 'Item::"{item}"'
allow = 'true'
call = { http = "carrier", path = "/{how}", timeout = "20s" }

[action.ship.params]
type = "object"
additionalProperties = false
required = ["item", "how"]
properties.item = { type = "string", maxLength = 64 }
properties.how = { enum = ["well", "badly", "silently", "slowly"] }

[[action.ship.require]]
id = "some"
that = 'resource.on_hand > 0'
"#;

#[test]
fn a_script_that_trusts_the_exit_code_is_not_told_done_for_what_is_not() {
    let service = Service::start(|request| match request.line.as_str() {
        "POST /well" => Reply::json(201, "{}"),
        "POST /badly" => Reply::json(422, "{}"),
        "POST /slowly" => Reply { after: std::time::Duration::from_secs(30), ..Reply::json(201, "{}") },
        _ => Reply::json(500, "{}"),
    });
    let settings =
        format!("[adapters.carrier]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\n", service.url);
    let world = World::serving(&settings);
    world.publish(PACT);
    world.agent("packer-1", "packer");
    for item in ["cup", "pot", "pan", "jug", "mug"] {
        world.run_ok(&["fact", "put", "Item", item, r#"{"on_hand":10}"#]);
    }
    let act = |action: &str, more: &[&str]| {
        let words = ["act", "--key", "packer-1.key", "--pact", "stock", "--action", action, "--json"];
        let output = world.run(&[&words[..], more].concat());
        let verdict: Json = serde_json::from_slice(&output.stdout).unwrap();
        (verdict["verdict"].as_str().unwrap().to_owned(), output.status.code().unwrap())
    };
    let told = |verdict: &str, code: i32| (verdict.to_owned(), code);
    assert_eq!(act("take", &["item=cup", "quantity=1"]), told("committed", 0));
    assert_eq!(act("take", &["item=cup", "quantity=11"]), told("rejected", 1));
    assert_eq!(act("take", &["item=cup", "quantity=7"]), told("review", 4));
    assert_eq!(act("ship", &["item=pot", "how=slowly"]), told("in_flight", 6));
    assert_eq!(act("ship", &["item=pan", "how=well", "--wait", "50s"]), told("settled", 0));
    assert_eq!(act("ship", &["item=jug", "how=badly", "--wait", "50s"]), told("failed", 7));
    assert_eq!(act("ship", &["item=mug", "how=silently", "--wait", "50s"]), told("in_doubt", 5));
    // The effect says the same to whoever waits for it.
    let doubt = world.entries().iter().filter(|entry| entry["leaf"]["verdict"] == "in_flight").count();
    assert_eq!(doubt, 4);
    let effects: Json = serde_json::from_str(&world.run_ok(&["effect", "list", "--json"])).unwrap();
    let of = |state: &str| {
        let found = effects["effects"].as_array().unwrap().iter().find(|effect| effect["state"] == state);
        found.unwrap()["effect"].as_str().unwrap().to_owned()
    };
    let in_doubt = of("in_doubt");
    assert_eq!(world.run(&["effect", "show", &in_doubt, "--wait", "1"]).status.code(), Some(5));
    assert_eq!(world.run(&["effect", "show", &of("dispatched"), "--wait", "1s"]).status.code(), Some(6));
    world.run_ok(&["effect", "resolve", &in_doubt, "failed", "--reason", "asked them"]);
    assert_eq!(world.run(&["effect", "show", &in_doubt, "--wait", "1s"]).status.code(), Some(7));
    // An error under --json is JSON too, on stderr.
    let error = world.run(&["fact", "get", "Item", "none", "--json"]);
    let said: Json = serde_json::from_slice(&error.stderr).unwrap();
    assert_eq!((error.status.code(), &said["error"]["code"]), (Some(1), &Json::from("fact_not_found")));
    assert!(error.stdout.is_empty());
}

#[test]
fn a_halt_with_a_slip_of_the_keyboard_is_not_called_halted() {
    let world = World::serving("");
    world.publish(PACT);
    world.agent("packer-1", "packer");
    world.run_ok(&["fact", "put", "Item", "cup", r#"{"on_hand":10}"#]);
    let take = ["act", "--key", "packer-1.key", "--pact", "stock", "--action", "take", "item=cup", "quantity=1"];
    for (scope, wrong, right) in
        [("--agent", "packer-l", "packer-1"), ("--pact", "stok", "stock"), ("--org", "acne", "acme")]
    {
        let halted = world.run(&["halt", "add", scope, wrong, "--reason", "stop"]);
        let said = String::from_utf8_lossy(&halted.stderr).into_owned();
        assert_eq!(halted.status.code(), Some(1), "{said}");
        assert!(said.contains("NOTHING RUNNING WAS STOPPED") && said.contains(&format!("{scope} {right}")), "{said}");
        assert!(!String::from_utf8_lossy(&halted.stdout).contains("halted"));
        assert!(world.run(&take).status.success(), "the agent was never stopped");
        world.run_ok(&["halt", "add", scope, right, "--reason", "stop"]);
        assert_eq!(world.run(&take).status.code(), Some(1));
        world.run_ok(&["halt", "lift", scope, right, "--reason", "go on"]);
    }
    // What is halted in advance is halted, whoever comes.
    world.run_ok(&["halt", "add", "--agent", "packer-2", "--reason", "not yet", "--allow-unknown"]);
    world.agent("packer-2", "packer");
    let take: Vec<&str> =
        take.iter().map(|word| if *word == "packer-1.key" { "packer-2.key" } else { *word }).collect();
    assert_eq!(world.run(&take).status.code(), Some(1));
    let revoked = world.run(&["agent", "revoke", "packer-l"]);
    let said = String::from_utf8_lossy(&revoked.stderr).into_owned();
    assert!(said.contains("did you mean `packer-1`?") && !said.contains("PUT"), "{said}");
}

#[test]
fn a_folder_copied_while_its_gate_works_is_put_back() {
    let mut world = World::serving("snapshot_every = 40\n");
    world.publish(PACT);
    let clerk = world.agent("packer-1", "packer");
    world.run_ok(&["fact", "put", "Item", "cup", r#"{"on_hand":100000}"#]);
    world.write("early.receipt", &world.run_ok(&["ledger", "show", "4", "--receipt"]));
    let (stop, done) = (std::sync::atomic::AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut number = 0;
            while !stop.load(order) {
                number += 1;
                let body = serde_json::json!({
                    "pact": "stock", "action": "take", "idempotency_key": format!("{number:032}"),
                    "params": {"item": "cup", "quantity": 1},
                });
                if clerk.ask("POST", "/v1/actions", &body.to_string()).json["verdict"] == "committed" {
                    done.fetch_add(1, order);
                }
            }
        });
        for round in 0..4 {
            let before = done.load(order);
            wait_until("the gate works", || done.load(order) > before + 30);
            world.run_ok(&["backup", "--data", "data", &format!("copy-{round}")]);
        }
        stop.store(true, order);
    });
    let last: Json = serde_json::from_str(&world.run_ok(&["ledger", "list", "--json", "--limit", "1"])).unwrap();
    world.write("late.receipt", &world.run_ok(&["ledger", "show", &last["index"].to_string(), "--receipt"]));
    world.kill();
    for round in 0..4 {
        let copy = format!("copy-{round}");
        let verify = |against: &str| {
            world.run(&["verify", "--data", &copy, "--log-key", "data/log.vkey", "--against", against]).status.code()
        };
        // Evidence from before the copy fits it; evidence from after shows that the log was put back.
        assert_eq!(verify("early.receipt"), Some(0));
        assert_eq!(verify("late.receipt"), Some(1));
        let audit = world.run(&["audit", "--data", &copy]);
        assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stderr));
        std::fs::rename(world.path().join("data"), world.path().join("lost")).unwrap();
        std::fs::rename(world.path().join(&copy), world.path().join("data")).unwrap();
        world.serve();
        let item: Json = serde_json::from_str(&world.run_ok(&["fact", "get", "Item", "cup", "--json"])).unwrap();
        assert!(item["value"]["on_hand"].as_i64().unwrap() <= 100_000 - 30);
        world.run_ok(&["fact", "put", "Item", "cup", r#"{"on_hand":5}"#]);
        world.kill();
        std::fs::rename(world.path().join("data"), world.path().join(&copy)).unwrap();
        std::fs::rename(world.path().join("lost"), world.path().join("data")).unwrap();
    }
}
