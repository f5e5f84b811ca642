//! Two servers behind one gateway: an agent is told of tools by the names that it knows them by, and can do what it is told.

use super::shop::Shop;
use super::yard::Yards;
use super::{is_error, meta, text};
use crate::mcp::client::Stdio;
use serde_json::{Value, json};

/// Does what a refusal says: makes every call that it names, just as it is named.
fn follow(client: &mut Stdio, refused: &Value) {
    assert_eq!(meta(refused)["retry"]["how"], "call", "{refused}");
    let calls = meta(refused)["retry"]["calls"].as_array().unwrap().clone();
    assert!(!calls.is_empty(), "{refused}");
    for call in calls {
        let tool = call["tool"].as_str().unwrap();
        assert!(text(refused).contains(tool), "the text names it as well: {refused}");
        let read = client.call(tool, &call["arguments"]);
        assert!(!is_error(&read) && read.get("error").is_none(), "{call}: {read}");
    }
}

/// No word of a text is a tool's name without its server's.
fn names_all(said: &str, tools: &[&str]) {
    let words = said.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '/'));
    for word in words {
        assert!(!tools.contains(&word), "`{word}` is no name that the agent knows: {said}");
    }
}

#[test]
fn what_a_refusal_says_to_call_can_be_called_as_it_is_named() {
    let shop = Shop::of_two_names();
    let mut client = shop.client();
    assert!(client.tools().contains(&"shop__get_stock".to_owned()));
    client.call("shop__get_stock", &json!({"item": "tea"}));
    shop.set("tea", 3);
    let refused = client.call("other__burn", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    names_all(&text(&refused), &["get_stock", "burn"]);
    assert_eq!(shop.count("burn"), 0, "the server never saw it");
    follow(&mut client, &refused);
    let done = client.call("other__burn", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&done), "{done}");
    names_all(&text(&done), &["get_stock", "burn"]);
    assert!(text(&done).contains("shop__get_stock"), "its own change is told: {done}");
    assert_eq!((shop.count("burn"), shop.stock("tea")), (1, 2));
}

#[test]
fn warnings_and_what_cannot_be_read_name_tools_as_the_agent_knows_them() {
    let shop = Shop::of_two_names();
    let gateway = shop.listen();
    let (mut one, mut other) = (shop.http(&gateway), shop.http(&gateway));
    one.call("shop__get_stock", &json!({"item": "tea"}));
    other.call("shop__get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&other.call("shop__sell", &json!({"item": "tea", "count": 4}))));
    let warned = one.call("other__get_stock", &json!({"item": "rice"}));
    assert!(text(&warned).contains("Note: shop__get_stock"), "{warned}");
    one.call("shop__get_stock", &json!({"item": "tea"}));
    shop.mood("die on get_stock");
    let unread = one.call("shop__sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&unread)["code"], "reading_unread", "{unread}");
    names_all(&text(&unread), &["get_stock", "sell"]);
    assert_eq!(shop.count("sell"), 1);
}

/// Facts by a tool of one server, and calls of the other.
const PACT: &str = r#"
pact = "yard"
version = 1

[facts.Place]
attributes = { value = "String" }
source = { mcp = "yard", tool = "look", arguments = { place = "{id}" }, at = "/structuredContent" }

[observe.Place]
who = 'true'
attributes = "*"

[action.put]
GUARD
resource = 'Place::"{place}"'
allow = 'principal.standing == "active"'
call = { mcp = "yard", tool = "put", on_error = "failed" }

[action.put.params]
type = "object"
additionalProperties = false
required = ["place", "value"]
properties.place = { type = "string", maxLength = 16 }
properties.value = { type = "string", maxLength = 16 }

[[action.put.require]]
id = "not-locked"
that = 'resource.value != "locked"'
"#;

fn yards(guard: &str) -> Yards {
    Yards::new(&["yard", "office"], Some(&PACT.replace("GUARD", guard)))
}

#[test]
fn a_precondition_that_does_not_hold_says_what_changed_and_which_tool_shows_it() {
    let yards = yards("");
    let mut client = yards.client();
    yards.set("yard", "a", "open");
    client.call("yard__look", &json!({"place": "a"}));
    yards.set("yard", "a", "locked");
    let put = json!({"place": "a", "value": "new"});
    let refused = client.call("yard__put", &put);
    assert_eq!(meta(&refused)["code"], "precondition_failed", "{refused}");
    let said = text(&refused);
    assert!(said.contains("open") && said.contains("locked"), "what has changed: {said}");
    assert!(!said.contains("Place::") && !said.contains("observe") && !said.contains("token"), "{said}");
    assert_eq!(yards.count("yard", "+put"), 0, "the server never saw it");
    yards.set("yard", "a", "open");
    follow(&mut client, &refused);
    assert!(!is_error(&client.call("yard__put", &put)));
    assert_eq!(yards.count("yard", "+put"), 1);
}

#[test]
fn what_has_to_be_read_first_is_named_as_a_call() {
    for (guard, code) in [
        ("require_observation = true", "observation_required"),
        ("guard = \"as-read\"\nmust_read = [\"look\"]", "reading_required"),
        ("guard = \"as-read\"\nstale_after = \"1ms\"", "reading_stale"),
    ] {
        let yards = yards(guard);
        let mut client = yards.client();
        let put = json!({"place": "a", "value": "new"});
        if code == "reading_stale" {
            client.call("yard__look", &json!({"place": "a"}));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let refused = client.call("yard__put", &put);
        assert_eq!(meta(&refused)["code"], code, "{refused}");
        let said = text(&refused);
        names_all(&said, &["look", "put"]);
        assert!(said.contains("yard__look"), "{said}");
        assert!(!said.contains("token") && (code == "reading_stale" || !said.contains("again in")), "{said}");
        assert_eq!(yards.count("yard", "+put"), 0, "the server never saw it");
        if code == "reading_required" {
            // Which arguments are wanted no pact says.
            assert_eq!(meta(&refused)["retry"], json!({"how": "change", "tools": ["yard__look"]}), "{refused}");
            continue;
        }
        follow(&mut client, &refused);
        if code == "observation_required" {
            assert!(!is_error(&client.call("yard__put", &put)));
            assert_eq!(yards.count("yard", "+put"), 1);
        }
    }
}
