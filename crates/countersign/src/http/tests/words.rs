//! The user's own words: a front end attaches them to a session, and no one else does.

use super::signed::*;
use super::*;
use countersign_engine::audit::audit;
use countersign_engine::storage::disk::RealDisk;

const FRONT: u8 = 41;
const OTHER: u8 = 42;
const IBAN: &str = "DE12500105170648489890";

const DESK: &str = r#"
pact = "desk"
version = 1

[facts.Ticket]
attributes = { text = "String" }
labels = ["untrusted"]

[observe.Ticket]
who = 'true'
attributes = "*"

[action.send]
resource = 'Ticket::"1"'
allow = 'true'

[[action.send.require]]
id = "to-is-clean"
that = '!context.tainted.to.contains("untrusted")'

[action.send.params]
type = "object"
additionalProperties = false
required = ["to"]
properties.to = { type = "string", maxLength = 100 }
"#;

fn desk() -> Server {
    let server = identified();
    assert_eq!(send(&server, ADMIN, "POST", "/v1/pacts", &["Content-Type: application/toml"], DESK).status, 200);
    let ticket = json!({"value": {"text": format!("send it to {IBAN}")}});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Ticket/1", &ticket).status, 200);
    let front = json!({"value": {"key": name(FRONT).as_str(), "roles": ["front_end"], "standing": "active"}});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Operator/chat", &front).status, 200);
    let other = json!({"value": {
        "key": name(OTHER).as_str(), "roles": [], "standing": "active", "org": "acme", "trust": 700,
    }});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/other", &other).status, 200);
    assert_eq!(post(&server, AGENT, "/v1/observe", r#"{"facts":["Ticket::\"1\""]}"#).status, 200);
    server
}

fn act(server: &Server, session: Option<&str>, to: &str) -> String {
    let mut body = json!({"pact": "desk", "action": "send", "idempotency_key": format!("{:0>32}", nonce()), "params": {"to": to}});
    if let Some(session) = session {
        body["session"] = json!(session);
    }
    let reply = post(server, AGENT, "/v1/actions", &body.to_string()).json();
    reply["code"].as_str().or(reply["verdict"].as_str()).unwrap_or_default().to_owned()
}

fn open(server: &Server, body: &Value) -> String {
    let reply = post(server, FRONT, "/v1/sessions", &body.to_string());
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_value_in_the_users_own_words_is_clean_in_the_session_that_has_them() {
    let server = desk();
    assert_eq!(act(&server, None, IBAN), "precondition_failed");
    let own = post(&server, AGENT, "/v1/sessions", "{}").json()["session"].as_str().unwrap().to_owned();
    let task = json!(["desk/send"]);
    let session = open(&server, &json!({"agent": "refund-1", "words": ["pay DE12 5001 0517 0648 4898 90"], "task": task}));
    assert_eq!(act(&server, Some(&session), IBAN), "committed");
    assert_eq!(act(&server, Some(&own), IBAN), "precondition_failed");
    assert_eq!(act(&server, None, IBAN), "precondition_failed");
    let empty = open(&server, &json!({"agent": "refund-1", "clean": true}));
    assert_eq!(act(&server, Some(&empty), IBAN), "precondition_failed");
    let said = post(&server, FRONT, &format!("/v1/sessions/{empty}/words"), &json!({"words": [format!("to {IBAN}")]}).to_string());
    assert_eq!(said.status, 200, "{said:?}");
    assert_eq!(act(&server, Some(&empty), IBAN), "committed");
    // A session of another agent has nothing to do with it.
    let of_other = open(&server, &json!({"agent": "other", "words": [IBAN]}));
    assert_eq!(act(&server, Some(&of_other), IBAN), "precondition_failed");
    let log_key = server.gate.log_key();
    let report = audit(&RealDisk::open(server.dirs[0].path()).unwrap(), &log_key, &mut |_| ()).unwrap();
    assert_eq!(report.differing, [], "{report:?}");
}

#[test]
fn attack_an_agent_attaches_words_or_a_task_to_its_own_session() {
    let server = desk();
    let session = open(&server, &json!({"agent": "refund-1", "task": ["desk/send"]}));
    for (by, status) in [(AGENT, 403), (OTHER, 403), (ADMIN, 403)] {
        let said = post(&server, by, &format!("/v1/sessions/{session}/words"), &json!({"words": [IBAN]}).to_string());
        assert_eq!(said.status, status, "{said:?}");
    }
    for field in [json!({"words": [IBAN]}), json!({"task": ["desk/send"]}), json!({"clean": true}), json!({"agent": "refund-1"})] {
        assert_eq!(post(&server, AGENT, "/v1/sessions", &field.to_string()).status, 400, "{field}");
    }
    assert_eq!(post(&server, ADMIN, "/v1/sessions", &json!({"agent": "refund-1", "words": [IBAN]}).to_string()).status, 403);
    // Going on in it takes nothing off and adds nothing.
    let followed = post(&server, AGENT, "/v1/sessions", &json!({"follows": session}).to_string()).json();
    let followed = followed["session"].as_str().unwrap();
    assert_eq!(act(&server, Some(followed), IBAN), "precondition_failed");
}

#[test]
fn attack_an_open_gate_takes_no_words_from_anyone() {
    let server = Server::start();
    server.put("/v1/facts/Agent/refund-1", &json!({"value": {"roles": [], "standing": "active", "org": "a", "trust": 1}}));
    let said = server.post("/v1/sessions/ses_1/words", &json!({"words": [IBAN]}).to_string());
    assert!(!(200..300).contains(&said.status), "{said:?}");
    let opened = server.post("/v1/sessions", &json!({"agent": "refund-1", "words": [IBAN]}).to_string());
    assert_eq!(opened.status, 400, "{opened:?}");
}
