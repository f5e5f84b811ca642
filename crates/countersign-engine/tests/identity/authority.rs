//! What operators may do, asked at each request's own place in the order.

use crate::identity::world::*;
use countersign_core::identity::{Auth, Holder, HolderKind, Role, WhyNot};
use countersign_core::pact::load::load;
use countersign_engine::request::{Refusal, Request};
use serde_json::json;
use std::sync::Arc;

fn why(refusal: Refusal) -> (Role, WhyNot) {
    let Refusal::NotAuthorised(refused) = refusal else { panic!("{refusal:?}") };
    (refused.role, refused.why)
}

#[test]
fn each_kind_of_request_takes_its_role_and_no_role_implies_another() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    let pact = Arc::new(load(&PACT.replace("pact = \"billing\"", "pact = \"other\"")).unwrap().pact);
    for (number, role) in Role::ALL.into_iter().enumerate() {
        let (name, signer) = (format!("only-{role}"), key(10 + u8::try_from(number).unwrap()));
        world.feed(&format!("Operator::\"{name}\""), Some(operator(&signer, &[role.as_str()]))).unwrap();
        let auth = || world.auth(&signer, "something");
        let account = json!({"status": "active", "balance": 1});
        let requests = [
            (Role::Feeder, feed(&name, auth(), "Account::\"7\"", Some(account))),
            (Role::Admin, feed(&name, auth(), "Agent::\"new\"", Some(agent(&key(60 + u8::try_from(number).unwrap()))))),
            (Role::Admin, feed(&name, auth(), "McpTool::\"shop/sell\"", Some(json!({"read_only": true})))),
            (Role::Admin, feed(&name, auth(), "McpServer::\"shop\"", Some(json!({"uses": true})))),
            (Role::Admin, feed(&name, auth(), "McpShadow::\"shop\"", Some(json!({})))),
            (Role::Publisher, Request::Publish { by: id(&name), auth: auth(), pact: Arc::clone(&pact) }),
            (
                Role::FrontEnd,
                Request::Say { by: id(&name), auth: auth(), session: "ses_1".parse().unwrap(), words: vec!["x".into()] },
            ),
            (Role::Admin, Request::ConfirmClock { by: id(&name), auth: auth() }),
            (Role::Admin, Request::Erase { by: id(&name), auth: auth(), targets: Vec::new(), reason: "x".into() }),
        ];
        for (takes, request) in requests {
            let what = format!("{request:?}");
            let answer = world.gate.call(request);
            if takes == role {
                assert!(!matches!(answer, Err(Refusal::NotAuthorised(_))), "{what}: {answer:?}");
            } else {
                assert_eq!(why(answer.unwrap_err()), (takes, WhyNot::RoleMissing), "{what}");
            }
        }
    }
}

#[test]
fn whoever_is_no_active_operator_with_this_key_is_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    let value = || Some(json!({"status": "active", "balance": 1}));
    let account = "Account::\"7\"";
    let refused = |request| why(world.gate.call(request).unwrap_err()).1;
    assert_eq!(refused(feed("admin", Auth::None, account, value())), WhyNot::Unsigned);
    assert_eq!(refused(feed("refund-1", world.auth(&key(1), "x"), account, value())), WhyNot::NotAnOperator);
    assert_eq!(refused(feed("admin", world.auth(&key(1), "x"), account, value())), WhyNot::KeyNotCurrent);
    let mut feeder = operator(&key(3), &["feeder"]);
    feeder["standing"] = json!("quarantined");
    world.feed("Operator::\"jo\"", Some(feeder)).unwrap();
    let by_jo = feed("jo", world.auth(&key(3), "x"), account, value());
    assert_eq!(refused(by_jo), WhyNot::NotActive("quarantined".to_owned()));
}

#[test]
fn an_operator_that_loses_a_role_between_submitting_and_its_place_has_lost_it() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    world.feed("Operator::\"jo\"", Some(operator(&key(3), &["feeder"]))).unwrap();
    let value = || Some(json!({"status": "frozen", "balance": 1}));
    let submitted = feed("jo", world.auth(&key(3), "a feed"), "Account::\"42\"", value());
    let later = feed("jo", world.auth(&key(3), "a feed"), "Account::\"42\"", value());
    world.gate.call(submitted).unwrap();
    world.feed("Operator::\"jo\"", Some(operator(&key(3), &["auditor"]))).unwrap();
    let position = world.gate.view().position;
    assert_eq!(why(world.gate.call(later).unwrap_err()), (Role::Feeder, WhyNot::RoleMissing));
    assert_eq!(world.gate.view().position, position, "a refusal leaves no entry");
}

