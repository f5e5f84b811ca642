//! Turns of calls whose pact says what they change: who is called meanwhile, and who is told that it has to wait.

use super::world::{World, done, entry, operator, unknown, verdict};
use countersign_core::call::{EffectId, Outcome};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::record::Event;
use countersign_engine::request::Request;
use serde_json::json;
use std::sync::Arc;

/// Calls of one service. `sweep` may change anything there, `peek` nothing, `plain` does not say; `fill` changes another box.
const PACT: &str = r#"
pact = "boxes"
version = 1

[facts.Box]
attributes = { full = "Bool" }

[action.sweep]
resource = 'Box::"{box}"'
allow = 'true'
call = { http = "payments", path = "/sweep" }
changes = ["payments"]
params = { type = "object", additionalProperties = false, required = ["box"], properties.box = { type = "string", maxLength = 9 } }
require = [{ id = "full", that = 'resource.full' }]

[action.peek]
resource = 'Box::"{box}"'
allow = 'true'
call = { http = "payments", path = "/peek" }
changes = []
params = { type = "object", additionalProperties = false, required = ["box"], properties.box = { type = "string", maxLength = 9 } }
require = [{ id = "full", that = 'resource.full' }]

[action.plain]
resource = 'Box::"{box}"'
allow = 'true'
call = { http = "payments", path = "/plain" }
params = { type = "object", additionalProperties = false, required = ["box"], properties.box = { type = "string", maxLength = 9 } }
require = [{ id = "full", that = 'resource.full' }]

[action.fill]
resource = 'Box::"{box}"'
allow = 'true'
call = { http = "payments", path = "/fill" }
changes = ['Box::"{other}"']
require = [{ id = "full", that = 'resource.full' }]

[action.fill.params]
type = "object"
additionalProperties = false
required = ["box", "other"]
properties.box = { type = "string", maxLength = 9 }
properties.other = { type = "string", maxLength = 9 }

[action.mark]
resource = 'Box::"{box}"'
allow = 'true'
params = { type = "object", additionalProperties = false, required = ["box"], properties.box = { type = "string", maxLength = 9 } }
set = { full = "false" }
require = [{ id = "full", that = 'resource.full' }]
"#;

struct Boxes {
    world: World,
    keys: u64,
}

impl Boxes {
    fn new() -> Self {
        Self::under(PACT)
    }

    /// The same calls, but each runs a program.
    fn by_command() -> Self {
        let calls = ["sweep", "peek", "plain", "fill"];
        let by_command = |pact: String, call: &str| {
            pact.replace(
                &format!("http = \"payments\", path = \"/{call}\""),
                &format!("command = \"payments\", args = [\"{call}\"]"),
            )
        };
        let pact = calls.into_iter().fold(PACT.to_owned(), by_command);
        assert!(!pact.contains("http = "), "{pact}");
        Self::under(&pact)
    }

    fn under(pact: &str) -> Self {
        let world = World::new();
        let pact = Arc::new(load(pact).unwrap_or_else(|problems| panic!("{problems:#?}")).pact);
        world.call(Request::Publish { by: operator(), auth: Auth::None, pact }).unwrap();
        for name in ["1", "2", "3", "4"] {
            world.feed(&format!("Box::\"{name}\""), json!({"full": true}));
        }
        Self { world, keys: 0 }
    }

    fn act(&mut self, agent: &str, action: &str, params: serde_json::Value) -> (String, u64) {
        self.keys += 1;
        let body = json!({
            "pact": "boxes", "action": action, "params": params, "idempotency_key": format!("boxes-{:032}", self.keys),
        });
        let agent = AgentId::new(agent).unwrap();
        let action = self.world.gate().admit(agent, Auth::None, body.to_string().into()).unwrap();
        verdict(self.world.call(Request::Act(Box::new(action))))
    }

    fn call(&mut self, agent: &str, action: &str, name: &str) -> u64 {
        let (verdict, entry) = self.act(agent, action, json!({"box": name}));
        assert_eq!(verdict, "in_flight");
        entry
    }

    fn asked(&self) -> Vec<u64> {
        self.world.outside.asked.lock().iter().map(|(effect, ..)| effect.0).collect()
    }

    fn until_asked(&self, count: usize) {
        self.world.wait(|world| world.asked() >= count, "the service was never asked");
    }

    /// What is said of the last attempt of a call that could not be made.
    fn until_tried(&self, effect: u64) -> String {
        let last = |world: &World| world.gate().tried().last(EffectId(effect)).map(|last| last.found.words());
        self.world.wait(|world| last(world).is_some(), "it was never tried");
        last(&self.world).unwrap()
    }
}

#[test]
fn a_call_that_may_change_anything_is_made_alone_and_what_changes_nothing_beside_it() {
    for boxes in [Boxes::new(), Boxes::by_command()] {
        made_alone(boxes);
    }
}

fn made_alone(mut boxes: Boxes) {
    let one = boxes.call("payer-1", "sweep", "1");
    boxes.until_asked(1);
    let two = boxes.call("payer-2", "sweep", "2");
    let peek = boxes.call("payer-1", "peek", "3");
    let plain = boxes.call("payer-1", "plain", "4");
    boxes.until_asked(3);
    let mut asked = boxes.asked();
    asked.sort_unstable();
    assert_eq!(asked, [one, peek, plain], "the other sweep waits for its turn");
    for _ in 0..3 {
        boxes.world.outside.answer(done());
    }
    boxes.until_asked(4);
    assert_eq!(boxes.asked().last(), Some(&two));
    boxes.world.outside.answer(done());
    boxes.world.until(two, "settled");
    boxes.world.audited();
}

