//! Acting with a part of another's right: who counts as what, and every attack on a chain, each with its code.

use crate::world::{World, in_words};
use countersign_core::action::{Action, ActionRequest};
use countersign_core::decide::decide;
use countersign_core::delegation::{Chain, ChainError, Limit, Scope};
use countersign_core::identity::KeyName;
use countersign_core::ids::{ActionName, AgentId, Digest, PactName, Tag};
use countersign_core::record::{Decided, Encoder, Entry, Event, Leaf, Stored, decode_with_auth};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PACT: &str = r#"
pact = "billing"
version = 1

[facts.Account]
attributes = { balance = "Long" }

[action.refund]
resource = 'Account::"{account}"'
reads.beside = { fact = 'Account::"{other}"', optional = true }
allow = 'principal.roles.contains("refunder")'
min_trust = 500
budget = { sum = "amount", max = 1000, per = "1h", by = "agent" }
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "other", "amount", "currency"]
properties.account = { type = "string" }
properties.other = { type = "string" }
properties.amount = { type = "integer", minimum = 1, maximum = 5000 }
properties.currency = { type = "string" }

[[action.refund.require]]
id = "helpers-act"
that = 'context.actor.roles.contains("helper") || context.actor == principal'

[[action.refund.require]]
id = "trusted"
that = 'principal.trust >= 550 && context.actor.trust >= 0 && context.actor.org == principal.org'
"#;

/// A scope without limits.
pub fn scope(to: &str, key: u8) -> Scope {
    Scope {
        to: AgentId::new(to).unwrap(),
        key: KeyName::of([key; 32]),
        actions: None,
        limits: BTreeMap::new(),
        facts: None,
        expires_at_ms: None,
        depth: 0,
    }
}

pub fn at_most(max: i64) -> Limit {
    Limit { max: Some(max), one_of: None }
}

pub fn chain(root: &str, key: u8, hops: Vec<Scope>) -> Arc<Chain> {
    let root = AgentId::new(root).unwrap();
    Arc::new(Chain::new(root, KeyName::of([key; 32]), hops, Digest::of(b"dlg1.AAAA")).unwrap())
}

impl World {
    /// Registers a member of a delegation under a key.
    pub fn member(&mut self, agent: &str, key: u8, standing: &str) {
        self.member_with(agent, key, standing, &["helper"], 700);
    }

    fn member_with(&mut self, agent: &str, key: u8, standing: &str, roles: &[&str], trust: i64) {
        let key = KeyName::of([key; 32]);
        let value = json!({"org": "acme", "roles": roles, "standing": standing, "trust": trust, "key": key.as_str()});
        self.feed(&format!("Agent::\"{agent}\""), Some(value));
    }

    /// Changes one hop of the delegation.
    pub fn change_hop(&mut self, at: usize, change: impl FnOnce(&mut Scope)) {
        let before = self.chain.take().unwrap();
        let (root, key) = before.members().next().unwrap();
        let mut hops = before.hops().to_vec();
        change(&mut hops[at]);
        self.chain = Some(Arc::new(Chain::new(root.clone(), key.clone(), hops, before.token()).unwrap()));
    }
}

fn refunds() -> BTreeSet<(PactName, ActionName)> {
    BTreeSet::from([(PactName::new("billing").unwrap(), ActionName::new("refund").unwrap())])
}

