//! Ctrl-C while an action waits for its answer: the gate may carry it out anyway, so the command must not end without saying how
//! to find out.

use crate::cli::fail;
use crate::commands::Exit;
use crate::commands::serve::is_ignored;
use anyhow::{Context as _, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// What a shell expects of a command that Ctrl-C ended.
const BY_SIGINT: i32 = 130;

/// Watches for Ctrl-C; until it is dropped, the answer is not known.
pub struct Interrupt {
    is_answered: Arc<AtomicBool>,
}

impl Interrupt {
    /// From here on Ctrl-C ends the process with this error.
    pub fn watch(error: anyhow::Error, json: bool) -> Result<Self> {
        let is_answered = Arc::new(AtomicBool::new(false));
        if is_ignored(SignalKind::interrupt()) {
            return Ok(Self { is_answered });
        }
        let watched = Arc::clone(&is_answered);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("the system gives no runtime")?;
        let mut interrupted = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?
        };
        std::thread::spawn(move || {
            runtime.block_on(interrupted.recv());
            if watched.load(Ordering::SeqCst) {
                std::process::exit(BY_SIGINT);
            }
            fail(&error, Exit::Unknown, json);
            std::process::exit(Exit::Unknown as i32);
        });
        Ok(Self { is_answered })
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.is_answered.store(true, Ordering::SeqCst);
    }
}
