//! Every attack on a chain, each with its code.

use super::{at_most, chain, refused, scope, world};
use crate::decide::world::World;
use countersign_core::delegation::{Chain, ChainError, Scope};
use countersign_core::identity::KeyName;
use countersign_core::ids::{ActionName, AgentId, Digest, PactName};
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn attack_a_hop_claims_more_than_it_was_given() {
    type Attack = (&'static str, fn(&mut Scope));
    let attacks: [Attack; 12] = [
        ("any action", |hop| hop.actions = None),
        ("billing.drain", |hop| {
            let drain = (PactName::new("billing").unwrap(), ActionName::new("drain").unwrap());
            hop.actions.as_mut().unwrap().insert(drain);
        }),
        ("up to 1001 `amount`", |hop| drop(hop.limits.insert("amount".into(), at_most(1001)))),
        ("any `amount`", |hop| drop(hop.limits.remove("amount"))),
        ("any `currency`", |hop| drop(hop.limits.remove("currency"))),
        ("`currency` GBP", |hop| {
            hop.limits.get_mut("currency").unwrap().one_of.as_mut().unwrap().insert("GBP".into());
        }),
        ("any fact", |hop| hop.facts = None),
        ("Account::\"b\"", |hop| {
            hop.facts.as_mut().unwrap().insert("Account::\"b\"".parse().unwrap());
        }),
        ("no expiry", |hop| hop.expires_at_ms = None),
        ("until 1970-01-01T00:33:20.001Z", |hop| hop.expires_at_ms = Some(2_000_001)),
        ("to pass on 2 times", |hop| hop.depth = 2),
        ("any action", |hop| (hop.actions, hop.facts) = (None, None)),
    ];
    for (says, attack) in attacks {
        let mut world = world();
        world.change_hop(1, attack);
        refused(&world, "delegation_widened", says);
    }
}

#[test]
fn attack_a_delegation_in_a_loop() {
    let looped = |root: &str, hops: Vec<Scope>| {
        Chain::new("gate.test".into(), AgentId::new(root).unwrap(), KeyName::of([1; 32]), hops, Digest::of(b""))
            .unwrap_err()
    };
    let twice = |agent: &str| ChainError::Loop(AgentId::new(agent).unwrap());
    assert_eq!(looped("a", vec![scope("a", 1)]), twice("a"));
    assert_eq!(looped("a", vec![scope("b", 2), scope("a", 1)]), twice("a"));
    assert_eq!(looped("a", vec![scope("b", 2), scope("c", 3), scope("b", 4)]), twice("b"));
    assert_eq!(looped("a", Vec::new()), ChainError::Empty);
    let many = (0..9).map(|at| scope(&format!("m{at}"), at)).collect();
    assert_eq!(looped("a", many), ChainError::TooLong(9));
}

#[test]
fn attack_a_delegation_handed_on_too_often() {
    let mut world = world();
    world.change_hop(0, |hop| hop.depth = 0);
    refused(&world, "delegation_too_deep", "hop 1, from lead to middle");
    // A hop that claims its parent's depth instead of one less gains nothing.
    world.change_hop(0, |hop| hop.depth = 1);
    world.change_hop(1, |hop| hop.depth = 1);
    assert_eq!(world.verdict(), "committed");
    let mut hops = world.chain.as_ref().unwrap().hops().to_vec();
    hops.push(Scope { to: AgentId::new("third").unwrap(), ..hops[1].clone() });
    world.member("third", 4, "active");
    world.agent = "third";
    world.chain = Some(chain("lead", 2, hops));
    refused(&world, "delegation_too_deep", "was passed on 2 times");
}

#[test]
fn attack_a_delegation_after_its_expiry() {
    let mut world = world();
    world.now_ms = 1_999_999;
    assert_eq!(world.verdict(), "committed");
    world.now_ms = 2_000_000;
    refused(&world, "delegation_expired", "hop 1, from lead to middle, expired at 1970-01-01T00:33:20.000Z");
    world.now_ms = 1_500_000;
    world.change_hop(1, |hop| hop.expires_at_ms = Some(1_500_000));
    refused(&world, "delegation_expired", "hop 2, from middle to agent-1");
}

#[test]
fn attack_a_member_is_not_active() {
    for standing in ["quarantined", "revoked"] {
        for (member, key, roles) in [("lead", 2, &["refunder"]), ("middle", 3, &["helper"])] {
            let mut world = world();
            world.member_with(member, key, standing, roles, 900);
            refused(
                &world,
                "delegation_member_not_active",
                &format!("{member}, a member of this delegation, is \"{standing}\""),
            );
            refused(&world, "delegation_member_not_active", "by operator");
            world.feed(&format!("Agent::\"{member}\""), None);
            refused(&world, "delegation_member_not_active", "is not registered, since entry");
        }
    }
    let mut world = world();
    world.member("agent-1", 4, "revoked");
    assert_eq!(world.verdict(), "agent_not_active");
}

#[test]
fn attack_a_member_whose_key_was_rotated_out() {
    let mut world = world();
    let value = json!({
        "org": "acme", "roles": [], "standing": "active", "trust": 900, "key": KeyName::of([7; 32]).as_str(),
        "old_key": KeyName::of([3; 32]).as_str(), "old_key_until": 1_200_000,
    });
    world.feed("Agent::\"middle\"", Some(value));
    // The overlap lets what was named by the old key live on until it ends.
    world.now_ms = 1_199_999;
    assert_eq!(world.verdict(), "committed");
    world.now_ms = 1_200_000;
    refused(&world, "delegation_key_not_current", "middle is in this delegation under did:key:z6Mk");
    for (member, roles) in [("lead", &["refunder"]), ("agent-1", &["helper"])] {
        let mut world = super::world();
        world.member_with(member, 9, "active", roles, 900);
        refused(&world, "delegation_key_not_current", member);
        world.feed(
            &format!("Agent::\"{member}\""),
            Some(json!({"org": "acme", "roles": roles, "standing": "active", "trust": 900})),
        );
        refused(&world, "delegation_key_not_current", member);
    }
}

#[test]
fn attack_a_stolen_delegation() {
    let mut world = world();
    world.member_with("thief", 6, "active", &["helper", "refunder"], 900);
    for agent in ["thief", "middle", "lead"] {
        world.agent = agent;
        refused(&world, "delegation_out_of_scope", &format!("names agent-1, and {agent} acts"));
    }
}

#[test]
fn attack_an_action_outside_the_scope() {
    type Attack = (&'static str, fn(&mut World));
    let attacks: [Attack; 5] = [
        ("hop 2, from middle to agent-1, allows `amount` up to 500, not 501", |world| {
            world.params["amount"] = json!(501)
        }),
        ("hop 1, from lead to middle, allows `amount` up to 1000", |world| world.params["amount"] = json!(1001)),
        ("allows `currency` to be EUR, USD, not \"GBP\"", |world| world.params["currency"] = json!("GBP")),
        ("allows Account::\"a\", Account::\"c\", not Account::\"b\"", |world| {
            (world.params["account"], world.params["other"]) = (json!("b"), json!("a"));
        }),
        ("limits parameter `speed`, which the action does not have", |world| {
            world.change_hop(1, |hop| drop(hop.limits.insert("speed".into(), at_most(3))));
        }),
    ];
    for (says, attack) in attacks {
        let mut world = world();
        attack(&mut world);
        refused(&world, "delegation_out_of_scope", says);
    }
    let mut world = world();
    let drain = BTreeSet::from([(PactName::new("billing").unwrap(), ActionName::new("drain").unwrap())]);
    world.change_hop(0, |hop| hop.actions = Some(drain.clone()));
    world.change_hop(1, |hop| hop.actions = Some(drain));
    refused(&world, "delegation_out_of_scope", "allows billing.drain, not `billing.refund`");
    // What is not there is out of scope before it is missing: nobody learns of facts beyond its delegation.
    let mut world = super::world();
    world.params["account"] = json!("nowhere");
    refused(&world, "delegation_out_of_scope", "not Account::\"nowhere\"");
}