#[test]
fn the_last_active_admin_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    let admin = "Operator::\"admin\"";
    let mut revoked = operator(&admin_key(), &["admin"]);
    revoked["standing"] = json!("revoked");
    let ways = [None, Some(revoked.clone()), Some(operator(&admin_key(), &["feeder"]))];
    let is_last = |value| matches!(world.feed(admin, value), Err(Refusal::LastAdmin(_)));
    for way in &ways {
        assert!(is_last(way.clone()), "{way:?}");
    }
    // One that is not active does not count; one that is does.
    let mut second = operator(&key(4), &["admin"]);
    second["standing"] = json!("quarantined");
    world.feed("Operator::\"second\"", Some(second.clone())).unwrap();
    assert!(is_last(None));
    second["standing"] = json!("active");
    world.feed("Operator::\"second\"", Some(second)).unwrap();
    world.feed(admin, None).unwrap();
    let refused = world.gate.call(feed("second", world.auth(&key(4), "x"), "Operator::\"second\"", None));
    assert!(matches!(refused, Err(Refusal::LastAdmin(_))), "{refused:?}");
    assert!(world.gate.view().whole_state().is_identified());
}

#[test]
fn a_key_has_one_holder() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    let in_use = |fact: &str, value| match world.feed(fact, Some(value)) {
        Err(Refusal::KeyInUse { key, holder }) => (key, holder),
        other => panic!("{other:?}"),
    };
    let of_agent = Holder { kind: HolderKind::Agent, name: id("refund-1") };
    let of_admin = Holder { kind: HolderKind::Operator, name: id("admin") };
    assert_eq!(in_use("Agent::\"two\"", agent(&key(1))), (name_of(&key(1)), of_agent.clone()));
    assert_eq!(in_use("Operator::\"two\"", operator(&key(1), &[])), (name_of(&key(1)), of_agent.clone()));
    assert_eq!(in_use("Agent::\"two\"", agent(&admin_key())), (name_of(&admin_key()), of_admin));
    // A key that was rotated out is still its old holder's, until the fact no longer names it.
    let mut rotated = agent(&key(2));
    rotated["old_key"] = json!(name_of(&key(1)).as_str());
    rotated["old_key_until"] = json!(1);
    world.feed("Agent::\"refund-1\"", Some(rotated)).unwrap();
    assert_eq!(in_use("Agent::\"two\"", agent(&key(1))).1, of_agent);
    world.feed("Agent::\"refund-1\"", Some(agent(&key(2)))).unwrap();
    world.feed("Agent::\"two\"", Some(agent(&key(1)))).unwrap();
    // Its own key again is no other's.
    world.feed("Agent::\"two\"", Some(agent(&key(1)))).unwrap();
}

#[test]
fn what_cannot_be_an_agent_or_operator_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    let with = |name: &str, value: serde_json::Value| {
        let mut agent = agent(&key(1));
        agent[name] = value;
        agent
    };
    let old = name_of(&key(2));
    for (fact, value) in [
        ("Agent::\"a\"", with("key", json!("did:key:z6Mk"))),
        ("Agent::\"a\"", with("standing", json!("suspended"))),
        ("Agent::\"a\"", with("old_key", json!(old.as_str()))),
        ("Agent::\"a\"", with("old_key_until", json!(5))),
        ("Agent::\"countersign\"", agent(&key(1))),
        ("Operator::\"o\"", operator(&key(1), &["root"])),
        ("Operator::\"o\"", json!({"roles": ["admin"], "standing": "active"})),
    ] {
        let refused = world.feed(fact, Some(value.clone()));
        assert!(matches!(refused, Err(Refusal::InvalidValue { .. })), "{fact} {value}: {refused:?}");
    }
}

#[test]
fn who_operated_the_gate_or_acted_cannot_be_erased() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.feed("Operator::\"jo\"", Some(operator(&key(3), &["feeder"]))).unwrap();
    world.feed("Operator::\"jo\"", Some(operator(&key(3), &["auditor"]))).unwrap();
    let refused = world.gate.erase(id("admin"), world.auth(&admin_key(), "x"), &[2], "asked for".into());
    assert!(refused.unwrap_err().to_string().contains("who an operator was"));
    world.feed("Agent::\"helper\"", Some(agent(&key(4)))).unwrap();
    world.feed("Agent::\"helper\"", None).unwrap();
    for entry in [4, 5] {
        let refused = world.gate.erase(id("admin"), world.auth(&admin_key(), "x"), &[entry], "asked for".into());
        assert!(refused.unwrap_err().to_string().contains("who an agent was"));
        assert!(world.gate.read_log(entry).unwrap().payload.is_some());
    }
}
