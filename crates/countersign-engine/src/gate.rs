//! The gate: what everything outside talks to.
//!
//! Three threads of its own decide, encode and make durable; a fourth does maintenance (anchor, next segment, snapshots). Callers
//! admit on their own threads, in parallel, and wait for an answer or hand in a callback.

mod admit;
mod counters;
mod erase;
mod follow;
mod housekeeping;
mod keys;
mod log_reader;
mod long_answers;
mod many;
mod open;
mod pipeline;
mod read;
mod reviews;
mod rotate;
mod session_uses;
mod sessions;
mod show;
mod unused;
mod windows;

pub use admit::AdmitError;
pub use counters::Counters;
pub use erase::{EraseError, ErasePlan};
pub use log_reader::{LogError, StoredEntry};
pub use long_answers::LongAnswers;
pub use many::{AdmittedBatch, BatchError};
pub use open::{Environment, OpenError, OpenReport, Options, Parts};
pub use read::{ExternalFacts, HistoryError, NotObservable, NotRead, Observe, PastVersion, ShownFact, WhyUnread};
pub use reviews::{RestedOn, ShownReview};
pub use rotate::RotateLogKeyError;
pub use session_uses::{IDLE_SESSION_MS, IDLE_SESSIONS_MAX, SESSIONS_PER_AGENT_MAX};
pub use sessions::{EndedCall, NotReadIn, Outdated, ReadIn, Told};
pub use show::{Attested, Found, FoundFacts, NotShown, Opening};
pub use unused::{UnusedRight, UnusedRights};
pub use windows::{Window, Windows};

use crate::clock::{Clock, LedgerClock, STEP_MS};
use crate::commit::Committer;
use crate::delegation::Delegations;
use crate::denials::Denials;
use crate::idempotency::Keys;
use crate::identity::replay::ReplayWindow;
use crate::identity::{KeptFile, SigningTime};
use crate::log_key::LogKeys;
use crate::outbox::LastAttempts;
use crate::request::{Answer, Priority, Refusal, Reply, Request, Submission};
use crate::sequence::Sequencer;
use crate::storage::Log;
use crate::storage::disk::Disk;
use crate::stream::Stream;
use crate::token::Sealer;
use crate::view::{Pinned, Synced, View};
use countersign_core::denial::DenialCode;
use countersign_core::ids::AgentId;
use countersign_core::state::State;
use countersign_core::utc::Utc;
use countersign_ledger::checkpoint::LogKey;
use crossbeam_channel::{Sender, TrySendError, bounded};
use parking_lot::{Mutex, RwLock};
use pipeline::Pipeline;
use rand_chacha::ChaCha12Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// How many halts, resumes and changes of identities may wait. One turn of the sequencer takes all of them.
const URGENT_LEN: usize = 1024;
/// How many dispatches and settlements may wait. Whoever has more waits for room.
const OWN_LEN: usize = 1024;

/// An open gate. Dropping it closes it.
pub struct Gate {
    queue: Option<Sender<Submission>>,
    /// Halts, resumes and changes of identities: before anything else that waits, and open when the other two are full.
    urgent: Option<Sender<Submission>>,
    /// The gate's own dispatches and settlements: before what has queued, and never in front of a halt.
    own: Option<Sender<Submission>>,
    queue_len: usize,
    pipeline: Arc<Pipeline>,
    threads: Vec<JoinHandle<()>>,
    housekeeper: Option<housekeeping::Housekeeper>,
    key_threads: Option<keys::KeyThreads>,
    shared: Arc<Shared>,
}

