//! The seeded simulator: the shipped sequencer and commit stage, driven on one thread under a virtual clock and on a disk
//! that crashes, tears, forgets and fails, by several agents that race.
//!
//! A run is a few lives of one data folder. Each life opens it, acts, and ends by a crash at some step of the disk, a failed
//! sync, a kill, a power cut or a clean close. Whenever the folder is opened, everything that was ever answered is compared
//! with what is there (I1, I2, I3, I7). One number names a whole run.

mod clients;
mod clock;
mod judge;
mod record;
mod reviews;
mod rotate;

use crate::checker::{LogEntry, Operation};
use crate::disk::{FailedSync, Faults, FaultyDisk, SplitMix};
use crate::identities;
use clients::{ADMIN, Clients};
use clock::VirtualClock;
use countersign_core::identity::KeyName;
use countersign_engine::clock::{Clock as _, LedgerClock};
use countersign_engine::gate::{Environment, Options, Parts};
use countersign_engine::log_key::{HeldKey, KeyFiles};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::{Disk, replace_small};
use countersign_engine::storage::snapshot::remove_older_than;
use countersign_ledger::LogKey;
use countersign_ledger::receipt::Receipt;
use ed25519_dalek::SigningKey;
use record::Slot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The origin of the simulated log.
pub const ORIGIN: &str = "sim.test/log";
/// Small, so that a run crosses several segments.
const SEGMENT_BYTES: u64 = 24 << 10;
const TOKEN_KEY: [u8; 32] = [9; 32];

/// What a run came to.
#[derive(Debug, Default, Clone, Copy)]
pub struct Stats {
    /// How often the folder was opened.
    pub opened: usize,
    /// How often the power failed or a sync did.
    pub faults: usize,
    /// How many operations the clients sent.
    pub operations: usize,
    /// How many entries the log has.
    pub entries: usize,
    /// How many actions committed.
    pub committed: usize,
    /// How many were rejected or wait for a person.
    pub blocked: usize,
    /// How often the log's key was replaced.
    pub rotations: usize,
    /// How many parked actions a reviewer approved, which did them.
    pub approved: usize,
    /// How many a reviewer refused.
    pub refused: usize,
    /// How many actions committed under a delegation.
    pub delegated: usize,
    /// How many actions came in a batch.
    pub batched: usize,
    /// How many atomic groups committed.
    pub groups: usize,
    /// How many were rejected.
    pub groups_rejected: usize,
    /// How many entries are signed.
    pub signed: usize,
    /// How many entries a gateway signed for an agent.
    pub signed_by_gateway: usize,
}

impl Stats {
    /// Adds the numbers of another run.
    pub fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.faults += other.faults;
        self.operations += other.operations;
        self.entries += other.entries;
        self.committed += other.committed;
        self.blocked += other.blocked;
        self.rotations += other.rotations;
        self.approved += other.approved;
        self.refused += other.refused;
        self.delegated += other.delegated;
        self.batched += other.batched;
        self.groups += other.groups;
        self.groups_rejected += other.groups_rejected;
        self.signed += other.signed;
        self.signed_by_gateway += other.signed_by_gateway;
    }
}

/// The key that signs the simulated log first.
#[must_use]
pub fn signing_key() -> SigningKey {
    SigningKey::from_bytes(&[8; 32])
}

/// How one life of the folder ended.
enum End {
    /// The power failed, or a step of the disk did.
    Fault(&'static str),
    /// Nothing happened; the parts are still there.
    Alive(Box<Parts>),
}

/// One run.
struct Simulation<'t> {
    rng: SplitMix,
    disk: FaultyDisk,
    clock: Arc<VirtualClock>,
    /// The first key of the log, which an outsider trusts.
    key: LogKey,
    /// All keys that were ever made for it.
    keys: Vec<LogKey>,
    clients: Clients,
    /// Whether the log begins with an admin, so that everybody signs.
    identified: bool,
    /// Whether so few idempotency keys are in memory that most are in files.
    keys_in_files: bool,
    /// How many requests were signed.
    nonce: u64,
    /// The time that callers sign by.
    signing_ms: u64,
    operations: Vec<Operation>,
    /// The log as it was judged last.
    entries: Vec<LogEntry>,
    moment: u64,
    /// Payloads as the log held them, for those that are erased later.
    payloads: BTreeMap<u64, Vec<u8>>,
    /// Keys in the bodies of entries whose erasure was acknowledged.
    secrets: Vec<String>,
    receipts: Vec<Receipt>,
    stats: Stats,
    trace: &'t mut dyn FnMut(String),
}

