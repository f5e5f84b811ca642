//! Which key is whose, folded in any way that a gate folds: one entry after the other, or a fuzzy snapshot and its tail.

use countersign_core::action::{Action, ActionRequest};
use countersign_core::call::{EffectId, Evidence, FoundCode, Measured, Outcome, Send, Statement};
use countersign_core::canonical::Canonical;
use countersign_core::decide::decide;
use countersign_core::decision::{self, BudgetKey, Charge, Decision, PactRef};
use countersign_core::fact::{Fact, Version};
use countersign_core::fence::ClaimId;
use countersign_core::halt::Scope;
use countersign_core::identity::{Auth, BatchDigests, KeyName, Signed};
use countersign_core::ids::{ActionName, AgentId, Digest, FactId, PactName, Tag};
use countersign_core::observation::{Observation, Seen};
use countersign_core::observing::{Count, ObservingKey, Sharer};
use countersign_core::pact::load::load;
use countersign_core::reason::Reason;
use countersign_core::record::{
    Approved, Context, Decided, DecodeError, Encoder, Entry, Event, Grouped, Judged, Kind, Leaf, LeafAuth, Settle,
};
use countersign_core::review::{ReviewId, Shown};
use countersign_core::state::State;
use countersign_core::value::{Attributes, Value};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One write: who, which key and old key, and whether it is deleted.
type Write = (usize, u8, Option<u8>, bool);

const PACT: &str = r#"
pact = "p"
version = 1
[facts.Note]
attributes = { text = "String" }
[action.clear]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = '""' }
[[action.clear.require]]
id = "has-text"
that = 'resource.text != ""'
[action.clear.params]
type = "object"
additionalProperties = false
required = ["note"]
properties.note = { type = "string", maxLength = 64 }
"#;

const HOLDERS: [&str; 4] = ["Agent::\"a\"", "Agent::\"b\"", "Operator::\"a\"", "Operator::\"o\""];

fn value(holder: &str, key: u8, old_key: Option<u8>) -> Attributes {
    let mut value = json!({"key": KeyName::of([key; 32]).as_str(), "roles": ["admin"], "standing": "active"});
    if holder.starts_with("Agent") {
        value["org"] = json!("acme");
        value["trust"] = json!(1);
    }
    if let Some(old_key) = old_key {
        value["old_key"] = json!(KeyName::of([old_key; 32]).as_str());
        value["old_key_until"] = json!(7);
    }
    Attributes::from_untyped_json(value.as_object().unwrap()).unwrap()
}

/// Applies the writes that are allowed, and gives every version of every fact that they made.
fn fold(state: &mut State, writes: &[Write], mut made: impl FnMut(u64, Arc<Fact>)) {
    for (entry, (holder, key, old_key, deletes)) in (0..).zip(writes) {
        let fact: FactId = HOLDERS[*holder].parse().unwrap();
        let old_key = old_key.filter(|old_key| old_key != key);
        let value = (!deletes).then(|| value(HOLDERS[*holder], *key, old_key));
        if state.keys().check(&fact, value.as_ref()).is_err() {
            continue;
        }
        let mut write = state.feed(&fact, value);
        write.tag.get_or_insert(Tag([1; 12]));
        feed(state, entry, write);
        made(entry, Arc::clone(state.facts.get(&fact).unwrap()));
    }
}

fn feed(state: &mut State, index: u64, write: decision::Write) {
    let event = Event::Feed { write, held: None };
    state.apply(&Entry {
        index,
        time_ms: index,
        by: AgentId::gate(),
        auth: Auth::None,
        context: Context::default(),
        event,
    });
}

/// Everything that the index answers.
fn answers(state: &State) -> (Vec<Option<String>>, Vec<String>, bool) {
    let holders = (0..6).map(|key| state.keys().holder(&KeyName::of([key; 32])).map(ToString::to_string)).collect();
    (holders, state.keys().admins().iter().map(ToString::to_string).collect(), state.is_identified())
}