/// What all threads of a gate share.
pub(crate) struct Shared {
    view: Arc<RwLock<View>>,
    /// The one state, which the sequencer is ahead with.
    live: Arc<RwLock<State>>,
    /// Which facts a snapshot needs as they were.
    pinned: Arc<Pinned>,
    log: Arc<dyn Log>,
    /// The gate's own files.
    disk: Arc<dyn Disk>,
    log_keys: Arc<LogKeys>,
    sealer: Sealer,
    delegations: Delegations,
    denials: Denials,
    clock: Arc<dyn Clock>,
    ledger_clock: Arc<Mutex<LedgerClock>>,
    keys: Arc<Keys>,
    nonces: Mutex<ChaCha12Rng>,
    options: Options,
    failed: Mutex<Option<String>>,
    closing: Mutex<Option<String>>,
    /// When an action that waits for a fence is due, in ledger milliseconds.
    wakes_at_ms: AtomicU64,
    /// How many places of the queue are taken by batches, beyond one each.
    more_places: AtomicUsize,
    /// How many wait for a fence.
    waiting: AtomicU64,
    stream: Arc<Stream>,
    tried: LastAttempts,
    latest_readings: sessions::LatestReadings,
    session_uses: session_uses::SessionUses,
    windows: Windows,
    long_answers: LongAnswers,
    snapshotting: Mutex<()>,
    replays: Mutex<ReplayWindow>,
    kept_file: KeptFile,
    /// Counts of what the gate did, for metrics.
    pub(crate) counters: Counters,
}

/// Why a gate is not ready to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady {
    /// The cause, and what to do about it.
    pub reason: String,
    /// How long it lasts, where that is known: then nothing is to be done but to wait.
    pub left_ms: Option<u64>,
}

impl Gate {
    /// Submits a request; the answer comes to `reply` when everything it rests on is durable. Refuses at once when the
    /// queue is full: that is not a verdict.
    pub fn submit(&self, request: Request, reply: Reply) -> Result<(), Refusal> {
        if let Some(cause) = self.shared.failure() {
            return Err(Refusal::Poisoned(cause));
        }
        let queued_only = request.priority() == Priority::Queued;
        let (queue, len) = match request.priority() {
            Priority::Urgent => (&self.urgent, URGENT_LEN),
            Priority::Own => (&self.own, OWN_LEN),
            Priority::Queued => (&self.queue, self.queue_len),
        };
        let Some(queue) = queue else { return Err(Refusal::Closed) };
        let known = self.shared.keys.look_up(&request)?;
        let busy = || {
            self.shared.counters.busy.fetch_add(1, Ordering::Relaxed);
            Refusal::Busy(len)
        };
        // What is urgent or the gate's own is one entry each, and has a queue of its own.
        let (more, before) = (request.places() - 1, &self.shared.more_places);
        let taken = if queued_only { queue.len() + before.load(Ordering::Acquire) } else { 0 };
        // A batch that is larger than the whole queue has its turn when the queue is empty.
        if taken > 0 && taken + more >= len {
            return Err(busy());
        }
        before.fetch_add(more, Ordering::AcqRel);
        queue.try_send(Submission { known, ..Submission::new(request, reply) }).map_err(|error| {
            before.fetch_sub(more, Ordering::AcqRel);
            match error {
                TrySendError::Full(_) => busy(),
                TrySendError::Disconnected(_) => Refusal::Closed,
            }
        })
    }

    /// Whether [`Self::submit`] would wait for the disk with this request, for callers that must not.
    pub fn submit_reads_disk(&self, request: &Request) -> bool {
        self.shared.keys.must_read_for(request)
    }

    /// Hands in a request and waits for the answer. Where nobody else waits, the work is done on this thread.
    pub fn call(&self, request: Request) -> Result<Answer, Refusal> {
        let is_empty = |queue: &Option<Sender<_>>| queue.as_ref().is_some_and(Sender::is_empty);
        let is_urgent = request.priority() == Priority::Urgent;
        let is_idle = is_empty(&self.urgent) && (is_urgent || is_empty(&self.own) && is_empty(&self.queue));
        if is_idle {
            // Before the pipeline is taken: no one is to wait for a disk.
            let known = self.shared.keys.look_up(&request)?;
            if let Some(idle) = self.pipeline.take_idle() {
                return idle.call(request, known);
            }
        }
        let (answer, answered) = bounded(1);
        self.submit(
            request,
            Box::new(move |result| {
                // A caller that has gone away needs no answer.
                let _ = answer.send(result);
            }),
        )?;
        answered.recv().unwrap_or_else(|_| Err(Refusal::unanswered()))
    }

