//! Deciding, encoding and making durable, as a pipeline of three stages: while one batch is synced, the next is encoded and the
//! one after that is decided.
//!
//! Each stage is behind a lock, and there is one of each, so whoever holds the lock is the single writer. Usually that is the
//! stage's own thread. A caller that finds the pipeline idle takes the locks itself: then a lone action costs one sync and no
//! change of threads.

use super::Shared;
use super::keys::AGAIN_LEN;
use crate::commit::{CommitError, Committer, EncodeStage, Encoded, StoreStage};
use crate::idempotency::Known;
use crate::request::{Answer, Refusal, Request, Submission};
use crate::sequence::{Batch, Sequencer};
use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded, select_biased};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most bytes of bodies that one batch takes, so that a batch always fits its format.
const BATCH_BODY_BYTES_MAX: usize = 4 << 20;

/// How often the sequencer looks for more while the next stage is busy: a few times in one sync. Looking at every arrival
/// would cost a change of threads for each.
const LOOK_AGAIN: Duration = Duration::from_micros(150);

/// What waits to be decided, by [`Priority`](crate::request::Priority).
pub(super) struct Queues {
    pub(super) urgent: Receiver<Submission>,
    pub(super) own: Receiver<Submission>,
    pub(super) queued: Receiver<Submission>,
}

impl Queues {
    /// Waits for the next request; nothing once all have ended.
    fn next(&self) -> Option<Submission> {
        select_biased! {
            recv(self.urgent) -> first => first.ok().or_else(|| self.last()),
            recv(self.own) -> first => first.ok().or_else(|| self.last()),
            recv(self.queued) -> first => first.ok().or_else(|| self.last()),
        }
    }

    /// What is left when the gate ends. All other ends are dropped together, so nothing is waited for.
    fn last(&self) -> Option<Submission> {
        self.urgent.try_recv().or_else(|_| self.own.try_recv()).or_else(|_| self.queued.try_recv()).ok()
    }

    /// The next request that is not urgent, if one waits. To see that a queue is empty costs less than to take from it in vain.
    fn more(&self) -> Option<Submission> {
        let own = if self.own.is_empty() { None } else { self.own.try_recv().ok() };
        own.or_else(|| self.queued.try_recv().ok())
    }

    /// Whether nothing waits but what is urgent.
    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.queued.is_empty()
    }

    /// What was taken, and in front of each whatever is urgent by then: a halt does not even wait for the rest of its
    /// batch to be decided.
    fn urgent_first<'a>(
        &'a self,
        taken: impl Iterator<Item = Submission> + 'a,
    ) -> impl Iterator<Item = Submission> + 'a {
        taken.flat_map(|submission| {
            let urgent = if self.urgent.is_empty() { None } else { Some(self.urgent.try_iter()) };
            urgent.into_iter().flatten().chain(std::iter::once(submission))
        })
    }
}

/// Says that the gate has failed if the thread that holds it panics: nothing commits any more, and readiness must tell.
pub(super) struct Watched {
    pub(super) shared: Arc<Shared>,
    pub(super) name: &'static str,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let cause = format!("the thread `{}` panicked; see the log of the process", self.name);
            self.shared.failed.get_or_init(|| cause);
        }
    }
}

/// The three stages.
pub(super) struct Pipeline {
    shared: Arc<Shared>,
    sequencer: Mutex<Sequencer>,
    encode: Mutex<EncodeStage>,
    store: Mutex<Option<StoreStage>>,
    /// Memory of batches that are on disk.
    spare: Mutex<Vec<u8>>,
    /// Where actions go whose keys are to be looked up again.
    again: Sender<Submission>,
    /// Batches decided and handed over, not yet durable. Changed upwards only by whoever holds the sequencer.
    handed_over: AtomicU64,
}

impl Pipeline {
    pub(super) fn new(
        shared: Arc<Shared>,
        sequencer: Sequencer,
        committer: Committer,
        again: Sender<Submission>,
    ) -> Self {
        let Committer { encode, store } = committer;
        Self {
            shared,
            sequencer: Mutex::new(sequencer),
            encode: Mutex::new(encode),
            store: Mutex::new(Some(store)),
            spare: Mutex::default(),
            again,
            handed_over: AtomicU64::new(0),
        }
    }

