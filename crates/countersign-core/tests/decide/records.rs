//! Entries as bytes: what others read (vectors/entries.json), and what is refused.

use crate::decide::world::World;
use countersign_core::halt::Scope;
use countersign_core::identity::{Auth, KeyName, Signed, first_operator};
use countersign_core::ids::{AgentId, Tag};
use countersign_core::message::MessageId;
use countersign_core::record::{Context, Decided, DecodeError, Encoder, Entry, Event, Given, Leaf, LeafIdentity, show};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;

const PACT: &str = r#"
pact = "billing"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[action.refund]
resource = 'Account::"{account}"'
reads.other = 'Account::"{second}"'
allow = 'true'
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount", "second"]
properties.account = { type = "string", maxLength = 64 }
properties.second = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.refund.require]]
id = "account-is-active"
that = 'resource.status == "active"'
"#;

const OFFICE: &str = r#"
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

/// A request that someone signed. Nothing here verifies it.
fn signed() -> Auth {
    let key = KeyName::of([9; 32]);
    Auth::Signature(Arc::new(Signed {
        input: format!("(\"@method\" \"@path\");created=1794700000;nonce=\"0123456789abcdef\";keyid=\"{key}\"").into(),
        key,
        method: "PUT".into(),
        authority: "gate.test".into(),
        path: "/v1/facts/Operator/admin".into(),
        query: None,
        if_match: None,
        batch: None,
        body: Some("{}".into()),
        signature: [7; 64],
    }))
}

/// An action that committed, one that was rejected over a fact that is not there, two feeds, of which one was signed and is about an
/// operator, a message and its acknowledgement, and a halt with all that a context has.
fn entries() -> Vec<Entry> {
    let act = |other: &str| {
        let params = json!({"account": "42", "amount": 5, "second": other});
        let mut world = World::new(PACT, "refund", params).with_agent(&["refunder"]);
        world.feed("Account::\"42\"", Some(json!({"status": "active", "balance": 900})));
        world.feed("Account::\"\u{e9} \\\"quoted\\\"\"", Some(json!({"status": "active", "balance": 1})));
        world.observe(&["Account::\"42\""]);
        let (action, mut decision) = (world.request(), world.decide());
        for write in &mut decision.writes {
            write.tag.get_or_insert(Tag([7; 12]));
        }
        (action.agent.clone(), Event::Action(Box::new(Decided { action: Box::new(action), decision })))
    };
    let mut world = World::new(PACT, "refund", json!({}));
    world.feed("Account::\"42\"", Some(json!({"status": "active", "balance": 900})));
    let mut write = world.state.feed(&"Account::\"42\"".parse().unwrap(), None);
    write.tag = Some(Tag([9; 12]));
    let (fact, value) = first_operator(&KeyName::of([8; 32]));
    let mut admin = world.state.feed(&fact, Some(value));
    admin.tag = Some(Tag([6; 12]));
    let operator = || AgentId::new("operator").unwrap();
    let mut office = World::new(OFFICE, "tell", json!({"to": "ben", "text": "look"})).with_agent(&[]);
    office.feed("Agent::\"ben\"", Some(json!({"org": "acme", "roles": [], "standing": "active", "trust": 1})));
    let (action, decision) = (Box::new(office.request()), office.decide());
    let message = (action.agent.clone(), Event::Action(Box::new(Decided { action, decision })));
    let acknowledged = Event::Acknowledgement { messages: vec![MessageId(24)] };
    let given = Given {
        session: Some("ses_1".into()),
        because_of: vec![3, 70_000],
        labels: vec!["outside".into(), "untrusted".into()],
        severity: Some(40),
        confidence: Some(999),
        score: vec![("acme".into(), -3), ("zeta".into(), 500)],
    };
    let events = [
        (act("\u{e9} \"quoted\""), Context::default()),
        (act("nobody"), Context::default()),
        ((operator(), Event::Feed { write, held: None }), Context::default()),
        ((operator(), Event::Feed { write: admin, held: None }), Context::default()),
        (message, Context::default()),
        ((AgentId::new("ben").unwrap(), acknowledged), Context::default()),
        ((operator(), Event::Halt { scope: Scope::All, reason: "why".into() }), Context::new(given).unwrap()),
    ];
    let entry = |(at, ((by, event), context)): (u64, ((AgentId, Event), Context))| Entry {
        index: at,
        time_ms: 1_794_700_000_000 + at,
        by,
        auth: if event.identity().is_some() { signed() } else { Auth::None },
        context,
        event,
    };
    (20..).zip(events).map(entry).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_vectors_are_what_the_code_does() {
    let mut vectors = Vec::new();
    for entry in entries() {
        let (mut payloads, mut leaves) = (Encoder::default(), Encoder::default());
        let payload = payloads.payload(&entry);
        let leaf = leaves.leaf(&entry, &[5; 32]);
        let shown = show(leaf, Some(payload.as_bytes())).unwrap();
        let json = |text: &str| serde_json::from_str::<Json>(text).unwrap();
        vectors.push(json!({
            "leaf": hex(leaf), "payload": payload,
            "shown": {"leaf": json(&shown.leaf), "payload": json(&shown.payload.unwrap())},
        }));
    }
    let about =
        "Entries of docs/formats/entry.md: the bytes of the leaf, the payload as text, and both as they are shown.";
    let now = format!("{}\n", serde_json::to_string_pretty(&json!({"about": about, "entries": vectors})).unwrap());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/entries.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == now,
        "vectors/entries.json differs from what the code does: a format changed. \
         If that is meant, write it again with UPDATE_GOLDEN=1 and say so in the changelog."
    );
}

