//! Judged from the receiving side: what a sender may not send, or sends again, and what comes of it.

use super::*;
use crate::http::tests::signed::send_with;

const DESK: &str = r#"
pact = "desk"
version = 1

[action.tell]
resource = 'Agent::"{to}"'
allow = 'principal.org == resource.org'
deliver = { to = "{to}", body = ["text"] }

[action.tell.params]
type = "object"
additionalProperties = false
required = ["to", "text"]
properties.to = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 64 }

[[action.tell.require]]
id = "is-modest"
that = 'context.text != "boast"'
on_fail = "review"
"#;

/// The keys of an agent of another organisation, and of a reviewer.
const RIVAL: u8 = 32;
const VERA: u8 = 33;

fn desk() -> Server {
    let server = office();
    let published = send(&server, ADMIN, "POST", "/v1/pacts", &["Content-Type: application/toml"], DESK);
    assert_eq!(published.status, 200, "{published:?}");
    let mut rival = agent(RIVAL, "active");
    rival["value"]["org"] = json!("rival");
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/rival", &rival).status, 200);
    let vera = json!({"value": {"key": name(VERA).as_str(), "roles": ["reviewer"], "standing": "active"}});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Operator/vera", &vera).status, 200);
    server
}

fn asked(text: &str) -> String {
    let key = format!("{:0>32}", nonce().replace('-', ""));
    json!({"pact": "desk", "action": "tell", "params": {"to": "ben", "text": text}, "idempotency_key": key}).to_string()
}

/// What a sender was told, by code or verdict.
fn said(reply: &Reply) -> String {
    let said = reply.json();
    let code = [&said["code"], &said["error"]["code"], &said["verdict"]].into_iter().find_map(Value::as_str);
    code.unwrap_or_default().to_owned()
}

#[test]
fn attack_what_its_sender_may_not_send_reaches_no_inbox() {
    let server = desk();
    let act = |by: u8, text: &str| post(&server, by, "/v1/actions", &asked(text));
    let nothing_came = |why: &str| {
        let page = inbox(&server, BEN, "");
        assert_eq!((&page["messages"], &page["waiting"]), (&json!([]), &json!(0)), "{why}: {page}");
    };
    assert_eq!(said(&act(RIVAL, "hello")), "not_allowed");
    nothing_came("from another organisation");
    assert_eq!(said(&act(AGENT, &"x".repeat(65))), "invalid_params");
    nothing_came("too long");
    assert_eq!(said(&post(&server, AGENT, "/v1/actions/check", &asked("hello"))), "committed");
    nothing_came("only asked whether it might");
    let review = act(AGENT, "boast").json()["review"].as_str().unwrap().to_owned();
    nothing_came("waits for a person");
    let refused = post(&server, VERA, &format!("/v1/reviews/{review}/refuse"), r#"{"reason": "no"}"#);
    assert_eq!(refused.status, 200, "{refused:?}");
    nothing_came("a person refused it");
    let group = format!("[{},{}]", asked("hello"), asked("boast"));
    let batch = signed_batch(&server, &group, &[asked_in(&group, 0), asked_in(&group, 1)]);
    assert_eq!(batch.json()["results"][0]["code"], "group_rejected", "{batch:?}");
    nothing_came("part of a group that was rejected");
    let halt = json!({"scope": "pact:desk", "reason": "a test"}).to_string();
    assert_eq!(post(&server, ADMIN, "/v1/halts", &halt).status, 200);
    assert_eq!(said(&act(AGENT, "hello")), "halted");
    nothing_came("halted");
    assert_eq!(post(&server, ADMIN, "/v1/halts/resume", &halt).status, 200);
    let mut gone = agent(AGENT, "revoked");
    gone["value"]["roles"] = json!(["refunder"]);
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/refund-1", &gone).status, 200);
    assert_eq!(said(&act(AGENT, "hello")), "agent_not_active");
    nothing_came("its sender is revoked");
    assert_eq!(said(&act(CARL, "hello")), "committed");
    assert_eq!(inbox(&server, BEN, "")["messages"][0]["from"], "carl", "what may be sent comes");
}

/// An action of a list of two, as it was written.
fn asked_in(group: &str, at: usize) -> String {
    serde_json::from_str::<Vec<Box<serde_json::value::RawValue>>>(group).unwrap()[at].get().to_owned()
}

fn signed_batch(server: &Server, body: &str, actions: &[String]) -> Reply {
    use countersign_core::identity::BatchDigests;
    use countersign_core::ids::Digest;
    let ids: Vec<Digest> = actions.iter().map(|action| Digest::of(action.as_bytes())).collect();
    let (target, authority) = ("/v1/actions/batch?atomic=true", server.addr.to_string());
    let request = countersign_signature::Signable {
        actions: Some(BatchDigests::of_actions(&ids)),
        ..signable("POST", target, &authority, body)
    };
    let headers = sign(&signed::key(AGENT), &request, signed::ORIGIN, now_s(), &nonce()).unwrap();
    send_with(server, "POST", target, &[JSON], &headers, body)
}

#[test]
fn attack_a_message_and_its_acknowledgement_are_played_back() {
    let server = desk();
    let authority = server.addr.to_string();
    let recorded = |by: u8, path: &'static str, body: String| {
        let headers =
            sign(&signed::key(by), &signable("POST", path, &authority, &body), signed::ORIGIN, now_s(), &nonce());
        let headers = headers.unwrap();
        let server = &server;
        move || send_with(server, "POST", path, &[JSON], &headers, &body)
    };
    let body = asked("hello");
    let sent = recorded(AGENT, "/v1/actions", body.clone());
    let first = sent();
    assert_eq!(said(&first), "committed");
    let name = format!("msg_{}", first.json()["entry"]);
    let one_waits = || assert_eq!(names(&inbox(&server, BEN, "")), [&name]);
    assert_ne!(sent().json()["verdict"], "rejected", "answered as before, or refused at the door");
    one_waits();
    // Signed again by its sender: the same action.
    let again = post(&server, AGENT, "/v1/actions", &body).json();
    assert_eq!((&again["entry"], &again["repeated"]), (&first.json()["entry"], &json!(true)));
    one_waits();
    // Under the key of another message.
    assert_eq!(said(&post(&server, AGENT, "/v1/actions", &body.replace("hello", "twice"))), "idempotency_key_reused");
    // Someone else's body is someone else's message, under a name of its own.
    assert_eq!(said(&post(&server, CARL, "/v1/actions", &body)), "committed");
    let page = inbox(&server, BEN, "");
    assert_eq!(page["messages"][1]["from"], "carl");
    let of_carl = page["messages"][1]["message"].as_str().unwrap().to_owned();
    let acknowledged = recorded(BEN, "/v1/inbox/ack", json!({"messages": [name]}).to_string());
    assert_eq!(acknowledged().json()["acknowledged"], json!([name]));
    acknowledged();
    sent();
    post(&server, AGENT, "/v1/actions", &body);
    assert_eq!(names(&inbox(&server, BEN, "")), [&of_carl], "what was acknowledged never comes back");
}
