//! Servers that are sloppy or hostile, and arguments and resources that are unusual.

use super::shop::Shop;
use super::{is_error, meta, text};
use crate::mcp::client::Stdio;
use serde_json::{Value, json};

/// Calls a tool with arguments that are sent as they are written.
fn call(client: &mut Stdio, tool: &str, arguments: &str) -> Value {
    let id = client.ask("ping", &json!({}));
    client.answer(id);
    client.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"raw","method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    ));
    loop {
        let message = client.message();
        if message["id"] == "raw" {
            return message["result"].clone();
        }
    }
}

#[test]
fn numbers_reach_the_server_with_all_their_digits_and_two_that_differ_are_two_readings() {
    let shop = Shop::new();
    let mut client = shop.client();
    let (one, other) = ("9007199254740993", "9007199254740992");
    let asked = |at: &str| format!(r#"{{"item":"tea","at":{at}}}"#);
    call(&mut client, "get_stock", &asked(one));
    call(&mut client, "get_stock", &asked(other));
    let sold = call(
        &mut client,
        "sell",
        r#"{"item":"rice","count":1,"ref":123456789012345678901234567890,"rate":0.12345678901234567890}"#,
    );
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 2, "{sold}");
    let sent = shop.sent();
    for digits in [
        r#""at":9007199254740993"#,
        r#""at":9007199254740992"#,
        "123456789012345678901234567890",
        "0.12345678901234567890",
    ] {
        assert!(sent.contains(digits), "{digits}: {sent}");
    }
    assert_eq!(sent.matches(r#""at":9007199254740993"#).count(), 3, "read, read again, and once more: {sent}");
    shop.set("tea", 2);
    let refused = call(&mut client, "sell", r#"{"item":"rice","count":1}"#);
    assert!(text(&refused).contains(r#"get_stock {"at":9007199254740993,"item":"tea"}"#), "{}", text(&refused));
    // What could be read in two ways, or sent as another value, is not sent.
    for arguments in [r#"{"item":"rice","item":"tea","count":1}"#, r#"{"item":"rice","count":{"$decimal":"1"}}"#] {
        let before = shop.count("sell");
        assert!(is_error(&call(&mut client, "sell", arguments)), "{arguments}");
        assert_eq!(shop.count("sell"), before, "{arguments}");
    }
}

#[test]
fn a_resource_that_was_not_there_is_a_reading() {
    let shop = Shop::new();
    let mut client = shop.client();
    let absent = client.request("resources/read", &json!({"uri": "shop://gold"}));
    assert_eq!(absent["error"]["code"], -32002, "{absent}");
    assert!(absent["error"]["data"]["countersign"]["session"].is_string(), "{absent}");
    let sold = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert_eq!(meta(&sold)["readings"]["rested_on"], 1, "it still is not there: {sold}");
    shop.set("gold", 5);
    let refused = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 1);
    let again = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&again), "what changed was told: {again}");
}

#[test]
fn a_text_that_always_differs_locks_no_one_out() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_time", &json!({}));
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(text(&refused).contains("get_time differs whenever it is read. An operator can"), "{}", text(&refused));
    assert!(text(&refused).contains("countersign mcp approve shop/get_time --guard none"), "{}", text(&refused));
    assert!(text(&refused).contains("Reconnect"), "{}", text(&refused));
    client.end();
    shop.approve(&["shop/get_time", "--guard", "none"]);
    let mut client = shop.client();
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(shop.count("sell"), 1);
}

#[test]
fn a_server_that_answers_everything_with_an_error_locks_no_one_out_later() {
    let shop = Shop::new();
    let mut client = shop.client();
    shop.mood("refuse all");
    assert!(is_error(&client.call("get_stock", &json!({"item": "tea"}))));
    let failed = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&failed)["verdict"], "failed", "{failed}");
    shop.mood("");
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.stock("tea"), 10, "nothing was sold");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
}
