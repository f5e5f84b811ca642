//! One way for commands to talk to a gate: over HTTP to one that runs, or to one opened here on its data folder.
//!
//! Both speak the same HTTP v1: the embedded gate is called through the very router that `serve` listens with, without a
//! socket, so that a command cannot mean one thing here and another there. What fails is sent again where that is sound, and no
//! error says of a call that may have been carried out that it was not (`attempts`).

mod attempts;
mod embedded;
mod nearby;
mod patience;
mod remote;
mod signer;

use crate::commands::Failure;
use crate::config::Config;
use crate::mcp::shell::word;
use crate::tls::Files;
use anyhow::Result;
use attempts::{Attempts, Lost, Next};
use countersign_api::{AGENT_HEADER, ErrorBody, ErrorCode, ErrorDetail};
use countersign_core::ids::ActionId;
use ed25519_dalek::SigningKey;
pub use patience::watch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use signer::Signer;
use std::path::Path;
use std::time::{Duration, Instant};

/// The largest answer that is read; a page of entries stays far below it.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// After how long someone who waits is told for what.
const QUIET_FOR: Duration = Duration::from_secs(1);

/// A gate to talk to, and the key to sign with, if there is one.
pub struct Client {
    way: Way,
    /// Where the gate's socket would be, if it did not answer when the client was made.
    socket: Option<nearby::Awaited>,
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
    /// Of a batch, the ids of its actions: its signature lists them.
    actions: Option<Vec<ActionId>>,
    repeat: Repeat,
    /// For how long the gate may take its time, beyond what any answer takes.
    wait: Duration,
}

/// What sending a request twice does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Repeat {
    /// Nothing: it only reads.
    Reads,
    /// What it does, twice.
    Writes,
    /// What it does, once: the gate knows it again by this idempotency key.
    Keyed(String),
}

/// An answer, before it is understood.
#[derive(Debug)]
struct Answer {
    status: u16,
    retry_after_s: Option<u64>,
    body: Vec<u8>,
}

impl Call {
    /// Asks for something.
    pub fn get(path: impl Into<String>) -> Self {
        let (headers, body, wait) = (Vec::new(), None, Duration::ZERO);
        Self { method: "GET", path: path.into(), headers, body, actions: None, repeat: Repeat::Reads, wait }
    }

    /// Sends something.
    pub fn post(path: impl Into<String>) -> Self {
        Self { method: "POST", repeat: Repeat::Writes, ..Self::get(path) }
    }

    /// Writes something.
    pub fn put(path: impl Into<String>) -> Self {
        Self { method: "PUT", repeat: Repeat::Writes, ..Self::get(path) }
    }

    /// Deletes something.
    pub fn delete(path: impl Into<String>) -> Self {
        Self { method: "DELETE", repeat: Repeat::Writes, ..Self::get(path) }
    }

    /// Says that it changes nothing, whatever its method.
    pub fn reading(self) -> Self {
        Self { repeat: Repeat::Reads, ..self }
    }

    /// Says that its body has this idempotency key.
    pub fn keyed(self, key: impl Into<String>) -> Self {
        Self { repeat: Repeat::Keyed(key.into()), ..self }
    }

    /// Lets the gate wait for so long for something to happen.
    pub fn waiting_ms(mut self, wait_ms: u64) -> Self {
        if wait_ms > 0 {
            let joint = if self.path.contains('?') { '&' } else { '?' };
            self.path = format!("{}{joint}wait_ms={wait_ms}", self.path);
            self.wait = Duration::from_millis(wait_ms);
        }
        self
    }

