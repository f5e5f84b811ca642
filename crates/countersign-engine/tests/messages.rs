//! Messages on a real disk: inboxes over restarts, snapshots, approvals and erasures; a flood by one sender; and what an audit says of
//! all that.

use countersign_core::code::Code;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::limits::INBOX_PER_SENDER_MAX;
use countersign_core::message::MessageId;
use countersign_core::review::ReviewId;
use countersign_engine::audit::audit;
use countersign_engine::gate::{Content, Environment, Gate, InboxPage, Options};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, feed, log_key, on_folder_by, operator, publish};
use countersign_testing::hands::Hands;
use serde_json::json;
use std::sync::Arc;

const PACT: &str = r#"
pact = "office"
version = 1

[action.tell]
resource = 'Agent::"{to}"'
allow = 'true'
deliver = { to = "{to}", body = ["text"] }

[action.tell.params]
type = "object"
additionalProperties = false
required = ["to", "text"]
properties.to = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 64 }

[[action.tell.require]]
id = "is-modest"
that = 'context.text != "boast"'
on_fail = "review"
"#;

struct World {
    dir: tempfile::TempDir,
    clock: Arc<Hands>,
    gate: Option<Gate>,
    opened: u8,
    keys: u64,
}

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

impl World {
    fn new() -> Self {
        let clock = Hands::at(1_700_000_000_000);
        let mut world = Self { dir: tempfile::tempdir().unwrap(), clock, gate: None, opened: 0, keys: 0 };
        world.open();
        world.gate().call(publish(PACT)).unwrap();
        for name in ["ann", "ben", "carl"] {
            world.standing(name, "active");
        }
        world
    }

    fn open(&mut self) {
        self.opened += 1;
        let on = on_folder_by(self.dir.path(), Arc::<Hands>::clone(&self.clock));
        let environment = Environment { seed: [self.opened; 32], ..on };
        self.gate = Some(Gate::open(environment, Options::new(ORIGIN)).unwrap().0);
    }

    fn gate(&self) -> &Gate {
        self.gate.as_ref().unwrap()
    }

    /// Ends without a word, and starts again.
    fn restart(&mut self) {
        self.gate.take().unwrap().close().unwrap();
        self.open();
    }