    /// Hands in what the gate itself found out; waits for room, because it must not be lost. The answer comes to `reply`.
    pub(crate) fn submit_own(&self, request: Request, reply: Reply) -> Result<(), Refusal> {
        if let Some(cause) = self.shared.failure() {
            return Err(Refusal::Poisoned(cause));
        }
        let own = self.own.as_ref().ok_or(Refusal::Closed)?;
        own.send(Submission::new(request, reply)).map_err(|_| Refusal::Closed)
    }

    /// What calls answered that is too long for an entry.
    pub fn long_answers(&self) -> &LongAnswers {
        &self.shared.long_answers
    }

    /// For a thread that the gate depends on: if it panics while it holds this, the gate has failed and is not ready.
    pub(crate) fn watched(&self, name: &'static str) -> impl Send + use<> {
        pipeline::Watched { shared: Arc::clone(&self.shared), name }
    }

    /// How long the time was in which a change made past the gate would have gone unnoticed.
    pub fn windows(&self) -> &Windows {
        &self.shared.windows
    }

    /// What was read last at each place.
    pub(crate) fn latest_readings(&self) -> &sessions::LatestReadings {
        &self.shared.latest_readings
    }

    /// What the outbox last tried in vain.
    pub fn tried(&self) -> &LastAttempts {
        &self.shared.tried
    }

    /// What was refused at the door.
    pub fn denials(&self) -> &Denials {
        &self.shared.denials
    }

    /// Counts a request that was refused at the door; see [`Denials::note`].
    pub fn deny(&self, agent: &AgentId, code: DenialCode, asked: &str) {
        self.shared.denials.note(agent, code, asked, self.now_ms());
    }

