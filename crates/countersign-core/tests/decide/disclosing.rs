//! What an agent may see: grant, agent and fact on one side, what is shown on the other.

use crate::decide::world::World;
use countersign_core::decision::PactRef;
use countersign_core::disclose::{DecidedBy, Disclosed, Disclosure, disclose, withheld};
use countersign_core::ids::{ActionName, AgentId, Digest, FactId};
use countersign_core::reason::Reason;
use serde_json::json;

const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { owner = "String", status = "String", balance = "Long", note = "String?" }

[facts.Letter]
attributes = { text = "String" }

[facts.Transfer]
attributes = { source = "String", amount = "Long" }

[[observe.Account]]
who = 'principal.roles.contains("refunder")'
attributes = ["status", "balance"]

[[observe.Account]]
who = 'resource.owner == principal.org'
attributes = "*"

[[observe.Account]]
who = '!(resource has note && resource.note == "secret")'
attributes = ["note"]

[observe.Agent]
who = 'principal.roles.contains("boss") && principal != resource'
attributes = ["standing"]

[observe.Transfer]
who = 'principal.roles.contains("refunder")'
attributes = ["amount"]

[action.execute]
resource = 'Transfer::"{transfer}"'
reads.source = 'Account::"{resource.source}"'
allow = 'true'
[action.execute.params]
type = "object"
additionalProperties = false
required = ["transfer"]
properties.transfer = { type = "string" }
[[action.execute.require]]
id = "active"
that = 'context.source.status == "active"'
"#;

fn world() -> World {
    let mut world = World::new(PACT, "execute", json!({"transfer": "t"}));
    world.feed("Account::\"ours\"", Some(json!({"owner": "acme", "status": "active", "balance": 1, "note": "secret"})));
    world.feed(
        "Account::\"theirs\"",
        Some(json!({"owner": "evil", "status": "active", "balance": 2, "note": "secret"})),
    );
    world.feed("Account::\"open\"", Some(json!({"owner": "evil", "status": "active", "balance": 3})));
    world.feed("Account::\"gone\"", Some(json!({"owner": "acme", "status": "active", "balance": 4})));
    world.feed("Account::\"gone\"", None);
    world.feed("Letter::\"1\"", Some(json!({"text": "hello"})));
    world.feed("Transfer::\"t\"", Some(json!({"source": "theirs", "amount": 5})));
    world.feed("Agent::\"agent-2\"", Some(json!({"org": "acme", "roles": [], "standing": "active", "trust": 1})));
    world
}

fn agent() -> AgentId {
    AgentId::new("agent-1").unwrap()
}

