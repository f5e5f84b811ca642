//! Inboxes over the wire: read by their owner alone, page by page or as a stream; acknowledged once, however often; and what becomes of
//! readers and senders that are halted, revoked or erased in between.

mod attacks;

use super::signed::{ADMIN, AGENT, JSON, identified, lines, name, nonce, now_s, post, put, send, signable};
use super::*;
use countersign_signature::sign;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const OFFICE: &str = r#"
pact = "office"
version = 1

[action.tell]
resource = 'Agent::"{to}"'
allow = 'principal.org == resource.org'
deliver = { to = "{to}", body = ["text"] }

[action.tell.params]
type = "object"
additionalProperties = false
required = ["to", "text"]
properties.to = { type = "string", maxLength = 256 }
properties.text = { type = "string", maxLength = 20000 }
"#;

/// The keys of two more agents.
const BEN: u8 = 30;
const CARL: u8 = 31;

fn agent(key: u8, standing: &str) -> Value {
    json!({"value": {"key": name(key).as_str(), "roles": [], "standing": standing, "org": "acme", "trust": 1}})
}

fn office() -> Server {
    let server = identified();
    let published = send(&server, ADMIN, "POST", "/v1/pacts", &["Content-Type: application/toml"], OFFICE);
    assert_eq!(published.status, 200, "{published:?}");
    for (path, key) in [("ben", BEN), ("carl", CARL)] {
        assert_eq!(put(&server, ADMIN, &format!("/v1/facts/Agent/{path}"), &agent(key, "active")).status, 200);
    }
    server
}

fn tell(server: &Server, by: u8, to: &str, text: &str) -> Value {
    let params = json!({"to": to, "text": text});
    let body =
        json!({"pact": "office", "action": "tell", "params": params, "idempotency_key": format!("{:0>32}", nonce())});
    let told = post(server, by, "/v1/actions", &body.to_string().replace("nonce-of-a-test-", "nonceofatest"));
    assert_eq!(told.status, 200, "{told:?}");
    told.json()
}

fn sent(server: &Server, by: u8, to: &str, text: &str) -> String {
    let verdict = tell(server, by, to, text);
    assert_eq!(verdict["verdict"], "committed", "{verdict}");
    format!("msg_{}", verdict["entry"])
}

