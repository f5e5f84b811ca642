//! Where connections come from: a port, or a socket in the file system.

use super::Accepted;
use crate::hinted::bail_hinted;
use crate::tls::Acceptor;
use anyhow::{Context as _, Result};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// The longest path that a socket can have; the system takes 108 bytes with the one that ends it.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The answer to a client for which there is no place. It does not come from the router, since that takes a place.
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 174\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"every connection of this gate is in use\",\
    \"hint\":\"nothing was read or decided; try again in a second\",\"request_id\":\"unknown\",\"problems\":[]}}";

/// Something to accept connections from.
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A port where TLS is spoken and nothing else.
    Tls(TcpListener, Arc<Acceptor>),
    /// A socket in the file system.
    Unix(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a listener on {:?}", self.local_addr().ok())
    }
}

/// A stream of either kind.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// A port, with TLS where there is something to speak it with.
    pub fn port(listener: TcpListener, acceptor: Option<Arc<Acceptor>>) -> Self {
        match acceptor {
            Some(acceptor) => Self::Tls(listener, acceptor),
            None => Self::Tcp(listener),
        }
    }

    /// What its address begins with, as clients write it.
    pub fn scheme(&self) -> &'static str {
        if self.acceptor().is_some() { "https" } else { "http" }
    }

    /// What speaks TLS here.
    pub(super) fn acceptor(&self) -> Option<&Arc<Acceptor>> {
        match self {
            Self::Tls(_, acceptor) => Some(acceptor),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// The address of a port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener, _) => listener.local_addr(),
            Self::Unix(_) => Err(io::Error::other("a socket in the file system has no address")),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                // Answers are small and waited for: they must not wait to be joined by others.
                drop(stream.set_nodelay(true));
                // All clients behind a proxy on this machine come from loopback, so there it means nothing.
                let ip = peer.ip().to_canonical();
                Ok((Stream::Tcp(stream), (!ip.is_loopback()).then_some(ip)))
            }
            Self::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), None)),
        }
    }
}

impl Stream {
    pub(super) async fn each(self, accepted: Accepted<'_>) {
        match self {
            Self::Tcp(stream) => accepted.start(stream).await,
            Self::Unix(stream) => accepted.start(stream).await,
        }
    }
}

/// How long a client may take to read the last that it is told.
const READS_WITHIN: Duration = Duration::from_millis(250);

/// Tells a client that there is no place, if it reads that at once.
pub(super) async fn say_busy(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let said = tokio::time::timeout(READS_WITHIN, stream.write_all(BUSY.as_bytes())).await;
    if matches!(said, Ok(Ok(()))) {
        read_out(stream).await;
    }
}

/// Closes a connection whose client was told the last: one that is closed with bytes unread is reset, and what was told is lost with it.
pub(super) async fn read_out(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let read = async {
        stream.shutdown().await?;
        let mut sink = [0; 4096];
        while stream.read(&mut sink).await? > 0 {}
        io::Result::Ok(())
    };
    drop(tokio::time::timeout(READS_WITHIN, read).await);
}

/// Listens on a socket that only its owner can connect to. The caller holds the gate's folder, so a socket that is there already
/// is a dead gate's, and is replaced.
pub fn bind_socket(path: &Path) -> Result<std::os::unix::net::UnixListener> {
    if let Ok(there) = std::fs::symlink_metadata(path)
        && !there.file_type().is_socket()
    {
        bail_hinted!("{} is there and is not a socket", path.display(); "name another path with `operator_socket`");
    }
    let cannot = || format!("cannot listen on {}", path.display());
    // Made under another name and given its own when it is as it must be: before, there is nothing to connect to.
    let made = path.with_extension("new");
    match std::fs::remove_file(&made) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).with_context(cannot),
        _ => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(&made).with_context(cannot)?;
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o600)).with_context(cannot)?;
    std::fs::rename(&made, path).with_context(cannot)?;
    listener.set_nonblocking(true).with_context(cannot)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_without_a_router_is_whole() {
        let (head, body) = BUSY.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<countersign_api::ErrorBody>(body).is_ok(), "{body}");
    }
}
