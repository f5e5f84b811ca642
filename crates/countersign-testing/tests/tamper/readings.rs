//! What the holder of the log's key can say of readings, and how an audit finds it: every write that is guarded as read is decided again
//! from the readings that are recorded.

use crate::tamper::folders::{folder_of, public};
use crate::tamper::lies::{put, rewrite};
use countersign_core::action::{Action, ActionRequest};
use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_core::erase::EraseTarget;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Digest, FactId};
use countersign_core::pact::load::load;
use countersign_core::record::{Entry, Event, Leaf};
use countersign_core::session::{Place, Reading, Reread, SessionId};
use countersign_core::value::{Attributes, Value};
use countersign_engine::audit::{AuditReport, audit, replay};
use countersign_engine::request::{DispatchAsRead, Request, Settlement};
use countersign_testing::disk::FaultyDisk;
use countersign_testing::folder::verify;
use ed25519_dalek::SigningKey;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { open = "Bool" }

[action.move]
guard = "as-read"
resource = 'Note::"{note}"'
allow = 'true'
call = { mcp = "shop", tool = "move" }

[[action.move.require]]
id = "note-is-open"
that = 'resource.open'

[action.move.params]
type = "object"
additionalProperties = false
required = ["note"]
properties.note = { type = "string", maxLength = 64 }
"#;

/// Where each entry is.
const SESSION: u64 = 4;
const READING: u64 = 5;
const TOLD: u64 = 7;
const REFUSED: u64 = 8;
const DISPATCHED: u64 = 10;
const OWN_CHANGE: u64 = 11;
const ENTRIES: u64 = 14;

fn agent() -> AgentId {
    AgentId::new("ann").unwrap()
}

