//! A gateway over standard input that ends, and the one that is started after it: what the new one has seen itself counts, what the old
//! one saw does where it was cut off, and no change is claimed that no one has seen.

use super::shop::Shop;
use super::{is_error, meta, text};
use crate::mcp::processes::wait_until;
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
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

/// A gate that is set up anew at the same address gives out the same names of sessions again.
#[test]
fn a_gateway_that_lives_takes_no_session_of_another_log_for_its_own() {
    let shop = Shop::new();
    shop.run_ok(&["init", "--data", "other", "--open"]);
    let agent = r#"{"roles":[],"standing":"active","org":"acme","trust":700}"#;
    shop.run_ok(&["fact", "put", "Agent", "coder-1", agent, "--data", "other"]);
    shop.run_ok(&["mcp", "approve", "--yes", "--guard", "as-read", "--data", "other"]);
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    let read = client.call("get_stock", &json!({"item": "tea"}));
    let address = gate.url().strip_prefix("http://").unwrap().to_owned();
    drop(gate);
    shop.set("tea", 2);
    let gate = shop.serve_at("other", &address);
    let mut another = shop.client_of(&gate);
    let its = another.call("get_report", &json!({"lines": 3}));
    assert_eq!(meta(&read)["session"], meta(&its)["session"], "both are called the same");
    let mut refused = json!(null);
    // Of the first it may not know whether it came through, because the connection broke.
    for _ in 0..3 {
        refused = client.call("sell", &json!({"item": "tea", "count": 5}));
        assert!(is_error(&refused), "{refused}");
    }
    assert_eq!(meta(&refused)["error"]["code"], "session_not_open", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}

/// However long its client is silent before it first calls.
#[test]
fn a_gateway_takes_over_what_was_cut_off_as_soon_as_it_begins() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    client.kill();
    let mut next = shop.client_of(&gate);
    // It looks for it beside the handshake. Who comes later finds it taken.
    let notes = shop.folder().join("tmp");
    wait_until("the note is taken over", || is_held(&notes));
    shop.set("tea", 2);
    let mut later = shop.client_of(&gate);
    assert!(!is_error(&later.call("sell", &json!({"item": "rice", "count": 1}))), "it goes on in none");
    let refused = next.call("sell", &json!({"item": "tea", "count": 5}));
    assert!(is_error(&refused), "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 2), "the server saw the other only");
}

/// Whether every note of a session is held by a gateway that lives.
fn is_held(folder: &Path) -> bool {
    let folders = std::fs::read_dir(folder).unwrap().flatten();
    let files = folders.flat_map(|it| std::fs::read_dir(it.path()).into_iter().flatten().flatten());
    let notes: Vec<_> = files.filter(|file| file.file_name() != "lock").collect();
    let is_free = |path: PathBuf| File::open(path).is_ok_and(|note| note.try_lock().is_ok());
    !notes.is_empty() && !notes.iter().any(|note| is_free(note.path()))
}

/// As a client does whose session was ended because no one had used it for long.
#[test]
fn a_client_over_http_that_is_told_to_begin_again_reads_before_it_writes() {
    let shop = Shop::new();
    let gateway = shop.listen();
    assert!(!is_error(&shop.http(&gateway).call("sell", &json!({"item": "rice", "count": 1}))), "it begins");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(gateway.post(Some("long-gone"), &list).status, 404);
    let mut client = shop.http(&gateway);
    for _ in 0..2 {
        let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
        assert_eq!(meta(&refused)["error"]["code"], "session_not_open", "{refused}");
    }
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 10), "the server saw the other only");
    client.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}
