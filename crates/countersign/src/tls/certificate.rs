//! The certificate that a client has shown, and whom it names.
//!
//! A certificate names an agent by its SPIFFE id, where the settings say how, and the holder of a key by its own key, if that is
//! an Ed25519 key. What it names restricts who may sign over its connection, and gives no one any right (I8).

use super::server::{Acceptor, Loaded};
use super::why::Why;
use countersign_core::identity::KeyName;
use countersign_core::ids::AgentId;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use webpki::EndEntityCert;

/// How long a certificate counts before it is looked at again, while no file changes: it may have expired, or the list that cleared it.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(30);

/// What the encoding of an Ed25519 public key begins with; the key is the rest (RFC 8410).
const ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The certificate of a connection, verified when it was opened.
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    named: Named,
    acceptor: Arc<Acceptor>,
    /// By which files it was verified last, and when.
    verified: Mutex<(Arc<Loaded>, Instant)>,
}

/// Whom a certificate names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Agents, by SPIFFE id. A certificate has one at the most; where one has several, no one is all of them.
    pub agents: Vec<AgentId>,
    /// Its own key.
    pub key: Option<KeyName>,
    /// A SPIFFE id that stands where agents do and whose rest is no name of one.
    pub unfit: Option<String>,
}

impl Certificate {
    pub(super) fn new(chain: Vec<CertificateDer<'static>>, acceptor: Arc<Acceptor>, loaded: Arc<Loaded>) -> Self {
        let named =
            chain.first().map_or_else(Named::default, |first| Named::of(first, acceptor.rules().spiffe.as_deref()));
        Self { chain, named, acceptor, verified: Mutex::new((loaded, Instant::now())) }
    }

    /// Whom it names.
    pub fn named(&self) -> &Named {
        &self.named
    }

    /// Whether it still counts: by the files as they are now, which may have revoked it since, and at this time.
    pub fn still_counts(&self) -> Result<(), Why> {
        let loaded = self.acceptor.loaded();
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&verified.0, &loaded) && verified.1.elapsed() < LOOKED_AT_EVERY {
            return Ok(());
        }
        loaded.verify(&self.chain)?;
        *verified = (loaded, Instant::now());
        Ok(())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate").field(&self.named).finish()
    }
}

impl Named {
    pub(super) fn of(certificate: &CertificateDer<'_>, spiffe: Option<&str>) -> Self {
        let Ok(read) = EndEntityCert::try_from(certificate) else {
            // It was verified, so it can be read; but one that names no one would let anyone sign.
            return Self { unfit: Some("it cannot be read".to_owned()), ..Self::default() };
        };
        let mut named = Self { key: key(&read.subject_public_key_info()), ..Self::default() };
        for rest in read.valid_uri_names().filter_map(|uri| uri.strip_prefix(spiffe?)) {
            match AgentId::new(rest) {
                Ok(agent) => named.agents.push(agent),
                Err(error) => named.unfit = Some(error.to_string()),
            }
        }
        named
    }
}

fn key(public: &[u8]) -> Option<KeyName> {
    Some(KeyName::of(public.strip_prefix(&ED25519)?.try_into().ok()?))
}
