//! TLS: which certificates are trusted, and by which cryptography.

use crate::hinted::{OrHinted as _, bail_hinted, hinted};
use anyhow::Result;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// A client's side of TLS for one host: with the certificates of a file, or with the public ones.
pub fn client(host: &str, ca: Option<&Path>) -> Result<(Arc<ClientConfig>, ServerName<'static>)> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        anyhow::Error::from(hinted!("`{host}` cannot be in a certificate"; "`base` needs a host name or an address"))
    })?;
    let mut roots = RootCertStore::empty();
    match ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let shown = path.display();
            let read = || hinted!("cannot read the certificates in {shown}"; "`ca` names a file in PEM");
            for certificate in CertificateDer::pem_file_iter(path).or_hinted(read)? {
                roots.add(certificate.or_hinted(read)?).or_hinted(read)?;
            }
            if roots.is_empty() {
                bail_hinted!("there is no certificate in {shown}"; "`ca` names a file in PEM");
            }
        }
    }
    // Named here, so that no feature of some other crate can choose another.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok((Arc::new(config.with_root_certificates(roots).with_no_client_auth()), name))
}
