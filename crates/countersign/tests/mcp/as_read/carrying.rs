//! Writes that rest only on readings whose values they carry.

use super::shop::Shop;
use super::{is_error, meta};
use serde_json::json;

#[test]
fn a_write_that_rests_on_what_it_carries_is_not_refused_for_anything_else() {
    let shop = Shop::new();
    shop.approve(&["shop/sell", "--rests-on", "carried"]);
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    client.call("get_stock", &json!({"item": "rice"}));
    shop.set("rice", 3);
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 1, "the one that was asked by the same item: {sold}");
    let refused = client.call("sell", &json!({"item": "salt", "count": 1, "note": "as for Rice", "for": "rice"}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "it carries what the other was asked by: {refused}");
    assert_eq!(shop.count("sell"), 1, "the server never saw it");
    client.end();
    shop.approve(&["shop/sell", "--rests-on", "all"]);
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    client.call("get_stock", &json!({"item": "rice"}));
    shop.set("rice", 2);
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "unless told, it rests on everything: {refused}");
}
