//! Turns that others have: who is told, what it says, and what a write says that ran beside a doubt.

use super::shop::Shop;
use super::{is_error, meta, text};
use crate::mcp::processes::wait_until;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn a_write_beside_a_call_in_doubt_says_so_until_someone_knows_what_became_of_that() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    shop.mood("die on sell");
    let lost = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&lost)["verdict"], "in_doubt", "{lost}");
    shop.mood("");
    // Its server has ended with it, so its turn is free.
    let sold = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["beside"], json!([meta(&lost)["effect"]]), "{sold}");
    assert_eq!(meta(&sold)["atomicity"], "rechecked", "{sold}");
    let effect = meta(&lost)["effect"].as_str().unwrap().to_owned();
    shop.run_ok(&["effect", "resolve", &effect, "failed", "--reason", "the books say so", "--server", gate.url()]);
    let again = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&again), "{again}");
    assert!(meta(&again).get("beside").is_none(), "{again}");
    assert_eq!((shop.stock("tea"), shop.stock("rice")), (10, 8));
}

#[test]
fn after_a_restart_the_first_write_is_told_at_once_whose_turn_it_is_and_what_to_do() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    shop.mood("hold sell");
    client.ask("tools/call", &json!({"name": "sell", "arguments": {"item": "tea", "count": 1}}));
    wait_until("it is being sold", || shop.count("sell") == 1);
    drop(gate);
    client.kill();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let began = Instant::now();
    let refused = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(began.elapsed() < Duration::from_secs(15), "it was kept waiting: {:?}", began.elapsed());
    assert_eq!(meta(&refused)["code"], "turn_held", "{refused}");
    assert_eq!(meta(&refused)["retry"]["how"], "later", "{refused}");
    let said = text(&refused);
    let effect =
        said.split("countersign effect resolve ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    assert!(said.contains(&format!("{effect} has held `shop` since ")), "{said}");
    assert_eq!(shop.count("sell"), 1, "the server never saw it");
    shop.run_ok(&["effect", "resolve", effect, "settled", "--reason", "it is in the books", "--server", gate.url()]);
    shop.mood("");
    let sold = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!((shop.count("sell"), shop.stock("rice")), (2, 9));
}

#[test]
fn a_verdict_says_what_counted_what_reading_it_again_cost_and_which_window_was_left() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    let counted = json!([{"upstream": "shop", "tool": "get_stock", "arguments": "{\"item\":\"tea\"}"}]);
    assert_eq!(meta(&sold)["readings"]["counted"], counted, "{sold}");
    let reread = meta(&sold)["readings"]["reread_ms"].as_u64().unwrap();
    let window = meta(&sold)["evidence"]["window_ms"].as_u64().unwrap();
    assert!(window >= reread, "the window begins with reading again: {reread} {window}");
    let metrics = shop.get(&gate, "/metrics");
    assert!(metrics.contains("countersign_window_ms_count{upstream=\"shop\"} 1"), "{metrics}");
    assert!(metrics.contains(&format!("countersign_window_ms_max{{upstream=\"shop\"}} {window}")), "{metrics}");
}

#[test]
fn a_call_that_is_answered_and_not_over_keeps_its_turn() {
    for mood in ["promise sell", "ask on sell"] {
        let shop = Shop::new();
        let gate = shop.serve();
        let (mut one, mut other) = (shop.client_of(&gate), shop.client_of(&gate));
        shop.mood(mood);
        let promised = one.call("sell", &json!({"item": "tea", "count": 1}));
        assert_eq!(meta(&promised)["verdict"], "in_doubt", "{mood}: {promised}");
        shop.mood("");
        let refused = other.call("sell", &json!({"item": "rice", "count": 1}));
        assert_eq!(shop.count("sell"), 1, "{mood}: the server saw another call while it may still act on the first");
        assert_eq!(meta(&refused)["code"], "turn_held", "{mood}: {refused}");
        let effect = meta(&promised)["effect"].as_str().unwrap().to_owned();
        assert!(text(&refused).contains(&effect), "{mood}: {refused}");
        shop.run_ok(&["effect", "resolve", &effect, "failed", "--reason", "it never did", "--server", gate.url()]);
        let sold = other.call("sell", &json!({"item": "rice", "count": 1}));
        assert!(!is_error(&sold), "{mood}: {sold}");
        assert_eq!((shop.count("sell"), shop.stock("rice")), (2, 9), "{mood}");
    }
}

