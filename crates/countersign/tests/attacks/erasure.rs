//! A person who asked to be forgotten, looked for on the disk.

use crate::attacks::service::{Reply, Service};
use crate::attacks::world::{World, wait_until};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

const MAIL: &str = "ada@example.com";

const PACT: &str = r#"
pact = "crm"
version = 1

[facts.Customer]
attributes = { name = "String", open = "Bool" }

[observe.Customer]
who = 'principal.roles.contains("clerk")'
attributes = "*"

[claim.Customer]
who = 'principal.roles.contains("clerk")'
max = "30s"

[action.rename]
resource = 'Customer::"{mail}"'
allow = 'principal.roles.contains("clerk")'
set = { name = "context.name" }

[action.rename.params]
type = "object"
additionalProperties = false
required = ["mail", "name"]
properties.mail = { type = "string", maxLength = 64 }
properties.name = { type = "string", maxLength = 64 }

[[action.rename.require]]
id = "is-open"
that = 'resource.open'

[[action.rename.require]]
id = "short"
that = '!(context.name like "Countess*")'
on_fail = "review"

[action.write]
resource = 'Customer::"{mail}"'
allow = 'principal.roles.contains("clerk")'
call = { http = "mail", path = "/letters", body = { to = "context.mail", name = "resource.name" }, timeout = "50s" }

[[action.write.require]]
id = "is-open"
that = 'resource.open'
"#;

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The files of the data folder that hold a text, as it is or as URLs write it.
fn files_with(world: &World, text: &str) -> Vec<PathBuf> {
    let forms = [text.to_owned(), text.replace('@', "%40"), text.replace(' ', "%20")];
    let holds = |path: &PathBuf| {
        // What is being written has a name of its own for a moment.
        let bytes = std::fs::read(path).unwrap_or_default();
        // The rest of a segment is reserved, and zero.
        let bytes = &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)];
        forms.iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes()))
    };
    files(&world.path().join("data")).into_iter().filter(holds).collect()
}

fn put(world: &World, name: &str) {
    let value = json!({"name": name, "open": true}).to_string();
    world.run_ok(&["fact", "put", "Customer", MAIL, &value]);
}

