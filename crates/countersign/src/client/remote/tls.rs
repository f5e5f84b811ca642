//! HTTP over TLS: what ureq sends and reads goes through rustls, with the trust of the settings.
//!
//! It is apart from ureq's own TLS because of what has to be told apart: a gate that refuses this side's certificate says so only
//! after the first bytes have left, and has looked at none of them.

use crate::tls::client::{Client, server_name};
use crate::tls::{Side, Why};
use rustls::{ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector, Transport, TransportAdapter,
};

/// What went wrong before the gate has looked at anything of a request.
#[derive(Debug)]
pub enum Refused {
    /// A second try would end in the same way.
    ForGood(Why),
    /// A second try may pass.
    ForNow(Why),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::ForGood(why) | Self::ForNow(why)) = self;
        why.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    /// If that is what an error of ureq is about.
    pub fn of(error: &ureq::Error) -> Option<&Self> {
        match error {
            ureq::Error::Io(io) => io.get_ref()?.downcast_ref(),
            _ => None,
        }
    }

    fn for_good(error: &(dyn std::error::Error + 'static), host: &str) -> ureq::Error {
        io::Error::other(Self::ForGood(Why::of(error, Side::Client, host))).into()
    }
}

/// An agent that speaks TLS with these certificates, and with nothing else.
pub fn agent(config: Config, client: Client) -> ureq::Agent {
    let connector = TcpConnector::default().chain(Secure(Arc::new(client)));
    ureq::Agent::with_parts(config, connector, DefaultResolver::default())
}

struct Secure(Arc<Client>);

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TLS")
    }
}

impl<In: Transport> Connector<In> for Secure {
    type Out = Either<In, Wire>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(stream) = chained else { return Ok(None) };
        let host = details.uri.host().unwrap_or_default();
        let name = server_name(host).map_err(|why| ureq::Error::from(io::Error::other(Refused::ForGood(why))))?;
        let connection =
            ClientConnection::new(self.0.config(), name).map_err(|error| Refused::for_good(&error, host))?;
        let mut socket = TransportAdapter::new(stream.boxed(), Arc::clone(&details.current_time));
        socket.set_timeout(details.timeout);
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|error| unconnected(error, host))?;
        }
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(Wire { stream, buffers, host: host.to_owned(), is_answered: false })))
    }
}

/// A handshake that failed. Where the network failed, or took too long, another one may not.
fn unconnected(error: io::Error, host: &str) -> ureq::Error {
    if Why::of_tls(&error, Side::Client, host).is_some() {
        return Refused::for_good(&error, host);
    }
    match ureq::Error::from(error) {
        ureq::Error::Io(error) => io::Error::other(Refused::ForNow(Why::of(&error, Side::Client, host))).into(),
        other => other,
    }
}

struct Wire {
    stream: StreamOwned<ClientConnection, TransportAdapter>,
    buffers: LazyBuffers,
    host: String,
    /// Whether the other side has ever sent anything but its handshake.
    is_answered: bool,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS with {}", self.host)
    }
}

impl Wire {
    /// What a failure means: before the first answer, a refusal of the certificate is one of everything that was sent.
    fn failed(&self, error: io::Error) -> ureq::Error {
        match Why::is_refusal(&error) && !self.is_answered {
            true => Refused::for_good(&error, &self.host),
            false => error.into(),
        }
    }
}

impl Transport for Wire {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        let written = self.stream.write_all(output).and_then(|()| self.stream.flush());
        written.map_err(|error| self.failed(error))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let read = self.stream.read(self.buffers.input_append_buf());
        let read = read.map_err(|error| self.failed(error))?;
        self.is_answered = true;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