/// A history that a run left, for tests of the checker itself.
#[derive(Debug, Clone)]
pub struct History {
    /// What was asked and answered.
    pub operations: Vec<Operation>,
    /// What the log holds.
    pub entries: Vec<LogEntry>,
}

/// Runs one seed and hands each step to `trace`.
///
/// # Errors
/// Says which promise was broken.
pub fn run(seed: u64, trace: &mut dyn FnMut(String)) -> Result<Stats, String> {
    play(seed, true, trace).map(|simulation| simulation.stats)
}

/// Runs one seed and gives the history it left.
///
/// # Errors
/// Says which promise was broken.
pub fn record(seed: u64) -> Result<History, String> {
    let mut silent = |_| ();
    let Simulation { operations, entries, .. } = play(seed, false, &mut silent)?;
    Ok(History { operations, entries })
}

fn play(seed: u64, keys_in_files: bool, trace: &mut dyn FnMut(String)) -> Result<Simulation<'_>, String> {
    let mut rng = SplitMix::new(seed ^ 0x51a1_0000_0000_0000);
    let key = LogKey::new(ORIGIN, signing_key().verifying_key()).map_err(|error| error.to_string())?;
    let lives = 1 + rng.below(4);
    // Signing and verifying cost more than everything else of a run, so only a part of the runs does.
    let identified = rng.below(4) == 0;
    let mut simulation = Simulation {
        disk: FaultyDisk::new(rng.next(), Faults::default()),
        clock: Arc::new(VirtualClock::new(1_800_000_000_000 + rng.below(1 << 30))),
        keys: vec![key.clone()],
        key,
        clients: Clients::new(rng.fork(), &TOKEN_KEY, identified),
        identified,
        keys_in_files,
        nonce: 0,
        signing_ms: 0,
        operations: Vec::new(),
        entries: Vec::new(),
        moment: 0,
        payloads: BTreeMap::new(),
        secrets: Vec::new(),
        receipts: Vec::new(),
        stats: Stats::default(),
        trace,
        rng,
    };
    replace_small(&simulation.disk, "log", signing_key().as_bytes()).map_err(|error| error.to_string())?;
    for _ in 0..lives {
        simulation.life()?;
    }
    simulation.last_judgement()?;
    Ok(simulation)
}

