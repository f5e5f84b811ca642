//! Someone who can write to the folder edits, removes and puts back files of keys. No action is done twice, and none is said to be done
//! that was not.

use super::world::{Told, World, action};
use countersign_core::erase::EraseTarget;
use countersign_core::identity::Auth;
use countersign_core::record::{Entry, Leaf};
use countersign_engine::request::{Refusal, Request};
use countersign_engine::storage::ReadLog as _;
use countersign_engine::storage::disk::Disk as _;
use countersign_testing::gate::operator;

const KEYS: u64 = 40;

/// A gate with several runs that a snapshot names, and the entries of its keys.
fn honest() -> (World, Vec<u64>) {
    let mut world = World::new();
    let mut entries = Vec::new();
    for key in 0..KEYS {
        entries.push(world.act(key).entered());
        world.parts.tend_keys().unwrap();
    }
    world.parts.snapshot().unwrap();
    (world, entries)
}

/// The runs that are in use.
fn used(world: &World) -> Vec<String> {
    let names = world.parts.keys().run_names();
    assert!(names.len() >= 3, "{names:?}");
    names
}

/// What must hold whatever was done to the files.
fn check(world: &mut World, entries: &[u64], what: &str) {
    for (key, entry) in (0..).zip(entries) {
        let mut told = world.act(key);
        if matches!(told, Told::Refused(Refusal::KeysUnread(_))) {
            // Nothing was decided. It is known again once the file was made again.
            world.parts.tend_keys().unwrap();
            told = world.act(key);
        }
        assert_eq!(told, Told::Repeated(*entry), "{what}, key {key}");
    }
    for key in 1_000..1_020 {
        let mut told = world.act(key);
        if matches!(told, Told::Refused(Refusal::KeysUnread(_))) {
            world.parts.tend_keys().unwrap();
            told = world.act(key);
        }
        assert!(matches!(told, Told::Entered(_)), "{what}: what was never done is said to be: {told:?}");
    }
    let uses = world.uses();
    assert_eq!((uses.len() as u64, uses.values().copied().max()), (KEYS + 20, Some(1)), "{what}");
}

#[test]
fn attack_files_of_keys_are_altered_removed_and_exchanged_while_the_gate_is_down() {
    type Attack = fn(Vec<u8>, &[u8], &[u8]) -> Option<Vec<u8>>;
    let attacks: [(&str, Attack); 9] = [
        ("removed", |_, _, _| None),
        ("emptied", |_, _, _| Some(Vec::new())),
        ("cut", |bytes, _, _| Some(bytes[..bytes.len() - 1].to_vec())),
        ("longer", |bytes, _, _| Some([&[0; 40], &bytes[..]].concat())),
        ("another run of this log", |_, other, _| Some(other.to_vec())),
        ("a run of another log", |_, _, foreign| Some(foreign.to_vec())),
        ("a key", |bytes, _, _| Some(flipped(bytes, 3))),
        ("an entry", |bytes, _, _| Some(flipped(bytes, 17))),
        ("the filter", |mut bytes, _, _| {
            let tail = bytes.windows(8).position(|part| part == b"CSGNKEY\n").unwrap();
            bytes[tail + 48..tail + 112].fill(0);
            Some(bytes)
        }),
    ];
    let foreign = {
        let (world, _) = honest();
        world.disk.contents(&used(&world)[0]).unwrap()
    };
    for (what, attack) in attacks {
        for at in 0..3 {
            let (mut world, entries) = honest();
            let names = used(&world);
            let other = world.disk.contents(&names[(at + 1) % 3]).unwrap();
            match attack(world.disk.contents(&names[at]).unwrap(), &other, &foreign) {
                Some(bytes) => world.disk.tamper(&names[at], bytes),
                None => world.disk.remove(&names[at]).unwrap(),
            }
            world.reopen();
            check(&mut world, &entries, what);
        }
    }
}

fn flipped(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 1;
    bytes
}

