//! Many calls that are due at once, and a halt that races them: after its entry none leaves.

use crate::effects::world::{World, account_id, done, operator};
use countersign_core::call::Outcome;
use countersign_core::identity::Auth;
use countersign_core::record::Event;
use countersign_engine::request::Request;
use serde_json::json;

/// How many are due in the same millisecond; each has an account of its own, so that none waits for another.
const DUE: usize = 400;
/// How many the outside takes at a time.
const WORKERS: usize = 8;

#[test]
fn attack_hundreds_of_effects_due_in_one_millisecond_race_a_halt() {
    let mut world = World::new();
    let effects: Vec<u64> = (0..DUE)
        .map(|number| {
            let account = format!("due-{number}");
            world.feed(&account_id(&account), json!({"status": "active", "balance": 500}));
            let (verdict, effect) = world.act("payer-1", "cooled", json!({"account": account, "amount": 1}));
            assert_eq!(verdict, "in_flight");
            effect
        })
        .collect();
    world.pass(2_001);
    // Some are dispatched and at the outside, which answers nobody yet; the others are on their way.
    world.wait(|world| world.asked() == WORKERS, "nothing was due");
    let scope = "all".parse().unwrap();
    world.call(Request::Halt { by: operator(), auth: Auth::None, scope, reason: "a race".into() }).unwrap();
    for _ in 0..WORKERS {
        world.outside.answer(done());
    }
    let has_ended = |world: &World, effect: &u64| matches!(world.phase(*effect).as_str(), "settled" | "failed");
    world.wait(|world| effects.iter().all(|effect| has_ended(world, effect)), "some effects never ended");
    // Whoever was past the door when the halt came is all that the outside ever saw.
    assert_eq!(world.asked(), WORKERS);
    let settled = effects.iter().filter(|effect| world.phase(**effect) == "settled").count();
    assert_eq!(settled, WORKERS);
    // Each of the others says in its own entry that it was the halt.
    let position = world.gate().view().position;
    let mut stopped = 0;
    for index in 0..position {
        let entry = world.gate().read_log(index).unwrap();
        match entry.decode().unwrap().event {
            Event::Settle(settle) if settle.outcome == Outcome::Failed => {
                assert_eq!(settle.stopped.unwrap().code().as_str(), "halted");
                stopped += 1;
            }
            Event::Dispatch(dispatch) if dispatch.decision.dispatched().is_none() => {
                assert_eq!(dispatch.decision.blocked().unwrap().code().as_str(), "halted");
                stopped += 1;
            }
            _ => {}
        }
    }
    assert_eq!(stopped, DUE - WORKERS);
    world.audited();
}
