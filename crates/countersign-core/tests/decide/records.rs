//! Entries as bytes: what others read (vectors/entries.json), and what is refused.

use crate::decide::world::World;
use countersign_core::halt::Scope;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Tag};
use countersign_core::record::{Context, Decided, DecodeError, Encoder, Entry, Event, Given, Leaf, show};
use serde_json::{Value as Json, json};
use std::path::Path;

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

/// An action that committed, one that was rejected over a fact that is not there, a feed, and a halt with all that a context has.
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
        (action.agent.clone(), Event::Action(Box::new(Decided { action, decision })))
    };
    let mut world = World::new(PACT, "refund", json!({}));
    world.feed("Account::\"42\"", Some(json!({"status": "active", "balance": 900})));
    let mut write = world.state.feed(&"Account::\"42\"".parse().unwrap(), None);
    write.tag = Some(Tag([9; 12]));
    let operator = || AgentId::new("operator").unwrap();
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
        ((operator(), Event::Halt { scope: Scope::All, reason: "why".into() }), Context::new(given).unwrap()),
    ];
    let entry = |(at, ((by, event), context))| Entry {
        index: at,
        time_ms: 1_794_700_000_000 + at,
        by,
        auth: Auth::None,
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
    later[2] = 4;
    assert!(matches!(refused(&later), DecodeError::Format(4)));
    let mut unknown = leaf.clone();
    unknown[4] = 23;
    assert!(matches!(refused(&unknown), DecodeError::Kind(23)));
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
