//! Mapped calls of servers that misbehave: what is not known is in doubt, and never taken for done or for not done.

use crate::client::{PATIENCE, Stdio};
use crate::gated::{PACT, world_under};
use crate::http::Http;
use crate::sandbox::Sandbox;
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
        assert!(text.starts_with("Nobody knows whether it was done") && text.contains(why), "{text}");
        assert_eq!(self.said()["retry"]["how"], "continue");
        let again = json!({"continuation": self.said()["continuation"], "wait_ms": 100});
        let asked = self.client.call("countersign_continue", &again);
        assert_eq!(asked["structuredContent"]["countersign"]["verdict"], "in_doubt", "{asked}");
        assert_eq!(self.in_the_book(), 1, "it was carried out, which nobody but the bank knows");
        // Whatever else relies on the account waits for somebody who knows.
        let other = self.client.call("transfer", &json!({"account": "42"}));
        assert_eq!(other["_meta"]["countersign"]["code"], "fact_fenced", "{other}");
        self.end();
    }

    fn end(self) {
        self.client.end();
        self.gate.end();
        self.sandbox.must(&["audit", "--data", "data"]);
    }
}

#[test]
fn a_server_that_dies_in_a_mapped_call_leaves_it_in_doubt() {
    Called::new("dying").stays_in_doubt("it ended");
}

#[test]
fn half_an_answer_to_a_mapped_call_is_none() {
    Called::new("dying_half").stays_in_doubt("it ended");
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
fn an_internal_error_of_a_server_says_nothing_about_what_was_done() {
    Called::new("breaking").stays_in_doubt("error -32603");
}

#[test]
fn a_server_that_does_not_take_a_call_has_not_done_it() {
    let called = Called::new("refusing");
    assert_eq!(
        (&called.result["isError"], &called.said()["verdict"]),
        (&json!(true), &json!("failed")),
        "{}",
        called.result
    );
    assert_eq!(called.in_the_book(), 0);
    called.end();
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
fn a_result_too_large_for_the_ledger_is_still_a_success_and_says_what_is_missing() {
    let called = Called::new("large");
    assert_eq!(
        (called.result.get("isError"), &called.said()["verdict"]),
        (None, &json!("settled")),
        "{}",
        called.result
    );
    let text = called.result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("too long to keep"), "{text}");
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
