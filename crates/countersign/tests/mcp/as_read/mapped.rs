//! Tools that a pact maps with the guard, and tools that it reads facts by: what the server saw is what counts here too.

use super::shop::Shop;
use super::{is_error, meta, text};
use crate::mcp::processes::wait_until;
use serde_json::json;

/// Reads facts by `get_stock`, and sells only what is there.
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
id = "enough-is-there"
that = 'resource.stock >= context.count'
"#;

fn shop() -> Shop {
    let shop = Shop::new();
    shop.publish(PACT);
    shop
}

#[test]
fn a_mapped_write_rests_on_what_was_read_by_tools_that_read_facts_and_by_others() {
    let shop = shop();
    let mut client = shop.client();
    let read = client.call("get_stock", &json!({"item": "tea"}));
    assert_eq!(read["structuredContent"]["stock"], 10, "{read}");
    assert_eq!(meta(&read)["observed"], json!(["Stock::\"tea\""]), "it is shown as a fact, too: {read}");
    client.call("get_report", &json!({"lines": 3}));
    let sold = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["verdict"], "settled", "{sold}");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 2, "{sold}");
    let said = text(&sold);
    assert!(said.starts_with("sold, 7 left\n"), "its own answer comes first: {said}");
    assert!(said.contains("get_stock {\"item\":\"tea\"}:\n  /stock: 10 → 7"), "its own change is told: {said}");
    let again = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&again), "its own change refuses nothing: {again}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (2, 6));
}

#[test]
fn a_mapped_write_is_refused_with_the_difference_and_the_same_call_then_succeeds() {
    let shop = shop();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 5);
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(meta(&refused)["retry"], json!({"how": "again"}), "{refused}");
    assert!(text(&refused).contains("get_stock {\"item\":\"tea\"}:\n  /stock: 10 → 5\n"), "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    let sold = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 2));
}

#[test]
fn what_the_pact_asks_for_holds_beside_the_guard_and_an_audit_decides_both_again() {
    let shop = shop();
    let mut client = shop.client();
    let refused = client.call("sell", &json!({"item": "tea", "count": 11}));
    assert_eq!(meta(&refused)["code"], "precondition_failed", "{refused}");
    assert_eq!(meta(&refused)["failed"][0]["precondition"], "enough-is-there", "{refused}");
    let sold = client.call("sell", &json!({"item": "tea", "count": 2}));
    assert_eq!(meta(&sold)["readings"]["rested_on"], 0, "nothing was read: {sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 8));
    client.end();
    assert!(shop.run_ok(&["audit", "--data", "data"]).contains("same"), "an audit decides the same");
}

#[test]
fn a_mapped_write_without_a_session_does_not_run() {
    let shop = shop();
    let gateway = shop.listen();
    let mut single = shop.single(&gateway);
    let refused = single.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["error"]["code"], "session_required", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    let read = single.call("get_stock", &json!({"item": "tea"}));
    let named = json!({"countersign": {"session": meta(&read)["session"]}});
    shop.set("tea", 9);
    let refused = single.call_with("sell", &json!({"item": "tea", "count": 1}), &named);
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    let sold = single.call_with("sell", &json!({"item": "tea", "count": 1}), &named);
    assert!(!is_error(&sold), "{sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 8));
}

#[test]
fn a_fact_whose_answer_never_arrived_does_not_count_as_read_for_a_mapped_write() {
    let shop = shop();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 5);
    shop.mood("hold get_stock");
    let before = shop.count("get_stock");
    let id = client.ask("tools/call", &json!({"name": "get_stock", "arguments": {"item": "tea"}}));
    wait_until("it is being read", || shop.count("get_stock") > before);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(&cancelled.to_string());
    shop.mood("");
    // The server answers one after the other, so the answer that was cancelled came before this one.
    client.call("get_stock", &json!({"item": "rice"}));
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
}

#[test]
fn an_error_of_a_mapped_tool_is_told_with_what_the_call_changed() {
    let shop = shop();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("take and fail");
    let failed = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(is_error(&failed), "{failed}");
    assert_eq!(meta(&failed)["verdict"], "failed", "{failed}");
    assert!(text(&failed).contains("/stock: 10 → 7"), "what counts as read is told: {failed}");
    shop.mood("");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
}

#[test]
fn what_is_withheld_from_an_agent_is_no_reading_of_its_session() {
    let shop = Shop::new();
    shop.publish(&PACT.replace("who = 'true'", "who = 'principal.trust > 900'"));
    let mut client = shop.client();
    let refused = client.call("get_stock", &json!({"item": "tea"}));
    assert!(is_error(&refused), "{refused}");
    shop.set("tea", 5);
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 0, "{sold}");
    assert!(!text(&sold).contains("/stock"), "nor is it told as a difference: {sold}");
}

