//! What the holder of the log's key can tell of messages and acknowledgements, and what gives it away.

use crate::tamper::folders::{folder_of, log_key, public, signed};
use crate::tamper::lies::{put, rewrite};
use countersign_core::action::{Action, ActionRequest};
use countersign_core::identity::{Auth, KeyName};
use countersign_core::ids::AgentId;
use countersign_core::message::MessageId;
use countersign_core::pact::load::load;
use countersign_core::record::{Entry, Event, Kind, Leaf};
use countersign_core::value::Attributes;
use countersign_engine::audit::audit;
use countersign_engine::request::Request;
use countersign_testing::disk::FaultyDisk;
use countersign_testing::folder::verify;
use serde_json::json;
use std::sync::Arc;

const PACT: &str = r#"
pact = "office"
version = 1

[action.tell]
resource = 'Agent::"{to}"'
allow = 'true'
deliver = { to = "{to}", body = ["text"] }

[action.tell.params]
type = "object"
additionalProperties = false
required = ["to", "text"]
properties.to = { type = "string" }
properties.text = { type = "string" }
"#;

/// The agents, with the bytes that their keys are made of.
const AGENTS: [(&str, u8); 3] = [("ann", 51), ("ben", 52), ("carl", 53)];

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn tell(number: u64, to: &str) -> Request {
    let body = json!({
        "pact": "office", "action": "tell", "idempotency_key": format!("tell-{number:030}"),
        "params": {"to": to, "text": format!("number {number}")},
    });
    let body: Arc<str> = body.to_string().into();
    let request = ActionRequest::parse(&body).unwrap();
    let mut action = Action::new(agent("ann"), Auth::None, Arc::clone(&body), request, Vec::new());
    action.auth = signed(&log_key(51), ("POST", "/v1/actions"), &body, number).without_body(&body);
    Request::Act(Box::new(action))
}

fn acknowledge(nonce: u64, messages: &[u64]) -> Request {
    let messages: Vec<MessageId> = messages.iter().copied().map(MessageId).collect();
    let body = json!({"messages": messages}).to_string();
    let auth = signed(&log_key(52), ("POST", "/v1/inbox/ack"), &body, nonce);
    Request::Acknowledge { by: agent("ben"), auth, messages }
}

/// Three messages to ben, from entry 6 on, of which he acknowledges two in entry 9.
fn folder() -> FaultyDisk {
    let (admin, by) = (log_key(50), AgentId::first_admin());
    let pact = Arc::new(load(PACT).unwrap().pact);
    let auth = signed(&admin, ("POST", "/v1/pacts"), &pact.source, 900);
    let mut furnish = vec![Request::Publish { by: by.clone(), auth, pact }];
    for (name, secret) in AGENTS {
        let key = KeyName::of(log_key(secret).verifying_key().to_bytes());
        let value = json!({"key": key.as_str(), "org": "acme", "roles": [], "standing": "active", "trust": 1});
        let body = json!({"value": value}).to_string();
        let auth = signed(&admin, ("PUT", &format!("/v1/facts/Agent/{name}")), &body, 900 + u64::from(secret));
        let value = Some(Attributes::from_untyped_json(value.as_object().unwrap()).unwrap());
        let fact = format!("Agent::\"{name}\"").parse().unwrap();
        furnish.push(Request::Feed { by: by.clone(), auth, fact, value, if_match: None });
    }
    let told = (1..=3).map(|number| tell(number, "ben")).collect();
    // One that it names was never there.
    let requests = vec![furnish, told, vec![acknowledge(70, &[7, 6, 99])]];
    folder_of(requests, Some(KeyName::of(admin.verifying_key().to_bytes()))).0
}

const MESSAGE: u64 = 6;
const ACKNOWLEDGEMENT: u64 = 9;

/// What an audit says once an entry is told in another way; `None` where it finds nothing.
fn told(at: u64, tell: impl Fn(&mut Entry)) -> Option<(u64, String)> {
    let disk = folder();
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if index == at {
            let mut entry = Entry::decode(Leaf::decode(leaf).unwrap(), Some(payload)).unwrap();
            tell(&mut entry);
            put(leaf, salt, payload, &entry);
        }
    });
    let report = audit(&disk, &public(), &mut |_| ());
    report.map_or_else(
        |error| Some((at, error.to_string())),
        |report| report.differing.into_iter().next().map(|first| (first.entry, first.what)),
    )
}

fn acknowledges(entry: &mut Entry, messages: &[u64]) {
    entry.event = Event::Acknowledgement { messages: messages.iter().copied().map(MessageId).collect() };
}

#[test]
fn honest_messages_verify() {
    let disk = folder();
    verify(&disk, &public(), &[]).unwrap();
    let report = audit(&disk, &public(), &mut |_| ()).unwrap();
    assert_eq!((report.differing_count, report.unverifiable.len()), (0, 0), "{:?}", report.differing);
    assert_eq!(told(MESSAGE, |_| ()), None, "telling the same changes nothing");
    assert_eq!(
        told(ACKNOWLEDGEMENT, |entry| {
            assert_eq!(entry.event.kind(), Kind::Acknowledgement);
            acknowledges(entry, &[6, 7]);
        }),
        None
    );
}

#[test]
fn attack_a_message_goes_to_another_or_to_no_one() {
    let readdress = |to: Option<&'static str>| {
        move |entry: &mut Entry| {
            let Event::Action(decided) = &mut entry.event else { panic!("{entry:?}") };
            let message = decided.decision.message.take().unwrap();
            decided.decision.message = to.map(|to| countersign_core::message::Message { to: agent(to), ..message });
        }
    };
    for to in [Some("carl"), Some("nobody"), None] {
        let (at, what) = told(MESSAGE, readdress(to)).expect("goes unnoticed");
        assert!(at == MESSAGE && what.contains("differs"), "{to:?}: {at}: {what}");
    }
    // Nor does it say more than its pact lets it.
    let (at, what) = told(MESSAGE, |entry| {
        let Event::Action(decided) = &mut entry.event else { panic!("{entry:?}") };
        decided.decision.message.as_mut().unwrap().body = Arc::from(["text".into(), "to".into()]);
    })
    .expect("goes unnoticed");
    assert!(at == MESSAGE && what.contains("the payload differs"), "{at}: {what}");
}

#[test]
fn attack_an_acknowledgement_is_made_up() {
    // More or less than was asked for, or what never waited.
    for messages in [&[6][..], &[6, 7, 8], &[8], &[6, 7, 99]] {
        let (at, what) = told(ACKNOWLEDGEMENT, |entry| acknowledges(entry, messages)).expect("goes unnoticed");
        assert!(at == ACKNOWLEDGEMENT && what.contains("other messages"), "{messages:?}: {at}: {what}");
    }
    let by = |name: &'static str| move |entry: &mut Entry| entry.by = agent(name);
    for name in ["ann", "carl"] {
        let (at, what) = told(ACKNOWLEDGEMENT, by(name)).expect("goes unnoticed");
        assert!(at == ACKNOWLEDGEMENT && what.contains("other messages"), "{name}: {at}: {what}");
    }
    let (at, what) = told(ACKNOWLEDGEMENT, |entry| entry.auth = Auth::None).expect("goes unnoticed");
    assert!(at == ACKNOWLEDGEMENT && what.contains("not signed"), "{at}: {what}");
}
