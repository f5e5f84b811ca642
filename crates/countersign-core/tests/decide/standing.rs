//! What is asked of agents alone: at the door, and again right before an attempt of a call.

use crate::decide::world::World;
use countersign_core::decide::stop_on;
use countersign_core::denial::without_right;
use countersign_core::effect::Approved;
use countersign_core::identity::KeyName;
use countersign_core::ids::AgentId;
use countersign_core::review::{ReviewId, Shown};
use serde_json::json;

const PACT: &str = r#"
pact = "payouts"
version = 1

[facts.Account]
attributes = { owner = "String" }

[action.pay]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer") && resource.owner == "jane"'
min_trust = 500
call = { http = "payments", path = "/payouts/{account}" }

[action.pay.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 64 }

[[action.pay.require]]
id = "hers"
that = 'resource.owner == "jane"'
"#;

#[test]
fn attack_a_call_leaves_after_its_agent_lost_the_role_or_the_trust() {
    let mut world = World::new(PACT, "pay", json!({"account": "a"})).with_agent(&["payer"]);
    world.feed("Account::\"a\"", Some(json!({"owner": "jane"})));
    assert_eq!(world.verdict(), "in_flight");
    let stopped = |world: &World| {
        stop_on(&world.request(), None, &world.state, world.now_ms).map(|blocked| blocked.code().as_str().to_owned())
    };
    assert_eq!(stopped(&world), None);
    world.register(&["clerk"], "active", 700);
    assert_eq!(stopped(&world).as_deref(), Some("not_allowed"));
    world.register(&["payer"], "active", 499);
    assert_eq!(stopped(&world).as_deref(), Some("trust_too_low"));
    // Other facts are kept by fences, and are not asked again.
    world.register(&["payer"], "active", 500);
    world.feed("Account::\"a\"", Some(json!({"owner": "john"})));
    assert_eq!(stopped(&world), None);
}

#[test]
fn attack_an_approved_call_is_repeated_after_its_reviewer_was_revoked() {
    let mut world = World::new(PACT, "pay", json!({"account": "a"}));
    let key = KeyName::of([2; 32]);
    world.key = Some(key.clone());
    world.sign_with(key);
    world.register(&["payer"], "active", 700);
    world.feed("Account::\"a\"", Some(json!({"owner": "jane"})));
    world.identify();
    let vera = |roles: &[&str], standing: &str| {
        Some(json!({"key": KeyName::of([3; 32]).as_str(), "roles": roles, "standing": standing}))
    };
    let reviewer = AgentId::new("vera").unwrap();
    let pact = world.decide().pact.unwrap();
    let (review, action, at_ms) = (ReviewId(7), world.request().id, world.now_ms);
    let shown = Shown { to: reviewer.clone(), review, action, pact, at_ms, facts: Vec::new(), waives: Vec::new() };
    let approved = Approved { by: reviewer, shown, until_ms: world.now_ms };
    let stopped = |world: &World, approval: Option<&Approved>| {
        stop_on(&world.request(), approval, &world.state, world.now_ms)
            .map(|blocked| blocked.code().as_str().to_owned())
    };
    for (roles, standing, is_stopped) in
        [(["reviewer"], "active", false), (["feeder"], "active", true), (["reviewer"], "suspended", true)]
    {
        world.feed("Operator::\"vera\"", vera(&roles, standing));
        let code = is_stopped.then(|| "approval_outdated".to_owned());
        assert_eq!(stopped(&world, Some(&approved)), code, "{roles:?} {standing}");
        assert_eq!(stopped(&world, None), None, "what needed no approval rests on no reviewer");
    }
}

#[test]
fn the_door_asks_for_what_is_known_of_agents_and_leaves_the_rest_to_the_decision() {
    let mut world = World::new(PACT, "pay", json!({"account": "a"})).with_agent(&["payer"]);
    let refused = |world: &World| {
        without_right(&world.request(), &world.state, world.now_ms)
            .map(|(code, blocked)| (code.to_string(), blocked.message()))
    };
    let code = |world: &World| refused(world).map(|(code, _)| code);
    // Neither the fact, which is not there, nor the parameters are looked at.
    assert_eq!((refused(&world), world.verdict().as_str()), (None, "fact_missing"));
    world.params = json!({"account": 7});
    assert_eq!((refused(&world), world.verdict().as_str()), (None, "invalid_params"));
    world.register(&["payer"], "active", 499);
    assert_eq!(code(&world).as_deref(), Some("trust_too_low"));
    world.register(&["clerk"], "active", 700);
    let (code, message) = refused(&world).unwrap();
    assert_eq!(code, "not_allowed");
    assert!(message.ends_with("can never be true"), "{message}");
    world.action = "rob".to_owned();
    assert_eq!(refused(&world).unwrap().0, "unknown_action");
}
