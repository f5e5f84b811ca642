//! What goes wrong between a leader and its table.

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use std::sync::Arc;

/// When the connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Before the batch was entered.
    Before,
    /// After it was entered, and before the leader heard of it.
    After,
}

/// The faults of a table. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Faults {
    next: Arc<Mutex<Option<Fault>>>,
    pause: Arc<Mutex<Option<Pause>>>,
}

/// The leader's side of a pause: it says that it has come there, and waits to be woken.
struct Pause {
    reached: Sender<()>,
    is_resumed: Receiver<()>,
}

impl Faults {
    pub(super) fn set(&self, fault: Fault) {
        *self.next.lock() = Some(fault);
    }

    pub(super) fn take(&self) -> Option<Fault> {
        self.next.lock().take()
    }

    pub(super) fn pause(&self) -> Paused {
        let ((reached, is_reached), (resume, is_resumed)) = (bounded(1), bounded(1));
        *self.pause.lock() = Some(Pause { reached, is_resumed });
        Paused { is_reached, resume }
    }

    /// Waits, if this append is the one that is paused.
    pub(super) fn wait(&self) {
        let pause = self.pause.lock().take();
        if let Some(Pause { reached, is_resumed }) = pause {
            // If the test has ended, no one waits for either.
            let _ = reached.send(());
            let _ = is_resumed.recv();
        }
    }
}

/// A leader that is paused in front of its next commit. Dropping this wakes it.
pub struct Paused {
    is_reached: Receiver<()>,
    resume: Sender<()>,
}

impl Paused {
    /// Waits until the leader has come to the pause.
    ///
    /// # Errors
    /// If it never comes.
    pub fn until_reached(&self) -> Result<(), String> {
        self.is_reached.recv_timeout(std::time::Duration::from_secs(20)).map_err(|error| error.to_string())
    }

    /// Wakes it.
    pub fn resume(self) {
        let _ = self.resume.send(());
    }
}
