//! Messages: who may write to whom, what arrives, what is full, and what is said of it in an entry.

use crate::decide::delegation::{chain, scope};
use crate::decide::world::{World, in_words};
use countersign_core::code::Code;
use countersign_core::decide::{Grouping, Withheld, withheld};
use countersign_core::decision::Decision;
use countersign_core::disclose::{DecidedBy, Disclosure};
use countersign_core::halt::{Halt, Scope};
use countersign_core::ids::{ActionName, AgentId, FactId, PactName};
use countersign_core::limits::{INBOX_MESSAGES_MAX, INBOX_PER_SENDER_MAX, MESSAGES_MAX, SENDER_MESSAGES_MAX};
use countersign_core::message::{Delivery, MessageId, Unread};
use countersign_core::pact::load::load;
use countersign_core::pact::manifest::manifest;
use countersign_core::reason::Reason;
use countersign_core::record::{Context, Decided, Encoder, Entry, Event, Leaf};
use countersign_core::state::State;
use serde_json::json;

const PACT: &str = r#"
pact = "office"
version = 1

[facts.Case]
attributes = { owner = "String", open = "Bool" }

[action.tell]
resource = 'Agent::"{to}"'
allow = 'principal.org == resource.org'
deliver = { to = "{to}", body = ["text", "about"] }

[action.tell.params]
type = "object"
additionalProperties = false
required = ["to", "text"]
properties.to = { type = "string", maxLength = 256 }
properties.text = { type = "string", maxLength = 200 }
properties.about = { type = "object", additionalProperties = false, properties.case = { type = "string" } }

[action.report]
resource = 'Case::"{case}"'
allow = 'true'
set = { open = "false" }
budget = { count = true, max = 2, per = "1h", by = "agent" }
deliver = { to = "{resource.owner}" }

[action.report.params]
type = "object"
additionalProperties = false
required = ["case", "text"]
properties.case = { type = "string" }
properties.text = { type = "string" }

[[action.report.require]]
id = "case-is-open"
that = 'resource.open'
"#;

fn world() -> World {
    let params = json!({"to": "ben", "text": "look at this"});
    let mut world = World::new(PACT, "tell", params).with_agent(&[]);
    colleague(&mut world, "ben", "acme", "active");
    world.feed("Case::\"7\"", Some(json!({"owner": "ben", "open": true})));
    world
}

fn colleague(world: &mut World, name: &str, org: &str, standing: &str) {
    let value = json!({"org": org, "roles": [], "standing": standing, "trust": 1});
    world.feed(&format!("Agent::\"{name}\""), Some(value));
}

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn waiting(world: &World, to: &str) -> Vec<(u64, String)> {
    let waiting = world.state.inboxes.waiting_for(&agent(to));
    waiting.iter().map(|waiting| (waiting.id.0, waiting.from.to_string())).collect()
}

#[test]
fn a_message_is_delivered_by_the_entry_that_commits_it() {
    let mut world = world();
    let entry = world.next_entry;
    let decision = world.act();
    assert_eq!(in_words(&decision), "committed");
    let message = decision.message.as_ref().unwrap();
    assert_eq!((message.to.as_str(), &*message.body), ("ben", &["text".into(), "about".into()][..]));
    assert_eq!(waiting(&world, "ben"), [(entry, "agent-1".to_owned())]);
    let read: Vec<&FactId> = decision.reads.iter().map(|read| &read.fact).collect();
    assert_eq!(read.len(), 2, "its own agent, and the recipient once: {read:?}");
}

#[test]
fn facts_name_the_recipient_and_an_action_does_more_than_write() {
    let mut world = world();
    (world.action, world.params) = ("report".into(), json!({"case": "7", "text": "done"}));
    let decision = world.act();
    assert_eq!(in_words(&decision), "committed");
    assert_eq!((decision.writes.len(), decision.charges.len()), (1, 1));
    assert_eq!(decision.message.unwrap().body[..], ["case", "text"], "all parameters, where none is named");
    assert!(
        decision.reads.iter().any(|read| read.fact == FactId::of_agent(&agent("ben"))),
        "who was written to was read"
    );
    assert_eq!(world.verdict(), "precondition_failed: case-is-open false");
    assert_eq!(waiting(&world, "ben").len(), 1);
}