#[test]
fn a_person_who_was_erased_is_looked_for_on_the_disk() {
    // The service answers a letter only once the gate has had time to be fed meanwhile.
    let service = Service::start(|request| {
        let later = std::time::Duration::from_secs(3);
        Reply { after: later, ..Reply::json(201, &json!({"sent": request.body}).to_string()) }
    });
    let settings = format!(
        "snapshot_every = 5\n[adapters.mail]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\n",
        service.url
    );
    let mut world = World::serving(&settings);
    world.publish(PACT);
    world.agent("clerk-1", "clerk");
    world.run_ok(&["fact", "put", "Customer", "eve@example.com", r#"{"name":"Eve","open":true}"#]);
    let fact = format!("Customer::{MAIL}");
    let mail = format!("mail={MAIL}");
    let act = |world: &World, action: &str, more: &[&str]| {
        let words = ["act", "--key", "clerk-1.key", "--pact", "crm", "--action", action, "--observe", &fact, &mail];
        world.run(&[&words[..], more].concat())
    };

    put(&world, "Ada Byron");
    world.run_ok(&["claim", "new", &fact, "--for", "20s", "--reason", "she called", "--key", "clerk-1.key"]);
    world.run_ok(&["claim", "withdraw", "clm_6", "--key", "clerk-1.key"]);
    assert!(act(&world, "rename", &["name=Ada King"]).status.success());
    assert_eq!(act(&world, "rename", &["name=Countess of Lovelace"]).status.code(), Some(4));
    let review = world.entries().len() - 1;
    world.run_ok(&["review", "approve", &format!("rev_{review}"), "--yes"]);
    assert_eq!(act(&world, "write", &[]).status.code(), Some(6));
    // While the letter is on its way, the feed is held.
    put(&world, "Ada Lovelace");
    wait_until("the letter is settled and the feed written", || {
        world.entries().iter().any(|entry| entry["leaf"]["held"].is_u64())
    });
    world.run_ok(&["fact", "delete", "Customer", MAIL]);
    assert_eq!(act(&world, "write", &[]).status.code(), Some(1));
    assert_eq!(service.received().len(), 1);
    assert!(files_with(&world, MAIL).len() >= 2, "log and snapshot hold it before");

    let erase = |world: &World, more: &[&str]| -> Json {
        let words = ["ledger", "erase", "--fact", &fact, "--reason", "request 7", "--json"];
        serde_json::from_str(&world.run_ok(&[&words[..], more].concat())).unwrap()
    };
    let plan = erase(&world, &["--dry-run"]);
    assert_eq!(plan.get("kept"), None, "{plan}");
    let done = erase(&world, &["--yes"]);
    assert_eq!(done["erased"], plan["erased"], "the dry run said otherwise");

    let values = ["Ada Byron", "Ada King", "Countess of Lovelace", "Ada Lovelace"];
    for text in [MAIL].iter().chain(&values) {
        assert_eq!(files_with(&world, text), Vec::<PathBuf>::new(), "{text}");
    }
    for restarted in [false, true] {
        if restarted {
            world.kill();
            world.serve();
        }
        assert_eq!(world.run(&["fact", "get", "Customer", MAIL]).status.code(), Some(1));
        world.run_ok(&["fact", "get", "Customer", "eve@example.com"]);
    }
    world.run_ok(&["verify", "--data", "data", "--log-key", "data/log.vkey"]);
    let audit: Json = serde_json::from_str(&world.run_ok(&["audit", "--data", "data", "--json"])).unwrap();
    assert_eq!(audit["differing_count"].as_u64().unwrap_or(0), 0, "{audit}");
    let unverifiable = audit["unverifiable"].as_array().unwrap();
    assert!(unverifiable.iter().all(|it| it["erased_by"] == done["records"][0]), "{audit}");
    let entries: Vec<_> = unverifiable.iter().map(|it| &it["entry"]).collect();
    assert!(plan["erased"].as_array().unwrap().iter().all(|entry| entries.contains(&entry)), "{audit}");
}

#[test]
fn a_person_whom_a_halted_agent_asked_for_is_looked_for_on_the_disk() {
    let mut world = World::serving("");
    world.publish(PACT);
    let clerk = world.agent("clerk-1", "clerk");
    put(&world, "Ada");
    let rename = |key: &str, more: Json| {
        let mut body = json!({"pact": "crm", "action": "rename", "idempotency_key": format!("{key:0>32}"),
            "params": {"mail": MAIL, "name": "Eve"}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        clerk.ask("POST", "/v1/actions", &body.to_string()).json
    };
    world.run_ok(&["halt", "add", "--agent", "clerk-1", "--reason", "a test"]);
    assert_eq!(rename("halted", json!({}))["code"], "halted");
    world.run_ok(&["halt", "lift", "--agent", "clerk-1", "--reason", "a test"]);
    let unfit = rename("unfit", json!({"params": {"mail": MAIL, "name": "Eve", "other": 1}}));
    assert_eq!(unfit["code"], "invalid_params", "{unfit}");
    world.run_ok(&["fact", "delete", "Customer", MAIL]);
    assert_ne!(files_with(&world, MAIL), Vec::<PathBuf>::new(), "the log holds it before");
    world.run_ok(&["ledger", "erase", "--fact", &format!("Customer::{MAIL}"), "--reason", "request 7", "--yes"]);
    assert_eq!(files_with(&world, MAIL), Vec::<PathBuf>::new());
    world.kill();
    world.run_ok(&["audit", "--data", "data"]);
}

#[test]
fn an_erasure_that_names_the_person_would_keep_the_name_for_ever() {
    let world = World::serving("");
    world.publish(PACT);
    put(&world, "Ada");
    world.run_ok(&["fact", "delete", "Customer", MAIL]);
    let body = json!({"fact": format!("Customer::\"{MAIL}\""), "reason": "request 7"}).to_string();
    let refused = world.caller("admin").ask("POST", "/v1/ledger/erasures", &body);
    assert_eq!((refused.status, &refused.json["error"]["code"]), (400, &json!("invalid_field")));
    assert!(world.entries().iter().all(|entry| entry["leaf"]["kind"] != "erasure"));
    world.run_ok(&["ledger", "erase", "--fact", &format!("Customer::{MAIL}"), "--reason", "request 7", "--yes"]);
    assert_eq!(files_with(&world, MAIL), Vec::<PathBuf>::new());
}
