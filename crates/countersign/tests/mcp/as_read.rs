//! Tools that are guarded as read, without a pact: what the server saw is what counts.

mod attacked;
mod brief;
mod carrying;
mod coming_back;
mod cut_off;
mod delivered;
mod elsewhere;
mod erased;
mod files;
mod found_again;
mod limits;
mod mapped;
mod naming;
mod newcomer;
mod operating;
mod over_http;
mod several;
mod shop;
mod shown;
mod sloppy;
mod stuck;
mod turns;
mod undelivered;
mod warned;
mod yard;

use self::shop::Shop;
use crate::mcp::processes::wait_until;
use serde_json::{Value, json};

fn text(result: &Value) -> String {
    let items = result["content"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn is_error(result: &Value) -> bool {
    result["isError"] == true
}

fn meta(result: &Value) -> &Value {
    &result["_meta"]["countersign"]
}

#[test]
fn a_write_runs_if_what_was_read_reads_the_same() {
    let shop = Shop::new();
    let mut client = shop.client();
    let read = client.call("get_stock", &json!({"item": "tea"}));
    assert_eq!(read["structuredContent"], json!({"item": "tea", "stock": 10}), "{read}");
    assert!(meta(&read)["session"].as_str().is_some_and(|it| it.starts_with("ses_")), "{read}");
    let sold = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(!is_error(&sold), "{sold}");
    assert!(text(&sold).starts_with("sold, 7 left\n"), "its own answer comes first: {sold}");
    assert_eq!(meta(&sold)["verdict"], "settled");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 1);
    assert_eq!(
        shop.book(),
        ["get_stock", "get_stock", "sell", "get_stock"],
        "read, read again, called, read once more"
    );
    assert_eq!(shop.stock("tea"), 7);
}

#[test]
fn what_changed_behind_the_back_of_the_gateway_is_refused_and_told_and_the_same_call_then_succeeds() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(is_error(&refused), "{refused}");
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(meta(&refused)["retry"], json!({"how": "again"}));
    let said = text(&refused);
    assert!(said.contains("get_stock answers differently now"), "{said}");
    assert!(said.contains("get_stock {\"item\":\"tea\"}:\n  /stock: 10 → 2\n"), "{said}");
    assert!(said.len() <= 2048 && refused.to_string().len() < 6000, "{}", refused.to_string().len());
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(shop.stock("tea"), 1);
}

#[test]
fn what_another_session_changed_is_refused_and_warned_of_early() {
    let shop = Shop::new();
    let gateway = shop.listen();
    let (mut one, mut other) = (shop.http(&gateway), shop.http(&gateway));
    one.call("get_stock", &json!({"item": "tea"}));
    other.call("get_stock", &json!({"item": "tea"}));
    let sold = other.call("sell", &json!({"item": "tea", "count": 4}));
    assert!(!is_error(&sold), "{sold}");
    assert!(text(&sold).contains("  /stock: 10 → 6"), "its own change is told: {sold}");
    let warned = one.call("get_stock", &json!({"item": "rice"}));
    assert!(text(&warned).contains("Note: get_stock with {\"item\":\"tea\"} answers differently since"), "{warned}");
    assert!(text(&warned).contains("after eff_"), "{warned}");
    let again = one.call("get_stock", &json!({"item": "salt"}));
    assert!(!text(&again).contains("Note:"), "once is enough: {again}");
    let refused = one.call("sell", &json!({"item": "tea", "count": 9}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 1);
}

#[test]
fn an_own_write_and_what_was_never_read_cause_no_refusal() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    for left in [9, 8, 7] {
        shop.set("rice", left);
        let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
        assert!(!is_error(&sold), "{sold}");
        assert!(text(&sold).contains(&format!("  /stock: {} → {left}", left + 1)), "{sold}");
    }
    assert_eq!((shop.stock("tea"), shop.count("sell")), (7, 3));
}

