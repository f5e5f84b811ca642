//! Writes that would rest on what no one was told: answers of calls that never arrived, kept where their client does not look.

use super::shop::Shop;
use super::{is_error, is_gone_on_in, meta, text};
use crate::mcp::client::Stdio;
use crate::mcp::processes::wait_until;
use serde_json::{Value, json};

/// Makes a call that the server gets, and whose answer the client does not wait for.
pub fn cancelled(shop: &Shop, client: &mut Stdio, tool: &str, arguments: &Value) {
    let before = shop.count(tool);
    shop.mood(&format!("hold {tool}"));
    let id = client.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
    wait_until("it is under way", || shop.count(tool) > before);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(&cancelled.to_string());
    shop.mood("");
}

/// The same for a reading, up to when it is kept: the server answers one call after the other.
fn lost(shop: &Shop, client: &mut Stdio, tool: &str, arguments: &Value) {
    cancelled(shop, client, tool, arguments);
    client.call("get_stock", &json!({"item": "rice"}));
}

/// Facts by `get_stock`, whose ids are another spelling of what the client sends, and writes that rest on them.
fn pact(facts: &str, more: &str) -> String {
    pact_after("0s", facts, more)
}

/// The same with writes that cool first.
fn pact_after(after: &str, facts: &str, more: &str) -> String {
    format!(
        r#"
pact = "shop"
version = 1
{facts}
[action.sell]
guard = "as-read"
{more}
resource = 'Stock::"{{item}}"'
allow = 'principal.standing == "active"'
call = {{ mcp = "shop", tool = "sell", on_error = "failed", after = "{after}" }}

[action.sell.params]
type = "object"
additionalProperties = false
required = ["item", "count"]
properties.item = {{ type = "string", maxLength = 16 }}
properties.count = {{ type = "integer", minimum = 1, maximum = 100 }}

[[action.sell.require]]
id = "some"
that = 'context.count >= 1'
"#
    )
}

/// Facts of a type, of which `get_stock` is the source.
fn facts(ty: &str) -> String {
    format!(
        r#"
[facts.{ty}]
attributes = {{ stock = "Long" }}
source = {{ mcp = "shop", tool = "get_stock", arguments = {{ item = "{{id}}" }}, at = "/structuredContent" }}

[observe.{ty}]
who = 'true'
attributes = ["stock"]
"#
    )
}

#[test]
fn a_session_that_is_gone_on_in_rests_on_nothing_that_a_lost_outcome_told() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    client.kill();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "rice"}));
    cancelled(&shop, &mut client, "sell", &json!({"item": "tea", "count": 3}));
    wait_until("it is over", || text(&client.call("get_stock", &json!({"item": "rice"}))).contains("Note: sell"));
    let refused = client.call("sell", &json!({"item": "tea", "count": 9}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "no one was told of the 7 that are left: {refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 7), "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}

#[test]
fn what_was_read_once_before_a_session_was_gone_on_in_is_unsure() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let read = client.call("get_stock", &json!({"item": "tea"}));
    let session = meta(&read)["session"].clone();
    let gone_on = shop.post(&gate, "/v1/sessions", &json!({"follows": session}));
    assert!(is_gone_on_in(&gone_on["session"], &session), "{gone_on}");
    assert_eq!(gone_on["unsure"].as_array().map(Vec::len), Some(1), "its call may still be under way: {gone_on}");
}

#[test]
fn a_fact_that_was_asked_for_in_another_spelling_and_never_arrived_does_not_count_as_read() {
    let shop = Shop::new();
    shop.publish(&pact(&facts("Stock"), ""));
    let mut client = shop.client();
    // What is null was not given, so the reading is kept without it.
    let spelled = json!({"item": "tea", "lines": null});
    let read = client.call("get_stock", &spelled);
    assert_eq!(meta(&read)["observed"], json!(["Stock::\"tea\""]), "{read}");
    shop.set("tea", 5);
    lost(&shop, &mut client, "get_stock", &spelled);
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 5), "the server never saw it");
    client.call("get_stock", &spelled);
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 3}))));
}

