//! HTTP over a socket in the file system.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

/// An agent whose every connection is to this socket.
pub fn agent(config: Config, path: PathBuf) -> ureq::Agent {
    ureq::Agent::with_parts(config, Socket(path), NoNames)
}

#[derive(Debug)]
struct Socket(PathBuf);

impl Connector for Socket {
    type Out = Wire;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Wire>, ureq::Error> {
        let stream = UnixStream::connect(&self.0)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Wire { stream, buffers }))
    }
}

/// Resolves nothing. ureq wants one address, and nothing is ever connected to it.
#[derive(Debug)]
struct NoNames;

impl Resolver for NoNames {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(addresses)
    }
}

#[derive(Debug)]
struct Wire {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for Wire {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.set_write_timeout(timeout.not_zero().map(|left| *left))?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output).map_err(|error| named(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.set_read_timeout(timeout.not_zero().map(|left| *left))?;
        let read = self.stream.read(self.buffers.input_append_buf()).map_err(|error| named(error, timeout))?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        // Every command makes a connection of its own: a kept one may have been closed just now.
        false
    }
}

/// A timeout of a socket comes as "would block".
fn named(error: std::io::Error, timeout: NextTimeout) -> ureq::Error {
    if error.kind() == ErrorKind::WouldBlock { ureq::Error::Timeout(timeout.reason) } else { error.into() }
}
