//! Proofs while the log grows: a tile that is filled while somebody proves something in it.

use countersign_engine::clock::SystemClock;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::storage::disk::{Disk, DiskFile, DiskLock, RealDisk};
use countersign_ledger::Checkpoint;
use countersign_ledger::tree::verify_consistency;
use countersign_testing::gate::{ORIGIN, environment, feed};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

const TILE: u64 = 256;
/// Where the log stands in its last tile before somebody asks for a proof.
const BEFORE: u64 = 250;

/// A disk on which something happens right before the log is read for the n-th time.
struct Eventful {
    disk: RealDisk,
    /// Reads until then; zero for never.
    left: AtomicUsize,
    gate: OnceLock<Weak<Gate>>,
}

impl Eventful {
    /// At the n-th read from now on, the tile is filled, and a little more.
    fn fill_at_read(&self, nth: usize) {
        self.left.store(nth, Ordering::SeqCst);
    }

    fn is_due(&self) -> bool {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left == Ok(1)
    }
}

impl Disk for Eventful {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name)
    }
    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        if name.ends_with(".seg") && self.is_due() {
            let gate = self.gate.get().and_then(Weak::upgrade).unwrap();
            let tile = gate.view().position / TILE;
            fill(&gate, (tile + 1) * TILE + 3);
        }
        self.disk.open_read(name)
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
    fn lock(&self) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock()
    }
}

/// Feeds until the log has so many entries.
fn fill(gate: &Gate, size: u64) {
    let missing = size - gate.view().position;
    for _ in 0..missing {
        gate.call(feed("Agent::\"a\"", r#"{"roles":[],"standing":"active","org":"acme","trust":1}"#)).unwrap();
    }
    assert_eq!(gate.view().position, size);
}

fn world(dir: &Path) -> (Arc<Eventful>, Arc<Gate>) {
    let disk = RealDisk::open(dir).unwrap();
    let disk = Arc::new(Eventful { disk, left: AtomicUsize::new(0), gate: OnceLock::new() });
    let shared: Arc<dyn Disk> = disk.clone();
    let environment = environment(shared, Arc::new(SystemClock::default()));
    let gate = Arc::new(Gate::open(environment, Options::new(ORIGIN)).unwrap().0);
    disk.gate.set(Arc::downgrade(&gate)).unwrap();
    (disk, gate)
}

fn latest(gate: &Gate) -> Checkpoint {
    Checkpoint::open(&gate.checkpoint(), &gate.log_key()).unwrap()
}

#[test]
fn a_receipt_is_good_although_its_tile_is_filled_while_it_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, gate) = world(dir.path());
    fill(&gate, BEFORE);
    // The entry itself is read, and nothing else while its tile is not full: the tree has the leaves.
    disk.fill_at_read(1);
    let receipt = gate.receipt(BEFORE - 1).unwrap();
    assert_eq!(receipt.verify(&gate.log_key()).unwrap().size, TILE + 3);
    fill(&gate, TILE + BEFORE);
    disk.fill_at_read(1_000);
    let receipt = gate.receipt(TILE + BEFORE - 1).unwrap();
    assert_eq!(receipt.verify(&gate.log_key()).unwrap().size, TILE + BEFORE);
    assert_eq!(disk.left.load(Ordering::SeqCst), 999);
    // Of a full tile everything is read.
    let receipt = gate.receipt(TILE - 1).unwrap();
    assert_eq!(receipt.verify(&gate.log_key()).unwrap().size, TILE + BEFORE);
}

#[test]
fn proofs_are_good_at_every_moment_while_the_log_grows() {
    let dir = tempfile::tempdir().unwrap();
    let (_, gate) = world(dir.path());
    fill(&gate, 3);
    let end = 3 * TILE + 7;
    let growing = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || fill(&gate, end))
    };
    let (mut proofs, mut sizes) = (0_u64, std::collections::BTreeSet::new());
    while gate.view().position < end || proofs < 100 {
        let old = latest(&gate);
        // The newest entry, whose tile is filled at any moment, and the first one of its tile.
        for index in [old.size - 1, (old.size - 1) / TILE * TILE] {
            let receipt = gate.receipt(index).unwrap_or_else(|error| panic!("entry {index}: {error}"));
            let size = receipt.verify(&gate.log_key()).unwrap().size;
            assert!(size >= old.size, "under {size} after {}", old.size);
        }
        let (size, proof) = gate.consistency(old.size).unwrap_or_else(|error| panic!("from {}: {error}", old.size));
        let new = latest(&gate);
        if new.size == size {
            verify_consistency(old.size, &old.root, size, &new.root, &proof).unwrap();
            sizes.insert(old.size);
        }
        proofs += 1;
    }
    growing.join().unwrap();
    assert!(sizes.len() > 10, "consistency was proved from {sizes:?}");
}