#[test]
fn sessions_of_one_agent_do_not_weigh_on_each_other_and_a_blind_write_says_so() {
    let shop = Shop::new();
    let gateway = shop.listen();
    let (mut one, mut other) = (shop.http(&gateway), shop.http(&gateway));
    one.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 1);
    let sold = other.call("sell", &json!({"item": "rice", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 0, "{sold}");
}

#[test]
fn a_tool_that_is_not_guarded_does_not_run_at_a_guarded_server_though_settings_let_it_pass() {
    let shop = Shop::new();
    shop.lets_unmapped_pass();
    let tool = shop.run_ok(&["fact", "get", "McpTool", "shop/sell", "--data", "data", "--json"]);
    let mut value = serde_json::from_str::<Value>(&tool).unwrap()["value"].clone();
    value.as_object_mut().unwrap().remove("guard").unwrap();
    shop.run_ok(&["fact", "put", "McpTool", "shop/sell", &value.to_string(), "--data", "data"]);
    let mut client = shop.client();
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(is_error(&refused), "{refused}");
    let said = text(&refused);
    assert!(said.contains("`shop` is guarded as read, and its tool `sell` is not"), "{said}");
    assert!(said.contains("countersign mcp approve shop/sell --guard as-read"), "{said}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 10), "the server never saw it");
    drop(client);
    // Where no tool of the server is guarded, the settings decide.
    shop.run_ok(&["fact", "put", "McpServer", "shop", r#"{"uses": true}"#, "--data", "data"]);
    let passed = shop.client().call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&passed), "{passed}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 9));
}

#[test]
fn a_single_request_without_a_session_writes_nothing() {
    let shop = Shop::new();
    let gateway = shop.listen();
    let mut single = shop.single(&gateway);
    let refused = single.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["error"]["code"], "session_required", "{refused}");
    let read = single.call("get_stock", &json!({"item": "tea"}));
    let session = meta(&read)["session"].clone();
    let sold =
        single.call_with("sell", &json!({"item": "tea", "count": 1}), &json!({"countersign": {"session": session}}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 1, "{sold}");
    assert_eq!(shop.count("sell"), 1);
}

#[test]
fn a_large_answer_reaches_the_agent_whole_and_is_compared_by_its_digest() {
    let shop = Shop::new();
    let mut client = shop.client();
    let long = client.call("get_report", &json!({"lines": 4000}));
    assert_eq!(text(&long).lines().count(), 4000);
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
    shop.set("tea", 3);
    client.call("get_stock", &json!({"item": "salt"}));
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    let calls = json!([{"upstream": "shop", "tool": "get_report", "arguments": {"lines": 4000}}]);
    assert_eq!(meta(&refused)["retry"], json!({"how": "call", "calls": calls}), "{refused}");
    let still = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&still)["code"], "reading_changed", "it was not read again: {still}");
    client.call("get_report", &json!({"lines": 4000}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
    assert_eq!(shop.count("sell"), 2);
}

#[test]
fn an_answer_that_always_differs_is_named_and_can_be_left_out() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_clock", &json!({}));
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    let said = text(&refused);
    assert!(said.contains("get_clock differs whenever it is read, at /ticks"), "{said}");
    let approve = "countersign mcp approve shop/get_clock --ignore /ticks";
    assert!(said.contains(approve), "{said}");
    assert!(
        shop.approval.contains("shop/get_clock answered differently when it was read twice, at /ticks"),
        "{}",
        shop.approval
    );
    client.end();
    shop.approve(&["shop/get_clock", "--ignore", "/ticks"]);
    let mut client = shop.client();
    client.call("get_clock", &json!({}));
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
}

#[test]
fn what_does_not_answer_is_no_reading_and_a_read_that_fails_refuses() {
    let shop = Shop::new();
    let mut client = shop.client();
    let error = client.call("get_stock", &json!({"item": "nothing"}));
    assert!(is_error(&error) && text(&error).contains("no such item"), "an error is an answer: {error}");
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))), "and reads the same");
    shop.mood("die on get_stock");
    let unread = client.call("get_stock", &json!({"item": "rice"}));
    assert!(is_error(&unread), "{unread}");
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_unread", "{refused}");
    shop.mood("");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "what was not read is not compared: {sold}");
    assert_eq!((meta(&sold)["readings"]["rested_on"].clone(), shop.count("sell")), (json!(1), 2));
}

#[test]
fn the_audit_decides_every_such_write_again() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    client.call("sell", &json!({"item": "tea", "count": 1}));
    shop.set("tea", 5);
    assert!(is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
    client.call("sell", &json!({"item": "tea", "count": 1}));
    client.end();
    let report = shop.run_ok(&["audit", "--data", "data"]);
    assert!(report.contains("0 differ") || !report.contains("differ"), "{report}");
    let listed = shop.run_ok(&["ledger", "list", "--json", "--from", "0", "--limit", "200", "--data", "data"]);
    let kinds: Vec<Value> = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    let count = |kind: &str| kinds.iter().filter(|entry| entry["leaf"]["kind"] == kind).count();
    assert_eq!((count("session"), count("dispatch")), (3, 3), "opened, answered by `sell`, closed: {listed}");
    assert!(count("reading") >= 3, "{listed}");
}