/// More than five of anything need a person.
pub fn asking() -> String {
    PACT.to_owned() + "\n[[action.sell.require]]\nid = \"few\"\nthat = 'context.count <= 5'\non_fail = \"review\"\n"
}

#[test]
fn an_approved_write_runs_only_if_what_was_read_still_reads_as_it_was_shown() {
    let shop = Shop::new();
    shop.publish(&asking());
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    for (left, verdict) in [(10, "settled"), (9, "failed")] {
        shop.set("tea", 10);
        client.call("get_stock", &json!({"item": "tea"}));
        let parked = client.call("sell", &json!({"item": "tea", "count": 6}));
        assert_eq!(meta(&parked)["verdict"], "review", "{parked}");
        let beside = client.call("sell", &json!({"item": "rice", "count": 1}));
        assert!(!is_error(&beside), "a review holds no turn: {beside}");
        shop.set("tea", left);
        let review = meta(&parked)["review"].as_str().unwrap().to_owned();
        shop.approves(&review, &gate);
        let ask = json!({"continuation": meta(&parked)["continuation"], "wait_ms": 5000});
        let became = client.call("countersign_continue", &ask);
        assert_eq!(meta(&became)["verdict"], verdict, "{became}");
        if verdict == "failed" {
            assert_eq!(meta(&became)["code"], "reading_changed", "{became}");
            assert_eq!(meta(&became)["retry"]["calls"][0]["tool"], "get_stock", "the agent may have gone on: {became}");
        }
    }
    assert_eq!((shop.count("sell"), shop.stock("tea"), shop.stock("rice")), (3, 9, 8));
}

#[test]
fn attack_no_method_comes_between_the_last_look_of_a_pact_and_its_call() {
    let shop = Shop::proposing("allow_methods = [\"vendor/set\"]", "");
    shop.approve(&[]);
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    assert!(client.request("vendor/set", &json!({}))["error"].is_null(), "nothing rests on what is there");
    std::fs::write(shop.folder().join("book"), "").unwrap();
    // No tool is guarded, and from here on calls rest on what `get_stock` says.
    std::fs::write(shop.folder().join("pact.toml"), PACT.replace("guard = \"as-read\"\n", "")).unwrap();
    shop.run_ok(&["pact", "publish", "pact.toml", "--server", gate.url()]);
    let asked = client.request("tasks/get", &json!({"taskId": "t-1"}));
    assert_eq!(asked["result"]["taskId"], "t-1", "what only reads goes on: {asked}");
    for method in ["tasks/cancel", "tasks/update", "vendor/set"] {
        let refused = client.request(method, &json!({"taskId": "t-1"}));
        let said = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {refused}"));
        assert!(said.contains("calls under a pact rest on what is at `shop`") && said.contains(method), "{said}");
    }
    assert_eq!(shop.book(), ["tasks/get"], "the server never saw them");
}

#[test]
fn what_a_pact_asks_of_a_reading_is_asked_of_the_latest_answer_and_of_how_it_reads_right_before_the_call() {
    let shop = Shop::new();
    let readings = r#"
[readings.stock]
mcp = "shop"
tool = "get_stock"
at = "/structuredContent"
attributes = { stock = "Long" }
"#;
    let fed: String =
        PACT.lines().filter(|line| !line.starts_with("source = ")).map(|line| format!("{line}\n")).collect();
    let pact = fed.replace("resource.stock >= context.count", "context.readings.stock.stock >= context.count + 3");
    shop.publish(&(pact + readings));
    shop.run_ok(&["fact", "put", "Stock", "tea", r#"{"stock":0}"#, "--data", "data"]);
    let mut client = shop.client();
    let sell = json!({"item": "tea", "count": 1});
    let unread = client.call("sell", &sell);
    assert_eq!(meta(&unread)["code"], "reading_required", "{unread}");
    shop.set("tea", 3);
    client.call("get_stock", &json!({"item": "tea"}));
    let refused = client.call("sell", &sell);
    assert_eq!(meta(&refused)["code"], "precondition_failed", "{refused}");
    assert_eq!(meta(&refused)["failed"][0]["precondition"], "enough-is-there", "{refused}");
    assert_eq!((shop.count("sell"), shop.count("get_stock")), (0, 1), "nothing was read again for it");
    shop.set("tea", 10);
    client.call("get_stock", &json!({"item": "tea"}));
    let sold = client.call("sell", &sell);
    assert!(!is_error(&sold), "{sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 9));
    // It would hold of what there is now as well; but that is not what was decided on.
    shop.set("tea", 20);
    let refused = client.call("sell", &sell);
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 20), "the server never saw it");
    client.end();
    assert!(shop.run_ok(&["audit", "--data", "data"]).contains("same"), "an audit decides the same");
}