fn signed(body: Option<&str>) -> Auth {
    Auth::Signature(Arc::new(Signed {
        key: KeyName::of([1; 32]),
        input: "(\"@method\" \"@path\");created=1;nonce=\"é\"".into(),
        method: "POST".into(),
        authority: "gate.test".into(),
        path: "/v1/x".into(),
        query: body.map(|_| "a=1".into()),
        if_match: body.map(|_| "\"7\"".into()),
        batch: None,
        body: body.map(Into::into),
        signature: [0xa5; 64],
    }))
}

/// The same for a batch: digests in place of a body.
fn signed_batch(actions: &[Digest]) -> Auth {
    let Auth::Signature(signed) = signed(None) else { panic!("not signed") };
    let batch = Some(BatchDigests { actions: BatchDigests::of_actions(actions), body: Digest([9; 32]) });
    Auth::Signature(Arc::new(Signed { batch, ..Arc::unwrap_or_clone(signed) }))
}

/// One event of each kind that somebody can sign for.
fn events() -> Vec<Event> {
    let state = State::default();
    let body: Arc<str> =
        r#"{"pact":"p","action":"a","idempotency_key":"0123456789abcdef0123456789abcdef","params":{}}"#.into();
    let request = ActionRequest::parse(&body).unwrap();
    let action = Action::new(AgentId::new("a").unwrap(), signed(None), Arc::clone(&body), request, Vec::new());
    let decision = decide(&action, &state, 7);
    let mut write = state.feed(&HOLDERS[0].parse().unwrap(), Some(value(HOLDERS[0], 1, None)));
    write.tag = Some(Tag([1; 12]));
    let pact = PactName::new("p").unwrap();
    let pact_ref = PactRef { name: pact.clone(), version: 1, hash: Digest([0; 32]) };
    let approved = Approved {
        action: Arc::new(action.clone()),
        shown: Shown {
            to: AgentId::new("a").unwrap(),
            review: ReviewId(2),
            action: action.id,
            pact: pact_ref.clone(),
            at_ms: 5,
            facts: Vec::new(),
            waives: vec!["small".into()],
        },
        until_ms: 9,
        decision: Decision { pact: Some(pact_ref), ..decision.clone() },
    };
    let mut of_batch = action.clone();
    of_batch.auth = signed(None).of_batch();
    vec![
        Event::Batch { actions: vec![action.id, Digest([7; 32])], is_atomic: true },
        Event::Group(Box::new(Grouped { actions: vec![of_batch], failed: 0, decision: decision.clone() })),
        Event::Approval(Box::new(approved)),
        Event::Refusal { review: ReviewId(2), reason: "why".into() },
        Event::Pact(Arc::new(load(PACT).unwrap().pact)),
        Event::Held { fact: write.fact.clone(), value: write.value.clone() },
        Event::Confirm { fact: write.fact.clone(), tag: Tag([7; 12]), version: 3 },
        Event::Settle(Box::new(settle(write.clone()))),
        Event::Feed { write, held: Some(2) },
        Event::Claim {
            facts: vec!["Account::\"1\"".parse().unwrap()],
            expires_at_ms: 8,
            until_ms: 9,
            priority: 3,
            reason: "why".into(),
        },
        Event::Extension { claim: ClaimId(2), expires_at_ms: 9 },
        Event::Observation(Box::new(Observation {
            began_ms: Some(6),
            counts: vec![Count {
                key: ObservingKey {
                    pact: PactName::new("p").unwrap(),
                    ty: "Account".parse().unwrap(),
                    sharer: Sharer::Org("a".into()),
                    per_ms: 5,
                },
                window: 1,
                facts: vec!["Account::\"2\"".parse().unwrap()],
            }],
            facts: vec![
                Seen {
                    fact: "Account::\"1\"".parse().unwrap(),
                    tag: Some(Tag([1; 12])),
                    version: Some(Version::Number(3)),
                    value: Some(Attributes::default()),
                    withheld: vec!["balance".into()],
                },
                Seen {
                    fact: "Account::\"2\"".parse().unwrap(),
                    tag: None,
                    version: Some(Version::NONE),
                    value: None,
                    withheld: Vec::new(),
                },
                Seen {
                    fact: "Rate::\"usd\"".parse().unwrap(),
                    tag: None,
                    version: None,
                    value: Some(Attributes::default()),
                    withheld: vec!["source".into()],
                },
            ],
        })),
        Event::Withdrawal { claim: ClaimId(2) },
        Event::Action(Box::new(Decided { action: Box::new(action), decision })),
        Event::Erasure { entries: vec![1], forgotten: Vec::new(), reason: "asked for".into() },
        Event::Clock { wall_ms: 7, confirmed: true },
        Event::Halt { scope: Scope::All, reason: "why".into() },
        Event::Resume { scope: Scope::All, reason: "why".into() },
        Event::Rotation { log_key: "gate.test+00000000+AQ".into(), reason: "why".into() },
    ]
}

