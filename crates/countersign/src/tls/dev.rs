//! `serve --dev-tls`: an authority of the gate's own, and a certificate from it, for trying things out.
//!
//! Both are in the folder `tls` of the data folder, keys with mode 0600. The authority is made once, so that clients that trust it go
//! on doing so; the certificate is made again at each start, so that it has the names of today and never expires under a gate
//! that is started now and then.

use super::files::Files;
use crate::hinted::{OrHinted as _, hinted};
use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, SerialNumber, SigningKey,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The folder in the data folder.
const FOLDER: &str = "tls";
/// How long the authority is good for.
const AUTHORITY_FOR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// How long a certificate is good for: longer than anyone tries something out, and within what clients take.
const CERTIFICATE_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// By how much clocks may differ.
const BEFORE: Duration = Duration::from_secs(60 * 60);

/// What was made.
pub struct Made {
    /// What the listener is made of.
    pub files: Files,
    /// The certificate that clients trust.
    pub ca: PathBuf,
    /// The names that the certificate is for.
    pub names: Vec<String>,
}

/// Makes an authority in the data folder, unless there is one, and a certificate for this machine and the address that is listened on.
pub fn make(data: &Path, listen: IpAddr) -> Result<Made> {
    let folder = data.join(FOLDER);
    let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder);
    made.with_context(|| format!("cannot make {}", folder.display()))?;
    let (ca, ca_key) = (folder.join("ca.pem"), folder.join("ca.key"));
    if !(ca.exists() && ca_key.exists()) {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("the system gives no key")?;
        let authority = authority()?.self_signed(&key).context("cannot make an authority")?;
        // The key first: an authority whose key is missing is made again.
        write(&ca_key, &key.serialize_pem(), 0o600)?;
        write(&ca, &authority.pem(), 0o644)?;
    }
    let key = fs::read_to_string(&ca_key).with_context(|| format!("cannot read {}", ca_key.display()))?;
    let shown = folder.display();
    let broken = || hinted!("cannot use the authority in {shown}"; "remove {shown}; the next start makes another");
    let key = KeyPair::from_pem(&key).or_hinted(broken)?;
    CertificateDer::from_pem_file(&ca).or_hinted(broken)?;
    let issuer = Issuer::new(authority()?, key);
    let names = names(listen);
    let (certificate, certificate_key) = certificate(&names, &issuer)?;
    let files = Files {
        certificate: Some(folder.join("server.pem")),
        key: Some(folder.join("server.key")),
        ..Files::default()
    };
    write(&folder.join("server.key"), &certificate_key, 0o600)?;
    write(&folder.join("server.pem"), &certificate, 0o644)?;
    Ok(Made { files, ca, names })
}

/// The authority, always under the same name and with the same key: its certificates are good under the first one.
fn authority() -> Result<CertificateParams> {
    let mut params = params(Vec::new(), AUTHORITY_FOR)?;
    params.distinguished_name.push(DnType::CommonName, "Countersign development");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn certificate(names: &[String], issuer: &Issuer<'_, impl SigningKey>) -> Result<(String, String)> {
    let mut params = params(names.to_vec(), CERTIFICATE_FOR)?;
    params.distinguished_name.push(DnType::CommonName, "countersign serve --dev-tls");
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("the system gives no key")?;
    let certificate = params.signed_by(&key, issuer).context("cannot make a certificate")?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn params(names: Vec<String>, good_for: Duration) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names).context("a name of this machine cannot be in a certificate")?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(BEFORE);
    params.not_after = epoch + now + good_for;
    let mut serial = [0; 16];
    getrandom::fill(&mut serial).context("the system gives no randomness")?;
    // A serial number is positive.
    let [first, ..] = &mut serial;
    *first &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

/// What clients may call this machine by.
fn names(listen: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string(), Ipv6Addr::LOCALHOST.to_string()];
    let machine = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let is_name = |name: &str| {
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        name.len() <= 253 && name.split('.').all(is_label)
    };
    let machine = Some(machine).filter(|name| is_name(name));
    let address = Some(listen).filter(|listen| !listen.is_unspecified()).map(|listen| listen.to_string());
    for name in machine.into_iter().chain(address) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Writes a file beside its name and renames it: there is never half a key.
fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).with_context(cannot),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new).with_context(cannot)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(cannot)?;
    fs::rename(&new, path).with_context(cannot)
}