    /// Starts the threads of the stages. They end when the queue's other end is dropped.
    pub(super) fn start(self: &Arc<Self>, queues: Queues) -> std::io::Result<Vec<JoinHandle<()>>> {
        // No room: a batch changes hands only when the next stage is ready for it.
        let (decided, to_encode) = bounded(0);
        let (encoded, to_store) = bounded(0);
        let spawn = |name: &'static str, work: Box<dyn FnOnce() + Send>| {
            let watched = Watched { shared: Arc::clone(&self.shared), name };
            let work = move || {
                let _watched = watched;
                work();
            };
            std::thread::Builder::new().name(name.into()).spawn(work)
        };
        let (sequencing, encoding, storing) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        Ok(vec![
            spawn("sequence", Box::new(move || sequencing.sequence_loop(&queues, &decided)))?,
            spawn("encode", Box::new(move || encoding.encode_loop(&to_encode, &encoded)))?,
            spawn("commit", Box::new(move || storing.store_loop(&to_store)))?,
        ])
    }

    /// Takes the pipeline for a caller's own thread, if it is idle.
    pub(super) fn take_idle(&self) -> Option<Idle<'_>> {
        let sequencer = self.sequencer.try_lock()?;
        // Nothing can be handed over while the sequencer is held: from here on, the stages behind it stay idle.
        (self.handed_over.load(Ordering::Acquire) == 0).then_some(Idle { pipeline: self, sequencer })
    }

    fn sequence_loop(&self, queues: &Queues, decided: &Sender<Batch>) {
        let mut taken = Vec::with_capacity(self.shared.options.batch_max);
        let mut was_alone = true;
        while let Some(first) = queues.next() {
            let mut sequencer = self.sequencer.lock();
            let mut batch = Batch::default();
            let mut bytes = 0;
            self.take(first, 0, &mut taken, &mut bytes, queues);
            if let Some(cause) = self.shared.failure() {
                for submission in taken.drain(..) {
                    (submission.reply)(Err(Refusal::Poisoned(cause.clone())));
                }
                continue;
            }
            let is_alone = taken.len() == 1;
            batch.entries.reserve(taken.len());
            sequencer.sequence(&mut batch, queues.urgent_first(taken.drain(..)), &*self.shared.clock);
            self.after_turn(&sequencer, &mut batch);
            // For a lone caller, handing over to another thread would only add to the wait. Under load it must be handed
            // over: the next batch is decided while this one is made durable.
            let before_too = std::mem::replace(&mut was_alone, is_alone);
            let lone = is_alone && before_too && queues.is_empty();
            if lone && self.handed_over.load(Ordering::Acquire) == 0 {
                self.commit_here(batch);
                continue;
            }
            self.handed_over.fetch_add(1, Ordering::AcqRel);
            // While the next stage is busy the batch stays open: what comes in the meantime shares its sync.
            while let Err(error) = decided.send_timeout(batch, LOOK_AGAIN) {
                let SendTimeoutError::Timeout(still_open) = error else { return };
                batch = still_open;
                // However full the batch is, a halt joins it.
                if !queues.urgent.is_empty() {
                    sequencer.sequence(&mut batch, queues.urgent.try_iter(), &*self.shared.clock);
                    self.after_turn(&sequencer, &mut batch);
                }
                let full = batch.len() >= self.shared.options.batch_max || bytes >= BATCH_BODY_BYTES_MAX;
                let Some(first) = (if full { None } else { queues.more() }) else { continue };
                self.take(first, batch.len(), &mut taken, &mut bytes, queues);
                sequencer.sequence(&mut batch, queues.urgent_first(taken.drain(..)), &*self.shared.clock);
                self.after_turn(&sequencer, &mut batch);
            }
        }
        self.sequencer.lock().abandon_waiting();
    }

    /// Takes what has queued, as far as it fits a batch of which some is there already.
    fn take(&self, first: Submission, there: usize, taken: &mut Vec<Submission>, bytes: &mut usize, queues: &Queues) {
        let mut next = Some(first);
        let mut places = there;
        while let Some(submission) = next {
            *bytes += body_len(&submission.request);
            let taken_up = submission.request.places();
            if taken_up > 1 {
                self.shared.more_places.fetch_sub(taken_up - 1, Ordering::AcqRel);
            }
            places += taken_up;
            taken.push(submission);
            let full = places >= self.shared.options.batch_max || *bytes >= BATCH_BODY_BYTES_MAX;
            next = if full { None } else { queues.more() };
        }
    }

    /// Lets the housekeeper know when a waiting action must be looked after, and hands on what is to be looked up again.
    fn after_turn(&self, sequencer: &Sequencer, batch: &mut Batch) {
        for submission in batch.again.drain(..) {
            if let Err(error) = self.again.try_send(submission) {
                let refusal = if error.is_full() { Refusal::Busy(AGAIN_LEN) } else { Refusal::Closed };
                (error.into_inner().reply)(Err(refusal));
            }
        }
        let wakes_at_ms = sequencer.wakes_at_ms().unwrap_or(u64::MAX);
        self.shared.wakes_at_ms.store(wakes_at_ms, Ordering::Release);
        self.shared.waiting.store(sequencer.waiting(), Ordering::Release);
    }

    fn encode_loop(&self, to_encode: &Receiver<Batch>, encoded: &Sender<Vec<Encoded>>) {
        while let Ok(batch) = to_encode.recv() {
            let pieces = self.encode(batch);
            if encoded.send(pieces).is_err() {
                break;
            }
        }
    }

    fn store_loop(&self, to_store: &Receiver<Vec<Encoded>>) {
        while let Ok(pieces) = to_store.recv() {
            self.store(pieces);
            self.handed_over.fetch_sub(1, Ordering::AcqRel);
        }
        // The stages before have ended: they held the other end.
        if let Some(Err(error)) = self.store.lock().take().map(StoreStage::close) {
            self.shared.closing.lock().get_or_insert(error.to_string());
        }
    }

    /// Both halves of a commit, on this thread: only while nothing is handed over.
    fn commit_here(&self, batch: Batch) {
        let pieces = self.encode(batch);
        self.store(pieces);
    }

    fn encode(&self, batch: Batch) -> Vec<Encoded> {
        self.shared.count(&batch);
        let mut stage = self.encode.lock();
        stage.reuse(std::mem::take(&mut *self.spare.lock()));
        stage.encode(batch).unwrap_or_else(|error| {
            self.failed(&error);
            Vec::new()
        })
    }

    fn store(&self, pieces: Vec<Encoded>) {
        let Some(stage) = &mut *self.store.lock() else { return };
        for piece in pieces {
            match stage.store(piece) {
                Ok(spare) => *self.spare.lock() = spare,
                Err(error) => self.failed(&error),
            }
        }
        self.shared.counters.log_bytes.store(stage.bytes(), Ordering::Relaxed);
    }

    fn failed(&self, error: &CommitError) {
        tracing::error!(%error, "the ledger cannot be written; the gate refuses everything until it is restarted");
        self.shared.failed.get_or_init(|| error.to_string());
    }
}

