//! Snapshots, opening from one, reading while writing, and the real disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_engine::storage::disk::{Disk, RealDisk};
use countersign_engine::storage::snapshot::{SnapshotWriter, newest, remove_older_than, snapshot_name};
use countersign_engine::storage::{Fill, Folder, StorageError};
use countersign_engine::storage::{Log as _, ReadLog as _};
use countersign_ledger::leaf_hash;
use countersign_ledger::tree::TileTree;
use countersign_testing::disk::{Faults, FaultyDisk, SplitMix};
use countersign_testing::log_workload::{Memory, ORIGIN, Session, judge, log_key, signing_key, written};

const SEGMENT_BYTES: u64 = 8 << 10;

fn fill(session: &mut Session, memory: &mut Memory, rng: &mut SplitMix, batches: u64) {
    for _ in 0..batches {
        let entries = (0..=rng.below(3)).map(|_| written(rng, 600)).collect();
        session.append(memory, entries).unwrap();
    }
}

fn tree_of(memory: &Memory) -> TileTree {
    let mut tree = TileTree::new();
    for entry in &memory.acknowledged {
        tree.push(leaf_hash(&entry.leaf));
    }
    tree
}

fn take(disk: &Arc<dyn Disk>, tree: &TileTree, facts: &[u8]) {
    let mut writer = SnapshotWriter::begin(Arc::clone(disk), ORIGIN, tree).unwrap();
    writer.section("facts").unwrap();
    writer.write(facts).unwrap();
    writer.section("empty").unwrap();
    writer.finish(&signing_key()).unwrap();
}

#[test]
fn the_log_opens_from_a_snapshot_and_folds_only_the_rest() {
    let faulty = FaultyDisk::new(1, Faults::default());
    let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
    let (mut memory, mut rng) = (Memory::default(), SplitMix::new(1));
    let mut session = Session::open(Arc::clone(&disk), SEGMENT_BYTES).unwrap();
    fill(&mut session, &mut memory, &mut rng, 300);
    let tree = tree_of(&memory);
    take(&disk, &tree, &vec![9; (3 << 20) + 5]);
    fill(&mut session, &mut memory, &mut rng, 20);
    drop(session);

    let (snapshot, ignored) = newest(&disk, &log_key(), None).unwrap();
    let snapshot = snapshot.unwrap();
    assert!(ignored.is_empty());
    let mut facts = Vec::new();
    snapshot
        .read(|section, chunk| {
            assert_eq!(section, "facts");
            facts.extend_from_slice(chunk);
            Ok(())
        })
        .unwrap();
    assert_eq!(facts, vec![9; (3 << 20) + 5]);
    assert_eq!(snapshot.tree().root(), tree.root());

    let start = snapshot.tree().frontier();
    let session = Session::open_from(disk, SEGMENT_BYTES, start).unwrap();
    assert_eq!(session.report.batches, 20);
    assert_eq!(session.folded.keys().next().copied(), Some(snapshot.size()));
    judge(&session, &mut memory).unwrap();
}

#[test]
fn attack_a_snapshot_is_exchanged_after_it_was_verified() {
    let faulty = FaultyDisk::new(1, Faults::default());
    let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
    let mut tree = TileTree::new();
    tree.push(leaf_hash(b"an entry"));
    take(&disk, &tree, b"balance 9999999");
    let other = faulty.contents(&snapshot_name(1)).unwrap();
    take(&disk, &tree, b"balance 1000000");
    let (found, _) = newest(&disk, &log_key(), None).unwrap();
    let found = found.unwrap();
    // Whole in itself: its hash is right, and so would be a signature that nobody looks at any more.
    faulty.tamper(&snapshot_name(1), other);
    let refused = found.read(|_, _| Ok(())).unwrap_err();
    assert!(refused.to_string().contains("replaced after it had been verified"), "{refused}");
}