impl Simulation<'_> {
    fn say(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        (self.trace)(format!("{:>13} ms  {line}", self.clock.wall_ms()));
    }

    fn open(&mut self) -> Result<Parts, String> {
        let mut seed = [0; 32];
        seed.fill_with(|| (self.rng.next() & 0xff) as u8);
        // The key files lie beside the log, so that a crash meets both.
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let files = KeyFiles::new(Arc::clone(&disk), Arc::clone(&disk));
        let environment = Environment {
            disk,
            clock: Arc::clone(&self.clock) as _,
            seed,
            log_key: HeldKey::load(files).map_err(|error| error.to_string())?,
            token_key: TOKEN_KEY,
        };
        let first_admin =
            self.identified.then(|| KeyName::of(identities::signing_key(ADMIN, 0).verifying_key().to_bytes()));
        let usual = Options::new(ORIGIN);
        let table_keys = if self.keys_in_files { 4 + self.stats.opened % 8 } else { usual.table_keys };
        let options = Options { segment_bytes: SEGMENT_BYTES, snapshot_every: 0, first_admin, table_keys, ..usual };
        self.stats.opened += 1;
        Parts::open(environment, options).map_err(|error| error.to_string())
    }

    fn faults(&mut self) -> Faults {
        let mut faults = Faults { short_writes: self.rng.below(2) * 4, ..Faults::default() };
        match self.rng.below(8) {
            // Soon, while the folder is being opened or filled.
            0 => faults.crash_at = Some(1 + self.rng.below(24)),
            // Files of keys take steps of their own.
            1..=3 => faults.crash_at = Some(1 + self.rng.below(if self.keys_in_files { 200 } else { 160 })),
            4 | 5 => {
                let how = if self.rng.below(2) == 0 { FailedSync::Dropped } else { FailedSync::KeptClean };
                faults.fail_sync = Some((1 + self.rng.below(40), how));
            }
            _ => {}
        }
        faults
    }

    /// Opens the folder, acts, and ends in one of the ways that a process ends.
    fn life(&mut self) -> Result<(), String> {
        let faults = self.faults();
        self.disk.set_faults(faults);
        self.say(|| format!("opens; {faults:?}"));
        let end = match self.open() {
            Ok(parts) => {
                self.judge(&parts)?;
                self.act(parts)?
            }
            Err(_) if self.disk.is_down() => End::Fault("the power failed while opening"),
            Err(error) if faults.fail_sync.is_some() => {
                self.say(|| format!("opening failed: {error}"));
                End::Fault("a sync failed while opening")
            }
            Err(error) => return Err(format!("the folder does not open: {error}")),
        };
        let seed = self.rng.next();
        let how = match end {
            End::Fault(why) => {
                self.stats.faults += 1;
                if self.disk.is_down() || self.rng.below(2) == 0 {
                    self.disk = self.disk.crash(seed);
                    why
                } else {
                    self.disk = self.disk.restart();
                    "a sync failed and the process was started anew"
                }
            }
            End::Alive(parts) => self.end(*parts, seed)?,
        };
        self.say(|| format!("ends: {how}"));
        self.clients.forget_what_was_under_way();
        self.clock.restart(self.rng.below(3_000));
        Ok(())
    }

    fn end(&mut self, parts: Parts, seed: u64) -> Result<&'static str, String> {
        match self.rng.below(3) {
            0 => {
                let Parts { committer, .. } = parts;
                self.disk.set_faults(Faults::default());
                committer.close().map_err(|error| format!("it does not close: {error}"))?;
                Ok("closed")
            }
            1 => {
                drop(parts);
                self.disk = self.disk.restart();
                Ok("killed")
            }
            _ => {
                self.disk = self.disk.crash(seed);
                self.stats.faults += 1;
                Ok("the power was cut")
            }
        }
    }

    /// Lets the clients act until something fails or enough happened.
    fn act(&mut self, mut parts: Parts) -> Result<End, String> {
        let mut ledger_clock = LedgerClock::start(&*self.clock, parts.view().time_ms);
        for _ in 0..2 + self.rng.below(16) {
            self.clock.pass(&mut self.rng);
            if let Some(why) = self.keep_house(&parts) {
                return Ok(End::Fault(why));
            }
            for _ in 0..self.rng.below(5) {
                self.observe(&parts, &mut ledger_clock);
            }
            if self.rng.below(2) == 0 {
                self.show_review(&parts, &mut ledger_clock);
            }
            let slot = Slot::default();
            let mut submissions = self.ask(&parts, &slot)?;
            if let Some(why) = self.ask_to_rotate(&parts, &slot, &mut submissions)? {
                return Ok(End::Fault(why));
            }
            let mut batch = Batch::default();
            parts.sequence(&mut batch, submissions);
            let committed = parts.committer.commit(batch);
            self.take_answers(&slot)?;
            if let Err(error) = committed {
                self.say(|| format!("the batch failed: {error}"));
                return Ok(End::Fault("the disk failed"));
            }
            if let Some(why) = self.finish_erasure(&parts).or_else(|| self.finish_rotation(&parts)) {
                return Ok(End::Fault(why));
            }
        }
        Ok(End::Alive(Box::new(parts)))
    }

    /// Anchor, next segment, snapshot: what the gate's housekeeper does. Gives why the life ends, if so.
    fn keep_house(&mut self, parts: &Parts) -> Option<&'static str> {
        let log = parts.committer.log();
        let done = match self.rng.below(8) {
            0..=2 => log.tend(self.clock.monotonic_ms()).map(|()| "looks after the log"),
            3 => parts.snapshot().map(|_| "takes a snapshot"),
            4 if self.keys_in_files => parts.tend_keys().map(|()| "looks after the keys"),
            _ => return None,
        };
        self.say(|| {
            done.as_ref().map_or_else(|error| format!("housekeeping failed: {error}"), |what| (*what).to_owned())
        });
        // Housekeeping that fails leaves the log as it was; if the power is off, or a sync failed, the life is over.
        let is_over = self.disk.is_down() || log.refuse_if_poisoned().is_err();
        is_over.then_some("the disk failed while keeping house")
    }

    /// After an erasure was acknowledged, a fresh snapshot takes the place of those that may hold what was erased.
    fn finish_erasure(&mut self, parts: &Parts) -> Option<&'static str> {
        let key = self.clients.erased.take()?;
        let done = parts.snapshot().and_then(|position| remove_older_than(&self.disk, position));
        match (done, key) {
            (Ok(_), Some(key)) => self.secrets.push(key),
            (Ok(_), None) => {}
            (Err(error), _) => self.say(|| format!("the erasure could not be finished: {error}")),
        }
        self.disk.is_down().then_some("the power failed while erasing")
    }
}
