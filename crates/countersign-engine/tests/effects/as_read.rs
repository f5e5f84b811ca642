//! Calls that are guarded as read, as the service sees them: when they are made, beside which others, and never twice.

use super::world::{World, done, operator, verdict};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::session::SessionId;
use countersign_engine::request::{Answer, Request};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `post` and `mail` are called at two services, and change nothing there; `later` cools.
const PACT: &str = r#"
pact = "desk"
version = 1

[facts.Desk]
attributes = { open = "Bool" }

[action.post]
guard = "as-read"
resource = 'Desk::"{desk}"'
allow = 'true'
call = { http = "payments", path = "/post" }
changes = []
params = { type = "object", additionalProperties = false, required = ["desk"], properties.desk = { type = "string", maxLength = 9 } }
require = [{ id = "open", that = 'resource.open' }]

[action.mail]
guard = "as-read"
resource = 'Desk::"{desk}"'
allow = 'true'
call = { http = "mails", path = "/mail" }
changes = []
params = { type = "object", additionalProperties = false, required = ["desk"], properties.desk = { type = "string", maxLength = 9 } }
require = [{ id = "open", that = 'resource.open' }]

[action.later]
guard = "as-read"
resource = 'Desk::"{desk}"'
allow = 'true'
call = { http = "payments", path = "/later", after = "20ms" }
changes = []
params = { type = "object", additionalProperties = false, required = ["desk"], properties.desk = { type = "string", maxLength = 9 } }
require = [{ id = "open", that = 'resource.open' }]
"#;

/// As many calls of one server as are made at a time.
const AT_ONCE: usize = 16;

struct Desk {
    world: World,
    session: SessionId,
    keys: u64,
}

impl Desk {
    fn new() -> Self {
        let world = World::new();
        let pact = Arc::new(load(PACT).unwrap_or_else(|problems| panic!("{problems:#?}")).pact);
        world.call(Request::Publish { by: operator(), auth: Auth::None, pact }).unwrap();
        for desk in 0..32 {
            world.feed(&format!("Desk::\"{desk}\""), json!({"open": true}));
        }
        let opened = world.call(Request::OpenSession { agent: agent(), auth: Auth::None }).unwrap();
        let Answer::Entered(opened) = opened else { panic!("{opened:?}") };
        Self { session: SessionId(opened.entry.index), world, keys: 0 }
    }

    fn act(&mut self, action: &str, desk: usize) -> u64 {
        self.keys += 1;
        let body = json!({
            "pact": "desk", "action": action, "params": {"desk": desk.to_string()},
            "idempotency_key": format!("desk-{:032}", self.keys), "session": self.session.to_string(),
        });
        let action = self.world.gate().admit(agent(), Auth::None, body.to_string().into()).unwrap();
        let (verdict, entry) = verdict(self.world.call(Request::Act(Box::new(action))));
        assert_eq!(verdict, "in_flight");
        entry
    }

    /// What was asked of the services, by path.
    fn asked(&self, path: &str) -> usize {
        self.world.outside.asked.lock().iter().filter(|(.., sent)| sent[1] == path).count()
    }

    fn until_asked(&self, path: &str, count: usize) {
        self.world.wait(|_| self.asked(path) >= count, &format!("{path} was never asked {count} times"));
    }
}

fn agent() -> AgentId {
    AgentId::new("payer-1").unwrap()
}

#[test]
fn a_call_that_has_cooled_before_the_gates_clock_says_so_is_made_once_it_does() {
    let mut desk = Desk::new();
    let effect = desk.act("later", 1);
    // Its moment passes outside, and the gate's clock stands.
    let began = Instant::now();
    desk.world.wait(|_| began.elapsed() > Duration::from_millis(200), "time stands still");
    assert_eq!((desk.asked("/later"), desk.world.phase(effect)), (0, "cooling".to_owned()));
    desk.world.pass(20);
    desk.until_asked("/later", 1);
    desk.world.outside.answer(done());
    desk.world.until(effect, "settled");
    assert_eq!(desk.asked("/later"), 1);
    desk.world.audited();
}

#[test]
fn attack_slow_calls_of_one_server_do_not_keep_those_of_another_from_being_made() {
    let mut desk = Desk::new();
    for number in 0..=AT_ONCE {
        desk.act("post", number);
    }
    let mail = desk.act("mail", 31);
    desk.until_asked("/mail", 1);
    desk.until_asked("/post", AT_ONCE);
    assert_eq!(desk.asked("/post"), AT_ONCE, "one server has no more threads than that");
    for _ in 0..AT_ONCE + 2 {
        desk.world.outside.answer(done());
    }
    desk.world.until(mail, "settled");
    desk.until_asked("/post", AT_ONCE + 1);
    desk.world.wait(|world| world.gate().view().whole_state().effects.open().count() == 0, "a call is still under way");
    desk.world.audited();
}

#[test]
fn a_gate_that_is_killed_between_reading_again_and_the_call_never_makes_it_by_itself() {
    let mut desk = Desk::new();
    // The dispatch with what was read is in the ledger, and nothing has left yet.
    let (reached, wait) = crossbeam_channel::bounded(0);
    let (killed, go_on) = crossbeam_channel::bounded::<()>(0);
    *desk.world.outside.opening.lock() = Some(Box::new(move || {
        reached.send(()).unwrap();
        let _ = go_on.recv();
    }));
    let effect = desk.act("post", 1);
    wait.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(desk.world.phase(effect), "dispatched");
    desk.world.crash_and(|| drop(killed));
    desk.world.until(effect, "in_doubt");
    let beside = desk.act("post", 2);
    desk.world.outside.answer(done());
    desk.world.until(beside, "settled");
    let asked: Vec<u64> = desk.world.outside.asked.lock().iter().map(|(effect, ..)| effect.0).collect();
    assert_eq!(asked, [beside], "what had not left was not sent by itself");
    desk.world.audited();
}

#[test]
fn a_call_whose_action_type_is_gone_when_its_turn_comes_is_refused_and_waits_no_longer() {
    let mut desk = Desk::new();
    let posts: Vec<u64> = (0..=AT_ONCE).map(|number| desk.act("post", number)).collect();
    desk.until_asked("/post", AT_ONCE);
    let waits: Vec<u64> = posts.into_iter().filter(|effect| desk.world.phase(*effect) == "cooling").collect();
    let [waits] = waits[..] else { panic!("{waits:?} wait for a thread") };
    let (begin, rest) = PACT.split_once("[action.post]").unwrap();
    let (_, rest) = rest.split_once("[action.mail]").unwrap();
    let without = format!("{begin}[action.mail]{rest}").replace("version = 1", "version = 2");
    let pact = Arc::new(load(&without).unwrap_or_else(|problems| panic!("{problems:#?}")).pact);
    desk.world.call(Request::Publish { by: operator(), auth: Auth::None, pact }).unwrap();
    for _ in 0..AT_ONCE {
        desk.world.outside.answer(done());
    }
    desk.world.wait(|world| world.phase(waits) != "cooling", "it cools for ever");
    assert_eq!(desk.asked("/post"), AT_ONCE, "and it was never made");
    desk.world.wait(|world| world.gate().view().whole_state().effects.open().count() == 0, "a call is still under way");
    desk.world.audited();
}
