//! Says why a command waits when the gate is slow to answer, so that the person who started it need not guess.

use super::Call;
use super::remote::Remote;
use crate::terminal::note;
use crate::tls::Files;
use countersign_api::ErrorBody;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer may take before something is said.
const PATIENCE: Duration = Duration::from_secs(3);

/// The gate that was asked and has not answered, whom it is trusted by, and since when.
type Asked = (String, Files, Instant);

static WAITING: Mutex<Option<Asked>> = Mutex::new(None);

fn waiting() -> MutexGuard<'static, Option<Asked>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that is on its way.
pub(super) struct Waiting;

impl Waiting {
    /// For the gate of this address.
    pub(super) fn on(server: &str, trust: &Files) -> Self {
        *waiting() = Some((server.to_owned(), trust.clone(), Instant::now()));
        Self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *waiting() = None;
    }
}

/// Watches the calls of a command from now on. Only for commands that people wait for: one call at a time.
pub fn watch() {
    let watching = || {
        loop {
            std::thread::sleep(PATIENCE / 6);
            let late = waiting().clone().filter(|(_, _, since)| since.elapsed() > PATIENCE);
            let Some((server, trust, _)) = late else { continue };
            note(format_args!("Still waiting for {server}. {}", state(&server, &trust)));
            return;
        }
    };
    // Where there is no thread to be had, nothing is said, and nothing else is lost.
    drop(std::thread::Builder::new().name("patience".to_owned()).spawn(watching));
}

/// What the gate says of itself.
fn state(server: &str, trust: &Files) -> String {
    let answer = Remote::new(server, trust).ok().and_then(|gate| gate.send(Call::get("/readyz")).ok());
    match answer {
        Some(answer) if answer.status == 200 => "It says that it is ready.".to_owned(),
        Some(answer) => match serde_json::from_slice::<ErrorBody>(&answer.body) {
            Ok(said) => format!("It is not ready: {} (hint: {})", said.error.message, said.error.hint),
            Err(_) => format!("It is not ready: HTTP {}.", answer.status),
        },
        None => "It does not say whether it is ready either.".to_owned(),
    }
}
