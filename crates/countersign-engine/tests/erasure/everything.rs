//! One person, every kind of entry, and then nothing.

use crate::erasure::world::{DAY_MS, MAIL, World, customer};
use countersign_core::call::Outcome;
use countersign_core::record::Kind;
use serde_json::json;
use std::collections::BTreeSet;

/// What is erased once it is over. Every other kind says nothing of a fact, or is kept for ever.
const ERASED: [&str; 9] = ["action", "approval", "claim", "dispatch", "feed", "held", "refusal", "settle", "shadow"];

/// Does everything to one customer that leaves an entry; gives how many versions there were.
fn touch(world: &World) -> u64 {
    let mail = || json!({"mail": MAIL});
    world.feed(MAIL, "Ada Lovelace");
    world.act("rename", json!({"mail": MAIL, "name": "Ada King"}));
    world.act("rename", json!({"mail": MAIL, "name": "x", "more": 1}));
    world.act("quietly", mail());
    let (refused, approved) = (world.act("close", mail()), world.act("close", mail()));
    world.refuse(refused);
    world.approve(approved);
    world.act("rename", json!({"mail": MAIL, "name": "rejected: closed"}));
    world.feed(MAIL, "Ada again");
    world.withdraw(world.claim(MAIL));
    world.claim(MAIL);
    world.pass(6000);
    let settled = world.sent(MAIL);
    world.feed(MAIL, "Ada, held");
    world.settle(settled, Outcome::Settled, &format!("{{\"to\":\"{MAIL}\"}}"));
    let failed = world.sent(MAIL);
    world.settle(failed, Outcome::Failed, &format!("no such mailbox: {MAIL}"));
    let doubtful = world.sent(MAIL);
    world.settle(doubtful, Outcome::InDoubt, &format!("{MAIL}: connection closed"));
    world.delete(MAIL);
    world.resolve(doubtful);
    world.gate().fact(&customer(MAIL)).unwrap().version()
}

#[test]
fn every_kind_of_entry_that_speaks_of_a_person_is_erased_and_the_plan_said_so() {
    let mut world = World::new();
    world.feed("eve@example.com", "Eve");
    let versions = touch(&world);
    assert!(versions > 3);
    world.gate().snapshot().unwrap();
    world.pass(DAY_MS);
    assert!(world.files_with(MAIL).len() >= 2, "log and snapshot hold it before");

    let plan = world.gate().erase_plan(&customer(MAIL)).unwrap();
    assert_eq!(plan.kept, []);
    let kinds: BTreeSet<String> = plan.entries.iter().map(|entry| world.kind(*entry)).collect();
    assert_eq!(kinds, ERASED.map(str::to_owned).into());
    assert!(ERASED.iter().all(|kind| Kind::ALL.iter().any(|known| known.as_str() == *kind)));
    assert_eq!(world.gate().check_erase(&plan.entries).unwrap(), plan.entries);
    let erasure = world.erase(&plan.entries).unwrap();

    for text in [MAIL, "Ada Lovelace", "Ada King", "Ada again", "Ada, held"] {
        assert_eq!(world.files_with(text), Vec::<String>::new(), "{text}");
    }
    let in_memory = format!("{:?}", world.gate().view().whole_state());
    assert!(!in_memory.contains(MAIL), "the state still knows it");
    assert!(world.gate().erase_plan(&customer(MAIL)).unwrap().entries.is_empty());

    // The same state, from a snapshot and from the log alone, and never an old version again.
    for without_snapshots in [false, true] {
        world.restart(without_snapshots);
        assert!(world.gate().fact(&customer(MAIL)).is_none());
        assert_eq!(world.gate().view().whole_state().version_floor, versions);
        assert_eq!(world.gate().view().whole_state().facts.len(), 2, "the agent and Eve");
    }
    let again = world.feed(MAIL, "another Ada");
    let fact = world.gate().fact(&customer(MAIL)).unwrap();
    assert_eq!((fact.version(), fact.previous_entry, fact.written.entry), (versions + 1, None, again));

    world.close();
    let report = world.audit();
    assert_eq!(report.differing, Vec::new());
    let unverifiable: BTreeSet<u64> = report.unverifiable.iter().map(|it| it.entry).collect();
    assert!(plan.entries.iter().all(|entry| unverifiable.contains(entry)), "{unverifiable:?}");
    assert!(report.unverifiable.iter().all(|it| it.erased_by == Some(erasure)), "{:?}", report.unverifiable);
    assert_eq!(report.verified + report.unverifiable.len() as u64, report.entries);
}

/// Each entry alone: what one erasure takes leaves a log that opens to the same state and audits without a difference.
#[test]
fn whichever_single_entry_is_erased_the_log_opens_the_same_and_audits() {
    let world = World::new();
    touch(&world);
    world.feed(MAIL, "back again");
    world.pass(DAY_MS);
    let plan = world.gate().erase_plan(&customer(MAIL)).unwrap();
    assert_eq!(plan.kept.len(), 1, "only the current value stays: {:?}", plan.kept);
    for entry in plan.entries {
        let mut world = World::new();
        touch(&world);
        world.feed(MAIL, "back again");
        world.pass(DAY_MS);
        let erasure = world.erase(&[entry]).unwrap();
        let before = state_of(&world);
        for without_snapshots in [false, true] {
            world.restart(without_snapshots);
            assert_eq!(state_of(&world), before, "entry {entry}, {}", world.kind(entry));
        }
        world.close();
        let report = world.audit();
        let kind = |index: u64| report.differing.iter().find(|it| it.entry == index).cloned();
        assert_eq!(report.differing, [], "entry {entry}: {:?}", kind(entry));
        assert!(report.unverifiable.iter().all(|it| it.erased_by == Some(erasure)), "{:?}", report.unverifiable);
    }
}

/// What must be the same after a restart.
fn state_of(world: &World) -> String {
    let view = world.gate().view();
    let mut facts: Vec<_> =
        view.whole_state().facts.iter().map(|fact| format!("{:?}", (&fact.id, &fact.value, &fact.written))).collect();
    facts.sort();
    let ended: Vec<_> = view.whole_state().effects.ended().collect();
    let reviews: Vec<_> = view.whole_state().reviews.closed().collect();
    format!(
        "{facts:#?} {ended:?} {reviews:?} {:?} {:?}",
        view.whole_state().held,
        view.whole_state().effects.open().count()
    )
}