#[test]
fn a_bad_snapshot_is_passed_over_with_a_reason_and_old_ones_go() {
    let faulty = FaultyDisk::new(1, Faults::default());
    let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
    let mut tree = TileTree::new();
    for index in 0..4u64 {
        for _ in 0..300 {
            tree.push(leaf_hash(&index.to_le_bytes()));
        }
        take(&disk, &tree, b"some facts");
    }
    assert!(faulty.contents(&snapshot_name(600)).is_none(), "only the newest two are kept");
    let bytes = faulty.contents(&snapshot_name(1200)).unwrap();
    for at in (0..bytes.len()).step_by(37).chain(bytes.len() - 96..bytes.len()) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        faulty.tamper(&snapshot_name(1200), changed);
        let (found, ignored) = newest(&disk, &log_key(), None).unwrap();
        assert_eq!(found.unwrap().size(), 900, "byte {at}");
        assert_eq!(ignored[0].name, snapshot_name(1200));
    }
    for len in [0, 50, 96, bytes.len() - 1] {
        faulty.tamper(&snapshot_name(1200), bytes[..len].to_vec());
        assert_eq!(newest(&disk, &log_key(), None).unwrap().0.unwrap().size(), 900, "cut to {len}");
    }
    faulty.tamper(&snapshot_name(1200), bytes);
    assert_eq!(remove_older_than(&*disk, 1200).unwrap(), 1);
    assert_eq!(newest(&disk, &log_key(), None).unwrap().0.unwrap().size(), 1200);
    assert!(newest(&disk, &log_key(), Some(1199)).unwrap().0.is_none());
}

#[test]
fn a_snapshot_of_a_longer_log_than_there_is_is_not_a_start() {
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new(1, Faults::default()));
    let (mut memory, mut rng) = (Memory::default(), SplitMix::new(1));
    let mut session = Session::open(Arc::clone(&disk), SEGMENT_BYTES).unwrap();
    fill(&mut session, &mut memory, &mut rng, 5);
    drop(session);
    let mut tree = tree_of(&memory);
    tree.push(leaf_hash(b"never written"));
    let opened = Session::open_from(disk, SEGMENT_BYTES, tree.frontier());
    assert!(matches!(opened, Err(StorageError::BadStart { .. })));
}

#[test]
fn readers_see_only_whole_synced_entries_while_the_writer_appends() {
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new(1, Faults::default()));
    let (mut memory, mut rng) = (Memory::default(), SplitMix::new(1));
    let mut session = Session::open(disk, SEGMENT_BYTES).unwrap();
    let log = Arc::clone(session.writer.log());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0u64;
            while !done.load(Ordering::Acquire) || reads < 100 {
                let size = log.size();
                for index in [0, size / 2, size.saturating_sub(1)].into_iter().filter(|index| *index < size) {
                    let entry = log.read_entry(index).unwrap();
                    let (salt, payload) = entry.content.unwrap();
                    assert!(countersign_testing::log_workload::payload_matches(&entry.leaf, &salt, &payload));
                    assert!(log.checkpoint_covering(index).unwrap().starts_with(ORIGIN));
                    reads += 1;
                }
            }
        });
        fill(&mut session, &mut memory, &mut rng, 300);
        done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
    let mut seen = Vec::new();
    log.entries(5..900, |entry| {
        seen.push(entry.index);
        seen.len() < 50
    })
    .unwrap();
    assert_eq!(seen, (5..55).collect::<Vec<_>>());
    log.entries(7..9, |entry| seen.pop() != Some(entry.index)).unwrap();
    assert_eq!(seen.len(), 48);
}

#[test]
fn the_real_disk_keeps_a_log_and_lets_only_one_in() {
    let folder = std::env::temp_dir().join(format!("countersign-storage-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(&folder).unwrap());
    let (mut memory, mut rng) = (Memory::default(), SplitMix::new(2));
    for round in 0..4 {
        let mut session = Session::open(Arc::clone(&disk), SEGMENT_BYTES).unwrap();
        judge(&session, &mut memory).unwrap();
        fill(&mut session, &mut memory, &mut rng, 20);
        session.writer.log().prepare_next(Fill::Zeroed).unwrap();
        session.erase(&mut memory, round).unwrap();
        fill(&mut session, &mut memory, &mut rng, 5);
        let refused = Folder::lock(Arc::clone(&disk)).err().unwrap().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        if round % 2 == 0 {
            session.writer.close().unwrap();
        }
    }
    let session = Session::open(disk, SEGMENT_BYTES).unwrap();
    judge(&session, &mut memory).unwrap();
    assert_eq!(session.report.leftovers_removed, Vec::<String>::new());
    drop(session);
    std::fs::remove_dir_all(folder).unwrap();
}
