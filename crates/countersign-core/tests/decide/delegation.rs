//! Acting with a part of another's right: who counts as what, and what is recorded of it.

mod attacks;

use crate::decide::world::{World, in_words};
use countersign_core::action::Action;
use countersign_core::decide::decide;
use countersign_core::delegation::{Chain, Limit, Scope};
use countersign_core::disclose::Disclosure;
use countersign_core::identity::KeyName;
use countersign_core::ids::{ActionName, AgentId, Digest, PactName, Tag};
use countersign_core::record::{Context, Decided, Encoder, Entry, Event, Leaf};
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
    Arc::new(Chain::new("gate.test".into(), root, KeyName::of([key; 32]), hops, Digest::of(b"dlg1.AAAA")).unwrap())
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
        self.chain =
            Some(Arc::new(Chain::new("gate.test".into(), root.clone(), key.clone(), hops, before.token()).unwrap()));
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
    let reads = &decision.blocked().unwrap().failed()[0].reads;
    assert!(reads.iter().any(|read| read.fact.id() == "middle" && read.actual.as_ref().unwrap().to_string() == "520"));
    world.member_with("middle", 3, "active", &[], 499);
    let decision = world.decide();
    assert_eq!(in_words(&decision), "trust_too_low");
    let reason = decision.blocked().unwrap().clone();
    assert!(reason.message().contains("middle has 499"), "{}", reason.message());
    // How much another member is trusted is not for the one who acts to read.
    let (reads, agent) = (Vec::new(), AgentId::new(world.agent).unwrap());
    let mut told = reason;
    told.withhold(&Disclosure::new(&world.state, &agent, None, &reads));
    assert!(told.message().contains("middle has less"), "{}", told.message());
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
    assert!(decision.blocked().unwrap().message().contains("of lead"), "{decision:?}");
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
    assert!(blocked.message().contains(says), "{}", blocked.message());
    assert!(decision.writes.is_empty() && decision.charges.is_empty());
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
            let event = Event::Action(Box::new(Decided { action: Box::new(action), decision }));
            Entry { index: 9, time_ms: world.now_ms, by, auth, context: Context::default(), event }
        };
        let (first, mut encoder) = (entry(world.request()), Encoder::default());
        let payload = encoder.payload(&first).to_owned();
        let leaf = encoder.leaf(&first, &[5; 32]).to_owned();
        let read = Leaf::decode(&leaf).unwrap();
        assert_eq!(read.by.as_str(), "agent-1");
        let decoded = Entry::decode(read.clone(), Some(payload.as_bytes())).unwrap();
        let Event::Action(decided) = decoded.event else { panic!() };
        assert_eq!(decided.action.chain, world.chain);
        let second = entry(*decided.action);
        assert_eq!(encoder.payload(&second), payload);
        assert_eq!(encoder.leaf(&second, &[5; 32]), leaf);
        // Canonical: a generic writer gives the same bytes.
        let body = world.request().body;
        let object = payload.strip_suffix(&*body).unwrap();
        let json: serde_json::Value = serde_json::from_str(object).unwrap();
        let mut sorted = countersign_core::canonical::Canonical::new();
        sorted.json(&json);
        assert_eq!(sorted.as_str(), object);
        // An unknown member is refused, never guessed.
        let strange = payload.replace("\"root\":", "\"roof\":");
        assert!(Entry::decode(read, Some(strange.as_bytes())).is_err());
    }
}
