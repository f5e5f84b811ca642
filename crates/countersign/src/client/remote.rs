//! A gate that runs, over HTTP: on a port, in clear or over TLS, or on its socket for operators.

mod socket;
mod tls;

use super::attempts::Lost;
use super::patience::Waiting;
use super::{ANSWER_BYTES_MAX, Answer, Call};
use crate::commands::{Exit, Failure};
use crate::tls::{Files, client::Client as Tls};
use anyhow::Result;
use std::time::Duration;
use tls::Refused;

/// How long an answer may take. A gate answers within milliseconds or says that it is busy.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long it may take to be connected, before anything is sent.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What an address begins with where TLS is spoken.
const HTTPS: &str = "https://";
/// What the address of a socket begins with.
pub const UNIX: &str = "unix:";
/// The host that requests over a socket name and sign for: it is on this machine.
const SOCKET_HOST: &str = "localhost";

/// How many connections to the gate are kept open for the next call.
const CONNECTIONS_KEPT: usize = 16;

/// A gate that runs.
pub struct Remote {
    /// The address as people know it.
    name: String,
    base: String,
    trust: Files,
    agent: ureq::Agent,
}

impl Remote {
    pub(super) fn new(server: &str, trust: &Files) -> Result<Self> {
        let config = ureq::Agent::config_builder()
            // A limit of its own, so that what was never sent can be told from what was not answered.
            .timeout_connect(Some(CONNECT_WITHIN))
            // A refusal is an answer with a body to show, not a failure of the transport.
            .http_status_as_error(false)
            .max_redirects(0)
            // A gateway asks for many sessions at once, and a new connection for each call would cost more than the call.
            .max_idle_connections(CONNECTIONS_KEPT)
            .max_idle_connections_per_host(CONNECTIONS_KEPT)
            .proxy(None)
            .build();
        if let Some(path) = server.strip_prefix(UNIX) {
            let agent = socket::agent(config, path.into());
            let (base, trust) = (format!("http://{SOCKET_HOST}"), Files::default());
            return Ok(Self { name: server.to_owned(), base, trust, agent });
        }
        let base = server.trim_end_matches('/').to_owned();
        if base.starts_with(HTTPS) {
            let client = Tls::new(trust.clone()).map_err(|error| Failure::of(Exit::Cannot, error))?;
            return Ok(Self { name: base.clone(), base, trust: trust.clone(), agent: tls::agent(config, client) });
        }
        if !base.starts_with("http://") {
            let failure = Failure::usage(format!("`{server}` is not the address of a gate"));
            let failure = match base.contains("://") {
                true => failure,
                false => failure.hint(format!("did you mean http://{base}?")),
            };
            return Err(failure
                .hint("write it as https://gate.example.com, http://127.0.0.1:8420 or unix:countersign-data/operator.sock")
                .into());
        }
        Ok(Self { name: base.clone(), base, trust: Files::default(), agent: config.into() })
    }

    /// The address without its scheme.
    fn place(&self) -> &str {
        self.base.strip_prefix("http://").or_else(|| self.base.strip_prefix(HTTPS)).unwrap_or(&self.base)
    }

    /// The host and port that calls are sent to.
    pub(super) fn host(&self) -> &str {
        let rest = self.place();
        rest.split_once('/').map_or(rest, |(host, _)| host)
    }

    /// The path that every call's path is put after, if the gate is not at the root of its host.
    pub(super) fn prefix(&self) -> &str {
        let rest = self.place();
        rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
    }

    pub(super) fn send(&self, call: Call) -> Result<Answer, Lost> {
        let mut request = ureq::http::Request::builder().method(call.method).uri(format!("{}{}", self.base, call.path));
        for (name, value) in &call.headers {
            request = request.header(*name, value.as_bytes());
        }
        let unsendable = |error: ureq::http::Error| {
            let failure = Failure::usage(format!("this cannot be sent: {error}"));
            Lost::Unsendable(failure.hint("agent names and ids must be plain text"))
        };
        let within = TIMEOUT + call.wait;
        let _waiting = call.wait.is_zero().then(|| Waiting::on(&self.name, &self.trust));
        let mut response = match call.body {
            Some(body) => self.run(request.body(body).map_err(unsendable)?, within),
            None => self.run(request.body(()).map_err(unsendable)?, within),
        }
        .map_err(|error| self.lost(&error, within))?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|after| after.to_str().ok()?.parse().ok());
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| Lost::Unanswered(self.unreachable(&error, within)))?;
        Ok(Answer { status, retry_after_s: retry_after, body })
    }

    fn run<B: ureq::AsSendBody>(
        &self,
        request: ureq::http::Request<B>,
        within: Duration,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        self.agent.run(self.agent.configure_request(request).timeout_global(Some(within)).build())
    }

    /// Whether anything of the request can have left, going by what went wrong.
    fn lost(&self, error: &ureq::Error, within: Duration) -> Lost {
        use std::io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
        use ureq::{Error, Timeout};
        if let Some(refused) = Refused::of(error) {
            let (Refused::ForGood(why) | Refused::ForNow(why)) = refused;
            let failure = Failure::cannot(format!("no answer from {}: {}", self.name, why.cause));
            let failure = failure.hint(why.hint.clone());
            return match refused {
                Refused::ForGood(_) => Lost::Unsendable(failure),
                Refused::ForNow(_) => Lost::Unsent(failure),
            };
        }
        let failure = self.unreachable(error, within);
        match error {
            // The last two come from a socket in the file system, and only when it is connected to.
            Error::Io(io) if matches!(io.kind(), ConnectionRefused | NotFound | PermissionDenied) => {
                Lost::Unsent(failure)
            }
            Error::ConnectionFailed | Error::HostNotFound | Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
                Lost::Unsent(failure)
            }
            Error::BadUri(_) | Error::Http(_) => Lost::Unsendable(failure),
            _ => Lost::Unanswered(failure),
        }
    }

    fn unreachable(&self, error: &ureq::Error, within: Duration) -> Failure {
        let failure = Failure::cannot(format!("no answer from {}: {}", self.name, cause(error, within)));
        if is_not_http(error) && self.base.starts_with("http://") {
            return failure.hint("does it speak TLS? then its address begins with https://");
        }
        failure
            .hint("start a gate with `countersign serve`, or name another with --server")
            .hint("to work on a data folder without a server, name it with --data")
    }
}

/// Whether what came back is no answer of HTTP: an alert of TLS, or the end of the connection.
fn is_not_http(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
    match error {
        ureq::Error::Protocol(_) => true,
        ureq::Error::Io(io) => matches!(io.kind(), UnexpectedEof | ConnectionReset),
        _ => false,
    }
}

/// The cause in words that do not change with the system's spelling of it.
fn cause(error: &ureq::Error, within: Duration) -> String {
    match error {
        ureq::Error::ConnectionFailed => "nothing listens there".into(),
        ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => "nothing listens there".into(),
        ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::NotFound => "there is no such socket".into(),
        ureq::Error::Timeout(_) => format!("it took longer than {} s", within.as_secs()),
        other => other.to_string(),
    }
}