/// `lead` may refund and hands on to `middle`, which hands on to `agent-1`, which acts.
fn world() -> World {
    let params = json!({"account": "a", "other": "b", "amount": 100, "currency": "USD"});
    let mut world = World::new(PACT, "refund", params);
    world.member_with("lead", 2, "active", &["refunder"], 900);
    world.member_with("middle", 3, "active", &[], 600);
    world.member_with("agent-1", 4, "active", &["helper"], 800);
    world.feed("Account::\"a\"", Some(json!({"balance": 10_000})));
    world.feed("Account::\"b\"", Some(json!({"balance": 10_000})));
    let limit = |values: &[&str]| values.iter().map(|value| (*value).into()).collect();
    let mut first = scope("middle", 3);
    first.actions = Some(refunds());
    first.limits.insert("amount".into(), at_most(1000));
    first.limits.insert("currency".into(), Limit { max: None, one_of: Some(limit(&["USD", "EUR"])) });
    first.facts = Some(BTreeSet::from(["Account::\"a\"".parse().unwrap(), "Account::\"c\"".parse().unwrap()]));
    first.expires_at_ms = Some(2_000_000);
    first.depth = 1;
    let mut second =
        Scope { to: AgentId::new("agent-1").unwrap(), key: KeyName::of([4; 32]), depth: 0, ..first.clone() };
    second.limits.insert("amount".into(), at_most(500));
    world.chain = Some(chain("lead", 2, vec![first, second]));
    world
}

#[test]
fn the_root_is_the_principal_and_the_last_member_the_actor() {
    let mut world = world();
    assert_eq!(world.verdict(), "committed");
    // The actor's roles do not allow it to refund in its own right, and its own right is not used.
    world.chain = None;
    assert_eq!(world.verdict(), "not_allowed");
    // Without a delegation the actor is the principal.
    world.agent = "lead";
    assert_eq!(world.verdict(), "committed");
    // The root's roles count, not the actor's.
    let mut world = self::world();
    world.member_with("lead", 2, "active", &["helper"], 900);
    world.member_with("agent-1", 4, "active", &["refunder", "helper"], 800);
    assert_eq!(world.verdict(), "not_allowed");
    // The actor's roles count where the pact asks for them.
    let mut world = self::world();
    world.member_with("agent-1", 4, "active", &[], 800);
    assert_eq!(world.verdict(), "precondition_failed: helpers-act false");
}

#[test]
fn trust_is_the_least_of_the_chain() {
    let mut world = world();
    world.member_with("middle", 3, "active", &[], 520);
    let decision = world.decide();
    assert_eq!(in_words(&decision), "precondition_failed: trusted false");
    let reads = &decision.blocked().unwrap().failed[0].reads;
    assert!(reads.iter().any(|read| read.fact.id() == "middle" && read.actual.as_ref().unwrap().to_string() == "520"));
    world.member_with("middle", 3, "active", &[], 499);
    let decision = world.decide();
    assert_eq!(in_words(&decision), "trust_too_low");
    assert!(decision.blocked().unwrap().message.contains("middle has 499"));
}

#[test]
fn budgets_charge_every_member() {
    let mut world = world();
    world.params["amount"] = json!(400);
    let decision = world.act();
    let charged: Vec<_> =
        decision.charges.iter().map(|c| (c.budget.agent.clone().unwrap().to_string(), c.amount)).collect();
    assert_eq!(charged, [("lead".to_owned(), 400), ("middle".to_owned(), 400), ("agent-1".to_owned(), 400)]);
    // What a member spends by itself counts against what it hands on.
    world.agent = "lead";
    let delegated = world.chain.take();
    world.params["amount"] = json!(400);
    assert_eq!(in_words(&world.act()), "committed");
    (world.agent, world.chain) = ("agent-1", delegated);
    let decision = world.decide();
    assert_eq!(in_words(&decision), "budget_exceeded");
    assert!(decision.blocked().unwrap().message.contains("of lead"), "{decision:?}");
}

#[test]
fn every_member_is_among_the_reads() {
    let world = world();
    let reads: Vec<_> = world.decide().reads.iter().map(|read| read.fact.to_string()).collect();
    let expected = ["Agent::\"lead\"", "Agent::\"middle\"", "Agent::\"agent-1\"", "Account::\"a\"", "Account::\"b\""];
    assert_eq!(reads, expected);
}

#[test]
fn a_halt_of_any_member_stops_what_it_handed_on() {
    use countersign_core::halt::{Halt, Scope};
    for member in ["lead", "middle", "agent-1"] {
        let mut world = world();
        let halted = Scope::Agent(AgentId::new(member).unwrap());
        let by = AgentId::new("operator").unwrap();
        world.state.halts.halt(halted.clone(), Halt { entry: 1, by, at_ms: 1, reason: "a test".into() });
        refused(&world, "halted", member);
        world.state.halts.resume(&halted);
        assert_eq!(world.verdict(), "committed");
    }
}