    /// Says that its body is a batch of these actions.
    pub fn listing(self, actions: Vec<ActionId>) -> Self {
        Self { actions: Some(actions), ..self }
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
    /// A gate that runs at this address; over TLS, with a certificate from a public authority.
    pub fn remote(server: &str) -> Result<Self> {
        Self::trusting(server, &Files::default())
    }

    /// The same, with whom to trust over TLS and what to show.
    pub fn trusting(server: &str, trust: &Files) -> Result<Self> {
        Ok(Self { way: Way::Remote(remote::Remote::new(server, trust)?), socket: None, signer: None })
    }

    /// The gate that runs on this data folder, if its socket for operators answers.
    pub fn nearby(data: &Path, config: &Config) -> Result<Option<Self>> {
        let path = nearby::socket(data, config).filter(|path| nearby::answers(path));
        path.map(|path| Self::remote(&nearby::server(&path))).transpose()
    }

    /// The gate of this data folder, which may be about to start: by its socket, or where the settings have it listen. The socket is
    /// looked for again as long as nothing answers.
    pub fn of_folder(data: &Path, config: &Config, trust: &Files) -> Result<Self> {
        if let Some(client) = Self::nearby(data, config)? {
            return Ok(client);
        }
        let socket = nearby::socket(data, config).map(nearby::Awaited::new);
        Ok(Self { socket, ..Self::trusting(&config.usual_server(), trust)? })
    }

    /// The option by which other commands reach the gate of a folder that this process has open, wherever they are run: its socket, or the
    /// folder itself where there is none.
    pub fn option_for(data: &Path, config: &Config) -> String {
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        match nearby::socket(data, config).filter(|path| nearby::answers(path)) {
            Some(path) => format!("--server {}", word(&nearby::server(&whole(&path)))),
            None => format!("--data {}", word(&whole(data).display().to_string())),
        }
    }

    /// A gate opened here on its data folder, which no other process may hold, with the settings that `serve` would have.
    pub fn embedded(data: &Path, config: &Config) -> Result<Self> {
        Ok(Self { way: Way::Embedded(embedded::Embedded::open(data, config)?), socket: None, signer: None })
    }

    /// The same for a process that stays: it also carries calls out, as `serve` does, and has a socket, by which others on this machine
    /// ask the same gate.
    pub fn embedded_with_socket(data: &Path, config: &Config) -> Result<Self> {
        Ok(Self { way: Way::Embedded(embedded::Embedded::open_with_socket(data, config)?), socket: None, signer: None })
    }

    /// Signs with a key from now on. Without an origin the gate is asked for its own; anyone who names it does not have to
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
    pub fn origin(&self) -> Result<String> {
        let answer = self.exchange(&Call::get("/log/checkpoint"))?;
        let text = String::from_utf8_lossy(&answer.body);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Signs a call, if there is a key, and sends it once: by the gate's socket, as soon as that is there.
    fn send(&self, call: Call) -> Result<Answer, Lost> {
        let answer = self.send_by(self.socket.as_ref().and_then(nearby::Awaited::found), call.clone());
        match (&answer, &self.socket) {
            (Err(Lost::Unsent(_)), Some(socket)) if socket.look() => self.send_by(socket.found(), call),
            _ => answer,
        }
    }

    /// Sends it by this socket, or else as the client was made to.
    fn send_by(&self, socket: Option<&remote::Remote>, mut call: Call) -> Result<Answer, Lost> {
        let remote = match &self.way {
            Way::Remote(remote) => Some(socket.unwrap_or(remote)),
            Way::Embedded(_) => None,
        };
        if let Some(signer) = &self.signer {
            // Who signs is who calls; a name beside it would only mislead anyone who reads along.
            call.headers.retain(|(name, _)| *name != AGENT_HEADER);
            let (host, prefix) = remote.map_or((embedded::HOST, ""), |remote| (remote.host(), remote.prefix()));
            let unsigned = |error: anyhow::Error| {
                let failure = error.downcast::<Failure>();
                Lost::Unsendable(failure.unwrap_or_else(|error| Failure::cannot(format!("{error:#}"))))
            };
            signer.sign(&mut call, host, prefix).map_err(unsigned)?;
        }
        match (&self.way, remote) {
            (Way::Embedded(embedded), _) => embedded.send(call),
            (Way::Remote(remote), None) | (_, Some(remote)) => remote.send(call),
        }
    }

    /// Sends a request as often as it takes and may be sent; an answer of 2xx, or the error that says what is known.
    fn exchange(&self, call: &Call) -> Result<Answer> {
        Ok(self.exchange_counted(call)?.0)
    }

    /// The same, and whether an attempt before the one that was answered may have arrived.
    fn exchange_counted(&self, call: &Call) -> Result<(Answer, bool)> {
        let started = Instant::now();
        let mut attempts = Attempts::new(call);
        let mut is_told = false;
        loop {
            match attempts.after(&call.path, self.send(call.clone()), started.elapsed()) {
                Next::Answer(answer) => return Ok((answer, attempts.may_have_arrived())),
                Next::Failed(failure) => return Err(failure.into()),
                Next::Again(pause) => {
                    if !is_told && started.elapsed() > QUIET_FOR {
                        crate::terminal::note(format_args!("Waiting for the gate…"));
                        is_told = true;
                    }
                    std::thread::sleep(pause);
                }
            }
        }
    }

    /// Sends a request; anything but an answer of 2xx is an error that says what the gate said.
    pub fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        Ok(self.call_counted(call)?.0)
    }

    /// The same, and whether an earlier attempt may have arrived: what the answer says was not done may have been done by that one.
    pub fn call_counted<T: DeserializeOwned>(&self, call: Call) -> Result<(T, bool)> {
        let (answer, is_doubtful) = self.exchange_counted(&call)?;
        let read = serde_json::from_slice(&answer.body);
        read.map(|read| (read, is_doubtful)).map_err(|error| {
            let failure = Failure::cannot(format!("the answer to {} is not one of this version: {error}", call.path))
                .hint("use the same version of countersign here as on the server");
            match &call.repeat {
                Repeat::Reads => failure,
                Repeat::Writes => failure.into_unknown("it may have been done", None),
                Repeat::Keyed(key) => failure.into_unknown("the action may have committed", Some(key)),
            }
            .into()
        })
    }

    /// Sends a request once, and not again if there is no answer or not yet one.
    pub fn call_once<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let path = call.path.clone();
        match self.send(call) {
            Ok(answer) if (200..300).contains(&answer.status) => Ok(serde_json::from_slice(&answer.body)?),
            Ok(answer) => Err(refused(&path, &answer).into()),
            Err(Lost::Unsendable(failure) | Lost::Unsent(failure) | Lost::Unanswered(failure)) => Err(failure.into()),
        }
    }