#[test]
fn what_may_change_something_at_a_guarded_server_does_not_go_past_the_turns() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let asked = client.request("tasks/get", &json!({"taskId": "t-1"}));
    assert_eq!(asked["result"]["taskId"], "t-1", "what only reads goes on: {asked}");
    for method in ["tasks/cancel", "tasks/update"] {
        let refused = client.request(method, &json!({"taskId": "t-1"}));
        let said = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {refused}"));
        assert!(
            said.contains(&format!("`shop` is guarded as read, and {method} may change something there")),
            "{said}"
        );
        assert_eq!(refused["error"]["data"]["countersign"]["retry"]["how"], "never", "{refused}");
    }
    assert_eq!(shop.book(), ["tasks/get"], "the server never saw them");
    // Where no tool of the server is guarded, nothing rests on it.
    shop.run_ok(&["fact", "put", "McpServer", "shop", r#"{"uses": true}"#, "--server", gate.url()]);
    let cancelled = client.request("tasks/cancel", &json!({"taskId": "t-1"}));
    assert!(cancelled["error"].is_null(), "{cancelled}");
    assert_eq!(shop.count("tasks/cancel"), 1);
}

#[test]
fn an_operator_is_told_what_the_guard_excludes_when_approving_it() {
    let shop = Shop::new();
    for said in [
        "shop: the gate makes every call of these tools, over one connection that all agents share",
        "what a client sets up in its own session with the server (a login, a folder) does not count for them",
        "questions that the server asks while it carries out a call are not passed on",
        "tasks/cancel, tasks/update and answers to its questions are refused",
    ] {
        assert!(shop.approval.contains(said), "{said}: {}", shop.approval);
    }
    let again = shop.approve(&["--guard", "as-read"]);
    assert!(!again.contains("over one connection"), "once is enough: {again}");
}

#[test]
fn a_verdict_names_the_tools_whose_answers_were_not_compared() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    let first = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(meta(&first)["readings"].get("not_rechecked").is_none(), "nothing else was told before: {first}");
    let second = client.call("burn", &json!({"item": "rice", "count": 1}));
    let sell = json!({"upstream": "shop", "tool": "sell"});
    assert_eq!(meta(&second)["readings"]["not_rechecked"], json!([sell]), "{second}");
    client.call("sell", &json!({"item": "salt", "count": 1}));
    let third = client.call("sell", &json!({"item": "salt", "count": 1}));
    let burn = json!({"upstream": "shop", "tool": "burn"});
    assert_eq!(meta(&third)["readings"]["not_rechecked"], json!([sell, burn]), "each once: {third}");
    assert_eq!(shop.count("sell"), 3, "and none was made to compare it");
    client.end();
    assert!(shop.run_ok(&["audit", "--data", "data"]).contains("same"), "an audit decides the same");
}

#[test]
fn a_call_in_doubt_is_not_made_again_by_the_client_that_made_it() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("die on sell");
    let lost = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&lost)["verdict"], "in_doubt", "{lost}");
    shop.mood("");
    for _ in 0..3 {
        let refused = client.call("sell", &json!({"count": 1, "item": "tea"}));
        assert_eq!(meta(&refused)["error"]["code"], "in_doubt", "{refused}");
        assert_eq!(meta(&refused)["retry"]["how"], "never", "{refused}");
        let effect = meta(&lost)["effect"].as_str().unwrap();
        assert!(text(&refused).contains(&format!("countersign effect resolve {effect} ")), "{refused}");
    }
    assert_eq!(shop.count("sell"), 1, "the server saw the first and no other");
    let effect = meta(&lost)["effect"].as_str().unwrap().to_owned();
    shop.run_ok(&["effect", "resolve", &effect, "failed", "--reason", "the books say so", "--server", gate.url()]);
    client.call("get_stock", &json!({"item": "tea"}));
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(shop.count("sell"), 2);
}
