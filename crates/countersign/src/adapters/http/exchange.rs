//! One request and its answer over a line that is open. `ureq` frames HTTP; the line is ours, and so is every timeout.

use super::connection::{Connection, caused};
use countersign_core::call::{Found, FoundCode};
use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use ureq::config::Config;
use ureq::http::{HeaderMap, Request, Uri, header};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

/// What the service answered.
pub struct Answer {
    pub status: u16,
    /// The strong ETag, where there is one.
    pub etag: Option<String>,
    /// The front of the body.
    pub body: Vec<u8>,
    /// Whether that is all of it.
    pub is_whole: bool,
}

/// No whole answer came.
pub struct NoAnswer {
    /// Whether a byte of the request may have left.
    pub is_sent: bool,
    /// What the library, or the system below it, said.
    pub why: Found,
    /// The status, where at least that came.
    pub status: Option<u16>,
}

/// Sends a request and reads the answer, at most so many bytes of its body.
pub fn exchange(connection: Connection, request: Request<Vec<u8>>, body_bytes_max: usize) -> Result<Answer, NoAnswer> {
    let is_sent = Arc::new(AtomicBool::new(false));
    let failed = |status: Option<u16>, why: Found| NoAnswer { is_sent: is_sent.load(Ordering::SeqCst), why, status };
    let connector = Ready { connection: Mutex::new(Some(connection)), is_sent: Arc::clone(&is_sent) };
    let agent = ureq::Agent::with_parts(config(), connector, Nowhere);
    let sent = if request.body().is_empty() { agent.run(request.map(drop)) } else { agent.run(request) };
    let mut response = sent.map_err(|error| failed(None, cause(&error)))?;
    let status = response.status().as_u16();
    let etag = strong_etag(response.headers());
    let mut body = Vec::new();
    let limit = u64::try_from(body_bytes_max).unwrap_or(u64::MAX);
    let mut reader = response.body_mut().with_config().limit(u64::MAX).reader();
    let read = reader.by_ref().take(limit).read_to_end(&mut body);
    read.map_err(|error| failed(Some(status), caused(FoundCode::BrokenOff.alone(), &error)))?;
    // One byte more tells whether there is more; if the line breaks right there, what is kept is still whole enough to say so.
    let is_whole = body.len() < body_bytes_max || matches!(reader.read(&mut [0]), Ok(0));
    Ok(Answer { status, etag, body, is_whole })
}

fn config() -> Config {
    ureq::Agent::config_builder()
        // Every status is an answer; what it means is decided in one table of ours.
        .http_status_as_error(false)
        // Never followed: the address behind a redirect was not checked, and the secrets are not for it.
        .max_redirects(0)
        .max_redirects_will_error(false)
        // A proxy from the environment would undo the check of addresses.
        .proxy(None)
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .accept("application/json, */*;q=0.1")
        // The head of an answer must fit into the buffer with room to spare, and so must ours with its secrets.
        .max_response_header_size(32 << 10)
        .input_buffer_size(64 << 10)
        .output_buffer_size(64 << 10)
        .build()
}

fn strong_etag(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(header::ETAG).iter();
    let (Some(etag), None) = (all.next(), all.next()) else { return None };
    // A weak one never matches in `If-Match` (RFC 9110, 13.1.1), so it is as good as none.
    etag.to_str().ok().filter(|etag| etag.len() >= 2 && etag.starts_with('"') && etag.ends_with('"')).map(str::to_owned)
}

fn cause(error: &ureq::Error) -> Found {
    match error {
        ureq::Error::Io(error) => caused(FoundCode::ConnectionFailed.alone(), error),
        other => FoundCode::ConnectionFailed.said(other),
    }
}

/// Hands the open line to ureq, once.
#[derive(Debug)]
struct Ready {
    connection: Mutex<Option<Connection>>,
    is_sent: Arc<AtomicBool>,
}

impl Connector for Ready {
    type Out = Wire;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Wire>, ureq::Error> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        let connection = connection.ok_or(ureq::Error::ConnectionFailed)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Wire { connection, buffers, is_sent: Arc::clone(&self.is_sent) }))
    }
}

/// Resolves nothing: the line is connected already. ureq wants one address, and nothing is ever connected to it.
#[derive(Debug)]
struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(std::net::SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(addresses)
    }
}

/// The line as ureq sees it. The line has its own end, so ureq's timeouts, of which none is set, are not looked at.
#[derive(Debug)]
struct Wire {
    connection: Connection,
    buffers: LazyBuffers,
    is_sent: Arc<AtomicBool>,
}

impl Transport for Wire {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        if !output.is_empty() {
            // Set before, not after: a write that fails may have sent a part.
            self.is_sent.store(true, Ordering::SeqCst);
        }
        self.connection.write_all(output)?;
        self.connection.flush()?;
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        let read = self.connection.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }

    fn is_tls(&self) -> bool {
        self.connection.is_tls()
    }
}
