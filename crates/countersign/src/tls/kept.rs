//! What is made of files, kept, and made again when they change: no restart, and no connection is dropped for it.
//!
//! Compared is what the files hold, not when they were written: a link that is turned to another folder counts, and a file that
//! is written again as it was does not. Content that nothing can be made of is said once, and what there was before stays.

use super::files::{Contents, Files, Material};
use crate::terminal::Report;
use anyhow::Result;
use countersign_core::ids::Digest;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Make<T> = Box<dyn Fn(Material) -> Result<T> + Send + Sync>;

/// Something made of files.
pub struct Kept<T> {
    files: Files,
    make: Make<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    made: Arc<T>,
    of: Digest,
    /// What nothing could be made of, the last time.
    refused: Option<Digest>,
}

impl<T> Kept<T> {
    /// Makes it for the first time, when an error is still the caller's to tell.
    pub fn new(files: Files, make: impl Fn(Material) -> Result<T> + Send + Sync + 'static) -> Result<Self> {
        let contents = files.read()?;
        let made = Arc::new(make(contents.material()?)?);
        let state = State { made, of: contents.digest(), refused: None };
        Ok(Self { files, make: Box::new(make), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it is now.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.state().made)
    }

    /// Looks at the files, and makes it again where they have changed. Says whether it did.
    pub fn refresh(&self) -> bool {
        let read = self.files.read();
        let of = match &read {
            Ok(contents) => contents.digest(),
            Err(error) => Digest::of(format!("{error:#}").as_bytes()),
        };
        {
            let mut state = self.state();
            if state.of == of {
                state.refused = None;
                return false;
            }
            if state.refused == Some(of) {
                return false;
            }
        }
        match read.and_then(|contents: Contents| (self.make)(contents.material()?)) {
            Ok(made) => {
                *self.state() = State { made: Arc::new(made), of, refused: None };
                true
            }
            Err(error) => {
                self.state().refused = Some(of);
                let Report { message, hints, .. } = Report::of_error(&error);
                let hint = hints.join("; ");
                tracing::error!(
                    cause = message,
                    hint,
                    "changed TLS files cannot be used: those from before stay in use"
                );
                false
            }
        }
    }
}
