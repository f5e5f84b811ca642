//! Where connections come from: a port, or a socket in the file system.

use super::Accepted;
use crate::hinted::bail_hinted;
use anyhow::{Context as _, Result};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
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
#[derive(Debug)]
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
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

/// A stream of either kind.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener) => {
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

/// Tells a client that there is no place, if it reads that at once.
pub(super) async fn say_busy(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let said = async {
        stream.write_all(BUSY.as_bytes()).await?;
        stream.shutdown().await?;
        // A connection that is closed with bytes unread is reset, and the answer is lost with it.
        let mut sink = [0; 4096];
        while stream.read(&mut sink).await? > 0 {}
        io::Result::Ok(())
    };
    drop(tokio::time::timeout(Duration::from_millis(250), said).await);
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
