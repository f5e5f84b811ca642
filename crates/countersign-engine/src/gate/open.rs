//! Opening a gate: the newest good snapshot, the tail of the log over it, then the threads.

use super::session_uses::SessionUses;
use super::{Counters, Gate, Shared};
use crate::clock::{Clock, LedgerClock};
use crate::commit::{CommitError, Committer, EncodeStage, StoreStage};
use crate::delegation::Delegations;
use crate::denials::Denials;
use crate::fold::{self, Depth, EntryLeaves, Fold};
use crate::idempotency::{Kept, Keys, TABLE_KEYS};
use crate::identity::KeptFile;
use crate::identity::replay::ReplayWindow;
use crate::log_key::{HeldKey, LogKeys};
use crate::outbox::LastAttempts;
use crate::request::Submission;
use crate::sequence::{Batch, Sequencer};
use crate::snapshot;
use crate::storage::disk::Disk;
use crate::storage::snapshot::{Ignored, newest};
use crate::storage::{self, Entries, Folder, OpenOptions, SEGMENT_BYTES, StorageError, Store};
use crate::stream::Stream;
use crate::token::{OldTokenKey, Sealer};
use crate::view::{Live, Synced, View};
use countersign_core::identity::KeyName;
use countersign_ledger::checkpoint::{KeyError, LogKey};
use parking_lot::{Mutex, RwLock};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::sync::Arc;

/// What a gate needs from the world.
pub struct Environment {
    /// The data folder: files of the gate's own, and the log where it is kept in files.
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    /// Fresh randomness for salts, tags and nonces.
    pub seed: [u8; 32],
    /// The key that signs checkpoints, and where it rests.
    pub log_key: HeldKey,
    /// The key that seals observations.
    pub token_key: [u8; 32],
}

/// How a gate runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The log's origin: a name that no other log has.
    pub origin: String,
    /// Length of a segment file, where the log is kept in files.
    pub segment_bytes: u64,
    /// How many requests may wait; past it, 503.
    pub queue_len: usize,
    /// Most requests in one batch.
    pub batch_max: usize,
    /// Entries between background snapshots; 0 takes none.
    pub snapshot_every: u64,
    /// Most bytes of new entries that are kept in memory for those that follow the log; a follower further behind reads the log.
    pub recent_bytes_max: usize,
    /// Most idempotency keys that are kept for one agent, for one to two days; each takes some 40 bytes on the disk.
    pub keys_per_agent: u32,
    /// Idempotency keys that are in memory before they are written to a file. Only tests set it.
    pub table_keys: usize,
    /// The key of the first operator. Used only when a log is made: it begins identified, with this one admin.
    pub first_admin: Option<KeyName>,
    /// Whether a log is made where there is none. A gate that goes on with a log must not: an empty folder is a lost or a
    /// half-made one, and a log without an admin believes every caller.
    pub may_begin: bool,
    /// Keys that sealed tokens before the current one, and still open them for a while.
    pub old_token_keys: Vec<OldTokenKey>,
    /// The control that it does without.
    #[cfg(feature = "sabotage")]
    pub without: Option<crate::sabotage::Control>,
}

impl Options {
    /// The usual options for a log of this origin.
    pub fn new(origin: impl Into<String>) -> Self {
        Self {
            origin: origin.into(),
            segment_bytes: SEGMENT_BYTES,
            // At a hundred thousand actions a second this is a wait of 80 ms; longer queues only hide overload.
            queue_len: 8192,
            batch_max: 512,
            snapshot_every: 500_000,
            // Some 10,000 actions: more than a follower misses while its thread waits for a core.
            recent_bytes_max: 8 << 20,
            // More than a hundred actions a second, day and night; 800 MB on the disk.
            keys_per_agent: 20_000_000,
            table_keys: TABLE_KEYS,
            first_admin: None,
            may_begin: true,
            old_token_keys: Vec::new(),
            #[cfg(feature = "sabotage")]
            without: None,
        }
    }
}