fn inbox(server: &Server, by: u8, query: &str) -> Value {
    let reply = send(server, by, "GET", &format!("/v1/inbox{query}"), &[], "");
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn acknowledge(server: &Server, by: u8, messages: &[&str]) -> Value {
    let reply = post(server, by, "/v1/inbox/ack", &json!({"messages": messages}).to_string());
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn names(page: &Value) -> Vec<&str> {
    page["messages"].as_array().unwrap().iter().map(|message| message["message"].as_str().unwrap()).collect()
}

#[test]
fn a_message_comes_with_its_sender_and_again_until_it_is_acknowledged() {
    let server = office();
    let [one, two, three] = ["one", "two", "three"].map(|text| sent(&server, AGENT, "ben", text));
    let page = inbox(&server, BEN, "");
    assert_eq!(names(&page), [&one, &two, &three]);
    let first = &page["messages"][0];
    assert_eq!((&first["from"], &first["auth"]), (&json!("refund-1"), &json!("signature")));
    assert_eq!((&first["pact"]["name"], &first["action"]), (&json!("office"), &json!("tell")));
    assert_eq!(first["body"], json!({"text": "one"}), "what the pact delivers, and no more");
    let page = inbox(&server, BEN, "?limit=2");
    assert_eq!((names(&page), &page["next"], &page["waiting"]), (vec![&*one, &*two], &json!(two), &json!(3)));
    assert_eq!(names(&inbox(&server, BEN, &format!("?after={two}"))), [&three]);
    let done = acknowledge(&server, BEN, &[&two, "msg_0", &two]);
    assert_eq!(
        (&done["acknowledged"], &done["not_waiting"], &done["waiting"]),
        (&json!([two]), &json!(["msg_0"]), &json!(2))
    );
    assert!(done["receipt"].as_str().unwrap().starts_with("rct1."));
    let again = acknowledge(&server, BEN, &[&two]);
    assert_eq!(
        (&again["acknowledged"], again.get("entry")),
        (&json!([]), None),
        "once is enough, and leaves one entry"
    );
    assert_eq!(names(&inbox(&server, BEN, "")), [&one, &three]);
}

#[test]
fn attack_another_agent_an_operator_or_no_one_reads_or_acknowledges_it() {
    let server = office();
    let message = sent(&server, AGENT, "ben", "for ben only");
    for other in [AGENT, CARL] {
        assert_eq!(names(&inbox(&server, other, "")), Vec::<&str>::new());
        assert_eq!(acknowledge(&server, other, &[&message])["acknowledged"], json!([]));
    }
    assert_error(&send(&server, ADMIN, "GET", "/v1/inbox", &[], ""), 403, "not_authorised");
    let body = json!({"messages": [message]}).to_string();
    assert_error(&post(&server, ADMIN, "/v1/inbox/ack", &body), 403, "not_authorised");
    // A name alone is no one's.
    let named = ["Countersign-Agent: ben", JSON];
    assert_error(&server.send("GET", "/v1/inbox", &named[..1], b""), 401, "signature_missing");
    assert_error(&server.send("POST", "/v1/inbox/ack", &named, body.as_bytes()), 401, "signature_missing");
    assert_eq!(names(&inbox(&server, BEN, "")), [&message]);
}

#[test]
fn attack_a_message_says_that_it_is_from_someone_else() {
    let server = office();
    sent(&server, CARL, "ben", r#"{"from": "refund-1", "auth": "signature"}"#);
    assert_eq!(inbox(&server, BEN, "")["messages"][0]["from"], "carl");
    // Nor does a pact let anyone give a sender.
    let body = json!({
        "pact": "office", "action": "tell", "idempotency_key": "0".repeat(32),
        "params": {"to": "ben", "text": "x", "from": "refund-1"},
    });
    assert_eq!(post(&server, CARL, "/v1/actions", &body.to_string()).json()["code"], "invalid_params");
}

#[test]
fn queries_and_bodies_that_make_no_sense_are_refused() {
    let server = office();
    for query in ["?after=813", "?limit=0", "?limit=257", "?wait_ms=60001", "?before=msg_1"] {
        assert_error(&send(&server, BEN, "GET", &format!("/v1/inbox{query}"), &[], ""), 400, "invalid_path");
    }
    let many = json!({"messages": vec!["msg_1"; 1025]}).to_string();
    for body in [
        r#"{"messages": []}"#,
        r#"{"messages": "msg_1"}"#,
        r#"{"messages": ["1"]}"#,
        r#"{"messages": [1]}"#,
        "{}",
        &many,
    ] {
        assert_error(&post(&server, BEN, "/v1/inbox/ack", body), 400, "invalid_field");
    }
}

#[test]
fn a_request_waits_for_the_first_message() {
    let server = office();
    let started = Instant::now();
    assert_eq!(names(&inbox(&server, BEN, "?wait_ms=50")), Vec::<&str>::new());
    assert!(started.elapsed() >= Duration::from_millis(50));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| inbox(&server, BEN, "?wait_ms=60000"));
        let message = sent(&server, AGENT, "ben", "hello");
        assert_eq!(names(&waiting.join().unwrap()), [&message]);
    });
}

