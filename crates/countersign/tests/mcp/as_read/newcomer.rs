//! The newcomer's way in: what settings propose, shadow mode, the report, trials and drafted pacts.

use super::shop::Shop;
use super::{is_error, meta, text};
use serde_json::{Value, json};

const GUARDED: &str = "guard = \"as-read\"\n[mcp.upstream.shop.tool.get_clock]\nignore = [\"/ticks\"]";

fn sell(count: u64) -> Value {
    json!({"item": "tea", "count": count})
}

fn report(shop: &Shop, data: &str) -> Value {
    serde_json::from_str(&shop.run_ok(&["mcp", "report", "--json", "--data", data])).unwrap()
}

/// What a report proposes to run.
fn proposed(report: &Value) -> Vec<&str> {
    report["proposals"].as_array().unwrap().iter().map(|it| it["run"].as_str().unwrap()).collect()
}

#[test]
fn settings_propose_a_guard_and_what_an_admin_approved_counts() {
    let shop = Shop::proposing("", GUARDED);
    shop.approve(&["--guard", "none"]);
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    let refused = client.call("sell", &sell(1));
    assert_eq!(meta(&refused)["failed"][0]["precondition"], "reads-only-or-let-pass", "it is not guarded: {refused}");
    let (_, said) = client.end();
    assert!(
        said.contains("the settings propose guard = \"as-read\" for shop, and no admin has approved that"),
        "{said}"
    );
    let shown = shop.run_ok(&["mcp", "approve", "--yes", "--data", "data"]);
    assert!(shown.contains("guard as-read (guard as the settings propose)"), "{shown}");
    assert!(shown.contains("guard as-read; ignore /ticks (guard, ignore as the settings propose)"), "{shown}");
    let mut client = shop.client();
    client.call("get_clock", &json!({}));
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &sell(1))), "the clock is left out");
    shop.set("tea", 2);
    let refused = client.call("sell", &sell(1));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 1, "the server never saw it");
    assert!(!client.end().1.contains("propose"), "now it is approved");
}

#[test]
fn an_admin_says_which_tools_only_read_and_what_of_their_answers_counts() {
    let shop = Shop::new();
    let (code, said) = shop.run(&["mcp", "approve", "--yes", "--data", "data", "--reads", "totl"]);
    assert!(code == Some(1) && said.contains("there is no tool totl"), "{said}");
    let (code, said) = shop.run(&["mcp", "approve", "--yes", "--data", "data", "shop/get_clock", "--only", "zone"]);
    assert!(code == Some(2) && said.contains("`zone` is not a path") && said.contains("hint: "), "{said}");
    shop.approve(&["--reads", "shop/total"]);
    let said = shop.approve(&["shop/get_clock", "--only", "/zone"]);
    assert!(!said.contains("answered differently"), "what counts of it reads the same: {said}");
    // Approved again, it is as it was said to be.
    shop.approve(&[]);
    let mut client = shop.client();
    client.call("get_clock", &json!({}));
    client.call("total", &json!({}));
    assert!(!is_error(&client.call("sell", &sell(1))));
    shop.set("rice", 3);
    let refused = client.call("sell", &sell(1));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert!(text(&refused).contains("total:\n  /total: 29 → 22"), "{refused}");
    assert_eq!(shop.count("sell"), 1, "the server never saw it");
    client.end();
    // What is said to write is never read again, and never counts.
    let calls = || (shop.count("total"), shop.count("get_clock"));
    let before = calls();
    shop.approve(&["--writes", "total,get_clock"]);
    assert_eq!(calls(), before, "nor is it read for its approval");
}

#[test]
fn what_differs_by_itself_is_named_at_the_approval_and_only_for_tools_that_read() {
    let shop = Shop::proposing("", "guard = \"as-read\"");
    let said = shop.approve(&[]);
    assert!(said.contains("shop/get_clock answered differently when it was read twice, at /ticks"), "{said}");
    assert!(said.contains("countersign mcp approve shop/get_clock --ignore /ticks"), "{said}");
    assert_eq!((shop.count("get_clock"), shop.count("total"), shop.count("get_stock")), (2, 0, 0), "{:?}", shop.book());
    let said = shop.approve(&["shop/get_clock", "--ignore", "/ticks"]);
    assert!(!said.contains("answered differently"), "{said}");
}

