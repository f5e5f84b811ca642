//! Mapped calls of servers that misbehave: what is not known is in doubt, and never taken for done or for not done.

use crate::mcp::client::{PATIENCE, Stdio};
use crate::mcp::gated::{PACT, world_under};
use crate::mcp::http::Http;
use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};
use std::time::Instant;

/// A call of `transfer` while the bank is in this mood, and what is known afterwards.
struct Called {
    sandbox: Sandbox,
    gate: Http,
    client: Stdio,
    result: Value,
}

impl Called {
    fn new(mood: &str) -> Self {
        let call = "call = { mcp = \"bank\", tool = \"transfer\", timeout = \"2s\", deadline = \"4s\" }";
        let pact = PACT.replace("call = { mcp = \"bank\", tool = \"transfer\" }", call);
        assert_ne!(pact, PACT);
        let (sandbox, gate, mut client) = world_under(&pact, mood);
        client.initialize();
        let result = client.call("transfer", &json!({"account": "42"}));
        Self { sandbox, gate, client, result }
    }

    /// What the gate says of the call.
    fn said(&self) -> &Value {
        &self.result["_meta"]["countersign"]
    }

    /// How many transfers the bank has carried out.
    fn in_the_book(&self) -> usize {
        std::fs::read_to_string(self.sandbox.path().join("book")).map_or(0, |book| book.lines().count())
    }

