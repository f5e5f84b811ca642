//! TLS: which certificates are trusted, and by which cryptography.

use anyhow::{Context as _, Result, bail};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// A client's side of TLS for one host: with the certificates of a file, or with the public ones.
pub fn client(host: &str, ca: Option<&Path>) -> Result<(Arc<ClientConfig>, ServerName<'static>)> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        anyhow::anyhow!("`{host}` cannot be in a certificate\nhint: `base` needs a host name or an address")
    })?;
    let mut roots = RootCertStore::empty();
    match ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let shown = path.display();
            let read = || format!("cannot read the certificates in {shown}\nhint: `ca` names a file in PEM");
            for certificate in CertificateDer::pem_file_iter(path).with_context(read)? {
                roots.add(certificate.with_context(read)?).with_context(read)?;
            }
            if roots.is_empty() {
                bail!("there is no certificate in {shown}\nhint: `ca` names a file in PEM");
            }
        }
    }
    // Named here, so that no feature of some other crate can choose another.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok((Arc::new(config.with_root_certificates(roots).with_no_client_auth()), name))
}
