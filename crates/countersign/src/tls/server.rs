//! The side that listens: handshakes with clients, whose certificates it may ask for.

use super::certificate::Certificate;
use super::files::{Files, Material};
use super::kept::Kept;
use super::provider;
use super::why::{Side, Why};
use crate::hinted::{OrHinted as _, bail_hinted, hinted};
use anyhow::{Context as _, Result};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What is asked of clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whether a client without a certificate is turned away.
    pub require: bool,
    /// What a SPIFFE id begins with whose rest is the name of an agent.
    pub spiffe: Option<String>,
}

/// Takes connections of clients that speak TLS.
pub struct Acceptor {
    kept: Kept<Loaded>,
    rules: Rules,
}

/// What was made of the files.
pub struct Loaded {
    config: Arc<ServerConfig>,
    /// Where clients may show certificates.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl Acceptor {
    /// With a certificate and a key, and with the authorities of clients if they may show certificates.
    pub fn new(files: Files, rules: Rules) -> Result<Arc<Self>> {
        let require = rules.require;
        Ok(Arc::new(Self { kept: Kept::new(files, move |material| Loaded::new(material, require))?, rules }))
    }

    /// Looks whether the files have changed. Blocks while it reads them.
    pub fn refresh(&self) {
        if self.kept.refresh() {
            tracing::info!("the TLS files have changed: new connections go by them");
        }
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What is in use now.
    pub(super) fn loaded(&self) -> Arc<Loaded> {
        self.kept.current()
    }

    /// Speaks TLS with a client; gives its certificate with the stream, if it has shown one. Where they do not come together, the
    /// stream is given back with the reason: the client has been told, and may not have read it yet.
    pub async fn accept<S>(self: &Arc<Self>, stream: S) -> Result<(TlsStream<S>, Option<Certificate>), (Why, S)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let loaded = self.loaded();
        let acceptor = TlsAcceptor::from(Arc::clone(&loaded.config));
        let shaken = acceptor.accept(stream).into_fallible().await;
        let stream = shaken.map_err(|(error, stream)| (Why::of(&error, Side::Server, "the client"), stream))?;
        let chain = stream.get_ref().1.peer_certificates().map(<[CertificateDer<'static>]>::to_vec);
        let certificate = chain.map(|chain| Certificate::new(chain, Arc::clone(self), loaded));
        Ok((stream, certificate))
    }
}

impl Loaded {
    fn new(material: Material, require: bool) -> Result<Self> {
        let Material { own, roots, revoked } = material;
        let Some(own) = own else {
            bail_hinted!("a listener needs a certificate"; "name its file with `certificate` under [tls]")
        };
        let verifier = roots.map(|roots| {
            let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            // A list that is out of date says nothing about today: it must not pass for one that clears a certificate.
            let builder = builder.with_crls(revoked).enforce_revocation_expiration();
            let builder = if require { builder } else { builder.allow_unauthenticated() };
            builder.build().context("the list of revoked certificates cannot be used")
        });
        let verifier = verifier.transpose()?;
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(own.chain, own.key).or_hinted(
            || hinted!("the certificate and key do not match"; "write both files, then they are looked at again"),
        )?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A session that is resumed is not verified again: what was revoked in between would pass.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), verifier })
    }

    /// Whether the certificate of a client is good by these files and at this time.
    pub(super) fn verify(&self, chain: &[CertificateDer<'static>]) -> Result<(), Why> {
        let (Some(verifier), Some((first, rest))) = (&self.verifier, chain.split_first()) else { return Ok(()) };
        let verified = verifier.verify_client_cert(first, rest, UnixTime::now());
        verified.map(drop).map_err(|error| Why::of(&error, Side::Server, "the client"))
    }
}