#[test]
fn attack_files_of_keys_are_altered_while_the_gate_runs() {
    for at in 0..3 {
        let (mut world, entries) = honest();
        let name = &used(&world)[at];
        let file = world.disk.open(name).unwrap();
        let records = file.len().unwrap() / 2;
        for offset in 0..records {
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[byte[0] ^ 0x55], offset).unwrap();
        }
        let unread = (0..KEYS).filter(|key| matches!(world.act(*key), Told::Refused(Refusal::KeysUnread(_))));
        assert!(unread.count() > 0, "nothing of {name} was read");
        check(&mut world, &entries, "altered while it runs");
        // It is altered once more, and found when runs are merged.
        world.parts.snapshot().unwrap();
        world.reopen();
        check_again(&mut world, &entries);
    }
}

fn check_again(world: &mut World, entries: &[u64]) {
    for (key, entry) in (0..).zip(entries) {
        assert_eq!(world.act(key), Told::Repeated(*entry));
    }
}

#[test]
fn attack_a_run_is_removed_and_the_log_that_it_is_made_of_is_altered() {
    let (world, entries) = honest();
    let name = used(&world)[0].clone();
    let log = "00000000000000000000.seg";
    let bytes = world.disk.contents(log).unwrap();
    let entry = world.parts.committer.log().read_entry(entries[0]).unwrap();
    let leaf = bytes.windows(entry.leaf.len()).position(|part| part == entry.leaf).unwrap();
    let key = Leaf::decode(&entry.leaf).unwrap().key.unwrap();
    let key = entry.leaf.windows(16).position(|part| part == key).unwrap();
    drop(world.parts);
    let clock = world.clock;
    for is_removed in [false, true] {
        let disk = world.disk.restart();
        disk.tamper(log, flipped(bytes.clone(), leaf + key));
        if is_removed {
            disk.remove(&name).unwrap();
        }
        // Entries before the snapshot are not read otherwise.
        assert_eq!(World::on(disk, &clock).is_err(), is_removed);
    }
}

#[test]
fn erasing_payloads_forgets_no_key_even_if_the_files_are_made_again() {
    let (mut world, entries) = honest();
    for entry in &entries[..30] {
        let stored = world.parts.committer.log().read_entry(*entry).unwrap();
        let (_, payload) = stored.content.unwrap();
        let targets =
            vec![EraseTarget::new(&Entry::decode(Leaf::decode(&stored.leaf).unwrap(), Some(&payload)).unwrap())];
        world.told(Request::Erase { by: operator(), auth: Auth::None, targets, reason: "asked".into() }).entered();
    }
    world.parts.snapshot().unwrap();
    for name in world.run_names() {
        world.disk.remove(&name).unwrap();
    }
    world.reopen();
    check_again(&mut world, &entries);
    let many = countersign_engine::request::ActMany {
        by: super::world::agent(),
        auth: Auth::None,
        ids: vec![action("1", 5).id, action("1", 6).id],
        actions: vec![action("1", 5), action("1", 6)],
        is_atomic: true,
    };
    let before = Told::Many(vec![Told::Repeated(entries[5]), Told::Repeated(entries[6])]);
    assert_eq!(world.told(Request::ActMany(Box::new(many))), before);
}

#[test]
fn attack_a_file_of_keys_is_altered_and_much_of_the_log_follows_the_snapshot() {
    for at in 0..3 {
        let (mut world, entries) = honest();
        let name = used(&world)[at].clone();
        // As many as fill several tables: reading them back writes runs, and merges them with the altered one.
        for key in 500..540 {
            world.act(key).entered();
        }
        let altered = flipped(world.disk.contents(&name).unwrap(), 3);
        world.disk.tamper(&name, altered);
        world.reopen();
        for (key, entry) in (0..).zip(&entries) {
            let mut told = world.act(key);
            if matches!(told, Told::Refused(Refusal::KeysUnread(_))) {
                world.parts.tend_keys().unwrap();
                told = world.act(key);
            }
            assert_eq!(told, Told::Repeated(*entry), "run {at}, key {key}");
        }
        let uses = world.uses();
        assert_eq!((uses.len() as u64, uses.values().copied().max()), (KEYS + 40, Some(1)), "run {at}");
    }
}
