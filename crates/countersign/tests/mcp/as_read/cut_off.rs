//! A gateway over standard input that ends, and the one that is started after it: what the new one has seen itself counts, what the old
//! one saw does where it was cut off, and no change is claimed that no one has seen.

use super::shop::Shop;
use super::{is_error, meta, text};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long a gateway may take that has nothing to do. Its servers end when their input is closed.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn what_is_read_after_a_restart_counts_at_once() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    client.call("get_stock", &json!({"item": "tea"}));
    client.kill();
    let mut next = shop.client_of(&gate);
    next.call("get_stock", &json!({"item": "tea"}));
    let sold = next.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "nothing has changed, and it has read it: {sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 9));
    next.kill();
    // What changed is refused all the same, whoever read it.
    let mut last = shop.client_of(&gate);
    last.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    let refused = last.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert!(text(&refused).contains("  /stock: 9 → 2"), "what it was shown itself is told: {refused}");
    assert_eq!(shop.count("sell"), 1, "the server never saw it");
}

#[test]
fn of_what_may_not_have_arrived_no_change_is_claimed() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
    client.kill();
    let mut next = shop.client_of(&gate);
    let refused = next.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(is_error(&refused), "it goes on in the session of the one before: {refused}");
    let said = text(&refused);
    assert!(!said.contains("differently") && !said.contains('→'), "nothing has changed: {said}");
    assert!(said.contains("is not known") && said.contains("get_stock"), "{said}");
    assert_eq!(meta(&refused)["retry"]["calls"][0]["tool"], "get_stock", "{refused}");
    assert_eq!(shop.count("sell"), 1, "the server never saw it");
    next.call("get_stock", &json!({"item": "tea"}));
    let sold = next.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(shop.count("sell"), 2);
}

#[test]
fn a_gateway_that_is_told_to_end_ends_at_once_and_its_session_is_gone_on_in() {
    let shop = Shop::new();
    let gate = shop.serve();
    for (signal, left) in [("-TERM", 7), ("-INT", 5)] {
        let mut client = shop.client_of(&gate);
        client.call("get_stock", &json!({"item": "tea"}));
        let began = Instant::now();
        let told = std::process::Command::new("kill").args([signal, &client.pid().to_string()]).status().unwrap();
        assert!(told.success());
        client.wait();
        assert!(began.elapsed() < ENDS_WITHIN, "{signal}: {:?}", began.elapsed());
        // Its client never said that it is done, and may go on with what it has read.
        shop.set("tea", left);
        let mut next = shop.client_of(&gate);
        let refused = next.call("sell", &json!({"item": "tea", "count": 1}));
        assert!(is_error(&refused), "{signal}: {refused}");
        assert_eq!(meta(&refused)["retry"]["calls"][0]["tool"], "get_stock", "{signal}: {refused}");
        next.end();
    }
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
}
