//! A line to the service: the name resolved, the address checked, connected, and TLS spoken. Nothing of the request has left yet.
//!
//! This is apart from sending because it is where *not sent* ends: whatever fails in here, no byte of the request has left.
//! Every call has a line of its own. A kept one may have been closed by the other side just as the request goes out, and then
//! no one knows whether it arrived: saving a handshake is not worth a doubt.

use super::base::Base;
use crate::adapters::address::{self, Cidr, NotAllowed};
use crate::tls::client::Client;
use countersign_core::call::{Found, FoundCode};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Finds the addresses of a host. A function, so that a test can be the name server.
pub type Names = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The system's own name service.
pub fn system_names() -> Names {
    Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
}

/// How connections to one service are opened.
pub struct Connector {
    /// Where to.
    pub base: Base,
    /// Addresses that are not public and may be called.
    pub listed: Vec<Cidr>,
    /// TLS, where it is spoken.
    pub tls: Option<(Client, ServerName<'static>)>,
    pub names: Names,
    /// How long opening may take.
    pub timeout: Duration,
}

impl Connector {
    /// Opens a line that is good until then.
    pub fn open(&self, until: Instant) -> Result<Connection, Found> {
        let opened_by = until.min(Instant::now() + self.timeout);
        let addresses = self.resolve(opened_by)?;
        let stream = self.connect(&addresses, opened_by)?;
        let mut timed = Timed { stream, until: opened_by };
        let mut line = match &self.tls {
            None => Connection::Plain(timed),
            Some((client, name)) => {
                let failed = |error: &dyn fmt::Display| FoundCode::TlsFailed.about(&self.base).and_said(error);
                let mut connection =
                    ClientConnection::new(client.config(), name.clone()).map_err(|error| failed(&error))?;
                while connection.is_handshaking() {
                    connection
                        .complete_io(&mut timed)
                        .map_err(|error| caused(FoundCode::TlsFailed.about(&self.base), &error))?;
                }
                Connection::Tls(Box::new(StreamOwned::new(connection, timed)))
            }
        };
        line.timed().until = until;
        Ok(line)
    }

    fn resolve(&self, until: Instant) -> Result<Vec<SocketAddr>, Found> {
        let Base { host, port, .. } = &self.base;
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, *port)]);
        }
        // The system's resolver cannot be interrupted, so it gets a thread of its own and is waited for only so long.
        let (names, name, port) = (Arc::clone(&self.names), host.clone(), *port);
        let (answer, answered) = mpsc::channel();
        // Sending fails where no one waits any more, and then no one minds.
        std::thread::spawn(move || drop(answer.send(names(&name, port))));
        match answered.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(addresses)) if addresses.is_empty() => Err(FoundCode::NoAddress.about(host)),
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(FoundCode::HostNotFound.about(host).and_said(error)),
            Err(_) => Err(FoundCode::HostNotFound.about(host).and_because(FoundCode::NoTime.alone())),
        }
    }

    /// Connects to the first address that may be called and answers. What is checked is what is connected to.
    fn connect(&self, addresses: &[SocketAddr], until: Instant) -> Result<TcpStream, Found> {
        let mut why = FoundCode::NoAddress.about(&self.base);
        for address in addresses {
            match address::check(address.ip(), &self.listed) {
                Err(NotAllowed(address)) => why = FoundCode::AddressNotAllowed.about(address),
                Ok(false) if self.tls.is_none() => {
                    why = FoundCode::NotEncrypted.about(address.ip());
                }
                Ok(_) => match TcpStream::connect_timeout(address, left(until).map_err(|_| FoundCode::NoTime.alone())?)
                {
                    Ok(stream) => {
                        // Only speed depends on it.
                        drop(stream.set_nodelay(true));
                        return Ok(stream);
                    }
                    Err(error) => why = caused(FoundCode::NotConnected.about(address), &error),
                },
            }
        }
        Err(why)
    }
}

/// A finding with what the system said; that the time is over, it did not say: we did.
pub fn caused(found: Found, error: &io::Error) -> Found {
    match error.kind() {
        ErrorKind::TimedOut => found.and_because(FoundCode::NoTime.alone()),
        _ => found.and_said(error),
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connections to {}", self.base)
    }
}

/// A line to a service, in clear or encrypted.
#[derive(Debug)]
pub enum Connection {
    /// In clear.
    Plain(Timed),
    /// Encrypted.
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Connection {
    fn timed(&mut self) -> &mut Timed {
        match self {
            Self::Plain(timed) => timed,
            Self::Tls(stream) => &mut stream.sock,
        }
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(timed) => timed.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(timed) => timed.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(timed) => timed.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// A stream with one end for everything: a service that sends a byte now and then cannot hold a worker longer.
#[derive(Debug)]
pub struct Timed {
    stream: TcpStream,
    until: Instant,
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late()) } else { Ok(left) }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it took too long")
}

/// A timeout of a socket comes as "would block"; everything else stays what it is.
fn named(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { late() } else { error }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.until)?))?;
        self.stream.read(into).map_err(named)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.until)?))?;
        self.stream.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
