//! The files that one side of TLS is made of, read and understood.

use crate::hinted::{OrHinted as _, bail_hinted, hinted};
use anyhow::Result;
use countersign_core::ids::Digest;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The most that is read of one file: a bundle of all public authorities has a quarter of that.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where they are; all in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Its own certificate, and those up to the authority.
    pub certificate: Option<PathBuf>,
    /// The key of its certificate; in the certificate's own file unless named.
    pub key: Option<PathBuf>,
    /// The authorities that the other side's certificate must come from.
    pub ca: Option<PathBuf>,
    /// What these have revoked.
    pub crl: Option<PathBuf>,
}

/// The bytes of a file, which may hold a key: never printed.
struct Content {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// The bytes of all of them.
pub struct Contents {
    certificate: Option<Content>,
    key: Option<Content>,
    ca: Option<Content>,
    crl: Option<Content>,
}

/// A certificate with those up to its authority, and its key.
pub struct Own {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// What the files hold.
pub struct Material {
    pub own: Option<Own>,
    /// The authorities, where a file names them.
    pub roots: Option<RootCertStore>,
    pub revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl Files {
    /// Reads all of them, once each: what is compared is what is used.
    pub fn read(&self) -> Result<Contents> {
        let read = |path: &Option<PathBuf>, is_secret| path.as_deref().map(|path| Content::read(path, is_secret));
        Ok(Contents {
            certificate: read(&self.certificate, self.key.is_none()).transpose()?,
            key: read(&self.key, true).transpose()?,
            ca: read(&self.ca, false).transpose()?,
            crl: read(&self.crl, false).transpose()?,
        })
    }
}

impl Content {
    fn read(path: &Path, is_secret: bool) -> Result<Self> {
        let shown = path.display();
        let cannot = || hinted!("cannot read {shown}"; "the settings of TLS name this file; whoever runs this must be able to read it");
        let file = File::open(path).or_hinted(cannot)?;
        let mode = file.metadata().or_hinted(cannot)?.permissions().mode();
        if is_secret && mode & 0o007 != 0 {
            bail_hinted!(
                "the key in {shown} can be read by everyone (mode {:o})", mode & 0o777;
                "chmod 600 {shown}, or 640 for a group; if others could read it, get a certificate with a new key"
            );
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).or_hinted(cannot)?;
        if u64::try_from(bytes.len()).is_ok_and(|len| len > FILE_BYTES_MAX) {
            // Cut short, it could lack an authority or a list, and no one would know.
            bail_hinted!("{shown} has more than {} MiB", FILE_BYTES_MAX >> 20; "name a file with only what is needed");
        }
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// Everything of one kind that it holds; at least one.
    fn all<T: PemObject>(&self, what: &str) -> Result<Vec<T>> {
        let shown = self.path.display();
        let hint = "the file is in PEM: `-----BEGIN …`";
        let read: Result<Vec<T>, _> = T::pem_slice_iter(&self.bytes).collect();
        let read = read.map_err(|error| hinted!("cannot read a {what} in {shown}: {error}"; "{hint}"))?;
        if read.is_empty() {
            bail_hinted!("there is no {what} in {shown}"; "{hint}");
        }
        Ok(read)
    }
}

impl Contents {
    /// What tells them from any other content.
    pub fn digest(&self) -> Digest {
        let each = [&self.certificate, &self.key, &self.ca, &self.crl];
        let each = each.map(|content| content.as_ref().map_or([0; 32], |content| Digest::of(&content.bytes).0));
        Digest::of(&each.concat())
    }

    /// What they hold.
    pub fn material(&self) -> Result<Material> {
        Ok(Material {
            own: self.certificate.as_ref().map(|certificate| self.own(certificate)).transpose()?,
            roots: self.ca.as_ref().map(roots).transpose()?,
            revoked: self.crl.as_ref().map_or(Ok(Vec::new()), |crl| crl.all("list of revoked certificates"))?,
        })
    }

    fn own(&self, certificate: &Content) -> Result<Own> {
        let chain = certificate.all("certificate")?;
        let file = self.key.as_ref().unwrap_or(certificate);
        let key = PrivateKeyDer::from_pem_slice(&file.bytes).map_err(|_| {
            // What the parser says could have a part of the key in it.
            hinted!(
                "there is no private key in {}", file.path.display();
                "the file is in PEM and holds the certificate's key, without a password"
            )
        })?;
        Ok(Own { chain, key })
    }
}

fn roots(ca: &Content) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in ca.all::<CertificateDer<'static>>("certificate")? {
        let shown = ca.path.display();
        let cannot = || hinted!("cannot use a certificate in {shown}"; "the file holds those of authorities, in PEM");
        roots.add(certificate).or_hinted(cannot)?;
    }
    Ok(roots)
}
