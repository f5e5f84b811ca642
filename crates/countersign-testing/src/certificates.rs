//! Authorities and certificates, made when a test needs them: what is checked in expires.

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Someone who issues certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, in PEM.
    pub pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
    serial: SerialNumber,
}

/// What is to be in a certificate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Host names and addresses.
    pub names: &'a [&'a str],
    /// URIs, such as a SPIFFE id.
    pub uris: &'a [&'a str],
    /// The key that it is for, in PEM; a new one unless given.
    pub key: Option<&'a str>,
    /// Whether it expired yesterday.
    pub is_expired: bool,
    /// Whether it is a client's, and not a server's.
    pub is_client: bool,
}

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = params(name, Wanted::default())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.extended_key_usages = Vec::new();
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// A server's certificate, for these names.
    pub fn server(&self, names: &[&str]) -> Result<Issued> {
        self.issue(Wanted { names, ..Wanted::default() })
    }

    /// A client's certificate, with these URIs.
    pub fn client(&self, uris: &[&str]) -> Result<Issued> {
        self.issue(Wanted { uris, is_client: true, ..Wanted::default() })
    }

    /// A certificate with all that is wanted.
    pub fn issue(&self, wanted: Wanted<'_>) -> Result<Issued> {
        let params = params("issued", wanted)?;
        let key = key(wanted)?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        let serial = params.serial_number.context("a serial number is always set")?;
        Ok(Issued { certificate, key: key.serialize_pem(), serial })
    }

    /// The list of what it has revoked, good until tomorrow.
    pub fn revoking(&self, revoked: &[&Issued]) -> Result<String> {
        self.revoking_until(revoked, DAY)
    }

    /// The same list, out of date already.
    pub fn revoking_until_yesterday(&self, revoked: &[&Issued]) -> Result<String> {
        self.revoking_until(revoked, Duration::ZERO)
    }

    fn revoking_until(&self, revoked: &[&Issued], next: Duration) -> Result<String> {
        let yesterday = rcgen::date_time_ymd(1970, 1, 1) + since_1970()?.saturating_sub(DAY);
        let revoked_certs = revoked.iter().map(|issued| RevokedCertParams {
            serial_number: issued.serial.clone(),
            revocation_time: yesterday,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: yesterday,
            next_update: yesterday + DAY / 2 + next,
            crl_number: serial(),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }
}

impl Issued {
    /// A certificate that no one but its own key vouches for.
    pub fn self_signed(wanted: Wanted<'_>) -> Result<Self> {
        let params = params("self-signed", wanted)?;
        let key = key(wanted)?;
        let certificate = params.self_signed(&key)?.pem();
        let serial = params.serial_number.context("a serial number is always set")?;
        Ok(Self { certificate, key: key.serialize_pem(), serial })
    }

    /// Writes both into a folder, as `NAME.pem` and `NAME.key`: the key first, as anyone does who replaces them one by one.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.join(format!("{name}.key"));
        std::fs::write(&path, &self.key)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        std::fs::write(folder.join(format!("{name}.pem")), &self.certificate)?;
        Ok(())
    }
}

fn key(wanted: Wanted<'_>) -> Result<KeyPair> {
    Ok(wanted.key.map_or_else(KeyPair::generate, KeyPair::from_pem)?)
}

fn params(name: &str, wanted: Wanted<'_>) -> Result<CertificateParams> {
    let names: Vec<String> = wanted.names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    for uri in wanted.uris {
        params.subject_alt_names.push(SanType::URI((*uri).try_into()?));
    }
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = since_1970()?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(3 * DAY);
    params.not_after = epoch + if wanted.is_expired { now.saturating_sub(DAY) } else { now + DAY };
    params.serial_number = Some(serial());
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![match wanted.is_client {
        true => ExtendedKeyUsagePurpose::ClientAuth,
        false => ExtendedKeyUsagePurpose::ServerAuth,
    }];
    Ok(params)
}

fn since_1970() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

/// Told apart within a process and, by the time, from those of others.
fn serial() -> SerialNumber {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    SerialNumber::from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes())
}
