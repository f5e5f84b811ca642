//! Answers that do not reach their client: what was in them does not count, and what became of a write is told later.

use super::shop::Shop;
use super::{is_error, meta, text};
use crate::mcp::processes::wait_until;
use serde_json::json;

#[test]
fn a_read_that_fails_does_not_stand_for_the_answer_that_was_lost_before_it() {
    let shop = Shop::new();
    let mut client = shop.trial(&[]);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    shop.mood("hold get_stock");
    let id = client.ask("tools/call", &json!({"name": "get_stock", "arguments": {"item": "tea"}}));
    wait_until("it is being read", || shop.count("get_stock") == 2);
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string());
    shop.mood("");
    client.call("get_stock", &json!({"item": "rice"}));
    shop.mood("die on get_stock");
    let unread = client.call("get_stock", &json!({"item": "tea"}));
    assert!(is_error(&unread), "{unread}");
    shop.mood("");
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
}

#[test]
fn what_is_read_while_a_write_waits_for_a_list_of_tools_does_not_count_for_it() {
    let shop = Shop::of_two_names();
    let mut client = shop.client();
    client.call("shop__get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    // The gateway asks the other server for its tools before it knows what is called.
    shop.mood("hold list");
    let write = client.ask("tools/call", &json!({"name": "other__sell", "arguments": {"item": "tea", "count": 1}}));
    let read = client.ask("tools/call", &json!({"name": "shop__get_stock", "arguments": {"item": "tea"}}));
    // It has all the time to overtake the write, if it can.
    for _ in 0..100 {
        if shop.count("get_stock") > 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    shop.mood("");
    let mut answers = Vec::new();
    while answers.len() < 2 {
        answers.push(client.message());
        answers.retain(|message| message.get("method").is_none());
    }
    let answer = |id: u64| &answers.iter().find(|answer| answer["id"] == id).unwrap()["result"];
    assert_eq!(meta(answer(write))["code"], "reading_changed", "it was decided on ten: {}", answer(write));
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    assert!(!is_error(answer(read)), "{}", answer(read));
}

#[test]
fn what_became_of_a_write_that_its_client_cancelled_is_told_with_the_next_answer() {
    let shop = Shop::new();
    let mut client = shop.trial(&[]);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("hold sell");
    let id = client.ask("tools/call", &json!({"name": "sell", "arguments": {"item": "tea", "count": 3}}));
    wait_until("it is made", || shop.count("sell") == 1);
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string());
    shop.mood("");
    let mut said = String::new();
    wait_until("it is over", || {
        said = text(&client.call("get_stock", &json!({"item": "rice"})));
        said.contains("Note: sell")
    });
    assert!(
        said.contains(r#"Note: sell {"item":"tea","count":3}, whose answer did not reach you, was carried out (eff_"#)
    );
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "what it changed was not told: {refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 7));
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}

#[test]
fn what_a_write_changed_is_told_also_where_its_server_answers_with_an_error() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("fail after sell");
    let failed = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(is_error(&failed), "{failed}");
    assert!(text(&failed).contains("  /stock: 10 → 7"), "{}", text(&failed));
    shop.mood("");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "it was told: {sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (2, 6));
}

#[test]
fn what_a_call_that_was_left_open_changed_is_told_when_it_is_asked_for() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("hold sell");
    let open = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&open)["verdict"], "in_flight", "{open}");
    shop.mood("");
    let asked = json!({"continuation": meta(&open)["continuation"], "wait_ms": 5000});
    let mut done = client.call("countersign_continue", &asked);
    wait_until("it is over", || {
        if meta(&done)["verdict"] == "in_flight" {
            done = client.call("countersign_continue", &asked);
        }
        meta(&done)["verdict"] != "in_flight"
    });
    assert!(text(&done).contains("sold, 7 left") && text(&done).contains("  /stock: 10 → 7"), "{done}");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "it was told: {sold}");
}

#[test]
fn what_a_call_that_was_left_open_changed_does_not_count_if_no_one_asks_for_it() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("hold sell");
    let open = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&open)["verdict"], "in_flight", "{open}");
    // What is read while it goes on says nothing of what comes of it.
    shop.mood("");
    wait_until("it is over", || {
        text(&client.call("get_stock", &json!({"item": "rice"})))
            .contains("Note: a call, whose answer did not reach you, was carried out")
    });
    let refused = client.call("sell", &json!({"item": "tea", "count": 9}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 7));
}

#[test]
fn what_one_single_request_was_told_says_nothing_of_another_session() {
    let shop = Shop::new();
    let gateway = shop.listen();
    let (mut one, mut other) = (shop.single(&gateway), shop.single(&gateway));
    let read = one.call("get_stock", &json!({"item": "tea"}));
    let of = |read: &serde_json::Value| json!({"countersign": {"session": meta(read)["session"]}});
    shop.set("tea", 2);
    shop.mood("hold get_stock");
    one.ask_and_leave("get_stock", &json!({"item": "tea"}), &of(&read), || {
        wait_until("it is being read", || shop.count("get_stock") == 2);
    });
    shop.mood("");
    other.call("get_stock", &json!({"item": "tea"}));
    let refused = one.call_with("sell", &json!({"item": "tea", "count": 3}), &of(&read));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
}

#[test]
fn an_answer_that_was_on_its_way_when_the_gateway_was_killed_does_not_count() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    shop.mood("hold get_stock");
    client.ask("tools/call", &json!({"name": "get_stock", "arguments": {"item": "tea"}}));
    wait_until("it is being read", || shop.count("get_stock") == 2);
    client.kill();
    shop.mood("");
    let kept =
        || shop.run_ok(&["ledger", "list", "--kind", "reading", "--json", "--server", gate.url()]).lines().count();
    wait_until("it is kept", || kept() == 2);
    let mut next = shop.client_of(&gate);
    let refused = next.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    next.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&next.call("sell", &json!({"item": "tea", "count": 1}))));
}
