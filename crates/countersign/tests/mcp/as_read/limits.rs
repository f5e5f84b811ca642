//! What is too much, or never comes back: the agent is told what to do about it, and nothing runs meanwhile.

use super::shop::Shop;
use super::{is_error, meta, text};
use serde_json::{Value, json};

/// As many readings as a session keeps.
const KEPT: usize = 200;

fn code(result: &Value) -> &Value {
    match &meta(result)["error"]["code"] {
        Value::Null => &meta(result)["code"],
        code => code,
    }
}

#[test]
fn a_reading_beyond_what_a_session_keeps_is_still_answered_and_no_write_rests_on_less() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    for at in 0..KEPT {
        let read = client.call("get_stock", &json!({"item": "tea", "at": at}));
        assert!(!is_error(&read), "{at}: {read}");
        assert!(!text(&read).contains("begin a new session"), "{at}: {read}");
    }
    let sold = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert_eq!(meta(&sold)["readings"]["rested_on"], KEPT, "{sold}");
    for at in [KEPT, KEPT + 1] {
        let beyond = client.call("get_stock", &json!({"item": "tea", "at": at}));
        assert!(!is_error(&beyond), "{beyond}");
        assert_eq!(beyond["structuredContent"], json!({"item": "tea", "stock": 10}), "{beyond}");
        assert!(text(&beyond).contains("begin a new session before you change anything"), "{beyond}");
    }
    let known = client.call("get_stock", &json!({"item": "tea", "at": 7}));
    assert!(!text(&known).contains("begin a new session"), "what it keeps is kept anew: {known}");
    let refused = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(is_error(&refused), "{refused}");
    assert_eq!(code(&refused), "too_many_readings", "{refused}");
    assert_eq!(meta(&refused)["retry"]["how"], "change", "{refused}");
    assert!(text(&refused).contains("Begin a new session"), "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("rice")), (1, 9), "the server never saw it");
    client.end();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "rice"}));
    let sold = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert_eq!(meta(&sold)["readings"]["rested_on"], 1, "{sold}");
    assert_eq!(shop.count("sell"), 2);
    client.end();
    gate.end();
    assert!(shop.run_ok(&["audit", "--data", "data"]).contains("same"), "an audit decides the same");
}

#[test]
fn arguments_that_fit_no_entry_are_refused_with_what_fits_and_the_server_never_sees_them() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let with = |note: String| json!({"item": "tea", "count": 1, "note": note});
    // Many of these need more room than they have characters.
    for long in ["x".repeat(200_001), "x".repeat(300_000), "\"\n".repeat(66_000)] {
        let refused = client.call("sell", &with(long));
        assert!(is_error(&refused), "{refused}");
        assert_eq!(code(&refused), "arguments_too_long", "{refused}");
        assert_eq!(meta(&refused)["retry"]["how"], "change", "{refused}");
        let said = text(&refused);
        assert!(said.contains("200,000 characters") && said.contains("in parts"), "{said}");
    }
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 10));
    let sold = client.call("sell", &with("x".repeat(199_000)));
    assert!(!is_error(&sold), "{}", text(&sold));
    assert!(shop.sent().contains(&"x".repeat(199_000)), "all of it");
    assert_eq!(shop.count("sell"), 1);
}

#[test]
fn a_server_that_is_gone_for_good_is_left_behind_with_its_session() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("die on get_stock");
    for _ in 0..2 {
        let refused = client.call("sell", &json!({"item": "rice", "count": 1}));
        assert_eq!(code(&refused), "reading_unread", "{refused}");
        assert!(text(&refused).contains("begin a new session"), "{refused}");
    }
    assert_eq!(shop.count("sell"), 0);
    client.end();
    let mut client = shop.client_of(&gate);
    let sold = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!((shop.count("sell"), shop.stock("rice")), (1, 9));
}

#[test]
fn attack_a_halt_of_the_gateways_pact_stops_what_is_read_in_sessions_too() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    let (server, scope) = (["--server", gate.url()], ["--pact", "mcp-calls", "--reason", "stop"]);
    shop.run_ok(&[&["halt", "add"][..], &scope, &server].concat());
    std::fs::write(shop.folder().join("book"), "").unwrap();
    shop.mood("watched");
    let read = client.call("get_stock", &json!({"item": "rice"}));
    assert!(is_error(&read) && read.to_string().contains("`pact:mcp-calls` is halted"), "{read}");
    let resource = client.request("resources/read", &json!({"uri": "shop://tea"}));
    assert!(resource["result"].is_null(), "{resource}");
    assert_eq!(shop.book(), [""; 0], "the server saw nothing");
    shop.run_ok(&[&["halt", "lift"][..], &scope, &server].concat());
    assert!(!is_error(&client.call("get_stock", &json!({"item": "rice"}))));
}
