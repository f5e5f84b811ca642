//! Deciding and making durable, as a pipeline of two stages: while one batch is synced, the next is decided.
//!
//! Each stage is behind a lock, and there is one of each, so whoever holds the lock is the single writer. Usually that is the
//! stage's own thread. A caller that finds the pipeline idle takes the locks itself: then a lone action costs one sync and no
//! change of threads.

use super::Shared;
use crate::commit::Committer;
use crate::request::{Answer, Refusal, Request, Submission};
use crate::sequence::{Batch, Sequencer};
use countersign_core::record::Event;
use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most bytes of bodies that one batch takes, so that a batch always fits its format.
const BATCH_BODY_BYTES_MAX: usize = 4 << 20;

/// How often the sequencer looks for more while the commit stage is busy: a few times in one sync. Looking at every arrival
/// would cost a change of threads for each.
const LOOK_AGAIN: Duration = Duration::from_micros(150);

/// The two stages.
pub(super) struct Pipeline {
    shared: Arc<Shared>,
    sequencer: Mutex<Sequencer>,
    committer: Mutex<Option<Committer>>,
    /// Batches decided and handed over, not yet durable. Changed upwards only by whoever holds the sequencer.
    handed_over: AtomicU64,
}

impl Pipeline {
    pub(super) fn new(shared: Arc<Shared>, sequencer: Sequencer, committer: Committer) -> Self {
        let (sequencer, committer) = (Mutex::new(sequencer), Mutex::new(Some(committer)));
        Self { shared, sequencer, committer, handed_over: AtomicU64::new(0) }
    }

    /// Starts the threads of both stages. They end when the queue's other end is dropped.
    pub(super) fn start(self: &Arc<Self>, queued: Receiver<Submission>) -> std::io::Result<Vec<JoinHandle<()>>> {
        // No room: a batch changes hands only when the commit stage is ready for it.
        let (decided, to_commit) = bounded(0);
        let spawn =
            |name: &str, work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name(name.into()).spawn(work);
        let (sequencing, committing) = (Arc::clone(self), Arc::clone(self));
        Ok(vec![
            spawn("sequence", Box::new(move || sequencing.sequence_loop(&queued, &decided)))?,
            spawn("commit", Box::new(move || committing.commit_loop(&to_commit)))?,
        ])
    }

    /// Does a request on the caller's own thread if the pipeline is idle; gives the request back if it is not.
    pub(super) fn call_here(&self, request: Request) -> Result<Result<Answer, Refusal>, Request> {
        let Some(mut sequencer) = self.sequencer.try_lock() else { return Err(request) };
        // Nothing can be handed over while the sequencer is held: from here on, the commit stage stays idle.
        if self.handed_over.load(Ordering::Acquire) > 0 {
            return Err(request);
        }
        let Some(mut committer) = self.committer.try_lock() else { return Err(request) };
        let Some(committer) = &mut *committer else { return Ok(Err(Refusal::Closed)) };
        if let Some(cause) = self.shared.failed.lock().clone() {
            return Ok(Err(Refusal::Poisoned(cause)));
        }
        let (answer, answered) = bounded(1);
        // There is room for the one answer, and this thread takes it.
        let reply = Box::new(move |result| drop(answer.try_send(result)));
        let mut batch = Batch::default();
        sequencer.sequence(&mut batch, [Submission { request, reply }], &*self.shared.clock);
        self.commit(committer, batch);
        Ok(answered.try_recv().unwrap_or(Err(Refusal::Closed)))
    }

    fn sequence_loop(&self, queued: &Receiver<Submission>, decided: &Sender<Batch>) {
        let mut taken = Vec::with_capacity(self.shared.options.batch_max);
        let mut was_alone = true;
        while let Ok(first) = queued.recv() {
            let mut sequencer = self.sequencer.lock();
            let mut batch = Batch::default();
            let mut bytes = 0;
            self.take(first, 0, &mut taken, &mut bytes, queued);
            if let Some(cause) = self.shared.failed.lock().clone() {
                for submission in taken.drain(..) {
                    (submission.reply)(Err(Refusal::Poisoned(cause.clone())));
                }
                continue;
            }
            let is_alone = taken.len() == 1;
            sequencer.sequence(&mut batch, taken.drain(..), &*self.shared.clock);
            // For a lone caller, handing over to another thread would only add to the wait. Under load it must be handed
            // over: the next batch is decided while this one is made durable.
            let before_too = std::mem::replace(&mut was_alone, is_alone);
            let lone = is_alone && before_too && queued.is_empty();
            if lone && self.handed_over.load(Ordering::Acquire) == 0 {
                if let Some(committer) = &mut *self.committer.lock() {
                    self.commit(committer, batch);
                }
                continue;
            }
            self.handed_over.fetch_add(1, Ordering::AcqRel);
            // While the commit stage is busy the batch stays open: what comes in the meantime shares its sync.
            while let Err(error) = decided.send_timeout(batch, LOOK_AGAIN) {
                let SendTimeoutError::Timeout(still_open) = error else { return };
                batch = still_open;
                let full = batch.len() >= self.shared.options.batch_max || bytes >= BATCH_BODY_BYTES_MAX;
                let Some(first) = (if full { None } else { queued.try_recv().ok() }) else { continue };
                self.take(first, batch.len(), &mut taken, &mut bytes, queued);
                sequencer.sequence(&mut batch, taken.drain(..), &*self.shared.clock);
            }
        }
    }

    /// Takes what has queued, as far as it fits a batch of which some is there already.
    fn take(
        &self,
        first: Submission,
        there: usize,
        taken: &mut Vec<Submission>,
        bytes: &mut usize,
        queued: &Receiver<Submission>,
    ) {
        let mut next = Some(first);
        while let Some(submission) = next {
            *bytes += body_len(&submission.request);
            taken.push(submission);
            let full = there + taken.len() >= self.shared.options.batch_max || *bytes >= BATCH_BODY_BYTES_MAX;
            next = if full { None } else { queued.try_recv().ok() };
        }
    }

    fn commit_loop(&self, to_commit: &Receiver<Batch>) {
        while let Ok(batch) = to_commit.recv() {
            if let Some(committer) = &mut *self.committer.lock() {
                self.commit(committer, batch);
            }
            self.handed_over.fetch_sub(1, Ordering::AcqRel);
        }
        // The sequencer has ended: it held the other end.
        if let Some(Err(error)) = self.committer.lock().take().map(Committer::close) {
            self.shared.closing.lock().get_or_insert(error.to_string());
        }
    }

    fn commit(&self, committer: &mut Committer, batch: Batch) {
        let shared = &self.shared;
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
}

fn body_len(request: &Request) -> usize {
    match request {
        Request::Act(action) => action.body.len(),
        Request::Publish { pact, .. } => pact.source.len(),
        _ => 1024,
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
