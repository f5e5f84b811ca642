//! The guard in front of a server that is reached over HTTP, and that no one here can start, end or wait for.

use super::shop::Shop;
use super::{is_error, meta, text};
use crate::mcp::processes::wait_until;
use serde_json::json;
use std::time::{Duration, Instant};

/// Sales whose server has a second to answer.
const PACT: &str = r#"
pact = "selling"
version = 1

[facts.Stock]
attributes = { stock = "Long" }
source = { mcp = "shop", tool = "get_stock", arguments = { item = "{id}" }, at = "/structuredContent" }

[observe.Stock]
who = 'true'
attributes = "*"

[action.sell]
guard = "as-read"
resource = 'Stock::"{item}"'
allow = 'principal.standing == "active"'
call = { mcp = "shop", tool = "sell", timeout = "1s" }

[action.sell.params]
type = "object"
additionalProperties = false
required = ["item", "count"]
properties.item = { type = "string", maxLength = 16 }
properties.count = { type = "integer", minimum = 1, maximum = 100 }

[[action.sell.require]]
id = "some"
that = 'context.count >= 1'
"#;

#[test]
fn a_write_runs_if_what_was_read_reads_the_same_over_http() {
    let shop = Shop::over_http();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    client.request("resources/read", &json!({"uri": "shop://rice"}));
    let sold = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(
        (meta(&sold)["verdict"].as_str(), meta(&sold)["atomicity"].as_str()),
        (Some("settled"), Some("rechecked"))
    );
    assert_eq!(meta(&sold)["readings"]["rested_on"], 2, "{sold}");
    assert_eq!(shop.book(), ["get_stock", "get_stock", "sell", "get_stock"], "read, again, called, once more");
    assert!(text(&sold).contains("  /stock: 10 → 7"), "its own change is told: {sold}");
    let again = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(!is_error(&again), "and is no reason to refuse the next: {again}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (2, 4));
    client.end();
    assert!(shop.run_ok(&["audit", "--data", "data"]).contains("same"), "an audit decides the same");
}

#[test]
fn what_changed_behind_the_back_of_the_gateway_is_refused_over_http_and_the_same_call_then_succeeds() {
    let shop = Shop::over_http();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("rice", 1);
    assert!(!is_error(&client.call("sell", &json!({"item": "salt", "count": 1}))), "rice was never read");
    shop.set("tea", 2);
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert!(text(&refused).contains("get_stock {\"item\":\"tea\"}:\n  /stock: 10 → 2\n"), "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 2), "the server never saw it");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (2, 1));
}

#[test]
fn a_session_that_the_server_forgets_after_it_was_read_again_gets_no_call() {
    let shop = Shop::over_http();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("forget after get_stock");
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(is_error(&refused), "{refused}");
    assert_eq!(meta(&refused)["verdict"], "failed", "no one is in doubt of it: {refused}");
    assert_eq!((shop.count("get_stock"), shop.count("sell"), shop.stock("tea")), (2, 0, 10), "{refused}");
    shop.mood("");
    // Nothing keeps a turn for it, in this session or in another.
    let sold = shop.client_of(&gate).call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 1, "what it read over the other connection counts: {sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (2, 9));
}

#[test]
fn what_was_read_in_a_session_that_the_server_has_forgotten_is_read_again_in_the_next() {
    for changed in [false, true] {
        let shop = Shop::over_http();
        let mut client = shop.client();
        shop.mood("forget after get_stock");
        client.call("get_stock", &json!({"item": "tea"}));
        shop.mood("");
        if changed {
            shop.set("tea", 2);
        }
        let unread = client.call("sell", &json!({"item": "tea", "count": 1}));
        assert_eq!(meta(&unread)["code"], "reading_unread", "{unread}");
        assert_eq!(shop.count("sell"), 0, "the server never saw it");
        let next = client.call("sell", &json!({"item": "tea", "count": 1}));
        assert_eq!(is_error(&next), changed, "{next}");
        assert_eq!(meta(&next)["code"] == "reading_changed", changed, "{next}");
        assert_eq!(shop.count("sell"), usize::from(!changed));
    }
}

#[test]
fn a_call_that_the_server_takes_and_never_answers_keeps_its_turn_until_someone_knows_what_became_of_it() {
    let shop = Shop::over_http();
    let gate = shop.serve();
    let (mut one, mut other) = (shop.client_of(&gate), shop.client_of(&gate));
    one.call("get_stock", &json!({"item": "tea"}));
    shop.mood("hang up on sell");
    let lost = one.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&lost)["verdict"], "in_doubt", "{lost}");
    shop.mood("");
    let began = Instant::now();
    let refused = other.call("sell", &json!({"item": "rice", "count": 1}));
    assert_eq!(meta(&refused)["code"], "turn_held", "{refused}");
    assert!(began.elapsed() < Duration::from_secs(15), "it was kept waiting: {:?}", began.elapsed());
    let effect = meta(&lost)["effect"].as_str().unwrap().to_owned();
    assert!(text(&refused).contains(&format!("countersign effect resolve {effect} ")), "{refused}");
    let again = one.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&again)["error"]["code"], "in_doubt", "{again}");
    assert_eq!(shop.count("sell"), 1, "the server saw another call while it may still act on the first");
    shop.run_ok(&["effect", "resolve", &effect, "settled", "--reason", "it is in the books", "--server", gate.url()]);
    let sold = other.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert!(meta(&sold).get("beside").is_none(), "nothing is in doubt any more: {sold}");
    assert_eq!((shop.count("sell"), shop.stock("rice")), (2, 9));
    // The one who was in doubt is told what it changed.
    let changed = one.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&changed)["code"], "reading_changed", "{changed}");
}

#[test]
fn what_a_server_does_after_its_time_is_up_is_done_before_anyone_else_writes() {
    let shop = Shop::over_http();
    shop.publish(PACT);
    let gate = shop.serve();
    let (mut one, mut other) = (shop.client_of(&gate), shop.client_of(&gate));
    other.call("get_stock", &json!({"item": "tea"}));
    shop.mood("hold sell");
    let late = one.call("sell", &json!({"item": "tea", "count": 4}));
    assert_eq!(meta(&late)["verdict"], "in_doubt", "{late}");
    let refused = other.call("sell", &json!({"item": "rice", "count": 4}));
    assert_eq!(meta(&refused)["code"], "turn_held", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 10), "it is still at it");
    shop.mood("");
    wait_until("it is sold, late", || shop.stock("tea") == 6);
    let effect = meta(&late)["effect"].as_str().unwrap().to_owned();
    shop.run_ok(&["effect", "resolve", &effect, "settled", "--reason", "it is in the books", "--server", gate.url()]);
    let refused = other.call("sell", &json!({"item": "tea", "count": 8}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 6), "no one sold what was gone");
}
