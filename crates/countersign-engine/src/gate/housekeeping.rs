//! What must happen now and then beside the commit loop: what the log wants done, files of the gate's own, snapshots.

use super::pipeline::Watched;
use super::{Gate, Shared};
use crate::request::{Request, Submission};
use crate::snapshot;
use crate::storage::StorageError;
use crate::storage::snapshot::remove_older_than;
use crossbeam_channel::{RecvTimeoutError, Sender, TrySendError, bounded};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the housekeeper looks round: well within the second that the anchor may be late.
const ROUND: Duration = Duration::from_millis(50);

/// The housekeeping thread; dropping it stops it.
pub(super) struct Housekeeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub(super) fn start(
    shared: Arc<Shared>,
    own: Sender<Submission>,
    mut snapshot_at: u64,
) -> std::io::Result<Housekeeper> {
    let (stop, stopped) = bounded::<()>(0);
    let watched = Watched { shared: Arc::clone(&shared), name: "housekeeping" };
    let work = move || {
        let _watched = watched;
        let mut is_failing = false;
        while stopped.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
            shared.keep_house(&mut snapshot_at, &mut is_failing);
            shared.wake_waiting(&own);
            shared.write_denials(&own);
        }
    };
    let thread = std::thread::Builder::new().name("housekeeping".into()).spawn(work)?;
    Ok(Housekeeper { stop: Some(stop), thread: Some(thread) })
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, the panic hook has said so, and the gate has failed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn keep_house(&self, snapshot_at: &mut u64, is_failing: &mut bool) {
        if self.failed.get().is_some() {
            return;
        }
        let done = self.log.tend(self.clock.monotonic_ms()).and_then(|()| {
            let kept = self.kept_file.write(&self.replays, self.disk.as_ref());
            kept.map_err(|source| StorageError::Io { action: "write", name: "operators-seen".to_owned(), source })
        });
        match done {
            Ok(()) => *is_failing = false,
            // The commit loop meets the same disk; it decides when to stop. Twenty lines a second would not say more.
            Err(error) if !std::mem::replace(is_failing, true) => {
                tracing::warn!(%error, "housekeeping failed and is tried again");
            }
            Err(_) => {}
        }
        let position = self.view.read().position;
        let every = self.options.snapshot_every;
        if every > 0 && position.saturating_sub(*snapshot_at) >= every {
            match self.take_snapshot() {
                Ok(taken) => *snapshot_at = taken,
                Err(error) => {
                    tracing::warn!(%error, "no snapshot could be taken; reopening will replay more");
                    *snapshot_at = position;
                }
            }
        }
    }

    /// Has those looked after that wait for a fence, when the time of one has come.
    fn wake_waiting(&self, own: &Sender<Submission>) {
        let wakes_at_ms = self.wakes_at_ms.load(Ordering::Acquire);
        if wakes_at_ms <= self.ledger_clock.lock().read(&*self.clock) {
            // If its queue is full, the sequencer is about to look anyway.
            drop(own.try_send(Submission::new(Request::Wake, Box::new(|_| {}))));
        }
    }

    /// Has what was refused at the door written down, once a second.
    fn write_denials(&self, own: &Sender<Submission>) {
        let now_ms = self.ledger_clock.lock().read(&*self.clock);
        let Some(denied) = self.denials.due(now_ms) else { return };
        let sent = own.try_send(Submission::new(Request::Denials(denied), Box::new(|_| {})));
        // If their queue is full, it is counted on and written later.
        if let Err(TrySendError::Full(Submission { request: Request::Denials(denied), .. })) = sent {
            self.denials.put_back(denied);
        }
    }

    /// Takes a snapshot of what is durable. Gives its position.
    pub(crate) fn take_snapshot(&self) -> Result<u64, StorageError> {
        self.take_snapshot_between(&mut || ())
    }

    /// The same, with something else done between its pieces.
    pub(crate) fn take_snapshot_between(&self, between: &mut dyn FnMut()) -> Result<u64, StorageError> {
        // One at a time: an erasure must know that no older snapshot is still on its way to disk.
        let _one = self.snapshotting.lock();
        let from = snapshot::Source {
            log: &*self.log,
            origin: &self.options.origin,
            log_keys: &self.log_keys,
            view: &|| self.view(),
            pinned: &self.pinned,
            keys: &self.keys,
        };
        snapshot::take(&from, between)
    }
}

impl Shared {
    /// Takes a snapshot, and removes those from before an erasure: they may hold what was current then. They go even if none
    /// can be taken in their place, since the log alone gives the same state.
    pub(crate) fn replace_snapshots(&self, erasure: u64) -> Result<(), StorageError> {
        if let Err(error) = self.take_snapshot() {
            tracing::warn!(%error, "no snapshot could be taken after an erasure; reopening will replay more");
        }
        let _one = self.snapshotting.lock();
        remove_older_than(self.log.snapshots().as_ref(), erasure.saturating_add(1))?;
        Ok(())
    }
}

impl Gate {
    /// Takes a snapshot now. Gives its position.
    pub fn snapshot(&self) -> Result<u64, StorageError> {
        self.shared.take_snapshot()
    }
}