fn shown(world: &World, fact: &str) -> String {
    let id: FactId = fact.parse().unwrap();
    match disclose(&world.state, &agent(), &id) {
        Disclosed::Nothing => "nothing".to_owned(),
        Disclosed::Whole => "whole".to_owned(),
        Disclosed::Attributes(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn grants_add_up_and_nothing_else_is_shown() {
    let rows: &[(&[&str], &str, &str, &str)] = &[
        // What roles and the fact's own attributes grant.
        (&["refunder"], "active", "Account::\"theirs\"", "balance status"),
        (&["refunder"], "active", "Account::\"ours\"", "balance note owner status"),
        (&["refunder"], "active", "Account::\"open\"", "balance note status"),
        (&[], "active", "Account::\"open\"", "note"),
        (&[], "active", "Account::\"ours\"", "balance note owner status"),
        (&[], "active", "Account::\"theirs\"", "nothing"),
        (&["refunder"], "active", "Transfer::\"t\"", "amount"),
        // A type without a grant, and one that nobody declared.
        (&["refunder", "boss"], "active", "Letter::\"1\"", "nothing"),
        (&["refunder", "boss"], "active", "Nonsense::\"1\"", "nothing"),
        // What is not there satisfies no condition on its attributes, and is shown as absent to who may see the type.
        (&[], "active", "Account::\"gone\"", "nothing"),
        (&[], "active", "Account::\"never\"", "nothing"),
        (&["refunder"], "active", "Account::\"gone\"", "balance status"),
        (&["refunder"], "active", "Account::\"never\"", "balance status"),
        // Who is not active sees nothing but itself.
        (&["refunder"], "quarantined", "Account::\"theirs\"", "nothing"),
        (&["refunder"], "revoked", "Account::\"open\"", "nothing"),
        (&["refunder"], "revoked", "Agent::\"agent-1\"", "whole"),
        // Agents are facts like any other, except the agent's own.
        (&["refunder"], "active", "Agent::\"agent-2\"", "nothing"),
        (&["boss"], "active", "Agent::\"agent-2\"", "standing"),
        (&["boss"], "active", "Agent::\"agent-1\"", "whole"),
    ];
    for (roles, standing, fact, expected) in rows {
        let mut world = world();
        world.register(roles, standing, 700);
        assert_eq!(shown(&world, fact), *expected, "{roles:?} {standing} {fact}");
    }
    assert_eq!(shown(&world(), "Account::\"open\""), "nothing", "an agent that is not registered");
    assert_eq!(shown(&world(), "Agent::\"agent-1\""), "whole");
}

#[test]
fn what_is_withheld_is_told_by_the_type() {
    let world = world().with_agent(&["refunder"]);
    for fact in ["Account::\"theirs\"", "Account::\"open\""] {
        let fact = world.state.facts.get(&fact.parse().unwrap()).unwrap();
        let disclosed = disclose(&world.state, &agent(), &fact.id);
        let names = withheld(&world.state, fact.id.ty(), &disclosed);
        assert!(names.contains(&"owner".into()) && !names.contains(&"status".into()), "{names:?}");
    }
}

#[test]
fn an_id_that_is_made_of_what_is_withheld_is_not_told() {
    let facts = || ["Account::\"theirs\"", "Transfer::\"t\""].map(|fact| fact.parse::<FactId>().unwrap()).to_vec();
    let told = |disclosure: &Disclosure<'_>| {
        let action = ActionName::new("execute").unwrap();
        let mut reason = Reason::ObservationRequired { action, facts: facts() };
        reason.withhold(disclosure);
        reason.hint()
    };
    let reads: Vec<FactId> =
        ["Agent::\"agent-1\"", "Transfer::\"t\"", "Account::\"theirs\""].map(|fact| fact.parse().unwrap()).to_vec();
    let world = world().with_agent(&["refunder"]);
    let pact_of = |world: &World| {
        let pact = world.state.pacts.values().next().unwrap();
        PactRef { name: pact.name.clone(), version: pact.version, hash: pact.hash }
    };
    let (pact, action) = (pact_of(&world), ActionName::new("execute").unwrap());
    let by = Some(DecidedBy { pact: &pact, action: &action });
    let agent = agent();
    let masked = "observe Account::\"…\", Transfer::\"t\" and send the token";
    assert_eq!(told(&Disclosure::new(&world.state, &agent, by, &reads)), masked);
    // Members of a delegation stand before the one who acts.
    let delegated: Vec<FactId> =
        std::iter::once("Agent::\"agent-2\"".parse().unwrap()).chain(reads.iter().cloned()).collect();
    assert_eq!(told(&Disclosure::new(&world.state, &agent, by, &delegated)), masked);
    // Where the agent's own fact is not among them, nobody can say which of them it named.
    let alone = "observe Account::\"…\", Transfer::\"…\" and send the token";
    for by in [by, None] {
        assert_eq!(told(&Disclosure::new(&world.state, &agent, by, &reads[1..])), alone);
    }
    // Under a pact that is no longer known, nobody can say how the id came about.
    let other = PactRef { hash: Digest([0; 32]), ..pact.clone() };
    let by = Some(DecidedBy { pact: &other, action: &action });
    assert_eq!(told(&Disclosure::new(&world.state, &agent, by, &reads)), masked);
    // Who may see the link may see where it leads.
    let open = PACT.replace("attributes = [\"amount\"]", "attributes = \"*\"");
    let mut world = World::new(&open, "execute", json!({})).with_agent(&["refunder"]);
    world.feed("Transfer::\"t\"", Some(json!({"source": "theirs", "amount": 5})));
    let pact = pact_of(&world);
    let by = Some(DecidedBy { pact: &pact, action: &action });
    assert!(told(&Disclosure::new(&world.state, &agent, by, &reads)).contains("theirs"));
}
