//! Refusals are short, and say how to get the rest.

use super::shop::Shop;
use super::{is_error, meta, text};
use serde_json::json;

/// The most that a refusal says unless it is asked for more.
const TEXT_BYTES_MAX: usize = 2048;
/// More than can be told at once.
const ITEMS: i64 = 60;

#[test]
fn a_refusal_is_short_whatever_its_tool_promises_and_tells_more_when_asked() {
    is_short_and_tells_more("");
    is_short_and_tells_more("promising");
}

fn is_short_and_tells_more(mood: &str) {
    let shop = Shop::new();
    shop.mood(mood);
    shop.approve(&["--guard", "as-read"]);
    let mut client = shop.client();
    let name = |at: i64| format!("item-{at:02}-with-a-name-that-takes-some-room");
    for at in 0..ITEMS {
        shop.set(&name(at), 10);
        client.call("get_stock", &json!({"item": name(at)}));
    }
    (0..ITEMS).for_each(|at| shop.set(&name(at), 100 + at));
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(refused.get("structuredContent"), None, "a model would be shown all of it, and no text");
    let said: usize = refused["content"].as_array().unwrap().iter().map(|it| it["text"].as_str().unwrap().len()).sum();
    assert!(said <= TEXT_BYTES_MAX, "{said}");
    let calls = meta(&refused)["retry"]["calls"].as_array().unwrap();
    let last = calls.last().unwrap()["arguments"]["item"].as_str().unwrap();
    assert!(!text(&refused).contains(last), "the case is one in which it does not say everything: {refused}");
    // All of it, on request.
    let more = meta(&refused)["more"].clone();
    assert!(text(&refused).contains(more.as_str().unwrap()), "{refused}");
    let all = client.call("countersign_continue", &json!({"continuation": more, "more": true}));
    assert!(is_error(&all), "it was not done: {all}");
    for call in calls {
        assert!(text(&all).contains(call["arguments"]["item"].as_str().unwrap()), "{call}: {all}");
    }
    assert_eq!(shop.count("sell"), 0);
}