#[test]
fn a_leaf_has_one_spelling_and_no_strange_members() {
    let halt = entries().pop().unwrap();
    let leaf = Encoder::default().leaf(&halt, &[5; 32]).to_vec();
    Leaf::decode(&leaf).unwrap();
    let refused = |bytes: &[u8]| Leaf::decode(bytes).unwrap_err();
    for end in 0..leaf.len() {
        refused(&leaf[..end]);
    }
    // The format and the kind in two bytes each, where one will do.
    for at in [2, 4] {
        let mut longer = leaf.clone();
        longer.splice(at..=at, [0x18, leaf[at]]);
        assert!(matches!(refused(&longer), DecodeError::NotCanonical), "{at}");
    }
    let mut later = leaf.clone();
    later[2] = 5;
    assert!(matches!(refused(&later), DecodeError::Format(5)));
    let mut unknown = leaf.clone();
    unknown[4] = 0;
    assert!(matches!(refused(&unknown), DecodeError::Kind(0)));
    let with = |member: &[u8]| {
        let mut more = [&leaf[..], member].concat();
        more[0] += 1;
        more
    };
    assert!(matches!(refused(&with(&[0x18, 26, 0])), DecodeError::Member { member: 26, .. }));
    assert!(matches!(refused(&with(&[14, 0])), DecodeError::Member { member: 14, .. }), "no halt has an effect");
    assert!(matches!(refused(&with(&[0x18, 24, 1])), DecodeError::NotCanonical), "a member twice");
    assert!(matches!(refused(br#"{"auth":"none","v":2}"#), DecodeError::Format(2)));
}

/// What an outsider, or whoever reads an erased entry, must find in the leaf alone.
#[test]
fn a_leaf_says_what_was_signed_and_whose_identity_it_is_about_and_nothing_else_passes() {
    let admin = entries().remove(3);
    let leaf = Encoder::default().leaf(&admin, &[5; 32]).to_vec();
    let payload = Encoder::default().payload(&admin).to_owned();
    let read = Leaf::decode(&leaf).unwrap();
    assert_eq!((read.identity, read.request.is_some()), (Some(LeafIdentity::Operator), true));
    Entry::decode(read.clone(), Some(payload.as_bytes())).unwrap();
    // Neither may be left out or be another.
    let refused = |leaf: Leaf| Entry::decode(leaf, Some(payload.as_bytes())).unwrap_err();
    assert!(matches!(refused(Leaf { identity: None, ..read.clone() }), DecodeError::NotItsIdentity));
    let agent = Leaf { identity: Some(LeafIdentity::Agent), ..read.clone() };
    assert!(matches!(refused(agent), DecodeError::NotItsIdentity));
    assert!(matches!(refused(Leaf { request: Some([1; 16]), ..read }), DecodeError::Signed("request")));
    let mut unsigned = leaf;
    unsigned.truncate(unsigned.len() - 19);
    unsigned[0] -= 1;
    assert!(matches!(Leaf::decode(&unsigned).unwrap_err(), DecodeError::Signed("request")));
}

#[test]
fn lists_of_a_leaf_have_one_spelling() {
    let erasure = Event::Erasure { entries: vec![3, 9], forgotten: Vec::new(), reason: "why".into() };
    let erasure = Entry { event: erasure, context: Context::default(), ..entries().pop().unwrap() };
    let leaf = Encoder::default().leaf(&erasure, &[5; 32]).to_vec();
    Leaf::decode(&leaf).unwrap();
    let at = leaf.len() - 2;
    for list in [[9, 3], [3, 3]] {
        let other = [&leaf[..at], &list].concat();
        assert!(matches!(Leaf::decode(&other).unwrap_err(), DecodeError::Erased), "{list:?}");
    }
    let none = [&leaf[..at - 1], &[0x80]].concat();
    assert!(matches!(Leaf::decode(&none).unwrap_err(), DecodeError::Erased));
    // Writes that there are none of are left out.
    let rejected = Encoder::default().leaf(&entries()[1], &[5; 32]).to_vec();
    assert_eq!(Leaf::decode(&rejected).unwrap().writes, None);
    let mut with_none = [&rejected[..], &[12, 0x80]].concat();
    with_none[0] += 1;
    assert!(matches!(Leaf::decode(&with_none).unwrap_err(), DecodeError::NotCanonical));
}

/// What opening a folder reads must be what an audit can read.
#[test]
fn a_fold_reads_objects_and_whole_bodies_only() {
    let entry = entries().remove(0);
    let leaf = Leaf::decode(Encoder::default().leaf(&entry, &[5; 32])).unwrap();
    let payload = Encoder::default().payload(&entry).to_owned();
    let fold = |payload: &str| Entry::decode_to_fold(leaf.clone(), Some(payload.as_bytes()));
    fold(&payload).unwrap();
    let (object, body) = payload.split_at(payload.find("}{").unwrap() + 1);
    let write = r#"{"fact":1,"previous":2,"value":{"balance":895,"status":"active"}}"#;
    assert!(object.contains(write));
    let of_array = |members: &[(&str, &str)]| {
        let json: Json = serde_json::from_str(object).unwrap();
        let value = |name: &str| json.get(name).map_or("null".to_owned(), ToString::to_string);
        let values = members
            .iter()
            .map(|(name, default)| if json.get(*name).is_some() { value(name) } else { (*default).to_owned() });
        format!("[{}]{body}", values.collect::<Vec<_>>().join(","))
    };
    let members = [
        ("absent", "null"),
        ("body", "0"),
        ("chain", "null"),
        ("charges", "[]"),
        ("decision", "null"),
        ("facts", "[]"),
        ("observed", "null"),
        ("reads", "null"),
        ("signed", "null"),
        ("writes", "[]"),
    ];
    let spellings = [
        ("the members as a list", of_array(&members)),
        ("a write as a list", payload.replacen(write, r#"[1,2,{"balance":895,"status":"active"}]"#, 1)),
        ("a null", payload.replacen(r#""previous":2"#, r#""previous":null"#, 1)),
        ("a body that is shorter", payload[..payload.len() - 1].to_owned()),
        ("a body that is longer", format!("{payload} ")),
        ("no body", object.to_owned()),
    ];
    for (what, spelling) in spellings {
        assert_ne!(spelling, payload, "{what}");
        fold(&spelling).unwrap_err();
    }
}

#[test]
fn a_context_is_in_order_and_within_its_limits() {
    let refused = |given: Given| Context::new(given).unwrap_err();
    refused(Given { labels: vec!["b".into(), "a".into()], ..Given::default() });
    refused(Given { labels: vec!["a".into(), "a".into()], ..Given::default() });
    refused(Given { labels: (0..17).map(|at| format!("{at:02}").into()).collect(), ..Given::default() });
    refused(Given { because_of: vec![2, 1], ..Given::default() });
    refused(Given { session: Some("".into()), ..Given::default() });
    refused(Given { severity: Some(101), ..Given::default() });
    refused(Given { confidence: Some(1001), ..Given::default() });
    assert_eq!(Context::new(Given::default()).unwrap(), Context::default());
}
