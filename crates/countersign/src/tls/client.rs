//! The side that connects: a command or a gateway to a gate, a gateway to an MCP server, an adapter to a service.

use super::files::{Files, Material};
use super::kept::Kept;
use super::provider;
use super::why::Why;
use crate::hinted::{OrHinted as _, hinted};
use anyhow::{Context as _, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Whom to trust, and which certificate to show. The public authorities are trusted where no file names others.
pub struct Client {
    kept: Kept<Arc<ClientConfig>>,
}

impl Client {
    /// From these files.
    pub fn new(files: Files) -> Result<Self> {
        Ok(Self { kept: Kept::new(files, config)? })
    }

    /// For the next connection: of the files as they are now.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.kept.refresh();
        Arc::clone(&self.kept.current())
    }
}

/// The name that a server's certificate must have: a host name or an address, without brackets.
pub fn server_name(host: &str) -> Result<ServerName<'static>, Why> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned()).map_err(|_| Why::of_host(host))
}

fn config(material: Material) -> Result<Arc<ClientConfig>> {
    let Material { own, roots, revoked } = material;
    let roots = roots.unwrap_or_else(|| RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
    // A list that is out of date says nothing about today: it must not pass for one that clears a certificate.
    let verifier = verifier.with_crls(revoked).enforce_revocation_expiration().build();
    let verifier = verifier.context("the list of revoked certificates cannot be used")?;
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = builder.with_webpki_verifier(verifier);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => builder.with_client_auth_cert(own.chain, own.key).or_hinted(
            || hinted!("the certificate and key do not match"; "name the key that the certificate was made for"),
        )?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
