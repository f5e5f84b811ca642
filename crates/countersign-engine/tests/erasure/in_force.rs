//! What is in force is kept, with exactly what and until when.

use crate::erasure::world::{DAY_MS, MAIL, World, customer};
use countersign_core::call::Outcome;
use countersign_core::erase::InForce;
use serde_json::json;

fn why(world: &World, entry: u64) -> InForce {
    let plan = world.gate().erase_plan(&customer(MAIL)).unwrap();
    let (_, why) = plan.kept.into_iter().find(|(kept, _)| *kept == entry).expect("is kept");
    // The erasure of that entry says the same.
    let refused = world.erase(&[entry]).unwrap_err().to_string();
    assert_eq!(refused, format!("entry {entry} cannot be erased: {why}"));
    assert!(world.gate().check_erase(&[entry]).is_err());
    why
}

#[test]
fn what_is_in_force_is_kept_with_what_and_until_when() {
    let world = World::new();
    let first = world.feed(MAIL, "Ada");
    assert_eq!(why(&world, first), InForce::Current(customer(MAIL)));

    let claim = world.claim(MAIL);
    let until = world.gate().now_ms() + 5000;
    assert_eq!(why(&world, claim).until_ms(), Some(until));
    world.pass(5001);

    let review = world.act("close", json!({"mail": MAIL}));
    assert!(matches!(why(&world, review), InForce::Review { until_ms, .. } if until_ms > until));
    world.refuse(review);

    let effect = world.sent(MAIL);
    assert!(matches!(why(&world, effect.0), InForce::Effect { phase: "dispatched", .. }));
    assert!(matches!(why(&world, effect.0 + 1), InForce::Effect { .. }), "its dispatch");
    let held = world.feed(MAIL, "later");
    assert_eq!(why(&world, held), InForce::Held(customer(MAIL)));
    let doubt = world.settle(effect, Outcome::InDoubt, "?");
    assert!(matches!(why(&world, doubt), InForce::Effect { phase: "in_doubt", .. }));
    let resolved = world.resolve(effect);
    // What was held became the current value, and who fed it is told by the entry that held it.
    assert_eq!(why(&world, held), InForce::Current(customer(MAIL)));
    let InForce::Budget { until_ms: Some(until_ms), .. } = why(&world, effect.0 + 1) else { panic!() };
    assert!(until_ms > world.gate().now_ms() && until_ms <= world.gate().now_ms() + DAY_MS);
    world.pass(until_ms - world.gate().now_ms());
    let plan = world.gate().erase_plan(&customer(MAIL)).unwrap();
    assert_eq!(plan.kept.iter().map(|(entry, _)| *entry).collect::<Vec<_>>(), [held, resolved + 1]);
    world.erase(&plan.entries).unwrap();
}

#[test]
fn a_deletion_goes_only_with_every_version_before_it() {
    let world = World::new();
    let (first, second) = (world.feed(MAIL, "Ada"), world.feed(MAIL, "Ada King"));
    let deletion = world.delete(MAIL);
    assert_eq!(
        world.erase(&[second, deletion]).unwrap_err().to_string(),
        format!(
            "entry {deletion} cannot be erased: it deleted {}, and entry {first} still holds an earlier version",
            customer(MAIL)
        )
    );
    world.erase(&[second]).unwrap();
    assert!(world.erase(&[deletion]).is_err());
    world.erase(&[first, deletion]).unwrap();
    assert_eq!(world.files_with(MAIL), Vec::<String>::new());
    assert!(world.gate().fact(&customer(MAIL)).is_none());
}

#[test]
fn an_old_snapshot_does_not_survive_a_crash_between_an_erasure_and_its_removal() {
    let mut world = World::new();
    world.feed(MAIL, "Ada");
    world.delete(MAIL);
    world.gate().snapshot().unwrap();
    let plan = world.gate().erase_plan(&customer(MAIL)).unwrap();
    let snapshots = |world: &World| {
        let files = std::fs::read_dir(world.dir.path()).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "snap")).collect::<Vec<_>>()
    };
    let old: Vec<_> = snapshots(&world).into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect();
    world.erase(&plan.entries).unwrap();
    // As if the gate had been killed right after the erasure: the old snapshot is back, the new one was never made.
    world.close();
    for path in snapshots(&world) {
        std::fs::remove_file(path).unwrap();
    }
    for (bytes, path) in old {
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(world.files_with(MAIL).len(), 1);
    world.open_again();
    assert_eq!(world.files_with(MAIL), Vec::<String>::new());
    assert!(world.gate().fact(&customer(MAIL)).is_none());
}