/// The code of a rejection and a part of its message.
fn refused(world: &World, code: &str, says: &str) {
    let decision = world.decide();
    assert_eq!(in_words(&decision), code);
    let blocked = decision.blocked().unwrap();
    assert!(blocked.message.contains(says), "{}", blocked.message);
    assert!(decision.writes.is_empty() && decision.charges.is_empty());
}

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
        ("until 2000001 ms", |hop| hop.expires_at_ms = Some(2_000_001)),
        ("to hand on 2 times", |hop| hop.depth = 2),
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
        Chain::new(AgentId::new(root).unwrap(), KeyName::of([1; 32]), hops, Digest::of(b"")).unwrap_err()
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
    refused(&world, "delegation_too_deep", "was handed on 2 times");
}

#[test]
fn attack_a_delegation_after_its_expiry() {
    let mut world = world();
    world.now_ms = 1_999_999;
    assert_eq!(world.verdict(), "committed");
    world.now_ms = 2_000_000;
    refused(&world, "delegation_expired", "hop 1, from lead to middle, expired at 2000000 ms");
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
        let mut world = self::world();
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
    let mut world = self::world();
    world.params["account"] = json!("nowhere");
    refused(&world, "delegation_out_of_scope", "not Account::\"nowhere\"");
}

#[test]
fn a_token_and_its_chain_belong_together() {
    let world = world();
    let mut action = world.request();
    action.chain = None;
    assert_eq!(in_words(&decide(&action, &world.state, world.now_ms)), "delegation_out_of_scope");
    let mut action = world.request();
    action.is_delegated = false;
    assert_eq!(in_words(&decide(&action, &world.state, world.now_ms)), "delegation_out_of_scope");
}

#[test]
fn a_delegated_action_read_back_and_decided_again_has_the_same_bytes() {
    let mut world = world();
    for standing in ["active", "revoked"] {
        world.member_with("middle", 3, standing, &[], 600);
        let entry = |action: Action| {
            let mut decision = decide(&action, &world.state, world.now_ms);
            for write in &mut decision.writes {
                write.tag.get_or_insert(Tag([7; 12]));
            }
            let (by, auth) = (action.agent.clone(), action.auth.clone());
            let event = Event::Action(Box::new(Decided { action, decision }));
            Entry { index: 9, time_ms: world.now_ms, by, auth, event }
        };
        let (first, mut encoder) = (entry(world.request()), Encoder::default());
        let payload = encoder.payload(&first).to_owned();
        let leaf = encoder.leaf(&first, &[5; 32]).to_owned();
        let read = Leaf::decode(leaf.as_bytes()).unwrap();
        assert_eq!(read.by().unwrap().as_str(), "agent-1");
        let (Stored::Action(stored), auth) = decode_with_auth(&read, payload.as_bytes()).unwrap() else { panic!() };
        assert_eq!(stored.chain, world.chain);
        let request = ActionRequest::parse(&stored.body).unwrap();
        let mut again = Action::new(read.by().unwrap(), auth, stored.body.clone(), request, stored.observed);
        again.chain = stored.chain;
        let second = entry(again);
        assert_eq!(encoder.payload(&second), payload);
        assert_eq!(encoder.leaf(&second, &[5; 32]), leaf);
        // Canonical: a generic writer gives the same bytes.
        let json: serde_json::Value = serde_json::from_str(&payload).unwrap();
        let mut sorted = countersign_core::canonical::Canonical::new();
        sorted.json(&json);
        assert_eq!(sorted.as_str(), payload);
        // An unknown member is refused, never guessed.
        let strange = payload.replace("\"root\":", "\"roof\":");
        assert!(decode_with_auth(&read, strange.as_bytes()).is_err());
    }
}
