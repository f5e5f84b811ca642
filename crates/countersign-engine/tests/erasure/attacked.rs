//! Somebody who can write to the folder, and has no key, takes payloads away: only an erasure in the log explains that one is gone.

use crate::erasure::world::{MAIL, World, customer};
use countersign_core::identity::Auth;
use countersign_engine::audit::audit;
use countersign_engine::fold::walk_options;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::Request;
use countersign_engine::storage::disk::RealDisk;
use countersign_engine::storage::walk;
use countersign_ledger::Frontier;
use countersign_ledger::segment::SALT_LEN;
use countersign_testing::folder::verify;
use countersign_testing::gate::{ORIGIN, log_key, on_folder, operator};
use std::ops::Range;
use std::path::PathBuf;

/// Where salt and payload of an entry lie.
fn content_of(world: &World, entry: u64) -> (PathBuf, Range<usize>) {
    let mut found = None;
    walk(&RealDisk::open(world.dir.path()).unwrap(), walk_options(&log_key()), Frontier::new(), &mut |placed| {
        for frame in placed.batch.frames().filter(|frame| frame.index == entry) {
            let start = usize::try_from(placed.offset).unwrap() + frame.salt_offset;
            found = Some((world.dir.path().join(placed.segment), start..start + SALT_LEN + frame.payload.len()));
        }
        Ok(())
    })
    .unwrap();
    found.unwrap()
}

/// What opening, `verify` and `audit` say of the folder: each must refuse it, for the same reason. Gives that.
fn refused(world: &World) -> String {
    let disk = RealDisk::open(world.dir.path()).unwrap();
    let opened = Gate::open(on_folder(world.dir.path()), Options::new(ORIGIN)).err().map(|error| error.to_string());
    let verified = verify(&disk, &log_key(), &[]).err();
    let audited = audit(&disk, &log_key(), &mut |_| ()).err().map(|error| error.to_string());
    assert_eq!((&opened, &opened), (&verified, &audited));
    opened.expect("the altered folder was opened")
}

#[test]
fn attack_zeros_over_a_payload_lift_a_halt_and_bring_an_old_value_back() {
    let mut world = World::new();
    world.feed(MAIL, "Ada Lovelace");
    let renamed = world.feed(MAIL, "Ada King");
    let (scope, reason) = ("all".parse().unwrap(), "an incident".into());
    let halt = world.entered(Request::Halt { by: operator(), auth: Auth::None, scope, reason });
    world.close();
    let agent = 2;
    for entry in [0, agent, renamed, halt] {
        let (file, content) = content_of(&world, entry);
        let honest = std::fs::read(&file).unwrap();
        // All of it, the salt alone, the payload alone, one byte; and a note that says that it is just being erased.
        let pieces = [content.clone(), content.start..content.start + SALT_LEN, content.start + SALT_LEN..content.end];
        let last = content.end - 1..content.end;
        for (piece, with) in pieces.into_iter().map(|piece| (piece, 0)).chain([(last, b'x')]) {
            let mut changed = honest.clone();
            changed[piece].fill(with);
            std::fs::write(&file, changed).unwrap();
            std::fs::write(world.dir.path().join("erasing"), format!("{entry}\n")).unwrap();
            let said = refused(&world);
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(said.contains(&format!("payload of entry {entry} ")) && said.contains(name), "{said}");
        }
        std::fs::write(&file, honest).unwrap();
    }
    world.open_again();
    assert_eq!(world.gate().view().whole_state().halts.iter().count(), 1);
    assert_eq!(world.gate().fact(&customer(MAIL)).unwrap().written.entry, renamed);
}

#[test]
fn attack_one_erasure_is_made_to_cover_for_others() {
    let mut world = World::new();
    let old = world.feed(MAIL, "Ada Lovelace");
    let current = world.feed(MAIL, "Ada King");
    let erasure = world.erase(&[old]).unwrap();
    world.restart(true);
    world.close();
    // The entry that it names may be gone; the one after it and the erasure itself may not.
    for (entry, why) in [(current, "no erasure names it"), (erasure, "it is about the log itself")] {
        let (file, content) = content_of(&world, entry);
        let honest = std::fs::read(&file).unwrap();
        let mut changed = honest.clone();
        changed[content].fill(0);
        std::fs::write(&file, changed).unwrap();
        let said = refused(&world);
        assert!(said.contains(&format!("payload of entry {entry} ")) && said.contains(why), "{said}");
        std::fs::write(&file, honest).unwrap();
    }
}

/// A crash can leave any mixture of zeros and bytes in a payload that was just being erased.
#[test]
fn an_erasure_that_a_crash_interrupted_is_finished_from_its_entry_alone() {
    let mut world = World::new();
    let old = world.feed(MAIL, "Ada Lovelace");
    world.feed(MAIL, "Ada King");
    world.restart(true);
    world.close();
    let (file, content) = content_of(&world, old);
    let before = std::fs::read(&file).unwrap()[content.clone()].to_vec();
    let halves = [0..before.len(), 0..20, 20..before.len(), before.len() - 9..before.len()];
    world.open_again();
    world.erase(&[old]).unwrap();
    for left in halves {
        world.restart(true);
        world.close();
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[content.clone()][left.clone()].copy_from_slice(&before[left]);
        std::fs::write(&file, bytes).unwrap();
        verify(&RealDisk::open(world.dir.path()).unwrap(), &log_key(), &[]).unwrap();
        assert_eq!(world.audit().differing, []);
        let (gate, report) = Gate::open(on_folder(world.dir.path()), Options::new(ORIGIN)).unwrap();
        assert_eq!(report.erasures_finished, 1);
        assert_eq!(gate.read_log(old).unwrap().payload, None);
        gate.close().unwrap();
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes[content.clone()].iter().all(|byte| *byte == 0));
        world.open_again();
    }
}
