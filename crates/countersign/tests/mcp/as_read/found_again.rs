//! How a gateway finds the session of one that was killed, and forgets one that is gone: no write runs on what its client did not read
//! in the session that it rests on.

use super::shop::Shop;
use super::undelivered::cancelled;
use super::{is_error, meta, text};
use crate::mcp::client::Stdio;
use crate::mcp::http::Http;
use crate::mcp::processes::wait_until;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

/// How many sessions of an agent stay open.
const SESSIONS_MAX: usize = 1024;

fn sell(item: &str) -> Value {
    json!({"name": "sell", "arguments": {"item": item, "count": 1}})
}

/// The session that an answer names ends at the gate.
fn close(shop: &Shop, gate: &Http, answer: &Value) {
    let session = meta(answer)["session"].as_str().unwrap();
    shop.post(gate, &format!("/v1/sessions/{session}/close"), &json!({}));
}

fn is_refused_blind(answer: &Value) -> bool {
    meta(answer)["error"]["code"] == "session_not_open"
}

#[test]
fn a_refusal_that_comes_late_forgets_no_session_that_was_begun_since() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    for round in 0..5 {
        shop.set("tea", 10);
        let before = client.call("get_stock", &json!({"item": "rice"}));
        shop.mood("hold get_stock");
        close(&shop, &gate, &before);
        // The read begins a new session, while writes are under way in the one before.
        let reads = shop.count("get_stock");
        let read = client.ask("tools/call", &json!({"name": "get_stock", "arguments": {"item": "tea"}}));
        let early: Vec<u64> = (0..3).map(|_| client.ask("tools/call", &sell("tea"))).collect();
        wait_until("it is read in a new session", || shop.count("get_stock") > reads);
        for _ in &early {
            let refused = client.message();
            assert!(early.contains(&refused["id"].as_u64().unwrap()), "{refused}");
            assert!(is_refused_blind(&refused["result"]), "round {round}: {refused}");
        }
        shop.mood("");
        let read = client.answer(read);
        assert_eq!(read["result"]["structuredContent"]["stock"], 10, "{read}");
        shop.set("tea", 2);
        let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
        assert_eq!(meta(&refused)["code"], "reading_changed", "round {round}: {refused}");
        assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    }
}

#[test]
fn no_write_runs_before_its_client_was_told_that_its_session_is_gone() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let read = client.call("get_stock", &json!({"item": "tea"}));
    close(&shop, &gate, &read);
    shop.set("tea", 2);
    let id = client.ask("tools/call", &sell("tea"));
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(&cancelled.to_string());
    let entered = || shop.run_ok(&["ledger", "list", "--kind", "action", "--json", "--server", gate.url()]);
    wait_until("it was refused, which no one was told", || entered().lines().count() == 1);
    // Several that were sent before any of them is answered know no more than the first.
    let ids: Vec<u64> = (0..4).map(|_| client.ask("tools/call", &sell("tea"))).collect();
    for _ in &ids {
        let refused = client.message();
        assert!(is_refused_blind(&refused["result"]), "{refused}");
    }
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}

#[test]
fn a_session_that_was_cut_off_and_is_gone_is_not_replaced_by_an_empty_one_in_silence() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let read = client.call("get_stock", &json!({"item": "tea"}));
    client.kill();
    close(&shop, &gate, &read);
    shop.set("tea", 2);
    let mut client = shop.client_of(&gate);
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(is_refused_blind(&refused), "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}

#[test]
fn a_gateway_that_was_killed_after_a_long_silence_of_its_client_is_followed() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    let note = note(&shop);
    let modified = || std::fs::metadata(&note).unwrap().modified().unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(11 * 60);
    std::fs::File::options().write(true).open(&note).unwrap().set_modified(long_ago).unwrap();
    // It says that it lives, without a call.
    wait_until("it lives", || modified() > long_ago + Duration::from_secs(60));
    client.kill();
    shop.set("tea", 2);
    let mut client = shop.client_of(&gate);
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
}

/// Where sessions are noted.
fn notes(shop: &Shop) -> std::path::PathBuf {
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(shop.folder()).unwrap());
    shop.folder().join(format!("tmp/countersign-sessions-{user}"))
}

/// The one note that there is.
fn note(shop: &Shop) -> std::path::PathBuf {
    let found = std::fs::read_dir(notes(shop)).unwrap().map(|entry| entry.unwrap().path());
    let mut found = found.filter(|path| !path.ends_with("lock"));
    let note = found.next().unwrap();
    assert!(found.next().is_none());
    note
}

