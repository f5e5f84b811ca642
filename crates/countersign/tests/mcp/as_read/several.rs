//! Several things at once: readings of two servers, readings that are made beside each other, calls that say what they change.

use super::shop::Shop;
use super::yard::Yards;
use super::{is_error, meta, text};
use crate::mcp::client::Stdio;
use crate::mcp::processes::wait_until;
use serde_json::{Value, json};

/// Puts things to places, and says that it changes nothing else.
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
guard = "as-read"
GUARD
resource = 'Place::"{place}"'
allow = 'principal.standing == "active"'
call = { mcp = "yard", tool = "put" }

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

fn yard(guard: &str) -> Yards {
    Yards::new(&["yard"], Some(&PACT.replace("GUARD", guard)))
}

fn look(client: &mut Stdio, place: &str) -> Value {
    let read = client.call("look", &json!({"place": place}));
    assert!(!is_error(&read), "{read}");
    read
}

fn ask_to_put(client: &mut Stdio, place: &str) -> u64 {
    client.ask("tools/call", &json!({"name": "put", "arguments": {"place": place, "value": "new"}}))
}

fn put(client: &mut Stdio, place: &str) -> Value {
    let id = ask_to_put(client, place);
    client.answer(id)["result"].clone()
}

#[test]
fn what_was_read_at_one_server_is_read_again_for_a_write_at_another() {
    let yards = Yards::new(&["yard", "office"], None);
    let mut client = yards.client();
    let read = client.call("yard__look", &json!({"place": "a"}));
    assert!(!is_error(&read), "{read}");
    yards.set("yard", "a", "moved");
    let refused = client.call("office__put", &json!({"place": "b", "value": "new"}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert!(text(&refused).contains("moved"), "{refused}");
    assert_eq!((yards.count("office", "+put"), yards.count("yard", "+look")), (0, 3), "read, again, and once more");
    let done = client.call("office__put", &json!({"place": "b", "value": "new"}));
    assert!(!is_error(&done), "{done}");
    assert_eq!((yards.count("office", "-put b"), meta(&done)["readings"]["rested_on"].as_u64()), (1, Some(1)));
    assert_eq!(yards.count("office", "+look"), 0, "nothing was read there");
}

#[test]
fn a_write_at_one_server_waits_while_another_changes_what_it_rests_on() {
    let yards = Yards::new(&["yard", "office"], None);
    let (mut one, mut other) = (yards.client(), yards.client());
    one.call("yard__look", &json!({"place": "a"}));
    yards.hold("yard", "put");
    let moving = other.ask("tools/call", &json!({"name": "yard__put", "arguments": {"place": "a", "value": "moved"}}));
    yards.until("yard", "+put a", 1);
    let looks = yards.count("yard", "+look");
    let resting = one.ask("tools/call", &json!({"name": "office__put", "arguments": {"place": "b", "value": "new"}}));
    // It has been decided, and shares the yard, which is taken.
    wait_until("it waits", || yards.leaves().iter().filter(|leaf| leaf["kind"] == "action").count() == 2);
    assert_eq!((yards.count("office", "+put"), yards.count("yard", "+look")), (0, looks), "{:?}", yards.book("yard"));
    yards.release("yard", "put");
    assert!(!is_error(&other.answer(moving)["result"]));
    let refused = one.answer(resting)["result"].clone();
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(yards.count("office", "+put"), 0, "the server never saw it");
}

#[test]
fn readings_are_made_again_beside_each_other_once_each_and_once_more_only_where_they_differ() {
    let yards = Yards::new(&["yard"], None);
    let mut client = yards.client();
    for place in ["a", "b", "c"] {
        look(&mut client, place);
    }
    yards.hold("yard", "look");
    let asked = ask_to_put(&mut client, "d");
    // None of them ends before all have begun.
    yards.until("yard", "+look", 6);
    assert_eq!((yards.count("yard", "-look"), yards.count("yard", "+put")), (3, 0));
    yards.release("yard", "look");
    assert!(!is_error(&client.answer(asked)["result"]));
    assert_eq!(yards.count("yard", "+look"), 9, "once before the call and once after it: {:?}", yards.book("yard"));
    yards.set("yard", "a", "moved");
    let refused = put(&mut client, "d");
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    // What reads the same is read in between: a tool may show that another was called.
    assert_eq!((yards.count("yard", "+look"), yards.count("yard", "+look a")), (9 + 6, 3 + 2));
}

#[test]
fn calls_that_change_different_things_reach_the_server_beside_each_other_and_others_do_not() {
    for (changes, places, beside) in [
        ("changes = []", ["a", "b"], true),
        ("changes = []", ["a", "a"], false),
        ("changes = ['Place::\"{place}\"']", ["a", "b"], true),
        ("changes = [\"yard\"]", ["a", "b"], false),
        ("", ["a", "b"], false),
    ] {
        let yards = yard(changes);
        let mut clients = [yards.client(), yards.client()];
        yards.hold("yard", "put");
        let mut asked = Vec::new();
        for (client, place) in clients.iter_mut().zip(places) {
            asked.push(ask_to_put(client, place));
            yards.until("yard", "+put", if beside { asked.len() } else { 1 });
        }
        yards.release("yard", "put");
        for (client, asked) in clients.iter_mut().zip(asked) {
            let answer = client.answer(asked)["result"].clone();
            // On one resource the second finds the fence of the first.
            assert!(!is_error(&answer) || places[0] == places[1], "{changes}: {answer}");
        }
        let book: Vec<String> = yards.book("yard").into_iter().filter(|line| line.contains("put")).collect();
        let overlap = book.windows(2).any(|two| two.iter().all(|line| line.starts_with('+')));
        assert_eq!(overlap, beside, "{changes} {places:?}: {book:?}");
    }
}

#[test]
fn a_reading_that_is_too_old_for_the_pact_refuses_the_write_until_it_is_made_again() {
    let yards = yard("stale_after = \"1ms\"");
    let mut client = yards.client();
    look(&mut client, "a");
    let refused = put(&mut client, "a");
    assert_eq!(meta(&refused)["code"], "reading_stale", "{refused}");
    let calls = json!([{"tool": "look", "arguments": {"place": "a"}}]);
    assert_eq!(meta(&refused)["retry"], json!({"how": "call", "calls": calls}), "{refused}");
    assert_eq!(yards.count("yard", "+put"), 0, "the server never saw it");
    drop(client);
    let yards = yard("stale_after = \"1h\"");
    let mut client = yards.client();
    look(&mut client, "a");
    assert!(!is_error(&put(&mut client, "a")));
}

#[test]
fn lists_and_objects_as_arguments_reach_the_server_as_they_are_and_name_different_readings() {
    let yards = Yards::new(&["yard"], None);
    let mut client = yards.client();
    let filters = [json!({"tags": ["x", {"y": null}]}), json!({"tags": ["x", {"y": 1}]}), json!([[], {}])];
    for filter in &filters {
        client.call("look", &json!({"place": "a", "filter": filter}));
    }
    // The same, written in another order.
    client.call("look", &json!({"filter": [[], {}], "place": "a"}));
    let done = put(&mut client, "b");
    assert_eq!(meta(&done)["readings"]["rested_on"], 3, "{done}");
    let sent = yards.sent("yard");
    for filter in &filters {
        assert!(sent.matches(&filter.to_string()).count() >= 3, "read, again, and after: {filter}: {sent}");
    }
    yards.set("yard", "a", "moved");
    let refused = put(&mut client, "b");
    assert_eq!(meta(&refused)["readings"]["changed"].as_array().map(Vec::len), Some(3), "{refused}");
}

#[test]
fn a_tool_that_takes_what_it_shows_cannot_carry_a_write_and_gives_no_reading_once_it_is_called_a_write() {
    let yards = Yards::new(&["yard"], None);
    let mut client = yards.client();
    client.call("take", &json!({"place": "a"}));
    let refused = put(&mut client, "b");
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert!(text(&refused).contains("take differs whenever it is read, at /value"), "{refused}");
    assert_eq!((yards.count("yard", "+take"), yards.count("yard", "+put")), (3, 0), "again, and once more");
    client.end();
    yards.run_ok(&["mcp", "approve", "--yes", "--guard", "as-read", "--writes", "take", "yard/take"]);
    let mut client = yards.client();
    let taken = client.call("take", &json!({"place": "a"}));
    assert_eq!(meta(&taken)["verdict"], "settled", "it takes its turn, as a write does: {taken}");
    let done = put(&mut client, "b");
    assert_eq!(meta(&done)["readings"]["rested_on"], 0, "{done}");
    assert_eq!((yards.count("yard", "+take"), yards.count("yard", "-put b")), (4, 1), "it is not made again");
}

#[test]
fn what_is_signed_of_a_reading_does_not_say_what_was_read_where() {
    let yards = Yards::new(&["yard"], None);
    yards.set("yard", "secret-place", "secret-value");
    let mut client = yards.client();
    look(&mut client, "secret-place");
    yards.set("yard", "secret-place", "other-value");
    assert!(is_error(&put(&mut client, "b")));
    assert!(!is_error(&put(&mut client, "b")));
    let leaves = yards.leaves();
    let of = |kind: &str| leaves.iter().filter(|leaf| leaf["kind"] == kind).count();
    assert!(of("reading") >= 2 && of("dispatch") == 2, "{leaves:?}");
    let place = countersign_core::session::Place {
        upstream: "yard".into(),
        tool: "look".into(),
        arguments: r#"{"place":"secret-place"}"#.into(),
    };
    let name = place.name().to_string();
    let digests = yards.digests();
    assert!(digests.len() >= 2, "one of each value: {digests:?}");
    let secrets = ["secret", "other-value", "look", "\"yard\"", name.as_str()];
    for leaf in leaves.iter().map(Value::to_string) {
        for secret in secrets.into_iter().chain(digests.iter().map(String::as_str)) {
            assert!(!leaf.contains(secret), "{secret} is signed in the clear: {leaf}");
        }
    }
}

#[test]
fn what_is_read_once_more_beside_a_change_counts_as_it_reads_then() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    client.call("get_report", &json!({"lines": 3}));
    shop.mood("busy");
    let refused = client.call("sell", &json!({"item": "tea", "count": 5}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
}

/// Tools of two servers may have the same name.
#[test]
fn a_tool_that_a_pact_names_alone_is_one_of_the_server_that_is_called() {
    let shop = Shop::of_two_names();
    shop.publish(
        r#"
pact = "selling"
version = 1

[facts.Shelf]
attributes = { open = "Bool" }

[action.sell]
resource = 'Shelf::"{item}"'
allow = 'true'
guard = "as-read"
rests_on = ["get_stock"]
must_read = ["get_stock"]
call = { mcp = "shop", tool = "sell", arguments = { item = "context.item", count = "context.count" } }

[action.sell.params]
type = "object"
additionalProperties = false
required = ["item", "count"]
properties.item = { type = "string", maxLength = 64 }
properties.count = { type = "integer" }

[[action.sell.require]]
id = "some"
that = 'context.count >= 1'
"#,
    );
    shop.run_ok(&["fact", "put", "Shelf", "tea", r#"{"open":true}"#, "--data", "data"]);
    let mut client = shop.client();
    client.call("other__get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    let refused = client.call("shop__sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_required", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    client.call("shop__get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("shop__sell", &json!({"item": "tea", "count": 1}))));
}

/// Who publishes pacts does not say which tools only read: an admin does.
#[test]
fn no_fact_is_read_by_a_tool_that_was_approved_as_one_that_writes() {
    let shop = Shop::new();
    shop.publish(
        r#"
pact = "selling"
version = 1

[facts.Stock]
attributes = { left = "Long" }
source = { mcp = "shop", tool = "sell", arguments = { item = "{id}", count = 1 }, at = "/structuredContent" }

[observe.Stock]
who = 'true'
attributes = "*"

[facts.Note]
attributes = { of = "String" }

[action.note]
resource = 'Note::"{item}"'
allow = 'true'
set = { of = '"nothing"' }

[action.note.params]
type = "object"
additionalProperties = false
required = ["item"]
properties.item = { type = "string", maxLength = 64 }

[[action.note.require]]
id = "some"
that = 'context.item != "everything"'
"#,
    );
    let gate = shop.serve();
    let answer = shop.post(&gate, "/v1/observe", &json!({"facts": ["Stock::\"tea\""]}));
    assert!(answer.to_string().contains("shop/sell is approved as a tool that may change something"), "{answer}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 10), "the server never saw it");
}