#[test]
fn a_recipient_that_an_attribute_names_is_told_to_those_who_may_see_it() {
    let grant = "\n[[observe.Case]]\nwho = 'principal.roles.contains(\"lead\")'\nattributes = \"*\"\n";
    let mut world = World::new(&format!("{PACT}{grant}"), "report", json!({"case": "7", "text": "done"}));
    colleague(&mut world, "ben", "acme", "revoked");
    world.feed("Case::\"7\"", Some(json!({"owner": "ben", "open": true})));
    let told = |world: &mut World| {
        let decision = world.decide();
        let (pact, action) = (decision.pact.clone().unwrap(), ActionName::new("report").unwrap());
        let reads: Vec<FactId> = decision.reads.iter().map(|read| read.fact.clone()).collect();
        let by = Some(DecidedBy { pact: &pact, action: &action });
        let mut reason = decision.blocked().unwrap().clone();
        reason.withhold(&Disclosure::new(&world.state, &agent("agent-1"), by, &reads));
        reason.message()
    };
    let mut world = world.with_agent(&[]);
    assert_eq!(told(&mut world), "… is not an active agent, so nothing was delivered");
    let mut world = world.with_agent(&["lead"]);
    assert_eq!(told(&mut world), "ben is not an active agent, so nothing was delivered");
    // The same of an inbox that is full.
    colleague(&mut world, "ben", "acme", "active");
    for _ in 0..INBOX_PER_SENDER_MAX {
        let delivery = (agent("agent-1"), agent("ben"));
        world.state.inboxes.deliver(world.next_entry, Delivery { from: &delivery.0, to: &delivery.1 });
        world.next_entry += 1;
    }
    assert_eq!(told(&mut world), "128 messages of agent-1 wait in the inbox of ben, of 128 that may");
    let mut world = world.with_agent(&[]);
    assert_eq!(told(&mut world), "128 messages of agent-1 wait in the inbox of …, of 128 that may");
}

/// Each row mends the fault of the row above.
#[test]
fn what_is_in_the_way_is_said_in_this_order() {
    let mut world = world();
    world.params = json!({"to": "nobody", "text": 7});
    let fill = |world: &mut World, from: &str, to: &str, count: usize| {
        for _ in 0..count {
            let delivery = (agent(from), agent(to));
            world.state.inboxes.deliver(world.next_entry, Delivery { from: &delivery.0, to: &delivery.1 });
            world.next_entry += 1;
        }
    };
    type Row<'a> = (&'a str, Box<dyn Fn(&mut World)>);
    let rows: Vec<Row<'_>> = vec![
        ("invalid_params", Box::new(|world| world.params = json!({"to": "no\u{7}one", "text": "x"}))),
        ("invalid_fact_id", Box::new(|world| world.params = json!({"to": "nobody", "text": "x"}))),
        ("fact_missing", Box::new(|world| colleague(world, "nobody", "rival", "revoked"))),
        ("not_allowed", Box::new(|world| colleague(world, "nobody", "acme", "revoked"))),
        ("recipient_not_active", Box::new(|world| world.params = json!({"to": "ben", "text": "x"}))),
    ];
    fill(&mut world, "agent-1", "ben", INBOX_PER_SENDER_MAX);
    for (expected, mend) in rows {
        assert_eq!(world.verdict(), expected);
        mend(&mut world);
    }
    assert_eq!(world.verdict(), "message_quota_exceeded");
    let own = world.state.inboxes.waiting_for(&agent("ben")).iter().next().unwrap().id;
    world.state.inboxes.acknowledge(&agent("ben"), &[own]);
    assert_eq!(world.verdict(), "committed", "one of its own was read");
    // An eighth each: who floods takes no one else's place, and only all together fill an inbox.
    for sender in 1..INBOX_MESSAGES_MAX / INBOX_PER_SENDER_MAX {
        fill(&mut world, &format!("other-{sender}"), "ben", INBOX_PER_SENDER_MAX - 1);
    }
    assert_eq!(world.verdict(), "committed");
    let left = INBOX_MESSAGES_MAX - waiting(&world, "ben").len();
    fill(&mut world, "late", "ben", left);
    assert_eq!(world.verdict(), "inbox_full");
    world.params = json!({"to": "carl", "text": "x"});
    colleague(&mut world, "carl", "acme", "active");
    assert_eq!(world.verdict(), "committed", "another inbox has room");
}