#[test]
fn an_answer_that_is_kept_once_for_each_type_of_fact_and_never_arrived_does_not_count_as_read() {
    let shop = Shop::new();
    shop.publish(&pact(&(facts("Stock") + &facts("Shelf")), ""));
    let mut client = shop.client();
    let read = client.call("get_stock", &json!({"item": "tea"}));
    assert_eq!(meta(&read)["observed"].as_array().map(Vec::len), Some(2), "{read}");
    shop.set("tea", 5);
    lost(&shop, &mut client, "get_stock", &json!({"item": "tea"}));
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 5), "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 3}))));
}

#[test]
fn what_must_have_been_read_has_to_have_arrived() {
    let shop = Shop::new();
    shop.publish(&pact(&facts("Stock"), r#"must_read = ["get_report"]"#));
    let mut client = shop.client();
    lost(&shop, &mut client, "get_report", &json!({"lines": 3}));
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_required", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    client.call("get_report", &json!({"lines": 3}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 3}))));
}

#[test]
fn a_write_that_comes_with_the_read_that_it_needs_comes_too_early() {
    let shop = Shop::new();
    shop.publish(&pact(&facts("Stock"), r#"must_read = ["get_stock"]"#));
    let mut client = shop.client();
    shop.mood("hold get_stock");
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let read = client.ask("tools/call", &call("get_stock", json!({"item": "tea", "lines": null})));
    let write = client.ask("tools/call", &call("sell", json!({"item": "tea", "count": 3})));
    shop.mood("");
    let mut refused = Value::Null;
    for _ in 0..2 {
        let answer = client.message();
        if answer["id"] == json!(write) {
            refused = answer["result"].clone();
        } else {
            assert_eq!(answer["id"], json!(read));
        }
    }
    assert_eq!(meta(&refused)["code"], "reading_required", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
}

#[test]
fn a_write_carries_what_its_agent_was_told_and_not_what_never_arrived() {
    let shop = Shop::new();
    shop.approve(&["shop/sell", "--rests-on", "carried"]);
    let mut client = shop.client();
    let read = client.call("get_report", &json!({"lines": 20}));
    assert!(text(&read).contains("line 7: 4\n"), "{read}");
    shop.set("tea", 3);
    lost(&shop, &mut client, "get_report", &json!({"lines": 20}));
    let refused = client.call("sell", &json!({"item": "salt", "count": 1, "note": "as by line 7: 4"}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "it carries what is no longer so: {refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    client.call("get_report", &json!({"lines": 20}));
    let sold = client.call("sell", &json!({"item": "salt", "count": 1, "note": "as by line 7: 3"}));
    assert!(!is_error(&sold), "{sold}");
}

#[test]
fn what_is_read_again_and_reads_the_same_does_not_spoil_a_write_that_waits() {
    let shop = Shop::new();
    shop.publish(&pact_after("3s", &facts("Stock"), ""));
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    let write = client.ask("tools/call", &json!({"name": "sell", "arguments": {"item": "tea", "count": 6}}));
    for _ in 0..3 {
        let read = client.ask("tools/call", &json!({"name": "get_stock", "arguments": {"item": "tea"}}));
        assert_eq!(client.message()["id"], json!(read), "the write still cools");
    }
    let answer = client.message();
    assert_eq!((&answer["id"], &meta(&answer["result"])["verdict"]), (&json!(write), &json!("settled")), "{answer}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 4));
}

/// Bytes that no one has read yet were sent too: whatever is in front of a write, it was sent without the answer to what is with it.
#[test]
fn a_write_that_is_sent_with_a_read_does_not_rest_on_it_however_much_is_between() {
    let shop = Shop::new();
    let mut client = shop.client();
    let asked = |id: u64, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    for (round, between) in [0, 50, 400].into_iter().enumerate() {
        let (before, now) = (50 + i64::try_from(round).unwrap(), 1000);
        shop.set("tea", before);
        client.call("get_stock", &json!({"item": "tea"}));
        shop.set("tea", now);
        let mut lines = vec![asked(1, "tools/call", json!({"name": "get_stock", "arguments": {"item": "tea"}}))];
        lines.extend(
            (0..between).map(|at| asked(10_000 + at, "tools/call", json!({"name": "nothing", "arguments": {}}))),
        );
        lines.push(asked(2, "tools/call", json!({"name": "sell", "arguments": {"item": "tea", "count": 1}})));
        client.send(&lines.join("\n"));
        let answer = client.answer(2);
        assert!(is_error(&answer["result"]), "{between}: {answer}");
        assert_eq!((shop.count("sell"), shop.stock("tea")), (0, now), "the server never saw it");
    }
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}
