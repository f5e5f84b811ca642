//! Delegated actions through the gate: revocations at every place in the order, and an audit of it all.

use countersign_core::action::Action;
use countersign_core::delegation::Scope;
use countersign_core::denial::DenialCode;
use countersign_core::identity::{Auth, KeyName};
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::record::Event;
use countersign_core::value::Attributes;
use countersign_engine::audit::audit;
use countersign_engine::delegation::{DelegationError, extend, mint};
use countersign_engine::gate::{AdmitError, Gate, Options};
use countersign_engine::request::{Answer, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_ledger::checkpoint::LogKey;
use countersign_testing::gate::on_folder;
use ed25519_dalek::SigningKey;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

const GATE: &str = "test.example/log";

const PACT: &str = r#"
pact = "billing"
version = 1

[facts.Account]
attributes = { balance = "Long" }

[observe.Account]
who = 'principal.roles.contains("helper")'
attributes = "*"

[action.refund]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
require_observation = true
set = { balance = "resource.balance - context.amount" }
budget = { sum = "amount", max = 1000000, per = "1d", by = "agent" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.refund.require]]
id = "by-somebody-else"
that = 'context.actor != principal && context.actor.roles.contains("helper")'
"#;

fn open(dir: &Path) -> Gate {
    let environment = on_folder(dir);
    Gate::open(environment, Options::new(GATE)).unwrap().0
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn name(seed: u8) -> KeyName {
    KeyName::of(key(seed).verifying_key().to_bytes())
}

fn id(text: &str) -> AgentId {
    AgentId::new(text).unwrap()
}

fn feed(fact: &str, value: &Json) -> Request {
    let value = Some(Attributes::from_untyped_json(value.as_object().unwrap()).unwrap());
    Request::Feed { by: id("operator"), auth: Auth::None, fact: fact.parse().unwrap(), value, if_match: None }
}

/// Registers a member of the delegation.
fn member(agent: &str, seed: u8, standing: &str) -> Request {
    let role = if agent == "lead" { "refunder" } else { "helper" };
    let value = json!({"roles": [role], "standing": standing, "org": "acme", "trust": 700, "key": name(seed).as_str()});
    feed(&format!("Agent::\"{agent}\""), &value)
}

const MEMBERS: [(&str, u8); 3] = [("lead", 11), ("middle", 12), ("last", 13)];

fn set_up(gate: &Gate) {
    let pact = Arc::new(load(PACT).unwrap().pact);
    gate.call(Request::Publish { by: id("operator"), auth: Auth::None, pact }).unwrap();
    for (agent, seed) in MEMBERS {
        gate.call(member(agent, seed, "active")).unwrap();
    }
    gate.call(feed("Account::\"42\"", &json!({"balance": 900_000}))).unwrap();
}

fn scope(to: &str, seed: u8, depth: u32) -> Scope {
    let (to, key) = (id(to), name(seed));
    Scope { to, key, actions: None, limits: BTreeMap::new(), facts: None, expires_at_ms: None, depth }
}

fn token() -> String {
    let first = mint(&key(11), &id("lead"), GATE, &scope("middle", 12, 1)).unwrap();
    extend(&first, &key(12), &scope("last", 13, 0)).unwrap()
}

fn admit(gate: &Gate, agent: &str, number: u32, delegation: &str) -> Result<Action, AdmitError> {
    let observed = gate.observe(id(agent), vec!["Account::\"42\"".parse().unwrap()]).unwrap();
    let body = json!({
        "pact": "billing", "action": "refund", "idempotency_key": format!("{number:0>32}"),
        "params": {"account": "42", "amount": 10}, "observations": [observed.token], "delegation": delegation,
    });
    gate.admit(id(agent), Auth::None, body.to_string().into())
}

/// What an action came to: its code, or nothing where it committed.
fn code(answer: Answer) -> Option<String> {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    let Event::Action(decided) = Arc::unwrap_or_clone(entered.entry).event else { panic!("not an action") };
    decided.decision.blocked().map(|blocked| blocked.code().to_string())
}

/// Hands in everything at once, so that it shares batches, and waits for all answers.
fn call_all(gate: &Gate, requests: Vec<Request>) -> Vec<Answer> {
    let answers: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let (sender, receiver) = mpsc::channel();
            gate.submit(request, Box::new(move |answer| sender.send(answer).unwrap())).unwrap();
            receiver
        })
        .collect();
    answers.into_iter().map(|answer| answer.recv().unwrap().unwrap()).collect()
}

/// The entry that an answer made.
fn entry(answer: &Answer) -> u64 {
    let Answer::Entered(entered) = answer else { panic!("made no entry") };
    entered.entry.index
}

#[test]
fn attack_a_member_revoked_between_observation_and_commit_at_every_position() {
    const ACTIONS: usize = 4;
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    set_up(&gate);
    let token = token();
    let mut number = 0;
    for (victim, seed) in MEMBERS {
        let expected = if victim == "last" { "agent_not_active" } else { "delegation_member_not_active" };
        for position in 0..=ACTIONS {
            gate.call(member(victim, seed, "active")).unwrap();
            // Everything is observed, verified and admitted while everybody is active.
            let mut requests: Vec<Request> = (0..ACTIONS)
                .map(|_| {
                    number += 1;
                    Request::Act(Box::new(admit(&gate, "last", number, &token).unwrap()))
                })
                .collect();
            requests.insert(position, member(victim, seed, "revoked"));
            let mut answers = call_all(&gate, requests);
            // A revocation passes what waits, so its place is the one of its entry, not the one it was handed in at.
            let revoked = entry(&answers.remove(position));
            for answer in answers {
                let at = entry(&answer);
                let expected = (at > revoked).then(|| expected.to_owned());
                assert_eq!(code(answer), expected, "{victim} revoked in entry {revoked}, action in entry {at}");
            }
        }
        gate.call(member(victim, seed, "active")).unwrap();
    }
    gate.close().unwrap();
    audited(dir.path());
}