/// A settlement with everything that one can hold.
fn settle(write: decision::Write) -> Settle {
    let sql = Statement { sql: "update t set a = $1 where id = $2".into(), params: vec![Value::Long(1)] };
    let blocked = Reason::TooManyEffects;
    let budget = BudgetKey {
        pact: PactName::new("p").unwrap(),
        action: Some(ActionName::new("a").unwrap()),
        id: "b".into(),
        agent: None,
    };
    Settle {
        stopped: None,
        beside: vec![EffectId(1)],
        effect: EffectId(2),
        agent: AgentId::new("a").unwrap(),
        outcome: Outcome::Failed,
        evidence: Evidence {
            attempts: 2,
            found: Box::new(FoundCode::ToolFailed.about("pay").and_said("it said no")),
            is_late: true,
            status: Some(-1),
            result: Some("{}".to_owned()),
            is_cut: false,
            unkept: Some(20_000),
            receipt: Some("7".to_owned()),
            measured: Some(Box::new(Measured { reread_ms: Some(3), window_ms: Some(9) })),
        },
        judged: Some(Judged {
            at_ms: 6,
            facts: vec![
                ("Account::\"1\"".parse().unwrap(), None),
                ("Account::\"2\"".parse().unwrap(), Some(Attributes::default())),
            ],
            send: Some(Send::Sql { statements: vec![sql] }),
            blocked: Some(blocked.clone()),
            shadowed: Some(blocked),
        }),
        writes: vec![write],
        charges: vec![Charge { budget, window: 1, amount: -5 }],
    }
}

/// Fails to compile when there is a new kind: it belongs into `events` too.
fn is_listed(event: &Event) -> bool {
    match event {
        // The gate's own are never signed.
        Event::Genesis { .. } | Event::Dispatch(_) | Event::Denials(_) | Event::Expiry { .. } => false,
        Event::Session { .. } | Event::Reading { .. } => false,
        Event::Held { .. }
        | Event::Confirm { .. }
        | Event::Settle(_)
        | Event::Claim { .. }
        | Event::Observation(_)
        | Event::Extension { .. }
        | Event::Withdrawal { .. } => true,
        Event::Pact(_)
        | Event::Feed { .. }
        | Event::Action(_)
        | Event::Erasure { .. }
        | Event::Clock { .. }
        | Event::Halt { .. }
        | Event::Resume { .. }
        | Event::Approval(_)
        | Event::Refusal { .. }
        | Event::Batch { .. }
        | Event::Group(_)
        | Event::Rotation { .. } => true,
        // Only read back.
        Event::Done(_) | Event::Erased(_) => false,
    }
}

