//! A connection to a server: in clear, or over TLS with the certificates of its settings.

use super::{Failed, Found, FoundCode};
use crate::mcp::settings::Address;
use crate::terminal::Report;
use crate::tls::client::{Client, server_name};
use crate::tls::{Side, Why};
use axum::http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

/// Opens connections to one server.
#[derive(Clone)]
pub struct Connector {
    http: HttpConnector,
    /// Where its address says that TLS is spoken.
    tls: Option<Arc<Client>>,
    /// How long a handshake may take.
    within: Duration,
}

impl Connector {
    /// To this address, connected within that time.
    pub fn new(address: &Address, within: Duration) -> Result<Self, Found> {
        let tls = address.url.starts_with("https://").then(|| Client::new(address.trust.clone())).transpose();
        let tls = tls.map_err(|error| {
            let Report { message, hints, .. } = Report::of_error(&error);
            tracing::warn!(cause = message, hint = hints.join("; "), "a server cannot be spoken to over TLS");
            FoundCode::TlsFailed.about(&address.url).and_said(message)
        })?;
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(within));
        http.enforce_http(false);
        Ok(Self { http, tls: tls.map(Arc::new), within })
    }
}

/// What it means that there is no answer from this address. What to do about it is logged: a finding holds no sentence of ours but
/// the cause.
pub(super) fn failed(error: &legacy::Error, url: &str) -> Failed {
    if let Some(Why { cause, hint }) = unopened(error) {
        tracing::warn!(cause, hint, "a server cannot be spoken to over TLS");
        Failed::NotSent(FoundCode::TlsFailed.about(url).and_said(cause))
    } else if error.is_connect() {
        Failed::NotSent(FoundCode::NotListening.alone())
    } else {
        Failed::NoAnswer(FoundCode::ConnectionFailed.said(error))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, tls, within) = (self.http.call(uri.clone()), self.tls.clone(), self.within);
        Box::pin(async move {
            let stream = connecting.await?;
            let Some(tls) = tls else { return Ok(Stream::Plain(stream)) };
            let host = uri.host().unwrap_or_default();
            let connector = TlsConnector::from(tls.config());
            let shaken = tokio::time::timeout(within, connector.connect(server_name(host)?, stream.into_inner())).await;
            let stream =
                shaken.map_err(|_| Why::of_time(host))?.map_err(|error| Why::of(&error, Side::Client, host))?;
            Ok(Stream::Tls { stream: Box::new(TokioIo::new(stream)), host: host.to_owned(), is_answered: false })
        })
    }
}

/// A connection.
pub enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls {
        stream: Box<TokioIo<TlsStream<TcpStream>>>,
        host: String,
        /// Whether the other side has ever sent anything but its handshake.
        is_answered: bool,
    },
}

/// Why a connection could not be opened, or was refused before anything that came over it was looked at.
fn unopened<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Why> {
    let mut next = Some(error);
    while let Some(error) = next {
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let held = held.map(|held| held as &'a (dyn Error + 'static));
        if let Some(why) = error.downcast_ref::<Why>().or_else(|| held?.downcast_ref::<Why>()) {
            return Some(why);
        }
        next = error.source();
    }
    None
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(stream) => stream.connected(),
            Self::Tls { stream, .. } => stream.inner().get_ref().0.connected(),
        }
    }
}

impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tls { stream, host, is_answered } => {
                let read = Pin::new(stream).poll_read(context, into);
                match read {
                    // This side's certificate is refused after the handshake, when a request may have left: no one has looked at it.
                    Poll::Ready(Err(error)) if !*is_answered && Why::is_refusal(&error) => {
                        Poll::Ready(Err(io::Error::other(Why::of(&error, Side::Client, host))))
                    }
                    read => {
                        *is_answered |= read.is_ready();
                        read
                    }
                }
            }
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls { stream, .. } => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls { stream, .. } => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls { stream, .. } => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        matches!(self, Self::Plain(stream) if stream.is_write_vectored())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls { stream, .. } => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }
}