#[test]
fn in_shadow_mode_a_guarded_call_is_made_and_the_report_says_that_it_would_have_been_refused() {
    let shop = Shop::proposing("unmapped = \"shadow\"", "guard = \"as-read\"");
    let said = shop.approve(&[]);
    assert!(said.contains("shop: in shadow mode, as the settings propose"), "{said}");
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &sell(1))));
    shop.set("tea", 4);
    let made = client.call("sell", &sell(1));
    assert!(!is_error(&made), "{made}");
    assert_eq!(meta(&made)["shadowed"]["code"], "reading_changed", "{made}");
    assert!(!is_error(&client.call("sell", &sell(1))));
    assert_eq!((shop.count("sell"), shop.stock("tea")), (3, 2), "the server saw all of them");
    // The folder need not be free for that.
    let found = report(&shop, "data");
    let calls = &found["calls"]["shop/sell"];
    assert_eq!(
        (&calls["calls"], &calls["refused"], &calls["would_refuse"]),
        (&json!(3), &json!(0), &json!(2)),
        "{found}"
    );
    let reason = &calls["reasons"][0];
    assert_eq!(
        (&reason["code"], &reason["calls"], &reason["again"]),
        (&json!("reading_changed"), &json!(2), &json!(1))
    );
    let read = &found["readings"]["shop/get_stock"];
    assert_eq!((&read["readings"], &read["rested_on"], &read["changed"]), (&json!(1), &json!(3), &json!(2)), "{found}");
    assert_eq!(found["is_shadowed"], true);
    client.end();
    let said = shop.run_ok(&["mcp", "report", "--data", "data"]);
    assert!(said.contains("shop/sell: 3 calls, 2 went through that would have been refused"), "{said}");
    assert!(said.contains("get_stock {\"item\":\"tea\"} read differently right before the call"), "{said}");
    assert!(shop.run_ok(&["audit", "--data", "data"]).contains("same"), "an audit decides the same");
    // One setting, and nothing else.
    shop.settings("unmapped = \"deny\"", "guard = \"as-read\"");
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 1);
    let refused = client.call("sell", &sell(1));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 3, "the server never saw it");
}

