//! Servers that misbehave, and clients that go away: nobody else is troubled, and nothing is left behind.

use crate::client::PATIENCE;
use crate::sandbox::Sandbox;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// The processes below one, by id.
fn children(of: u32) -> Vec<u32> {
    let path = format!("/proc/{of}/task");
    let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>()).collect()
}

fn open_files(of: u32) -> usize {
    std::fs::read_dir(format!("/proc/{of}/fd")).map_or(0, Iterator::count)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_dies_in_a_call_is_started_again() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    let died = client.request("tools/call", &json!({"name": "die", "arguments": {}}));
    assert!(died["error"]["message"].as_str().unwrap().contains("no answer from the server `bank`"), "{died}");
    let until = Instant::now() + PATIENCE;
    loop {
        let again = client.request("tools/call", &json!({"name": "get_account", "arguments": {"id": "1"}}));
        if again["result"]["structuredContent"]["status"] == "active" {
            break;
        }
        assert!(Instant::now() < until, "{again}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = client.pid();
    assert_eq!(children(pid).len(), 1, "the dead one is no zombie");
    client.end();
}

#[test]
fn garbage_duplicates_and_forgeries_reach_nobody() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    assert_eq!(text(&client.call("garbage", &json!({}))), "after garbage");
    let id = client.ask("tools/call", &json!({"name": "twice", "arguments": {}}));
    assert_eq!(text(&client.answer(id)["result"]), "first");
    let next = client.message_after(|client| client.ask("tools/call", &json!({"name": "forge", "arguments": {}})));
    assert_eq!(next["result"]["_meta"], json!({}), "{next}");
    // What could be read in two ways is not read at all.
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_account","name":"transfer","arguments":{}}}"#);
    assert_eq!(client.message()["error"]["code"], -32602);
    client.send("not JSON");
    assert_eq!(client.message()["error"]["code"], -32700);
    client.end();
}

#[test]
fn a_large_result_passes_and_a_huge_one_ends_the_link() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    assert_eq!(text(&client.call("huge", &json!({"bytes": 4_000_000}))).len(), 4_000_000);
    let huge = client.request("tools/call", &json!({"name": "huge", "arguments": {"bytes": 40_000_000}}));
    assert!(huge["error"]["message"].as_str().unwrap().contains("more than"), "{huge}");
    client.end();
}

#[test]
fn a_slow_call_holds_nobody_else_up_and_what_was_asked_is_still_answered_at_the_end() {
    let sandbox = Sandbox::approved();
    sandbox.approve(&[("other", "usual")]);
    let mut client = sandbox.client(&[("bank", "usual"), ("other", "usual")], &[]);
    client.initialize();
    client.tools();
    let slow = client.ask("tools/call", &json!({"name": "bank__slow", "arguments": {"ms": 1500}}));
    let quick = client.ask("tools/call", &json!({"name": "other__get_account", "arguments": {"id": "1"}}));
    assert_eq!(client.message()["id"], quick);
    client.close_input();
    assert_eq!(text(&client.answer(slow)["result"]), "at last");
    client.end();
}

#[test]
fn sessions_in_parallel_leave_neither_processes_nor_descriptors() {
    let sandbox = Sandbox::approved();
    let server = sandbox.listen(&[("bank", "usual")]);
    let pid = server.pid();
    // One session first, so that what is opened once is open.
    session(&server, 0);
    wait_until("the first server ends", || children(pid).is_empty());
    let before = open_files(pid);
    std::thread::scope(|scope| {
        for number in 1..=16 {
            let server = &server;
            scope.spawn(move || session(server, number));
        }
    });
    wait_until("every server ends", || children(pid).is_empty());
    wait_until("every descriptor is closed", || open_files(pid) <= before + 2);
    server.end();
}

/// One client's whole session; ids are the same in all of them.
fn session(server: &crate::http::Http, number: u64) {
    let hello = crate::http::hello();
    let session = server.post(None, &hello).session.expect("has a session");
    server.post(Some(&session), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for _ in 0..3 {
        let said = format!("session {number}");
        let echo = json!({"jsonrpc": "2.0", "id": 2, "method": "x/echo", "params": {"said": said}});
        let answer = server.post(Some(&session), &echo);
        assert!(answer.body["result"]["line"].as_str().unwrap_or_default().contains(&said), "{}", answer.body);
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_account", "arguments": {"id": "1"}}});
        assert_eq!(server.post(Some(&session), &call).body["result"]["structuredContent"]["status"], "active");
    }
    assert_eq!(server.delete(&session), 204);
}
