//! The gate: what everything outside talks to.
//!
//! Two threads of its own decide and make durable; a third keeps house (anchor, next segment, snapshots). Callers admit
//! on their own threads, in parallel, and wait for an answer or hand in a callback.

mod admit;
mod erase;
mod housekeeping;
mod open;
mod outside;
mod read;

pub use admit::AdmitError;
pub use erase::{EraseError, ErasePlan};
pub use open::{Environment, OpenError, OpenReport, Options, Parts};
pub use outside::{LogError, StoredEntry};
pub use read::{HistoryError, Observe, Shown, Version};

use crate::clock::{Clock, LedgerClock};
use crate::commit::Committer;
use crate::idempotency::Idempotency;
use crate::request::{Answer, Refusal, Reply, Request, Submission};
use crate::sequence::{Batch, Sequencer};
use crate::storage::SegmentLog;
use crate::token::Sealer;
use crate::view::View;
use countersign_core::record::Event;
use countersign_ledger::checkpoint::LogKey;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ed25519_dalek::SigningKey;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rand_chacha::ChaCha12Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Most bytes of bodies that one batch takes, so that a batch always fits its format.
const BATCH_BODY_BYTES_MAX: usize = 4 << 20;

/// An open gate. Dropping it closes it.
pub struct Gate {
    queue: Option<Sender<Submission>>,
    queue_len: usize,
    threads: Vec<JoinHandle<()>>,
    housekeeper: Option<housekeeping::Housekeeper>,
    shared: Arc<Shared>,
}

/// What all threads of a gate share.
pub(crate) struct Shared {
    view: Arc<RwLock<View>>,
    log: Arc<SegmentLog>,
    log_key: LogKey,
    signing_key: SigningKey,
    sealer: Sealer,
    clock: Arc<dyn Clock>,
    ledger_clock: Arc<Mutex<LedgerClock>>,
    keys: Arc<Mutex<Idempotency>>,
    nonces: Mutex<ChaCha12Rng>,
    options: Options,
    failed: Mutex<Option<String>>,
    closing: Mutex<Option<String>>,
    wants_segment: AtomicBool,
    handed_over: AtomicU64,
    snapshotting: Mutex<()>,
    /// Counts of what the gate did, for metrics.
    pub(crate) counters: Counters,
}

/// Counts since the gate was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Actions committed.
    pub committed: AtomicU64,
    /// Actions rejected.
    pub rejected: AtomicU64,
    /// Actions that wait for a person.
    pub review: AtomicU64,
    /// Actions that took effect in shadow mode although something did not hold.
    pub shadowed: AtomicU64,
    /// Answers to a repeated idempotency key.
    pub repeated: AtomicU64,
    /// Facts fed.
    pub fed: AtomicU64,
    /// Requests refused without an entry.
    pub refused: AtomicU64,
    /// Requests refused because the queue was full.
    pub busy: AtomicU64,
    /// Batches made durable.
    pub batches: AtomicU64,
    /// Bytes written to the log.
    pub log_bytes: AtomicU64,
    /// Observations made.
    pub observed: AtomicU64,
}

impl Gate {
    /// Hands in a request; the answer comes to `reply` when everything it rests on is durable. Refuses at once when the
    /// queue is full: that is not a verdict.
    pub fn submit(&self, request: Request, reply: Reply) -> Result<(), Refusal> {
        if let Some(cause) = self.shared.failed.lock().clone() {
            return Err(Refusal::Poisoned(cause));
        }
        let Some(queue) = &self.queue else { return Err(Refusal::Closed) };
        queue.try_send(Submission { request, reply }).map_err(|error| match error {
            TrySendError::Full(_) => {
                self.shared.counters.busy.fetch_add(1, Ordering::Relaxed);
                Refusal::Busy(self.queue_len)
            }
            TrySendError::Disconnected(_) => Refusal::Closed,
        })
    }

    /// Hands in a request and waits for the answer.
    pub fn call(&self, request: Request) -> Result<Answer, Refusal> {
        let (answer, answered) = bounded(1);
        self.submit(
            request,
            Box::new(move |result| {
                // A caller that has gone away needs no answer.
                let _ = answer.send(result);
            }),
        )?;
        answered.recv().unwrap_or(Err(Refusal::Closed))
    }

