//! An approval executes what was shown, once, and a repeated action is told what became of it.

use crate::review::world::{RULES, World, name};
use countersign_core::identity::Auth;
use countersign_core::pact::load::load;
use countersign_core::review::{Ended, ReviewId, ReviewRefusal};
use countersign_engine::audit::replay;
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use std::sync::Arc;

#[test]
fn an_approval_executes_what_was_shown_once() {
    let world = World::new();
    let review = world.park("a", 500);
    let (first, second) = (world.show(review), world.show(review));
    let (entry, decision) = world.approve(&first).unwrap();
    let waived = decision.waived_by.unwrap();
    assert_eq!((waived.reviewer, waived.review), (name("vera"), review.0));
    assert_eq!(waived.preconditions, ["small-enough"]);
    assert_eq!(decision.charges.len(), 1);
    assert_eq!(world.balance(), 400);
    for token in [&first, &second] {
        let again = world.approve(token).unwrap_err();
        let closed = ReviewRefusal::Closed { review, how: Ended::Approved, entry };
        assert_eq!(again, Refusal::Review(closed));
    }
    // Others that were parked before a restart, with a snapshot and without, can be decided after it.
    let (kept, refused) = (world.park("b", 200), world.park("c", 200));
    world.gate.snapshot().unwrap();
    let later = world.park("d", 200);
    world.account("active", 400, "john", 10);
    let world = world.reopen();
    let reason: Arc<str> = "no".into();
    let refuse = Request::Refuse { by: name("vera"), auth: Auth::None, review: refused, reason };
    assert!(matches!(world.gate.call(refuse), Ok(Answer::Entered(_))));
    let closed = world.gate.show_review(refused, &name("vera")).unwrap_err();
    assert!(matches!(closed, ReviewRefusal::Closed { how: Ended::Refused, .. }), "{closed}");
    for review in [kept, later] {
        world.approve(&world.show(review)).unwrap();
    }
    assert_eq!(world.balance(), 0);
    world.audit();
}

#[test]
fn a_repeated_key_answers_with_what_became_of_the_action() {
    let world = World::new();
    let observed = world.gate.observe(name("refund-1"), vec!["Account::\"42\"".parse().unwrap()]);
    let tokens = vec![observed.unwrap().token];
    let Answer::Entered(entered) = world.act_on("a", 500, tokens.clone()) else { panic!() };
    let review = ReviewId(entered.entry.index);
    assert!(matches!(world.act_on("a", 500, tokens.clone()), Answer::Repeated(entry) if entry == review.0));
    let (approval, _) = world.approve(&world.show(review)).unwrap();
    assert!(matches!(world.act_on("a", 500, tokens.clone()), Answer::Repeated(entry) if entry == approval));
    // Refused, it is answered with the refusal.
    let Answer::Entered(entered) = world.act_on("b", 300, tokens.clone()) else { panic!() };
    let (review, reason) = (ReviewId(entered.entry.index), "no".into());
    let refuse = Request::Refuse { by: name("vera"), auth: Auth::None, review, reason };
    let Ok(Answer::Entered(entered)) = world.gate.call(refuse) else { panic!() };
    let refusal = entered.entry.index;
    assert!(matches!(world.act_on("b", 300, tokens.clone()), Answer::Repeated(entry) if entry == refusal));
    world.gate.snapshot().unwrap();
    let world = world.reopen();
    assert!(matches!(world.act_on("a", 500, tokens.clone()), Answer::Repeated(entry) if entry == approval));
    assert!(matches!(world.act_on("b", 300, tokens), Answer::Repeated(entry) if entry == refusal));
}

#[test]
fn what_waits_for_a_person_is_not_erased_and_how_it_ended_is_told_afterwards() {
    let world = World::new();
    let (erased, done) = (world.park("a", 500), world.park("b", 300));
    let erase = |world: &World| world.gate.erase(name("operator"), Auth::None, &[erased.0], "asked for".to_owned());
    let said = erase(&world).unwrap_err().to_string();
    assert!(said.contains(&format!("{erased} is pending review until ")), "{said}");
    let refuse = || Request::Refuse { by: name("vera"), auth: Auth::None, review: erased, reason: "late".into() };
    world.gate.call(refuse()).unwrap();
    erase(&world).unwrap();
    // What was approved before its action is erased stays done, and says that it cannot be decided again.
    world.approve(&world.show(done)).unwrap();
    world.gate.erase(name("operator"), Auth::None, &[done.0], "asked for".to_owned()).unwrap();
    // How it ended is told the same after a restart, from entries or from a snapshot.
    let mut world = world.reopen();
    for _ in 0..2 {
        let refused = world.gate.call(refuse()).unwrap_err();
        assert!(matches!(refused, Refusal::Review(ReviewRefusal::Closed { how: Ended::Refused, .. })), "{refused}");
        world.gate.snapshot().unwrap();
        world = world.reopen();
    }
    assert_eq!(world.balance(), 600);
    world.audit();
}

#[test]
fn replay_under_another_pact_decides_approvals_again() {
    let world = World::new();
    let review = world.park("a", 500);
    let (approval, _) = world.approve(&world.show(review)).unwrap();
    let key = world.gate.log_key().clone();
    let dir = world.close();
    let differing = |from: &str, to: &str| {
        let pact =
            Arc::new(load(&format!("pact = \"billing\"\nversion = 2\n{}", RULES.replace(from, to))).unwrap().pact);
        let pacts = [(pact.name.clone(), pact)].into();
        let report = replay(&RealDisk::open(dir.path()).unwrap(), &key, &pacts, &mut |_| ()).unwrap();
        assert_eq!(report.actions, 2, "the parked action and its approval");
        let differing = report.differing.into_iter();
        differing.map(|it| (it.entry, it.recorded.verdict, it.replayed.verdict)).collect::<Vec<_>>()
    };
    let said = |entry: u64, recorded: &str, replayed: &str| (entry, recorded.to_owned(), replayed.to_owned());
    assert_eq!(differing("context.amount < 100", "context.amount < 100"), []);
    // Where nobody may waive it, the approval does nothing; where it needs no waiver, only the parking differs.
    let strict = ("'context.amount < 100'\non_fail = \"review\"", "'context.amount < 100'\non_fail = \"reject\"");
    assert_eq!(
        differing(strict.0, strict.1),
        [said(review.0, "review", "rejected"), said(approval, "committed", "void")]
    );
    assert_eq!(differing("context.amount < 100", "context.amount < 1000"), [said(review.0, "review", "committed")]);
    // A precondition that was not shown is not waived.
    let other = ("resource.risk < 50", "resource.risk < 5");
    assert_eq!(differing(other.0, other.1), [said(review.0, "review", "review"), said(approval, "committed", "void")]);
}