    /// What is durable, as of now. Held only briefly: the commit stage waits for readers.
    pub fn view(&self) -> Synced<'_> {
        self.shared.view()
    }

    /// The log's name.
    pub fn origin(&self) -> &str {
        &self.shared.options.origin
    }

    /// The log's public key, as it is now.
    pub fn log_key(&self) -> LogKey {
        self.shared.log_keys.public()
    }

    /// Counts since the gate was opened.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// How many requests wait in the queue.
    pub fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, Sender::len) + self.shared.more_places.load(Ordering::Acquire)
    }

    /// How many actions wait for a fence.
    pub fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Acquire)
    }

    /// How many requests may wait in the queue.
    pub fn queue_capacity(&self) -> usize {
        self.queue_len
    }

    /// Ledger time now.
    pub fn now_ms(&self) -> u64 {
        self.shared.ledger_clock.lock().read(&*self.shared.clock)
    }

    /// The wall clock now.
    pub fn wall_ms(&self) -> u64 {
        self.shared.clock.wall_ms()
    }

    /// What a signature's time is held against now.
    pub(crate) fn signing_time(&self) -> SigningTime {
        let mut ledger_clock = self.shared.ledger_clock.lock();
        let ledger_ms = ledger_clock.read(&*self.shared.clock);
        let is_stepped = ledger_clock.stepped().is_some();
        let is_confirmed = ledger_clock.is_behind() && !is_stepped;
        let is_away = is_confirmed || is_stepped;
        SigningTime { ledger_ms, wall_ms: is_away.then(|| self.shared.clock.wall_ms()), is_confirmed }
    }

    /// How long it takes until fresh signatures are accepted, after an unclean end; `None` if they are. Callers sign by the wall
    /// clock, which may be behind ledger time; by more than a step that is not confirmed, it is the clock that keeps the gate from
    /// being ready.
    pub fn blind_for_ms(&self) -> Option<u64> {
        let time = self.signing_time();
        let signers_ms = match time {
            SigningTime { wall_ms: Some(wall_ms), is_confirmed: true, .. } => wall_ms,
            SigningTime { ledger_ms, .. } => {
                self.shared.clock.wall_ms().clamp(ledger_ms.saturating_sub(STEP_MS), ledger_ms)
            }
        };
        let mut replays = self.shared.replays.lock();
        replays.set_behind(time.is_confirmed);
        replays.blind_for_ms(signers_ms)
    }

    /// Why the gate is not ready to decide, if so.
    pub fn not_ready(&self) -> Option<NotReady> {
        let until_fixed = |reason| Some(NotReady { reason, left_ms: None });
        if let Some(cause) = self.lost_log() {
            return until_fixed(format!("the ledger cannot be written: {cause}; restart the gate"));
        }
        if let Some(cause) = self.shared.log.stalled(false) {
            return until_fixed(format!("the ledger has no room: {cause}; requests wait until there is some"));
        }
        let SigningTime { ledger_ms, wall_ms: Some(wall_ms), is_confirmed: false } = self.signing_time() else {
            let not_yet = self.not_yet()?;
            return Some(NotReady { reason: not_yet.to_string(), left_ms: not_yet.left_ms() });
        };
        until_fixed(format!(
            "the wall clock ({}) is more than five seconds from ledger time ({}); correct the clock, or confirm it with \
             `countersign clock confirm`",
            Utc(wall_ms),
            Utc(ledger_ms)
        ))
    }

    /// Stops taking requests, answers those already taken, and closes the log cleanly.
    pub fn close(mut self) -> Result<(), String> {
        self.shut();
        self.shared.closing.lock().take().map_or(Ok(()), Err)
    }

    fn shut(&mut self) {
        drop((self.housekeeper.take(), self.key_threads.take()));
        if self.queue.is_some() {
            self.save_nonces();
            self.write_denials();
        }
        // Whoever waits for room on the disk waits no longer.
        self.shared.log.stalled(true);
        drop((self.urgent.take(), self.own.take(), self.queue.take()));
        for thread in self.threads.drain(..) {
            // A thread of the gate ends by returning; if it panicked, the panic hook has said so.
            let _ = thread.join();
        }
    }

    /// What was counted and is not in the ledger yet, when the gate ends in order.
    fn write_denials(&self) {
        if let (Some(denied), Some(own)) = (self.shared.denials.rest(), &self.own) {
            // Only a gate that has failed does not take it, and then nothing can be written any more.
            drop(own.send(Submission::new(Request::Denials(denied), Box::new(|_| {}))));
        }
    }

    /// Nobody can be authenticated any more, and the folder is still ours: what was seen is final.
    fn save_nonces(&self) {
        if !self.view().is_identified() {
            return;
        }
        let (disk, now_ms) = (self.disk().as_ref(), self.now_ms());
        let saved = self.write_kept().and_then(|()| self.shared.replays.lock().save(disk, now_ms));
        if let Err(error) = saved {
            tracing::warn!(%error, "the nonces cannot be kept; after the next start, what was signed before it is refused");
        }
    }

    /// The gate's own local files: nonces, and what admins signed. They are no part of the log: one that leads the same log from
    /// another machine has its own.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.shared.disk
    }

    /// Whether it was told to do without a control.
    #[cfg(feature = "sabotage")]
    pub fn is_without(&self, control: crate::sabotage::Control) -> bool {
        self.shared.options.without == Some(control)
    }

    /// Writes what admins signed and is not in its file yet.
    pub(crate) fn write_kept(&self) -> std::io::Result<()> {
        self.shared.kept_file.write(&self.shared.replays, self.disk().as_ref())
    }

    /// The nonces of signed requests.
    pub(crate) fn replays(&self) -> &Mutex<ReplayWindow> {
        &self.shared.replays
    }

    fn start(
        shared: Arc<Shared>,
        sequencer: Sequencer,
        committer: Committer,
        snapshot_due: u64,
    ) -> std::io::Result<Self> {
        let (queue, queued) = bounded(shared.options.queue_len);
        let (to_urgent, urgent) = bounded(URGENT_LEN);
        let (to_own, own) = bounded(OWN_LEN);
        let (again, to_look_up) = bounded(keys::AGAIN_LEN);
        let pipeline = Arc::new(Pipeline::new(Arc::clone(&shared), sequencer, committer, again));
        let threads = pipeline.start(pipeline::Queues { urgent, own, queued })?;
        let housekeeper = housekeeping::start(Arc::clone(&shared), to_own.clone(), snapshot_due)?;
        let key_threads = keys::start(&shared, to_own.clone(), to_look_up)?;
        let queue_len = shared.options.queue_len;
        Ok(Self {
            queue: Some(queue),
            urgent: Some(to_urgent),
            own: Some(to_own),
            queue_len,
            pipeline,
            threads,
            housekeeper: Some(housekeeper),
            key_threads: Some(key_threads),
            shared,
        })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shut();
    }
}