/// Every entry, delegated or not, decided again gives the same bytes, and every delegation verifies again.
fn audited(dir: &Path) {
    let key = LogKey::new("test.example/log", SigningKey::from_bytes(&[1; 32]).verifying_key()).unwrap();
    let report = audit(&RealDisk::open(dir).unwrap(), &key, &mut |_| ()).unwrap();
    assert_eq!(report.differing, []);
    assert_eq!(report.verified, report.entries);
}

#[test]
fn attack_a_key_rotated_out_between_admission_and_commit() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    set_up(&gate);
    let token = token();
    let admitted: Vec<Request> =
        (1..=3).map(|number| Request::Act(Box::new(admit(&gate, "last", number, &token).unwrap()))).collect();
    let mut admitted = admitted.into_iter();
    assert_eq!(code(gate.call(admitted.next().unwrap()).unwrap()), None);
    // With an overlap what was named by the old key goes on.
    let until = gate.now_ms() + 60_000;
    let rotated = |until: u64| {
        let value = json!({
            "roles": ["helper"], "standing": "active", "org": "acme", "trust": 700, "key": name(22).as_str(),
            "old_key": name(12).as_str(), "old_key_until": until,
        });
        feed("Agent::\"middle\"", &value)
    };
    gate.call(rotated(until)).unwrap();
    assert_eq!(code(gate.call(admitted.next().unwrap()).unwrap()), None);
    gate.call(rotated(1)).unwrap();
    let refused = code(gate.call(admitted.next().unwrap()).unwrap());
    assert_eq!(refused.as_deref(), Some("delegation_key_not_current"));
    gate.close().unwrap();
    audited(dir.path());
}

#[test]
fn attack_a_made_up_delegation_to_learn_who_is_registered_and_how_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    set_up(&gate);
    for (agent, seed, standing) in
        [("thief", 19, "active"), ("mate", 18, "active"), ("fired", 17, "revoked"), ("kept", 16, "quarantined")]
    {
        gate.call(member(agent, seed, standing)).unwrap();
    }
    let position = gate.view().position;
    for (number, victim) in (1..).zip(["lead", "fired", "kept", "nobody"]) {
        // Signed by a key that the thief made up: as the root, and in the middle of a delegation by an accomplice.
        let root = mint(&key(66), &id(victim), GATE, &scope("thief", 19, 0)).unwrap();
        let own = mint(&key(18), &id("mate"), GATE, &scope(victim, 66, 1)).unwrap();
        let middle = extend(&own, &key(66), &scope("thief", 19, 0)).unwrap();
        for token in [root, middle] {
            let refused = admit(&gate, "thief", number, &token).unwrap_err();
            assert_eq!(refused, AdmitError::Delegation(DelegationError::Stranger(id(victim))));
        }
    }
    assert_eq!(gate.view().position, position, "and nothing is written down for it");
}

#[test]
fn attack_a_delegation_used_by_another_or_forged() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    set_up(&gate);
    gate.call(member("thief", 19, "active")).unwrap();
    let token = token();
    // Verified and kept once, it is looked up from then on; whose it is, is asked every time.
    let good = admit(&gate, "last", 1, &token).unwrap();
    assert_eq!(code(gate.call(Request::Act(Box::new(good))).unwrap()), None);
    // What hands nothing to the one who acts, or is not sound, is refused without an entry.
    let position = gate.view().position;
    let stolen = admit(&gate, "thief", 2, &token).unwrap_err();
    assert!(matches!(stolen, AdmitError::Denied { code: DenialCode::DelegationRefused, .. }), "{stolen:?}");
    // Which characters a token has is chance (its keys are fresh), so the changed one must differ from what was there.
    let (head, last) = token.split_at(token.len() - 1);
    let forged = format!("{head}{}", if last == "A" { "Q" } else { "A" });
    assert!(matches!(admit(&gate, "last", 4, &forged), Err(AdmitError::Delegation(_))));
    let malformed = AdmitError::Delegation(DelegationError::Malformed);
    assert_eq!(admit(&gate, "last", 5, "dlg1.!").unwrap_err(), malformed);
    assert_eq!(gate.view().position, position);
    // Made by the right key to the right agent, for another gate: worth nothing here, and the second time neither.
    let staging = mint(&key(11), &id("lead"), "staging.example/log", &scope("last", 13, 0)).unwrap();
    for number in [6, 7] {
        let refused = admit(&gate, "last", number, &staging).unwrap_err();
        let (found, expected) = ("staging.example/log".to_owned(), GATE.to_owned());
        assert_eq!(refused, AdmitError::Delegation(DelegationError::OtherGate { found, expected }));
    }
    assert_eq!(gate.view().position, position);
    gate.close().unwrap();
    audited(dir.path());
}
