//! Claims: an announced change is not relied on, ends by ledger time, and gives way to a higher priority.

use crate::effects::world::{World, account_id, verdict};
use countersign_core::fence::{ClaimId, ClaimRefusal};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::limits::CLAIMS_PER_AGENT_MAX;
use countersign_engine::request::{Refusal, Request};
use serde_json::json;
use std::sync::mpsc;
use std::time::Duration;

fn refused(result: Result<ClaimId, Refusal>) -> ClaimRefusal {
    match result {
        Err(Refusal::Claim(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_announced_is_not_relied_on_by_anybody_but_its_holder() {
    let mut world = World::new();
    let account = account_id("a");
    let claim = world.claim("fraud-1", &[&account], 5_000).unwrap();
    assert_eq!(world.act("payer-1", "payout", json!({"account": "a", "amount": 1})).0, "fact_claimed");
    assert_eq!(world.act("payer-1", "payout", json!({"account": "b", "amount": 1})).0, "in_flight");
    let freeze = world.request("fraud-1", "freeze", json!({"account": "a"}), Some(claim));
    assert_eq!(verdict(world.call(freeze)).0, "committed");
    let by = AgentId::new("fraud-1").unwrap();
    world.call(Request::WithdrawClaim { by, auth: Auth::None, claim }).unwrap();
    assert_eq!(world.act("payer-1", "payout", json!({"account": "a", "amount": 1})).0, "precondition_failed");
    world.outside.answer(crate::effects::world::done());
    world.audited();
}

#[test]
fn a_holder_that_was_away_too_long_finds_its_late_write_refused() {
    let mut world = World::new();
    let account = account_id("a");
    let claim = world.claim("fraud-1", &[&account], 1_000).unwrap();
    world.pass(1_000);
    // The claim has run out, and nobody has written since; its token is refused all the same.
    let late = world.request("fraud-1", "freeze", json!({"account": "a"}), Some(claim));
    assert_eq!(verdict(world.call(late)).0, "claim_lost");
    let stranger = world.request("clerk-1", "debit", json!({"account": "a", "amount": 1}), Some(claim));
    assert_eq!(verdict(world.call(stranger)).0, "claim_lost");
    world.audited();
}

#[test]
fn a_claim_is_extended_up_to_its_longest_time_and_not_by_announcing_anew() {
    let world = World::new();
    let account = account_id("a");
    let by = AgentId::new("fraud-1").unwrap();
    let claim = world.claim("fraud-1", &[&account], 4_000).unwrap();
    let extend = |claim| Request::ExtendClaim { by: by.clone(), auth: Auth::None, claim, for_ms: 9_000 };
    world.pass(3_000);
    world.call(extend(claim)).unwrap();
    let until = |world: &World, claim: ClaimId| {
        let now = world.gate().now_ms();
        world.gate().view().whole_state().fences.claim(claim, now).map(|claim| claim.expires_at_ms - now)
    };
    assert_eq!(until(&world, claim), Some(7_000));
    let again = world.claim("fraud-1", &[&account], 10_000).unwrap();
    assert_eq!(until(&world, again), Some(7_000), "the clock of the first goes on");
    assert_eq!(until(&world, claim), None);
    world.pass(7_000);
    assert!(matches!(world.call(extend(again)), Err(Refusal::Claim(ClaimRefusal::NotFound(_)))));
    assert!(matches!(refused(world.claim("fraud-1", &[&account], 10_001)), ClaimRefusal::TooLong { .. }));
    world.audited();
}

#[test]
fn a_higher_priority_takes_the_fact_and_an_equal_one_does_not() {
    let mut world = World::new();
    let account = account_id("a");
    let clerk = world.claim("clerk-1", &[&account, &account_id("b")], 5_000).unwrap();
    let fraud = world.claim("fraud-1", &[&account], 5_000).unwrap();
    assert!(matches!(refused(world.claim("clerk-1", &[&account], 100)), ClaimRefusal::Held { .. }));
    // What was taken is lost, the rest of the claim stands.
    let lost = world.request("clerk-1", "debit", json!({"account": "a", "amount": 1}), Some(clerk));
    let kept = world.request("clerk-1", "debit", json!({"account": "b", "amount": 1}), Some(clerk));
    assert_eq!(verdict(world.call(lost)).0, "claim_lost");
    assert_eq!(verdict(world.call(kept)).0, "committed");
    assert!(matches!(refused(world.claim("payer-1", &[&account], 100)), ClaimRefusal::NotAllowed { .. }));
    assert!(matches!(refused(world.claim("nobody", &[&account], 100)), ClaimRefusal::Agent(_)));
    assert_eq!(refused(world.claim("clerk-1", &[], 100)), ClaimRefusal::Facts);
    let not_yours = Request::WithdrawClaim { by: AgentId::new("clerk-1").unwrap(), auth: Auth::None, claim: fraud };
    assert!(matches!(world.call(not_yours), Err(Refusal::Claim(ClaimRefusal::NotFound(_)))));
    world.audited();
}

#[test]
fn one_agent_cannot_use_up_the_claims_of_all() {
    let world = World::new();
    for number in 0..CLAIMS_PER_AGENT_MAX {
        world.claim("clerk-1", &[&account_id(&format!("x{number}"))], 5_000).unwrap();
    }
    assert_eq!(refused(world.claim("clerk-1", &[&account_id("a")], 5_000)), ClaimRefusal::TooMany);
    world.claim("fraud-1", &[&account_id("a")], 5_000).unwrap();
    world.pass(5_000);
    world.claim("clerk-1", &[&account_id("b")], 5_000).unwrap();
    world.audited();
}

#[test]
fn whoever_waits_has_a_turn_between_two_claims() {
    let mut world = World::new();
    let account = account_id("a");
    let mut waited = Vec::new();
    // The holder claims again the moment that its claim runs out, and so for ever.
    world.claim("fraud-1", &[&account], 10_000).unwrap();
    for _ in 0..20 {
        let (told, answered) = mpsc::channel();
        let debit = world.request("payer-2", "debit", json!({"account": "a", "amount": 1}), None);
        world.gate().submit(debit, Box::new(move |answer| drop(told.send(answer)))).unwrap();
        world.wait(|world| world.gate().waiting() == 1, "it never came to wait");
        world.pass(10_000);
        let claimed = world.claim("fraud-1", &[&account], 10_000).unwrap();
        let (word, entry) = verdict(answered.recv_timeout(Duration::from_secs(10)).unwrap());
        assert_eq!(word, "committed");
        assert!(entry < claimed.0, "it had its turn before the next claim");
        waited.push(entry);
    }
    assert_eq!((waited.len(), world.balance("a")), (20, 480));
    world.audited();
}

#[test]
fn attack_calls_that_have_cooled_take_all_the_places_in_front_of_a_fence() {
    const PLACES: u64 = 64;
    let mut world = World::new();
    let account = account_id("a");
    let cooling: Vec<u64> = (0..100).map(|_| world.act("payer-1", "patient", json!({"account": "a"})).1).collect();
    let claim = world.claim("fraud-1", &[&account], 10_000).unwrap();
    world.pass(2_000);
    // An agent has as many places as there are for its actions, and the rest is cancelled at once.
    let ended = |world: &World| cooling.iter().filter(|effect| world.phase(**effect) == "failed").count() as u64;
    world
        .wait(|world| (world.gate().waiting(), ended(world)) == (PLACES, 100 - PLACES), "it took more than its places");
    assert_eq!(world.act("payer-1", "debit", json!({"account": "a", "amount": 1})).0, "fact_claimed");
    let (told, answered) = mpsc::channel();
    let debit = world.request("payer-2", "debit", json!({"account": "a", "amount": 1}), None);
    world.gate().submit(debit, Box::new(move |answer| drop(told.send(answer)))).unwrap();
    world.wait(|world| world.gate().waiting() == PLACES + 1, "another agent found no place");
    // Whatever waits is decided on what the claim left.
    let freeze = world.request("fraud-1", "freeze", json!({"account": "a"}), Some(claim));
    assert_eq!(verdict(world.call(freeze)).0, "committed");
    let by = AgentId::new("fraud-1").unwrap();
    world.call(Request::WithdrawClaim { by, auth: Auth::None, claim }).unwrap();
    assert_eq!(verdict(answered.recv_timeout(Duration::from_secs(10)).unwrap()).0, "committed");
    world.wait(|world| ended(world) == 100, "some never ended");
    assert_eq!((world.asked(), world.gate().waiting()), (0, 0));
    world.audited();
}
