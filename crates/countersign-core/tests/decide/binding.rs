//! Parameters are bound by the pact: what its schema does not allow is rejected, whatever else holds (L4-2).

use crate::decide::world::World;
use serde_json::{Value as Json, json};

const BILLING: &str = include_str!("../../../../examples/billing.toml");

#[test]
fn parameters_off_the_list_out_of_range_or_in_another_currency_are_rejected() {
    let good = json!({"account": "42", "amount": 500_000, "currency": "USD", "destination": "acct_treasury_1"});
    let mut world = World::new(BILLING, "refund", good.clone()).with_agent(&["refunder"]);
    world.feed("Account::\"42\"", Some(json!({"status": "active", "balance": 900_000, "owner": "ada"})));
    world.observe(&["Account::\"42\""]);
    assert_eq!(world.verdict(), "committed");

    let bad: &[(&str, Json)] = &[
        ("destination", json!("acct_thief")),
        ("amount", json!(0)),
        ("amount", json!(500_001)),
        ("amount", json!("500000")),
        ("amount", json!(-1)),
        ("currency", json!("EUR")),
        ("currency", json!("usd")),
        ("currency", json!(null)),
        ("account", json!(42)),
        ("account", json!("x".repeat(65))),
        ("memo", json!("an argument that the pact does not name")),
    ];
    for (name, value) in bad {
        world.params = good.clone();
        world.params[*name] = value.clone();
        let decision = world.decide();
        let blocked = decision.blocked().unwrap_or_else(|| panic!("{name} = {value}: {decision:?}"));
        assert_eq!(blocked.code().as_str(), "invalid_params", "{name} = {value}");
        assert!(blocked.message().contains(name), "{name} = {value}: {}", blocked.message());
        assert!(decision.writes.is_empty(), "{name} = {value}");
    }
    for missing in ["account", "amount", "currency", "destination"] {
        world.params = good.clone();
        world.params.as_object_mut().unwrap().remove(missing);
        assert_eq!(world.decide().blocked().unwrap().code().as_str(), "invalid_params", "{missing}");
    }
}
