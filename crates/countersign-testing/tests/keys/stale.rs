//! An action whose key was looked up longer ago than the sequencer's memory goes back is not decided, but looked up again.

use super::world::{TABLE_KEYS, Told, World, action, agent, jot, submission};
use countersign_core::fence::ClaimId;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_engine::request::{ActMany, Request};
use countersign_engine::sequence::Batch;
use parking_lot::Mutex;
use std::sync::Arc;

fn many(is_atomic: bool) -> Request {
    let actions = vec![jot(1), jot(2)];
    let ids = actions.iter().map(|action| action.id).collect();
    Request::ActMany(Box::new(ActMany { by: agent(), auth: Auth::None, ids, actions, is_atomic }))
}

/// Enters so many keys that the window no longer holds any from before.
fn pass_by(world: &mut World, from: u64) {
    for key in from..from + 4 * TABLE_KEYS as u64 {
        world.act(key).entered();
        world.parts.tend_keys().unwrap();
    }
}

#[test]
fn an_action_that_was_looked_up_too_long_ago_is_looked_up_again() {
    type Make = fn() -> Request;
    let single: Make = || Request::Act(Box::new(action("1", 1)));
    for (make, is_single) in [(single, true), (|| many(false), false), (|| many(true), false)] {
        let mut world = World::new();
        // The one sender is slow: nobody has used the key yet when it looks.
        let slow = make();
        let known = world.parts.keys().look_up(&slow).unwrap();
        let told = world.told(make());
        pass_by(&mut world, 100);
        let answers = Arc::new(Mutex::new(Vec::new()));
        let mut late = submission(slow, &answers);
        late.known = known;
        let mut batch = Batch::default();
        let position = world.parts.view().position;
        let clock = Arc::clone(&world.clock);
        world.parts.sequencer.sequence(&mut batch, [late], &*clock);
        assert_eq!((batch.entries.len(), batch.answers.len(), batch.again.len()), (0, 0, 1), "nothing is decided");
        let again = std::mem::take(&mut batch.again);
        world.parts.sequence(&mut batch, again);
        world.parts.committer.commit(batch).unwrap();
        let repeated = |told: &Told| match told {
            Told::Entered(entry) => Told::Repeated(*entry),
            other => panic!("{other:?}"),
        };
        let expected = match &told {
            Told::Many(each) => Told::Many(each.iter().map(repeated).collect()),
            one => repeated(one),
        };
        assert_eq!(*answers.lock(), [expected]);
        assert_eq!(is_single, !matches!(told, Told::Many(_)));
        assert_eq!(world.parts.view().position, position, "it made no entry");
        assert!(world.uses().values().all(|uses| *uses == 1));
    }
}

#[test]
fn one_that_is_looked_up_in_time_is_decided_at_once() {
    let mut world = World::new();
    let request = Request::Act(Box::new(action("1", 1)));
    let known = world.parts.keys().look_up(&request).unwrap();
    // A full table, written to a run: the window still goes back far enough.
    world.act_all(100..100 + TABLE_KEYS as u64 + 1);
    world.parts.tend_keys().unwrap();
    assert_eq!(world.parts.keys().in_runs(), (1, TABLE_KEYS as u64));
    let (mut batch, answers) = (Batch::default(), Arc::default());
    let clock = Arc::clone(&world.clock);
    let mut submission = submission(request, &answers);
    submission.known = known;
    world.parts.sequencer.sequence(&mut batch, [submission], &*clock);
    assert_eq!((batch.entries.len(), batch.again.len()), (1, 0));
}

#[test]
fn actions_that_waited_for_a_fence_longer_than_the_memory_goes_back_happen_once() {
    let mut world = World::new();
    let ben = || AgentId::new("ben").unwrap();
    let facts = vec!["Note::\"2\"".parse().unwrap()];
    let claim = Request::Claim { by: ben(), auth: Auth::None, facts, for_ms: 500_000, reason: "soon".into() };
    let claim = ClaimId(world.told(claim).entered());
    let answers = Arc::new(Mutex::new(Vec::new()));
    let mut batch = Batch::default();
    // The same action twice, and a third under the key of a later one.
    let waiting = [1, 1, 105].map(|key| submission(Request::Act(Box::new(action("2", key))), &answers));
    world.parts.sequence(&mut batch, waiting);
    world.parts.committer.commit(batch).unwrap();
    assert_eq!(*answers.lock(), [], "all wait");
    pass_by(&mut world, 100);
    world.clock.pass(1_000);
    let freed = world.told(Request::WithdrawClaim { by: ben(), auth: Auth::None, claim }).entered();
    let told = answers.lock().clone();
    let entered: Vec<_> = told.iter().filter(|told| matches!(told, Told::Entered(_))).collect();
    assert_eq!(entered, [&Told::Entered(freed + 1)], "{told:?}");
    assert!(told.contains(&Told::Repeated(freed + 1)), "{told:?}");
    let reused = |told: &Told| matches!(told, Told::Refused(countersign_engine::request::Refusal::KeyReused(_)));
    assert!(told.len() == 3 && told.iter().any(reused), "{told:?}");
    assert!(world.uses().values().all(|uses| *uses == 1));
}