    /// Closes an embedded gate cleanly, so that it opens at once the next time.
    pub fn close(self) -> Result<()> {
        match self.way {
            Way::Remote(_) => Ok(()),
            Way::Embedded(embedded) => embedded.close(),
        }
    }
}

/// What a gate refused, as an error: what it did not understand exits with 2, what it
/// answered with no with 1, and what it could not do with 3.
fn refused(path: &str, answer: &Answer) -> Failure {
    let Ok(ErrorBody { error }) = serde_json::from_slice::<ErrorBody>(&answer.body) else {
        return Failure::cannot(format!("{path} answered {} without saying why", answer.status))
            .hint("is this the address of a countersign gate? name another with --server");
    };
    let ErrorDetail { code, message, hint, request_id, entry, problems } = error;
    let hint = in_commands(&hint);
    let text = in_commands(&message);
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
        let hint = problem.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        failure = failure.hint(format!("line {}, column {}: {}{hint}", problem.line, problem.column, problem.message));
    }
    failure.coded(code, entry)
}

/// What the interface over HTTP is called here: a gate's hints name its routes, and at a command line the command is meant.
const COMMANDS: [(&str, &str); 20] = [
    ("GET /v1/reviews/{review}", "`countersign review show`"),
    ("GET /v1/reviews", "`countersign review list`"),
    ("GET /v1/effects/{effect}", "`countersign effect show`"),
    ("GET /v1/effects", "`countersign effect list`"),
    ("GET /v1/claims", "`countersign claim list`"),
    ("GET /v1/inbox", "`countersign inbox list`"),
    ("GET /v1/halts", "`countersign halt list`"),
    ("GET /v1/pacts", "`countersign pact list`"),
    ("POST /v1/pacts", "`countersign pact publish`"),
    ("GET /v1/agents", "`countersign agent list`"),
    ("GET /v1/operators", "`countersign operator list`"),
    ("feed the fact with PUT", "feed the fact with `countersign fact put`"),
    ("PUT /v1/facts", "`countersign fact put`"),
    ("GET /v1/facts", "`countersign fact get`"),
    ("GET /v1/ledger/entries", "`countersign ledger list`"),
    ("POST /v1/observe", "`countersign observe`"),
    ("POST /v1/actions/check", "`countersign act --check`"),
    ("POST /v1/actions/batch", "`countersign act --batch`"),
    ("POST /v1/actions", "`countersign act`"),
    ("POST /v1/clock/confirm", "`countersign clock confirm`"),
];

/// A gate's sentence for a person at a command line.
pub fn in_commands(text: &str) -> String {
    COMMANDS.iter().fold(text.to_owned(), |text, (route, command)| text.replace(route, command))
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
    fn hints_name_commands() {
        assert_eq!(in_commands("see GET /v1/effects for more"), "see `countersign effect list` for more");
        assert_eq!(in_commands("GET /v1/reviews/{review} has it"), "`countersign review show` has it");
        // The longer route comes first, or it would keep its end.
        for (at, (route, _)) in COMMANDS.iter().enumerate() {
            let is_cut = COMMANDS.iter().take(at).any(|(earlier, _)| route.starts_with(earlier));
            assert!(!is_cut, "{route}");
        }
    }

    #[test]
    fn ids_stay_one_part_of_a_path() {
        assert_eq!(escape("a/b c?é%"), "a%2Fb%20c%3F%C3%A9%25");
        assert_eq!(escape("acct_1-2.3~"), "acct_1-2.3~");
    }
}
