//! What is asked again right before an attempt of a call.

use crate::world::World;
use countersign_core::decide::stop_on;
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
        stop_on(&world.request(), &world.state, world.now_ms).map(|blocked| blocked.code.as_str().to_owned())
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