/// A stream of events, as it comes.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(server: &Server, by: u8, query: &str) -> Self {
        let (target, authority) = (format!("/v1/inbox{query}"), server.addr.to_string());
        let headers =
            sign(&signed::key(by), &signable("GET", &target, &authority, ""), signed::ORIGIN, now_s(), &nonce())
                .unwrap();
        let mut stream = TcpStream::connect(server.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!("GET {target} HTTP/1.1\r\nHost: {authority}\r\nAccept: text/event-stream\r\n");
        stream.write_all(format!("{head}{}\r\n\r\n", lines(&headers).join("\r\n")).as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    /// The next line that is no piece's length; `None` at the end.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }

    fn status(&mut self) -> String {
        self.line().unwrap()
    }

    /// The next event: its kind and its data.
    fn next(&mut self) -> Option<(String, Value)> {
        let mut kind = String::new();
        loop {
            // A piece without bytes is the last.
            let line = self.line().filter(|line| line != "0")?;
            if let Some(event) = line.strip_prefix("event: ") {
                kind = event.to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((kind, serde_json::from_str(data).unwrap()));
            }
        }
    }

    fn message(&mut self) -> String {
        let (kind, data) = self.next().unwrap();
        assert_eq!(kind, "message", "{data}");
        data["message"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_stream_has_what_waits_and_then_what_comes() {
    let server = office();
    let [one, two] = ["one", "two"].map(|text| sent(&server, AGENT, "ben", text));
    let mut events = Events::open(&server, BEN, "");
    assert_eq!(events.status(), "HTTP/1.1 200 OK");
    assert_eq!([events.message(), events.message()], [one.clone(), two.clone()]);
    let three = sent(&server, CARL, "ben", "three");
    assert_eq!(events.message(), three);
    // Nothing was acknowledged, so another stream has all of them, or those behind one.
    let mut other = Events::open(&server, BEN, &format!("?after={one}"));
    assert_eq!([other.message(), other.message()], [two, three]);
    // It ends at once with the server, and does not hold up its end.
    let started = Instant::now();
    drop(server);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(events.next(), None);
}

#[test]
fn attack_a_reader_that_is_revoked_or_halted_is_told_nothing_more() {
    let server = office();
    let message = sent(&server, AGENT, "ben", "one");
    let mut events = Events::open(&server, BEN, "");
    assert_eq!(events.message(), message);
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/ben", &agent(BEN, "revoked")).status, 200);
    let (kind, said) = events.next().unwrap();
    assert_eq!((kind.as_str(), &said["error"]["code"]), ("refused", &json!("not_authorised")));
    assert_eq!(events.next(), None);
    assert_error(&send(&server, BEN, "GET", "/v1/inbox", &[], ""), 403, "agent_not_active");
    // What comes while it is revoked is refused, and what came before waits for it.
    assert_eq!(tell(&server, AGENT, "ben", "two")["code"], "recipient_not_active");
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/ben", &agent(BEN, "active")).status, 200);
    assert_eq!(names(&inbox(&server, BEN, "")), [&message]);
    let halt = json!({"scope": "agent:ben", "reason": "a test"}).to_string();
    assert_eq!(post(&server, ADMIN, "/v1/halts", &halt).status, 200);
    assert_error(&send(&server, BEN, "GET", "/v1/inbox", &[], ""), 403, "not_authorised");
    let ack = json!({"messages": [message]}).to_string();
    assert_error(&post(&server, BEN, "/v1/inbox/ack", &ack), 403, "not_authorised");
    assert_eq!(post(&server, ADMIN, "/v1/halts/resume", &halt).status, 200);
    assert_eq!(names(&inbox(&server, BEN, "")), [&message]);
}

#[test]
fn attack_what_a_revoked_agent_sent_is_withheld_and_keeps_its_place() {
    let server = office();
    let [one, two] = [sent(&server, CARL, "ben", "one"), sent(&server, AGENT, "ben", "two")];
    let mut events = Events::open(&server, BEN, &format!("?after={one}"));
    assert_eq!(events.message(), two);
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/carl", &agent(CARL, "quarantined")).status, 200);
    let page = inbox(&server, BEN, "");
    assert_eq!(names(&page), [&one, &two]);
    let [withheld, whole] = [&page["messages"][0], &page["messages"][1]];
    assert_eq!(withheld["withheld"], json!({"code": "agent_not_active", "what": "carl"}));
    assert!(withheld.get("body").is_none() && whole["body"]["text"] == "two");
    let mut events = Events::open(&server, BEN, "");
    assert!(events.next().unwrap().1.get("body").is_none());
    assert_eq!(events.message(), two);
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/carl", &agent(CARL, "active")).status, 200);
    let (_, whole) = events.next().unwrap();
    assert_eq!(
        (&whole["message"], &whole["body"]),
        (&json!(one), &json!({"text": "one"})),
        "the same message, now whole"
    );
}

#[test]
fn what_is_erased_keeps_its_place_and_can_be_acknowledged() {
    let server = office();
    let [one, two] = ["one", "two"].map(|text| sent(&server, AGENT, "ben", text));
    let entry: u64 = one.strip_prefix("msg_").unwrap().parse().unwrap();
    let erase = json!({"entries": [entry], "reason": "asked for"}).to_string();
    assert_eq!(post(&server, ADMIN, "/v1/ledger/erasures", &erase).status, 200);
    let page = inbox(&server, BEN, "");
    assert_eq!(names(&page), [&one, &two]);
    let erased = &page["messages"][0];
    assert_eq!(
        (&erased["erased"], &erased["from"], &erased["auth"]),
        (&json!(true), &json!("refund-1"), &json!("signature"))
    );
    assert!(erased.get("body").is_none() && erased.get("action").is_none());
    assert!(!page.to_string().contains("\"one\""), "{page}");
    assert_eq!(acknowledge(&server, BEN, &[&one])["acknowledged"], json!([one]));
    assert_eq!(names(&inbox(&server, BEN, "")), [&two]);
}

#[test]
fn attack_one_agent_follows_over_more_connections_than_it_may() {
    let server = office();
    let mut streams: Vec<Events> = (0..4).map(|_| Events::open(&server, BEN, "")).collect();
    assert!(streams.iter_mut().all(|stream| stream.status() == "HTTP/1.1 200 OK"));
    assert_eq!(Events::open(&server, BEN, "").status(), "HTTP/1.1 429 Too Many Requests");
    assert_eq!(Events::open(&server, CARL, "").status(), "HTTP/1.1 200 OK", "the places of others are theirs");
    let message = sent(&server, AGENT, "ben", "to all of them");
    assert!(streams.iter_mut().all(|stream| stream.message() == message));
    drop(streams.pop());
    // Its end is noticed when something is to be sent, or by the next line without meaning.
    let message = sent(&server, AGENT, "ben", "again");
    assert!(streams.iter_mut().all(|stream| stream.message() == message));
}
