//! Ctrl-C while an action waits for its answer: the gate may carry it out anyway, so the command must not end without saying how
//! to find out.

use crate::cli::fail;
use crate::commands::Exit;
use crate::commands::serve::is_ignored;
use anyhow::{Context as _, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::signal::unix::{SignalKind, signal};

/// What a shell expects of a command that Ctrl-C ended.
const BY_SIGINT: i32 = 130;

/// Watches for Ctrl-C. One is enough for a command, whatever it sends: what it would say changes as answers come.
pub struct Interrupt {
    /// What is not known now, and what to do about it; nothing where every answer is in.
    unknown: Arc<Mutex<Option<anyhow::Error>>>,
}

impl Interrupt {
    /// From here on Ctrl-C ends the process with this error.
    pub fn watch(error: anyhow::Error, json: bool) -> Result<Self> {
        let unknown = Arc::new(Mutex::new(Some(error)));
        if is_ignored(SignalKind::interrupt()) {
            return Ok(Self { unknown });
        }
        let watched = Arc::clone(&unknown);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the signal handler")?;
        let mut interrupted = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?
        };
        std::thread::spawn(move || {
            runtime.block_on(interrupted.recv());
            // Held until the process ends: no answer takes it back any more.
            let unknown = held(&watched);
            let Some(error) = &*unknown else { std::process::exit(BY_SIGINT) };
            fail(error, Exit::Unknown, json);
            std::process::exit(Exit::Unknown as i32);
        });
        Ok(Self { unknown })
    }

    /// From here on it ends with another error.
    pub fn now(&self, error: anyhow::Error) {
        *held(&self.unknown) = Some(error);
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        *held(&self.unknown) = None;
    }
}

fn held(unknown: &Mutex<Option<anyhow::Error>>) -> MutexGuard<'_, Option<anyhow::Error>> {
    unknown.lock().unwrap_or_else(PoisonError::into_inner)
}