#[test]
fn a_server_that_is_lost_after_it_was_read_again_gets_no_call() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("die after get_stock");
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(is_error(&refused), "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 10), "{refused}");
    shop.mood("");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
}

#[test]
fn a_long_answer_of_a_write_reaches_the_agent_whole_and_its_error_too() {
    let shop = Shop::new();
    let mut client = shop.client();
    let long = client.call("sell", &json!({"item": "tea", "count": 1, "lines": 3000}));
    assert!(!is_error(&long), "{}", meta(&long));
    assert_eq!(text(&long).lines().count(), 3000, "{}", text(&long).chars().take(300).collect::<String>());
    let error = client.call("sell", &json!({"item": "gold", "count": 1}));
    assert!(is_error(&error) && text(&error).contains("no such item"), "{error}");
    assert_eq!(meta(&error)["verdict"], "failed", "{error}");
}

#[test]
fn what_cannot_be_undone_needs_a_new_read_after_a_refusal() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 3);
    for _ in 0..2 {
        let refused = client.call("burn", &json!({"item": "tea", "count": 1}));
        assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
        assert_eq!(meta(&refused)["retry"]["calls"][0]["tool"], "get_stock", "{refused}");
    }
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("burn", &json!({"item": "tea", "count": 1}))));
    assert_eq!(shop.count("burn"), 1);
}

#[test]
fn a_resource_is_a_reading_too() {
    let shop = Shop::new();
    let mut client = shop.client();
    let read = client.request("resources/read", &json!({"uri": "shop://tea"}));
    assert_eq!(read["result"]["contents"][0]["text"], "10", "{read}");
    shop.set("tea", 4);
    let refused = client.call("sell", &json!({"item": "rice", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert!(text(&refused).contains("resources/read"), "{refused}");
    assert_eq!(shop.count("sell"), 0);
}

#[test]
fn a_halt_stops_reading_and_writing_and_the_server_sees_neither() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    let before = shop.book().len();
    shop.run_ok(&["halt", "add", "--all", "--reason", "drill", "--server", gate.url()]);
    assert!(is_error(&client.call("get_stock", &json!({"item": "tea"}))));
    assert!(is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
    assert_eq!(shop.book().len(), before, "{:?}", shop.book());
}

#[test]
fn a_trial_guards_every_write_of_a_server_that_no_one_has_approved_or_modelled() {
    let shop = Shop::new();
    let mut client = shop.trial(&[]);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 1));
    let (code, said) = client.end();
    assert_eq!(code, 0, "{said}");
    // The next one goes on in the same folder, and everything is in its ledger.
    drop(shop.trial(&[]).end());
    let entries = shop.run_ok(&["ledger", "list", "--data", "trial", "--kind", "dispatch"]);
    assert_eq!(entries.lines().filter(|line| line.contains("dispatch")).count(), 2, "{entries}");
    assert!(shop.run_ok(&["audit", "--data", "trial"]).contains("same"), "an audit decides the same");
}

#[test]
fn a_tool_whose_name_says_that_it_reads_can_be_called_a_write() {
    let shop = Shop::new();
    let mut client = shop.trial(&["--writes", "get_stock"]);
    let asked = client.call("get_stock", &json!({"item": "tea"}));
    assert_eq!(meta(&asked)["verdict"], "settled", "it takes a turn, as a write does: {asked}");
    assert_eq!(shop.count("get_stock"), 1, "and is never made twice");
}

/// Whether a session is another, gone on in once: under a new name.
fn is_gone_on_in(session: &Value, another: &Value) -> bool {
    session.as_str() == another.as_str().map(|name| format!("{name}.1")).as_deref()
}

#[test]
fn a_gateway_that_was_killed_is_followed_by_one_that_knows_what_was_read() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let read = client.call("get_stock", &json!({"item": "tea"}));
    client.kill();
    let mut parallel = shop.client_of(&gate);
    shop.set("tea", 2);
    let refused = parallel.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    let again = parallel.call("get_stock", &json!({"item": "tea"}));
    assert!(is_gone_on_in(&meta(&again)["session"], &meta(&read)["session"]), "{again}");
    let mut third = shop.client_of(&gate);
    let other = third.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_gone_on_in(&meta(&other)["session"], &meta(&read)["session"]), "the session is in use: {other}");
    parallel.end();
    third.end();
    let mut last = shop.client_of(&gate);
    let fresh = last.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&fresh)["readings"]["rested_on"], 0, "both ended as they should: {fresh}");
}

