//! The threads that look after idempotency keys: one moves them to files and keeps the files few, the other looks keys up again that were
//! looked up too long ago. Both wait for the disk, so neither is the housekeeper: the anchor must not be late.

use super::pipeline::Watched;
use super::{Gate, Shared};
use crate::request::{Refusal, Submission};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, never, select_biased};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// How many actions may wait to be looked up again: more than wait for a fence.
pub(super) const AGAIN_LEN: usize = 8192;
/// How often one action is looked up before it is refused: more than once takes a gate that enters a whole table meanwhile.
const TRIES_MAX: u8 = 16;
/// How often full tables are looked for: a table takes a second to fill at a hundred thousand actions a second.
const ROUND: Duration = Duration::from_millis(50);

/// The threads; dropping this stops them.
pub(super) struct KeyThreads {
    stop: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for KeyThreads {
    fn drop(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // If it panicked, the panic hook has said so, and the gate has failed.
            let _ = thread.join();
        }
    }
}

pub(super) fn start(
    shared: &Arc<Shared>,
    own: Sender<Submission>,
    again: Receiver<Submission>,
) -> std::io::Result<KeyThreads> {
    let (stop, stopped) = bounded::<()>(0);
    let spawn = |name: &'static str, work: Box<dyn FnOnce(Arc<Shared>) + Send>| {
        let shared = Arc::clone(shared);
        std::thread::Builder::new().name(name.into()).spawn(move || {
            let _watched = Watched { shared: Arc::clone(&shared), name };
            work(shared);
        })
    };
    let stopped_too = stopped.clone();
    let mut threads = KeyThreads { stop: Some(stop), threads: Vec::new() };
    threads.threads.push(spawn("keys", Box::new(move |shared| shared.tend_keys_until(&stopped)))?);
    threads
        .threads
        .push(spawn("keys-again", Box::new(move |shared| shared.look_up_until(&stopped_too, &own, &again)))?);
    Ok(threads)
}

impl Gate {
    /// From which entry on all idempotency keys are in memory.
    pub fn keys_since(&self) -> u64 {
        self.shared.keys.window().start()
    }
}

impl Shared {
    fn tend_keys_until(&self, stopped: &Receiver<()>) {
        let mut is_failing = false;
        while stopped.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
            if self.failed.get().is_some() {
                continue;
            }
            match self.keys.tend(&*self.log, &self.view) {
                Ok(()) => is_failing = false,
                Err(error) if !std::mem::replace(&mut is_failing, true) => {
                    tracing::warn!(%error, "idempotency keys cannot be moved to files; it is tried again");
                }
                Err(_) => {}
            }
        }
    }

    fn look_up_until(&self, stopped: &Receiver<()>, own: &Sender<Submission>, again: &Receiver<Submission>) {
        let mut submissions = again.clone();
        loop {
            select_biased! {
                recv(stopped) -> _ => break,
                recv(submissions) -> submission => match submission {
                    Ok(submission) => self.send_again(submission, own),
                    // No more will come; the gate is about to end.
                    Err(_) => submissions = never(),
                },
            }
        }
        for submission in again.try_iter() {
            (submission.reply)(Err(Refusal::Closed));
        }
    }

    fn send_again(&self, submission: Submission, own: &Sender<Submission>) {
        let Some(submission) = self.look_up(submission) else { return };
        // It takes its places in the queue again.
        self.more_places.fetch_add(submission.request.places() - 1, Ordering::AcqRel);
        if let Err(closed) = own.send(submission) {
            (closed.into_inner().reply)(Err(Refusal::Closed));
        }
    }

    /// Looks the keys of a request up. One that cannot be, or was too often, is answered and gone: nothing was decided.
    pub(super) fn look_up(&self, submission: Submission) -> Option<Submission> {
        let Submission { request, reply, since_ms, tries, .. } = submission;
        let known = if tries < TRIES_MAX { self.keys.look_up(&request) } else { Err(Refusal::Busy(AGAIN_LEN)) };
        match known {
            Ok(known) => Some(Submission { request, reply, known, since_ms, tries: tries + 1 }),
            Err(refusal) => {
                reply(Err(refusal));
                None
            }
        }
    }
}