fn place() -> Place {
    Place { upstream: "shop".into(), tool: "get_stock".into(), arguments: r#"{"item":"tea"}"#.into() }
}

fn fact() -> FactId {
    SessionId(SESSION).reading(&place()).unwrap()
}

fn reading(stock: u64) -> Reading {
    let content = json!({"stock": stock}).to_string();
    let digest = Digest::of(content.as_bytes());
    let content = Some(content.into());
    Reading { place: place(), at_ms: 1_800_000_000_000, digest, projection: "".into(), content, changes: Vec::new() }
}

fn reread(stock: u64, told: bool) -> Reread {
    let digest = Some(reading(stock).digest);
    Reread {
        digest,
        fact: fact(),
        projection: "".into(),
        took_ms: 1,
        told,
        shown: Vec::new(),
        volatile: Vec::new(),
        held: None,
        why: None,
    }
}

fn moving(key: u64) -> Request {
    let body = json!({
        "pact": "notes", "action": "move", "params": {"note": "1"}, "idempotency_key": format!("{key:032}"),
        "session": format!("ses_{SESSION}"),
    });
    let body: Arc<str> = body.to_string().into();
    let request = ActionRequest::parse(&body).unwrap();
    Request::Act(Box::new(Action::new(agent(), Auth::None, Arc::clone(&body), request, Vec::new())))
}

fn dispatch(effect: u64, reread: Reread, fresh: Vec<Reading>) -> Request {
    let (effect, rereads) = (EffectId(effect), vec![reread]);
    Request::DispatchAsRead(Box::new(DispatchAsRead { effect, rereads, fresh }))
}

/// Reads ten, is refused because there are seven and told so, moves one, is told that there are six, leaves.
fn history() -> Vec<Vec<Request>> {
    let by = || AgentId::new("operator").unwrap();
    let feed = |fact: &str, value: serde_json::Value| Request::Feed {
        by: by(),
        auth: Auth::None,
        fact: fact.parse().unwrap(),
        value: Some(Attributes::from_untyped_json(value.as_object().unwrap()).unwrap()),
        if_match: None,
    };
    let evidence = Evidence::of(FoundCode::Resolved.said("so they say"));
    let (effect, outcome) = (EffectId(9), Outcome::Settled);
    let settlement =
        Box::new(Settlement { effect, outcome, evidence, judged: None, is_stopped: false, beside: Vec::new() });
    let one_by_one = [
        Request::Publish { by: by(), auth: Auth::None, pact: Arc::new(load(PACT).unwrap().pact) },
        feed("Agent::\"ann\"", json!({"org": "a", "roles": [], "standing": "active", "trust": 1})),
        feed("Note::\"1\"", json!({"open": true})),
        Request::OpenSession { agent: agent(), auth: Auth::None },
        Request::Read {
            session: SessionId(SESSION).first_name(),
            agent: agent(),
            auth: Auth::None,
            reading: Box::new(reading(10)),
        },
        moving(1),
        dispatch(6, reread(7, true), vec![reading(7)]),
        moving(2),
        dispatch(9, reread(7, false), Vec::new()),
        Request::SettleAsRead { settlement, fresh: vec![reading(6)] },
        Request::CloseSession { session: SessionId(SESSION).first_name(), agent: agent() },
    ];
    one_by_one.into_iter().map(|request| vec![request]).collect()
}

fn audited(disk: &FaultyDisk) -> AuditReport {
    audit(disk, &public(), &mut |_| ()).unwrap()
}

/// What an audit says once each entry is told as `tell` has it, by someone who holds the log's key.
fn forged(tell: impl Fn(&mut Entry)) -> AuditReport {
    let (disk, _) = folder_of(history(), None);
    rewrite(&disk, &SigningKey::from_bytes(&[1; 32]), |_, leaf, salt, payload| {
        let mut entry = Entry::decode(Leaf::decode(leaf).unwrap(), Some(payload)).unwrap();
        tell(&mut entry);
        put(leaf, salt, payload, &entry);
    });
    verify(&disk, &public(), &[]).unwrap();
    audited(&disk)
}

#[test]
fn an_honest_log_is_decided_and_replayed_the_same() {
    let (disk, _) = folder_of(history(), None);
    let report = audited(&disk);
    assert_eq!((report.entries, report.verified), (ENTRIES, ENTRIES), "{:?}", report.differing);
    assert_eq!(forged(|_| ()).verified, ENTRIES, "writing it again changes nothing");
    let pact = Arc::new(load(PACT).unwrap().pact);
    let pacts = BTreeMap::from([(pact.name.clone(), pact)]);
    let replayed = replay(&disk, &public(), &pacts, &mut |_| ()).unwrap();
    assert!(replayed.differing.is_empty() && replayed.actions >= 2, "{replayed:?}");
}

/// Sets attributes of the reading that an entry writes.
fn read_otherwise(entry: &mut Entry, content: Option<&str>, digest: Option<Digest>) {
    let Event::Reading { writes, .. } = &mut entry.event else { panic!("{entry:?}") };
    let text = |text: &str| Value::String(text.into());
    let content = content.map(|content| ("content".into(), text(content)));
    let digest = digest.map(|digest| ("digest".into(), text(&digest.to_string())));
    let value = writes[0].value.take().unwrap();
    writes[0].value = Some(value.with(content.into_iter().chain(digest).collect()));
}

fn rereads(entry: &mut Entry) -> &mut Vec<Reread> {
    let index = entry.index;
    let Event::Dispatch(dispatch) = &mut entry.event else { panic!("entry {index} is no dispatch") };
    &mut dispatch.rereads
}

#[test]
fn whatever_is_forged_of_a_reading_is_found_where_it_is() {
    type Lie = fn(&mut Entry);
    let lies: [(&str, u64, Lie); 8] = [
        ("sent, though it read differently", DISPATCHED, |entry| rereads(entry)[0].digest = Some(reading(3).digest)),
        ("sent, though it could not be read", DISPATCHED, |entry| rereads(entry)[0].digest = None),
        ("sent, and not read again", DISPATCHED, |entry| rereads(entry).clear()),
        ("sent, though other rules say what is compared", DISPATCHED, |entry| {
            rereads(entry)[0].projection = "ignore /stock".into();
        }),
        ("refused, though it read the same", REFUSED, |entry| rereads(entry)[0].digest = Some(reading(10).digest)),
        ("another content than was compared", READING, |entry| read_otherwise(entry, Some(r#"{"stock":11}"#), None)),
        ("told, though it was too long to tell", TOLD, |entry| {
            let long = json!({"stock": "x".repeat(3000)}).to_string();
            read_otherwise(entry, Some(&long), Some(Digest::of(long.as_bytes())));
        }),
        ("told with a write that was over", OWN_CHANGE, |entry| {
            let Event::Reading { effect, .. } = &mut entry.event else { panic!("{entry:?}") };
            *effect = Some(EffectId(6));
        }),
    ];
    for (what, at, lie) in lies {
        let report = forged(|entry| {
            if entry.index == at {
                lie(entry);
            }
        });
        let first = report.differing.first().unwrap_or_else(|| panic!("{what}: not found"));
        assert_eq!(first.entry, at, "{what}: {:?}", report.differing);
        assert!(report.unverifiable.is_empty(), "{what}: nothing is erased");
    }
}

#[test]
fn erasing_a_reading_says_which_writes_can_no_longer_be_judged() {
    let mut requests = history();
    let session = SessionId(SESSION).fact().unwrap();
    let erase = |entry, writes| Request::Erase {
        by: AgentId::new("operator").unwrap(),
        auth: Auth::None,
        targets: vec![EraseTarget {
            entry,
            kept: None,
            writes,
            charges: Vec::new(),
            effect: None,
            observing_until_ms: None,
            is_last: false,
        }],
        reason: "asked".into(),
    };
    requests.push(vec![erase(READING, vec![(fact(), 1), (session, 2)])]);
    let (disk, _) = folder_of(requests, None);
    let report = audited(&disk);
    assert_eq!(report.differing, []);
    let gone: Vec<u64> = report.unverifiable.iter().map(|it| it.entry).collect();
    // The reading itself, the intent that rests on it, and what was told of its change. The refusal is decided again from the digests.
    assert!(gone.starts_with(&[READING, 6, TOLD]) && !gone.contains(&REFUSED), "{:?}", report.unverifiable);
    assert!(report.unverifiable.iter().all(|it| it.depends_on == READING && it.erased_by == Some(ENTRIES)), "{gone:?}");
    // What was sent is decided again: what it rests on was told afterwards, and is there.
    assert!(!gone.contains(&DISPATCHED), "{:?}", report.unverifiable);
}