/// What opening found and did.
#[derive(Debug)]
pub struct OpenReport {
    /// Whether the log is new.
    pub created: bool,
    /// What the store found.
    pub storage: storage::OpenReport,
    /// The position of the snapshot that was used.
    pub snapshot: Option<u64>,
    /// Snapshots that could not be used, and why.
    pub ignored: Vec<Ignored>,
    /// Entries replayed.
    pub replayed: u64,
    /// Payloads whose erasure a crash had interrupted, and which were erased now.
    pub erasures_finished: u64,
}

/// Why a gate could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The origin is not acceptable.
    #[error("the origin cannot name a log: {0}")]
    Origin(#[from] KeyError),
    /// The store refused.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// There is no log, and none may be made.
    #[error("there is no ledger here, and only `countersign init` begins one")]
    NoLedger,
    /// The first entry could not be written.
    #[error("{0}")]
    Commit(#[from] CommitError),
    /// A key file could not be written.
    #[error("the key files could not be brought in line with the log: {0}; check free space and permissions of `keys`")]
    KeyFiles(#[source] std::io::Error),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl OpenError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoLedger => "restore the folder from a backup, or make another with `countersign init`",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Everything a gate runs on, before its threads start. The simulator drives these parts itself.
pub struct Parts {
    /// Decides.
    pub sequencer: Sequencer,
    /// Makes durable.
    pub committer: Committer,
    /// What all share.
    pub(crate) shared: Arc<Shared>,
    /// What was found.
    pub report: OpenReport,
}

impl Parts {
    /// What readers see.
    pub fn view(&self) -> Synced<'_> {
        self.shared.view()
    }

    /// The lock that readers hold the view by, for what measures how long they do.
    pub fn view_lock(&self) -> &RwLock<View> {
        &self.shared.view
    }

    /// The keys of the gate.
    pub fn log_keys(&self) -> &LogKeys {
        &self.shared.log_keys
    }

    /// Decides requests at one reading of the clock and adds them to a batch, as a gate does: their keys are looked up first, and again
    /// where that was too long ago.
    pub fn sequence(&mut self, batch: &mut Batch, submissions: impl IntoIterator<Item = Submission>) {
        let mut submissions: Vec<Submission> = submissions.into_iter().collect();
        loop {
            let looked_up = submissions.into_iter().filter_map(|submission| self.shared.look_up(submission));
            let looked_up: Vec<Submission> = looked_up.collect();
            self.sequencer.sequence(batch, looked_up, &*self.shared.clock);
            submissions = std::mem::take(&mut batch.again);
            if submissions.is_empty() {
                return;
            }
        }
    }

    /// The idempotency keys.
    pub fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// Looks after the idempotency keys, as a thread of the gate does.
    pub fn tend_keys(&self) -> Result<(), StorageError> {
        self.shared.keys.tend(&*self.shared.log, &self.shared.view)
    }

    /// Takes a snapshot now.
    pub fn snapshot(&self) -> Result<u64, StorageError> {
        self.shared.take_snapshot()
    }

    /// Takes a snapshot, while the caller does something else between its pieces: what entries then do must not get into it.
    pub fn snapshot_between(&self) -> impl FnOnce(&mut dyn FnMut()) -> Result<u64, StorageError> + use<> {
        let shared = Arc::clone(&self.shared);
        move |between| shared.take_snapshot_between(between)
    }

    /// Opens a data folder, or makes a new log in it.
    pub fn open(environment: Environment, options: Options) -> Result<Self, OpenError> {
        let folder = Folder::lock(Arc::clone(&environment.disk))?;
        Self::open_on(Box::new(folder), environment, options)
    }

    /// Opens a log that was taken, wherever it is kept, or makes a new one there.
    pub fn open_on(store: Box<dyn Store>, environment: Environment, options: Options) -> Result<Self, OpenError> {
        let Environment { disk, clock, seed, log_key, token_key } = environment;
        let log_keys = Arc::new(LogKeys::new(&options.origin, log_key)?);
        let (public, next) = (log_keys.public(), log_keys.next_public());
        let (mut fold, kept, snapshot, ignored) = restore(&*store, &public)?;
        let keys = Keys::restore(Arc::clone(&disk), options.table_keys, fold.position, kept)?;
        let start = fold.tree.frontier();
        let from = fold.position;
        let open_options = OpenOptions {
            start,
            segment_bytes: options.segment_bytes,
            next: next.as_ref(),
            ..OpenOptions::new(&public, &EntryLeaves)
        };
        let read_batch = |batch: &Arc<Entries>| {
            let entries = batch.entries().filter(|entry| entry.index >= from);
            entries.map(|entry| fold::read(&entry, Depth::Fold)).collect()
        };
        let mut unkept = None;
        let apply = |read: fold::Read| {
            fold.apply(&read)?;
            unkept = unkept.take().or_else(|| keys.replay(&read.entry).err());
            Ok(())
        };
        let opened = fold::ahead(read_batch, apply, |fold| store.open(open_options, fold))?;
        #[cfg(feature = "sabotage")]
        let opened = match options.without {
            Some(crate::sabotage::Control::Durability) => crate::sabotage::unsynced(opened),
            _ => opened,
        };
        if let Some(error) = unkept {
            return Err(error.into());
        }
        keys.mend(&*opened.log, || fold.tree.clone(), fold.time_ms)?;
        let created = fold.position == 0;
        if created && !options.may_begin {
            return Err(OpenError::NoLedger);
        }
        // Below the snapshot nothing is erased again: what an old copy put back there stays withheld.
        opened.log.withhold(&fold.state.erased);
        // An erasure that was decided is finished before anything else happens.
        let erasures_finished = opened.log.erase(&fold.erased)?;
        // So is a rotation; one that was not entered is dropped. The anchor comes first, as when a rotation is made: a later
        // opening that begins with a snapshot does not know the keys before it.
        if opened.keys.rotations() > 0 {
            opened.log.anchor_past(opened.report.size.saturating_sub(1))?;
        }
        log_keys.follow(&opened.keys);
        log_keys.settle().map_err(OpenError::KeyFiles)?;

        let mut seeds = ChaCha12Rng::from_seed(seed);
        let mut random = || {
            let mut seed = [0; 32];
            seeds.fill_bytes(&mut seed);
            ChaCha12Rng::from_seed(seed)
        };
        let is_identified = fold.state.is_identified();
        let session_uses = SessionUses::of(&fold.state, fold.time_ms);
        let Fold { state, tree, position, time_ms, erasure, .. } = fold;
        let checkpoint = opened.log.latest_note().unwrap_or_default().into();
        let mut state = state;
        let view = View { rest: state.without_facts(), position, time_ms, tree, checkpoint, clock_stepped: false };
        let view = Arc::new(RwLock::new(view));
        let keys = Arc::new(keys);
        let stream = Arc::new(Stream::new(position, options.recent_bytes_max));
        let ledger_clock = LedgerClock::start(&*clock, time_ms);
        #[cfg(feature = "sabotage")]
        let ledger_clock = ledger_clock.following_the_wall(options.without == Some(crate::sabotage::Control::Clock));
        let ledger_clock = Arc::new(Mutex::new(ledger_clock));
        let live = Live::new(state, position);
        let (shared_state, synced, pinned) = (live.shared(), live.synced(), live.pinned());
        let sequencer = Sequencer::new(live, Arc::clone(&keys), Arc::clone(&ledger_clock), random());
        let mut sequencer = sequencer.with_keys_per_agent(options.keys_per_agent);
        #[cfg(feature = "sabotage")]
        {
            sequencer = sequencer.without(options.without);
        }
        let mut committer = Committer {
            encode: EncodeStage::new(opened.frontier, options.origin.clone(), Arc::clone(&log_keys), random()),
            store: StoreStage::new(
                (opened.writer, Arc::clone(&opened.log)),
                Arc::clone(&view),
                Arc::clone(&log_keys),
                Arc::clone(&stream),
                synced,
            ),
        };
        if created {
            let first_admin = options.first_admin.as_ref();
            committer.commit(sequencer.genesis(options.origin.clone(), public.to_string(), first_admin, &*clock))?;
        }
        let mut secret = [0; 32];
        random().fill_bytes(&mut secret);
        let replays = replay_window(&*disk, secret, !created && is_identified, ledger_clock.lock().read(&*clock))?;
        let replayed = position - from;
        let report = OpenReport { created, snapshot, ignored, replayed, erasures_finished, storage: opened.report };
        let shared = Arc::new(Shared {
            view,
            live: shared_state,
            pinned,
            log: opened.log,
            disk,
            log_keys,
            sealer: Sealer::new(&token_key).after(&options.old_token_keys),
            delegations: Delegations::default(),
            denials: Denials::default(),
            clock,
            ledger_clock,
            keys,
            nonces: Mutex::new(random()),
            options,
            failed: Mutex::new(None),
            closing: Mutex::new(None),
            wakes_at_ms: sequencer.wakes_at_ms().unwrap_or(u64::MAX).into(),
            more_places: 0.into(),
            waiting: 0.into(),
            stream,
            tried: LastAttempts::default(),
            latest_readings: super::sessions::LatestReadings::default(),
            session_uses,
            shown_values: super::tainted::ShownValues::default(),
            windows: super::windows::Windows::default(),
            long_answers: super::LongAnswers::default(),
            snapshotting: Mutex::new(()),
            replays: Mutex::new(replays),
            kept_file: KeptFile::default(),
            counters: Counters::default(),
        });
        // So are the snapshots from before it, which the gate may not have come to remove.
        if let Some(erasure) = erasure.filter(|_| report.snapshot.is_some() || !report.ignored.is_empty()) {
            shared.replace_snapshots(erasure)?;
        }
        Ok(Self { sequencer, committer, shared, report })
    }
}

/// The nonces that were seen before, for a log in which signatures count.
fn replay_window(
    disk: &dyn Disk,
    secret: [u8; 32],
    is_identified: bool,
    now_ms: u64,
) -> Result<ReplayWindow, StorageError> {
    if !is_identified {
        return Ok(ReplayWindow::new(secret, now_ms));
    }
    let reopened = ReplayWindow::reopen(disk, secret, now_ms);
    reopened.map_err(|source| StorageError::Io { action: "read", name: "nonces".to_owned(), source })
}

/// What the newest snapshot that can be used holds, its position, and the snapshots that cannot be used.
type Restored = (Fold, Kept, Option<u64>, Vec<Ignored>);

fn restore(store: &dyn Store, key: &LogKey) -> Result<Restored, OpenError> {
    let (found, mut ignored) = newest(store.snapshots(), key, None)?;
    let Some(found) = found else { return Ok((Fold::default(), Kept::default(), None, ignored)) };
    match snapshot::restore(&found, key.origin()) {
        Ok((fold, kept)) => Ok((fold, kept, Some(found.size()), ignored)),
        Err(error) => {
            ignored.push(Ignored { name: found.name().to_owned(), reason: error.to_string() });
            Ok((Fold::default(), Kept::default(), None, ignored))
        }
    }
}

impl Gate {
    /// Opens a data folder, or makes a new log in it, and starts.
    pub fn open(environment: Environment, options: Options) -> Result<(Self, OpenReport), OpenError> {
        Self::run(Parts::open(environment, options)?)
    }

    /// The same with a log that was taken, wherever it is kept. The folder then holds only files of the gate's own.
    pub fn open_on(
        store: Box<dyn Store>,
        environment: Environment,
        options: Options,
    ) -> Result<(Self, OpenReport), OpenError> {
        Self::run(Parts::open_on(store, environment, options)?)
    }

    fn run(parts: Parts) -> Result<(Self, OpenReport), OpenError> {
        let Parts { sequencer, committer, shared, report } = parts;
        let snapshot_due = report.snapshot.unwrap_or(0);
        Ok((Self::start(shared, sequencer, committer, snapshot_due)?, report))
    }
}
