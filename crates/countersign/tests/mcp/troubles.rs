//! Servers that misbehave, and clients that go away: nobody else is troubled, and nothing is left behind.

use crate::mcp::client::PATIENCE;
use crate::mcp::processes::{children, is_gone, wait_until};
use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
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
fn half_a_line_is_no_answer_and_the_next_call_finds_a_server_again() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    let cut = client.request("tools/call", &json!({"name": "die_half", "arguments": {}}));
    assert!(cut["error"]["message"].as_str().unwrap().contains("no answer from the server `bank`"), "{cut}");
    wait_until("the server is started again", || {
        let again = client.request("tools/call", &json!({"name": "get_account", "arguments": {"id": "1"}}));
        again["result"]["structuredContent"]["status"] == "active"
    });
    client.end();
}

#[test]
fn a_flood_of_what_is_no_protocol_ends_the_link_and_the_call() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    let flooded = client.request("tools/call", &json!({"name": "flood", "arguments": {}}));
    assert!(flooded["error"]["message"].as_str().unwrap().contains("lines in a row were no messages"), "{flooded}");
    client.end();
}

#[test]
fn answers_to_nothing_that_was_asked_are_passed_over() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    client.tools();
    for _ in 0..3 {
        let next = client.message_after(|client| client.ask("tools/call", &json!({"name": "stray", "arguments": {}})));
        assert_eq!(text(&next["result"]), "the right one");
    }
    client.end();
}

#[test]
fn a_list_that_changes_under_a_session_is_read_again_and_what_changed_is_refused() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    assert_eq!(client.call("get_account", &json!({"id": "1"}))["structuredContent"]["status"], "active");
    let change = client.ask("tools/call", &json!({"name": "change", "arguments": {}}));
    assert_eq!(client.message()["method"], "notifications/tools/list_changed");
    assert_eq!(text(&client.answer(change)["result"]), "changed");
    // The client has not listed again; the gateway has.
    let refused = client.call("get_account", &json!({"id": "1"}));
    let said = &refused["_meta"]["countersign"];
    assert_eq!(said["failed"][0]["precondition"], "definition-as-approved", "{refused}");
    let tools = client.tools();
    assert!(!tools.contains(&"get_account".to_owned()) && tools.contains(&"transfer".to_owned()), "{tools:?}");
    client.end();
}

#[test]
fn a_list_that_has_no_end_or_does_not_come_is_an_answer_and_not_a_wait() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "endless")], &[]);
    client.initialize();
    let refused = client.call("get_account", &json!({"id": "1"}));
    assert_eq!(refused["_meta"]["countersign"]["error"]["code"], "tool_unknown", "{refused}");
    client.end();
    let mut client = sandbox.client(&[("bank", "unlisted")], &[]);
    client.initialize();
    let refused = client.call("get_account", &json!({"id": "1"}));
    let error = &refused["_meta"]["countersign"]["error"];
    assert_eq!(error["code"], "upstream_failed", "{refused}");
    assert!(error["message"].as_str().unwrap().contains("not today"), "{refused}");
    client.end();
}

#[test]
fn a_server_that_does_not_even_start_is_said_to_the_client() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "stillborn")], &[]);
    let hello = crate::mcp::http::hello();
    let answer = client.request("initialize", &hello["params"]);
    assert!(answer["error"]["message"].as_str().unwrap().contains("no answer from the server `bank`"), "{answer}");
    client.end();
    let missing = ["--upstream", "bank=/nowhere/at/all"];
    let mut client = sandbox.client(&[], &missing);
    let answer = client.request("initialize", &hello["params"]);
    assert!(answer["error"]["message"].as_str().unwrap().contains("/nowhere/at/all could not be started"), "{answer}");
    client.end();
}

#[test]
fn a_server_that_refuses_to_end_is_killed() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "stubborn")], &[]);
    client.initialize();
    assert_eq!(client.call("get_account", &json!({"id": "1"}))["structuredContent"]["status"], "active");
    let servers = children(client.pid());
    assert_eq!(servers.len(), 1);
    assert_eq!(client.end().0, 0);
    wait_until("it is gone", || is_gone(servers[0]));
}
