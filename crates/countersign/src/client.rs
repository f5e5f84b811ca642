//! One way for commands to talk to a gate: over HTTP to one that runs, or to one opened here on its data folder.
//!
//! Both speak the same HTTP v1: the embedded gate is called through the very router that `serve` listens with, without a
//! socket, so that a command cannot mean one thing here and another there.

mod embedded;
mod remote;
mod signer;

use crate::commands::Failure;
use crate::config::Config;
use anyhow::Result;
use countersign_api::{AGENT_HEADER, ErrorBody, ErrorCode, ErrorDetail};
use ed25519_dalek::SigningKey;
use serde::Serialize;
use serde::de::DeserializeOwned;
use signer::Signer;
use std::path::Path;
use std::time::Duration;

/// The largest answer that is read; a page of entries stays far below it.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// How long to wait before signing again, when a gate that was just started refuses what was signed before it: `created` has
/// whole seconds, so the next one is soon enough.
const SIGN_AGAIN_AFTER: Duration = Duration::from_millis(1100);

/// A gate to talk to, and the key to sign with, if there is one.
pub struct Client {
    way: Way,
    signer: Option<Signer>,
}

enum Way {
    /// One that runs.
    Remote(remote::Remote),
    /// One opened here.
    Embedded(embedded::Embedded),
}

/// A request, before it is sent.
#[derive(Debug, Clone)]
pub struct Call {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
}

/// An answer, before it is understood.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Call {
    /// Asks for something.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), headers: Vec::new(), body: None }
    }

    /// Sends something.
    pub fn post(path: impl Into<String>) -> Self {
        Self { method: "POST", ..Self::get(path) }
    }

    /// Writes something.
    pub fn put(path: impl Into<String>) -> Self {
        Self { method: "PUT", ..Self::get(path) }
    }

    /// Deletes something.
    pub fn delete(path: impl Into<String>) -> Self {
        Self { method: "DELETE", ..Self::get(path) }
    }

    /// Names the agent or operator.
    pub fn agent(self, agent: &str) -> Self {
        self.header(AGENT_HEADER, agent)
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a JSON body.
    pub fn json(self, body: &impl Serialize) -> Result<Self> {
        Ok(self.body("application/json", serde_json::to_vec(body)?))
    }

    /// Adds a body.
    pub fn body(mut self, content_type: &'static str, body: Vec<u8>) -> Self {
        self.body = Some(body);
        self.header("content-type", content_type)
    }
}

impl Client {
    /// A gate that runs at this address.
    pub fn remote(server: &str) -> Result<Self> {
        Ok(Self { way: Way::Remote(remote::Remote::new(server)?), signer: None })
    }

    /// A gate opened here on its data folder, which no other process may hold, with the settings that `serve` would have.
    pub fn embedded(data: &Path, config: &Config) -> Result<Self> {
        Ok(Self { way: Way::Embedded(embedded::Embedded::open(data, config)?), signer: None })
    }

    /// The same for a process that stays: it also carries calls out, as `serve` does.
    pub fn embedded_whole(data: &Path, config: &Config) -> Result<Self> {
        Ok(Self { way: Way::Embedded(embedded::Embedded::open_whole(data, config)?), signer: None })
    }

    /// Signs with a key from now on. Without an origin the gate is asked for its own; whoever names it does not have to
    /// believe the answer.
    pub fn signing(mut self, key: SigningKey, origin: Option<&str>) -> Result<Self> {
        let origin = match origin {
            Some(origin) => origin.to_owned(),
            None => self.origin()?,
        };
        self.signer = Some(Signer::new(key, origin));
        Ok(self)
    }