#[test]
fn no_one_but_an_admin_puts_a_guarded_server_into_shadow_mode() {
    let shop = Shop::new();
    shop.settings("unmapped = \"shadow\"", "");
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    let refused = client.call("sell", &sell(1));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    let (_, said) = client.end();
    assert!(said.contains("no admin has approved that for the guarded tools of shop"), "{said}");
    // Nor does an agent that asks the gate itself.
    let tool: Value =
        serde_json::from_str(&shop.run_ok(&["fact", "get", "McpTool", "shop/sell", "--data", "data", "--json"]))
            .unwrap();
    let gate = shop.serve();
    let session = shop.post(&gate, "/v1/sessions", &json!({}))["session"].clone();
    let params = json!({"server": "shop", "name": "sell", "definition": tool["value"]["definition"], "arguments": sell(1).to_string()});
    let action = json!({"pact": "mcp-calls", "action": "watch", "params": params, "session": session,
        "idempotency_key": "0123456789012345678901"});
    let verdict = shop.post(&gate, "/v1/actions?wait_ms=10000", &action);
    assert_eq!((&verdict["verdict"], &verdict["code"]), (&json!("rejected"), &json!("fact_missing")), "{verdict}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
}

#[test]
fn a_report_proposes_what_to_leave_out_what_is_never_used_and_what_to_guard() {
    let shop = Shop::new();
    let mut reader = shop.client();
    for _ in 0..3 {
        reader.call("get_report", &json!({"lines": 8}));
    }
    reader.end();
    let mut client = shop.client();
    client.call("get_clock", &json!({}));
    assert_eq!(meta(&client.call("sell", &sell(1)))["code"], "reading_changed");
    let found = report(&shop, "data");
    let runs = [
        "countersign mcp approve shop/get_clock --ignore /ticks",
        "countersign mcp approve shop/get_report --guard none",
    ];
    assert_eq!(proposed(&found), runs, "{found}");
    assert_eq!(found["proposals"][0]["why"], "differs_twice");
    assert_eq!((&found["calls"]["shop/sell"]["refused"], &found["is_shadowed"]), (&json!(1), &json!(false)));
    client.end();
    // What is proposed can be run as it is.
    for run in runs {
        let words: Vec<&str> = run.split(' ').skip(1).chain(["--yes", "--data", "data"]).collect();
        shop.run_ok(&words);
    }
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_clock", &json!({}));
    client.call("get_report", &json!({"lines": 8}));
    shop.set("tea", 3);
    assert!(!is_error(&client.call("sell", &sell(1))), "neither counts any more");
    // Beside a gate that runs.
    let found = report(&shop, "data");
    assert_eq!(found["calls"]["shop/sell"]["calls"], 2, "{found}");
    assert_eq!(proposed(&found).len(), 0, "all of it was approved: {found}");
    let server = shop.run_ok(&["fact", "get", "McpServer", "shop", "--server", gate.url(), "--json"]);
    assert!(
        server.contains("\"guard\":\"as-read\""),
        "what is approved of one tool leaves its server guarded: {server}"
    );
}

#[test]
fn a_report_names_what_passed_unguarded_in_shadow_mode() {
    let shop = Shop::proposing("unmapped = \"shadow\"", "");
    shop.approve(&[]);
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &sell(1))));
    let found = report(&shop, "data");
    assert_eq!(found["calls"].as_object().unwrap().len(), 1, "what only reads is not among them: {found}");
    assert_eq!(found["calls"]["shop/sell"]["would_refuse"], 1, "{found}");
    assert_eq!(proposed(&found), ["countersign mcp approve shop/sell --guard as-read"]);
}

#[test]
fn a_trial_only_watches_where_it_is_told_to() {
    let shop = Shop::new();
    let mut client = shop.trial(&["--shadow"]);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 5);
    let made = client.call("sell", &sell(1));
    assert_eq!((is_error(&made), &meta(&made)["shadowed"]["code"]), (false, &json!("reading_changed")), "{made}");
    assert_eq!(report(&shop, "trial")["calls"]["shop/sell"]["would_refuse"], 1);
    client.end();
    let mut client = shop.trial(&[]);
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    assert_eq!(meta(&client.call("sell", &sell(1)))["code"], "reading_changed");
    assert_eq!(shop.count("sell"), 1);
}