    fn standing(&self, name: &str, standing: &str) {
        let value = format!(r#"{{"roles":[],"standing":"{standing}","org":"acme","trust":1}}"#);
        self.gate().call(feed(&format!("Agent::\"{name}\""), &value)).unwrap();
    }

    /// Sends; the entry, or the code of the rejection.
    fn tell(&mut self, from: &str, to: &str, text: &str) -> Result<u64, Code> {
        self.keys += 1;
        let body = json!({
            "pact": "office", "action": "tell", "idempotency_key": format!("{:032}", self.keys),
            "params": {"to": to, "text": text},
        });
        let action = self.gate().admit(agent(from), Auth::None, body.to_string().into()).unwrap();
        let Ok(Answer::Entered(entered)) = self.gate().call(Request::Act(Box::new(action))) else { panic!() };
        let decision = entered.entry.event.decision().unwrap();
        decision.blocked().map_or(Ok(entered.entry.index), |blocked| Err(blocked.code()))
    }

    fn inbox(&self, of: &str) -> InboxPage {
        self.gate().inbox(&agent(of), &Auth::None, None, 256).unwrap()
    }

    /// What waits: names, senders and texts.
    fn waiting(&self, of: &str) -> Vec<(u64, String, Option<String>)> {
        let text = |content: &Content| match content {
            Content::Body(body) => Some(body["text"].as_str().unwrap().to_owned()),
            Content::Erased | Content::Withheld(_) => None,
        };
        let page = self.inbox(of);
        page.messages.iter().map(|message| (message.id.0, message.from.to_string(), text(&message.content))).collect()
    }

    fn acknowledge(&self, by: &str, entries: &[u64]) -> Result<Answer, Refusal> {
        let messages = entries.iter().copied().map(MessageId).collect();
        self.gate().call(Request::Acknowledge { by: agent(by), auth: Auth::None, messages })
    }

    fn audit(mut self) {
        self.gate.take().unwrap().close().unwrap();
        let disk = RealDisk::open(self.dir.path()).unwrap();
        let report = audit(&disk, &log_key(), &mut |_| ()).unwrap();
        assert_eq!(report.differing, Vec::new());
    }
}

fn told(entry: u64, from: &str, text: &str) -> (u64, String, Option<String>) {
    (entry, from.to_owned(), Some(text.to_owned()))
}

#[test]
fn an_inbox_is_the_same_after_every_kind_of_restart() {
    let mut world = World::new();
    let one = world.tell("ann", "ben", "one").unwrap();
    let two = world.tell("carl", "ben", "two").unwrap();
    let three = world.tell("ann", "ben", "three").unwrap();
    world.acknowledge("ben", &[two]).unwrap();
    let expected = [told(one, "ann", "one"), told(three, "ann", "three")];
    assert_eq!(world.waiting("ben"), expected);
    world.restart();
    assert_eq!(world.waiting("ben"), expected, "from the log");
    world.gate().snapshot().unwrap();
    let four = world.tell("ann", "ben", "four").unwrap();
    world.acknowledge("ben", &[one]).unwrap();
    world.restart();
    let expected = [told(three, "ann", "three"), told(four, "ann", "four")];
    assert_eq!(world.waiting("ben"), expected, "from a snapshot and what came after it");
    // What was acknowledged stays so, and acknowledging again leaves no entry.
    let position = world.gate().view().position;
    assert!(matches!(world.acknowledge("ben", &[one, two]), Ok(Answer::Repeated(_))));
    assert_eq!(world.gate().view().position, position);
    world.audit();
}

#[test]
fn attack_one_sender_floods_an_inbox_and_another_still_gets_through() {
    let mut world = World::new();
    let sent: Vec<u64> =
        (0..INBOX_PER_SENDER_MAX).map(|at| world.tell("ann", "ben", &format!("{at}")).unwrap()).collect();
    assert_eq!(world.tell("ann", "ben", "one more"), Err(Code::MessageQuotaExceeded));
    let other = world.tell("carl", "ben", "in between").unwrap();
    assert!(world.tell("ann", "carl", "elsewhere").is_ok(), "another inbox");
    world.acknowledge("ben", &sent[..1]).unwrap();
    let more = world.tell("ann", "ben", "one more").unwrap();
    let page = world.gate().inbox(&agent("ben"), &Auth::None, Some(MessageId(sent[126])), 2).unwrap();
    let ids: Vec<u64> = page.messages.iter().map(|message| message.id.0).collect();
    assert_eq!((ids, page.has_more, page.waiting), (vec![sent[127], other], true, INBOX_PER_SENDER_MAX + 1));
    world.restart();
    assert_eq!(world.tell("ann", "ben", "one more"), Err(Code::MessageQuotaExceeded), "as full as before");
    assert_eq!(world.waiting("ben").last(), Some(&told(more, "ann", "one more")));
    world.audit();
}

#[test]
fn what_a_person_approved_comes_from_whom_it_came_from() {
    let mut world = World::new();
    assert_eq!(world.tell("ann", "ben", "boast"), Err(Code::PreconditionFailed));
    assert!(world.waiting("ben").is_empty(), "it waits for a person");
    let review = ReviewId(world.gate().view().position - 1);
    let shown = Box::new(world.gate().show_review(review, &operator()).unwrap().shown);
    let until_ms = shown.at_ms + 60_000;
    let approve = Request::Approve { by: operator(), auth: Auth::None, shown, until_ms };
    let Ok(Answer::Entered(entered)) = world.gate().call(approve) else { panic!() };
    let entry = entered.entry.index;
    let check = |world: &World, text: Option<&str>| {
        let page = world.inbox("ben");
        let [message] = page.messages.as_slice() else { panic!("{page:?}") };
        assert_eq!((message.id.0, message.from.as_str()), (entry, "ann"), "not from the reviewer");
        assert_eq!(message.approved_by.as_ref().map(AgentId::as_str), Some("operator"));
        assert_eq!(world.waiting("ben"), [(entry, "ann".to_owned(), text.map(str::to_owned))]);
    };
    check(&world, Some("boast"));
    world.restart();
    check(&world, Some("boast"));
    // One copy that is erased takes what it says with it, and then both go; sender, place and approval stay.
    world.gate().erase(operator(), Auth::None, &[review.0], "asked for".to_owned()).unwrap();
    check(&world, None);
    world.gate().erase(operator(), Auth::None, &[entry], "asked for".to_owned()).unwrap();
    check(&world, None);
    world.restart();
    check(&world, None);
    assert!(matches!(world.acknowledge("ben", &[entry]), Ok(Answer::Entered(_))));
    world.audit();
}

#[test]
fn an_erased_message_keeps_its_place_over_restarts() {
    let mut world = World::new();
    let one = world.tell("ann", "ben", "one").unwrap();
    let two = world.tell("ann", "ben", "two").unwrap();
    world.gate().erase(operator(), Auth::None, &[one], "asked for".to_owned()).unwrap();
    let expected = [(one, "ann".to_owned(), None), told(two, "ann", "two")];
    assert_eq!(world.waiting("ben"), expected);
    world.restart();
    assert_eq!(world.waiting("ben"), expected);
    world.gate().snapshot().unwrap();
    world.restart();
    assert_eq!(world.waiting("ben"), expected);
    world.acknowledge("ben", &[one]).unwrap();
    assert_eq!(world.waiting("ben"), expected[1..]);
    world.audit();
}

#[test]
fn an_agent_that_is_no_longer_active_reads_nothing_and_is_sent_nothing() {
    let mut world = World::new();
    let one = world.tell("ann", "ben", "one").unwrap();
    world.standing("ben", "revoked");
    assert!(world.gate().inbox(&agent("ben"), &Auth::None, None, 10).is_err());
    assert!(world.acknowledge("ben", &[one]).is_err());
    assert_eq!(world.tell("ann", "ben", "two"), Err(Code::RecipientNotActive));
    world.standing("ben", "active");
    world.standing("ann", "quarantined");
    assert_eq!(world.waiting("ben"), [(one, "ann".to_owned(), None)], "from someone who is no longer active");
    world.standing("ann", "active");
    assert_eq!(world.waiting("ben"), [told(one, "ann", "one")]);
    world.audit();
}

#[test]
fn attack_another_agent_is_registered_under_the_name_of_one_that_was_deleted() {
    let mut world = World::new();
    world.tell("ann", "ben", "for ben").unwrap();
    let fact = "Agent::\"ben\"".parse().unwrap();
    world.gate().call(Request::Feed { by: operator(), auth: Auth::None, fact, value: None, if_match: None }).unwrap();
    assert_eq!(world.gate().view().counts().messages, 0, "no one is left to read it, and it takes no one's room");
    world.standing("ben", "active");
    assert!(world.waiting("ben").is_empty());
    let two = world.tell("ann", "ben", "for the new one").unwrap();
    let expected = [told(two, "ann", "for the new one")];
    assert_eq!(world.waiting("ben"), expected);
    world.restart();
    assert_eq!(world.waiting("ben"), expected);
    world.gate().snapshot().unwrap();
    world.restart();
    assert_eq!(world.waiting("ben"), expected);
    world.audit();
}