    /// What is durable, as of now. Held only briefly: the commit stage waits for readers.
    pub fn view(&self) -> RwLockReadGuard<'_, View> {
        self.shared.view.read()
    }

    /// The log's public key.
    pub fn log_key(&self) -> &LogKey {
        &self.shared.log_key
    }

    /// Counts since the gate was opened.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// How many requests wait in the queue.
    pub fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, Sender::len)
    }

    /// How many requests may wait in the queue.
    pub fn queue_capacity(&self) -> usize {
        self.queue_len
    }

    /// Ledger time now.
    pub fn now_ms(&self) -> u64 {
        self.shared.ledger_clock.lock().read(&*self.shared.clock)
    }

    /// Why the gate is not ready to decide, if so.
    pub fn not_ready(&self) -> Option<String> {
        if let Some(cause) = self.shared.failed.lock().clone() {
            return Some(format!("the ledger cannot be written: {cause}; restart the gate"));
        }
        let step = self.shared.ledger_clock.lock().stepped()?;
        Some(format!(
            "the wall clock ({} ms) is more than five seconds from ledger time ({} ms); mend the clock, or confirm it with \
             `countersign clock confirm`",
            step.wall_ms, step.ledger_ms
        ))
    }

    /// Stops taking requests, answers those already taken, and closes the log cleanly.
    pub fn close(mut self) -> Result<(), String> {
        self.shut();
        self.shared.closing.lock().take().map_or(Ok(()), Err)
    }

    fn shut(&mut self) {
        drop(self.housekeeper.take());
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            // A thread of the gate ends by returning; if it panicked, the panic hook has said so.
            let _ = thread.join();
        }
    }

    fn start(
        shared: Arc<Shared>,
        sequencer: Sequencer,
        committer: Committer,
        snapshot_due: u64,
    ) -> std::io::Result<Self> {
        let (queue, queued) = bounded(shared.options.queue_len);
        // One batch is being made durable, one waits, one is being decided.
        let (decided, to_commit) = bounded(1);
        let committer = Arc::new(Mutex::new(Some(committer)));
        let spawn =
            |name: &str, work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name(name.into()).spawn(work);
        let sequencing = {
            let (shared, committer) = (Arc::clone(&shared), Arc::clone(&committer));
            spawn("sequence", Box::new(move || sequence_loop(&shared, sequencer, &committer, &queued, &decided)))?
        };
        let committing = {
            let shared = Arc::clone(&shared);
            spawn("commit", Box::new(move || commit_loop(&shared, &committer, &to_commit)))?
        };
        let housekeeper = housekeeping::start(Arc::clone(&shared), snapshot_due)?;
        Ok(Self {
            queue: Some(queue),
            queue_len: shared.options.queue_len,
            threads: vec![sequencing, committing],
            housekeeper: Some(housekeeper),
            shared,
        })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shut();
    }
}

fn body_len(request: &Request) -> usize {
    match request {
        Request::Act(action) => action.body.len(),
        Request::Publish { pact, .. } => pact.source.len(),
        _ => 1024,
    }
}

fn sequence_loop(
    shared: &Shared,
    mut sequencer: Sequencer,
    committer: &Mutex<Option<Committer>>,
    queued: &Receiver<Submission>,
    decided: &Sender<Batch>,
) {
    let mut taken = Vec::with_capacity(shared.options.batch_max);
    let mut was_alone = true;
    while let Ok(first) = queued.recv() {
        let mut bytes = body_len(&first.request);
        taken.push(first);
        while taken.len() < shared.options.batch_max && bytes < BATCH_BODY_BYTES_MAX {
            let Ok(next) = queued.try_recv() else { break };
            bytes += body_len(&next.request);
            taken.push(next);
        }
        if let Some(cause) = shared.failed.lock().clone() {
            for submission in taken.drain(..) {
                (submission.reply)(Err(Refusal::Poisoned(cause.clone())));
            }
            continue;
        }
        let is_alone = taken.len() == 1;
        let batch = sequencer.sequence(taken.drain(..), &*shared.clock);
        // For a lone caller, handing over to another thread would only add to the wait. Under load it must be handed over:
        // the next batch is decided while this one is made durable. The commit stage is idle exactly when nothing was
        // handed to it that it has not finished, so the order stays.
        let before_too = std::mem::replace(&mut was_alone, is_alone);
        let lone = is_alone && before_too && queued.is_empty();
        if lone && shared.handed_over.load(Ordering::Acquire) == 0 {
            if let Some(committer) = &mut *committer.lock() {
                commit(shared, committer, batch);
            }
            continue;
        }
        shared.handed_over.fetch_add(1, Ordering::AcqRel);
        if decided.send(batch).is_err() {
            break;
        }
    }
}

fn commit_loop(shared: &Shared, committer: &Mutex<Option<Committer>>, to_commit: &Receiver<Batch>) {
    while let Ok(batch) = to_commit.recv() {
        if let Some(committer) = &mut *committer.lock() {
            commit(shared, committer, batch);
        }
        shared.handed_over.fetch_sub(1, Ordering::AcqRel);
    }
    // The sequencer has ended: it held the other end.
    if let Some(Err(error)) = committer.lock().take().map(Committer::close) {
        shared.closing.lock().get_or_insert(error.to_string());
    }
}

fn commit(shared: &Shared, committer: &mut Committer, batch: Batch) {
    shared.count(&batch);
    if let Err(error) = committer.commit(batch) {
        tracing::error!(%error, "the ledger cannot be written; the gate refuses everything until it is restarted");
        shared.failed.lock().get_or_insert(error.to_string());
    }
    shared.counters.log_bytes.store(committer.bytes(), Ordering::Relaxed);
    if committer.log().wants_next() {
        shared.wants_segment.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn count(&self, batch: &Batch) {
        let counters = &self.counters;
        let (mut committed, mut rejected) = (0, 0);
        for sequenced in &batch.entries {
            match &sequenced.entry.event {
                Event::Action(decided) => {
                    match decided.decision.verdict.as_str() {
                        "committed" => committed += 1,
                        "rejected" => rejected += 1,
                        _ => drop(counters.review.fetch_add(1, Ordering::Relaxed)),
                    }
                    if decided.decision.shadowed.is_some() {
                        counters.shadowed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Event::Feed { .. } => drop(counters.fed.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
        }
        counters.committed.fetch_add(committed, Ordering::Relaxed);
        counters.rejected.fetch_add(rejected, Ordering::Relaxed);
        for (_, answer) in &batch.answers {
            let counter = if answer.is_ok() { &counters.repeated } else { &counters.refused };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        counters.batches.fetch_add(1, Ordering::Relaxed);
    }
}