#[test]
fn every_kind_of_entry_keeps_its_signature() {
    for event in events() {
        assert!(is_listed(&event));
        let kind = event.kind();
        let auth = match &event {
            Event::Batch { actions, .. } => signed_batch(actions),
            Event::Group(group) => signed_batch(&group.actions.iter().map(|action| action.id).collect::<Vec<_>>()),
            _ => signed((kind != Kind::Action).then_some("a \"body\"")),
        };
        let entry = Entry {
            index: 3,
            time_ms: 7,
            by: AgentId::new("a").unwrap(),
            auth: auth.clone(),
            context: Context::default(),
            event,
        };
        let (mut payloads, mut leaves) = (Encoder::default(), Encoder::default());
        let payload = payloads.payload(&entry);
        let mut objects = serde_json::Deserializer::from_str(payload).into_iter::<serde_json::Value>();
        let mut canonical = Canonical::new();
        canonical.json(&objects.next().unwrap().unwrap());
        assert_eq!(&payload[..objects.byte_offset()], canonical.as_str(), "{kind}");
        let mut shown = Canonical::new();
        shown.json(&serde_json::from_str(&entry.show_payload()).unwrap());
        assert_eq!(entry.show_payload(), shown.as_str(), "{kind}");
        let leaf = leaves.leaf(&entry, &[0; 32]);
        let decoded = Leaf::decode(leaf).unwrap();
        let mut shown = Canonical::new();
        shown.json(&serde_json::from_str(&decoded.show()).unwrap());
        assert_eq!(decoded.show(), shown.as_str(), "{kind}");
        let again = Entry::decode(decoded.clone(), Some(payload.as_bytes())).unwrap();
        assert_eq!(again.auth, auth, "{kind}");
        assert_eq!((payload, leaf), (Encoder::default().payload(&again), Encoder::default().leaf(&again, &[0; 32])));

        // What the leaf says of a signature and what the payload has must agree, and be whole.
        let mut unsigned = decoded.clone();
        unsigned.auth = LeafAuth::None;
        assert!(matches!(Entry::decode(unsigned, Some(payload.as_bytes())), Err(DecodeError::Signed(_))), "{kind}");
        let without = Entry { auth: Auth::None, ..entry.clone() };
        let without = Encoder::default().payload(&without).to_owned();
        assert!(
            matches!(Entry::decode(decoded.clone(), Some(without.as_bytes())), Err(DecodeError::Missing("signed"))),
            "{kind}"
        );
        for (from, to) in
            [("\"input\":", "\"inputs\":"), ("\"signature\":\"a5", "\"signature\":\"A5"), ("z6Mk", "z6mk")]
        {
            let spoilt = payload.replacen(from, to, 1);
            assert_ne!(spoilt, payload);
            assert!(Entry::decode(decoded.clone(), Some(spoilt.as_bytes())).is_err(), "{kind}: {from}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_fuzzy_snapshot_and_its_tail_give_the_same_holders(
        writes in prop::collection::vec((0usize..4, 0u8..6, prop::option::of(0u8..6), prop::bool::weighted(0.2)), 0..40),
        position in 0u64..40,
        ahead in prop::collection::vec(0u64..10, 4),
        backwards in any::<bool>(),
    ) {
        let mut whole = State::default();
        let mut versions: BTreeMap<String, Vec<(u64, Arc<Fact>)>> = BTreeMap::new();
        fold(&mut whole, &writes, |entry, fact| versions.entry(fact.id.to_string()).or_default().push((entry, fact)));

        // Each fact as it was at the snapshot's position, or some way ahead of it.
        let mut restored = State::default();
        let mut snapshot: Vec<Arc<Fact>> = Vec::new();
        for ((_, versions), ahead) in versions.iter().zip(&ahead) {
            let seen = versions.iter().rev().find(|(entry, _)| *entry < position + ahead);
            snapshot.extend(seen.map(|(_, fact)| Arc::clone(fact)));
        }
        if backwards {
            snapshot.reverse();
        }
        for fact in snapshot {
            restored.restore_fact((*fact).clone());
        }
        let mut tail: Vec<&(u64, Arc<Fact>)> = versions.values().flatten().filter(|(entry, _)| *entry >= position).collect();
        tail.sort_by_key(|(entry, _)| *entry);
        for (entry, fact) in tail {
            let mut write = restored.feed(&fact.id, fact.value.clone());
            (write.version, write.tag) = (fact.version(), Some(fact.tag));
            feed(&mut restored, *entry, write);
        }
        prop_assert_eq!(answers(&restored), answers(&whole));
    }

    #[test]
    fn no_two_facts_ever_name_one_key(
        writes in prop::collection::vec((0usize..4, 0u8..6, prop::option::of(0u8..6), prop::bool::weighted(0.2)), 0..40),
    ) {
        let mut state = State::default();
        fold(&mut state, &writes, |_, _| ());
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        for fact in state.facts.iter() {
            for name in ["key", "old_key"] {
                let key = fact.value.as_ref().and_then(|value| value.get(name)).map(ToString::to_string);
                if let Some(other) = key.and_then(|key| named.insert(key, fact.id.to_string())) {
                    prop_assert_eq!(other, fact.id.to_string());
                }
            }
        }
        prop_assert!(!state.is_identified() || !state.keys().admins().is_empty());
    }
}