#[test]
fn a_second_trial_in_a_folder_says_what_is_in_its_way() {
    let shop = Shop::new();
    let client = shop.trial(&[]);
    let server = shop.server();
    let (code, said) = shop.run(&["mcp", "try", &server, "--name", "shop", "--data", "trial"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("another window has this trial open"), "{said}");
    client.end();
    let (code, said) = shop.run(&["mcp", "try", &server, "--name", "other", "--data", "trial"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("trial holds the trial of another server, `shop`"), "{said}");
    assert!(said.contains("give this one a folder of its own: --data ") && said.contains("other"), "{said}");
    // Its settings name its folder: relative paths start there wherever an agent starts it.
    let elsewhere = tempfile::tempdir().unwrap();
    let cwd = shop.folder().display().to_string();
    let words = ["mcp", "try", &server, "--name", "shop", "--data", "moved", "--cwd", &cwd];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.args(words).current_dir(elsewhere.path()).stdin(std::process::Stdio::null());
    assert!(command.output().unwrap().status.success());
    assert!(shop.folder().join("moved").is_dir() && std::fs::read_dir(elsewhere.path()).unwrap().next().is_none());
}

#[test]
fn the_tool_to_go_on_with_is_listed_where_a_call_may_not_be_over_at_once() {
    let shop = Shop::proposing("", "");
    shop.approve(&[]);
    let mut client = shop.client();
    assert!(
        !client.tools().contains(&"countersign_continue".to_owned()),
        "nothing is guarded, and no pact maps anything"
    );
    let (_, said) = client.end();
    assert!(!said.contains("{server}"), "the gateway's own pact maps no tool: {said}");
    shop.approve(&["--guard", "as-read"]);
    let mut client = shop.client();
    assert!(client.tools().contains(&"countersign_continue".to_owned()));
}

#[test]
fn a_drafted_pact_guards_as_it_is() {
    let shop = Shop::new();
    let draft = shop.run_ok(&["pact", "init", "--mcp", &shop.server(), "--name", "shop"]);
    std::fs::write(shop.folder().join("shop.toml"), &draft).unwrap();
    shop.run_ok(&["pact", "check", "shop.toml"]);
    shop.run_ok(&["pact", "publish", "shop.toml", "--data", "data"]);
    let gate = shop.serve();
    let session = shop.post(&gate, "/v1/sessions", &json!({}))["session"].as_str().unwrap().to_owned();
    let read = json!({"upstream": "shop", "tool": "get_stock", "arguments": {"item": "tea"}});
    shop.post(&gate, &format!("/v1/sessions/{session}/readings"), &read);
    shop.set("tea", 3);
    let act = |key: &str| {
        let action =
            json!({"pact": "shop", "action": "sell", "params": sell(1), "session": session, "idempotency_key": key});
        shop.post(&gate, "/v1/actions?wait_ms=20000", &action)
    };
    let refused = act("0123456789012345678901");
    assert_eq!(refused["code"], "reading_changed", "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    let sold = act("0123456789012345678902");
    assert_eq!(sold["verdict"], "settled", "{sold}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 2));
    // A tool that answers with an error has not done it, and nothing waits for a person.
    let action = json!({"pact": "shop", "action": "sell", "params": {"item": "gold", "count": 1}, "session": session,
        "idempotency_key": "0123456789012345678903"});
    let failed = shop.post(&gate, "/v1/actions?wait_ms=20000", &action);
    assert_eq!(failed["verdict"], "failed", "{failed}");
}

#[test]
fn attack_a_tool_that_is_new_in_a_folder_with_approvals_waits_for_a_person() {
    let shop = Shop::new();
    let mut client = shop.trial(&[]);
    assert!(client.tools().contains(&"sell".to_owned()));
    client.end();
    std::fs::write(shop.folder().join("book"), "").unwrap();
    shop.mood("newer");
    let mut client = shop.trial(&[]);
    assert!(!client.tools().contains(&"give".to_owned()), "no one has read what it says of itself");
    for tool in ["give", "get_price"] {
        let refused = client.call(tool, &json!({}));
        assert!(is_error(&refused), "{refused}");
    }
    client.call("get_stock", &json!({"item": "tea"}));
    client.end();
    assert_eq!(shop.book(), ["get_stock"], "the server never saw them");
}

#[test]
fn a_report_counts_a_session_once_whatever_is_noted_of_it() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    for _ in 0..2 {
        assert!(!is_error(&client.call("sell", &sell(1))));
    }
    client.end();
    assert_eq!(report(&shop, "data")["sessions"], 1);
    let entries = shop.run_ok(&["ledger", "list", "--json", "--data", "data"]);
    assert!(entries.matches("\"kind\":\"session\"").count() > 1, "more is noted of it: {entries}");
}

#[test]
fn whoever_puts_a_fact_without_the_guard_that_it_had_is_told() {
    let shop = Shop::new();
    let put = |value: &str| shop.run(&["fact", "put", "McpServer", "shop", value, "--data", "data"]);
    let (code, said) = put(r#"{"uses": false, "guard": "as-read"}"#);
    assert!(code == Some(0) && !said.contains("not any more"), "{said}");
    let (code, said) = put(r#"{"uses": false}"#);
    assert!(code == Some(0) && said.contains("was guarded, and is not any more"), "{said}");
    assert!(said.contains(r#""guard": "as-read""#), "{said}");
    assert!(!put(r#"{"uses": true}"#).1.contains("not any more"), "there is none to drop");
}