#[test]
fn a_sender_that_writes_to_everyone_leaves_the_others_room() {
    let room = Unread::default();
    assert_eq!(room.check(), Ok(()));
    let of_sender = Unread { sent: SENDER_MESSAGES_MAX, ..room }.check().unwrap_err();
    assert!(matches!(of_sender, countersign_core::message::NoRoom::Sender { in_all: true, .. }));
    let in_all = Unread { in_all: MESSAGES_MAX, ..room }.check().unwrap_err();
    assert!(matches!(in_all, countersign_core::message::NoRoom::Inbox { in_all: true, .. }));
    const { assert!(SENDER_MESSAGES_MAX * 64 <= MESSAGES_MAX, "it takes many to fill the gate") };
}

#[test]
fn a_delegation_must_reach_the_recipient() {
    let mut world = world();
    (world.action, world.params) = ("report".into(), json!({"case": "7", "text": "done"}));
    world.feed(
        "Agent::\"lead\"",
        Some(json!({"org": "acme", "roles": [], "standing": "active", "trust": 1, "key": key(2)})),
    );
    world.feed(
        "Agent::\"agent-1\"",
        Some(json!({"org": "acme", "roles": [], "standing": "active", "trust": 1, "key": key(3)})),
    );
    let mut hop = scope("agent-1", 3);
    hop.facts = Some(["Case::\"7\"".parse().unwrap()].into_iter().collect());
    world.chain = Some(chain("lead", 2, vec![hop.clone()]));
    assert_eq!(world.verdict(), "delegation_out_of_scope");
    hop.facts = Some(["Case::\"7\"", "Agent::\"ben\""].iter().map(|fact| fact.parse().unwrap()).collect());
    world.chain = Some(chain("lead", 2, vec![hop]));
    assert_eq!(world.verdict(), "committed");
}

fn key(number: u8) -> String {
    countersign_core::identity::KeyName::of([number; 32]).to_string()
}

#[test]
fn the_messages_of_a_group_count_for_those_behind_them() {
    let mut world = world();
    for entry in 0..INBOX_PER_SENDER_MAX as u64 - 1 {
        let (from, to) = (agent("agent-1"), agent("ben"));
        world.state.inboxes.deliver(world.next_entry + entry, Delivery { from: &from, to: &to });
    }
    let mut group = Grouping::new(&world.state, world.next_entry, world.now_ms);
    let action = world.request();
    let first = group.decide(&action).unwrap();
    group.assume(&action, &first);
    let second = group.decide(&action).unwrap_err();
    assert_eq!(second.blocked().unwrap().code(), Code::MessageQuotaExceeded);
}