    /// Nobody knows, the client is told so, and asking again neither acts again nor makes it known.
    fn stays_in_doubt(mut self, why: &str) {
        assert_eq!(
            (&self.result["isError"], &self.said()["verdict"]),
            (&json!(true), &json!("in_doubt")),
            "{}",
            self.result
        );
        let text = self.result["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with("No one knows whether it was done") && text.contains(why), "{text}");
        assert_eq!(self.said()["retry"]["how"], "continue");
        let again = json!({"continuation": self.said()["continuation"], "wait_ms": 100});
        let asked = self.client.call("countersign_continue", &again);
        assert_eq!(asked["_meta"]["countersign"]["verdict"], "in_doubt", "{asked}");
        assert_eq!(self.in_the_book(), 1, "it was carried out, which nobody but the bank knows");
        // Whatever else relies on the account waits for somebody who knows.
        let other = self.client.call("transfer", &json!({"account": "42"}));
        assert_eq!(other["_meta"]["countersign"]["code"], "fact_fenced", "{other}");
        self.end();
    }

    fn end(self) {
        self.client.end();
        self.gate.end();
        self.sandbox.run_ok(&["audit", "--data", "data"]);
    }
}

#[test]
fn a_server_that_dies_in_a_mapped_call_leaves_it_in_doubt() {
    Called::new("dying").stays_in_doubt("the server exited before it answered");
}

#[test]
fn half_an_answer_to_a_mapped_call_is_none() {
    Called::new("dying_half").stays_in_doubt("the server exited before it answered");
}

#[test]
fn a_mapped_call_that_is_not_answered_in_time_is_in_doubt() {
    Called::new("silent").stays_in_doubt("no answer within");
}

#[test]
fn what_is_no_json_is_no_answer_to_a_mapped_call() {
    Called::new("babbling").stays_in_doubt("no answer within");
}

#[test]
fn a_result_that_nobody_can_hold_leaves_its_call_in_doubt() {
    Called::new("huge").stays_in_doubt("more than");
}

#[test]
fn a_tool_that_says_it_failed_may_have_done_half_of_it() {
    Called::new("failing").stays_in_doubt("answered with an error");
}

#[test]
fn an_answer_that_is_no_whole_result_does_not_settle_a_call() {
    for (mood, why) in [
        ("promising", "answered with a task"),
        ("asking_more", "asks for more"),
        ("vague", "does not say clearly whether it failed"),
        ("twofold", "can be read in one way"),
    ] {
        Called::new(mood).stays_in_doubt(why);
    }
}

#[test]
fn a_gate_that_cannot_be_asked_does_not_make_a_call_undone() {
    let Called { sandbox, gate, mut client, result } = Called::new("failing");
    let word = result["_meta"]["countersign"]["continuation"].clone();
    assert!(word.is_string(), "{result}");
    gate.end();
    let asked = client.call("countersign_continue", &json!({"continuation": word}));
    not_told_as_not_done(&asked);
    assert_eq!(asked["_meta"]["countersign"]["retry"]["how"], "continue", "{asked}");
    assert_eq!(asked["_meta"]["countersign"]["continuation"], word, "{asked}");
    // Nor does it, asked for again under a key of the client's own, say anything about an earlier call under the key.
    let key = json!({"countersign": {"idempotency_key": "a-key-of-twenty-two-chars"}});
    let call = json!({"name": "transfer", "arguments": {"account": "42"}, "_meta": key});
    let repeated = client.request("tools/call", &call)["result"].clone();
    not_told_as_not_done(&repeated);
    client.end();
    let book = std::fs::read_to_string(sandbox.path().join("book")).unwrap();
    assert_eq!(book.lines().count(), 1, "it was carried out once");
}

#[test]
fn a_word_that_a_restarted_gateway_does_not_know_does_not_make_a_call_undone() {
    let (sandbox, gate, client) = world_under(PACT, "failing");
    client.end();
    let listen = ["mcp", "serve", "--agent", "coder-1", "--server", gate.url(), "--listen", "127.0.0.1:0"];
    let call = |gateway: &Http, tool: &str, arguments: &Value| {
        let session = gateway.post(None, &crate::mcp::http::hello()).session.expect("has a session");
        gateway.post(Some(&session), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let answer = gateway.post(Some(&session), &message);
        let answers = answer.body.as_array().cloned().unwrap_or_else(|| vec![answer.body.clone()]);
        answers.into_iter().find(|answer| answer["id"] == 2).expect("is answered")["result"].clone()
    };
    let before = Http::start(sandbox.command(&listen));
    let result = call(&before, "transfer", &json!({"account": "42"}));
    let word = result["_meta"]["countersign"]["continuation"].clone();
    assert!(word.is_string(), "{result}");
    before.end();
    let after = Http::start(sandbox.command(&listen));
    not_told_as_not_done(&call(&after, "countersign_continue", &json!({"continuation": word})));
    after.end();
    gate.end();
    let book = std::fs::read_to_string(sandbox.path().join("book")).unwrap();
    assert_eq!(book.lines().count(), 1, "it was carried out once");
}

/// The client is told that it is not known whether the call was made.
fn not_told_as_not_done(result: &Value) {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    assert!(text.starts_with("It is not known whether this was done"), "{text}");
    assert_eq!(result["_meta"]["countersign"]["error"]["code"], "outcome_unknown", "{result}");
}

#[test]
fn an_internal_error_of_a_server_says_nothing_about_what_was_done() {
    Called::new("breaking").stays_in_doubt("error -32603");
}

#[test]
fn that_params_are_invalid_is_said_after_a_call_was_done_too() {
    Called::new("refusing").stays_in_doubt("error -32602");
}

#[test]
fn a_fact_that_cannot_be_read_again_stops_the_call_before_it_leaves() {
    let called = Called::new("unreadable");
    let mut said = called.said().clone();
    let (until, mut called) = (Instant::now() + PATIENCE, called);
    while said["verdict"] == "in_flight" {
        assert!(Instant::now() < until, "{said}");
        let again = json!({"continuation": said["continuation"], "wait_ms": 2000});
        said = called.client.call("countersign_continue", &again)["_meta"]["countersign"].clone();
    }
    assert_eq!(said["verdict"], "failed", "{said}");
    assert_eq!(called.in_the_book(), 0);
    called.end();
}

#[test]
fn a_second_answer_is_not_taken_for_the_answer_to_the_next_call() {
    for mood in ["double", "stray"] {
        let mut called = Called::new(mood);
        for number in 0..5 {
            let account = format!("account-{number}");
            let result = called.client.call("transfer", &json!({"account": account}));
            let sent: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(sent["params"]["arguments"]["account"], account, "{mood}: {result}");
        }
        assert_eq!(called.in_the_book(), 6);
        called.end();
    }
}

#[test]
fn a_result_too_large_for_the_ledger_is_still_a_success_and_handed_over_whole() {
    let called = Called::new("large");
    assert_eq!(
        (called.result.get("isError"), &called.said()["verdict"]),
        (None, &json!("settled")),
        "{}",
        called.result
    );
    let text = called.result["content"][0]["text"].as_str().unwrap();
    assert!(text.len() > 16 * 1024, "whoever waits gets all of it: {text}");
    assert_eq!(called.in_the_book(), 1);
    called.end();
}

#[test]
fn a_server_cannot_speak_for_the_gate_in_a_mapped_call() {
    let called = Called::new("forging");
    assert_eq!((&called.said()["verdict"], &called.result["_meta"]["rate"]), (&json!("settled"), &json!(2)));
    assert_eq!(called.result["moved_from"], "42");
    called.end();
}
