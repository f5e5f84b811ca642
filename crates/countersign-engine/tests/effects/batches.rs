//! Actions with calls, fences and waits that come in a batch: each as if it had come alone.

use crate::effects::world::{World, account_id, done, verdict};
use countersign_core::body::RawBody;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::record::Kind;
use countersign_engine::request::{Answer, Request};
use serde_json::{Value as Json, json};
use std::sync::mpsc;
use std::time::Duration;

pub fn batch(world: &World, agent: &str, actions: &[(&str, Json)], atomic: bool) -> Request {
    let body = |(number, (action, params)): (usize, &(&str, Json))| {
        let key = format!("{agent:0>20}-{action:0>10}-{number:04}");
        RawBody::from(
            json!({"pact": "billing", "action": action, "params": params, "idempotency_key": key}).to_string(),
        )
    };
    let bodies: Vec<RawBody> = actions.iter().enumerate().map(body).collect();
    let admitted = world.gate().admit_many(AgentId::new(agent).unwrap(), Auth::None, &bodies, atomic).unwrap();
    assert!(admitted.refused.is_empty(), "{:?}", admitted.refused);
    Request::ActMany(admitted.many)
}

pub fn words(answer: Answer) -> Vec<(String, u64)> {
    let Answer::Many(answers) = answer else { panic!("{answer:?}") };
    answers.into_iter().map(verdict).collect()
}

fn kind(world: &World, entry: u64) -> Kind {
    world.gate().read_log(entry).unwrap().decode().unwrap().event.kind()
}

#[test]
fn calls_of_a_batch_leave_and_settle_each_on_its_own() {
    let world = World::new();
    let position = world.gate().view().position;
    let actions = [
        ("payout", json!({"account": "a", "amount": 100})),
        ("payout", json!({"account": "a", "amount": 50})),
        ("payout", json!({"account": "b", "amount": 25})),
    ];
    let request = batch(&world, "payer-1", &actions, false);
    let told = words(world.call(request).unwrap());
    assert_eq!(kind(&world, position), Kind::Batch);
    let [(first, paid), (second, _), (third, other)] = told.as_slice() else { panic!("{told:?}") };
    // The second finds what the first relies on fenced, as if someone else had sent it.
    assert_eq!([first, second, third], ["in_flight", "fact_fenced", "in_flight"]);
    world.outside.answer(done());
    world.outside.answer(done());
    world.until(*paid, "settled");
    world.until(*other, "settled");
    assert_eq!((world.asked(), world.balance("a"), world.balance("b")), (2, 400, 475));
    world.audited();
}

#[test]
fn a_batch_is_answered_when_the_last_of_it_has_waited() {
    let world = World::new();
    let claim = world.claim("fraud-1", &[&account_id("a")], 10_000).unwrap();
    let debit = |account: &str| ("debit", json!({"account": account, "amount": 1}));
    let (told, answered) = mpsc::channel();
    let request = batch(&world, "payer-2", &[debit("b"), debit("a"), debit("b")], false);
    world.gate().submit(request, Box::new(move |answer| drop(told.send(answer)))).unwrap();
    world.wait(|world| world.gate().waiting() == 1, "it never came to wait");
    world.wait(|world| world.balance("b") == 498, "the others waited with it");
    assert!(answered.try_recv().is_err(), "one answer for all of them");
    world.pass(10_000);
    let told = words(answered.recv_timeout(Duration::from_secs(10)).unwrap().unwrap());
    assert!(told.iter().all(|(word, _)| word == "committed"), "{told:?}");
    // The one that waited is behind the others, and refers to the batch that it came in.
    let (waited, last) = (told[1].1, told[2].1);
    assert!(claim.0 < last && last < waited);
    let leaf = |entry| world.gate().read_log(entry).unwrap().decode().unwrap().event.batch();
    assert_eq!((leaf(waited), leaf(last)), (Some(claim.0 + 1), Some(claim.0 + 1)));
    assert_eq!(world.balance("a"), 499);
    world.audited();
}

#[test]
fn nothing_that_may_wait_or_leave_is_part_of_a_group() {
    let world = World::new();
    let debit = ("debit", json!({"account": "b", "amount": 1}));
    let payout = ("payout", json!({"account": "a", "amount": 100}));
    let request = batch(&world, "payer-1", &[debit, payout], true);
    let Answer::Entered(entered) = world.call(request).unwrap() else { panic!("it was decided one by one") };
    assert_eq!(entered.entry.event.kind(), Kind::Group);
    assert_eq!(entered.entry.event.decision().unwrap().blocked().unwrap().code().as_str(), "not_in_group");
    assert_eq!((world.asked(), world.balance("a"), world.balance("b")), (0, 500, 500));
    world.audited();
}