#[test]
fn a_rejection_delivers_nothing_and_an_entry_says_what_it_delivers() {
    let world = world();
    let decision = world.decide();
    let (leaf, payload) = encoded(&world, decision.clone());
    let leaf_read = Leaf::decode(&leaf).unwrap();
    assert_eq!((leaf_read.to.as_ref().map(AgentId::as_str), &leaf_read.from), (Some("ben"), &None));
    assert!(payload.contains(r#""delivers":["text","about"]"#), "{payload}");
    let whole = Entry::decode(leaf_read.clone(), Some(payload.as_bytes())).unwrap();
    let erased = Entry::decode(leaf_read.clone(), None).unwrap();
    let folded = Entry::decode_to_fold(leaf_read.clone(), Some(payload.as_bytes())).unwrap();
    let mut states = Vec::new();
    for entry in [whole, erased, folded] {
        let mut state = State::default();
        state.apply(&entry);
        states.push(state.inboxes.clone());
        state.apply(&entry);
        assert_eq!(state.inboxes.len(), 1, "twice is once");
    }
    assert_eq!(states[0].waiting_for(&agent("ben")).iter().next().unwrap().id, MessageId(world.next_entry));
    assert!(states.windows(2).all(|pair| pair[0] == pair[1]), "whatever is left of the entry");
    // A payload without what the leaf says, or with what it does not.
    let silent = payload.replace(r#""delivers":["text","about"],"#, "");
    assert!(Entry::decode(leaf_read, Some(silent.as_bytes())).is_err());
}

#[test]
fn no_leaf_delivers_what_did_not_commit_or_acknowledges_in_another_order() {
    let world = world();
    let mut decision = world.decide();
    decision.verdict = countersign_core::decision::Verdict::Rejected(Reason::TooManyReviews);
    let (leaf, _) = encoded(&world, decision);
    assert!(Leaf::decode(&leaf).is_err(), "rejected, and says that it delivered");
    for messages in [vec![], vec![MessageId(5), MessageId(3)], vec![MessageId(3), MessageId(3)]] {
        let event = Event::Acknowledgement { messages };
        let (leaf, _) = encode(&Entry { event, ..entry(&world, world.decide()) });
        assert!(Leaf::decode(&leaf).is_err());
    }
}

fn entry(world: &World, decision: Decision) -> Entry {
    let (index, time_ms, by) = (world.next_entry, world.now_ms, agent(world.agent));
    let event = Event::Action(Box::new(Decided { action: Box::new(world.request()), decision }));
    Entry { index, time_ms, by, auth: world.auth.clone(), context: Context::default(), event }
}

fn encoded(world: &World, decision: Decision) -> (Vec<u8>, String) {
    encode(&entry(world, decision))
}

fn encode(entry: &Entry) -> (Vec<u8>, String) {
    let mut encoder = Encoder::default();
    let payload = encoder.payload(entry).to_owned();
    (encoder.leaf(entry, &[7; 32]).to_vec(), payload)
}

#[test]
fn what_was_halted_or_revoked_since_is_withheld() {
    let mut world = world();
    let (pact, sender) = (PactName::new("office").unwrap(), agent("agent-1"));
    let now = |world: &World| withheld(&pact, || std::iter::once(&sender), &world.state);
    assert_eq!(now(&world), None);
    for scope in [Scope::All, Scope::Pact(pact.clone()), Scope::Agent(sender.clone()), Scope::Org("acme".into())] {
        let halt = Halt { entry: 1, by: agent("root"), at_ms: 1, reason: "a worm".into() };
        world.state.halts.halt(scope.clone(), halt);
        assert_eq!(now(&world), Some(Withheld::Halted(scope.clone())));
        world.state.halts.resume(&scope);
    }
    world
        .state
        .halts
        .halt(Scope::Agent(agent("ben")), Halt { entry: 1, by: agent("root"), at_ms: 1, reason: "r".into() });
    assert_eq!(now(&world), None, "someone else's");
    world.register(&[], "quarantined", 1);
    assert_eq!(now(&world), Some(Withheld::NotActive(sender.clone())));
}

#[test]
fn a_pact_says_clearly_what_cannot_be_delivered() {
    let wrong = |change: &str, by: &str| {
        let text = PACT.replacen(change, by, 1);
        assert_ne!(text, PACT, "{change}");
        let problems = load(&text).err().unwrap();
        problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    };
    let tell = r#"deliver = { to = "{to}", body = ["text", "about"] }"#;
    let cases: [(&str, &str); 10] = [
        (r#"deliver = { body = ["text"] }"#, "this delivery has no `to`"),
        (r#"deliver = { to = "" }"#, "a message needs a recipient"),
        (r#"deliver = { to = "{nobody}" }"#, "`nobody` is not a parameter of this action"),
        (r#"deliver = { to = "{resource.org}-desk", text = "x" }"#, "this delivery has an unknown key `text`"),
        (r#"deliver = { to = "{to}", body = ["words"] }"#, "`words` is not a parameter of this action"),
        (r#"deliver = { to = "{to}", body = [] }"#, "this message has no content"),
        (r#"deliver = { to = "{to}", body = ["text", "text"] }"#, "`text` is in the message twice"),
        (r#"deliver = { to = "{about}" }"#, "`about` is"),
        (r#"deliver = "{to}""#, "`deliver` must be a table, but is a string"),
        (
            "deliver = { to = \"{to}\" }\ncall = { http = \"mail\", path = \"/send\" }",
            "an action delivers a message or makes a `call`, not both",
        ),
    ];
    for (by, said) in cases {
        let problems = wrong(tell, by);
        assert!(problems.contains(said), "{by}: {problems}");
    }
    let pact = load(PACT).unwrap().pact;
    let told = manifest(&pact);
    assert!(told.contains("- a message to agent `{to}` with `text`, `about`"), "{told}");
    assert!(told.contains("- a message to agent `{resource.owner}` with `case`, `text`"), "{told}");
}
