//! Writes that would rest on what no one was told: answers of calls that never arrived, kept where their client does not look.

use super::shop::Shop;
use super::{is_error, meta, text};
use crate::mcp::client::Stdio;
use crate::mcp::processes::wait_until;
use serde_json::{Value, json};

/// Makes a call that the server gets, and whose answer the client does not wait for.
fn cancelled(shop: &Shop, client: &mut Stdio, tool: &str, arguments: &Value) {
    let before = shop.count(tool);
    shop.mood(&format!("hold {tool}"));
    let id = client.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
    wait_until("it is under way", || shop.count(tool) > before);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(&cancelled.to_string());
    shop.mood("");
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
    assert_eq!(gone_on["session"], session);
    assert_eq!(gone_on["unsure"].as_array().map(Vec::len), Some(1), "its call may still be under way: {gone_on}");
}