#[test]
fn where_no_session_can_be_noted_nothing_is_written_before_something_was_read() {
    let shop = Shop::new();
    let gate = shop.serve();
    // As if another user had made it first.
    std::fs::create_dir(notes(&shop)).unwrap();
    std::fs::set_permissions(notes(&shop), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    client.kill();
    shop.set("tea", 2);
    let mut client = shop.client_of(&gate);
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(is_refused_blind(&refused), "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
    let (_, said) = client.end();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("there is no private folder to note sessions in"), "{said}");
}

#[test]
fn a_read_that_failed_is_none_where_something_must_be_read_first() {
    let shop = Shop::new();
    let gate = shop.serve();
    let (mut one, mut other) = (shop.client_of(&gate), shop.client_of(&gate));
    one.call("get_stock", &json!({"item": "tea"}));
    other.call("get_stock", &json!({"item": "tea"}));
    one.kill();
    other.kill();
    shop.set("tea", 2);
    let mut client = shop.client_of(&gate);
    shop.mood("die on get_stock");
    let failed = client.call("get_stock", &json!({"item": "tea"}));
    assert!(is_error(&failed), "{failed}");
    shop.mood("");
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(is_refused_blind(&refused), "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}

/// Reads until what became of these sales was told, once each.
fn hears_of(client: &mut Stdio, items: &[&str]) {
    let mut heard: Vec<String> = Vec::new();
    let is_of = |line: &String, item: &str| {
        let is_sale = line.starts_with("Note: sell") && line.contains(&format!("\"{item}\""));
        is_sale && line.contains("whose answer did not reach you, was carried out")
    };
    wait_until("it is told what became of them", || {
        let read = client.call("get_stock", &json!({"item": "salt"}));
        heard.extend(text(&read).lines().map(str::to_owned));
        items.iter().all(|item| heard.iter().any(|line| is_of(line, item)))
    });
    for item in items {
        assert_eq!(heard.iter().filter(|line| is_of(line, item)).count(), 1, "once is enough: {heard:?}");
    }
}

#[test]
fn what_became_of_a_write_is_told_until_it_has_arrived() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let ended = |count: usize| {
        let settled = || shop.run_ok(&["ledger", "list", "--kind", "settle", "--json", "--server", gate.url()]);
        wait_until("it is over", || settled().lines().count() == count);
    };
    // The answer of the second would have told of the first.
    cancelled(&shop, &mut client, "sell", &json!({"item": "tea", "count": 1}));
    ended(1);
    cancelled(&shop, &mut client, "sell", &json!({"item": "rice", "count": 1}));
    ended(2);
    hears_of(&mut client, &["tea", "rice"]);
    // And so would that of a read.
    cancelled(&shop, &mut client, "sell", &json!({"item": "tea", "count": 1}));
    ended(3);
    cancelled(&shop, &mut client, "get_stock", &json!({"item": "tea"}));
    hears_of(&mut client, &["tea"]);
    assert_eq!(shop.count("sell"), 3);
}

#[test]
fn who_goes_on_in_a_session_is_told_what_was_done_in_it_meanwhile() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "salt"}));
    shop.mood("hold sell");
    client.ask("tools/call", &sell("tea"));
    wait_until("it is under way", || shop.count("sell") == 1);
    client.kill();
    shop.mood("");
    // It is over before the next gateway asks for anything.
    let settled = || shop.run_ok(&["ledger", "list", "--kind", "settle", "--json", "--server", gate.url()]);
    wait_until("it is over", || settled().lines().count() == 1);
    let mut client = shop.client_of(&gate);
    let read = client.call("get_stock", &json!({"item": "salt"}));
    let told = "Note: before the gateway was started again, a call of sell was carried out (eff_";
    assert!(text(&read).contains(told), "{read}");
    let again = client.call("get_stock", &json!({"item": "salt"}));
    assert!(!text(&again).contains("Note:"), "once is enough: {again}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 9), "no one had a reason to do it again");
}

#[test]
fn what_single_requests_opened_and_no_one_can_name_any_more_is_closed() {
    let shop = Shop::new();
    let gate = shop.serve();
    let open = || shop.post(&gate, "/v1/sessions", &json!({}))["session"].as_str().unwrap().to_owned();
    let read = |session: &str| {
        let reading = json!({"upstream": "shop", "tool": "get_stock", "arguments": {"item": "tea"}});
        shop.post(&gate, &format!("/v1/sessions/{session}/readings"), &reading)
    };
    let (first, used) = (open(), open());
    assert!(read(&first)["entry"].is_u64());
    // Of those that it does not use an agent has fewer still.
    for _ in 0..SESSIONS_MAX - 2 {
        assert!(read(&open())["entry"].is_u64());
    }
    assert!(read(&used)["entry"].is_u64());
    open();
    assert_eq!(read(&first)["error"]["code"], "session_not_found", "an agent has only so many");
    assert!(read(&used)["entry"].is_u64(), "that one was used");
}
