//! Early warning: whoever holds what reads differently by now is told with the next result, whatever that is the result of.

use super::shop::Shop;
use super::{is_error, meta, text};
use serde_json::{Value, json};

/// Facts by `get_stock`, and sales that need the report to have been read.
const PACT: &str = r#"
pact = "shop"
version = 1

[facts.Stock]
attributes = { stock = "Long" }
source = { mcp = "shop", tool = "get_stock", arguments = { item = "{id}" }, at = "/structuredContent" }

[observe.Stock]
who = 'true'
attributes = ["stock"]

[action.sell]
guard = "as-read"
must_read = ["get_report"]
resource = 'Stock::"{item}"'
allow = 'principal.standing == "active"'
call = { mcp = "shop", tool = "sell", on_error = "failed" }

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

fn is_warned(result: &Value) -> bool {
    text(result).contains("Note: get_stock with {\"item\":\"tea\"} answers differently since")
}

#[test]
fn each_session_of_single_requests_is_warned() {
    let shop = Shop::new();
    let gateway = shop.listen();
    let mut single = shop.single(&gateway);
    let mut session =
        || json!({"countersign": {"session": meta(&single.call("get_stock", &json!({"item": "tea"})))["session"]}});
    let sessions = [session(), session()];
    let mut other = shop.http(&gateway);
    other.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&other.call("sell", &json!({"item": "tea", "count": 4}))));
    for of in &sessions {
        let read = single.call_with("get_stock", &json!({"item": "rice"}), of);
        assert!(is_warned(&read), "{of}: {read}");
        let again = single.call_with("get_stock", &json!({"item": "salt"}), of);
        assert!(!is_warned(&again), "once is enough: {again}");
    }
}

#[test]
fn a_warning_comes_with_facts_and_with_refusals_and_a_resource_says_what_is_outdated() {
    let shop = Shop::new();
    shop.publish(PACT);
    let gateway = shop.listen();
    let mut readers = [shop.http(&gateway), shop.http(&gateway), shop.http(&gateway)];
    for reader in &mut readers {
        reader.call("get_stock", &json!({"item": "tea"}));
    }
    let mut other = shop.http(&gateway);
    other.call("get_report", &json!({"lines": 1}));
    assert!(!is_error(&other.call("sell", &json!({"item": "tea", "count": 4}))));
    other.call("get_stock", &json!({"item": "tea"}));
    let [by_fact, by_refusal, by_resource] = &mut readers;
    let fact = by_fact.call("get_stock", &json!({"item": "rice"}));
    assert_eq!(meta(&fact)["observed"], json!(["Stock::\"rice\""]), "{fact}");
    assert!(is_warned(&fact), "{fact}");
    let refused = by_refusal.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_required", "{refused}");
    assert!(is_warned(&refused), "{refused}");
    let resource = by_resource.request("resources/read", &json!({"uri": "shop://salt"}));
    let outdated = &resource["_meta"]["countersign"]["outdated"];
    assert_eq!(outdated[0]["arguments"], "{\"item\":\"tea\"}", "{resource}");
    assert!(
        is_warned(&by_resource.call("get_stock", &json!({"item": "salt"}))),
        "and the next result says it in words"
    );
}

#[test]
fn a_warning_comes_with_what_is_passed_on() {
    let shop = Shop::new();
    let tool = shop.run_ok(&["fact", "get", "McpTool", "shop/total", "--data", "data", "--json"]);
    let mut value = serde_json::from_str::<Value>(&tool).unwrap()["value"].clone();
    value.as_object_mut().unwrap().remove("guard").unwrap();
    value["read_only"] = json!(true);
    shop.run_ok(&["fact", "put", "McpTool", "shop/total", &value.to_string(), "--data", "data"]);
    let gateway = shop.listen();
    let (mut one, mut other) = (shop.http(&gateway), shop.http(&gateway));
    one.call("get_stock", &json!({"item": "tea"}));
    other.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&other.call("sell", &json!({"item": "tea", "count": 4}))));
    let passed = one.call("total", &json!({}));
    assert_eq!(passed["structuredContent"], json!({"total": 26}), "{passed}");
    assert!(is_warned(&passed), "{passed}");
}

/// No write of anyone has made the change, and values are for those who read them.
#[test]
fn whoever_finds_a_change_has_all_others_warned_without_a_value_and_without_a_call() {
    for (agent, writes) in [("coder-1", false), ("coder-1", true), ("coder-2", false), ("coder-2", true)] {
        let shop = Shop::new();
        let value = r#"{"roles":[],"standing":"active","org":"acme","trust":700}"#;
        shop.run_ok(&["fact", "put", "Agent", "coder-2", value, "--data", "data"]);
        let gate = shop.serve();
        let (gateway, another) = (shop.listen_of(&gate), shop.listen_as(agent, &gate));
        let (mut one, mut other) = (shop.http(&gateway), shop.http(&another));
        let (before, after) = (987_654_321, 123_456_789);
        shop.set("tea", before);
        one.call("get_stock", &json!({"item": "tea"}));
        if writes {
            other.call("get_stock", &json!({"item": "tea"}));
        }
        shop.set("tea", after);
        let unaware = one.call("get_stock", &json!({"item": "rice"}));
        assert!(!is_warned(&unaware), "no one has seen it: {unaware}");
        if writes {
            let refused = other.call("sell", &json!({"item": "rice", "count": 1}));
            assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
        } else {
            other.call("get_stock", &json!({"item": "tea"}));
        }
        let book = shop.book().len();
        let warned = one.call("get_stock", &json!({"item": "salt"}));
        assert!(is_warned(&warned), "{agent} {writes}: {warned}");
        assert_eq!(shop.book().len(), book + 1, "the call itself, and none for the warning: {:?}", shop.book());
        let said = text(&warned);
        let line = said.lines().find(|line| line.starts_with("Note: ")).unwrap();
        assert!(!line.contains("eff_"), "no write of anyone was it: {line}");
        for value in [before, after].map(|value: i64| value.to_string()) {
            assert!(!line.contains(&value), "{value}: {line}");
            let outdated = meta(&warned)["outdated"].to_string();
            assert!(!outdated.contains(&value), "{value}: {outdated}");
        }
        assert!(!is_warned(&one.call("get_stock", &json!({"item": "salt"}))), "once is enough");
    }
}