    /// The name of the gate's log: the first line of its checkpoint.
    fn origin(&self) -> Result<String> {
        let path = "/log/checkpoint";
        let answer = self.send(Call::get(path))?;
        if answer.status != 200 {
            return Err(refused(path, &answer));
        }
        let text = String::from_utf8_lossy(&answer.body);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    fn send(&self, mut call: Call) -> Result<Answer> {
        if let Some(signer) = &self.signer {
            // Who signs is who calls; a name beside it would only mislead whoever reads along.
            call.headers.retain(|(name, _)| *name != AGENT_HEADER);
            match &self.way {
                Way::Remote(remote) => signer.sign(&mut call, remote.host(), remote.prefix())?,
                Way::Embedded(_) => signer.sign(&mut call, embedded::HOST, "")?,
            }
        }
        match &self.way {
            Way::Remote(remote) => remote.send(call),
            Way::Embedded(embedded) => embedded.send(call),
        }
    }

    /// Sends a request; anything but an answer of 2xx is an error that says what the gate said.
    pub fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let path = call.path.clone();
        let mut answer = self.send(call.clone())?;
        if answer.status == 401 && self.signer.is_some() && code(&answer) == ErrorCode::SignatureExpired.as_str() {
            // A gate that did not end cleanly refuses whatever was signed before it was started, this very second included.
            std::thread::sleep(SIGN_AGAIN_AFTER);
            answer = self.send(call)?;
        }
        if (200..300).contains(&answer.status) {
            return serde_json::from_slice(&answer.body).map_err(|error| {
                Failure::cannot(format!("the answer to {path} is not one of this version: {error}"))
                    .hint("use the same version of countersign here as on the server")
                    .into()
            });
        }
        Err(refused(&path, &answer))
    }

    /// Closes an embedded gate cleanly, so that it opens at once the next time.
    pub fn close(self) -> Result<()> {
        match self.way {
            Way::Remote(_) => Ok(()),
            Way::Embedded(embedded) => embedded.close(),
        }
    }
}

/// The code of a refusal.
fn code(answer: &Answer) -> String {
    serde_json::from_slice::<ErrorBody>(&answer.body).map(|body| body.error.code).unwrap_or_default()
}

/// What a gate refused, as an error: what it did not understand exits with 2, what it
/// answered with no with 1, and what it could not do with 3.
fn refused(path: &str, answer: &Answer) -> anyhow::Error {
    let Ok(ErrorBody { error }) = serde_json::from_slice::<ErrorBody>(&answer.body) else {
        return Failure::cannot(format!("{path} answered {} without saying why", answer.status))
            .hint("is this the address of a countersign gate? name another with --server")
            .into();
    };
    let ErrorDetail { code, message, hint, request_id, problems } = error;
    let text = format!("{message} ({code})");
    let mut failure = match answer.status {
        500.. => Failure::cannot(text).hint(format!("{hint}; the gate's log has it as request {request_id}")),
        // A token that was refused is an answer about the token, not a mistake in the command.
        401 if code == ErrorCode::SignatureMissing.as_str() => Failure::usage(text)
            .hint("this gate knows who calls by signature: name your key file with --key, COUNTERSIGN_KEY or `key` in countersign.toml")
            .hint("the admin's key file was made by `countersign init`; an admin makes others with `countersign agent new` and \
                   `countersign operator new`"),
        400 if !is_about_a_token(&code) => Failure::usage(text).hint(hint),
        _ => Failure::no(text).hint(hint),
    };
    for problem in problems {
        failure = failure.hint(format!("line {}, column {}: {}", problem.line, problem.column, problem.message));
    }
    failure.coded(code).into()
}

fn is_about_a_token(code: &str) -> bool {
    [ErrorCode::ObservationRefused, ErrorCode::DelegationRefused].iter().any(|known| known.as_str() == code)
}

/// Escapes one part of a path, so that an id with a slash stays one part.
pub fn escape(part: &str) -> String {
    countersign_core::decide::percent_encoded(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_one_part_of_a_path() {
        assert_eq!(escape("a/b c?é%"), "a%2Fb%20c%3F%C3%A9%25");
        assert_eq!(escape("acct_1-2.3~"), "acct_1-2.3~");
    }
}