#[test]
fn a_call_in_doubt_keeps_its_turn_until_someone_says_what_became_of_it_and_says_so_to_those_who_wait() {
    let mut boxes = Boxes::new();
    let lost = boxes.call("payer-1", "sweep", "1");
    boxes.world.outside.answer(unknown());
    boxes.world.until(lost, "in_doubt");
    let next = boxes.call("payer-2", "sweep", "2");
    let said = boxes.until_tried(next);
    assert!(said.contains(&format!("eff_{lost} has the turn: at `payments` since ")), "{said}");
    assert_eq!(boxes.asked(), [lost], "the service never heard of the other");
    boxes.world.resolve(lost, Outcome::Failed).unwrap();
    boxes.until_asked(2);
    boxes.world.outside.answer(done());
    boxes.world.until(next, "settled");
    boxes.world.audited();
}

#[test]
fn a_restart_takes_the_turn_of_a_doubt_again() {
    let mut boxes = Boxes::new();
    let lost = boxes.call("payer-1", "sweep", "1");
    boxes.world.outside.answer(unknown());
    boxes.world.until(lost, "in_doubt");
    boxes.world.restart();
    let next = boxes.call("payer-2", "sweep", "2");
    let said = boxes.until_tried(next);
    assert!(said.contains(&format!("eff_{lost} has the turn: at `payments` since ")), "{said}");
    let beside = boxes.call("payer-2", "peek", "3");
    boxes.world.outside.answer(done());
    boxes.world.until(beside, "settled");
    assert_eq!(boxes.asked(), [lost, beside]);
    boxes.world.resolve(lost, Outcome::Failed).unwrap();
    boxes.until_asked(3);
    boxes.world.outside.answer(done());
    boxes.world.until(next, "settled");
    boxes.world.audited();
}

#[test]
fn a_doubt_gives_its_turn_back_after_a_while_and_what_runs_then_says_that_it_ran_beside_it() {
    let mut boxes = Boxes::new();
    let lost = boxes.call("payer-1", "sweep", "1");
    boxes.world.outside.answer(unknown());
    boxes.world.until(lost, "in_doubt");
    boxes.world.pass(30_000);
    boxes.world.restart();
    for (action, name, beside) in [("sweep", "2", vec![EffectId(lost)]), ("peek", "3", Vec::new())] {
        let effect = boxes.call("payer-2", action, name);
        boxes.world.outside.answer(done());
        boxes.world.until(effect, "settled");
        let gate = boxes.world.gate();
        let entries = gate.read_log_range(effect, 100).unwrap();
        let settled = entries.iter().find_map(|stored| match stored.decode().unwrap().event {
            Event::Settle(settle) if settle.effect == EffectId(effect) => Some(settle.beside),
            _ => None,
        });
        assert_eq!(settled, Some(beside), "{action}");
    }
    boxes.world.audited();
}

#[test]
fn what_a_call_changes_is_fenced_like_its_resource_and_stays_so_in_doubt() {
    for boxes in [Boxes::new(), Boxes::by_command()] {
        fenced(boxes);
    }
}

fn fenced(mut boxes: Boxes) {
    let (verdict, fill) = boxes.act("payer-1", "fill", json!({"box": "1", "other": "2"}));
    assert_eq!(verdict, "in_flight");
    let marked = |boxes: &mut Boxes, name: &str| boxes.act("payer-2", "mark", json!({"box": name})).0;
    assert_eq!(marked(&mut boxes, "2"), "fact_fenced", "its call changes it");
    assert_eq!(boxes.act("payer-2", "peek", json!({"box": "2"})).0, "fact_fenced", "no other call relies on it");
    assert_eq!(boxes.act("payer-2", "fill", json!({"box": "3", "other": "2"})).0, "fact_fenced", "nor changes it");
    assert_eq!(marked(&mut boxes, "4"), "committed");
    boxes.world.outside.answer(unknown());
    boxes.world.until(fill, "in_doubt");
    assert_eq!(marked(&mut boxes, "2"), "fact_fenced");
    entry(boxes.world.resolve(fill, Outcome::Settled).unwrap());
    assert_eq!(marked(&mut boxes, "2"), "committed");
    boxes.world.audited();
}

#[test]
fn calls_that_do_not_say_what_they_change_are_made_one_at_a_time_where_others_rest_on_facts_there() {
    let mut boxes = Boxes::new();
    let rows = r#"
pact = "rows"
version = 1

[facts.Row]
attributes = { open = "Bool" }
source = { http = "payments", path = "/rows/{id}" }

[action.rely]
resource = 'Row::"{row}"'
allow = 'true'
call = { http = "payments", path = "/rely" }
changes = []
params = { type = "object", additionalProperties = false, required = ["row"], properties.row = { type = "string", maxLength = 9 } }
require = [{ id = "open", that = 'resource.open' }]
"#;
    let pact = Arc::new(load(rows).unwrap_or_else(|problems| panic!("{problems:#?}")).pact);
    boxes.world.call(Request::Publish { by: operator(), auth: Auth::None, pact }).unwrap();
    let one = boxes.call("payer-1", "plain", "1");
    boxes.until_asked(1);
    let two = boxes.call("payer-2", "plain", "2");
    let peek = boxes.call("payer-1", "peek", "3");
    boxes.until_asked(2);
    assert_eq!(boxes.asked(), [one, peek], "the other may change what someone rests on, and waits");
    for _ in 0..2 {
        boxes.world.outside.answer(done());
    }
    boxes.until_asked(3);
    assert_eq!(boxes.asked().last(), Some(&two));
    boxes.world.outside.answer(done());
    boxes.world.until(two, "settled");
    boxes.world.audited();
}