#[test]
fn what_an_operator_has_not_approved_to_be_read_is_not_read_for_anyone() {
    let shop = Shop::new();
    let gate = shop.serve();
    let post = |path: &str, body: Value| shop.post(&gate, path, &body);
    let session = post("/v1/sessions", json!({}))["session"].as_str().unwrap().to_owned();
    let read = |tool: &str| {
        let arguments = json!({"item": "tea", "count": 1});
        post(
            &format!("/v1/sessions/{session}/readings"),
            json!({"upstream": "shop", "tool": tool, "arguments": arguments}),
        )
    };
    assert!(read("get_stock")["answer"].as_str().is_some_and(|answer| answer.contains("10")));
    for tool in ["sell", "burn", "no_such_tool"] {
        assert_eq!(read(tool)["error"]["code"], "external_unread", "{tool}");
    }
    assert_eq!((shop.count("sell"), shop.count("burn")), (0, 0));
    shop.run_ok(&["agent", "revoke", "coder-1", "--server", gate.url()]);
    let before = shop.book().len();
    assert!(read("get_stock")["error"]["code"].is_string());
    assert_eq!(shop.book().len(), before, "the server sees nothing of one who was revoked");
}

#[test]
fn a_write_that_waited_when_the_gate_was_killed_never_runs_by_itself() {
    let shop = Shop::new();
    let mut client = shop.trial(&[]);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.mood("hold get_stock");
    client.ask("tools/call", &json!({"name": "sell", "arguments": {"item": "tea", "count": 3}}));
    wait_until("it is read again", || shop.count("get_stock") == 2);
    client.kill();
    shop.mood("");
    let mut next = shop.trial(&[]);
    let sold = next.call("sell", &json!({"item": "tea", "count": 3}));
    assert!(!is_error(&sold), "{sold}");
    assert_eq!(meta(&sold)["readings"]["rested_on"], 1, "it goes on in the session that was cut off: {sold}");
    next.end();
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 7), "once, and not by itself");
    let entries = shop.run_ok(&["ledger", "list", "--data", "trial", "--kind", "dispatch"]);
    assert_eq!(entries.lines().filter(|line| line.contains("rejected")).count(), 1, "{entries}");
    assert!(shop.run_ok(&["audit", "--data", "trial"]).contains("same"), "an audit decides the same");
}

#[test]
fn an_answer_that_the_client_did_not_wait_for_does_not_count_as_read() {
    let shop = Shop::new();
    let mut client = shop.trial(&[]);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    // The second time, the reading before the one that was lost was lost too.
    for _ in 0..2 {
        let before = shop.count("get_stock");
        shop.mood("hold get_stock");
        let id = client.ask("tools/call", &json!({"name": "get_stock", "arguments": {"item": "tea"}}));
        wait_until("it is being read", || shop.count("get_stock") > before);
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        client.send(&cancelled.to_string());
        shop.mood("");
        // The server answers one after the other, so the answer that nobody wanted was before this one.
        client.call("get_stock", &json!({"item": "rice"}));
    }
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
}

#[test]
fn an_answer_whose_connection_is_gone_does_not_count_as_read() {
    let shop = Shop::new();
    let gateway = shop.listen();
    let mut client = shop.http(&gateway);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    shop.mood("hold get_stock");
    client.ask_and_leave("get_stock", &json!({"item": "tea"}), &json!({}), || {
        wait_until("it is being read", || shop.count("get_stock") == 2);
    });
    shop.mood("");
    client.call("get_stock", &json!({"item": "rice"}));
    let refused = client.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    let sold = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
}

#[test]
fn a_client_with_a_session_cannot_read_into_or_write_from_another() {
    let shop = Shop::new();
    let gateway = shop.listen();
    let (mut one, mut other) = (shop.http(&gateway), shop.http(&gateway));
    let read = one.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    let named = json!({"countersign": {"session": meta(&read)["session"]}});
    let elsewhere = other.call_with("get_stock", &json!({"item": "tea"}), &named);
    assert_ne!(meta(&elsewhere)["session"], meta(&read)["session"], "{elsewhere}");
    let theirs = json!({"countersign": {"session": meta(&elsewhere)["session"]}});
    let refused = one.call_with("sell", &json!({"item": "tea", "count": 1}), &theirs);
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
}

#[test]
fn a_tool_that_was_redefined_is_not_approved_by_the_agent_that_starts_a_trial() {
    let shop = Shop::new();
    shop.trial(&[]).end();
    shop.mood("redefined");
    let mut client = shop.trial(&[]);
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(is_error(&refused) && text(&refused).contains("has changed since it was approved"), "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
}