/// A pipeline with nothing in it, held by a caller.
pub(super) struct Idle<'a> {
    pipeline: &'a Pipeline,
    sequencer: MutexGuard<'a, Sequencer>,
}

impl Idle<'_> {
    /// Does a request on this thread, from its decision to its answer.
    pub(super) fn call(mut self, request: Request, known: Known) -> Result<Answer, Refusal> {
        let shared = &self.pipeline.shared;
        if let Some(cause) = shared.failure() {
            return Err(Refusal::Poisoned(cause));
        }
        // After a panic the state may be ahead of the log. This is dropped before the sequencer is free for anyone else.
        let watched = Watched { shared: Arc::clone(shared), name: "caller" };
        let (answer, answered) = bounded(1);
        // There is room for the one answer, and this thread takes it.
        let reply = Box::new(move |result| drop(answer.try_send(result)));
        let mut batch = Batch::default();
        self.sequencer.sequence(&mut batch, [Submission { known, ..Submission::new(request, reply) }], &*shared.clock);
        self.pipeline.after_turn(&self.sequencer, &mut batch);
        self.pipeline.commit_here(batch);
        drop(watched);
        // Usually the answer is there. If a fence is in the way, it comes when others have used the sequencer.
        drop(self.sequencer);
        answered.recv().unwrap_or_else(|_| Err(Refusal::unanswered()))
    }
}

fn body_len(request: &Request) -> usize {
    match request {
        Request::Act(action) => action.body.len(),
        Request::ActMany(many) => many.actions.iter().map(|action| action.body.len()).sum(),
        Request::Publish { pact, .. } => pact.source.len(),
        _ => 1024,
    }
}

impl Shared {
    fn count(&self, batch: &Batch) {
        let counters = &self.counters;
        for sequenced in &batch.entries {
            counters.count_event(&sequenced.entry.event);
        }
        for (_, answer) in &batch.answers {
            let counter = if answer.is_ok() { &counters.repeated } else { &counters.refused };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        counters.batches.fetch_add(1, Ordering::Relaxed);
    }
}
